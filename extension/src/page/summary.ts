/**
 * The summary of a page: what a worker should see first, ranked and folded (design 5), at a fraction of the page's size.
 *
 * Ranks: status messages and dialogs, controls and paging, navigation, repeated records, body links, headings and text; then
 * what was folded away. The first ranks are firm: they are told whatever they cost. The others are told while the summary
 * stays under a share of what the page would take; the cursor goes on behind it. Nothing is lost: what is told once only
 * (the same link again) is the same thing.
 */

import { ancestorWith, attr, closest, collapse, flatContains, queryAll } from "./dom";
import { nameOf } from "./names";
import { actsByName, pageNumber, pagingAmong, saysPaging } from "./paging";
import { isDisabled, roleOf } from "./roles";
import { hintOf } from "./marks";
import { type Entry, clean, isControl, isItem, itemsOf, one, printItem, printLine, refsOf } from "./lines";
import { headText } from "./rows";
import type { Item, Line, RecordGroup, Token } from "./snapshot";
import { shorten } from "./states";

export interface Summary {
  readonly entries: Entry[];
  /** The first so many entries are told whatever they cost. */
  readonly firm: number;
  /** Characters of the first look, as long as the firm entries leave it any. */
  readonly budget: number;
}

const SHARE = 0.3; // of the page's size: what a summary may take (goal: a quarter of the tokens; refs are dense in tokens)
const MIN_BUDGET = 900; // characters; a page this small needs no summary and is told whole
const SMALL_PAGE = 2_000; // characters, as counted below: its records are told in full, however many
const LINE_COST = 12; // characters a reader's snapshot spends on a line's mark, indent and role
const ITEM_COST = 24; // the same for an element: role, quotes, address
const MAX_TEXT = 160; // characters of one line of text
const MAX_RECORD = 160; // characters of one record's text
const WHOLE = 5; // records of a group that are told in full, if there are no more
const SAMPLE = 3; // records told in full of a larger group
const MAX_COLUMNS = 20; // column names told with a table
const MAX_LATER = 80; // elements of the other records of one group
const MAX_EACH = 3; // controls a record has on average; what has more is a part of the page
const MAX_FIRST = 40; // records of one group told before body links; the others come last
const MAX_ACTIONS = 16; // links that act, told with the controls
const MAX_SAME = 6; // refs told for one name
const PAGING_PLACE = '[class*="pagin" i],[class*="pager" i],[aria-label*="pagin" i],[aria-label*="分页"],[aria-label*="分頁"]';
const TABLES = new Set(["table", "grid", "treegrid"]);

/** Ranks and folds the lines of a page. Gives out no refs: an entry does when it is printed. */
export function summaryOf(lines: readonly Line[]): Summary {
  const ranks: Ranks = { live: [], controls: [], paging: [], actions: [], navigation: [], records: [], links: [], headings: [], text: [], rest: [] };
  let size = 0;
  for (const line of lines) {
    size += LINE_COST;
    for (const token of line.tokens) size += isItem(token) ? ITEM_COST + token.name.length : token.length;
  }
  const state: State = { ranks, small: size <= SMALL_PAGE, tables: new Set(), links: new Set(), same: new Map(), named: new Set(), said: new Set() };
  const paging = pagingItems(lines);
  for (let i = 0; i < lines.length; ) {
    const line = lines[i] as Line;
    if (line.group !== null) {
      const records: Line[][] = [];
      let last = -2;
      for (; i < lines.length && lines[i]?.group === line.group; i++) {
        const part = lines[i] as Line;
        if (part.record === last) records[records.length - 1]?.push(part);
        else records.push([part]);
        last = part.record;
      }
      tellGroup(line.group, records, paging, state);
      continue;
    }
    tellLine(line, paging, holdsRecords(line, lines, i), state);
    i++;
  }
  const { live, controls, actions, navigation, records, links, headings, text, rest } = ranks;
  const firm = [...live, ...controls, ...ranks.paging, ...actions];
  return {
    entries: [...firm, ...navigation, ...records, ...links, ...headings, ...text, ...rest],
    firm: firm.length,
    budget: Math.max(MIN_BUDGET, Math.round(size * SHARE)),
  };
}

interface Ranks {
  readonly live: Entry[];
  readonly controls: Entry[];
  readonly paging: Entry[];
  readonly actions: Entry[];
  readonly navigation: Entry[];
  readonly records: Entry[];
  readonly links: Entry[];
  readonly headings: Entry[];
  readonly text: Entry[];
  readonly rest: Entry[];
}

interface State {
  readonly ranks: Ranks;
  readonly small: boolean;
  /** Tables whose rows are told as records: their own line would say it again. */
  readonly tables: Set<Element>;
  /** Name and address of links that were told. */
  readonly links: Set<string>;
  /** Controls by role and name, with those that are called the same. */
  readonly same: Map<string, Item[]>;
  /** Names of controls: a text that says the same is their label. */
  readonly named: Set<string>;
  readonly said: Set<string>;
}

// ---------------------------------------------------------------- lines outside records

function tellLine(line: Line, paging: ReadonlySet<Element>, tabled: boolean, state: State): void {
  const { ranks } = state;
  const items = itemsOf(line);
  if (line.region === "live" || line.region === "dialog") {
    const asked = line.tokens.some((token) => isItem(token) || /[\p{L}\p{N}]/u.test(token));
    if (asked) ranks.live.push({ elements: items.length, print: () => shortLine(line) });
    return;
  }
  let own = false;
  for (const item of items) {
    if (isControl(item)) tellControl(item, line.region, paging, state);
    else own ||= item.role !== "img" && !state.tables.has(item.el) && !(tabled && TABLES.has(item.role));
  }
  if (line.level > 0) {
    const words = collapse(line.tokens.map((token) => (isItem(token) ? token.name : token)).join(" "));
    if (once(words, state)) ranks.headings.push({ elements: 0, print: () => `${"#".repeat(line.level)} ${clean(shorten(words, MAX_TEXT))}` });
    return;
  }
  const plain = collapse(line.tokens.filter((token): token is string => !isItem(token)).join(" "));
  const worth = (plain.match(/[\p{L}\p{N}]/gu)?.length ?? 0) >= 3 && !state.named.has(plain) && once(plain, state);
  const shown = items.filter((item) => !isControl(item) && (item.role !== "img" || worth));
  if (own || worth) {
    const kept: Token[] = line.tokens.filter((token) => (isItem(token) ? shown.includes(token) : worth));
    ranks.text.push({ elements: shown.length, print: () => shortLine({ ...line, tokens: kept }) });
  }
}

/** A line with its texts shortened, its elements whole. */
function shortLine(line: Line): string {
  let room = MAX_TEXT;
  const tokens = line.tokens.map((token) => {
    if (isItem(token)) return token;
    const said = shorten(token, Math.max(room, 1));
    room -= said.length;
    return said;
  });
  return printLine({ ...line, tokens });
}

const once = (words: string, state: State): boolean => {
  if (words === "" || state.said.has(words)) return false;
  state.said.add(words);
  return true;
};

function tellControl(item: Item, region: Line["region"], paging: ReadonlySet<Element>, state: State): void {
  const { ranks } = state;
  if (item.role === "link" && toldBefore(item, state)) return;
  if (paging.has(item.el)) {
    ranks.paging.push(one(item));
    return;
  }
  if (item.role === "link") {
    const acts = ranks.actions.length < MAX_ACTIONS && actsByName(item.name, attr(item.el, "class") ?? "");
    (acts ? ranks.actions : region === "nav" ? ranks.navigation : ranks.links).push(one(item));
    return;
  }
  state.named.add(item.name);
  // A field is its own thing whatever it is called; buttons of one name are told together.
  const key = item.role === "button" && item.name !== "" ? item.name : "";
  const others = key === "" ? undefined : state.same.get(key);
  if (others !== undefined) {
    others.push(item);
    return;
  }
  const all = [item];
  if (key !== "") state.same.set(key, all);
  const entry = {
    get elements(): number {
      return Math.min(all.length, MAX_SAME);
    },
    print: () => {
      const more = all.slice(1, MAX_SAME);
      const line = printItem(item, true);
      const refs = more.map((other) => `[${refsOf(other)}] `).join("");
      return `${refs}${line}${all.length > MAX_SAME ? ` ×${all.length}` : ""}`;
    },
  };
  // What cannot be operated now, or says nothing by which to choose it, is told where room is left.
  const mute = item.name === "" && (item.role === "button" || item.role === "") && hintOf(item.el) === "";
  (mute || isDisabled(item.el) ? ranks.headings : ranks.controls).push(entry);
}

/** Whether a link to the same address under the same name was told before. */
function toldBefore(item: Item, state: State): boolean {
  const href = attr(item.el, "href");
  if (href === null || item.name === "") return false;
  const key = `${item.name}\u0001${href}`;
  if (state.links.has(key)) return true;
  state.links.add(key);
  return false;
}

// ---------------------------------------------------------------- paging

/** Elements that turn pages, judged among those of one container. */
function pagingItems(lines: readonly Line[]): Set<Element> {
  const found = new Set<Element>();
  const byPlace = new Map<Element, { marked: boolean; items: Item[] }>();
  for (const line of lines) {
    for (const item of itemsOf(line)) {
      if (item.role !== "link" && item.role !== "button" && item.role !== "") continue;
      const rel = item.role === "link" ? attr(item.el, "rel") : null;
      if (rel !== null && /\b(?:next|prev)\b/.test(rel)) found.add(item.el);
      if (pageNumber(item.name) === 0 && !saysPaging(item.name)) continue;
      const marked = ancestorWith(item.el, PAGING_PLACE);
      const place = marked ?? ancestorWith(item.el, "nav,[role=navigation]") ?? line.group?.parent ?? line.el;
      const there = byPlace.get(place);
      if (there === undefined) byPlace.set(place, { marked: marked !== null, items: [item] });
      else there.items.push(item);
    }
  }
  for (const { marked, items } of byPlace.values()) {
    const verdicts = pagingAmong(items.map((item) => item.name), marked);
    items.forEach((item, i) => {
      if (verdicts[i] === true) found.add(item.el);
    });
  }
  return found;
}

// ---------------------------------------------------------------- records

function tellGroup(group: RecordGroup, records: readonly Line[][], paging: ReadonlySet<Element>, state: State): void {
  const { ranks } = state;
  // Controls in a row, tabs for example, and pages to turn are no records.
  const bare = records.every((parts) => parts.every((line) => line.tokens.every((token) => isItem(token) && isControl(token))));
  const turning = records.some((parts) => parts.some((line) => itemsOf(line).some((item) => paging.has(item.el))));
  const single = records.every((parts) => parts.reduce((sum, line) => sum + itemsOf(line).length, 0) <= 1);
  if ((bare && single) || (turning && single)) {
    const region = records[0]?.[0]?.region ?? "body";
    for (const parts of records) for (const line of parts) for (const item of itemsOf(line)) if (isControl(item)) tellControl(item, region, paging, state);
    return;
  }
  const controls = records.flat().flatMap(itemsOf).filter((item) => isControl(item) && item.role !== "link");
  if (controls.length > records.length * MAX_EACH && closest(group.parent, isTable) === null) {
    for (const line of records.flat()) tellLine(line, paging, false, state);
    return;
  }
  ranks.records.push(groupHead(group, records.length, state.tables));
  const whole = state.small || records.length <= WHOLE ? records.length : SAMPLE;
  records.slice(0, whole).forEach((parts) => {
    tellRecord(parts, state);
  });
  tellLater(records.slice(whole), state);
}

const isTable = (el: Element): boolean => TABLES.has(roleOf(el));

/** `(50 records)`; for the rows of a table also its ref and the names of its columns. */
function groupHead(group: RecordGroup, seen: number, tables: Set<Element>): Entry {
  const count = Math.max(group.records.length, seen);
  const table = closest(group.parent, isTable);
  if (table === null) return { elements: 0, print: () => `(${count} records)` };
  tables.add(table);
  return {
    elements: 1,
    print: () => {
      const heads = queryAll(table, "th,[role=columnheader]").filter((head) => roleOf(head) === "columnheader").slice(0, MAX_COLUMNS);
      const columns = heads.map((head) => clean(shorten(headText(head), 40))).join(" | ");
      const item = printItem({ el: table, role: roleOf(table), name: nameOf(table) });
      return `(${count} records of ${item}${columns === "" ? "" : `: ${columns}`})`;
    },
  };
}

/** Whether the lines that follow are the rows of the table on this line, told as records. */
function holdsRecords(line: Line, lines: readonly Line[], at: number): boolean {
  const table = itemsOf(line).find((item) => TABLES.has(item.role));
  if (table === undefined) return false;
  for (let i = at + 1; i < lines.length && flatContains(table.el, lines[i]?.el ?? null); i++) if (lines[i]?.group != null) return true;
  return false;
}

/** A record as one line: its first link, its text, its controls. Its other links come last. */
function tellRecord(parts: readonly Line[], state: State): void {
  const items = parts.flatMap(itemsOf);
  const first = items.find((item) => item.role === "link");
  const kept = new Set<Item>();
  for (const item of items) {
    if (item.role === "link" && item !== first) later(item, state);
    else if (item.role !== "img") kept.add(item);
  }
  if (first !== undefined) toldBefore(first, state);
  state.ranks.records.push({ elements: kept.size, print: () => `- ${printRecord(parts, kept)}` });
}

function later(item: Item, state: State): void {
  if (!isControl(item) || (item.role === "link" && toldBefore(item, state))) return;
  state.ranks.rest.push(one(item));
}

function printRecord(parts: readonly Line[], kept: ReadonlySet<Item>): string {
  const pieces: string[] = [];
  let room = MAX_RECORD;
  let named = "";
  for (const line of parts) {
    const said: string[] = [];
    for (const token of line.tokens) {
      if (isItem(token)) {
        if (kept.has(token)) said.push(printItem(token, true));
        else if (token.role === "img") said.push(clean(shorten(token.name, Math.max(room, 0))));
        named = token.name;
        continue;
      }
      const words = clean(collapse(token));
      if (words === "" || words === named || room <= 0) continue;
      const short = shorten(words, room);
      room -= short.length;
      said.push(short);
    }
    const piece = said.filter((part) => part !== "").join(" ");
    if (piece !== "") pieces.push(piece);
  }
  return pieces.join(" · ").replace(/(?:\s*\|)+$/, "");
}

/** The other records of a large group, each by its first link and its buttons; what has neither is counted. */
function tellLater(records: readonly Line[][], state: State): void {
  if (records.length === 0) return;
  const lines: Item[][] = records.map((parts) => {
    const items = parts.flatMap(itemsOf).filter(isControl);
    const first = items.find((item) => item.role === "link") ?? items[0];
    if (first === undefined) return [];
    if (first.role === "link") toldBefore(first, state);
    return [first, ...items.filter((item) => item !== first && item.role !== "link")];
  });
  const total = lines.reduce((sum, items) => sum + items.length, 0);
  let silent = 0;
  records.forEach((parts, i) => {
    const items = lines[i] ?? [];
    const kept = total <= MAX_LATER ? items : items.slice(0, 1);
    if (kept.length === 0) silent++;
    else (i < MAX_FIRST ? state.ranks.records : state.ranks.text).push({ elements: kept.length, print: () => `- ${kept.map((item) => printItem(item, true)).join(" ")}` });
    for (const item of parts.flatMap(itemsOf)) if (!kept.includes(item)) later(item, state);
  });
  if (silent > 0) state.ranks.records.push({ elements: 0, print: () => `- … ${silent} more` });
}
