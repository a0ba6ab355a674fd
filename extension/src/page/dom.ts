/**
 * The only way the page runtime touches the DOM.
 *
 * An isolated world has its own prototypes, so a page cannot replace `Element.prototype.getAttribute` for us. But named
 * properties still reach in: a field named `getAttribute` shadows the method of its form, an image named `body` shadows
 * `document.body`. So every read goes through the prototype's own getter or method, taken once.
 *
 * Holds no state. Does not judge what an element means.
 */

import { spend } from "./budget";

type Getter<R> = (self: object) => R;

function getter<R>(proto: object, name: string): Getter<R> {
  const get = Object.getOwnPropertyDescriptor(proto, name)?.get;
  if (get === undefined) throw new Error(`no getter ${name}`);
  return (self) => get.call(self) as R;
}

const E = Element.prototype;
const N = Node.prototype;
const D = Document.prototype;

export const nodeType: Getter<number> = getter(N, "nodeType");
export const parentNode: Getter<Node | null> = getter(N, "parentNode");
export const firstChild: Getter<Node | null> = getter(N, "firstChild");
export const nextSibling: Getter<Node | null> = getter(N, "nextSibling");
export const previousSibling: Getter<Node | null> = getter(N, "previousSibling");
export const isConnected: Getter<boolean> = getter(N, "isConnected");
export const textContent: Getter<string | null> = getter(N, "textContent");
export const ownerDocument: Getter<Document | null> = getter(N, "ownerDocument");
export const tagOf: Getter<string> = getter(E, "localName");
export const childCount: Getter<number> = getter(E, "childElementCount");
export const children: Getter<HTMLCollection> = getter(E, "children");
export const data: Getter<string> = getter(CharacterData.prototype, "data");
export const bodyOf: Getter<HTMLElement | null> = getter(D, "body");
export const rootElement: Getter<Element | null> = getter(D, "documentElement");
export const contentTypeOf: Getter<string> = getter(D, "contentType");
export const titleOf: Getter<string> = getter(D, "title");
export const readyState: Getter<DocumentReadyState> = getter(D, "readyState");
export const scrollerOf: Getter<Element | null> = getter(D, "scrollingElement");
export const labelsOf = (el: Element): Element[] => {
  const get = labelGetters.get(tagOf(el));
  const list = get?.(el);
  return list ? Array.from(list) : [];
};

const labelledBy = Object.getOwnPropertyDescriptor(E, "ariaLabelledByElements")?.get; // Chrome 135 and newer

/** What a script has set as `ariaLabelledByElements`: the attribute itself is empty then. */
export const labelledByElements = (el: Element): Element[] => ((labelledBy?.call(el) ?? []) as Element[]).slice(0, 16);

const labelGetters = new Map<string, Getter<NodeListOf<HTMLLabelElement> | null>>(
  (
    [
      ["input", HTMLInputElement],
      ["textarea", HTMLTextAreaElement],
      ["select", HTMLSelectElement],
      ["button", HTMLButtonElement],
      ["output", HTMLOutputElement],
      ["meter", HTMLMeterElement],
      ["progress", HTMLProgressElement],
    ] as const
  ).map(([name, kind]) => [name, getter(kind.prototype, "labels")]),
);

export const attr = (el: Element, name: string): string | null => E.getAttribute.call(el, name);
export const attrNames = (el: Element): string[] => E.getAttributeNames.call(el);
export const has = (el: Element, name: string): boolean => E.hasAttribute.call(el, name);
export const matches = (el: Element, selector: string): boolean => E.matches.call(el, selector);
export const query = (root: Element | Document | DocumentFragment, selector: string): Element | null =>
  nodeType(root) === 9
    ? D.querySelector.call(root, selector)
    : nodeType(root) === 11
      ? DocumentFragment.prototype.querySelector.call(root, selector)
      : E.querySelector.call(root, selector);
export const queryAll = (root: Element | Document | DocumentFragment, selector: string): Element[] =>
  Array.from(
    nodeType(root) === 9
      ? D.querySelectorAll.call(root, selector)
      : nodeType(root) === 11
        ? DocumentFragment.prototype.querySelectorAll.call(root, selector)
        : E.querySelectorAll.call(root, selector),
  );
export const countBelow = (el: Element): number => E.getElementsByTagName.call(el, "*").length;
export const rectOf = (el: Element): DOMRect => E.getBoundingClientRect.call(el);
export const rectsOf = (el: Element): DOMRect[] => Array.from(E.getClientRects.call(el));
export const rootOf = (node: Node): Node => N.getRootNode.call(node);
export const contains = (a: Node, b: Node): boolean => N.contains.call(a, b);
export const styleOf = (el: Element): CSSStyleDeclaration => getComputedStyle(el);
export const styleOfPseudo = (el: Element, which: string): CSSStyleDeclaration => getComputedStyle(el, which);
export const byId = (root: Node, id: string): Element | null =>
  nodeType(root) === 9
    ? D.getElementById.call(root, id)
    : nodeType(root) === 11
      ? DocumentFragment.prototype.getElementById.call(root, id)
      : null;
const formOwners = new Map<string, Getter<HTMLFormElement | null>>(
  (
    [
      ["input", HTMLInputElement],
      ["textarea", HTMLTextAreaElement],
      ["select", HTMLSelectElement],
      ["button", HTMLButtonElement],
    ] as const
  ).map(([name, kind]) => [name, getter(kind.prototype, "form")]),
);
export const formOf = (el: Element): HTMLFormElement | null => formOwners.get(tagOf(el))?.(el) ?? null;

export const isElement = (node: Node): node is Element => nodeType(node) === 1;
export const isInput = (el: Element): el is HTMLInputElement => el instanceof HTMLInputElement;
export const isSelect = (el: Element): el is HTMLSelectElement => el instanceof HTMLSelectElement;
export const isTextArea = (el: Element): el is HTMLTextAreaElement => el instanceof HTMLTextAreaElement;

/** White space collapsed to single spaces, none at the ends. */
export const collapse = (text: string): string => text.replace(/\s+/g, " ").trim();

const sheets: Getter<StyleSheetList> = getter(D, "styleSheets");
const shadowSheets: Getter<StyleSheetList> = getter(ShadowRoot.prototype, "styleSheets");
const adopted: Getter<CSSStyleSheet[]> = getter(D, "adoptedStyleSheets");
const shadowAdopted: Getter<CSSStyleSheet[]> = getter(ShadowRoot.prototype, "adoptedStyleSheets");

/** The style sheets of a document or a shadow root; of other roots none. */
export const sheetsOf = (root: Node): CSSStyleSheet[] =>
  nodeType(root) === 9 ? Array.from(sheets(root)) : root instanceof ShadowRoot ? Array.from(shadowSheets(root)) : [];
export const adoptedSheetsOf = (root: Node): CSSStyleSheet[] =>
  nodeType(root) === 9 ? Array.from(adopted(root)) : root instanceof ShadowRoot ? Array.from(shadowAdopted(root)) : [];

const openShadow: Getter<ShadowRoot | null> = getter(E, "shadowRoot");
const CAN_HOST = new Set(
  "article aside blockquote body div footer h1 h2 h3 h4 h5 h6 header main nav p section span".split(" "),
);

/** The open or closed shadow root of `el`. Only tags that may host one are asked: the question costs a binding call. */
export function shadowOf(el: Element): ShadowRoot | null {
  if (rootless.has(el)) return null;
  const tag = tagOf(el);
  if (!tag.includes("-") && !CAN_HOST.has(tag)) return null;
  const open = openShadow(el);
  if (open !== null) {
    shadows = true;
    return open;
  }
  const reach = globalThis.chrome?.dom?.openOrClosedShadowRoot;
  if (reach === undefined || !(el instanceof HTMLElement)) return null;
  try {
    const closed = reach(el) as ShadowRoot | null;
    // A root comes to an empty element as a rule: those are always asked.
    if (closed !== null) shadows = true;
    else if (firstChild(el) !== null) rootless.add(el);
    return closed;
  } catch {
    return null; // an element of a document that is going away has none
  }
}

let shadows = false;

/** Whether a shadow root was ever met in this document. */
export const sawShadow = (): boolean => shadows;

/** Elements with content that had no shadow root of either kind when last asked, so long ago at most. */
let rootless = new WeakSet<Element>();
let rootlessSince = 0;
const ROOTLESS_MS = 1_000;

/** Lets elements be asked again, as time passes or the page has changed. */
export function askForRoots(): void {
  rootless = new WeakSet();
  rootlessSince = performance.now();
}

/** Calls `visit` for each child of `el` in the flat tree: shadow content first, slots replaced by what they show. */
export function eachChild(el: Element, visit: (node: Node) => void): void {
  const shadow = shadowOf(el);
  if (shadow !== null) {
    for (let child = firstChild(shadow); child !== null; child = nextSibling(child)) visit(child);
    return;
  }
  if (tagOf(el) === "slot") {
    const assigned = HTMLSlotElement.prototype.assignedNodes.call(el as HTMLSlotElement);
    if (assigned.length > 0) {
      assigned.forEach(visit);
      return;
    }
  }
  for (let child = firstChild(el); child !== null; child = nextSibling(child)) visit(child);
}

const slotOf: Getter<HTMLSlotElement | null> = getter(E, "assignedSlot");

/** The parent in the flat tree, or the host of a shadow root; null above the root. */
export function flatParent(node: Node): Element | null {
  const slot = isElement(node) ? slotOf(node) : null;
  if (slot !== null) return slot;
  const parent = parentNode(node);
  if (parent === null) return null;
  if (isElement(parent)) return parent;
  return parent instanceof ShadowRoot ? parent.host : null;
}

/** Whether `inner` is `outer` or lies in its flat tree. */
export function flatContains(outer: Element, inner: Node | null): boolean {
  for (let node = inner; node !== null; node = flatParent(node)) if (node === outer) return true;
  return false;
}

/** The nearest inclusive ancestor in the flat tree that `test` accepts. */
export function closest(el: Element, test: (el: Element) => boolean): Element | null {
  for (let node: Element | null = el; node !== null; node = flatParent(node)) if (test(node)) return node;
  return null;
}

/** The nearest inclusive ancestor that fits a selector, out through shadow roots; faster than `closest` where it will do. */
export function ancestorWith(el: Element, selector: string): Element | null {
  for (let at: Element | null = el; at !== null; ) {
    const found: Element | null = E.closest.call(at, selector);
    if (found !== null) return found;
    const root = rootOf(at);
    at = root instanceof ShadowRoot ? root.host : null;
  }
  return null;
}

/** What is at a point of the viewport, through open and closed shadow roots. */
export function elementAt(x: number, y: number): Element | null {
  let hit = D.elementFromPoint.call(document, x, y);
  for (let depth = 0; hit !== null && depth < 32; depth++) {
    const shadow = shadowOf(hit);
    const inner = shadow === null ? null : ShadowRoot.prototype.elementFromPoint.call(shadow, x, y);
    if (inner === null || inner === hit) break;
    hit = inner;
  }
  return hit;
}

const activeIn: Getter<Element | null> = getter(D, "activeElement");
const activeInShadow: Getter<Element | null> = getter(ShadowRoot.prototype, "activeElement");

/** The focused element, through shadow roots. */
export function deepActive(): Element | null {
  let active = activeIn(document);
  for (let depth = 0; active !== null && depth < 32; depth++) {
    const shadow = shadowOf(active);
    const inner = shadow === null ? null : activeInShadow(shadow);
    if (inner === null) break;
    active = inner;
  }
  return active;
}

// ---------------------------------------------------------------- passes

let pass = 0;
let inside = false;

/**
 * Runs `work`, which must neither change the page nor let it run: within it the questions made by `remembered` are
 * answered once per element. Reading a page asks each of them several times.
 */
export function onePass<T>(work: () => T): T {
  if (inside) return work();
  if (performance.now() - rootlessSince > ROOTLESS_MS) askForRoots();
  pass++;
  inside = true;
  try {
    return work();
  } finally {
    inside = false;
  }
}

/** `ask`, with its answers kept for the length of a pass. */
export function remembered<R>(ask: (el: Element) => R): (el: Element) => R {
  const answer = rememberedOf(ask);
  return (el) => {
    spend();
    return answer(el);
  };
}

/** The same for anything that is asked about. */
export function rememberedOf<K extends object, R>(ask: (of: K) => R): (of: K) => R {
  let answers = new Map<K, R>();
  let since = 0;
  return (of) => {
    if (!inside) return ask(of);
    if (since !== pass) {
      answers = new Map();
      since = pass;
    }
    let answer = answers.get(of);
    if (answer === undefined) {
      answer = ask(of);
      answers.set(of, answer);
    }
    return answer;
  };
}

const SEEN = { visibilityProperty: true } as const;

export type Visibility = "shown" | "unseen" | "gone";

/** `gone`: nothing below it is shown either. `unseen`: the element itself is not, its children may be. */
export const visibility: (el: Element) => Visibility = remembered((el) => {
  if (E.checkVisibility.call(el, SEEN)) return "shown";
  if (E.checkVisibility.call(el)) return "unseen";
  return styleOf(el).display === "contents" ? "unseen" : "gone";
});

/** Visible, not below `aria-hidden` or `inert`. `display: contents` counts by its children, so as not visible itself. */
export function isShown(el: Element): boolean {
  return E.checkVisibility.call(el, SEEN) && ancestorWith(el, '[aria-hidden="true"],[inert]') === null;
}

export const isConcealed = (el: Element): boolean => attr(el, "aria-hidden") === "true" || has(el, "inert");

const INLINE = new Set(
  "a abbr acronym b bdi bdo big cite code data del dfn em font i ins kbd label mark q rp rt ruby s samp small span strong sub sup time tt u var wbr slot".split(
    " ",
  ),
);

/** Whether text on both sides of this element's edge must be kept apart. Style is asked only where the tag does not tell. */
export function breaksText(el: Element): boolean {
  const tag = tagOf(el);
  if (!INLINE.has(tag) && !tag.includes("-")) return true;
  const display = styleOf(el).display;
  return display !== "inline" && display !== "contents" && display !== "none";
}
