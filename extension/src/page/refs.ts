/**
 * Refs: `e12` stands for one live element and what it meant when the worker saw it (design 5).
 *
 * Invariants: a number is given to one element once and never again in this document, nor (the service worker hands the
 * first number out) in a later document of the tab. A ref resolves only while its element is connected and still has the
 * same role, name, type and form; otherwise it is stale. A look-alike has another identity and so another number.
 */

import {
  attr,
  closest,
  collapse,
  eachChild,
  flatParent,
  has,
  isConcealed,
  isConnected,
  isElement,
  isInput,
  nodeType,
  remembered,
  rootElement,
  styleOf,
  tagOf,
  textContent,
  visibility,
} from "./dom";
import { Fault } from "./fault";
import { cut, nameOf } from "./names";
import { formContext, roleOf } from "./roles";

interface Entry {
  readonly element: WeakRef<Element>;
  readonly meaning: string;
}

const entries = new Map<number, Entry>();
const numbers = new WeakMap<Element, number>();
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
  if (number === undefined || entries.get(number)?.meaning !== meaning) {
    number = next++;
    numbers.set(el, number);
    entries.set(number, { element: new WeakRef(el), meaning });
  }
  return frame === 0 ? `e${number}` : `f${frame}e${number}`;
}

/** The element of a ref. Throws `stale-ref`. */
export function resolveRef(ref: string): Element {
  const number = Number(/e([0-9]+)$/.exec(ref)?.[1]);
  const entry = entries.get(number);
  if (entry === undefined) throw stale("This ref does not belong to the page as it is now");
  const el = entry.element.deref();
  if (el === undefined || !isConnected(el)) {
    entries.delete(number);
    throw stale("The element of this ref has left the page");
  }
  if (meaningOf(el, roleOf(el), labelOf(el)) !== entry.meaning) throw stale("The element of this ref means something else now");
  return el;
}

/** The name a ref is pinned with: blocks without a role are pinned to the element alone. */
export function labelOf(el: Element): string {
  return roleOf(el) === "" && !isClickable(el) ? "" : nameFor(el, roleOf(el));
}

const stale = (message: string): Fault =>
  new Fault("stale-ref", message, { refsValid: false, retryable: true, next: "browser_page_observe" });

/** Elements without a role that are operable all the same: by attribute, by tab order, or as their cursor tells. */
export const isClickable: (el: Element) => boolean = remembered((el) => has(el, "onclick") || isTabStop(el) || isPointed(el));

const POINTED = new Set(["b", "div", "i", "img", "li", "p", "span", "td"]);
const MAX_POINTED = 80; // characters of text; a larger area with that cursor is a card, and its text is read as text

/** The outermost element of those that show the pointing hand: listeners can't be seen, the cursor can. */
function isPointed(el: Element): boolean {
  if (!POINTED.has(tagOf(el)) || roleOf(el) !== "" || styleOf(el).cursor !== "pointer") return false;
  const parent = flatParent(el);
  if (parent !== null && styleOf(parent).cursor === "pointer") return false;
  return (textContent(el) ?? "").length <= MAX_POINTED;
}

const isTabStop = (el: Element): boolean => {
  const index = attr(el, "tabindex");
  return index !== null && Number(index) >= 0 && roleOf(el) === "";
};

/** The name shown and compared: for clickable elements without a role, their text. */
export function nameFor(el: Element, role: string): string {
  if (role !== "") return nameOf(el);
  const name = nameOf(el);
  return name !== "" ? name : cut(collapse((el as HTMLElement).innerText ?? ""));
}

/** Drops entries whose elements are gone; called now and then so that a long-lived page does not grow the table. */
export function sweep(): void {
  if (entries.size < 20_000) return; // entries; about 4 MB
  for (const [number, entry] of entries) if (entry.element.deref() === undefined) entries.delete(number);
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
