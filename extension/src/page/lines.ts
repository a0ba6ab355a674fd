/**
 * How elements and lines are written down: `[e12] button "Add to basket" disabled`, `# Title`, text as it reads.
 *
 * Text of the page cannot fake a ref: a bracket that would begin one is replaced. Gives out refs for what it prints.
 */

import { CONTROL_ROLES } from "./roles";
import { refOf } from "./refs";
import { hintOf, isShape } from "./marks";
import { describeState, shorten } from "./states";
import type { Item, Line, Token } from "./snapshot";

/** A line to print: what it costs and how to make it. */
export interface Entry {
  readonly elements: number;
  readonly print: () => string;
}

/** Page text that cannot be taken for a ref of ours. */
export const clean = (text: string): string => text.replace(/\[(?=(?:f\d{1,4})?e\d{1,7}\])/g, "(");

export const refsOf = (item: Item): string => refOf(item.el, item.role, item.name);

const HINTED = new Set(["", "button", "link"]); // without a name: told apart by how they look
const MAX_BRIEF_NAME = 60; // characters of a name in a summary: enough to choose by

/** One element as a line says it; `brief`: a long name shortened, and no options of a list that has more than a few. */
export function printItem(item: Item, brief = false): string {
  const role = item.role === "" ? "clickable" : item.role;
  const name = brief ? shorten(item.name, MAX_BRIEF_NAME) : item.name;
  const hint = item.name === "" && HINTED.has(item.role) ? hintOf(item.el) : item.role === "" && isShape(item.el) ? hintOf(item.el) : "";
  return `[${refsOf(item)}] ${role} ${JSON.stringify(name)}${hint === "" ? "" : ` (${hint})`}${describeState(item.el, item.role, brief)}`;
}

export const one = (item: Item): Entry => ({ elements: 1, print: () => printItem(item, true) });

export const isItem = (token: Token): token is Item => typeof token !== "string";

export const isControl = (item: Item): boolean => CONTROL_ROLES.has(item.role) || item.role === "";

export const itemsOf = (line: Line): Item[] => line.tokens.filter(isItem);

export function printTokens(tokens: readonly Token[]): string {
  let out = "";
  for (const token of tokens) {
    const part = isItem(token) ? printItem(token) : clean(token);
    if (out !== "" && isItem(token) && !/\s$/.test(out)) out += " ";
    else if (out !== "" && !isItem(token) && /[\]\w"]$/.test(out) && /^[\p{L}\p{N}[]/u.test(part)) out += " ";
    out += part;
  }
  return out.trim();
}

export function printLine(line: Line): string {
  const text = printTokens(line.tokens);
  return line.level > 0 ? `${"#".repeat(line.level)} ${text}` : text;
}
