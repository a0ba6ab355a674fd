/**
 * One walk over the flat tree that turns the page into lines of text and elements.
 *
 * Reading order; visible content only; light DOM, open and closed shadow roots, slots. Elements that a user operates or
 * that carry structure (tables, frames) become items; the rest is text. Repeated records (list entries, table rows,
 * cards) are recognised here, because every mode needs them. Gives no refs and renders nothing: `render.ts` does.
 */

import {
  attr,
  breaksText,
  childCount,
  children,
  countBelow,
  data,
  eachChild,
  has,
  isConcealed,
  isElement,
  nodeType,
  query,
  rectOf,
  remembered,
  rootElement,
  tagOf,
  textContent,
  visibility,
} from "./dom";
import { CONTROL_ROLES, headingLevel, hiddenControl, isEditableHost, roleOf } from "./roles";
import { isMark, marksWithin, MAX_MARKS, shapesOf } from "./marks";
import { isClickable, nameFor } from "./refs";

export interface Item {
  readonly el: Element;
  readonly role: string;
  readonly name: string;
}

export type Token = string | Item;

export type Region = "body" | "nav" | "live" | "dialog";

export interface Line {
  readonly el: Element;
  readonly tokens: Token[];
  /** 1-6: a heading. */
  readonly level: number;
  readonly region: Region;
  readonly group: RecordGroup | null;
  /** Index of the record within its group. */
  readonly record: number;
}

export interface RecordGroup {
  readonly parent: Element;
  readonly records: Element[];
}

export interface Snapshot {
  readonly lines: Line[];
  readonly frames: number;
}

const SKIPPED = new Set(
  "script style noscript template head link meta base title datalist audio video canvas object embed map param source track".split(
    " ",
  ),
);
/** Items that swallow their content. */
const ATOMS = new Set(
  (
    "button checkbox link menuitem menuitemcheckbox menuitemradio option progressbar meter radio scrollbar searchbox slider " +
    "spinbutton switch tab textbox img iframe"
  ).split(" "),
);
const NESTED_CONTROLS = "a[href],button,input:not([type=hidden]),select,textarea,[role=button],[role=link],[role=checkbox]";
const MAX_TEXT = 1_000; // characters of one text line: a longer one continues in the next, so that cursors can cut it
const MIN_RECORDS = 3;
const MAX_RECORD_TEXT = 800; // characters; more is a section of a page, not a record
const MAX_RECORD_NODES = 120;

interface State {
  readonly lines: Line[];
  current: Token[];
  holder: Element;
  level: number;
  region: Region;
  group: RecordGroup | null;
  record: number;
  /** Inside a table row that is printed as one line. */
  row: boolean;
  frames: number;
  /** Things without a name told so far. */
  marks: number;
}

/** Reads the page, or the part below `scope`. Within one pass the page is read once. */
export function takeSnapshot(scope: Element | null = null): Snapshot {
  if (scope !== null) return read(scope);
  const root = topDialog() ?? rootElement(document);
  return root === null ? { lines: [], frames: 0 } : readOnce(root);
}

const readOnce: (root: Element) => Snapshot = remembered(read);

function read(root: Element): Snapshot {
  const state: State = {
    lines: [],
    current: [],
    holder: root,
    level: 0,
    region: "body",
    group: null,
    record: -1,
    row: false,
    frames: 0,
    marks: 0,
  };
  visit(root, state, new Map());
  flush(state);
  return { lines: state.lines, frames: state.frames };
}

/** The modal dialog that makes the rest of the page inert, if one is open. */
export function topDialog(): Element | null {
  const root = rootElement(document);
  const open = root === null ? [] : Array.from(Element.prototype.querySelectorAll.call(root, "dialog:modal"));
  return open[open.length - 1] ?? null;
}

type Records = Map<Element, { group: RecordGroup; index: number }>;

function visit(el: Element, state: State, records: Records): void {
  const tag = tagOf(el);
  if (SKIPPED.has(tag)) return;
  const seen = visibility(el);
  if (seen === "gone" || isConcealed(el)) return;
  if (tag === "br") {
    if (!state.row) flush(state);
    return;
  }
  if (tag === "hr") {
    flush(state);
    return;
  }
  const shown = seen === "shown";
  const role = roleOf(el);
  if (shown && emitAtom(el, tag, role, state, records)) return;
  if (tag === "svg") {
    if (shown) for (const shape of shapesOf(el)) emitMark(shape, state);
    return;
  }

  const saved = { holder: state.holder, level: state.level, region: state.region, group: state.group, record: state.record, row: state.row };
  const place = records.get(el);
  const block = breaksFlow(el, tag, role);
  if (block && !state.row) flush(state);
  else if (block) pushSpace(state);
  if (place !== undefined) {
    state.group = place.group;
    state.record = place.index;
  }
  const region = regionOf(el, role);
  if (region !== null) state.region = region;
  if (block && !state.row) state.holder = el;
  if (role === "heading") {
    if (!state.row) state.level = headingLevel(el);
  } else if (role === "row" && isDataRow(el)) {
    state.row = true;
  } else if (state.row && (role === "cell" || role === "gridcell" || role === "columnheader" || role === "rowheader")) {
    if (state.current.length > 0) state.current.push(" | ");
  } else if (role === "table" || role === "grid" || role === "treegrid") {
    emitContainer(el, role, state);
  } else if (role === "listbox" || role === "combobox" || role === "tree" || (role === "treeitem" && shown)) {
    emitContainer(el, role, state);
  }
  findRecords(el, role, state, records);
  walkChildren(el, state, records, shown);
  if (block && !saved.row) flush(state);
  else if (block) pushSpace(state);
  Object.assign(state, saved);
}

function walkChildren(el: Element, state: State, records: Records, shown: boolean): void {
  eachChild(el, (node) => {
    if (nodeType(node) === 3) {
      if (shown || tagOf(el) === "slot" || seenThrough(el)) pushText(state, data(node));
    } else if (isElement(node)) {
      visit(node, state, records);
    }
  });
}

/** `display: contents` draws no box of its own but shows its text. */
export const seenThrough = (el: Element): boolean => getComputedStyle(el).display === "contents" && getComputedStyle(el).visibility === "visible";

function emitAtom(el: Element, tag: string, role: string, state: State, records: Records): boolean {
  if (tag === "select" || (tag === "input" && role !== "")) {
    state.current.push({ el, role, name: nameFor(el, role) });
    return true;
  }
  if (tag === "label" && role === "" && labelsShownControl(el)) {
    // The control carries this text as its name; only controls inside still count.
    eachChild(el, (node) => {
      if (isElement(node)) visitControlsOnly(node, state, records);
    });
    return true;
  }
  if (ATOMS.has(role) || tag === "textarea" || isEditableHost(el)) {
    const name = nameFor(el, role);
    if (role === "img" && name === "") return true;
    if (role === "iframe") state.frames++;
    state.current.push({ el, role, name });
    if (role !== "img" && role !== "iframe" && !isEditableHost(el) && tag !== "textarea") nestedControls(el, state, records);
    return true;
  }
  if (role === "" && isClickable(el) && query(el, NESTED_CONTROLS) === null) {
    const name = nameFor(el, "");
    if (name === "") return emitBare(el, tag, state);
    state.current.push({ el, role: "", name });
    for (const mark of marksWithin(el)) emitMark(mark, state);
    return true;
  }
  return role === "" && isMark(el) && emitMark(el, state);
}

/** Something operable without a name: itself, unless its content says more. */
function emitBare(el: Element, tag: string, state: State): boolean {
  if (tag === "svg" || query(el, "img,svg,iframe,frame,[aria-label],[title]") !== null || marksWithin(el).length > 0) return false;
  const { width, height } = rectOf(el);
  return width >= 4 && height >= 4 && emitMark(el, state);
}

/** A thing without a name, or a shape. True if it was told. */
function emitMark(el: Element, state: State): boolean {
  if (state.marks >= MAX_MARKS) return false;
  state.marks++;
  state.current.push({ el, role: "", name: nameFor(el, "") });
  return true;
}

/** Controls inside a link or button: not valid HTML, but pages do it. */
function nestedControls(el: Element, state: State, records: Records): void {
  if (childCount(el) === 0 || query(el, NESTED_CONTROLS) === null) return;
  eachChild(el, (node) => {
    if (isElement(node)) visitControlsOnly(node, state, records);
  });
}

function visitControlsOnly(el: Element, state: State, records: Records): void {
  if (isConcealed(el) || visibility(el) === "gone") return;
  if (CONTROL_ROLES.has(roleOf(el)) || tagOf(el) === "select") {
    visit(el, state, records);
    return;
  }
  eachChild(el, (node) => {
    if (isElement(node)) visitControlsOnly(node, state, records);
  });
}

function labelsShownControl(el: Element): boolean {
  const control = el instanceof HTMLLabelElement ? el.control : null;
  return control !== null && hiddenControl(el) === null && visibility(control) === "shown";
}

function emitContainer(el: Element, role: string, state: State): void {
  if (state.row) return;
  flush(state);
  state.current.push({ el, role, name: nameFor(el, role) });
  flush(state);
}

function breaksFlow(el: Element, tag: string, role: string): boolean {
  if (role === "heading" || role === "listitem" || role === "row" || role === "dialog" || role === "alert") return true;
  if (tag === "td" || tag === "th" || tag === "slot") return false;
  return breaksText(el);
}

function regionOf(el: Element, role: string): Region | null {
  if (role === "navigation" || role === "menubar") return "nav";
  if (role === "dialog" || role === "alertdialog") return "dialog";
  if (role === "alert" || role === "status") return "live";
  const live = attr(el, "aria-live");
  return live === "polite" || live === "assertive" ? "live" : null;
}

/** A row of a table that is no layout table: printed as one line. */
function isDataRow(row: Element): boolean {
  return query(row, "table") === null && (textContent(row) ?? "").length <= MAX_RECORD_TEXT;
}

function pushText(state: State, text: string): void {
  if (text === "" || (state.current.length === 0 && text.trim() === "")) return;
  state.current.push(text);
}

function pushSpace(state: State): void {
  if (state.current.length > 0) state.current.push(" ");
}

function flush(state: State): void {
  if (state.current.length === 0) return;
  const tokens = merge(state.current);
  state.current = [];
  if (tokens.length === 0) return;
  for (const part of split(tokens)) {
    state.lines.push({
      el: state.holder,
      tokens: part,
      level: state.level,
      region: state.region,
      group: state.group,
      record: state.record,
    });
  }
}

/** Joins neighbouring texts, collapses white space, drops what is empty. */
function merge(tokens: Token[]): Token[] {
  const out: Token[] = [];
  let text = "";
  const close = (): void => {
    const flat = text.replace(/\s+/g, " ");
    if (flat.trim() !== "") out.push(flat);
    text = "";
  };
  for (const token of tokens) {
    if (typeof token === "string") {
      text += token;
    } else {
      close();
      out.push(token);
    }
  }
  close();
  return out;
}

/** Cuts a line whose text is too long, between words where there are any. */
function split(tokens: Token[]): Token[][] {
  const lines: Token[][] = [];
  let line: Token[] = [];
  let used = 0;
  for (const token of tokens) {
    if (typeof token !== "string") {
      line.push(token);
      continue;
    }
    let rest = token;
    while (used + rest.length > MAX_TEXT) {
      const room = Math.max(MAX_TEXT - used, 1);
      const space = rest.lastIndexOf(" ", room);
      const end = space > 0 ? space : room;
      line.push(rest.slice(0, end));
      lines.push(line);
      line = [];
      used = 0;
      rest = rest.slice(end);
    }
    if (rest !== "") line.push(rest);
    used += rest.length;
  }
  if (line.length > 0) lines.push(line);
  return lines;
}

// ---------------------------------------------------------------- records

/** Children of `el` that repeat: equal tag, role and first class, three at least, each small and worth a line. */
function findRecords(el: Element, role: string, state: State, records: Records): void {
  if (state.group !== null || state.region === "nav" || childCount(el) < MIN_RECORDS || role === "row") return;
  const group = recordGroup(el);
  if (group !== null) group.records.forEach((record, index) => records.set(record, { group, index }));
}

/** The group of repeated records among the children of `el`, or null. */
export function recordGroup(el: Element): RecordGroup | null {
  const list = Array.from(children(el));
  const bySignature = new Map<string, Element[]>();
  for (const child of list) {
    const signature = `${tagOf(child)} ${attr(child, "role") ?? ""} ${(attr(child, "class") ?? "").trim().split(/\s+/)[0] ?? ""}`;
    const same = bySignature.get(signature);
    if (same === undefined) bySignature.set(signature, [child]);
    else same.push(child);
  }
  let best: Element[] = [];
  for (const same of bySignature.values()) if (same.length > best.length) best = same;
  if (best.length < MIN_RECORDS) return null;
  const first = best[0] as Element;
  const tag = tagOf(first);
  if (tag === "option" || tag === "br" || tag === "script" || tag === "style" || tag === "td" || tag === "th") return null;
  const good = best.filter((child) => isRecord(child, tag));
  return good.length >= MIN_RECORDS && good.length >= best.length * 0.6 ? { parent: el, records: best } : null;
}

function isRecord(el: Element, tag: string): boolean {
  const length = (textContent(el) ?? "").length;
  if (length < 2 || length > 3 * MAX_RECORD_TEXT || countBelow(el) > MAX_RECORD_NODES) return false;
  if (query(el, "input:not([type=checkbox]):not([type=radio]):not([type=hidden]):not([type=submit]):not([type=button]),textarea") !== null) {
    return false; // a row of a form
  }
  if (tag === "tr" || tag === "li" || tag === "article") return true;
  return has(el, "role") || query(el, "a[href],button,img,h1,h2,h3,h4,h5,h6") !== null;
}
