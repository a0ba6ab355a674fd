/** Fields and choices: which element takes text, typing by script, options of native and ARIA lists, checked states. */

import { focus } from "./act";
import { attr, collapse, flatContains, has, isConnected, isInput, isTextArea, rectOf, visibility } from "./dom";
import { selectContent, typeIntoEditor } from "./editors";
import { Fault } from "./fault";
import { isSensitiveField, nameOf } from "./names";
import { strike } from "./keys";
import { matching } from "./refs";
import { hiddenControl, isDisabled, isEditableHost, roleOf } from "./roles";
import { checkedOf } from "./states";
import { keyOfCharacter } from "../keyboard";

/** Text up to this long is typed key by key, as widgets that listen for keys expect. */
const KEYED_CHARS = 200;

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
  if (has(inner, "readonly")) throw new Fault("not-editable", "The field is read-only; it may open something to choose from when clicked", { next: "browser_page_observe" });
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
export async function prepareField(el: Element, clear: boolean): Promise<void> {
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
  await selectContent(el, clear);
}

/**
 * Types by script: key by key with the events that widgets listen for, by the prototype's setter; into editable content by what
 * its editor takes. Gives whether the field took the text.
 */
export async function syntheticType(el: Element, text: string, clear: boolean): Promise<boolean> {
  if (!isInput(el) && !isTextArea(el)) return el instanceof HTMLElement && (await typeIntoEditor(el, text, clear));
  await prepareField(el, clear);
  const before = el.value;
  const start = clear ? "" : before;
  const keyed = text.length <= KEYED_CHARS ? [...text] : [];
  if (keyed.length === 0) {
    write(el, start + text, text);
  } else {
    let soFar = start;
    for (const char of keyed) {
      const facts = keyOfCharacter(char);
      if (char === "\n" || facts.code === "" || strike(el, "keydown", facts)) {
        if (facts.code === "" || strike(el, "keypress", facts)) {
          // A page that formats while one types has changed what stands there.
          if (soFar !== start) soFar = el.value;
          soFar += char;
          write(el, soFar, char);
        }
      }
      if (facts.code !== "") strike(el, "keyup", facts);
    }
  }
  EventTarget.prototype.dispatchEvent.call(el, new Event("change", { bubbles: true }));
  return el.value !== before || el.value === start + text || !isConnected(el);
}

/** Sets a field that takes no letters: date, time, colour, range. Throws `invalid-arguments` if the value is none of its kind. */
export function setField(el: HTMLInputElement, value: string): void {
  focus(el);
  const before = el.value;
  const wanted = value.trim();
  inputValue?.call(el, wanted);
  const bad = wanted !== "" && (el.type === "range" || el.type === "color" ? !sameValue(el, wanted) : el.value === "");
  if (bad) {
    inputValue?.call(el, before);
    throw new Fault("invalid-arguments", `A field of type ${el.type} takes ${FORMS[el.type] ?? "another form of value"}`, { retryable: true, next: "browser_page_type" });
  }
  announce(el);
}

/** How values of such fields are written (HTML, section 2.3.5 and 4.10.5). */
const FORMS: Readonly<Record<string, string>> = {
  date: "YYYY-MM-DD",
  "datetime-local": "YYYY-MM-DDTHH:MM",
  month: "YYYY-MM",
  week: "YYYY-Www",
  time: "HH:MM, 24 hours",
  color: "#rrggbb",
  range: "a number within its bounds that is one of its steps",
};

const sameValue = (el: HTMLInputElement, wanted: string): boolean =>
  el.type === "range" ? Number(el.value) === Number(wanted) : el.value === wanted.toLowerCase();

const inputValue = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value")?.set;
const areaValue = Object.getOwnPropertyDescriptor(HTMLTextAreaElement.prototype, "value")?.set;

function write(el: HTMLInputElement | HTMLTextAreaElement, value: string, typed: string): void {
  const setter = isTextArea(el) ? areaValue : inputValue;
  setter?.call(el, value);
  EventTarget.prototype.dispatchEvent.call(
    el,
    new InputEvent("input", { bubbles: true, composed: true, inputType: "insertText", data: typed }),
  );
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
