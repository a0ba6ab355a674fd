/**
 * Acting on elements: aim (find, scroll into view, check), synthetic input, fields, selection, scrolling.
 *
 * Every action is atomic: the element is resolved and checked in the same task that acts on it, or, for trusted input,
 * a guard swallows the events if they would reach anything but the element that was checked. Verification is the
 * settle step's (`settle.ts`).
 */

import {
  attr,
  closest,
  collapse,
  deepActive,
  elementAt,
  flatContains,
  formOf,
  has,
  isInput,
  isSelect,
  isShown,
  isTextArea,
  labelsOf,
  rectOf,
  rectsOf,
  rootElement,
  scrollerOf,
  tagOf,
  visibility,
} from "./dom";
import { Fault } from "./fault";
import { isSensitiveField, nameOf } from "./names";
import { matching, type Pointer, resolve } from "./refs";
import { hiddenControl, isDisabled, isEditableHost, isFocusable, roleOf } from "./roles";
import { checkedOf, valueOf } from "./states";
import type { Key } from "../wire";

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
    for (const [fx, fy] of POINTS) {
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

/** Whether a click on `hit` activates `el`. */
function reaches(el: Element, hit: Element): boolean {
  if (flatContains(el, hit)) return true;
  return labelsOf(el).some((label) => flatContains(label, hit));
}

// ---------------------------------------------------------------- the guard of trusted clicks

const GUARDED = ["pointerdown", "mousedown", "pointerup", "mouseup", "click", "auxclick"] as const;
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
    if (focusable instanceof HTMLElement) focusable.focus({ preventScroll: true });
  }
  send(new PointerEvent("pointerup", { ...base, ...pointer, detail: 1 }));
  send(new MouseEvent("mouseup", { ...base, detail: 1 }));
  if (at.hit instanceof HTMLElement) HTMLElement.prototype.click.call(at.hit);
  else send(new MouseEvent("click", { ...base, detail: 1 }));
}

export const focus = (el: Element): void => {
  if (el instanceof HTMLElement || el instanceof SVGElement) el.focus({ preventScroll: true });
};

const KEYS: Readonly<Record<Key, { key: string; code: string; keyCode: number }>> = {
  Enter: { key: "Enter", code: "Enter", keyCode: 13 },
  Tab: { key: "Tab", code: "Tab", keyCode: 9 },
  "Shift+Tab": { key: "Tab", code: "Tab", keyCode: 9 },
  Escape: { key: "Escape", code: "Escape", keyCode: 27 },
  Space: { key: " ", code: "Space", keyCode: 32 },
  Backspace: { key: "Backspace", code: "Backspace", keyCode: 8 },
  Delete: { key: "Delete", code: "Delete", keyCode: 46 },
  ArrowUp: { key: "ArrowUp", code: "ArrowUp", keyCode: 38 },
  ArrowDown: { key: "ArrowDown", code: "ArrowDown", keyCode: 40 },
  ArrowLeft: { key: "ArrowLeft", code: "ArrowLeft", keyCode: 37 },
  ArrowRight: { key: "ArrowRight", code: "ArrowRight", keyCode: 39 },
  Home: { key: "Home", code: "Home", keyCode: 36 },
  End: { key: "End", code: "End", keyCode: 35 },
  PageUp: { key: "PageUp", code: "PageUp", keyCode: 33 },
  PageDown: { key: "PageDown", code: "PageDown", keyCode: 34 },
};

/** Key events on the focused element, and what a browser would do for them where a script can do it. */
export function syntheticPress(key: Key): void {
  const el = deepActive() ?? document.body;
  const init = { ...KEYS[key], shiftKey: key === "Shift+Tab", bubbles: true, cancelable: true, composed: true, view: window };
  const go = EventTarget.prototype.dispatchEvent.call(el, new KeyboardEvent("keydown", init));
  if (go) keyDefault(el, key);
  EventTarget.prototype.dispatchEvent.call(el, new KeyboardEvent("keyup", init));
}

function keyDefault(el: Element, key: Key): void {
  const textual = isTextArea(el) || isEditableHost(el) || (isInput(el) && valueOf(el) !== null);
  switch (key) {
    case "Enter":
      if (isTextArea(el) || isEditableHost(el)) document.execCommand("insertText", false, "\n");
      else if (isInput(el) && valueOf(el) !== null) submitForm(el);
      else if (el instanceof HTMLElement && el !== document.body) el.click();
      return;
    case "Space":
      if (textual) document.execCommand("insertText", false, " ");
      else if (el instanceof HTMLElement && el !== document.body && tagOf(el) !== "a") el.click();
      else scrollBy({ top: innerHeight * 0.9, behavior: "instant" });
      return;
    case "Tab":
    case "Shift+Tab":
      moveFocus(el, key === "Tab" ? 1 : -1);
      return;
    case "Escape": {
      const dialog = closest(el, (node) => tagOf(node) === "dialog");
      if (dialog instanceof HTMLDialogElement && dialog.open) dialog.close();
      return;
    }
    case "Backspace":
      if (textual) document.execCommand("delete");
      return;
    case "Delete":
      if (textual) document.execCommand("forwardDelete");
      return;
    case "ArrowUp":
    case "ArrowDown":
      if (isSelect(el)) stepSelect(el, key === "ArrowDown" ? 1 : -1);
      else if (!textual) scrollBy({ top: key === "ArrowDown" ? 40 : -40, behavior: "instant" });
      return;
    case "ArrowLeft":
    case "ArrowRight":
      if (!textual) scrollBy({ left: key === "ArrowRight" ? 40 : -40, behavior: "instant" });
      return;
    case "Home":
    case "End":
      if (!textual) scrollTo({ top: key === "Home" ? 0 : 1e9, behavior: "instant" });
      return;
    case "PageUp":
    case "PageDown":
      scrollBy({ top: innerHeight * (key === "PageDown" ? 0.9 : -0.9), behavior: "instant" });
  }
}

function stepSelect(el: HTMLSelectElement, step: number): void {
  const index = el.selectedIndex + step;
  if (index < 0 || index >= el.length) return;
  el.selectedIndex = index;
  announce(el);
}

function moveFocus(from: Element, step: 1 | -1): void {
  const root = rootElement(document);
  if (root === null) return;
  const stops = Array.from(
    Element.prototype.querySelectorAll.call(root, "a[href],area[href],button,input,select,textarea,summary,iframe,[tabindex],[contenteditable]"),
  ).filter((el) => Number(attr(el, "tabindex") ?? 0) >= 0 && !isDisabled(el) && isShown(el) && isFocusable(el));
  const index = stops.indexOf(from);
  const next = stops[(index + step + stops.length) % stops.length];
  if (next !== undefined) focus(next);
}

/** Presses Enter in a field by script: the key events, then implicit submission unless the page took the key. */
export function syntheticEnter(el: Element): void {
  focus(el);
  syntheticPress("Enter");
}

function submitForm(el: Element): void {
  const form = formOf(el);
  if (form === null) return;
  const submitter = Array.from(HTMLFormElement.prototype.querySelectorAll.call(form, "button,input")).find(
    (node) => (isInput(node) && (node.type === "submit" || node.type === "image")) || (node instanceof HTMLButtonElement && node.type === "submit"),
  ) as HTMLElement | undefined;
  if (submitter !== undefined && isDisabled(submitter)) return;
  HTMLFormElement.prototype.requestSubmit.call(form, submitter ?? null);
}

// ---------------------------------------------------------------- fields

const SETTABLE = new Set(["date", "datetime-local", "month", "week", "time", "color", "range"]);
const NOT_TEXT = new Set(["button", "checkbox", "file", "hidden", "image", "radio", "reset", "submit"]);

/** The field to type into. Throws `sensitive-field`, `not-editable`, `disabled` or `not-visible`. */
export function field(el: Element): { el: Element; setOnly: boolean } {
  const inner = innerField(el);
  if (inner === null) throw new Fault("not-editable", "The element is no text field", { next: "browser_page_observe" });
  if (isSensitiveField(inner) || isSensitiveField(el)) {
    throw new Fault("sensitive-field", "This field holds a secret; browsercell does not type into it");
  }
  if (isDisabled(inner)) throw new Fault("disabled", "The field is disabled", { retryable: true, next: "browser_page_observe" });
  if (has(inner, "readonly")) throw new Fault("not-editable", "The field is read-only", { next: "browser_page_observe" });
  if (visibility(inner) !== "shown") throw new Fault("not-visible", "The field is not visible", { retryable: true, next: "browser_page_observe" });
  return { el: inner, setOnly: isInput(inner) && SETTABLE.has(inner.type) };
}

function innerField(el: Element): Element | null {
  if (isTextArea(el) || isEditableHost(el) || (isInput(el) && !NOT_TEXT.has(el.type))) return el;
  if (el instanceof HTMLLabelElement && el.control !== null) return innerField(el.control);
  if (roleOf(el) !== "combobox" && roleOf(el) !== "textbox" && roleOf(el) !== "searchbox" && roleOf(el) !== "spinbutton") return null;
  const nested = Element.prototype.querySelector.call(el, "input,textarea,[contenteditable]");
  return nested === null || nested === el ? null : innerField(nested);
}

/** Focuses the field and selects what typing shall replace; without `clear` the caret goes to the end. */
export function prepareField(el: Element, clear: boolean): void {
  const rect = rectOf(el);
  if (rect.top < 0 || rect.bottom > innerHeight) el.scrollIntoView({ block: "center", inline: "nearest", behavior: "instant" });
  focus(el);
  if (isInput(el) || isTextArea(el)) {
    if (clear) {
      el.select();
    } else {
      try {
        el.setSelectionRange(el.value.length, el.value.length);
      } catch {
        // number and e-mail fields have no selection; their caret is at the end after focus
      }
    }
    return;
  }
  const selection = getSelection();
  selection?.selectAllChildren(el);
  if (!clear) selection?.collapseToEnd();
}

/** Types by script: prototype setter and events for fields, an editing command for editable content. */
export function syntheticType(el: Element, text: string, clear: boolean): void {
  prepareField(el, clear);
  if (isInput(el) || isTextArea(el)) {
    setValue(el, clear ? text : el.value + text, text);
    return;
  }
  if (text === "") document.execCommand("delete");
  else if (!document.execCommand("insertText", false, text)) {
    el.textContent = clear ? text : (el.textContent ?? "") + text;
    EventTarget.prototype.dispatchEvent.call(el, new InputEvent("input", { bubbles: true, composed: true, inputType: "insertText", data: text }));
  }
}

const inputValue = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value")?.set;
const areaValue = Object.getOwnPropertyDescriptor(HTMLTextAreaElement.prototype, "value")?.set;

function setValue(el: HTMLInputElement | HTMLTextAreaElement, value: string, typed: string): void {
  const setter = isTextArea(el) ? areaValue : inputValue;
  setter?.call(el, value);
  EventTarget.prototype.dispatchEvent.call(
    el,
    new InputEvent("input", { bubbles: true, composed: true, inputType: "insertText", data: typed }),
  );
  EventTarget.prototype.dispatchEvent.call(el, new Event("change", { bubbles: true }));
}

const announce = (el: Element): void => {
  EventTarget.prototype.dispatchEvent.call(el, new Event("input", { bubbles: true, composed: true }));
  EventTarget.prototype.dispatchEvent.call(el, new Event("change", { bubbles: true }));
};

// ---------------------------------------------------------------- selection

/** Chooses options of a native select by label or value. Throws `unknown-option`, `disabled`, `sensitive-field`. */
export function selectNative(el: HTMLSelectElement, values: readonly string[]): void {
  if (isDisabled(el)) throw new Fault("disabled", "The list is disabled", { retryable: true, next: "browser_page_observe" });
  if (isSensitiveField(el)) throw new Fault("sensitive-field", "This field holds a secret; browsercell does not fill it");
  if (!el.multiple && values.length !== 1) throw new Fault("invalid-arguments", "This list takes exactly one value");
  const options = Array.from(el.options);
  const chosen = values.map((value) => {
    const wanted = collapse(value);
    const option = options.find((o) => collapse(o.label) === wanted) ?? options.find((o) => o.value === value);
    if (option === undefined) throw unknownOption(options.length);
    if (option.disabled) throw new Fault("disabled", "The option is disabled");
    return option;
  });
  focus(el);
  if (el.multiple) for (const option of options) option.selected = chosen.includes(option);
  else el.selectedIndex = options.indexOf(chosen[0] as HTMLOptionElement);
  announce(el);
}

export const unknownOption = (count: number): Fault =>
  new Fault("unknown-option", `None of the ${count} options has this label or value`, { next: "browser_page_observe" });

/** The visible ARIA option of this name that belongs to `owner`; null: none is shown (the list may have to be opened). */
export function ariaOption(owner: Element, value: string): { option: Element | null; count: number } {
  const wanted = collapse(value);
  const ids = `${attr(owner, "aria-controls") ?? ""} ${attr(owner, "aria-owns") ?? ""}`.split(/\s+/).filter((id) => id !== "");
  const lists = ids.map((id) => document.getElementById(id)).filter((el) => el !== null);
  let options = matching({ role: "option" });
  if (options.length === 0) options = matching({ role: "menuitemradio" });
  const own = options.filter((option) => flatContains(owner, option) || lists.some((list) => flatContains(list, option)));
  const candidates = own.length > 0 ? own : options;
  const option = candidates.find((el) => nameOf(el) === wanted) ?? candidates.find((el) => attr(el, "data-value") === value || attr(el, "value") === value);
  return { option: option ?? null, count: candidates.length };
}

/** The checkbox, radio button or switch a call means. Throws `invalid-arguments` for anything else. */
export function checkable(el: Element): { state: boolean | "mixed"; radio: boolean } {
  const state = checkedOf(el);
  if (state === null) {
    const pressed = attr(el, "aria-pressed");
    if (pressed !== null) return { state: pressed === "true", radio: false };
    throw new Fault("invalid-arguments", "The element has no checked state", { next: "browser_page_observe" });
  }
  const control = isInput(el) ? el : hiddenControl(el);
  return { state, radio: control?.type === "radio" || roleOf(el) === "radio" };
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
