/**
 * `browser_page_extract`: text, lists, tables, links and articles as rows, with a preview the worker can read.
 *
 * Only what is visible. A region is any element inside the wanted table or list; without one the largest on the page is
 * taken. The rows go into an artifact, the preview is bounded by `MAX_EXTRACT_CHARS`.
 */

import { collapse, eachChild, isElement, isInput, isShown, isTextArea, nodeType, rootElement, tagOf } from "./dom";
import { boilerplate } from "./boilerplate";
import { Fault } from "./fault";
import { httpUrl, readList } from "./lists";
import { isSensitiveField, nameOf } from "./names";
import { extractArticle } from "./reader";
import { clean } from "./lines";
import { pick, preview, type Table } from "./rows";
import { takeSnapshot, type Line } from "./snapshot";
import { valueOf } from "./states";
import { MUST_SCROLL, type Pace, readTable } from "./tables";
import { MAX_EXTRACT_CHARS, MAX_EXTRACT_ROWS, type ExtractKind } from "../wire";
import type { Rows } from "../wire";

export interface Extracted {
  readonly text: string;
  readonly rows: Rows | null;
  /** Nothing was read yet: the table has to be scrolled and the tab is in the background. */
  readonly scrolls?: boolean;
}

export interface Extraction {
  readonly kind: ExtractKind;
  readonly fields: readonly string[];
  readonly limit?: number | undefined;
  /** Text and links: without what surrounds the content. */
  readonly mainOnly: boolean;
}

/** Reads `wanted` from `region`, or from the page. Throws `not-found`. Only a table that shows a part of its rows scrolls. */
export async function extract(wanted: Extraction, region: Element | null, pace: Pace): Promise<Extracted> {
  const { kind, fields, mainOnly } = wanted;
  const limit = Math.min(wanted.limit ?? MAX_EXTRACT_ROWS, MAX_EXTRACT_ROWS);
  if (kind === "table") {
    const table = await readTable(region, limit, pace);
    return table === MUST_SCROLL ? { text: "", rows: null, scrolls: true } : shape(table, fields, limit);
  }
  return pace.read(() => {
    if (kind === "text") return extractField(region) ?? extractText(region, mainOnly);
    if (kind === "article") return extractArticle(region);
    return shape(kind === "list" ? readList(region) : readLinks(region, mainOnly), fields, limit);
  });
}

function shape(table: Table, fields: readonly string[], limit: number): Extracted {
  const kept = fields.length === 0 ? table : pick(table, fields);
  const total = Math.max(kept.rows.length, table.declared ?? 0);
  const cut = kept.rows.slice(0, limit);
  return { text: preview(kept, cut, total), rows: { columns: kept.columns, rows: cut, total } };
}

// ---------------------------------------------------------------- text

/** What a field holds, to the letter; null if the region is none. Of a sensitive one nothing is read. */
function extractField(region: Element | null): Extracted | null {
  if (region === null || !(isTextArea(region) || isInput(region))) return null;
  if (isSensitiveField(region)) throw new Fault("sensitive-field", "The field is sensitive: what it holds is not read", { next: "browser_page_observe" });
  const value = valueOf(region);
  if (value === null) return null;
  const told = value.length > MAX_EXTRACT_CHARS ? `${value.slice(0, MAX_EXTRACT_CHARS - 1)}…` : value;
  return { text: clean(told), rows: { columns: ["text"], rows: [[value]], total: 1 } };
}

function extractText(region: Element | null, mainOnly: boolean): Extracted {
  const { lines } = takeSnapshot(region);
  let text = "";
  const rows: string[][] = [];
  const left = mainOnly ? boilerplate(region, lines) : null;
  for (const line of lines) {
    if (left?.(line.el) === true) continue;
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
  // A link in a text stands as tight as it is written; other elements, and links side by side, are kept apart.
  const words = collapse(
    line.tokens
      .map((token, i) => {
        if (typeof token === "string") return token;
        if (token.role === "table") return " ";
        const before = typeof line.tokens[i - 1] === "string";
        return token.role === "link" ? `${before || i === 0 ? "" : " "}${token.name}` : ` ${token.name} `;
      })
      .join(""),
  );
  return words === "" ? "" : line.level > 0 ? `${"#".repeat(line.level)} ${words}` : words;
}

// ---------------------------------------------------------------- links

function readLinks(region: Element | null, mainOnly: boolean): Table {
  const rows: string[][] = [];
  const left = mainOnly ? boilerplate(region, takeSnapshot(region).lines) : null;
  const visit = (el: Element): void => {
    if (tagOf(el) === "a" && el instanceof HTMLAnchorElement && isShown(el) && left?.(el) !== true) {
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