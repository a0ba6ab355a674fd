/**
 * Gestures other than the plain click: where they go, and how a script makes them.
 *
 * By script there is no CSS `:hover`, no captured pointer and no drag of Chrome's own: the events are there (with a real
 * `DataTransfer` that a page may fill and read), what the browser itself would do is not.
 */

import { type Aim, aim } from "./act";
import { attr, closest, elementAt, flatContains, flatParent, has, rectOf, tagOf } from "./dom";
import { Fault } from "./fault";
import { turn } from "./turns";

const STEPS = 8; // moves between the ends of a drag: lists that sort need to see what lies between
const BEYOND = 0.15; // of the end's size past its middle, in the direction of the drag

export interface Spot {
  readonly x: number;
  readonly y: number;
}

export interface DragAim {
  readonly from: Aim;
  readonly to: Spot;
  /** A little past the middle of the end, still on it. */
  readonly beyond: Spot;
  /** The browser may make a drag of its own of it. */
  readonly native: boolean;
}

/** Both ends of a drag, in view together. Throws what `aim` throws, and `not-visible` if one view can't hold both. */
export function aimDrag(el: Element, end: Element): DragAim {
  let from = aim(el);
  let rect = rectOf(end);
  if (!inView(rect)) {
    end.scrollIntoView({ block: "nearest", inline: "nearest", behavior: "instant" });
    from = aim(el); // scrolls back if it has left the view
    rect = rectOf(end);
  }
  if (rect.width < 1 || rect.height < 1 || !inView(rect)) {
    throw new Fault("not-visible", "The element and the end of the drag can't be seen together", { retryable: true, next: "browser_page_scroll" });
  }
  const to = middle(rect);
  const length = Math.hypot(to.x - from.x, to.y - from.y) || 1;
  const beyond = {
    x: Math.min(Math.max(to.x + ((to.x - from.x) / length) * rect.width * BEYOND, 0), innerWidth - 1),
    y: Math.min(Math.max(to.y + ((to.y - from.y) / length) * rect.height * BEYOND, 0), innerHeight - 1),
  };
  return { from, to, beyond, native: draggable(from.hit) !== null };
}

/** From the handle of a slider to the place on its track that stands for `part` (0 to 1) of its range. */
export function aimSlide(handle: Element, part: number): DragAim {
  const from = aim(handle);
  const own = rectOf(handle);
  const upright = attr(handle, "aria-orientation") === "vertical";
  const track = closest(handle, (node) => {
    const rect = rectOf(node);
    return node !== handle && (upright ? rect.height > 2 * own.height : rect.width > 2 * own.width);
  });
  if (track === null) throw new Fault("invalid-arguments", "The slider has no track to move along; press keys on it", { next: "browser_page_press" });
  const rect = rectOf(track);
  const to = upright ? { x: from.x, y: rect.bottom - rect.height * part } : { x: rect.left + rect.width * part, y: from.y };
  return { from, to, beyond: to, native: false };
}

const middle = (rect: DOMRect): Spot => ({ x: rect.left + rect.width / 2, y: rect.top + rect.height / 2 });

function inView(rect: DOMRect): boolean {
  const { x, y } = middle(rect);
  return x >= 0 && y >= 0 && x < innerWidth && y < innerHeight;
}

/** What the browser would drag from here; links and pictures may be dragged unless they say no. */
function draggable(el: Element): Element | null {
  return closest(el, (node) => {
    const said = attr(node, "draggable");
    return said === "true" || (said !== "false" && ((tagOf(node) === "a" && has(node, "href")) || tagOf(node) === "img"));
  });
}

// ---------------------------------------------------------------- by script

const send = (el: Element, event: Event): boolean => EventTarget.prototype.dispatchEvent.call(el, event);

type Names = "over" | "enter" | "move" | "down" | "up" | "out" | "leave";

/** A pointer event and its mouse event; false if the page prevented either. */
function both(el: Element, name: Names, at: Spot, more: MouseEventInit = {}): boolean {
  const bubbles = name !== "enter" && name !== "leave";
  const base = { bubbles, cancelable: bubbles, composed: true, view: window, clientX: at.x, clientY: at.y, ...more };
  const pointer = send(el, new PointerEvent(`pointer${name}`, { ...base, pointerId: 1, pointerType: "mouse", isPrimary: true }));
  return send(el, new MouseEvent(`mouse${name}`, base)) && pointer;
}

/** The pointer arrives on an element, entering everything around it. */
export function syntheticHover(at: Aim): void {
  both(at.hit, "over", at);
  for (const el of outermostFirst(at.hit)) both(el, "enter", at);
  both(at.hit, "move", at);
}

function outermostFirst(el: Element): Element[] {
  const chain: Element[] = [];
  for (let node: Element | null = el; node !== null; node = flatParent(node)) chain.unshift(node);
  return chain;
}

/** After two clicks: what tells a page that they were one gesture. */
export function syntheticDouble(at: Aim): void {
  send(at.hit, new MouseEvent("dblclick", { bubbles: true, cancelable: true, composed: true, view: window, clientX: at.x, clientY: at.y, detail: 2 }));
}

export function syntheticContext(at: Aim): void {
  const right = { button: 2, detail: 1 };
  syntheticHover(at);
  both(at.hit, "down", at, { ...right, buttons: 2 });
  both(at.hit, "up", at, right);
  const base = { bubbles: true, cancelable: true, composed: true, view: window, clientX: at.x, clientY: at.y };
  send(at.hit, new PointerEvent("contextmenu", { ...base, button: 2, pointerType: "mouse" }));
}

/** A whole drag: Chrome's own kind where the element is made for it and the page lets it begin, by the mouse otherwise. */
export async function syntheticDrag(aimed: DragAim): Promise<void> {
  const { from, to, beyond } = aimed;
  const held = { buttons: 1 };
  syntheticHover(from);
  both(from.hit, "down", from, { ...held, detail: 1 });
  const source = aimed.native ? draggable(from.hit) : null;
  if (source !== null && (await dragByData(source, from, beyond))) return;
  let last: Element = from.hit;
  for (let step = 0; step <= STEPS + 1; step++) {
    const part = step / STEPS;
    const at = step > STEPS ? beyond : { x: from.x + (to.x - from.x) * part, y: from.y + (to.y - from.y) * part };
    last = elementAt(at.x, at.y) ?? last;
    both(last, "move", at, held);
    await frame();
  }
  last = elementAt(beyond.x, beyond.y) ?? last;
  both(last, "up", beyond, { detail: 1 });
}

/** False if the page prevents the drag's beginning: then it drags by the mouse. */
async function dragByData(source: Element, from: Spot, to: Spot): Promise<boolean> {
  const dataTransfer = new DataTransfer();
  const drag = (el: Element, name: string, at: Spot): boolean =>
    send(el, new DragEvent(name, { bubbles: true, cancelable: true, composed: true, view: window, clientX: at.x, clientY: at.y, dataTransfer }));
  if (!drag(source, "dragstart", from)) return false;
  await frame();
  const target = elementAt(to.x, to.y);
  if (target !== null) {
    drag(source, "drag", to);
    drag(target, "dragenter", to);
    // The page says by preventing it that a drop is welcome. What moved under the pointer meanwhile is asked as well.
    let welcome = !drag(target, "dragover", to);
    await frame();
    const now = elementAt(to.x, to.y) ?? target;
    if (!flatContains(now, target)) drag(now, "dragenter", to);
    welcome = !drag(now, "dragover", to) || welcome;
    if (welcome) drag(now, "drop", to);
    else drag(now, "dragleave", to);
  }
  drag(source, "dragend", to);
  return true;
}

/** One step of the page's own clock; in a tab nobody sees, where that stands still, a few turns. */
async function frame(): Promise<void> {
  for (let i = 0; i < 3; i++) await turn();
  if (document.visibilityState === "visible") await new Promise((done) => setTimeout(done, 16));
}
