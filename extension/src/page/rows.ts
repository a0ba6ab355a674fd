/**
 * What an extraction is before it becomes an answer: columns and rows of text; and how a cell is read and a preview written.
 *
 * Reads the DOM, changes nothing. Which rows there are is for `tables.ts`, `lists.ts` and `extract.ts`.
 */

import { collapse, has, textContent } from "./dom";
import { Fault } from "./fault";
import { isSensitiveField } from "./names";
import { clean } from "./lines";
import { takeSnapshot } from "./snapshot";
import { valueOf } from "./states";
import { MAX_EXTRACT_CHARS } from "../wire";

export const MAX_CELL = 2_000; // characters of one cell

export interface Table {
  readonly columns: string[];
  readonly rows: string[][];
  readonly caption: string;
  /** Rows there are, where the page says so and not all could be read. */
  readonly declared?: number;
}

/** Visible text of a cell; a control in it says its value or name. */
export function cellText(cell: Element): string {
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

/** What a header cell calls its column: the text one sees. What is there to sort by is no part of it, nor a name nobody sees. */
export function headText(cell: Element): string {
  const tokens = takeSnapshot(cell).lines.flatMap((line) => [...line.tokens, " "]);
  const plain = tokens.some((token) => typeof token === "string" && /[\p{L}\p{N}]/u.test(token));
  const said = tokens.map((token) => {
    if (typeof token === "string") return token;
    if (plain && token.role !== "link") return "";
    const seen = collapse(textContent(token.el) ?? "");
    return ` ${seen === "" || has(token.el, "aria-label") ? seen : token.name} `;
  });
  return collapse(said.join("")).slice(0, MAX_CELL) || cellText(cell);
}

/** Keeps the named columns, in the order asked for; a name fits exactly, else without regard to case. */
export function pick(table: Table, fields: readonly string[]): Table {
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
export function preview(table: Table, rows: readonly string[][], total: number): string {
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