/**
 * Locators: how to find an element again in another load of its page, outside of this product (design 5).
 *
 * `capture` gives candidates ordered by how long they are likely to hold: an id made for tests, a stable id, a name, a label
 * (ARIA, placeholder, title, address of a link), text, structure. Attributes that look generated are passed over (`generated.ts`).
 * Every candidate has been tried: in the element's document or shadow root it selects this element and no other.
 * Elements in open shadow roots get the chain of their hosts, each found uniquely in the root around it; a closed root is
 * refused, because nobody else could enter it. XPath exists in documents only.
 *
 * `locate` tries the candidates again, in order: one counts if it selects exactly one element and that has the role and the
 * name of the captured one, or, where the name has changed, if two kinds of candidates agree. Never gives a look-alike
 * instead. No candidate holds the value of a field; only of a radio button, a checkbox or a button.
 */

import { attr, collapse, isElement, isInput, parentNode, queryAll, rootOf, tagOf, textContent } from "./dom";
import { Fault } from "./fault";
import { isGenerated, isNumbered } from "./generated";
import { labelOf } from "./refs";
import { roleOf } from "./roles";
import type { Locator, LocatorBy, LocatorCandidate } from "../wire";

const TEST_IDS = ["data-testid", "data-test-id", "data-test", "data-qa", "data-cy", "data-pw", "data-automation-id", "data-hook"];
const LABELS = ["aria-label", "placeholder", "alt", "title", "for", "type"];
const MAX_VALUE = 80; // characters of an attribute or a text in a selector
const MAX_CANDIDATES = 8;
const MAX_SCOPES = 8; // ancestors that a selector is tried below
const MAX_HOSTS = 8;
const MAX_SELECTOR = 1_000; // characters; protocol/frames.py

type Root = Document | ShadowRoot;

const evaluate = Document.prototype.evaluate;

// ---------------------------------------------------------------- capturing

/** The tried candidates of `el`. Throws `invalid-arguments` for an element in a closed shadow root. */
export function capture(el: Element): Locator {
  const hosts: string[] = [];
  let root = rootOf(el);
  while (root instanceof ShadowRoot) {
    if (root.mode === "closed") throw closed("The element is in a closed shadow root; no locator reaches it");
    if (hosts.length === MAX_HOSTS) throw closed("The element is in too many shadow roots");
    const outer = rootOf(root.host);
    const found = cssOf(root.host, outer as Root)[0]?.css;
    if (found === undefined) throw closed("A host of the element's shadow root can't be told from others");
    hosts.unshift(found);
    root = outer;
  }
  const home = rootOf(el) as Root;
  const candidates = [...cssOf(el, home), ...(home === document ? textOf(el) : [])].sort((a, b) => ORDER.indexOf(a.by) - ORDER.indexOf(b.by));
  const kept = candidates.filter((one) => length(one) <= MAX_SELECTOR).slice(0, MAX_CANDIDATES);
  if (kept.length === 0) throw closed("No selector tells the element from others");
  return { hosts, candidates: kept, role: roleOf(el), name: labelOf(el) };
}

const ORDER: readonly LocatorBy[] = ["test-id", "id", "name", "label", "text", "structure"];
const length = (one: LocatorCandidate): number => (one.css ?? "").length + (one.xpath ?? "").length;
const closed = (message: string): Fault => new Fault("invalid-arguments", message, { next: "browser_page_observe" });

/** One way to name an element: a CSS selector without its surroundings, and the XPath condition that says the same. */
interface Mark {
  readonly by: LocatorBy;
  readonly css: string;
  readonly xpath: string;
}

/** Tried candidates in CSS (and in a document in XPath), one of each kind, the last by structure. */
function cssOf(el: Element, root: Root): LocatorCandidate[] {
  const out: LocatorCandidate[] = [];
  const taken = new Set<LocatorBy>();
  const scopes = scopesOf(el);
  const marks = marksOf(el);
  for (const mark of marks) {
    if (taken.has(mark.by)) continue;
    const found = alone(el, root, mark) ?? below(el, root, scopes, mark);
    if (found === null) continue;
    taken.add(mark.by);
    out.push(found);
  }
  const structural = byStructure(el, root, scopes);
  if (structural !== null) out.push({ by: "structure", css: structural });
  return out;
}

function alone(el: Element, root: Root, mark: Mark): LocatorCandidate | null {
  return only(root, mark.css, el) ? checked(el, root, { by: mark.by, css: mark.css, xpath: `//${mark.xpath}` }) : null;
}

/** The mark below the nearest ancestor that makes it the only one. */
function below(el: Element, root: Root, scopes: readonly Mark[], mark: Mark): LocatorCandidate | null {
  for (const scope of scopes) {
    const css = `${scope.css} ${mark.css}`;
    if (only(root, css, el)) return checked(el, root, { by: mark.by, css, xpath: `//${scope.xpath}//${mark.xpath}` });
  }
  return null;
}

/** The candidate without its XPath where that does not select the element, or where there is none. */
function checked(el: Element, root: Root, one: LocatorCandidate & { css: string; xpath: string }): LocatorCandidate {
  return root === document && onlyByXPath(one.xpath, el) ? one : { by: one.by, css: one.css };
}

/** A value as CSS writes it, the shorter way. */
function quote(value: string): string {
  const bare = CSS.escape(value);
  const quoted = `"${value.replace(/["\\]/g, "\\$&")}"`;
  return bare.length < quoted.length ? bare : quoted;
}

const usable = (value: string | null): value is string => value !== null && value !== "" && value.length <= MAX_VALUE && !/[\p{Cc}]/u.test(value);

/** The ends of an address that begin at a boundary, the shortest first: they hold where a site is mounted elsewhere. */
function endsOf(href: string): string[] {
  const ends: string[] = [];
  for (let i = href.length - MIN_END; i > 0 && ends.length < 3; i--) if (/[/?&=#]/.test(href[i - 1] ?? "")) ends.push(href.slice(i));
  return ends;
}

const MIN_END = 6; // characters of an address that say something

/** Addresses that are scripts, or that carry what opens a door. */
const SECRET = /^javascript:|[?&;][^=&]*(?:token|key|session|sid|sig|auth|code|secret|pass|nonce)[^=&]*=/i;

/** What the element itself says of itself, the most durable first. */
function marksOf(el: Element): Mark[] {
  const tag = tagOf(el);
  const marks: Mark[] = [];
  const by = (kind: LocatorBy, name: string, prefix = ""): void => {
    const value = attr(el, name);
    if (!usable(value)) return;
    marks.push({ by: kind, css: `${prefix}[${name}=${quote(value)}]`, xpath: `${prefix === "" ? "*" : prefix}[@${name}=${literal(value)}]` });
  };
  for (const name of TEST_IDS) by("test-id", name);
  const id = attr(el, "id");
  if (usable(id) && !isGenerated(id)) marks.push({ by: "id", css: `#${CSS.escape(id)}`, xpath: `*[@id=${literal(id)}]` });
  const name = attr(el, "name");
  if (usable(name) && !isGenerated(name)) {
    by("name", "name");
    by("name", "name", tag);
    const value = attr(el, "value");
    const chosen = (isInput(el) && /^(?:radio|checkbox|submit|button|reset|image)$/.test(el.type)) || tag === "button";
    if (chosen && usable(value)) {
      const both = `[@name=${literal(name)} and @value=${literal(value)}]`;
      marks.push({ by: "name", css: `[name=${quote(name)}][value=${quote(value)}]`, xpath: `*${both}` });
    }
  }
  for (const label of LABELS) by("label", label, label === "aria-label" ? "" : tag);
  const href = attr(el, "href");
  if (usable(href) && href !== "#" && !SECRET.test(href)) {
    for (const end of endsOf(href)) marks.push({ by: "label", css: `[href$=${quote(end)}]`, xpath: `*[@href=${literal(href)}]` });
    by("label", "href");
  }
  const value = tag === "option" ? attr(el, "value") : null;
  if (usable(value)) marks.push({ by: "name", css: `[value=${quote(value)}]`, xpath: `option[@value=${literal(value)}]` });
  return marks;
}

/** Ancestors that can be named, the nearest first. */
function scopesOf(el: Element): Mark[] {
  const scopes: Mark[] = [];
  for (let node = parentNode(el); node !== null && isElement(node) && scopes.length < MAX_SCOPES; node = parentNode(node)) {
    const [mark] = marksOf(node).filter((one) => one.by === "test-id" || one.by === "id" || one.by === "name" || one.css.startsWith("[aria-label"));
    if (mark !== undefined) scopes.push(mark);
    else {
      const [first] = classesOf(node);
      const tag = tagOf(node);
      if (first !== undefined) scopes.push({ by: "structure", css: `.${CSS.escape(first)}`, xpath: `*[contains(concat(" ",normalize-space(@class)," "),${literal(` ${first} `)})]` });
      else if (!/^(?:div|span|li|tr|td|tbody|p|ul|html|body)$/.test(tag)) scopes.push({ by: "structure", css: tag, xpath: tag });
    }
  }
  return scopes;
}

/** Classes that say something: not made by a program, no state of the moment. */
function classesOf(el: Element): string[] {
  const all = (attr(el, "class") ?? "").trim().split(/\s+/);
  return all.filter((one) => one !== "" && !isGenerated(one) && !isNumbered(one) && !STATES.test(one)).slice(0, 4);
}

const STATES = /(?:^|[-_:])(?:active|selected|current|open|opened|closed|hover|focus|focused|focus-visible|visible|hidden|disabled|enabled|checked|loading|loaded|busy|expanded|collapsed|show|shown|in|on|off|first|last|odd|even|js)$/i;

// ---------------------------------------------------------------- structure

/** The shortest selector by tags, classes and positions, below the nearest ancestor that helps. */
function byStructure(el: Element, root: Root, scopes: readonly Mark[]): string | null {
  const leaves = leavesOf(el);
  for (const leaf of leaves) if (only(root, leaf, el)) return leaf;
  for (const leaf of leaves) for (const scope of scopes) if (only(root, `${scope.css} ${leaf}`, el)) return `${scope.css} ${leaf}`;
  let path = "";
  let node: Element | null = el;
  for (let depth = 0; node !== null && depth < 64; depth++) {
    const leaf = positionOf(node);
    path = path === "" ? leaf : `${leaf}>${path}`;
    if (only(root, path, el)) return path;
    const above: Element | null = parentElement(node);
    if (above !== null) {
      for (const scope of scopesOf(node)) {
        const css: string = `${scope.css} ${path}`;
        if (only(root, css, el)) return css;
      }
    }
    node = above;
  }
  return null;
}

const parentElement = (el: Element): Element | null => {
  const parent = parentNode(el);
  return parent !== null && isElement(parent) ? parent : null;
};

/** Tag and classes, then the position among siblings. */
function leavesOf(el: Element): string[] {
  const tag = tagOf(el);
  const classes = classesOf(el).map((one) => `.${CSS.escape(one)}`);
  return [CSS.escape(tag), ...classes, ...classes.map((one) => CSS.escape(tag) + one), positionOf(el)];
}

function positionOf(el: Element): string {
  const tag = tagOf(el);
  let index = 0;
  let count = 0;
  const parent = parentNode(el);
  for (let node = parent?.firstChild ?? null; node !== null; node = node.nextSibling) {
    if (!isElement(node) || tagOf(node) !== tag) continue;
    count++;
    if (node === el) index = count;
  }
  return count < 2 ? CSS.escape(tag) : `${CSS.escape(tag)}:nth-of-type(${index})`;
}

// ---------------------------------------------------------------- text

/** By the text of the element; where several have it, by a text in its record. */
function textOf(el: Element): LocatorCandidate[] {
  const text = collapse(textContent(el) ?? "");
  const tag = tagOf(el);
  if (!/^[a-z][a-z0-9-]*$/.test(tag) || !(el instanceof HTMLElement)) return [];
  const own = usable(text) ? `[normalize-space()=${literal(text)}]` : "";
  const plain = `//${tag}${own}`;
  if (own !== "" && onlyByXPath(plain, el)) return [{ by: "text", xpath: plain }];
  for (let node = parentElement(el), depth = 0; node !== null && depth < 6; node = parentElement(node), depth++) {
    const holder = tagOf(node);
    if (holder === "body") break;
    for (const said of wordsOf(node, el)) {
      const xpath = `//${holder}[.//text()[normalize-space()=${literal(said)}]]//${tag}${own}`;
      if (onlyByXPath(xpath, el)) return [{ by: "text", xpath }];
    }
  }
  return [];
}

/** The first texts of a record that are not the element's own. */
function wordsOf(record: Element, el: Element): string[] {
  const words: string[] = [];
  const walker = document.createTreeWalker(record, NodeFilter.SHOW_TEXT);
  for (let looked = 0, node = walker.nextNode(); node !== null && words.length < 4 && looked < 60; looked++, node = walker.nextNode()) {
    const said = collapse((node as Text).data);
    if (usable(said) && /\p{L}/u.test(said) && !el.contains(node)) words.push(said);
  }
  return words;
}

/** A string as XPath writes it; one with both quotes is put together. */
function literal(text: string): string {
  if (!text.includes('"')) return `"${text}"`;
  if (!text.includes("'")) return `'${text}'`;
  return `concat(${text.split('"').map((part) => `"${part}"`).join(`,'"',`)})`;
}

// ---------------------------------------------------------------- trying

function only(root: Root, css: string, el: Element): boolean {
  const found = selected(root, css);
  return found.length === 1 && found[0] === el;
}

function onlyByXPath(xpath: string, el: Element): boolean {
  const found = evaluated(xpath);
  return found.length === 1 && found[0] === el;
}

function selected(root: Root, css: string): Element[] {
  try {
    return queryAll(root, css);
  } catch {
    return []; // a selector that this browser does not read
  }
}

function evaluated(xpath: string): Element[] {
  try {
    const found = evaluate.call(document, xpath, document, null, XPathResult.ORDERED_NODE_SNAPSHOT_TYPE, null);
    return Array.from({ length: Math.min(found.snapshotLength, 2) }, (_, i) => found.snapshotItem(i)).filter((node) => node !== null && isElement(node)) as Element[];
  } catch {
    return []; // the same for an expression
  }
}

/** The element that the locator means now. Throws `not-found`. */
export function locate(locator: Locator): Element {
  let root: Root = document;
  for (const css of locator.hosts ?? []) {
    const [host, second]: Element[] = selected(root, css);
    const inner: ShadowRoot | null = host === undefined || second !== undefined ? null : host.shadowRoot;
    if (inner === null) throw lost();
    root = inner;
  }
  const votes = new Map<Element, Set<LocatorBy>>();
  for (const one of locator.candidates) {
    const found = one.css !== undefined ? selected(root, one.css) : root === document ? evaluated(one.xpath ?? "") : [];
    const [el] = found;
    if (el === undefined || found.length !== 1 || roleOf(el) !== locator.role) continue;
    if (one.css !== undefined && one.xpath !== undefined && root === document && !onlyByXPath(one.xpath, el)) continue;
    if (labelOf(el) === locator.name) return el;
    votes.set(el, (votes.get(el) ?? new Set()).add(one.by));
  }
  const agreed = [...votes].filter(([, kinds]) => kinds.size > 1);
  const [first] = agreed;
  if (first === undefined || agreed.length > 1) throw lost();
  return first[0];
}

const lost = (): Fault => new Fault("not-found", "The page has no element that the locator provably means", { retryable: true, next: "browser_page_find" });
