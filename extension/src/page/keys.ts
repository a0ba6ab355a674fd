/** Keys by script: the events, and what a browser would do for them where a script can do it. */

import { focus } from "./act";
import { attr, closest, deepActive, formOf, isInput, isSelect, isShown, isTextArea, rootElement, tagOf } from "./dom";
import { announce } from "./fields";
import { isDisabled, isEditableHost, isFocusable } from "./roles";
import { valueOf } from "./states";
import { type Chord, chordOf, type KeyFacts } from "../keyboard";
import type { Key } from "../wire";

/** Key events on the focused element, and what a browser would do for them where a script can do it. */
export function syntheticPress(key: Key): void {
  const chord = chordOf(key);
  const el = deepActive() ?? document.body;
  const go = strike(el, "keydown", chord) && (chord.text === undefined || chord.control || chord.alt || strike(el, "keypress", chord));
  if (go) chordDefault(el, chord);
  strike(deepActive() ?? document.body, "keyup", chord);
}

/** One key event; false if the page took it. */
export function strike(el: Element, type: "keydown" | "keypress" | "keyup", facts: KeyFacts & Partial<Chord>): boolean {
  const { key, code, keyCode, shift = false, control = false, alt = false } = facts;
  const init = { key, code, keyCode, which: keyCode, shiftKey: shift, ctrlKey: control, altKey: alt, bubbles: true, cancelable: true, composed: true, view: window };
  return EventTarget.prototype.dispatchEvent.call(el, new KeyboardEvent(type, init));
}

/** Editing commands of combinations; the clipboard is closed to scripts. */
const COMMANDS: Readonly<Record<string, string>> = { B: "bold", I: "italic", Y: "redo", Z: "undo" };

function chordDefault(el: Element, chord: Chord): void {
  const { name } = chord;
  if (chord.alt) return;
  if (chord.control) {
    if (name === "A") {
      if (isInput(el) || isTextArea(el)) el.select();
      else document.execCommand("selectAll");
    }
    const command = COMMANDS[name];
    if (command !== undefined) document.execCommand(command);
    if (name === "Home" || name === "End") keyDefault(el, name);
    return;
  }
  if (chord.shift && name !== "Tab" && name !== "Enter") {
    const [way, by] = SELECTING[name] ?? [];
    if (way !== undefined && isEditableHost(el)) getSelection()?.modify("extend", way, by);
    return;
  }
  keyDefault(el, chord.shift && name === "Tab" ? "Shift+Tab" : chord.shift ? "Shift+Enter" : name);
}

const SELECTING: Readonly<Record<string, readonly ["forward" | "backward", "character" | "line"]>> = {
  ArrowLeft: ["backward", "character"],
  ArrowRight: ["forward", "character"],
  ArrowUp: ["backward", "line"],
  ArrowDown: ["forward", "line"],
};

function keyDefault(el: Element, key: string): void {
  const textual = isTextArea(el) || isEditableHost(el) || (isInput(el) && valueOf(el) !== null);
  switch (key) {
    case "Enter":
      if (isTextArea(el) || isEditableHost(el)) document.execCommand("insertText", false, "\n");
      else if (isInput(el) && valueOf(el) !== null) submitForm(el);
      else if (el instanceof HTMLElement && el !== document.body) el.click();
      return;
    case "Shift+Enter":
      if (isTextArea(el) || isEditableHost(el)) document.execCommand("insertLineBreak");
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
      else if (isStepped(el)) step(el, key === "ArrowUp" ? 1 : -1);
      else if (!textual) scrollBy({ top: key === "ArrowDown" ? 40 : -40, behavior: "instant" });
      return;
    case "ArrowLeft":
    case "ArrowRight":
      if (isStepped(el) && el.type === "range") step(el, key === "ArrowRight" ? 1 : -1);
      else if (!textual) scrollBy({ left: key === "ArrowRight" ? 40 : -40, behavior: "instant" });
      return;
    case "Home":
    case "End":
      if (isStepped(el) && el.type === "range") step(el, key === "Home" ? -1e6 : 1e6);
      else if (!textual) scrollTo({ top: key === "Home" ? 0 : 1e9, behavior: "instant" });
      return;
    case "PageUp":
    case "PageDown":
      scrollBy({ top: innerHeight * (key === "PageDown" ? 0.9 : -0.9), behavior: "instant" });
  }
}

const isStepped = (el: Element): el is HTMLInputElement => isInput(el) && (el.type === "range" || el.type === "number");

/** Chrome keeps the value within the field's bounds. */
function step(el: HTMLInputElement, by: number): void {
  if (by > 0) HTMLInputElement.prototype.stepUp.call(el, by);
  else HTMLInputElement.prototype.stepDown.call(el, -by);
  announce(el);
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
