/**
 * The worker tools as the extension runs them: each takes checked arguments and gives a reply or throws a Failure.
 *
 * Main frame first: where a call names an element by role and name, child frames are asked only if the main frame has
 * no such element. An action marks the state before, acts once, settles, and reports what changed.
 */

import {
  type Changes,
  type ClickArgs,
  type ExtractArgs,
  type FindArgs,
  type InputKind,
  MAX_ELEMENTS,
  type ObserveArgs,
  type PageReply,
  type PressArgs,
  type Rows,
  type ScreenshotArgs,
  type ScrollArgs,
  type SelectArgs,
  type Target,
  type TypeArgs,
  type WaitArgs,
} from "../wire";
import type { Settled } from "../page/settle";
import type { Debugger } from "./attachment";
import { type Context, left } from "./command";
import { Failure, isCutOff, toFailure } from "./failure";
import { DRAWN_MS, type FrameInfo, outwards } from "./frames";
import type { Input } from "./input";
import type { Navigations, Watch } from "./navigation";
import type { Answer, Pages } from "./pages";
import { type Box, capture } from "./screenshot";
import { dialogChange, type Tabs, waitForTab } from "./tabs";

interface Pointing {
  readonly ref?: string | undefined;
  readonly name?: string | undefined;
  readonly role?: string | undefined;
  readonly target?: Target | undefined;
}

/** A frame that left, or that no extension may read, has no element. */
const GONE: ReadonlySet<string> = new Set(["stale-ref", "error-page", "restricted-page"]);
const NETWORK_MS = 500; // what an action set going on the network may take before the reply goes out
const LONG_POLL_MS = 5_000; // a request open for longer waits for news and says nothing about the page being busy
const ARRIVAL_MS = 20; // between the browser's word that input was delivered and the page's own: either may be first
const BEGIN_MS = 1_000; // a navigation that the page announced begins within this, or never

export class Ops {
  constructor(
    private readonly pages: Pages,
    private readonly dbg: Debugger,
    private readonly input: Input,
    private readonly navigations: Navigations,
    private readonly tabs: Tabs,
  ) {}

  // -------------------------------------------------------------- reading

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
    const answer = await this.#inFrames(tab, pointing, context, async (frame) => {
      if (args.kind === "article") await this.pages.need(tab, frame, "article", context);
      const read = (still: boolean): Promise<Answer<Extracted>> => this.pages.call<Extracted>(tab, frame, "extract", { ...wanted, still }, context);
      const first = await read(true);
      return first.ok.scrolls === true ? await this.input.drawing(tab, () => read(false)) : first;
    });
    this.tabs.checkPlace(answer.url);
    const { text, rows, version } = answer.ok;
    return { text, ...(rows === null ? {} : { rows }), ...(await this.#place(tab, answer)), version };
  }

  async scroll(tab: number, args: ScrollArgs, context: Context): Promise<PageReply> {
    const answer = await this.#inFrames(tab, args, context, (frame) =>
      this.pages.call<{ text: string; version: string }>(tab, frame, "scroll", pick(args, "ref", "target", "viewports", "to"), context),
    );
    return { text: answer.ok.text, ...(await this.#place(tab, answer)), version: answer.ok.version };
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
            ? await this.#inFrames(tab, { ref: args.ref }, context, look)
            : await firstOf([0, ...children.map((frame) => frame.number)].map(look));
        if (args.until === "idle" && this.dbg.busy(tab, performance.now() - LONG_POLL_MS) && rest() > 0) {
          await pause(50);
          continue;
        }
        return { text: answer.ok.text, ...(await this.#place(tab, answer)), version: answer.ok.version };
      } catch (error) {
        // The page went to another document meanwhile: go on waiting there.
        if (!isCutOff(error) || watch.closed || rest() <= 0) throw error;
        await watch.loaded({ ...context, deadline: performance.now() + rest() + 200 }, false, 100);
      }
    }
  }

  async screenshot(tab: number, args: ScreenshotArgs, context: Context): Promise<PageReply> {
    const children = await this.pages.children(tab);
    const wanted = args.ref !== undefined || args.target !== undefined;
    let box: Box | null = null;
    if (wanted) {
      box = await this.#inFrames(tab, args, context, async (frame) => {
        const { ok } = await this.pages.call<Box & { scale: number }>(tab, frame, "box", pick(args, "ref", "target"), context);
        return frame === 0 ? ok : await this.#boxOfChild(tab, frame, ok, context);
      });
    }
    const page = await this.pages.call<Box & { viewWidth: number; viewHeight: number }>(tab, 0, "box", {}, context);
    if (box === null && args.full_page === true) box = page.ok;
    const { scale, viewWidth, viewHeight } = page.ok;
    if (box === null && viewWidth * viewHeight * scale * scale > 16_000_000) throw new Failure("too-large", "The viewport has too many pixels");
    const reply = await capture(tab, box === null ? { kind: "viewport" } : { kind: wanted ? "element" : "page", box }, children, this.pages, this.dbg, context);
    const { ok, url, title } = await this.pages.call<{ version: string }>(tab, 0, "state", {}, context);
    this.tabs.checkPlace(url);
    return { ...reply, url, title, version: ok.version };
  }

  // -------------------------------------------------------------- acting

  async click(tab: number, args: ClickArgs, context: Context): Promise<PageReply> {
    return await this.#inFrames(tab, args, context, (frame) => this.#click(tab, frame, pick(args, "ref", "name", "role", "target"), context));
  }

  async #click(tab: number, frame: number, pointing: Pointing, context: Context): Promise<PageReply> {
    const trusted = await this.input.trusted(tab, false);
    const before = await this.#before(tab);
    for (let attempt = 1; ; attempt++) {
      const { said, settled } = await this.#dispatchClick(tab, frame, pointing, trusted, context);
      const done = await this.#settle(tab, frame, before, context, settled);
      const guard = done.guard;
      if (!trusted || guard === "hit" || done.moved) {
        return reply(`Clicked ${said}`, done, trusted ? "trusted" : "synthetic");
      }
      // Swallowed, or never arrived: nothing happened, and Chrome's bar may just have moved the page. Once more.
      context.effect = false;
      if (frame !== 0) await pause(DRAWN_MS);
      if (attempt === 2) {
        if (guard === "missed") throw new Failure("covered", "Something else lies where the element was", { retryable: true, nextTool: "browser_page_observe" });
        throw new Failure("timeout", "The click did not reach the page", { retryable: true, nextTool: "browser_page_observe" });
      }
    }
  }

  /** Clicks by script, or sends the input; `settled`: what the page will say when that has arrived. */
  async #dispatchClick(tab: number, frame: number, pointing: Pointing, trusted: boolean, context: Context): Promise<Dispatched> {
    if (!trusted) {
      const { ok } = await this.#effective(context, () => this.pages.call<Aimed>(tab, frame, "click", pointing, context));
      return { said: ok.said, settled: null };
    }
    const { first, later } = await this.pages.callTwofold<Aimed, Settled>(tab, frame, "click", { ...pointing, wait: left(context, 1_000) }, context);
    const { x, y } = await outwards(this.pages, tab, frame, first.ok, context);
    context.effect = true;
    return { said: first.ok.said, settled: this.#delivered(tab, frame, this.input.click(tab, x, y), later, context) };
  }

  async type(tab: number, args: TypeArgs, context: Context): Promise<PageReply> {
    return await this.#inFrames(tab, args, context, (frame) => this.#type(tab, frame, args, context));
  }

  async #type(tab: number, frame: number, args: TypeArgs, context: Context): Promise<PageReply> {
    const trusted = await this.input.trusted(tab, false);
    const before = await this.#before(tab);
    const prepared = await this.#effective(context, () =>
      this.pages.call<{ said: string; byScript: boolean }>(
        tab,
        frame,
        "type",
        { ...pick(args, "ref", "target"), text: args.text, clear: args.clear ?? true, trusted },
        context,
      ),
    );
    let byScript = prepared.ok.byScript;
    if (!byScript) {
      await this.input.text(tab, args.text);
      byScript = (await this.pages.call<{ byScript: boolean }>(tab, frame, "typed", {}, context)).ok.byScript;
    }
    if (args.submit === true) {
      if (trusted) await this.input.press(tab, "Enter");
      else await this.#lastWords(() => this.pages.call(tab, frame, "enter", {}, context));
    }
    const done = await this.#settle(tab, frame, before, context);
    return reply(`Typed into ${prepared.ok.said}${args.submit === true ? " and pressed Enter" : ""}`, done, byScript ? "synthetic" : "trusted");
  }

  async press(tab: number, args: PressArgs, context: Context): Promise<PageReply> {
    return await this.#inFrames(tab, args, context, async (frame) => {
      const trusted = await this.input.trusted(tab, true);
      const before = await this.#before(tab);
      await this.#effective(context, () => this.pages.call(tab, frame, "press", { ...pick(args, "ref", "target"), key: args.key, trusted }, context));
      if (trusted) await this.input.press(tab, args.key);
      const done = await this.#settle(tab, frame, before, context);
      return reply(`Pressed ${args.key}`, done, trusted ? "trusted" : "synthetic");
    });
  }

  async select(tab: number, args: SelectArgs, context: Context): Promise<PageReply> {
    return await this.#inFrames(tab, args, context, (frame) => this.#select(tab, frame, args, context));
  }

  async #select(tab: number, frame: number, args: SelectArgs, context: Context): Promise<PageReply> {
    const before = await this.#before(tab);
    const chosen = await this.#effective(context, () =>
      this.pages.call<Chosen>(tab, frame, "select", pick(args, "ref", "target", "values", "checked"), context),
    );
    const { kind, said, done, ref } = chosen.ok;
    if (kind === "native") return reply(`Selected in ${said}`, await this.#settle(tab, frame, before, context), "synthetic");
    context.effect = false;
    if (kind === "check") {
      if (done) return { text: `${said} is so already`, ...(await this.#placeNow(tab, context)) };
      const clicked = await this.#click(tab, frame, { ref }, context);
      const after = await this.pages.call<Chosen>(tab, frame, "select", { ref, checked: args.checked }, context).catch(() => null); // re-rendered: the reply says what was seen
      if (after !== null && !after.ok.done) throw new Failure("internal", "The element did not take the new state", { mayHaveEffect: true, nextTool: "browser_page_observe" });
      return { ...clicked, text: `Set ${said}`, changes: { ...clicked.changes, checked: args.checked === true } };
    }
    let last: PageReply = {};
    for (const value of args.values ?? []) {
      let option = (await this.pages.call<Option>(tab, frame, "option", { ref, value, timeout: 0 }, context)).ok;
      if (option.ref === "") {
        await this.#click(tab, frame, { ref }, context);
        option = (await this.pages.call<Option>(tab, frame, "option", { ref, value, timeout: Math.min(2_000, left(context, 800)) }, context)).ok;
      }
      if (!option.chosen) last = await this.#click(tab, frame, { ref: option.ref }, context);
    }
    return { ...last, ...(await this.#placeNow(tab, context)), text: `Selected in ${said}` };
  }

  // -------------------------------------------------------------- helpers

  /** Runs `work` in the frame that the arguments point at; by role and name in the first frame that has such an element. */
  async #inFrames<T>(tab: number, pointing: Pointing, context: Context, work: (frame: number) => Promise<T>): Promise<T> {
    const number = /^f([0-9]+)e/.exec(pointing.ref ?? "")?.[1];
    if (number !== undefined) return await work(Number(number));
    try {
      return await work(0);
    } catch (error) {
      if (!(error instanceof Failure) || error.code !== "not-found" || pointing.ref !== undefined) throw error;
      for (const frame of await this.pages.children(tab)) {
        if (frame.silent) continue;
        try {
          return await work(frame.number);
        } catch (inner) {
          // Every other failure is the answer of the frame that has the element.
          if (context.effect || (toFailure(inner).code !== "not-found" && !GONE.has(toFailure(inner).code))) throw inner;
        }
      }
      throw error;
    }
  }

  /** A call that acts inside the page: a fault means nothing was done, silence means something may have been. */
  async #effective<T>(context: Context, call: () => Promise<Answer<T>>): Promise<Answer<T>> {
    const before = context.effect;
    context.effect = true;
    try {
      return await call();
    } catch (error) {
      if (error instanceof Failure && error.untouched) context.effect = before;
      throw error;
    }
  }

  /** A call whose answer may be lost because the page leaves. */
  async #lastWords(call: () => Promise<unknown>): Promise<void> {
    try {
      await call();
    } catch (error) {
      if (!isCutOff(error)) throw error;
    }
  }

  async #before(tab: number): Promise<Before> {
    this.dbg.takeDialog(tab);
    return { watch: this.navigations.watch(tab), dialogs: tab, began: performance.now() };
  }

  /** What the page says of trusted input once it has arrived. Throws if the browser refuses the input. */
  async #delivered(tab: number, frame: number, input: Promise<void>, answer: Promise<Answer<Settled>>, context: Context): Promise<Answer<Settled>> {
    let open = true;
    const delivered = input.then(async () => {
      await pause(ARRIVAL_MS);
      // What the page has not seen by now went to another frame, or nowhere.
      if (open) await this.pages.call(tab, frame, "arrived", {}, context, false);
      return await answer;
    });
    try {
      return await Promise.race([answer, delivered]);
    } finally {
      open = false;
      delivered.catch(() => undefined); // the answer came first
    }
  }

  /** Waits for what the action set going, within bounds, and says what changed. */
  async #settle(tab: number, frame: number, before: Before, context: Context, asked: Promise<Answer<Settled>> | null = null): Promise<Done> {
    const { watch } = before;
    let began = performance.now();
    let took = 0;
    const spent = (): number => took + Math.round((performance.now() - began) * 1_000);
    let settled: Answer<Settled> | null = null;
    try {
      settled = await (asked ?? this.pages.call<Settled>(tab, frame, "settle", {}, context, false));
      took = settled.ok.took;
      began = performance.now();
      const end = performance.now() + Math.min(NETWORK_MS, left(context, 1_000));
      let waited = false;
      while (!settled.ok.leaving && !watch.started && this.dbg.busy(tab, before.began) && performance.now() < end) {
        waited = true;
        await pause(20);
      }
      if (waited && !watch.started) {
        const later = await this.pages.call<Settled>(tab, frame, "settle", {}, context, false);
        settled = { ...settled, ok: { ...settled.ok, page: settled.ok.page || later.ok.version !== settled.ok.version, version: later.ok.version } };
      }
    } catch (error) {
      if (!isCutOff(error)) throw error; // the document is leaving
    }
    let moved = false;
    let failed = "";
    if (settled === null || settled.ok.leaving || watch.started) {
      if (await watch.begun(BEGIN_MS, context)) {
        const end = await watch.loaded(context, true);
        moved = end !== "nothing" && end !== "same-document";
        if (typeof end === "object") failed = end.error;
      }
    }
    const changes: Changes = {
      ...(settled?.ok.url === true || moved ? { url: true } : {}),
      ...(settled?.ok.page === true || moved ? { page: true } : {}),
      ...(settled?.ok.focus === true ? { focus: true } : {}),
      ...(settled?.ok.value === true ? { value: true } : {}),
      ...(settled === null || settled.ok.valueLength === null ? {} : { valueLength: settled.ok.valueLength }),
      ...(settled === null || settled.ok.checked === null ? {} : { checked: settled.ok.checked }),
      ...(watch.newTab === undefined ? {} : { newTab: watch.newTab }),
      ...dialogChange(this.dbg.takeDialog(before.dialogs)),
    };
    const guard = settled?.ok.guard ?? "none";
    if (watch.closed) return { changes, guard, moved: true, failed, url: "", title: "", version: "", settleUs: spent() };
    if (!moved && settled !== null && frame === 0) {
      return { changes, guard, moved, failed, url: settled.url, title: settled.title, version: settled.ok.version, settleUs: spent() };
    }
    const place = failed === "" ? await this.tabs.arrived(tab, context, "completed") : await this.#placeByTab(tab);
    return { changes, guard, moved, failed, url: place.url ?? "", title: place.title ?? "", version: place.version ?? "", settleUs: spent() };
  }

  async #placeByTab(tab: number): Promise<PageReply> {
    const found = await chrome.tabs.get(tab);
    return { url: found.url ?? "", title: found.title ?? "" };
  }

  async #placeNow(tab: number, context: Context): Promise<PageReply> {
    const { ok, url, title } = await this.pages.call<{ version: string }>(tab, 0, "state", {}, context);
    return { url, title, version: ok.version };
  }

  /** The tab's address and title: a child frame's answer tells its own. */
  async #place(tab: number, answer: Answer<unknown>): Promise<{ url: string; title: string }> {
    const found = await chrome.tabs.get(tab).catch(() => null); // closing: what the frame said will do
    return found === null ? { url: answer.url, title: answer.title } : { url: found.url ?? answer.url, title: found.title ?? answer.title };
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

interface Aimed {
  readonly x: number;
  readonly y: number;
  readonly said: string;
}

interface Dispatched {
  readonly said: string;
  readonly settled: Promise<Answer<Settled>> | null;
}

interface Chosen {
  readonly said: string;
  readonly done: boolean;
  readonly kind: "native" | "check" | "aria";
  readonly ref: string;
}

interface Option {
  readonly ref: string;
  readonly chosen: boolean;
}

interface Before {
  readonly watch: Watch;
  readonly dialogs: number;
  readonly began: number;
}

interface Done {
  readonly changes: Changes;
  readonly guard: Settled["guard"];
  /** Another document stands in the tab, or the tab is gone. */
  readonly moved: boolean;
  readonly failed: string;
  readonly url: string;
  readonly title: string;
  readonly version: string;
  readonly settleUs: number;
}

/** The first that succeeds; if none does, what the first one failed with. */
async function firstOf<T>(all: readonly Promise<T>[]): Promise<T> {
  try {
    return await Promise.any(all);
  } catch (error) {
    throw error instanceof AggregateError ? error.errors[0] : error;
  }
}

const pause = (ms: number): Promise<void> => new Promise((done) => setTimeout(done, ms));

/** The named fields of `args` that are there. */
function pick<T extends object, K extends keyof T>(args: T, ...names: K[]): Pick<T, K> {
  const out: Partial<Pick<T, K>> = {};
  for (const name of names) if (args[name] !== undefined && args[name] !== null) out[name] = args[name];
  return out as Pick<T, K>;
}

/** The bridge puts the changes into words; only what it can't know is said here. */
function reply(said: string, done: Done, input: InputKind): PageReply {
  const text = done.failed === "" ? said : `${said}; the page it leads to did not load`;
  return { text, url: done.url, title: done.title, version: done.version, input, changes: done.changes, settleUs: done.settleUs };
}
