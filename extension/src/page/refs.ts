/**
 * Refs: `e12` stands for one live element and what it meant when the worker saw it (design 5).
 *
 * Invariants: a number is given to one element once and never again in this document, nor (the service worker hands the
 * first number out) in a later document of the tab. A look-alike has another identity and so another number. A ref
 * resolves
 *
 * - to its own node, while that is connected, has the same role, name, type and form, and still stands in the same record
 *   (`identity.ts`, `stillSame`);
 * - to another node only if its own is gone from the page and that one provably took its place: the only element with
 *   the same meaning, path and record (`proves`), and new: no element of the page at the time the ref was given, nor one
 *   that came while the old one was still there (`chronicle.ts`).
 *
 * Everything else is `stale-ref`: two candidates, a label that changed places with another, a look-alike that remained
 * when the element left, an old node that a page filled with another record. Identities are taken after the answer that
 * gives the refs (`pin`), in the same task, so that they cost an observation nothing.
 */

import {
  attr,
  childCount,
  closest,
  collapse,
  data,
  eachChild,
  flatParent,
  has,
  isConcealed,
  isConnected,
  isElement,
  isInput,
  nodeType,
  onePass,
  queryAll,
  remembered,
  rootElement,
  rootOf,
  styleOf,
  tagOf,
  textContent,
  visibility,
} from "./dom";
import { Fault } from "./fault";
import { cameAfter, keep, moment, quietSince, watch } from "./chronicle";
import { identify, type Identity, proves, stillSame } from "./identity";
import { isShape, marksWithin } from "./marks";
import { cut, nameOf } from "./names";
import { formContext, roleOf } from "./roles";

interface Entry {
  element: WeakRef<Element>;
  readonly tag: string;
  readonly role: string;
  readonly name: string;
  readonly meaning: string;
  /** The document or the shadow root that the element was in. */
  root: WeakRef<Node>;
  /** Null until pinned, after the answer that gave the ref. */
  identity: Identity | null;
  /** The elements of the page that had been seen by then: `since` of none of them is later. */
  epoch: number;
  /** When its identity was last found the same (`chronicle.ts`). */
  checked: number;
}

const MAX_NAMED = 400; // elements of one tag whose names are compared to say that one is the only one

const entries = new Map<number, Entry>();
const numbers = new WeakMap<Element, number>();
/** When an element was first seen in the page, for the tags that have refs. */
const since = new WeakMap<Element, number>();
let unpinned: Entry[] = [];
let epoch = 0;
let next = 1;
let frame = 0;

/** Called with each command: the first free number of the tab and this frame's number (0: main). */
export function begin(first: number, frameNumber: number): void {
  if (first > next) next = first;
  frame = frameNumber;
}

export const nextNumber = (): number => next;

const meaningOf = (el: Element, role: string, name: string): string =>
  [role, name, isInput(el) ? el.type : tagOf(el), formContext(el)].join("\u0001");

/** The ref of an element whose role and name are known; a changed meaning gets a new number. */
export function refOf(el: Element, role: string, name: string): string {
  const meaning = meaningOf(el, role, name);
  let number = numbers.get(el);
  const known = number === undefined ? undefined : entries.get(number);
  if (number === undefined || known?.meaning !== meaning || !stillIs(known, el)) {
    number = next++;
    numbers.set(el, number);
    const entry = { element: new WeakRef(el), tag: tagOf(el), role, name, meaning, root: new WeakRef(rootOf(el)), identity: null, epoch: 0, checked: -1 };
    entries.set(number, entry);
    unpinned.push(entry);
  }
  return frame === 0 ? `e${number}` : `f${frame}e${number}`;
}

const alikeTo =
  (entry: Entry) =>
  (el: Element): boolean =>
    tagOf(el) === entry.tag && roleOf(el) === entry.role && labelOf(el) === entry.name;

const stillIs = (entry: Entry, el: Element): boolean => entry.identity === null || stillSame(entry.identity, el, alikeTo(entry));

/** Takes the identities of the elements that got refs since the last time. In the task that gave the refs, after its answer. */
export function pin(): void {
  if (unpinned.length === 0) return;
  const fresh = unpinned;
  unpinned = [];
  epoch++;
  onePass(() => {
    const marked = new Map<Node, Set<string>>();
    for (const entry of fresh) {
      const el = entry.element.deref();
      if (el === undefined || !isConnected(el)) continue;
      const root = rootOf(el);
      mark(root, entry.tag, marked);
      watch(root);
      keep(el);
      entry.root = new WeakRef(root);
      entry.epoch = epoch;
      const alike = alikeTo(entry);
      entry.identity = identify(el, alike, () => {
        const all = below(root, entry.tag);
        return all.length > MAX_NAMED ? all.length : all.filter(alike).length;
      });
      entry.checked = moment();
    }
  });
}

/** Notes that all elements of this tag (and the hosts around a shadow root, with their like) are in the page now. */
function mark(root: Node, tag: string, done: Map<Node, Set<string>>): void {
  const tags = done.get(root) ?? new Set<string>();
  done.set(root, tags);
  if (tags.has(tag)) return;
  tags.add(tag);
  for (const el of below(root, tag)) if (!since.has(el)) since.set(el, epoch);
  if (root instanceof ShadowRoot) mark(rootOf(root.host), tagOf(root.host), done);
}

const below = (root: Node, tag: string): Element[] => queryAll(root as Document | ShadowRoot, tag);

/** The element of a ref. Throws `stale-ref`. */
export function resolveRef(ref: string): Element {
  const number = Number(/e([0-9]+)$/.exec(ref)?.[1]);
  const entry = entries.get(number);
  if (entry === undefined) throw stale("This ref does not belong to the page as it is now");
  const el = entry.element.deref();
  if (el === undefined || !isConnected(el)) return successor(entry);
  if (meaningOf(el, roleOf(el), labelOf(el)) !== entry.meaning) throw stale("The element of this ref means something else now");
  if (quietSince(entry.checked) && root(entry) === document) return el;
  if (!stillIs(entry, el)) throw stale("The element of this ref belongs to something else now");
  entry.checked = moment();
  return el;
}

const root = (entry: Entry): Node | undefined => entry.root.deref();

/** The new node that provably stands for one that has gone. */
function successor(entry: Entry): Element {
  const { identity } = entry;
  const gone = entry.element.deref();
  const alike = alikeTo(entry);
  const found =
    identity === null
      ? []
      : onePass(() =>
          candidates(entry).filter((el) => alike(el) && meaningOf(el, entry.role, entry.name) === entry.meaning && proves(identity, el, alike)),
        );
  const [el] = found;
  if (el === undefined || found.length > 1 || gone === undefined || !isNew(el, entry) || !cameAfter(el, gone)) throw stale("The element of this ref has left the page");
  entry.element = new WeakRef(el);
  entry.identity = null;
  unpinned.push(entry);
  return el;
}

/** Elements of the same tag, where the lost one was; where its shadow root has gone as well, in all of the page. */
function candidates(entry: Entry): Element[] {
  const root = entry.root.deref();
  if (root !== undefined && isConnected(root)) return below(root, entry.tag);
  const found: Element[] = [];
  const visit = (node: Node): void => {
    if (nodeType(node) !== 1 || !isElement(node)) return;
    if (tagOf(node) === entry.tag) found.push(node);
    eachChild(node, visit);
  };
  const top = rootElement(document);
  if (top !== null) visit(top);
  return found;
}

/** Whether the element was not in the page when the ref was given. */
function isNew(el: Element, entry: Entry): boolean {
  const unseen = (one: Element): boolean => (since.get(one) ?? Infinity) > entry.epoch;
  const root = rootOf(el);
  if (root === entry.root.deref()) return unseen(el);
  return root instanceof ShadowRoot && entry.root.deref() !== document && unseen(root.host) && unseen(el);
}

/** The name a ref is pinned with: blocks without a role are pinned to the element alone. */
export function labelOf(el: Element): string {
  return roleOf(el) === "" && !isClickable(el) ? "" : nameFor(el, roleOf(el));
}

const stale = (message: string): Fault =>
  new Fault("stale-ref", message, { refsValid: false, retryable: true, next: "browser_page_observe" });

/** Elements without a role that are operable all the same: by attribute, by tab order, or as their cursor tells. */
export const isClickable: (el: Element) => boolean = remembered((el) => has(el, "onclick") || isTabStop(el) || isPointed(el) || isDragged(el) || isShape(el));

const POINTED = new Set(["b", "div", "i", "img", "li", "p", "span", "td"]);
const MAX_POINTED = 80; // characters of text; a larger area with that cursor is a card, and its text is read as text

/** The outermost element of those that show the pointing hand: listeners can't be seen, the cursor can. */
function isPointed(el: Element): boolean {
  if (!POINTED.has(tagOf(el)) || roleOf(el) !== "" || styleOf(el).cursor !== "pointer") return false;
  const parent = flatParent(el);
  if (parent !== null && styleOf(parent).cursor === "pointer" && !isDivided(parent)) return false;
  return (textContent(el) ?? "").length <= MAX_POINTED && !isDivided(el);
}

const MAX_PARTS = 8;

/** A bar with one cursor for several buttons: nothing but parts that each have a class, a picture and a text of their own. */
const isDivided: (el: Element) => boolean = remembered((el) => {
  const parts = childCount(el);
  if (parts < 2 || parts > MAX_PARTS) return false;
  let divided = true;
  eachChild(el, (node) => {
    if (isElement(node)) divided &&= has(node, "class") && (textContent(node) ?? "").trim() !== "" && marksWithin(node).length > 0;
    else if (nodeType(node) === 3) divided &&= data(node).trim() === "";
  });
  return divided;
});

const DRAGGED = /(?:^|\s)(?:ui-draggable|cdk-drag)(?:\s|$)/; // what common libraries call a thing they let drag
const DRAG_CURSORS = new Set(["grab", "move"]);

/** Something to be dragged: by attribute, by a library's class, or as its cursor tells where its parent's does not. */
function isDragged(el: Element): boolean {
  if (!POINTED.has(tagOf(el)) || roleOf(el) !== "" || (textContent(el) ?? "").length > MAX_POINTED) return false;
  if (attr(el, "draggable") === "true" || DRAGGED.test(attr(el, "class") ?? "")) return true;
  const cursor = styleOf(el).cursor;
  const parent = flatParent(el);
  return DRAG_CURSORS.has(cursor) && (parent === null || styleOf(parent).cursor !== cursor);
}

const isTabStop = (el: Element): boolean => {
  const index = attr(el, "tabindex");
  return index !== null && Number(index) >= 0 && roleOf(el) === "";
};

/** The name shown and compared: for clickable elements without a role, their text. */
export function nameFor(el: Element, role: string): string {
  if (role !== "") return nameOf(el);
  const name = nameOf(el);
  return name !== "" ? name : cut(collapse((el as Partial<HTMLElement>).innerText ?? textContent(el) ?? ""));
}

/** Drops entries whose elements are gone; called now and then so that a long-lived page does not grow the table. */
export function sweep(): void {
  if (entries.size < 20_000) return; // entries; about 4 MB
  for (const [number, entry] of entries) {
    const el = entry.element.deref();
    if (el === undefined || !isConnected(el)) entries.delete(number);
  }
}

// ---------------------------------------------------------------- targets

export interface Wanted {
  readonly role?: string | undefined;
  readonly name?: string | undefined;
  readonly nth?: number | undefined;
}

/** All visible elements with this role and exactly this name, in flat-tree order. */
export function matching(wanted: Wanted): Element[] {
  const name = wanted.name === undefined ? undefined : cut(wanted.name);
  const found: Element[] = [];
  const visit = (node: Node): void => {
    if (nodeType(node) !== 1 || !isElement(node)) return;
    if (isConcealed(node)) return;
    const seen = visibility(node);
    if (seen === "gone") return;
    if (seen === "shown") {
      const role = roleOf(node);
      const fits = wanted.role === undefined ? role !== "" || isClickable(node) : role === wanted.role;
      if (fits && (name === undefined || nameFor(node, role) === name)) found.push(node);
    }
    eachChild(node, visit);
  };
  const root = rootElement(document);
  if (root !== null) visit(root);
  return found;
}

/** The one element a target means. Throws `not-found` or `ambiguous-target`. */
export function resolveTarget(wanted: Wanted): Element {
  let found = matching(wanted);
  if (wanted.role === undefined) found = preferControls(found);
  if (found.length === 0) {
    throw new Fault("not-found", "No visible element has this role and exactly this name", { retryable: true, next: "browser_page_find" });
  }
  if (wanted.nth === undefined) {
    if (found.length > 1) {
      throw new Fault("ambiguous-target", `${found.length} visible elements match; use a ref, or nth`, { next: "browser_page_find" });
    }
    return found[0] as Element;
  }
  const el = found[wanted.nth - 1];
  if (el === undefined) {
    throw new Fault("not-found", `Only ${found.length} visible elements match`, { retryable: true, next: "browser_page_find" });
  }
  return el;
}

/** Without a role a heading around a link of the same name is no second candidate: the innermost elements count. */
function preferControls(found: Element[]): Element[] {
  return found.filter((el) => !found.some((other) => other !== el && closest(other, (node) => node === el) !== null));
}

export interface Pointer {
  readonly ref?: string | undefined;
  readonly name?: string | undefined;
  readonly role?: string | undefined;
  readonly target?: Wanted | undefined;
}

/** The element that a tool's arguments point at; null if they point at none. */
export function resolve(args: Pointer): Element | null {
  if (args.ref !== undefined) return resolveRef(args.ref);
  if (args.target !== undefined) return resolveTarget(args.target);
  if (args.name !== undefined) return resolveTarget({ name: args.name, role: args.role });
  return null;
}
