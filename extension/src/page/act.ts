/**
 * Acting on elements: aim (find, scroll into view, check), the guard of trusted clicks, clicks by script, scrolling.
 *
 * Every action is atomic: the element is resolved and checked in the same task that acts on it, or, for trusted input,
 * a guard swallows the events if they would reach anything but the element that was checked. Verification is the
 * settle step's (`settle.ts`).
 */

import { bodyOf, closest, deepActive, elementAt, flatContains, isShown, labelsOf, rectOf, rectsOf, scrollerOf, visibility } from "./dom";
import { Fault } from "./fault";
import { type Pointer, resolve } from "./refs";
import { isDisabled, isFocusable, roleOf } from "./roles";

export interface Aim {
  readonly el: Element;
  /** Viewport coordinates of this frame, CSS pixels. */
  readonly x: number;
  readonly y: number;
  /** What is there: `el` or something inside it. */
  readonly hit: Element;
}

/** The element that the arguments point at. Throws `invalid-arguments` if they point at none. */
export function required(args: Pointer): Element {
  const el = resolve(args);
  if (el === null) throw new Fault("invalid-arguments", "The call names no element");
  return el;
}

// ---------------------------------------------------------------- aiming

/** A point where a click reaches `el`. Throws `not-visible`, `disabled` or `covered`. */
export function aim(el: Element): Aim {
  const target = standIn(el);
  if (visibility(target) !== "shown") throw new Fault("not-visible", "The element is not visible", { retryable: true, next: "browser_page_observe" });
  if (isDisabled(target) || isDisabled(el)) throw new Fault("disabled", "The element is disabled", { retryable: true, next: "browser_page_observe" });
  let hits = probe(target);
  if (hits.good === null) {
    target.scrollIntoView({ block: "center", inline: "center", behavior: "instant" });
    hits = probe(target);
  }
  if (hits.good !== null) return { el, ...hits.good };
  if (hits.cover === null) throw new Fault("not-visible", "The element has no area in the viewport", { retryable: true, next: "browser_page_observe" });
  const role = closest(hits.cover, (node) => roleOf(node) !== "");
  const what = role === null ? "another element" : `an element of role ${roleOf(role)}`;
  throw new Fault("covered", `The element is covered by ${what}`, { retryable: true, next: "browser_page_observe" });
}

/** A checkbox without area of its own is clicked through its label. */
function standIn(el: Element): Element {
  const rect = rectOf(el);
  if (rect.width > 1 && rect.height > 1) return el;
  return labelsOf(el).find((label) => isShown(label)) ?? el;
}

interface Probe {
  readonly good: { x: number; y: number; hit: Element } | null;
  readonly cover: Element | null;
}

function probe(el: Element): Probe {
  let cover: Element | null = null;
  const width = innerWidth;
  const height = innerHeight;
  for (const rect of rectsOf(el).slice(0, 8)) {
    const left = Math.max(rect.left, 0);
    const top = Math.max(rect.top, 0);
    const right = Math.min(rect.right, width);
    const bottom = Math.min(rect.bottom, height);
    if (right - left < 1 || bottom - top < 1) continue;
    for (const [fx, fy] of el instanceof SVGElement ? GRID : POINTS) {
      const x = left + (right - left) * fx;
      const y = top + (bottom - top) * fy;
      const hit = elementAt(x, y);
      if (hit === null) continue;
      if (reaches(el, hit)) return { good: { x, y, hit }, cover: null };
      cover ??= hit;
    }
  }
  return { good: null, cover };
}

/** Centre first, then points off it, for links over several lines and round shapes. */
const POINTS = [
  [0.5, 0.5],
  [0.25, 0.5],
  [0.75, 0.5],
  [0.5, 0.25],
  [0.5, 0.75],
] as const;

/** For shapes of a drawing, which fill their box as they please: the same, then a grid. */
const GRID: readonly (readonly [number, number])[] = [
  ...POINTS,
  ...Array.from({ length: 81 }, (_, i) => [(1 + (i % 9)) / 10, (1 + Math.floor(i / 9)) / 10] as const),
];

/** Whether a click on `hit` activates `el`. */
function reaches(el: Element, hit: Element): boolean {
  if (flatContains(el, hit)) return true;
  return labelsOf(el).some((label) => flatContains(label, hit));
}

// ---------------------------------------------------------------- the guard of trusted clicks

const GUARDED = ["pointerdown", "mousedown", "pointerup", "mouseup", "click", "auxclick", "dblclick", "contextmenu"] as const;
let disarm: (() => void) | null = null;
let guardState: "none" | "hit" | "missed" = "none";
let whenArrived: Promise<void> = Promise.resolve();
/** Ends the wait for the input that the guard expects. */
export let inputArrived = (): void => undefined;

/** From now on trusted pointer events that do not reach `el` are swallowed, until `endGuard`. */
export function armGuard(el: Element): void {
  endGuard();
  guardState = "none";
  whenArrived = new Promise((done) => (inputArrived = done));
  const listener = (event: Event): void => {
    if (!event.isTrusted) return;
    const at = event.composedPath()[0];
    const node = at instanceof Element ? at : null;
    // A closed root hides what is inside: then the host stands in the path.
    const reached = node !== null && (reaches(el, node) || (event instanceof MouseEvent && pointReaches(el, event)));
    if (event.type === "pointerdown" || event.type === "mousedown") guardState = reached ? "hit" : "missed";
    if (guardState === "missed") {
      event.preventDefault();
      event.stopImmediatePropagation();
    }
    if (event.type === "mouseup") inputArrived(); // a click follows in the same task
  };
  for (const type of GUARDED) window.addEventListener(type, listener, { capture: true });
  disarm = () => {
    for (const type of GUARDED) window.removeEventListener(type, listener, { capture: true });
  };
}

function pointReaches(el: Element, event: MouseEvent): boolean {
  const hit = elementAt(event.clientX, event.clientY);
  return hit !== null && reaches(el, hit);
}

/** Resolves when the guarded click is over, or after `ms`. */
export async function arrival(ms: number): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<void>((done) => (timer = setTimeout(done, ms)));
  await Promise.race([whenArrived, late]);
  clearTimeout(timer);
}

/** Takes the guard off and says what became of the click: `none` if no event came at all. */
export function endGuard(): "none" | "hit" | "missed" {
  disarm?.();
  disarm = null;
  return guardState;
}

// ---------------------------------------------------------------- synthetic input

/** Pointer and mouse events as a click makes them, then the activation. */
export function syntheticClick(at: Aim): void {
  const base = { bubbles: true, cancelable: true, composed: true, view: window, clientX: at.x, clientY: at.y, button: 0 };
  const down = { ...base, buttons: 1, detail: 1 };
  const send = (event: Event): boolean => EventTarget.prototype.dispatchEvent.call(at.hit, event);
  const pointer = { pointerId: 1, pointerType: "mouse", isPrimary: true };
  send(new PointerEvent("pointerover", { ...base, ...pointer }));
  send(new MouseEvent("mouseover", base));
  send(new PointerEvent("pointermove", { ...base, ...pointer }));
  send(new MouseEvent("mousemove", base));
  send(new PointerEvent("pointerdown", { ...down, ...pointer }));
  if (send(new MouseEvent("mousedown", down))) {
    const focusable = closest(at.hit, (node) => isFocusable(node));
    if (focusable === null) unfocus();
    else focus(focusable);
  }
  send(new PointerEvent("pointerup", { ...base, ...pointer, detail: 1 }));
  send(new MouseEvent("mouseup", { ...base, detail: 1 }));
  if (at.hit instanceof HTMLElement) HTMLElement.prototype.click.call(at.hit);
  else send(new MouseEvent("click", { ...base, detail: 1 }));
}

/** Focuses an element. A window without the focus fires no event for it: those are made here, as pages wait for them. */
export function focus(el: Element): void {
  if (el instanceof HTMLElement || el instanceof SVGElement) moveTo(el, () => el.focus({ preventScroll: true }));
}

/** Takes the focus from whatever has it, as a click on nothing does. */
function unfocus(): void {
  const el = deepActive();
  if (el instanceof HTMLElement && el !== bodyOf(document)) moveTo(null, () => el.blur());
}

function moveTo(target: Element | null, move: () => void): void {
  const before = deepActive();
  move();
  if (document.hasFocus() || deepActive() === before) return;
  const tell = (el: Element | null, type: string, bubbles: boolean, relatedTarget: Element | null): void => {
    if (el !== null && el !== bodyOf(document)) EventTarget.prototype.dispatchEvent.call(el, new FocusEvent(type, { bubbles, composed: true, view: window, relatedTarget }));
  };
  tell(before, "blur", false, target);
  tell(before, "focusout", true, target);
  tell(target, "focus", false, before);
  tell(target, "focusin", true, before);
}


// ---------------------------------------------------------------- scrolling

/** Scrolls and says where the page stands now, in percent of what can be scrolled. */
export function scroll(args: { viewports?: number | undefined; to?: "top" | "bottom" | undefined }, el: Element | null): string {
  if (el !== null) {
    el.scrollIntoView({ block: "center", inline: "nearest", behavior: "instant" });
    return "Scrolled to the element";
  }
  const box = mainScroller();
  const before = box.scrollTop;
  if (args.to === "top") box.scrollTop = 0;
  else if (args.to === "bottom") box.scrollTop = box.scrollHeight;
  else box.scrollTop = before + (args.viewports ?? 0) * box.clientHeight;
  const range = Math.max(box.scrollHeight - box.clientHeight, 0);
  const at = range === 0 ? 100 : Math.round((100 * box.scrollTop) / range);
  return `${box.scrollTop === before ? "Did not move" : "Scrolled"}; now at ${at} % of ${Math.round(box.scrollHeight)} pixels`;
}

/** The document, or, where that does not scroll, the largest box that does. */
function mainScroller(): Element {
  const page = scrollerOf(document) ?? document.documentElement;
  if (page.scrollHeight > page.clientHeight + 1) return page;
  let best = page;
  let area = 0;
  for (const el of Element.prototype.querySelectorAll.call(page, "div,main,section,article,ul")) {
    if (el.scrollHeight <= el.clientHeight + 1 || el.clientHeight < 50) continue;
    const overflow = getComputedStyle(el).overflowY;
    if (overflow !== "auto" && overflow !== "scroll") continue;
    const size = el.clientWidth * el.clientHeight;
    if (size > area) [best, area] = [el, size];
  }
  return best;
}
