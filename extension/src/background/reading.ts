/** The worker tools that only look: each takes checked arguments and gives a reply or throws a Failure. */

import {
  type ExtractArgs,
  type FindArgs,
  MAX_ELEMENTS,
  type ObserveArgs,
  type PageReply,
  type Rows,
  type ScreenshotArgs,
  type ScrollArgs,
  type WaitArgs,
} from "../wire";
import { type Context, left } from "./command";
import { Failure, isCutOff } from "./failure";
import { type FrameInfo, outwards } from "./frames";
import { Ops, pause, pick, type Pointing } from "./ops";
import type { Answer } from "./pages";
import { type Box, capture } from "./screenshot";
import { waitForTab } from "./tabs";

const LONG_POLL_MS = 5_000; // a request open for longer waits for news and says nothing about the page being busy

export class Reading extends Ops {
  async observe(tab: number, args: ObserveArgs, context: Context): Promise<PageReply> {
    const mode = args.mode ?? "summary";
    let elements = args.max_elements ?? MAX_ELEMENTS;
    let chars = args.max_chars ?? 12_000;
    const start = /^(?:f([0-9]{1,4})\.)?(o[0-9.]+)$/.exec(args.cursor ?? "");
    if (args.cursor !== undefined && start === null) throw new Failure("invalid-arguments", "This is no cursor");
    const from = Number(start?.[1] ?? 0);
    let text = "";
    let cursor = "";
    let left = "";
    let enough = true;
    let version = "";
    let children: FrameInfo[] | null = null;
    let main: Answer<Seen> | null = null;
    const asked = (frame: number, at: string | undefined): object => ({ mode, maxElements: elements, maxChars: chars, cursor: at, header: frame === 0 });
    const look = (frame: number, at: string | undefined): Promise<Answer<Seen>> => this.pages.call<Seen>(tab, frame, "observe", asked(frame, at), context);
    const add = (frame: number, seen: Seen): void => {
      const part = frame === 0 ? seen.text : seen.text === "" ? "" : `frame f${frame}:\n${seen.text}`;
      text += `${text === "" || part === "" ? "" : "\n"}${part}`;
      elements -= seen.elements;
      chars -= part.length + 1;
      if (seen.cursor === "" || cursor !== "") return;
      cursor = frame === 0 ? seen.cursor : `f${frame}.${seen.cursor}`;
      ({ left, enough } = seen);
    };
    if (from === 0) {
      main = await look(0, start?.[2]);
      version = main.ok.version;
      add(0, main.ok);
      if (enough && (main.ok.frames > 0 || args.cursor !== undefined)) children = await this.pages.children(tab);
    } else {
      children = await this.pages.children(tab);
      const at = children.findIndex((frame) => frame.number === from);
      if (at < 0) throw new Failure("stale-ref", "The frame of this cursor is gone", { refsValid: false, retryable: true, nextTool: "browser_page_observe" });
      add(from, (await look(from, start?.[2])).ok);
      children = children.slice(at + 1);
    }
    for (const frame of children ?? []) {
      if (!enough || elements < 1 || chars < 200) break;
      const seen = await this.pages.peek<Seen>(tab, frame, "observe", asked(frame.number, undefined), context);
      if (seen !== null && seen.ok.text !== "") {
        chars -= `frame f${frame.number}:\n`.length;
        add(frame.number, seen.ok);
      }
    }
    if (cursor !== "") text += `\n… ${left}: cursor=${cursor}`;
    const place = main ?? (await this.pages.call<{ version: string }>(tab, 0, "state", {}, context));
    this.tabs.checkPlace(place.url);
    return { text, cursor, url: place.url, title: place.title, version: version || place.ok.version };
  }

  async find(tab: number, args: FindArgs, context: Context): Promise<PageReply> {
    const limit = args.limit ?? 10;
    const main = await this.pages.call<{ text: string; version: string }>(tab, 0, "find", { query: args.query, role: args.role, limit }, context);
    this.tabs.checkPlace(main.url);
    let lines = main.ok.text === "" ? [] : main.ok.text.split("\n");
    if (lines.length < limit) {
      for (const frame of await this.pages.children(tab)) {
        const seen = await this.pages.peek<{ text: string }>(tab, frame, "find", { query: args.query, role: args.role, limit }, context);
        if (seen !== null && seen.ok.text !== "") lines.push(...seen.ok.text.split("\n"));
      }
      lines = lines.slice(0, limit);
    }
    return { text: lines.length === 0 ? "No matches" : lines.join("\n"), url: main.url, title: main.title, version: main.ok.version };
  }

  async extract(tab: number, args: ExtractArgs, context: Context): Promise<PageReply> {
    const pointing: Pointing = { ref: args.region_ref, target: args.target };
    const wanted = { ...pick(args, "kind", "region_ref", "target", "limit"), fields: args.fields ?? [], mainOnly: args.main_only ?? false };
    const answer = await this.inFrames(tab, pointing, context, async (frame) => {
      if (args.kind === "article") await this.pages.need(tab, frame, "article", context);
      const read = (still: boolean): Promise<Answer<Extracted>> => this.pages.call<Extracted>(tab, frame, "extract", { ...wanted, still }, context);
      const first = await read(true);
      return first.ok.scrolls === true ? await this.input.drawing(tab, () => read(false)) : first;
    });
    this.tabs.checkPlace(answer.url);
    const { text, rows, version } = answer.ok;
    return { text, ...(rows === null ? {} : { rows }), ...(await this.place(tab, answer)), version };
  }

  async scroll(tab: number, args: ScrollArgs, context: Context): Promise<PageReply> {
    const answer = await this.inFrames(tab, args, context, (frame) =>
      this.pages.call<{ text: string; version: string }>(tab, frame, "scroll", pick(args, "ref", "target", "viewports", "to"), context),
    );
    return { text: answer.ok.text, ...(await this.place(tab, answer)), version: answer.ok.version };
  }

  async wait(tab: number, args: WaitArgs, context: Context): Promise<PageReply> {
    const began = performance.now();
    const timeout = Math.min(args.timeout_ms ?? 10_000, left(context, 700));
    const rest = (): number => Math.max(0, timeout - (performance.now() - began));
    const watch = this.navigations.watch(tab);
    if (args.until === "load" || args.until === "url") {
      await waitForTab(watch, tab, args.until, args.url ?? "", timeout, this.navigations, context);
      return await this.tabs.arrived(tab, context, "completed");
    }
    context.signal.addEventListener("abort", () => {
      // The page's loop ends too; a page that is gone has none.
      this.pages.call(tab, 0, "cancel", { id: context.id }, { ...context, deadline: performance.now() + 2_000 }, false).catch(() => undefined);
    });
    for (;;) {
      try {
        const look = (frame: number): Promise<Answer<{ text: string; version: string }>> =>
          this.pages.call(tab, frame, "wait", { ...pick(args, "until", "text", "ref", "target"), timeout: rest() }, context);
        // What shall appear may appear in any frame.
        const anywhere = args.ref === undefined && (args.until === "text" || args.until === "visible");
        const children = anywhere ? (await this.pages.children(tab)).filter((frame) => !frame.silent) : [];
        const answer =
          children.length === 0
            ? await this.inFrames(tab, { ref: args.ref }, context, look)
            : await firstOf([0, ...children.map((frame) => frame.number)].map(look));
        if (args.until === "idle" && this.dbg.busy(tab, performance.now() - LONG_POLL_MS) && rest() > 0) {
          await pause(50);
          continue;
        }
        return { text: answer.ok.text, ...(await this.place(tab, answer)), version: answer.ok.version };
      } catch (error) {
        // The page went to another document meanwhile: go on waiting there.
        if (!isCutOff(error) || watch.closed || rest() <= 0) throw error;
        await watch.loaded({ ...context, deadline: performance.now() + rest() + 200 }, false, 100);
      }
    }
  }

  async screenshot(tab: number, args: ScreenshotArgs, context: Context): Promise<PageReply> {
    const wanted = args.ref !== undefined || args.target !== undefined;
    let box: Box | null = null;
    if (wanted) {
      box = await this.inFrames(tab, args, context, async (frame) => {
        const { ok } = await this.pages.call<Box & { scale: number }>(tab, frame, "box", pick(args, "ref", "target"), context);
        return frame === 0 ? ok : await this.#boxOfChild(tab, frame, ok, context);
      });
    }
    const page = await this.pages.call<Box & { viewWidth: number; viewHeight: number; pdf: boolean }>(tab, 0, "box", {}, context);
    const children = page.ok.pdf ? [] : await this.pages.children(tab); // a PDF's are its viewer's, closed to everybody
    if (box === null && args.full_page === true) box = page.ok;
    const { scale, viewWidth, viewHeight } = page.ok;
    if (box === null && viewWidth * viewHeight * scale * scale > 16_000_000) throw new Failure("too-large", "The viewport has too many pixels");
    const reply = await capture(tab, box === null ? { kind: "viewport" } : { kind: wanted ? "element" : "page", box }, children, this.pages, this.dbg, context);
    const { ok, url, title } = await this.pages.call<{ version: string }>(tab, 0, "state", {}, context);
    this.tabs.checkPlace(url);
    return { ...reply, url, title, version: ok.version };
  }

  /** A child frame's box in the main frame's page coordinates. */
  async #boxOfChild(tab: number, frame: number, box: Box, context: Context): Promise<Box> {
    const own = await this.pages.call<{ scrollX: number; scrollY: number }>(tab, frame, "box", {}, context);
    const middle = { x: box.x - own.ok.scrollX + box.width / 2, y: box.y - own.ok.scrollY + box.height / 2 };
    const { x, y, scale } = await outwards(this.pages, tab, frame, middle, context);
    const [width, height] = [box.width * scale, box.height * scale];
    const main = await this.pages.call<{ scrollX: number; scrollY: number }>(tab, 0, "box", {}, context);
    return { ...box, width, height, x: x - width / 2 + main.ok.scrollX, y: y - height / 2 + main.ok.scrollY };
  }
}

interface Seen {
  readonly text: string;
  readonly cursor: string;
  readonly left: string;
  readonly enough: boolean;
  readonly elements: number;
  readonly frames: number;
  readonly version: string;
}

interface Extracted {
  readonly text: string;
  readonly rows: Rows | null;
  readonly scrolls?: boolean;
  readonly version: string;
}

/** The first that succeeds; if none does, what the first one failed with. */
async function firstOf<T>(all: readonly Promise<T>[]): Promise<T> {
  try {
    return await Promise.any(all);
  } catch (error) {
    throw error instanceof AggregateError ? error.errors[0] : error;
  }
}
