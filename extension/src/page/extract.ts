/**
 * `browser_page_extract`: text, lists, tables and links as rows, with a preview the worker can read.
 *
 * Only what is visible. A region is any element inside the wanted table or list; without one the largest on the page is
 * taken. The rows go into an artifact, the preview is bounded by `MAX_EXTRACT_CHARS`.
 */

import {
  attr,
  breaksText,
  children,
  closest,
  collapse,
  data,
  eachChild,
  isConcealed,
  isElement,
  isShown,
  matches,
  nodeType,
  queryAll,
  rectOf,
  rootElement,
  tagOf,
  textContent,
  visibility,
} from "./dom";
import { Fault } from "./fault";
import { isSensitiveField, nameOf } from "./names";
import { clean } from "./render";
import { CONTROL_ROLES, roleOf } from "./roles";
import { recordGroup, takeSnapshot, type Line } from "./snapshot";
import { valueOf } from "./states";
import { MAX_EXTRACT_CHARS, MAX_EXTRACT_ROWS, type ExtractKind } from "../wire";
import type { Rows } from "../wire";

const MAX_CELL = 2_000; // characters of one cell

export interface Extracted {
  readonly text: string;
  readonly rows: Rows | null;
}

interface Table {
  readonly columns: string[];
  readonly rows: string[][];
  readonly caption: string;
}

/** Reads `kind` from `region`, or from the page. Throws `not-found`. */
export function extract(kind: ExtractKind, region: Element | null, fields: readonly string[], limit: number | undefined): Extracted {
  if (kind === "text") return extractText(region);
  const table = kind === "table" ? readTable(findTable(region)) : kind === "list" ? readList(region) : readLinks(region);
  const kept = fields.length === 0 ? table : pick(table, fields);
  const total = kept.rows.length;
  const cut = kept.rows.slice(0, Math.min(limit ?? MAX_EXTRACT_ROWS, MAX_EXTRACT_ROWS));
  return { text: preview(kept, cut, total), rows: { columns: kept.columns, rows: cut, total } };
}

// ---------------------------------------------------------------- text

function extractText(region: Element | null): Extracted {
  const { lines } = takeSnapshot(region);
  let text = "";
  const rows: string[][] = [];
  for (const line of lines) {
    const said = sayLine(line);
    if (said === "") continue;
    rows.push([said]);
    if (text.length <= MAX_EXTRACT_CHARS) text += `${text === "" ? "" : "\n"}${said}`;
  }
  if (rows.length === 0) throw new Fault("not-found", "There is no visible text here", { next: "browser_page_observe" });
  const preview = text.length > MAX_EXTRACT_CHARS ? `${text.slice(0, MAX_EXTRACT_CHARS - 1)}…` : text;
  return { text: clean(preview), rows: { columns: ["text"], rows: rows.slice(0, MAX_EXTRACT_ROWS), total: rows.length } };
}

function sayLine(line: Line): string {
  const words = collapse(line.tokens.map((token) => (typeof token === "string" ? token : ` ${token.role === "table" ? "" : token.name} `)).join(""));
  return words === "" ? "" : line.level > 0 ? `${"#".repeat(line.level)} ${words}` : words;
}

// ---------------------------------------------------------------- tables

const isTable = (el: Element): boolean => {
  const role = attr(el, "role");
  return tagOf(el) === "table" ? role !== "presentation" && role !== "none" : role === "table" || role === "grid" || role === "treegrid";
};

function findTable(region: Element | null): Element {
  const around = region === null ? null : closest(region, isTable);
  if (around !== null) return around;
  const root = region ?? rootElement(document);
  let best: Element | null = null;
  let size = 0;
  for (const el of root === null ? [] : queryAll(root, "table,[role=table],[role=grid],[role=treegrid]")) {
    if (!isTable(el) || !isShown(el)) continue;
    const cells = queryAll(el, "td,th,[role=cell],[role=gridcell],[role=columnheader]").length;
    if (cells > size) [best, size] = [el, cells];
  }
  if (best === null) throw new Fault("not-found", region === null ? "There is no visible table on the page" : "There is no table in this region", { next: "browser_page_observe" });
  return best;
}

const CELL = "td,th,[role=cell],[role=gridcell],[role=columnheader],[role=rowheader]";

function readTable(table: Element): Table {
  const rows = queryAll(table, "tr,[role=row]").filter((row) => closest(row.parentElement ?? row, isTable) === table && isShown(row));
  const grid: string[][] = [];
  const heads: boolean[] = [];
  const pending = new Map<number, { text: string; left: number }>(); // cells that span into rows below
  for (const row of rows) {
    const cells = cellsOf(row);
    const out: string[] = [];
    const takeSpans = (): void => {
      for (let held = pending.get(out.length); held !== undefined; held = pending.get(out.length)) {
        const at = out.length;
        out.push(held.text);
        if (--held.left === 0) pending.delete(at);
      }
    };
    for (const cell of cells) {
      takeSpans();
      const text = cellText(cell);
      const wide = span(cell, "colspan");
      const tall = tagOf(cell) === "td" || tagOf(cell) === "th" ? span(cell, "rowspan") : 1;
      for (let i = 0; i < wide && out.length < 1_000; i++) {
        if (tall > 1) pending.set(out.length, { text, left: tall - 1 });
        out.push(text);
      }
    }
    takeSpans();
    if (out.length === 0) continue;
    grid.push(out);
    heads.push(cells.length > 0 && cells.every(isHeader));
  }
  const { columns, body } = nameColumns(grid, heads);
  return { columns, rows: body.map((row) => columns.map((_, i) => row[i] ?? "")), caption: nameOf(table) };
}

/** Cells of a row, found through elements without a role of their own. */
function cellsOf(row: Element): Element[] {
  const out: Element[] = [];
  const visit = (el: Element): void => {
    if (matches(el, CELL)) {
      if (isShown(el)) out.push(el);
      return;
    }
    for (const child of Array.from(children(el))) visit(child);
  };
  for (const child of Array.from(children(row))) visit(child);
  return out;
}

const isHeader = (cell: Element): boolean => {
  const role = attr(cell, "role");
  return tagOf(cell) === "th" ? attr(cell, "scope") !== "row" : role === "columnheader";
};

function span(cell: Element, name: "colspan" | "rowspan"): number {
  const value = Number(attr(cell, name));
  return Number.isInteger(value) && value >= 1 ? Math.min(value, 1_000) : 1;
}

/** Leading rows of headers become column names, joined where there are several. */
function nameColumns(grid: string[][], heads: boolean[]): { columns: string[]; body: string[][] } {
  const width = grid.reduce((max, row) => Math.max(max, row.length), 0);
  let depth = 0;
  while (depth < grid.length && heads[depth] === true) depth++;
  if (depth === grid.length) depth = Math.min(1, depth); // all headers: the first row names, the rest is data
  const columns: string[] = [];
  const used = new Map<string, number>();
  for (let i = 0; i < width; i++) {
    const parts: string[] = [];
    for (let row = 0; row < depth; row++) {
      const part = grid[row]?.[i] ?? "";
      if (part !== "" && part !== parts[parts.length - 1]) parts.push(part);
    }
    const base = parts.join(" ") || `column ${i + 1}`;
    const count = (used.get(base) ?? 0) + 1;
    used.set(base, count);
    columns.push(count === 1 ? base : `${base} (${count})`);
  }
  return { columns, body: grid.slice(depth) };
}

/** Visible text of a cell; a control in it says its value or name. */
function cellText(cell: Element): string {
  const lines = takeSnapshot(cell).lines;
  const text = lines
    .map((line) =>
      line.tokens
        .map((token) => {
          if (typeof token === "string") return token;
          if (isSensitiveField(token.el)) return "";
          const value = valueOf(token.el);
          return value ?? (token.role === "checkbox" || token.role === "radio" ? "" : token.name);
        })
        .join(" "),
    )
    .join(" ");
  return collapse(text).slice(0, MAX_CELL);
}

// ---------------------------------------------------------------- lists

const MAX_COLUMNS = 24; // of a list; what a record has beyond them is joined into the last

/**
 * Records as rows. A column is a place inside the record (its path of tags and first classes), so that a record that
 * lacks a part leaves a gap instead of shifting what follows.
 */
function readList(region: Element | null): Table {
  const records = findList(region).filter(isShown);
  const places = new Map<string, number>();
  const parsed = records.map((record) => {
    const pieces = piecesOf(record);
    for (const { place } of pieces) if (!places.has(place) && places.size < MAX_COLUMNS) places.set(place, places.size);
    const link = tagOf(record) === "a" ? record : queryAll(record, "a[href]").find(isShown);
    return { pieces, url: link instanceof HTMLAnchorElement ? httpUrl(link) : "" };
  });
  const linked = parsed.some(({ url }) => url !== "");
  const width = Math.max(places.size, 1);
  const rows = parsed.map(({ pieces, url }) => {
    const row = Array.from({ length: width }, () => "");
    for (const { place, text } of pieces) {
      const at = places.get(place) ?? width - 1;
      row[at] = row[at] === "" ? text : `${row[at]} ${text}`.slice(0, MAX_CELL);
    }
    return linked ? [...row, url] : row;
  });
  const columns = Array.from({ length: width }, (_, i) => (i === 0 ? "text" : `text ${i + 1}`));
  return { columns: linked ? [...columns, "url"] : columns, rows, caption: "" };
}

interface Piece {
  readonly place: string;
  text: string;
}

/** Visible texts of a record with the place each stands at. Buttons and fields are no part of the record's data. */
function piecesOf(record: Element): Piece[] {
  const pieces: Piece[] = [];
  const add = (place: string, text: string): void => {
    const last = pieces[pieces.length - 1];
    if (last?.place === place) last.text += text;
    else pieces.push({ place, text });
  };
  const visit = (el: Element, place: string, counts: Map<string, number>): void => {
    if (isConcealed(el)) return;
    const seen = visibility(el);
    const role = roleOf(el);
    if (seen === "gone" || SILENT.has(tagOf(el)) || (CONTROL_ROLES.has(role) && role !== "link")) return;
    if (role === "img") {
      add(`${place}/img`, ` ${nameOf(el)} `);
      return;
    }
    // Plain inline formatting is no place of its own: "two <b>big</b> rooms" is one text.
    const own = attr(el, "class") !== null || role === "link" || breaksText(el);
    let here = place;
    if (own && el !== record) {
      here += `/${tagOf(el)}.${(attr(el, "class") ?? "").trim().split(/\s+/)[0] ?? ""}`;
      const count = (counts.get(here) ?? 0) + 1;
      counts.set(here, count);
      if (count > 1) here += `#${count}`;
    }
    const inner = here === place ? counts : new Map<string, number>();
    eachChild(el, (node) => {
      if (nodeType(node) === 3) {
        if (seen === "shown" && data(node).trim() !== "") add(here, data(node));
      } else if (isElement(node)) {
        visit(node, here, inner);
      }
    });
  };
  visit(record, "", new Map());
  return pieces.map(({ place, text }) => ({ place, text: collapse(text).slice(0, MAX_CELL) })).filter(({ text }) => text !== "");
}

const SILENT = new Set(["script", "style", "noscript", "template", "svg"]);

/** The records around the region, inside it, or, without one, of the list with the largest area. */
function findList(region: Element | null): Element[] {
  if (region !== null) {
    for (let el: Element | null = region; el !== null; el = el.parentElement) {
      const group = recordGroup(el);
      if (group !== null && (el === region || group.records.some((record) => record.contains(region)))) return group.records;
    }
  }
  let best: Element[] | null = null;
  let size = 0;
  const root = region ?? rootElement(document);
  const visit = (el: Element): void => {
    if (!isShown(el) && getComputedStyle(el).display !== "contents") return;
    if (!matches(el, "nav,[role=navigation],thead")) {
      const group = recordGroup(el);
      if (group !== null) {
        const area = group.records.reduce((sum, record) => {
          const rect = rectOf(record);
          return sum + rect.width * rect.height;
        }, 0);
        const weight = area + group.records.reduce((sum, record) => sum + Math.min((textContent(record) ?? "").length, 500), 0) * 50;
        if (weight > size) [best, size] = [group.records, weight];
      }
      eachChild(el, (node) => {
        if (nodeType(node) === 1 && isElement(node)) visit(node);
      });
    }
  };
  if (root !== null) visit(root);
  if (best === null) {
    const items = root === null ? [] : queryAll(root, "ul,ol,[role=list]").filter(isShown).map((list) => Array.from(children(list)));
    const longest = items.sort((a, b) => b.length - a.length)[0];
    if (longest !== undefined && longest.length > 0) return longest;
    throw new Fault("not-found", "There is no list of repeated records here", { next: "browser_page_observe" });
  }
  return best;
}

// ---------------------------------------------------------------- links

function readLinks(region: Element | null): Table {
  const rows: string[][] = [];
  const visit = (el: Element): void => {
    if (tagOf(el) === "a" && el instanceof HTMLAnchorElement && isShown(el)) {
      const url = httpUrl(el);
      if (url !== "") rows.push([nameOf(el), url]);
    }
    eachChild(el, (node) => {
      if (nodeType(node) === 1 && isElement(node)) visit(node);
    });
  };
  const root = region ?? rootElement(document);
  if (root !== null) visit(root);
  if (rows.length === 0) throw new Fault("not-found", "There are no links here", { next: "browser_page_observe" });
  return { columns: ["text", "url"], rows, caption: "" };
}

const httpUrl = (link: HTMLAnchorElement): string => (/^https?:/.test(link.href) ? link.href : "");

// ---------------------------------------------------------------- shaping

/** Keeps the named columns, in the order asked for; a name fits exactly, else without regard to case. */
function pick(table: Table, fields: readonly string[]): Table {
  const indexes = fields.map((field) => {
    const exact = table.columns.indexOf(field);
    return exact >= 0 ? exact : table.columns.findIndex((column) => column.toLowerCase() === collapse(field).toLowerCase());
  });
  if (indexes.some((index) => index < 0)) {
    throw new Fault("not-found", `One of the fields is no column; there are ${table.columns.length} columns`, { next: "browser_page_extract" });
  }
  return {
    columns: indexes.map((index) => table.columns[index] ?? ""),
    rows: table.rows.map((row) => indexes.map((index) => row[index] ?? "")),
    caption: table.caption,
  };
}

/** CSV (RFC 4180 quoting) until the limit, then how much is missing. */
function preview(table: Table, rows: readonly string[][], total: number): string {
  const quote = (cell: string): string => (/[",\n]/.test(cell) ? `"${cell.replace(/"/g, '""')}"` : cell);
  const head = `${total} rows${table.caption === "" ? "" : ` of ${JSON.stringify(table.caption)}`}`;
  let text = `${head}\n${table.columns.map(quote).join(",")}`;
  let shown = 0;
  for (const row of rows) {
    const line = `\n${row.map(quote).join(",")}`;
    if (text.length + line.length > MAX_EXTRACT_CHARS - 60) break;
    text += line;
    shown++;
  }
  if (shown < total) text += `\n… ${total - shown} more rows`;
  return clean(text);
}
