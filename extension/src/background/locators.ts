/**
 * Locators as the extension runs them: captured in the element's frame and marked with that frame, tried again there.
 *
 * A frame's mark is what says which it is in any load of the page: its address without query, its name, its depth. A
 * frame that the page can't be asked about, or that two marks fit, is refused: a locator found in the wrong document is worse
 * than none. The page runtime does the rest (`page/locator.ts`).
 */

import type { Locator, LocatorArgs, LocatorFrame, PageReply } from "../wire";
import type { Context } from "./command";
import { Failure } from "./failure";
import type { FrameInfo, Seat } from "./frames";
import type { Answer, Pages } from "./pages";
import type { Tabs } from "./tabs";

interface Captured {
  readonly locator: Locator;
  readonly said: string;
  readonly version: string;
}

interface Found {
  readonly text: string;
  readonly version: string;
}

const MAX_DEPTH = 16;

export class Locators {
  constructor(
    private readonly pages: Pages,
    private readonly tabs: Tabs,
  ) {}

  async capture(tab: number, args: LocatorArgs, context: Context): Promise<PageReply> {
    const pointing = args.ref !== undefined && args.ref !== null ? { ref: args.ref } : { target: args.target };
    const named = Number(/^f([0-9]+)e/.exec(args.ref ?? "")?.[1] ?? 0);
    const ask = (frame: number): Promise<Answer<Captured>> => this.pages.call<Captured>(tab, frame, "locator", pointing, context);
    let frame = named;
    let answer: Answer<Captured>;
    try {
      answer = await ask(frame);
    } catch (error) {
      if (!isNotFound(error) || args.target === undefined) throw error;
      [frame, answer] = await this.#inChildren(tab, error, ask);
    }
    const mark = frame === 0 ? undefined : await this.#markOf(tab, frame, context);
    const { locator, said, version } = answer.ok;
    return { text: said, locator: mark === undefined ? locator : { ...locator, frame: mark }, version, ...(await this.#place(tab, answer)) };
  }

  /** Tries a locator again; the reply names the element by a fresh ref. */
  async locate(tab: number, locator: Locator, context: Context): Promise<PageReply> {
    const frame = locator.frame === undefined ? 0 : await this.#frameOf(tab, locator.frame, context);
    const answer = await this.pages.call<Found>(tab, frame, "locate", { locator }, context);
    return { text: answer.ok.text, version: answer.ok.version, ...(await this.#place(tab, answer)) };
  }

  async #inChildren(tab: number, absent: unknown, ask: (frame: number) => Promise<Answer<Captured>>): Promise<[number, Answer<Captured>]> {
    for (const { number, silent } of await this.pages.children(tab)) {
      if (silent) continue;
      try {
        return [number, await ask(number)];
      } catch (error) {
        if (!isNotFound(error)) throw error;
      }
    }
    throw absent;
  }

  async #markOf(tab: number, frame: number, context: Context): Promise<LocatorFrame> {
    const frames = await this.pages.children(tab);
    const mark = await this.#mark(tab, frames, frame, context);
    if (mark === null) throw new Failure("invalid-arguments", "The element's frame can't be told in its page", { nextTool: "browser_page_observe" });
    return mark;
  }

  async #mark(tab: number, frames: readonly FrameInfo[], frame: number, context: Context): Promise<LocatorFrame | null> {
    const depth = depthOf(frames, frame);
    if (depth === null) return null;
    const { ok } = await this.pages.call<Seat>(tab, frame, "seat", {}, context);
    return { url: bare(ok.url), name: ok.name.slice(0, 200), depth };
  }

  async #frameOf(tab: number, wanted: LocatorFrame, context: Context): Promise<number> {
    const frames = await this.pages.children(tab);
    const fitting: number[] = [];
    for (const { number, silent } of frames) {
      const mark = silent ? null : await this.#mark(tab, frames, number, context);
      if (mark !== null && mark.url === wanted.url && mark.name === (wanted.name ?? "") && mark.depth === (wanted.depth ?? 1)) fitting.push(number);
    }
    const [frame] = fitting;
    if (frame === undefined || fitting.length > 1) {
      throw new Failure("not-found", "The page has no frame that the locator provably means", { retryable: true, nextTool: "browser_page_observe" });
    }
    return frame;
  }

  async #place(tab: number, answer: Answer<unknown>): Promise<{ url: string; title: string }> {
    const found = await chrome.tabs.get(tab).catch(() => null); // closing: what the frame said will do
    const place = { url: found?.url ?? answer.url, title: found?.title ?? answer.title };
    this.tabs.checkPlace(place.url);
    return place;
  }
}

const isNotFound = (error: unknown): boolean => error instanceof Failure && error.code === "not-found";
const bare = (url: string): string => (url.split(/[?#]/)[0] ?? "").slice(0, 4_096);

/** How many frames it is in; null if one of them is unknown. */
function depthOf(frames: readonly FrameInfo[], number: number): number | null {
  let at = frames.find((one) => one.number === number);
  for (let depth = 1; at !== undefined && depth <= MAX_DEPTH; depth++) {
    const above: number = at.parentFrameId;
    if (above === 0) return depth;
    at = frames.find((one) => one.frameId === above);
  }
  return null;
}
