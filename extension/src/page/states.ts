/**
 * States of an element as words a reader understands, and the value of a field that is not sensitive.
 *
 * Pure reads of the DOM. Never gives the value, or the length of the value, of a sensitive field (design 5).
 */

import { attr, byId, collapse, deepActive, flatParent, has, isInput, isSelect, isTextArea, matches, rootOf, tagOf, textContent } from "./dom";
import { isSensitiveField, nameOf } from "./names";
import { hiddenControl, isDisabled, isEditableHost, roleOf, TEXT_ROLES } from "./roles";

const MAX_VALUE = 80; // characters of a value in a line: enough to recognise it
const MAX_OPTIONS = 12; // of a native select, shown with it; `select` accepts any other as well
const MAX_BRIEF = 60; // characters of options told in a summary
const MAX_OPTION = 40; // characters of one of them
const RANGES = new Set(["meter", "progressbar", "scrollbar", "slider", "spinbutton"]);

/** true, false, "mixed", or null: not checkable. */
export function checkedOf(el: Element): boolean | "mixed" | null {
  const input = isInput(el) ? el : hiddenControl(el);
  if (input !== null && (input.type === "checkbox" || input.type === "radio")) {
    return input.indeterminate ? "mixed" : input.checked;
  }
  const given = attr(el, "aria-checked");
  return given === "true" ? true : given === "mixed" ? "mixed" : given === "false" ? false : null;
}

/** States that belong to the structure of the page: everything but focus and values. */
export function stateWords(el: Element, role: string): string[] {
  const out: string[] = [];
  const checked = checkedOf(el);
  if (checked === true) out.push("checked");
  if (checked === "mixed") out.push("mixed");
  if (attr(el, "aria-selected") === "true") out.push("selected");
  const expanded = expandedOf(el);
  if (expanded !== null) out.push(expanded ? "expanded" : "collapsed");
  const pressed = attr(el, "aria-pressed");
  if (pressed === "true" || pressed === "mixed") out.push("pressed");
  if (isDisabled(el)) out.push("disabled");
  if (TEXT_ROLES.has(role) && (has(el, "readonly") || attr(el, "aria-readonly") === "true")) out.push("readonly");
  const invalid = attr(el, "aria-invalid");
  const judged = isInput(el) || isSelect(el) || isTextArea(el);
  if ((invalid !== null && invalid !== "false" && invalid !== "") || (judged && matches(el, ":user-invalid"))) out.push("invalid");
  const current = attr(el, "aria-current");
  if (current !== null && current !== "false" && current !== "") out.push("current");
  if ((judged && has(el, "required")) || attr(el, "aria-required") === "true") out.push("required");
  return out;
}

/** Whether what the element opens is open; null: it opens nothing, as far as it says. */
function expandedOf(el: Element): boolean | null {
  const given = attr(el, "aria-expanded");
  if (given === "true" || given === "false") return given === "true";
  const tag = tagOf(el);
  if (tag === "summary") return has(flatParent(el) ?? el, "open");
  const target = tag === "button" || tag === "input" ? attr(el, "popovertarget") : null;
  const popover = target === null ? null : byId(rootOf(el), target);
  return popover === null || !has(popover, "popover") ? null : matches(popover, ":popover-open");
}

/** The level of an entry of a tree, 1 at the top: as it says, or by the groups it lies in. */
export function treeLevel(el: Element): number {
  const given = Number(attr(el, "aria-level"));
  if (Number.isInteger(given) && given > 0) return given;
  let level = 1;
  for (let at = flatParent(el); at !== null; at = flatParent(at)) {
    const role = roleOf(at);
    if (role === "tree" || role === "treegrid") break;
    if (role === "group") level++;
  }
  return level;
}

/** The text a field holds; null: not a field with text. Callers must have asked `isSensitiveField`. */
export function valueOf(el: Element): string | null {
  if (isSelect(el)) return Array.from(el.selectedOptions, (option) => option.label).join(", ");
  if (isTextArea(el)) return el.value;
  if (isInput(el)) {
    switch (el.type) {
      case "button":
      case "checkbox":
      case "file":
      case "hidden":
      case "image":
      case "radio":
      case "reset":
      case "submit":
        return null;
      default:
        return el.value;
    }
  }
  if (isEditableHost(el)) return (el as HTMLElement).innerText ?? textContent(el) ?? "";
  return null;
}

/** What a widget shows as its value, native or by ARIA; null: nothing, or no value. Never asked of a sensitive field. */
function shownValue(el: Element, role: string): string | null {
  const value = valueOf(el);
  if (value !== null) return value;
  if (isInput(el)) return el.type === "file" ? Array.from(el.files ?? [], (file) => file.name).join(", ") : null;
  const said = attr(el, "aria-valuetext");
  if (said !== null && (RANGES.has(role) || TEXT_ROLES.has(role))) return said;
  if (RANGES.has(role)) return attr(el, "aria-valuenow") ?? attr(el, "value");
  if (role !== "combobox" && role !== "textbox" && role !== "searchbox") return null;
  const text = collapse(textContent(el) ?? ""); // a widget made of plain elements shows its choice as its text
  return text === nameOf(el) ? null : text;
}

/** Everything after the name: states, value, level, focus. `brief`: of long lists of options only their number. */
export function describeState(el: Element, role: string, brief = false): string {
  const words = stateWords(el, role);
  if (isSensitiveField(el)) {
    const value = valueOf(el) ?? textContent(el);
    words.push("sensitive", value === null || value === "" ? "empty" : "filled");
  } else {
    const value = collapse(shownValue(el, role) ?? "");
    if (value !== "") words.push(`=${JSON.stringify(shorten(value, MAX_VALUE))}`);
    if (isSelect(el) && el.length > 0) words.push(optionList(el, brief));
  }
  if (role === "treeitem") {
    const level = treeLevel(el);
    if (level > 1) words.push(`level ${level}`);
  }
  if (deepActive() === el && tagOf(el) !== "body") words.push("focused");
  return words.length === 0 ? "" : ` ${words.join(" ")}`;
}

function optionList(el: HTMLSelectElement, brief: boolean): string {
  if (el.length === 0) return "0 options";
  const labels: string[] = [];
  for (let i = 0; i < Math.min(el.length, MAX_OPTIONS); i++) {
    labels.push(JSON.stringify(shorten(collapse(el.item(i)?.label ?? ""), MAX_OPTION)));
  }
  if (brief && labels.join().length > MAX_BRIEF) return `${el.length} options`;
  const more = el.length - labels.length;
  return `options ${labels.join(",")}${more > 0 ? `,… ${more} more` : ""}`;
}

export const shorten = (text: string, max: number): string => (text.length <= max ? text : `${text.slice(0, max - 1)}…`);
