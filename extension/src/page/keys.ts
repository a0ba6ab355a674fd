/** Keys by script: the events, and what a browser would do for them where a script can do it. */

import { focus } from "./act";
import { attr, closest, deepActive, formOf, isInput, isSelect, isShown, isTextArea, rootElement, tagOf } from "./dom";
import { announce } from "./fields";
import { isDisabled, isEditableHost, isFocusable } from "./roles";
import { valueOf } from "./states";
import type { Key } from "../wire";

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
