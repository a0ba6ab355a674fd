/**
 * Observations: the snapshot as compact text with refs, in three modes, cut at hard limits, continued by cursor.
 *
 * One line an element (`[e12] button "Add to basket" disabled`), headings as `# Title`, text as it reads. The newest
 * observation is kept so that a cursor can go on where it was cut; refs are given out only for lines that are shown.
 * Text of the page cannot fake a ref: a bracket that would begin one is replaced.
 */

import { closest, collapse, flatContains, queryAll, titleOf } from "./dom";
import { Fault } from "./fault";
import { nameOf } from "./names";
import { CONTROL_ROLES, roleOf } from "./roles";
import { refOf } from "./refs";
import { describeState, shorten } from "./states";
import { type Item, type Line, type RecordGroup, takeSnapshot, type Token, topDialog } from "./snapshot";
import type { ObserveMode } from "../wire";

const FOOTER = 60; // characters kept free for "… N more elements: cursor=…"
const MAX_SUMMARY_TEXT = 300; // characters of one text line in a summary
const MAX_COLUMNS = 20; // column names told with a table
const MAX_RECORD = 240; // characters of one record's text in a summary

/** A line to print: what it costs and how to make it. */
interface Entry {
  readonly elements: number;
  readonly print: () => string;
}

interface Observation {
  readonly id: number;
  readonly entries: Entry[];
}

export interface Observed {
  readonly text: string;
  readonly cursor: string;
  readonly elements: number;
  readonly frames: number;
}

let newest: Observation = { id: 0, entries: [] };

/** Makes an observation, or continues the newest one from `cursor` (`o3.120`). Throws `stale-ref` for another one's cursor. */
export function observe(mode: ObserveMode, maxElements: number, maxChars: number, cursor: string | undefined, header: boolean): Observed {
  if (cursor !== undefined) {
    const [id, index] = parseCursor(cursor);
    if (id !== newest.id || index > newest.entries.length) {
      throw new Fault("stale-ref", "This cursor belongs to an older observation", { retryable: true, next: "browser_page_observe" });
    }
    return print(newest, index, maxElements, maxChars, "", 0);
  }
  const snapshot = takeSnapshot();
  const entries = mode === "document" ? documentEntries(snapshot.lines) : mode === "interactive" ? controlEntries(snapshot.lines) : summaryEntries(snapshot.lines);
  newest = { id: newest.id + 1, entries };
  return print(newest, 0, maxElements, maxChars, header ? headline() : "", snapshot.frames);
}

function headline(): string {
  const title = shorten(collapse(titleOf(document)), 200);
  const dialog = topDialog() === null ? "" : "\n(a modal dialog is open; the rest of the page is out of reach)";
  return `${clean(title)} — ${shorten(location.href, 500)}${dialog}\n`;
}

function parseCursor(cursor: string): [number, number] {
  const match = /^o([0-9]{1,9})\.([0-9]{1,9})$/.exec(cursor);
  return match === null ? [-1, 0] : [Number(match[1]), Number(match[2])];
}

function print(observation: Observation, from: number, maxElements: number, maxChars: number, head: string, frames: number): Observed {
  let text = head.length > maxChars - FOOTER ? "" : head;
  let elements = 0;
  let index = from;
  const { entries, id } = observation;
  for (; index < entries.length; index++) {
    const entry = entries[index] as Entry;
    if (elements + entry.elements > maxElements) break;
    const line = entry.print();
    if (text.length + line.length + 1 > maxChars - FOOTER) {
      if (index > from || line.length + 1 + text.length <= maxChars) break;
      text += `${line.slice(0, maxChars - FOOTER - text.length - 1)}\n`; // one line alone over the limit
      elements += entry.elements;
      continue;
    }
    text += `${line}\n`;
    elements += entry.elements;
  }
  if (index >= entries.length) return { text: text.trimEnd(), cursor: "", elements, frames };
  const cursor = `o${id}.${index}`;
  const left = entries.slice(index).reduce((sum, entry) => sum + entry.elements, 0);
  const what = left > 0 ? `${left} more elements` : `${entries.length - index} more lines`;
  return { text: `${text}… ${what}: cursor=${cursor}`, cursor, elements, frames };
}

// ---------------------------------------------------------------- tokens

/** Page text that cannot be taken for a ref of ours. */
export const clean = (text: string): string => text.replace(/\[(?=(?:f\d{1,4})?e\d{1,7}\])/g, "(");

/** One element as a line says it. */
export function printItem(item: Item): string {
  const ref = refOf(item.el, item.role, item.name);
  const role = item.role === "" ? "clickable" : item.role;
  return `[${ref}] ${role} ${JSON.stringify(item.name)}${describeState(item.el, item.role)}`;
}

const isItem = (token: Token): token is Item => typeof token !== "string";

function printTokens(tokens: readonly Token[]): string {
  let out = "";
  for (const token of tokens) {
    const part = isItem(token) ? printItem(token) : clean(token);
    if (out !== "" && isItem(token) && !/\s$/.test(out)) out += " ";
    else if (out !== "" && !isItem(token) && /[\]\w"]$/.test(out) && /^[\p{L}\p{N}[]/u.test(part)) out += " ";
    out += part;
  }
  return out.trim();
}

const itemsOf = (line: Line): Item[] => line.tokens.filter(isItem);

const textOf = (line: Line): string => collapse(line.tokens.map((token) => (isItem(token) ? token.name : token)).join(" "));

function printLine(line: Line): string {
  const text = printTokens(line.tokens);
  return line.level > 0 ? `${"#".repeat(line.level)} ${text}` : text;
}

// ---------------------------------------------------------------- modes

function documentEntries(lines: readonly Line[]): Entry[] {
  return lines.map((line) => ({ elements: itemsOf(line).length, print: () => printLine(line) }));
}

function controlEntries(lines: readonly Line[]): Entry[] {
  const entries: Entry[] = [];
  for (const line of lines) {
    for (const item of itemsOf(line)) {
      if (isControl(item)) entries.push({ elements: 1, print: () => printItem(item) });
    }
  }
  return entries;
}

const isControl = (item: Item): boolean => CONTROL_ROLES.has(item.role) || item.role === "";

const PAGING_NAME =
  /^(?:next|previous|prev|older|newer|first|last|more|load more|show more|see more|next page|previous page|下一页|上一页|下一頁|上一頁|更多|加载更多|首页|末页|[«»‹›<>→←]+)(?:\s*[«»‹›<>→←]+)?$/i;

function isPaging(item: Item): boolean {
  const rel = item.el.getAttribute("rel");
  if (rel !== null && /\b(?:next|prev)\b/.test(rel)) return true;
  if (PAGING_NAME.test(item.name)) return true;
  if (!/^[0-9]{1,5}$|^page\b/i.test(item.name)) return false;
  return item.el.closest('[class*="pag" i],[aria-label*="pag" i]') !== null;
}

/**
 * Ranks: status messages and dialogs, controls and paging, navigation, records folded to a line each, body links,
 * headings and text, links inside records (design 5).
 */
function summaryEntries(lines: readonly Line[]): Entry[] {
  const ranks: Entry[][] = [[], [], [], [], [], [], []];
  const [live, controls, navigation, records, links, text, rest] = ranks as [Entry[], Entry[], Entry[], Entry[], Entry[], Entry[], Entry[]];
  const seenGroups = new Set<object>();
  /** Tables whose rows are told as records: their own line would say it again. */
  const tables = new Set<Element>();
  const one = (item: Item): Entry => ({ elements: 1, print: () => printItem(item) });
  for (let i = 0; i < lines.length; i++) {
    const line = lines[i] as Line;
    const items = itemsOf(line);
    if (line.group !== null) {
      // All lines of one record stand together; `i` moves to the last of them.
      const parts: Line[] = [line];
      while (i + 1 < lines.length && lines[i + 1]?.group === line.group && lines[i + 1]?.record === line.record) parts.push(lines[++i] as Line);
      if (!seenGroups.has(line.group)) {
        seenGroups.add(line.group);
        records.push(groupHead(line.group, tables));
      }
      foldRecord(parts, { controls, records, rest, one });
      continue;
    }
    if (line.region === "live" || line.region === "dialog") {
      live.push({ elements: items.length, print: () => printLine(line) });
      continue;
    }
    let own = false;
    for (const item of items) {
      if (item.role === "link") (isPaging(item) ? controls : line.region === "nav" ? navigation : links).push(one(item));
      else if (isControl(item)) controls.push(one(item));
      else own ||= !tables.has(item.el) && !holdsRecords(item, lines, i);
    }
    const words = textOf(line);
    const plain = line.tokens.some((token) => !isItem(token) && /[\p{L}\p{N}]/u.test(token));
    if (line.level > 0) {
      text.push({ elements: 0, print: () => `${"#".repeat(line.level)} ${clean(shorten(words, MAX_SUMMARY_TEXT))}` });
    } else if (own || plain) {
      const shownItems = items.filter((item) => !isControl(item)).length;
      text.push({
        elements: shownItems,
        print: () => {
          const whole = printTokens(line.tokens.filter((token) => !isItem(token) || !isControl(token)));
          return whole.length <= MAX_SUMMARY_TEXT || shownItems > 0 ? whole : `${whole.slice(0, MAX_SUMMARY_TEXT)}…`;
        },
      });
    }
  }
  return ranks.flat();
}

const isTable = (el: Element): boolean => TABLES.has(roleOf(el));
const TABLES = new Set(["table", "grid", "treegrid"]);

/** `(50 records)`; for the rows of a table also its ref and the names of its columns. */
function groupHead(group: RecordGroup, tables: Set<Element>): Entry {
  const count = group.records.length;
  const table = closest(group.parent, isTable);
  if (table === null) return { elements: 0, print: () => `(${count} records)` };
  tables.add(table);
  return {
    elements: 1,
    print: () => {
      const heads = queryAll(table, "th,[role=columnheader]").filter((head) => roleOf(head) === "columnheader").slice(0, MAX_COLUMNS);
      const columns = heads.map((head) => clean(shorten(nameOf(head), 40))).join(" | ");
      const item = printItem({ el: table, role: roleOf(table), name: nameOf(table) });
      return `(${count} records of ${item}${columns === "" ? "" : `: ${columns}`})`;
    },
  };
}

/** Whether the lines that follow are the rows of this table, told as records. */
function holdsRecords(item: Item, lines: readonly Line[], at: number): boolean {
  if (!TABLES.has(item.role)) return false;
  for (let i = at + 1; i < lines.length && flatContains(item.el, lines[i]?.el ?? null); i++) if (lines[i]?.group != null) return true;
  return false;
}

interface Folding {
  readonly controls: Entry[];
  readonly records: Entry[];
  readonly rest: Entry[];
  readonly one: (item: Item) => Entry;
}

/** A record as one line: its first link, its text, its controls. Its other links come last. */
function foldRecord(parts: readonly Line[], into: Folding): void {
  const items = parts.flatMap(itemsOf);
  const first = items.find((item) => item.role === "link");
  if (items.length === 1 && first !== undefined && isPaging(first)) {
    into.controls.push(into.one(first));
    return;
  }
  const kept = new Set<Item>();
  for (const item of items) {
    if (item.role === "link" && item !== first) into.rest.push(into.one(item));
    else kept.add(item);
  }
  into.records.push({
    elements: kept.size,
    print: () => {
      const pieces: string[] = [];
      let room = MAX_RECORD;
      for (const line of parts) {
        const words = line.tokens.filter((token) => (isItem(token) ? kept.has(token) : token.trim() !== ""));
        const piece = words
          .map((token) => {
            if (isItem(token)) return printItem(token);
            const said = shorten(clean(token.trim()), Math.max(room, 0));
            room -= said.length;
            return said;
          })
          .filter((said) => said !== "" && said !== "…")
          .join(" ");
        if (piece !== "") pieces.push(piece);
      }
      return `- ${pieces.join(" · ")}`;
    },
  });
}
