/**
 * Child frames as seen from their parent: which element shows a frame, and where a point of it is drawn.
 *
 * A frame is bound to its element by `window[i] === contentWindow`, or, below shadow roots, by what it says of itself.
 * A point is brought into view by scrolling as little as needed; it is covered if something of this document lies there.
 */

import type { Seat } from "../background/frames";
import { attr, elementAt, flatContains, flatParent, queryAll, rectOf, rootElement, shadowOf } from "./dom";
import { Fault } from "./fault";

const FRAMES = "iframe,frame,object,embed";

/** Where this frame sits in its parent, and what tells it apart there if it is in no list of frames. */
export function seat(): Seat {
  const said = { width: innerWidth, height: innerHeight, name: window.name.slice(0, 200), url: location.href.slice(0, 2_000) };
  for (let i = 0; i < window.parent.length; i++) if (window.parent[i] === window) return { index: i, ...said };
  return { index: -1, ...said };
}

/** A point of a child frame's viewport in this frame's. Throws `not-visible`, `covered`. */
export function frameSpot(args: { readonly seat: Seat; readonly x: number; readonly y: number }): { x: number; y: number; scale: number; moved: boolean } {
  const el = frameAt(args.seat);
  const before = rectOf(el);
  let spot = drawn(el, args.x, args.y);
  for (let box = flatParent(el); box !== null; box = flatParent(box)) {
    if (box.scrollHeight <= box.clientHeight && box.scrollWidth <= box.clientWidth) continue;
    const rect = rectOf(box);
    if (spot.x >= rect.left && spot.x <= rect.right && spot.y >= rect.top && spot.y <= rect.bottom) continue;
    if (getComputedStyle(box).overflow === "visible") continue;
    box.scrollBy({ left: spot.x - (rect.left + rect.right) / 2, top: spot.y - (rect.top + rect.bottom) / 2, behavior: "instant" });
    spot = drawn(el, args.x, args.y);
  }
  if (spot.x < 0 || spot.y < 0 || spot.x >= innerWidth || spot.y >= innerHeight) {
    window.scrollBy({ left: spot.x - innerWidth / 2, top: spot.y - innerHeight / 2, behavior: "instant" });
    spot = drawn(el, args.x, args.y);
  }
  const hit = elementAt(spot.x, spot.y);
  if (hit === null) throw new Fault("not-visible", "The frame is not in view there", { retryable: true, next: "browser_page_observe" });
  if (!flatContains(el, hit)) throw new Fault("covered", "The frame is covered by another element there", { retryable: true, next: "browser_page_observe" });
  const after = rectOf(el);
  return { ...spot, moved: after.x !== before.x || after.y !== before.y };
}

function drawn(el: HTMLElement, x: number, y: number): { x: number; y: number; scale: number } {
  const rect = rectOf(el);
  const scale = el.offsetWidth > 0 ? rect.width / el.offsetWidth : 1; // a CSS transform of the frame or of what it lies in
  const style = getComputedStyle(el);
  return {
    x: rect.x + (el.clientLeft + parseFloat(style.paddingLeft) + x) * scale,
    y: rect.y + (el.clientTop + parseFloat(style.paddingTop) + y) * scale,
    scale,
  };
}

/** The element of a child frame. Throws `not-visible` if it can't be told from others. */
function frameAt(place: Seat): HTMLIFrameElement {
  const root = rootElement(document);
  let found: HTMLIFrameElement[] = [];
  if (root !== null && place.index >= 0) {
    const child = window[place.index];
    found = (queryAll(root, FRAMES) as HTMLIFrameElement[]).filter((el) => el.contentWindow === child);
  } else if (root !== null) {
    found = shadowFrames(root).filter((el) => sameSize(el, place));
    for (const same of [sameName, sameUrl]) {
      const better = found.filter((el) => same(el, place));
      if (found.length > 1 && better.length > 0) found = better;
    }
  }
  if (found.length !== 1 || found[0] === undefined) throw new Fault("not-visible", "The frame can't be told from others in its page", { next: "browser_page_observe" });
  return found[0];
}

const sameName = (el: Element, place: Seat): boolean => (attr(el, "name") ?? "") === place.name;
const sameUrl = (el: HTMLIFrameElement, place: Seat): boolean => el.src === place.url;

function sameSize(el: HTMLElement, place: Seat): boolean {
  const style = getComputedStyle(el);
  const width = el.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
  const height = el.clientHeight - parseFloat(style.paddingTop) - parseFloat(style.paddingBottom);
  return Math.abs(width - place.width) < 1.5 && Math.abs(height - place.height) < 1.5; // both sides round
}

/** Frames below shadow roots, closed ones included. */
function shadowFrames(root: Element): HTMLIFrameElement[] {
  const found: HTMLIFrameElement[] = [];
  const visit = (scope: Element | ShadowRoot, inside: boolean): void => {
    if (inside) found.push(...(queryAll(scope, FRAMES) as HTMLIFrameElement[]));
    for (const el of queryAll(scope, "*")) {
      const shadow = shadowOf(el);
      if (shadow !== null) visit(shadow, true);
    }
  };
  visit(root, false);
  return found;
}

/** Elements of all frames but those with these indices; frames below shadow roots have none. */
export function framesBut(indices: readonly number[]): HTMLElement[] {
  const root = rootElement(document);
  if (root === null) return [];
  const kept = new Set(indices.filter((index) => index >= 0).map((index) => window[index]));
  const all = [...(queryAll(root, FRAMES) as HTMLIFrameElement[]), ...shadowFrames(root)];
  return all.filter((el) => el.contentWindow === null || el.contentWindow === undefined || !kept.has(el.contentWindow));
}
