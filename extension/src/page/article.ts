/**
 * The article of a document, by Mozilla's Readability: a bundle of its own, injected only where an article is asked for.
 *
 * Works on an inert copy that `reader.ts` has made (no scripts run in it, no name in it shadows a DOM property), never on
 * the page. Gives blocks of plain text, each with its kind; no HTML, no address leaves here. Holds no state.
 */

import { Readability } from "@mozilla/readability";

export interface Block {
  /** `heading 1` … `heading 6`, `paragraph`, `item`, `quote`, `code`, `row`. */
  readonly kind: string;
  readonly text: string;
}

export interface Article {
  readonly title: string;
  readonly byline: string;
  readonly site: string;
  readonly published: string;
  readonly language: string;
  readonly blocks: Block[];
}

/** Reads the article out of `copy`, which is used up by it; null if there is none. */
export type ReadArticle = (copy: Document) => Article | null;

const BLOCKS = new Set(
  (
    "address article aside blockquote body center dd details dialog div dl dt fieldset figcaption figure footer form h1 h2 h3 h4 h5 h6 " +
    "header hgroup hr html li main menu nav ol p pre section summary table tbody tfoot thead tr ul video audio"
  ).split(" "),
);
const SILENT = new Set("audio button canvas embed iframe input noscript object script select style svg template textarea video".split(" "));

const MIN_CHARS = 100; // of an article: Readability makes one of a login form's heading, too
const MATH_TOKENS = new Set(["mi", "mn", "mo", "mtext", "ms"]);

interface Writing {
  readonly blocks: Block[];
  text: string;
}

function readArticle(copy: Document): Article | null {
  const found = new Readability<Node>(copy, { serializer: (node) => node }).parse();
  const content = found?.content;
  if (found === null || content === null || content === undefined) return null;
  const writing: Writing = { blocks: [], text: "" };
  write(content, "paragraph", false, writing);
  close("paragraph", false, writing);
  if (writing.blocks.reduce((sum, block) => sum + block.text.length, 0) < MIN_CHARS) return null;
  const plain = (text: string | null | undefined): string => flat(text ?? "");
  return {
    title: plain(found.title),
    byline: plain(found.byline),
    site: plain(found.siteName),
    published: plain(found.publishedTime),
    language: plain(found.lang),
    blocks: writing.blocks,
  };
}

function write(node: Node, kind: string, exact: boolean, into: Writing): void {
  for (let child = node.firstChild; child !== null; child = child.nextSibling) {
    if (child.nodeType === Node.TEXT_NODE) {
      const { data } = child as Text;
      into.text += exact ? data : data.replace(/\s+/g, " ");
    } else if (child.nodeType === Node.ELEMENT_NODE) {
      element(child as Element, kind, exact, into);
    }
  }
}

function element(el: Element, kind: string, exact: boolean, into: Writing): void {
  const tag = el.localName;
  if (SILENT.has(tag)) return;
  if (tag === "br") {
    into.text += "\n";
    return;
  }
  if (tag === "td" || tag === "th") {
    if (into.text.trim() !== "") into.text += " | ";
    write(el, kind, exact, into);
    return;
  }
  if (MATH_TOKENS.has(tag)) {
    into.text += ` ${flat(el.textContent ?? "")} `; // written tight a formula would be one word
    return;
  }
  // Inside a row of a data table everything is one line.
  if (!BLOCKS.has(tag) || kind === "row") {
    const apart = BLOCKS.has(tag) && into.text !== "" && !/\s$/.test(into.text);
    if (apart) into.text += " ";
    write(el, kind, exact, into);
    if (apart) into.text += " ";
    return;
  }
  close(kind, exact, into);
  const inner = kindOf(el, tag, kind);
  const pre = tag === "pre";
  write(el, inner, pre || exact, into);
  close(inner, pre || exact, into);
}

function kindOf(el: Element, tag: string, around: string): string {
  const heading = /^h([1-6])$/.exec(tag);
  if (heading !== null) return `heading ${heading[1]}`;
  if (tag === "li" || tag === "dd" || tag === "dt") return "item";
  if (tag === "blockquote") return "quote";
  if (tag === "pre") return "code";
  if (tag === "tr") return el.querySelector("table,p,ul,ol") === null ? "row" : around;
  return around;
}

function close(kind: string, exact: boolean, into: Writing): void {
  const text = exact ? into.text.replace(/^\n+|\s+$/g, "") : lines(into.text);
  into.text = "";
  if (text !== "") into.blocks.push({ kind, text });
}

/** White space collapsed, but for the line breaks of `<br>`: the source's own were made spaces before. */
const lines = (text: string): string =>
  text
    .split("\n")
    .map(flat)
    .filter((line) => line !== "")
    .join("\n");

const flat = (text: string): string => text.replace(/\s+/g, " ").trim();

(globalThis as { __browsercellArticle?: ReadArticle }).__browsercellArticle = readArticle;
