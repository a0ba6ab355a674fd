/**
 * Articles, the page's half: an inert copy of what is shown, for `article.ts` to read.
 *
 * The copy is of the flat tree, so articles inside shadow roots count; what no one sees is left out, as are scripts, fields
 * and every name by which an element could shadow a property of its document or form (Readability asks plain properties).
 * The page is not touched. Knows nothing of how an article is found.
 */

import { attr, data, eachChild, has, isConcealed, isElement, nodeType, queryAll, rootElement, tagOf, titleOf, visibility } from "./dom";
import type { Article, ReadArticle } from "./article";
import { Fault } from "./fault";
import { spend } from "./budget";
import { clean } from "./lines";
import { seenThrough } from "./snapshot";
import { shorten } from "./states";
import type { Extracted } from "./extract";
import { MAX_EXTRACT_CHARS, MAX_EXTRACT_ROWS } from "../wire";

/** Never part of a text: what runs, what is filled in, what is embedded. */
const LEFT_OUT = new Set(
  "script style noscript template link object embed applet iframe frame canvas input select textarea button datalist dialog audio map area".split(" "),
);
const NAMING = new Set(["form", "img", "fieldset", "output", "video"]);
const MAX_ELEMENTS = 60_000; // of the copy; a page with more is no article, and Readability's time grows with it
const MAX_META = 200; // characters of title, byline and the like
const MAX_ARTICLE_CHARS = 2_000_000; // of all blocks: a thick book

/** Whether `article.js` is here already. */
export const articleReady = (): boolean => reader() !== undefined;

const reader = (): ReadArticle | undefined => (globalThis as { __browsercellArticle?: ReadArticle }).__browsercellArticle;

/** The article of the page, or of the part below `region`. Throws `not-found` where there is none. */
export function extractArticle(region: Element | null): Extracted {
  const read = reader();
  if (read === undefined) throw new Fault("internal", "The article reader is not loaded");
  const found = read(copyOf(region));
  if (found === null) {
    throw new Fault("not-found", "There is no article here; the text can be extracted", { next: "browser_page_extract" });
  }
  return shape(found);
}

function copyOf(region: Element | null): Document {
  const root = rootElement(document);
  const copy = document.implementation.createHTMLDocument(titleOf(document));
  if (root === null) return copy;
  const lang = attr(root, "lang");
  if (lang !== null) copy.documentElement.lang = lang;
  // What a page says of itself: title, author, date, site. Descriptions in JSON-LD are data; in the copy nothing runs.
  for (const meta of queryAll(document, 'meta,script[type="application/ld+json"]')) copy.head.append(copy.importNode(meta, true));
  const top = region ?? queryAll(root, "body").find((el) => el.parentElement === root) ?? root;
  // A page that waits for a script of its own to show itself is read as if it had come.
  const unshown = region === null && visibility(top) !== "shown";
  let count = 0;
  const visit = (el: Element, into: Element): void => {
    spend();
    const tag = tagOf(el);
    if (LEFT_OUT.has(tag) || isConcealed(el)) return;
    const seen = unshown ? "shown" : visibility(el);
    if (seen === "gone" || has(el, "hidden")) return;
    if (++count > MAX_ELEMENTS) throw new Fault("too-large", "The page is too large to be read as an article", { next: "browser_page_extract" });
    const own = copy.importNode(el, false);
    if (NAMING.has(tag)) for (const name of ["name", "id"]) own.removeAttribute(name);
    into.append(own);
    eachChild(el, (node) => {
      if (nodeType(node) === 3) {
        if (seen === "shown" || tag === "slot" || seenThrough(el)) own.append(data(node));
      } else if (isElement(node)) {
        visit(node, own);
      }
    });
  };
  if (tagOf(top) === "body") {
    eachChild(top, (node) => {
      if (nodeType(node) === 3) copy.body.append(data(node));
      else if (isElement(node)) visit(node, copy.body);
    });
  } else {
    visit(top, copy.body);
  }
  return copy;
}

function shape(article: Article): Extracted {
  const rows: string[][] = [];
  for (const kind of ["title", "byline", "site", "published", "language"] as const) {
    if (article[kind] !== "") rows.push([kind, shorten(article[kind], MAX_META)]);
  }
  const head = [article.byline, article.site, article.published].filter((part) => part !== "").map((part) => shorten(part, MAX_META));
  let text = article.title === "" ? "" : `# ${shorten(article.title, MAX_META)}\n`;
  if (head.length > 0) text += `${head.join(" · ")}\n`;
  let chars = 0;
  let before = "";
  for (const { kind, text: said } of article.blocks) {
    chars += said.length;
    if (chars > MAX_ARTICLE_CHARS) break;
    rows.push([kind, said]);
    if (text.length <= MAX_EXTRACT_CHARS) text += `${kind === before && TIGHT.has(kind) ? "\n" : "\n\n"}${printBlock(kind, said)}`;
    before = kind;
  }
  const whole = clean(text.trim());
  return {
    text: whole.length > MAX_EXTRACT_CHARS ? `${whole.slice(0, MAX_EXTRACT_CHARS - 1)}…` : whole,
    rows: { columns: ["kind", "text"], rows: rows.slice(0, MAX_EXTRACT_ROWS), total: rows.length },
  };
}

const TIGHT = new Set(["item", "row"]);

function printBlock(kind: string, text: string): string {
  const level = Number(/^heading ([1-6])$/.exec(kind)?.[1] ?? 0);
  if (level > 0) return `${"#".repeat(level)} ${text}`;
  return kind === "item" ? `- ${text}` : kind === "quote" ? `> ${text}` : text;
}
