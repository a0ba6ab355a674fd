/**
 * Observations: the snapshot as compact text with refs, in three modes, cut at hard limits, continued by cursor.
 *
 * One line an element, headings as `# Title`, text as it reads (`lines.ts`); a summary ranks and folds (`summary.ts`). The
 * newest observation is kept so that a cursor can go on where it was cut; refs are given out only for lines that are shown.
 */

import { collapse, titleOf } from "./dom";
import { Fault } from "./fault";
import { clean, type Entry, isControl, itemsOf, printItem, printLine } from "./lines";
import { shorten } from "./states";
import { type Line, takeSnapshot, topDialog } from "./snapshot";
import { summaryOf } from "./summary";
import type { ObserveMode } from "../wire";

const FOOTER = 60; // characters kept free for "… N more elements: cursor=…"

interface Observation {
  readonly id: number;
  readonly entries: Entry[];
  /** Where the first look ends if it is over `budget` characters. */
  readonly firm: number;
  readonly budget: number;
}

export interface Observed {
  readonly text: string;
  readonly cursor: string;
  /** What the cursor leads to, in words. */
  readonly left: string;
  /** Nothing ran out: the cursor leads to what a summary leaves for later. */
  readonly enough: boolean;
  readonly elements: number;
  readonly frames: number;
}

let newest: Observation = { id: 0, entries: [], firm: 0, budget: 0 };

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
  newest = { id: newest.id + 1, ...entriesOf(mode, snapshot.lines) };
  return print(newest, 0, maxElements, maxChars, header ? headline() : "", snapshot.frames);
}

function entriesOf(mode: ObserveMode, lines: readonly Line[]): Omit<Observation, "id"> {
  if (mode === "summary") return summaryOf(lines);
  const entries = mode === "document" ? documentEntries(lines) : controlEntries(lines);
  return { entries, firm: entries.length, budget: Number.MAX_SAFE_INTEGER };
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
  let enough = false;
  const { entries, id } = observation;
  const firm = from === 0 ? observation.firm : entries.length;
  for (; index < entries.length; index++) {
    const entry = entries[index] as Entry;
    if (elements + entry.elements > maxElements) break;
    const line = entry.print();
    if (index >= firm && text.length + line.length > observation.budget) {
      enough = true;
      break;
    }
    if (text.length + line.length + 1 > maxChars - FOOTER) {
      if (index > from || line.length + 1 + text.length <= maxChars) break;
      text += `${line.slice(0, maxChars - FOOTER - text.length - 1)}\n`; // one line alone over the limit
      elements += entry.elements;
      continue;
    }
    text += `${line}\n`;
    elements += entry.elements;
  }
  if (index >= entries.length) return { text: text.trimEnd(), cursor: "", left: "", enough, elements, frames };
  const rest = entries.slice(index).reduce((sum, entry) => sum + entry.elements, 0);
  const left = rest > 0 ? `${rest} more elements` : `${entries.length - index} more lines`;
  return { text: text.trimEnd(), cursor: `o${id}.${index}`, left, enough, elements, frames };
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
