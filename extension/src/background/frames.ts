/**
 * The frames of a tab: which there are, which of them answer, whose they are and where they are drawn.
 *
 * Two lists are joined: the browser's, which leaves out `blob:` frames, and what a script in every frame says of itself.
 * A frame knows its place by `window.parent[i] === window`, which works across origins and which the page can't see. A
 * frame below a shadow root is in no such list: it is known by its size, name and address among those below shadow
 * roots of its parent, or not at all. A frame whose script never ends is `silent` and asked nothing until it answers,
 * so it holds up nothing around it.
 */

import { type Context, within } from "./command";
import { Failure } from "./failure";
import type { Pages } from "./pages";
import type { Session } from "./session";

export interface FrameInfo {
  readonly number: number;
  readonly documentId: string;
  readonly frameId: number;
  readonly parentFrameId: number;
  /** Did not answer just now: its process is busy. */
  readonly silent: boolean;
}

const MAX_FRAMES = 30; // child frames looked into by one command
const PROBE_MS = 400; // an idle frame answers in some ten; longer, and the page around it would wait noticeably
/** Input finds frames of other processes where they were last drawn: after scrolling they must be drawn anew. */
export const DRAWN_MS = 100;
const MAX_DEPTH = 16; // of frames in frames

interface Found {
  readonly frameId: number;
  readonly documentId: string;
  /** Indices from the main frame down; -1 where a frame is not in its parent's list. */
  readonly path: readonly number[];
}

/** Runs in every frame: its place. Self-contained, because it is sent as text. */
function place(): number[] {
  const path: number[] = [];
  for (let frame: Window = window; frame !== frame.parent && path.length < 17; frame = frame.parent) {
    let index = -1;
    for (let i = 0; i < frame.parent.length; i++) {
      if (frame.parent[i] === frame) {
        index = i;
        break;
      }
    }
    path.unshift(index);
  }
  return path;
}

export class FrameList {
  readonly #session: Session;
  /** Scripts sent to all frames of a tab, or to one document, that have not come back. */
  readonly #asked = new Map<string, Promise<Found[]>>();

  constructor(session: Session) {
    this.#session = session;
  }

  /** Child frames in the browser's order, numbered; frames that show an error page are left out. */
  async list(tab: number): Promise<FrameInfo[]> {
    const [all, found] = await Promise.all([chrome.webNavigation.getAllFrames({ tabId: tab }), this.#find(tab, undefined)]);
    const known = (all ?? []).filter((frame) => frame.frameId !== 0 && !frame.errorOccurred && frame.documentLifecycle === "active").slice(0, MAX_FRAMES);
    const silent = new Set<string>();
    if (found === null) {
      const answers = await Promise.all(known.map((frame) => this.#find(tab, frame.documentId)));
      known.forEach((frame, i) => {
        if (answers[i] === null) silent.add(frame.documentId);
      });
    }
    const unlisted = (found ?? []).filter((one) => one.frameId !== 0 && !(all ?? []).some((frame) => frame.frameId === one.frameId));
    const frames = known.map(({ documentId, frameId, parentFrameId }) => ({ documentId, frameId, parentFrameId }));
    for (const { frameId, documentId, path } of unlisted.slice(0, MAX_FRAMES - frames.length)) {
      frames.push({ documentId, frameId, parentFrameId: parentOf(path, found ?? []) });
    }
    return frames.map((frame) => ({ ...frame, number: this.#session.frameNumber(tab, frame.documentId), silent: silent.has(frame.documentId) }));
  }

  /** What all frames (or one document) say of themselves; null if they do not all answer soon. Never asks twice at a time. */
  async #find(tab: number, documentId: string | undefined): Promise<Found[] | null> {
    const key = `${tab} ${documentId ?? ""}`;
    if (this.#asked.has(key)) return null;
    const target = documentId === undefined ? { tabId: tab, allFrames: true } : { tabId: tab, documentIds: [documentId] };
    const asked = chrome.scripting
      .executeScript({ target, func: place, injectImmediately: true })
      .then((results) => results.map(({ frameId, documentId: id, result }) => ({ frameId, documentId: id, path: result ?? [] })))
      .catch((): Found[] => []) // left meanwhile, or may not be touched: there is nothing to wait for
      .finally(() => this.#asked.delete(key));
    this.#asked.set(key, asked);
    return await within<Found[] | null>(asked, PROBE_MS, () => new Failure("timeout", "A frame did not answer")).catch(() => null); // silent
  }
}

/** The frame id of a path's parent; -1 if it can't be told. */
function parentOf(path: readonly number[], found: readonly Found[]): number {
  const above = path.slice(0, -1);
  if (above.includes(-1)) return -1;
  return found.find((one) => one.path.length === above.length && one.path.every((index, i) => index === above[i]))?.frameId ?? -1;
}

/** One step outwards: how to find the frame's element in its parent. */
interface Link {
  readonly parent: number;
  readonly seat: Seat;
}

/** Where a frame sits in its parent: `index` in `window`, or below a shadow root, known by what it says of itself. */
export interface Seat {
  readonly index: number;
  readonly width: number;
  readonly height: number;
  readonly name: string;
  readonly url: string;
}

/** A point of a frame's viewport in the main frame's; `scale`: main frame pixels to one of the frame's. */
export interface Spot {
  readonly x: number;
  readonly y: number;
  readonly scale: number;
}

/**
 * A point of a child frame's viewport as a point of the main frame's, brought into view on the way.
 * Throws `not-visible` if a frame's element can't be found or told from others, `covered` if another element lies there.
 */
export async function outwards(pages: Pages, tab: number, frame: number, point: { x: number; y: number }, context: Context): Promise<Spot> {
  let spot: Spot = { x: point.x, y: point.y, scale: 1 };
  let moved = false;
  if (frame === 0) return spot;
  for (const { parent, seat } of await chainOf(pages, tab, frame, context)) {
    const { ok } = await pages.call<Spot & { moved: boolean }>(tab, parent, "frameSpot", { seat, x: spot.x, y: spot.y }, context);
    spot = { x: ok.x, y: ok.y, scale: spot.scale * ok.scale };
    moved ||= ok.moved;
  }
  if (moved) await new Promise((done) => setTimeout(done, DRAWN_MS));
  return spot;
}

/** The frames between `frame` and the main frame, innermost first. */
async function chainOf(pages: Pages, tab: number, frame: number, context: Context): Promise<Link[]> {
  const frames = await pages.children(tab);
  const chain: Link[] = [];
  let current = frames.find((one) => one.number === frame);
  while (current !== undefined) {
    if (chain.length === MAX_DEPTH) throw unfound();
    const { ok } = await pages.call<Seat>(tab, current.number, "seat", {}, context);
    const above = current.parentFrameId;
    const parent = frames.find((one) => one.frameId === above);
    if (above !== 0 && parent === undefined) throw unfound();
    chain.push({ parent: parent?.number ?? 0, seat: ok });
    current = parent;
  }
  return chain;
}

const unfound = (): Failure => new Failure("not-visible", "The frame can't be found in its page", { nextTool: "browser_page_observe" });
