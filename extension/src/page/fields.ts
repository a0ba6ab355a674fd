/** Fields and choices: which element takes text, typing by script, options of native and ARIA lists, checked states. */

import { focus } from "./act";
import { attr, collapse, flatContains, has, isInput, isTextArea, rectOf, visibility } from "./dom";
import { Fault } from "./fault";
import { isSensitiveField, nameOf } from "./names";
import { matching } from "./refs";
import { hiddenControl, isDisabled, isEditableHost, roleOf } from "./roles";
import { checkedOf } from "./states";

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

export const announce = (el: Element): void => {
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
