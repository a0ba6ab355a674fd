/**
 * `browser_page_extract`, kind table: the grid of a table as rows under named columns.
 *
 * Native tables and ARIA grids. Spans are filled out; several rows of headers are joined; a header across the whole width
 * becomes the column `group` of what follows it; `headers` and `aria-colindex` are kept to. A table that shows only a
 * part of its rows (virtualised) is scrolled through, within the time and number of rows it is given, and scrolled back.
 */

import { attr, children, closest, collapse, flatParent, isShown, matches, ownerDocument, queryAll, rectOf, byId, rootElement, rootOf, scrollerOf, styleOf, tagOf, textContent } from "./dom";
import { Fault } from "./fault";
import { nameOf } from "./names";
import { cellText, headText, MAX_CELL, type Table } from "./rows";

/** How a reading keeps within its time: `read` runs a synchronous part within the budget and in one pass. */
export interface Pace {
  readonly read: <T>(work: () => T) => T;
  /** `performance.now()` at which reading ends with what it has. */
  readonly end: number;
  readonly stopped: () => boolean;
  /** Nobody sees to it yet that this tab draws: where it would have to scroll in the background, it gives `MUST_SCROLL`. */
  readonly still: boolean;
}

/** Given instead of a table that has to be scrolled, see `Pace.still`. */
export const MUST_SCROLL = "must-scroll";

interface Row {
  /** What tells it from the others while the table scrolls; "" if the page does not say. */
  readonly key: string;
  readonly cells: string[];
  readonly head: boolean;
  /** A header across the whole width: the name of the rows below. */
  readonly group: string | null;
}

interface Grid {
  readonly rows: Row[];
  /** Per column: the text of what its cells name in `headers`. */
  readonly named: Map<number, string>;
}

const TABLES = "table,[role=table],[role=grid],[role=treegrid]";
const CELL = "td:not([role=presentation],[role=none]),th:not([role=presentation],[role=none]),[role=cell],[role=gridcell],[role=columnheader],[role=rowheader]";
const ROW = "tr:not([role=presentation],[role=none]),[role=row]";
const MAX_WIDTH = 1_000; // columns
const ROW_KEYS = ["aria-rowindex", "row-index", "data-row-index", "data-rowindex", "data-index", "data-row-id", "data-row-key", "data-id"];
const GROUP_COLUMN = "group";

const isTable = (el: Element): boolean => {
  const role = attr(el, "role");
  return tagOf(el) === "table" ? role !== "presentation" && role !== "none" : role === "table" || role === "grid" || role === "treegrid";
};

/** The table around `region` or in it, or the largest of the page, with `limit` rows at most if it has to be scrolled. */
export async function readTable(region: Element | null, limit: number, pace: Pace): Promise<Table | typeof MUST_SCROLL> {
  const { table, grid, scroller } = pace.read(() => {
    const found = findTable(region);
    const seen = readGrid(found);
    return { table: found, grid: seen, scroller: scrollerFor(found, seen) };
  });
  if (scroller !== null && pace.still && document.hidden) return MUST_SCROLL;
  const rows = scroller === null ? grid.rows : await scrollThrough(table, scroller, grid, limit, pace);
  return pace.read(() => {
    const { columns, body } = nameColumns(rows, grid.named);
    const declared = scroller === null || body.length < limit ? undefined : declaredRows(table);
    return { columns, rows: body, caption: nameOf(table), ...(declared === undefined ? {} : { declared }) };
  });
}

function findTable(region: Element | null): Element {
  const around = region === null ? null : closest(region, isTable);
  if (around !== null) return around;
  const root = region ?? rootElement(document);
  let best: Element | null = null;
  let size = 0;
  for (const el of root === null ? [] : queryAll(root, TABLES)) {
    if (!isTable(el) || !isShown(el)) continue;
    // Cells of a table inside are its own.
    const cells = queryAll(el, CELL).filter((cell) => closest(cell, isTable) === el).length;
    if (cells > size) [best, size] = [el, cells];
  }
  if (best === null) throw new Fault("not-found", region === null ? "There is no visible table on the page" : "There is no table in this region", { next: "browser_page_observe" });
  return best;
}

// ---------------------------------------------------------------- one look

/** The rows of `table` that are there now, spans filled out, in the order they are seen. */
function readGrid(table: Element): Grid {
  const rows = queryAll(table, ROW).filter((row) => closest(flatParent(row) ?? row, isTable) === table && isShown(row));
  const found: Row[] = [];
  const named = new Map<number, string>();
  const byKey = new Map<string, number>();
  let pending = new Map<number, { text: string; left: number }>(); // cells that span into rows below
  let section: Element | null = null;
  const width = Math.max(0, ...rows.slice(0, 50).map((row) => cellsOf(row).reduce((sum, cell) => sum + span(cell, "colspan"), 0)));
  for (const row of inOrder(rows)) {
    const cells = cellsOf(row);
    const head = isHeadRow(row, cells);
    if (flatParent(row) !== section) {
      section = flatParent(row);
      pending = new Map(); // a cell spans no further than its section
    }
    const out: string[] = [];
    const takeSpans = (): void => {
      for (let held = pending.get(out.length); held !== undefined; held = pending.get(out.length)) {
        const at = out.length;
        out.push(held.text);
        if (--held.left === 0) pending.delete(at);
      }
    };
    const spread = cells.length === 1 && cells[0] !== undefined && width > 1 && span(cells[0], "colspan") >= width;
    for (const cell of cells) {
      takeSpans();
      const index = Number(attr(cell, "aria-colindex"));
      while (Number.isInteger(index) && index >= 1 && index <= MAX_WIDTH && out.length < index - 1) out.push("");
      const text = head ? headText(cell) : cellText(cell);
      const wide = span(cell, "colspan");
      const tall = span(cell, "rowspan");
      noteHeaders(cell, out.length, named);
      for (let i = 0; i < wide && out.length < MAX_WIDTH; i++) {
        if (tall > 1) pending.set(out.length, { text, left: tall - 1 });
        out.push(text);
      }
    }
    takeSpans();
    if (out.every((text) => text === "") && (out.length === 0 || cells.length === 0)) continue;
    const key = keyOf(row);
    const before = key === "" ? undefined : byKey.get(key);
    const known = before === undefined ? undefined : found[before];
    if (before !== undefined && known !== undefined) {
      // One row drawn in several parts, as grids with fixed columns do.
      found[before] = { ...known, cells: merge(known.cells, out), head: known.head && head };
      continue;
    }
    if (key !== "") byKey.set(key, found.length);
    found.push({ key, cells: out, head, group: spread && head ? (out[0] ?? "") : null });
  }
  return { rows: found, named };
}

function merge(left: readonly string[], right: readonly string[]): string[] {
  const apart = right.slice(0, left.length).every((text) => text === "") || left.length === 0;
  return apart ? [...left, ...right.slice(left.length)] : [...left, ...right];
}

/** Rows placed by style stand in the document in any order: these are told as they are seen, from the top. */
function inOrder(rows: Element[]): Element[] {
  const first = rows.find((row) => tagOf(row) !== "tr");
  if (first === undefined) return rows;
  const indexes = rows.map((row) => Number(attr(row, "aria-rowindex") ?? Number.NaN));
  if (indexes.every(Number.isFinite)) return sorted(rows, indexes);
  const last = rows[rows.length - 1];
  if (last === undefined || styleOf(last).position !== "absolute") return rows;
  return sorted(rows, rows.map((row) => rectOf(row).top));
}

const sorted = (rows: Element[], by: readonly number[]): Element[] =>
  rows
    .map((row, i) => ({ row, at: by[i] ?? 0 }))
    .sort((a, b) => a.at - b.at)
    .map(({ row }) => row);

function keyOf(row: Element): string {
  for (const name of ROW_KEYS) {
    const value = attr(row, name);
    if (value !== null && value !== "") return `${name} ${value}`;
  }
  return "";
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

function isHeadRow(row: Element, cells: readonly Element[]): boolean {
  const parent = flatParent(row);
  if (parent !== null && tagOf(parent) === "thead") return true;
  const [corner, ...others] = cells;
  if (corner === undefined) return false;
  // The corner above the row headers is often a plain empty cell.
  return isHeader(corner) ? others.every(isHeader) : others.length > 1 && others.every(isHeader) && collapse(textContent(corner) ?? "") === "";
}

const isHeader = (cell: Element): boolean => {
  const role = attr(cell, "role");
  return tagOf(cell) === "th" && role === null ? attr(cell, "scope") !== "row" : role === "columnheader";
};

function span(cell: Element, name: "colspan" | "rowspan"): number {
  const native = tagOf(cell) === "td" || tagOf(cell) === "th";
  const value = Number(attr(cell, native ? name : `aria-${name}`));
  return Number.isInteger(value) && value >= 1 ? Math.min(value, MAX_WIDTH) : 1;
}

/** Remembers, for one column, the headers that its first cell with `headers` names. Row headers are no column's name. */
function noteHeaders(cell: Element, column: number, named: Map<number, string>): void {
  const ids = attr(cell, "headers");
  if (ids === null || named.has(column) || tagOf(cell) !== "td") return;
  const parts: string[] = [];
  for (const id of ids.split(/\s+/).slice(0, 8)) {
    const header = id === "" ? null : byId(rootOf(cell), id);
    if (header === null || flatParent(header) === flatParent(cell)) continue;
    const said = headText(header);
    if (said !== "" && !parts.includes(said)) parts.push(said);
  }
  if (parts.length > 0) named.set(column, parts.join(" "));
}

// ---------------------------------------------------------------- columns

/** Leading rows of headers become column names, joined where there are several; later ones are told apart. */
function nameColumns(rows: readonly Row[], named: ReadonlyMap<number, string>): { columns: string[]; body: string[][] } {
  let depth = 0;
  while (depth < rows.length && rows[depth]?.head === true) depth++;
  if (depth === rows.length) depth = Math.min(1, depth); // all headers: the first row names, the rest is data
  let heads = rows.slice(0, depth);
  // A header across everything right above the data names the rows below it, one above other headers the table.
  const over = heads.length > 1 ? heads[heads.length - 1]?.group ?? null : null;
  if (heads.length > 1) heads = heads.filter((head) => head.group === null);
  const width = rows.reduce((max, row) => Math.max(max, row.cells.length), 0);
  const names = Array.from({ length: width }, (_, i) => nameAt(heads, i) || (named.get(i) ?? ""));
  const grouped = over !== null || rows.slice(depth).some((row) => row.group !== null);
  const body: string[][] = [];
  let group = over ?? "";
  for (const row of rows.slice(depth)) {
    if (row.group !== null) {
      group = row.group;
      continue;
    }
    // Headers told again further down, as long tables do.
    if (row.head && depth > 0 && heads.some((head) => head.cells.join("\u0001") === row.cells.join("\u0001"))) continue;
    const cells = Array.from({ length: width }, (_, i) => row.cells[i] ?? "");
    body.push(grouped ? [group, ...cells] : cells);
  }
  const all = grouped ? [GROUP_COLUMN, ...names] : names;
  // A column that nobody names and nothing stands in is spacing.
  const kept = all.map((name, i) => name !== "" || body.some((row) => row[i] !== ""));
  const used = new Map<string, number>();
  const columns: string[] = [];
  all.forEach((name, i) => {
    if (kept[i] !== true) return;
    const base = (name || `column ${columns.length + 1}`).slice(0, MAX_CELL);
    const count = (used.get(base) ?? 0) + 1;
    used.set(base, count);
    columns.push(count === 1 ? base : `${base} (${count})`);
  });
  return { columns, body: body.map((row) => row.filter((_, i) => kept[i])) };
}

function nameAt(heads: readonly Row[], column: number): string {
  const parts: string[] = [];
  for (const head of heads) {
    const part = head.cells[column] ?? "";
    if (part !== "" && part !== parts[parts.length - 1]) parts.push(part);
  }
  const name = collapse(parts.join(" "));
  // How a table is sorted just now is no part of a column's name.
  return name.replace(SORT_MARK, "") || name;
}

const SORT_MARK = /\s*[↑↓↕▲△▴▼▽▾⇅⇵⬆⬇]+$/u;

// ---------------------------------------------------------------- virtualised tables

const STEP = 0.7; // of the visible height: what is seen twice tells where the new rows go on
const LOOK_MS = 15; // between two looks for new rows
const CHANGE_MS = 150; // for rows to appear after a scroll
const LOAD_MS = 600; // the same at the end, where more may have to be fetched
const MAX_STEPS = 2_000;
const SPARE = 1.25; // a table this much higher than its rows holds room for others

/** Rows that the page says there are, headers left out; undefined if it does not say. */
function declaredRows(table: Element): number | undefined {
  const count = Number(attr(table, "aria-rowcount"));
  if (!Number.isInteger(count) || count < 1) return undefined;
  const heads = queryAll(table, "[role=columnheader]").length > 0 ? 1 : 0;
  return Math.max(count - heads, 0);
}

/** What has to be scrolled to see all rows; null if all are there. */
function scrollerFor(table: Element, grid: Grid): Element | null {
  // Rows without cells only keep room.
  const rows = queryAll(table, ROW).filter((row) => isShown(row) && cellsOf(row).some((cell) => (textContent(cell) ?? "").trim() !== ""));
  const sample = rows[rows.length - 1];
  if (sample === undefined) return null;
  const count = Number(attr(table, "aria-rowcount"));
  const promised = count === -1 || (Number.isInteger(count) && count > grid.rows.length + 1);
  const top = ownerDocument(table);
  const pageScroller = top === null ? null : scrollerOf(top);
  const height = rows.reduce((sum, row) => sum + rectOf(row).height, 0);
  const scroller = closest(sample, (el) => el !== pageScroller && scrolls(el));
  if (scroller !== null) {
    const inside = closest(scroller, (el) => el === table) !== null;
    const room = inside ? scroller.scrollHeight : rectOf(table).height;
    return promised || room > height * SPARE + scroller.clientHeight * 0.25 ? scroller : null;
  }
  // The window scrolls: a table that keeps room for rows it does not have.
  return promised || rectOf(table).height > height * SPARE + innerHeight * 0.25 ? pageScroller : null;
}

function scrolls(el: Element): boolean {
  if (el.scrollHeight <= el.clientHeight + 1 || el.clientHeight < 20) return false;
  const overflow = styleOf(el).overflowY;
  return overflow === "auto" || overflow === "scroll" || overflow === "overlay";
}

async function scrollThrough(table: Element, scroller: Element, first: Grid, limit: number, pace: Pace): Promise<Row[]> {
  const began = scroller.scrollTop;
  const all = new Gathering();
  let last = first;
  const look = (): boolean => {
    const before = last;
    last = pace.read(() => readGrid(table));
    return signature(before) !== signature(last);
  };
  try {
    if (began > 0) {
      move(scroller, 0);
      await changed(look, CHANGE_MS, pace);
    }
    all.add(last.rows);
    for (let step = 0; step < MAX_STEPS && all.body < limit && performance.now() < pace.end && !pace.stopped(); step++) {
      const at = scroller.scrollTop;
      move(scroller, at + Math.max(scroller.clientHeight * STEP, 20));
      const ended = scroller.scrollTop <= at + 1;
      const news = await changed(look, ended ? LOAD_MS : CHANGE_MS, pace);
      const fresh = all.add(last.rows);
      if (ended && (!news || !fresh)) break;
    }
  } finally {
    move(scroller, began);
  }
  return all.rows();
}

/** Scrolls, and says so: a tab in the background draws no frames, and without a frame no page hears of it. */
function move(scroller: Element, to: number): void {
  scroller.scrollTo({ top: to, behavior: "instant" });
  scroller.dispatchEvent(new Event("scroll"));
}

const signature = (grid: Grid): string =>
  [grid.rows.length, ...[0, Math.floor(grid.rows.length / 2), grid.rows.length - 1].map((i) => grid.rows[i]?.cells.join("\u0001") ?? "")].join("\u0002");

/** Waits until `look` sees other rows and then no further ones, `ms` at most; whether it did. */
async function changed(look: () => boolean, ms: number, pace: Pace): Promise<boolean> {
  const end = Math.min(performance.now() + ms, pace.end);
  let seen = false;
  for (;;) {
    await new Promise((done) => setTimeout(done, LOOK_MS));
    const now = look();
    if (seen && !now) return true;
    seen ||= now;
    if (performance.now() >= end || pace.stopped()) return seen;
  }
}

/** Rows seen while scrolling, each once: by their keys, or by what two looks have in common. */
class Gathering {
  readonly #heads: Row[] = [];
  readonly #rows: Row[] = [];
  readonly #keys = new Set<string>();

  get body(): number {
    return this.#rows.length;
  }

  /** Takes what was not seen before; whether there was any. */
  add(rows: readonly Row[]): boolean {
    let depth = 0;
    while (rows[depth]?.head === true) depth++;
    if (this.#heads.length === 0) this.#heads.push(...rows.slice(0, depth));
    const body = rows.slice(depth);
    const before = this.#rows.length;
    if (body.every((row) => row.key !== "")) {
      for (const row of body) {
        if (this.#keys.has(row.key)) continue;
        this.#keys.add(row.key);
        this.#rows.push(row);
      }
    } else {
      this.#rows.push(...body.slice(this.#common(body)));
    }
    return this.#rows.length > before;
  }

  rows(): Row[] {
    return [...this.#heads, ...this.#rows];
  }

  /** How many of the first of `body` are the last of what is gathered: the most that fit. */
  #common(body: readonly Row[]): number {
    const words = (row: Row | undefined): string => row?.cells.join("\u0001") ?? "";
    const have = this.#rows;
    for (let length = Math.min(have.length, body.length); length > 0; length--) {
      let same = true;
      for (let i = 0; same && i < length; i++) same = words(have[have.length - length + i]) === words(body[i]);
      if (same) return length;
    }
    return 0;
  }
}
