/** `browser_page_find`: ranks elements and lines of text by how well they answer a query; nothing else leaves the page. */

import { collapse, eachChild, isConcealed, isElement, isShown, nodeType, rootElement, textContent, visibility } from "./dom";
import { clean, printItem } from "./lines";
import { hintOf } from "./marks";
import { labelOf, refOf } from "./refs";
import { roleOf } from "./roles";
import { describeState, shorten } from "./states";
import { type Item, type Line, takeSnapshot } from "./snapshot";

const MAX_LINE = 200; // characters of a text hit

const MAX_CONTEXT = 80; // characters that tell apart what is called the same

interface Hit {
  readonly score: number;
  readonly order: number;
  readonly print: () => string;
  readonly item?: Item;
}

/** Lines of the best hits, best first; "" if there are none. */
export function find(query: string, role: string | undefined, limit: number): string {
  const wanted = collapse(query).toLowerCase();
  const words = wanted.split(" ");
  const hits: Hit[] = [];
  if (role !== undefined && role !== "text") {
    const visit = (node: Node): void => {
      if (nodeType(node) !== 1 || !isElement(node) || isConcealed(node) || visibility(node) === "gone") return;
      if (roleOf(node) === role && isShown(node)) {
        const item: Item = { el: node, role, name: labelOf(node) };
        consider(item, wanted, words, hits);
      }
      eachChild(node, visit);
    };
    const root = rootElement(document);
    if (root !== null) visit(root);
  } else {
    for (const line of takeSnapshot().lines) fromLine(line, wanted, words, hits, role === undefined);
  }
  hits.sort((x, y) => y.score - x.score || x.order - y.order);
  const same = new Map<string, number>();
  for (const { item } of hits) if (item !== undefined) same.set(calledOf(item), (same.get(calledOf(item)) ?? 0) + 1);
  return hits
    .slice(0, limit)
    .map(({ item, print }) => {
      const where = item === undefined || (same.get(calledOf(item)) ?? 0) < 2 ? "" : placeOf(item);
      return where === "" ? print() : `${print()} in ${JSON.stringify(clean(where))}`;
    })
    .join("\n");
}

const calledOf = (item: Item): string => `${item.role}\u0001${item.name}`;

/** What tells an element from others of its name: the rest of its record, or the heading above it; "" if neither is there. */
function placeOf(item: Item): string {
  const { lines } = takeSnapshot();
  const at = lines.findIndex((line) => line.tokens.some((token) => typeof token !== "string" && token.el === item.el));
  const line = lines[at];
  if (line === undefined) return "";
  if (line.group !== null) {
    const words: string[] = [];
    for (const part of lines) {
      if (part.group !== line.group || part.record !== line.record) continue;
      for (const token of part.tokens) {
        if (typeof token === "string") words.push(token);
        else if (token.name !== item.name) words.push(token.name);
      }
    }
    return shorten(collapse(words.join(" ")), MAX_CONTEXT);
  }
  for (let i = at; i >= 0; i--) {
    const above = lines[i] as Line;
    if (above.level > 0) return shorten(collapse(above.tokens.map((token) => (typeof token === "string" ? token : token.name)).join(" ")), MAX_CONTEXT);
  }
  return "";
}

function fromLine(line: Line, wanted: string, words: readonly string[], hits: Hit[], withItems: boolean): void {
  const items = line.tokens.filter((token): token is Item => typeof token !== "string");
  if (withItems) for (const item of items) consider(item, wanted, words, hits);
  const text = collapse(line.tokens.filter((token): token is string => typeof token === "string").join(" "));
  if (text === "") return;
  const score = scoreOf(text.toLowerCase(), wanted, words) * 0.8; // an element is more useful than a text
  if (score > 0) hits.push({ score, order: hits.length, print: () => printText(line, text, wanted, words) });
}

function consider(item: Item, wanted: string, words: readonly string[], hits: Hit[]): void {
  const hint = item.name === "" ? hintOf(item.el) : "";
  const state = `${describeState(item.el, item.role)} ${hint}`.toLowerCase();
  const score = Math.max(scoreOf(item.name.toLowerCase(), wanted, words), 0.5 * scoreOf(`${item.role} ${item.name} ${state}`.toLowerCase(), wanted, words));
  if (score > 0) hits.push({ score, order: hits.length, print: () => printItem(item), item });
}

function printText(line: Line, text: string, wanted: string, words: readonly string[]): string {
  const el = innermost(line.el, wanted);
  const role = roleOf(el);
  const ref = refOf(el, role, labelOf(el));
  if (el !== line.el) return `[${ref}] text ${JSON.stringify(clean(shorten(textIn(el), MAX_LINE)))}`;
  const at = Math.max(text.toLowerCase().indexOf(wanted), text.toLowerCase().indexOf(words[0] ?? ""), 0);
  const from = text.length <= MAX_LINE ? 0 : Math.max(0, at - 60);
  return `[${ref}] text ${JSON.stringify(clean(shorten(text.slice(from), MAX_LINE)))}`;
}

const textIn = (el: Element): string => collapse(textContent(el) ?? "");

/** The smallest shown element below `el` that alone holds the wanted text: a click on it meets its own listener. */
function innermost(el: Element, wanted: string): Element {
  let at = el;
  for (;;) {
    const holders: Element[] = [];
    eachChild(at, (node) => {
      if (isElement(node) && isShown(node) && textIn(node).toLowerCase().includes(wanted)) holders.push(node);
    });
    if (holders.length !== 1) return at;
    at = holders[0] as Element;
  }
}

/** 100: equal; 80: begins with it; 60: holds it; up to 40: share of its words. */
export function scoreOf(text: string, wanted: string, words: readonly string[]): number {
  if (text === "" || wanted === "") return 0;
  if (text === wanted) return 100;
  if (text.startsWith(wanted)) return 80;
  const at = text.indexOf(wanted);
  if (at >= 0) return /[\p{L}\p{N}]/u.test(text[at - 1] ?? "") ? 50 : 60;
  const found = words.filter((word) => word.length > 1 && text.includes(word)).length;
  return found === 0 ? 0 : (40 * found) / words.length;
}
