/**
 * Accessible names, after accname 1.2 and HTML-AAM, where both meet what Chromium does.
 *
 * `nameOf` gives the name with white space collapsed and cut at `MAX_NAME_CHARS`. The value of a sensitive field is
 * never part of any name. An element that is not rendered keeps the name it has when it is, so that a ref to it tells
 * "not visible" from "something else". Pure reads of the DOM.
 */

import { MAX_NAME_CHARS } from "../wire";
import {
  attr,
  breaksText,
  byId,
  childCount,
  closest,
  collapse,
  data,
  eachChild,
  has,
  isConcealed,
  isElement,
  isInput,
  isSelect,
  isTextArea,
  labelledByElements,
  labelsOf,
  nodeType,
  query,
  queryAll,
  remembered,
  rootOf,
  styleOf,
  tagOf,
  textContent,
  visibility,
} from "./dom";
import { isEditableHost, NAMED_BY_CONTENT, roleOf, TEXT_ROLES } from "./roles";
import { pseudoText } from "./pseudo";
import { isSensitive } from "./sensitive";

interface Walk {
  readonly visited: Set<Element>;
  /** Inside a traversal started by `aria-labelledby`: no second one is followed. */
  readonly referenced: boolean;
  /** The hidden subtree that was referenced directly counts as shown. */
  readonly hiddenRoot: boolean;
  /** The named element itself is not rendered: what is below counts unless its own style hides it. */
  readonly absent: boolean;
  /** Below the element whose name is wanted. */
  readonly nested: boolean;
  /** Titles of elements without a role count as well: for a name that would be empty otherwise. */
  readonly titles: boolean;
}

const SKIPPED = new Set(["script", "style", "noscript", "template", "head", "iframe", "audio", "video", "object"]);
const MAX_REFERENCES = 16; // elements named by one attribute
const MAX_RAW = 4 * MAX_NAME_CHARS; // of text gathered for one name: more is cut anyway

/** The accessible name; "" if there is none. */
export const nameOf: (el: Element) => string = remembered((el) => {
  const absent = visibility(el) === "gone";
  const name = cut(compute(el, start(absent, false)));
  return name !== "" || childCount(el) === 0 || !NAMED_BY_CONTENT.has(roleOf(el)) ? name : cut(compute(el, start(absent, true)));
});

const start = (absent: boolean, titles: boolean): Walk => ({
  visited: new Set(),
  referenced: false,
  hiddenRoot: false,
  absent,
  nested: false,
  titles,
});

/** As names are compared and shown: collapsed, cut. */
export function cut(name: string): string {
  const flat = collapse(name);
  return flat.length <= MAX_NAME_CHARS ? flat : `${flat.slice(0, MAX_NAME_CHARS - 1)}…`;
}

function compute(el: Element, walk: Walk): string {
  if (walk.visited.has(el)) return walk.nested && !walk.referenced ? byReference(el, walk) : "";
  walk.visited.add(el);
  if (walk.nested && !walk.hiddenRoot) {
    if (isLeftOut(el, walk)) return "";
    if (isSilent(el)) return fromContent(el, walk); // children may be visible where their parent is not
  }
  if (tagOf(el) === "slot") return fromContent(el, walk); // a slot has no name of its own
  if (!walk.referenced) {
    const text = byReference(el, walk);
    if (text !== "") return text;
  }
  const role = roleOf(el);
  if (walk.nested) {
    const embedded = embeddedValue(el, role);
    if (embedded !== null) return embedded;
  }
  const label = attr(el, "aria-label");
  if (label !== null && collapse(label) !== "") return label;
  const own = nativeName(el, walk);
  if (own !== "") return own;
  if (walk.nested || NAMED_BY_CONTENT.has(role)) {
    const text = fromContent(el, walk);
    // A space alone names nothing, but inside another name it keeps two words apart.
    if (collapse(text) !== "" || (walk.nested && text !== "" && fallback(el, role, walk) === "")) return text;
  }
  return fallback(el, role, walk);
}

const isLeftOut = (el: Element, walk: Walk): boolean =>
  SKIPPED.has(tagOf(el)) || isConcealed(el) || (walk.absent ? styleOf(el).display === "none" : visibility(el) === "gone");

const isSilent = (el: Element): boolean => visibility(el) === "unseen" && !isDrawnThrough(el);

/** `display: contents`: no box of its own, but what is inside shows. */
const isDrawnThrough = (el: Element): boolean => styleOf(el).display === "contents" && styleOf(el).visibility === "visible";

/** The name by `aria-labelledby`. What one name has taken up already is not taken up by it again. */
function byReference(el: Element, walk: Walk): string {
  const ids = attr(el, "aria-labelledby");
  if (ids === null) return "";
  const root = rootOf(el);
  const targets = ids.trim() === "" ? labelledByElements(el) : ids.split(/\s+/).slice(0, MAX_REFERENCES).map((id) => (id === "" ? null : byId(root, id)));
  const parts: string[] = [];
  const visited = walk.nested ? walk.visited : new Set<Element>();
  for (const target of targets) {
    if (target === null) continue;
    const hiddenRoot = visibility(target) !== "shown" && !isDrawnThrough(target) ? true : isConcealed(target);
    parts.push(compute(target, { ...walk, visited, referenced: true, hiddenRoot, nested: true, titles: true }));
  }
  return collapse(parts.join(" "));
}

/** What a control inside a label contributes: its value. Null: it is no such control. */
function embeddedValue(el: Element, role: string): string | null {
  if ((TEXT_ROLES.has(role) || isEditableHost(el)) && isSensitiveField(el, false)) return "";
  if (isSelect(el)) return Array.from(el.selectedOptions, (option) => option.label).join(" ");
  if (isInput(el) || isTextArea(el)) {
    if (!TEXT_ROLES.has(role) && role !== "slider") return null;
    return el.value;
  }
  if (role === "slider" || role === "spinbutton" || role === "progressbar" || role === "meter" || role === "scrollbar") {
    return attr(el, "aria-valuetext") ?? attr(el, "aria-valuenow") ?? "";
  }
  if (role === "combobox" || role === "listbox") {
    const chosen = queryAll(el, '[role="option"][aria-selected="true"]');
    if (chosen.length > 0) return chosen.map((option) => collapse(textContent(option) ?? "")).join(" ");
    if (role === "listbox" || query(el, "input,textarea") !== null) return null;
    const shown = collapse(textContent(el) ?? "");
    return shown === "" ? null : shown;
  }
  return null;
}

function nativeName(el: Element, walk: Walk): string {
  const tag = tagOf(el);
  if (tag === "input") {
    const input = el as HTMLInputElement;
    switch (input.type) {
      case "submit":
      case "reset":
      case "button": {
        const labels = byLabels(el, walk);
        if (labels !== "") return labels;
        if (has(el, "value")) return input.value;
        return input.type === "submit" ? "Submit" : input.type === "reset" ? "Reset" : "";
      }
      case "image":
        return byLabels(el, walk) || (attr(el, "alt") ?? "") || (attr(el, "title") ?? "") || "Submit";
      default:
        return byLabels(el, walk);
    }
  }
  switch (tag) {
    case "textarea":
    case "select":
    case "button":
    case "meter":
    case "output":
    case "progress":
      return byLabels(el, walk);
    case "img":
    case "area":
      return attr(el, "alt") ?? "";
    case "fieldset":
      return childName(el, "legend", walk);
    case "table":
      return childName(el, "caption", walk);
    case "svg": {
      const title = query(el, "title");
      return title === null ? "" : (textContent(title) ?? "");
    }
    case "optgroup":
    case "option":
      return attr(el, "label") ?? "";
    default:
      return "";
  }
}

function byLabels(el: Element, walk: Walk): string {
  if (walk.nested && !walk.referenced) return "";
  const parts: string[] = [];
  for (const label of labelsOf(el).slice(0, 16)) {
    parts.push(compute(label, { ...walk, visited: new Set([el]), referenced: true, hiddenRoot: true, nested: true }));
  }
  return collapse(parts.join(" "));
}

function childName(el: Element, tag: string, walk: Walk): string {
  const children = Array.from(Element.prototype.querySelectorAll.call(el, tag)).filter(
    (child) => closest(child, (node) => node === el || tagOf(node) === tagOf(el)) === el,
  );
  const child = children[0];
  return child === undefined ? "" : collapse(compute(child, { ...walk, nested: true }));
}

function fromContent(el: Element, walk: Walk): string {
  const inner: Walk = walk.nested ? walk : { ...walk, nested: true };
  const silent = !walk.hiddenRoot && isSilent(el);
  let text = pseudoText(el, "::before");
  const add = (node: Node): void => {
    if (text.length > MAX_RAW) return;
    if (nodeType(node) === 3) {
      if (!silent) text += data(node);
    } else if (isElement(node)) {
      if (tagOf(node) === "br") {
        text += " ";
        return;
      }
      const part = compute(node, inner);
      if (part === "") return;
      const apart = breaksText(node);
      text += apart && joinsTight(text, part) ? ` ${part}` : part;
      if (apart && !/\s$/.test(text)) text += " ";
    }
  };
  eachChild(el, add);
  for (const id of attr(el, "aria-owns")?.split(/\s+/).slice(0, MAX_REFERENCES) ?? []) {
    const owned = id === "" ? null : byId(rootOf(el), id);
    if (owned !== null) add(owned);
  }
  return text + pseudoText(el, "::after");
}

const joinsTight = (left: string, right: string): boolean => left !== "" && !/\s$/.test(left) && !/^\s/.test(right);

function fallback(el: Element, role: string, walk: Walk): string {
  const placeholder = TEXT_ROLES.has(role) ? (attr(el, "placeholder") ?? attr(el, "aria-placeholder") ?? "") : "";
  const title = walk.nested && role === "" && !walk.titles ? "" : (attr(el, "title") ?? "");
  return collapse(title) !== "" ? title : placeholder;
}

// ---------------------------------------------------------------- sensitive fields

/** Fields once seen as passwords stay sensitive when the page shows them as text. */
const once = new WeakSet<Element>();
const TEXTUAL = new Set(["input", "textarea", "select"]);

/** Whether the field's value must stay in the page. `byName: false` leaves the accessible name out (no recursion). */
export function isSensitiveField(el: Element, byName = true): boolean {
  const tag = tagOf(el);
  if (!TEXTUAL.has(tag) && !isEditableHost(el) && !TEXT_ROLES.has(roleOf(el))) return false;
  if (once.has(el)) return true;
  const type = isInput(el) ? el.type : "";
  const facts = {
    tag,
    type,
    autocomplete: attr(el, "autocomplete") ?? "",
    identifiers: [attr(el, "name") ?? "", attr(el, "id") ?? ""],
    labels: [attr(el, "placeholder") ?? "", attr(el, "title") ?? "", attr(el, "aria-label") ?? "", byName ? nameOf(el) : ""],
    masked: (tag === "input" || tag === "textarea") && isMasked(el),
  };
  const found = isSensitive(facts);
  if (found && (type === "password" || facts.masked)) once.add(el);
  return found;
}

function isMasked(el: Element): boolean {
  const security = styleOf(el).getPropertyValue("-webkit-text-security");
  return security !== "" && security !== "none";
}
