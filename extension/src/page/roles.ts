/**
 * The role of an element, after HTML-AAM and ARIA 1.2, as Chromium computes it for the roles we name.
 *
 * "" stands for generic or none: nothing a user of the page could call by a role. Pure reads of the DOM.
 */

import { ancestorWith, attr, closest, flatParent, formOf, has, isInput, isSelect, isShown, matches, query, remembered, styleOf, tagOf } from "./dom";

const KNOWN = new Set(
  (
    "alert alertdialog application article banner blockquote button caption cell checkbox code columnheader combobox " +
    "complementary contentinfo definition deletion dialog directory document emphasis feed figure form generic grid " +
    "gridcell group heading img image insertion link list listbox listitem log main marquee math menu menubar menuitem " +
    "menuitemcheckbox menuitemradio meter navigation none note option paragraph presentation progressbar radio radiogroup " +
    "region row rowgroup rowheader scrollbar search searchbox separator slider spinbutton status strong subscript " +
    "superscript switch tab table tablist tabpanel term textbox time timer toolbar tooltip tree treegrid treeitem " +
    "doc-backlink doc-biblioref doc-glossref doc-noteref"
  ).split(" "),
);

/** Roles that are another one for all who operate them. */
const SAME_AS: Readonly<Record<string, string>> = {
  directory: "list",
  "doc-backlink": "link",
  "doc-biblioref": "link",
  "doc-glossref": "link",
  "doc-noteref": "link",
  image: "img",
};

const INPUT_ROLES: Readonly<Record<string, string>> = {
  button: "button",
  checkbox: "checkbox",
  color: "textbox",
  date: "textbox",
  "datetime-local": "textbox",
  file: "button",
  hidden: "",
  image: "button",
  month: "textbox",
  number: "spinbutton",
  radio: "radio",
  range: "slider",
  reset: "button",
  search: "searchbox",
  submit: "button",
  time: "textbox",
  week: "textbox",
};

const TAG_ROLES: Readonly<Record<string, string>> = {
  address: "group",
  article: "article",
  aside: "complementary",
  blockquote: "blockquote",
  button: "button",
  caption: "caption",
  code: "code",
  dd: "definition",
  details: "group",
  dfn: "term",
  dialog: "dialog",
  dt: "term",
  em: "emphasis",
  fieldset: "group",
  figure: "figure",
  form: "form",
  h1: "heading",
  h2: "heading",
  h3: "heading",
  h4: "heading",
  h5: "heading",
  h6: "heading",
  hgroup: "group",
  hr: "separator",
  iframe: "iframe",
  frame: "iframe",
  main: "main",
  math: "math",
  menu: "list",
  meter: "meter",
  nav: "navigation",
  ol: "list",
  optgroup: "group",
  option: "option",
  output: "status",
  p: "paragraph",
  progress: "progressbar",
  search: "search",
  strong: "strong",
  sub: "subscript",
  summary: "button",
  sup: "superscript",
  table: "table",
  textarea: "textbox",
  time: "time",
  ul: "list",
};

const SECTIONING = new Set(["article", "aside", "main", "nav", "section"]);
const GLOBAL_ARIA = ["aria-label", "aria-labelledby", "aria-describedby", "aria-live", "aria-controls", "aria-owns"];

/** Controls: what a user can operate. */
export const CONTROL_ROLES: ReadonlySet<string> = new Set(
  (
    "button checkbox combobox link listbox menuitem menuitemcheckbox menuitemradio option radio scrollbar searchbox " +
    "slider spinbutton switch tab textbox treeitem"
  ).split(" "),
);

/** Roles named by their content (ARIA 1.2, "name from: contents"). */
export const NAMED_BY_CONTENT: ReadonlySet<string> = new Set(
  (
    "button cell checkbox columnheader gridcell heading link menuitem menuitemcheckbox menuitemradio option radio row " +
    "rowheader switch tab tooltip treeitem"
  ).split(" "),
);

export const TEXT_ROLES: ReadonlySet<string> = new Set(["textbox", "searchbox", "spinbutton", "combobox"]);

export function isEditableHost(el: Element): boolean {
  const value = attr(el, "contenteditable");
  return value !== null && value !== "false" && value !== "inherit";
}

/** Whether the element takes the focus by itself. */
export function isFocusable(el: Element): boolean {
  const tag = tagOf(el);
  if (tag === "a" || tag === "area") return has(el, "href");
  if (tag === "input") return attr(el, "type")?.toLowerCase() !== "hidden";
  return (
    tag === "button" ||
    tag === "select" ||
    tag === "textarea" ||
    tag === "summary" ||
    tag === "iframe" ||
    has(el, "tabindex") ||
    isEditableHost(el)
  );
}

/** The role; "" for generic and none. */
export const roleOf: (el: Element) => string = remembered(computeRole);

function computeRole(el: Element): string {
  const given = attr(el, "role");
  if (given !== null) {
    for (const token of given.toLowerCase().split(/\s+/)) {
      if (!KNOWN.has(token)) continue;
      if (token === "none" || token === "presentation") {
        if (isFocusable(el) || GLOBAL_ARIA.some((name) => has(el, name))) break;
        return "";
      }
      return token === "generic" ? "" : (SAME_AS[token] ?? token);
    }
  }
  return implicitRole(el);
}

function implicitRole(el: Element): string {
  const tag = tagOf(el);
  const plain = TAG_ROLES[tag];
  if (plain !== undefined) return tag === "summary" && !isDetailsSummary(el) ? "" : plain;
  switch (tag) {
    case "a":
    case "area":
      return has(el, "href") || actsAsLink(el) ? "link" : byEdit(el);
    case "input":
      return inputRole(el as HTMLInputElement);
    case "select":
      return isSelect(el) && (el.multiple || el.size > 1) ? "listbox" : "combobox";
    case "img": {
      const alt = attr(el, "alt");
      return alt === "" && !has(el, "aria-label") && !has(el, "aria-labelledby") && !has(el, "title") ? "" : "img";
    }
    case "svg":
      return has(el, "aria-label") || has(el, "aria-labelledby") || query(el, "title") !== null ? "img" : "";
    case "li":
      return isList(flatParent(el)) ? "listitem" : "";
    case "td":
    case "th":
    case "tr":
    case "tbody":
    case "thead":
    case "tfoot":
      return tablePart(el, tag);
    case "header":
      return outsideSections(el) ? "banner" : "";
    case "footer":
      return outsideSections(el) ? "contentinfo" : "";
    case "section":
      return isNamed(el) ? "region" : "";
    case "label":
      return labelRole(el);
    default:
      return byEdit(el);
  }
}

const byEdit = (el: Element): string => (isEditableHost(el) ? "textbox" : "");

const isNamed = (el: Element): boolean => has(el, "aria-label") || has(el, "aria-labelledby") || has(el, "title");

function isDetailsSummary(el: Element): boolean {
  const parent = flatParent(el);
  return parent !== null && (tagOf(parent) === "details" || tagOf(parent) === "slot");
}

function isList(el: Element | null): boolean {
  if (el === null) return false;
  const tag = tagOf(el);
  if (tag === "slot") return isList(flatParent(el));
  const role = attr(el, "role");
  return role === null ? tag === "ul" || tag === "ol" || tag === "menu" : role === "list" || role === "directory";
}

/** The parts of a table that is none, `role=presentation`, are none either. */
function tablePart(el: Element, tag: string): string {
  const table = ancestorWith(el, "table");
  const given = table === null ? null : attr(table, "role");
  if (given === "presentation" || given === "none") return "";
  if (tag === "td") return given === "grid" || given === "treegrid" ? "gridcell" : "cell";
  return tag === "th" ? headerRole(el) : tag === "tr" ? "row" : "rowgroup";
}

/** An anchor without an address that is clicked all the same; what scripts listen to can't be seen, the cursor can. */
const actsAsLink = (el: Element): boolean =>
  has(el, "onclick") || has(el, "tabindex") || (tagOf(el) === "a" && styleOf(el).cursor === "pointer" && (flatParent(el) === null || styleOf(flatParent(el) as Element).cursor !== "pointer"));

function headerRole(el: Element): string {
  const scope = attr(el, "scope")?.toLowerCase();
  if (scope === "row" || scope === "rowgroup") return "rowheader";
  if (scope === "col" || scope === "colgroup") return "columnheader";
  const row = flatParent(el);
  const section = row === null ? null : flatParent(row);
  if (section !== null && tagOf(section) === "thead") return "columnheader";
  return row !== null && query(row, "td") !== null ? "rowheader" : "columnheader";
}

function outsideSections(el: Element): boolean {
  const parent = flatParent(el);
  return parent === null || closest(parent, (node) => SECTIONING.has(tagOf(node))) === null;
}

function inputRole(el: HTMLInputElement): string {
  const type = isInput(el) ? el.type : "text";
  if (type === "checkbox" && has(el, "switch")) return "switch";
  const role = INPUT_ROLES[type] ?? "textbox";
  return (role === "textbox" || role === "searchbox") && has(el, "list") ? "combobox" : role;
}

/**
 * A label whose checkbox, radio button or file field is hidden acts for it: that is what the user sees and clicks.
 */
function labelRole(el: Element): string {
  const control = hiddenControl(el);
  return control === null ? "" : inputRole(control);
}

export function hiddenControl(el: Element): HTMLInputElement | null {
  if (!(el instanceof HTMLLabelElement)) return null;
  const control = el.control;
  if (control === null || !isInput(control)) return null;
  if (control.type !== "checkbox" && control.type !== "radio" && control.type !== "file") return null;
  return isShown(control) ? null : control;
}

/** The level of a heading, 1-6; 2 where nothing says. */
export function headingLevel(el: Element): number {
  const given = Number(attr(el, "aria-level"));
  if (Number.isInteger(given) && given > 0) return Math.min(given, 6);
  const own = /^h([1-6])$/.exec(tagOf(el));
  return own === null ? 2 : Number(own[1]);
}

const DISABLEABLE = new Set(["button", "fieldset", "input", "optgroup", "option", "select", "textarea"]);

/** Whether the control is disabled, by itself, by a fieldset or by ARIA. */
export function isDisabled(el: Element): boolean {
  const tag = tagOf(el);
  if ((DISABLEABLE.has(tag) || tag.includes("-")) && matches(el, ":disabled")) return true;
  if (ancestorWith(el, '[aria-disabled="true"]') !== null) return true;
  const control = tag === "label" ? hiddenControl(el) : null;
  return control !== null && matches(control, ":disabled");
}

/** Where a control belongs: tells apart equal controls of two forms. */
export function formContext(el: Element): string {
  const form = formOf(el) ?? closest(el, (node) => tagOf(node) === "form");
  if (form === null) return "";
  return [attr(form, "id"), attr(form, "name"), attr(form, "action"), attr(form, "aria-label")].map((v) => v ?? "").join("|");
}
