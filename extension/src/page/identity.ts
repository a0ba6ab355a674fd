/**
 * What an element is beyond its role and name: the record it belongs to, and its place in the page.
 *
 * A *record* is the innermost ancestor (or the element itself) beside which an alike sibling holds an element of the
 * same meaning: the table row among rows that all have a "Delete". It is described by its *runs*: its texts, links and
 * keys in tree order. A ref's identity is taken when the ref is given and compared when the ref is used (`refs.ts`).
 *
 * When is it still the same?
 *
 * 1. The node itself is still there (`stillSame`). In a record the runs must be equal. Where they are not, the keys must be, no text may have changed places with another
 *    record, and one thing that tells the record from its siblings, then and now, must have stayed: its own key (then
 *    any text may change), else a text or link with letters in it (then numbers may change and text may be added). A
 *    page that fills old nodes with other records fails this, a counter or a badge does not. Larger records around it
 *    must not have changed places either.
 *    What no record repeats keeps its own keys and those around it; the only entry of a list its words,
 *    and something of the nearest text around must have stayed.
 * 2. The node is gone and a new one may stand for it (`proves`). Then all of this must hold: same address of the page, same
 *    path of tags, ids, roles and labels, same heading above, no second element of this meaning in its record (without
 *    a record: in the page then), the old record gone or the same node, and equal runs, which no sibling had then. Without a record the runs are those of
 *    what holds the element among its like, or of the surroundings. `refs.ts` adds that the new node was not in the
 *    page then, that it is the only one, and that it did not come before the old one had left (`chronicle.ts`).
 *
 * Whatever is not provable by these rules is not the same. Reads the DOM, changes nothing. Work is bounded by `MAX_NODES` a record and
 * `MAX_RECORDS` a group.
 */

import {
  attr,
  attrNames,
  countBelow,
  data,
  eachChild,
  firstChild,
  flatContains,
  flatParent,
  has,
  isConnected,
  isElement,
  isInput,
  nextSibling,
  nodeType,
  parentNode,
  previousSibling,
  queryAll,
  remembered,
  rememberedOf,
  tagOf,
  textContent,
} from "./dom";
import { isGenerated } from "./generated";
import { roleOf } from "./roles";

const MAX_NODES = 120; // elements of a record: more is a section of the page
const MAX_RUNS = 60;
const MAX_RUN = 200; // characters of a run that count
const MAX_RECORDS = 400; // of a group; a longer one is compared without tolerance
const NEAR = 3; // siblings on either side that are asked whether they repeat the element
const MAX_DEPTH = 12; // ancestors that can be the record
const MAX_PATH = 64;
const HEADINGS = "h1,h2,h3,h4,h5,h6,legend,[role=heading]";

/** The runs of one ancestor, as they were. */
interface Level {
  readonly at: WeakRef<Element>;
  readonly runs: readonly string[];
  /** How many records of its group had each run; null: it has no alike siblings, or too many. */
  readonly group: ReadonlyMap<string, number> | null;
  /** No alike sibling had the same runs. */
  readonly unique: boolean;
}

export interface Identity {
  readonly levels: readonly Level[];
  /** Index of the record in `levels`; -1: none repeats the element. */
  readonly record: number;
  /** Index of what a new node must have in common with this one. */
  readonly near: number;
  /** The only element of this meaning within its record, or, without one, within the page. */
  readonly alone: boolean;
  readonly path: string;
  readonly heading: string;
  readonly url: string;
}

/** Whether two elements have the same meaning; given by who knows names. */
export type Alike = (el: Element) => boolean;

const here = (): string => location.pathname + location.search;

// ---------------------------------------------------------------- taking

/** The identity of `el`. `others`: how many elements of the same meaning the page has, itself included; asked if it matters. */
export function identify(el: Element, alike: Alike, others: () => number): Identity {
  const chain = chainOf(el);
  const record = chain.findIndex((node) => repeats(node, el, alike));
  const near = record >= 0 ? record : nearOf(chain, el);
  const levels = chain.map((node): Level => {
    const group = groupOf(node);
    return { at: new WeakRef(node), runs: runsOf(node), group: group?.counts ?? null, unique: group?.unique(runsOf(node)) ?? !isCrowded(node) };
  });
  const holder = chain[record];
  const alone = holder === undefined ? others() === 1 : within(holder, tagOf(el)).filter(alike).length === 1;
  return { levels, record, near, alone, path: pathOf(el), heading: headingOf(chain[near] ?? el), url: here() };
}

/** The element and its ancestors, as far as they are small enough to be a record. */
function chainOf(el: Element): Element[] {
  const chain: Element[] = [];
  for (let node: Element | null = el; node !== null && chain.length < MAX_DEPTH && countBelow(node) <= MAX_NODES; node = flatParent(node)) {
    const tag = tagOf(node);
    if (tag === "body" || tag === "html") break;
    chain.push(node);
  }
  return chain;
}

/** Tags whose siblings are records of one group whatever their classes. */
const LISTED = new Set("li tr td th article option dt dd a button".split(" "));

const kindOf: (el: Element) => string = remembered((el) => {
  const tag = tagOf(el);
  const role = attr(el, "role") ?? "";
  if (LISTED.has(tag) || role !== "") return `${tag} ${role}`;
  return `${tag} ${(attr(el, "class") ?? "").trim().split(/\s+/)[0] ?? ""}`;
});

/** Up to `NEAR` alike siblings on either side. */
function neighbours(el: Element): Element[] {
  const kind = kindOf(el);
  const found: Element[] = [];
  for (const step of [previousSibling, nextSibling]) {
    let left = NEAR;
    for (let node = step(el), looked = 0; node !== null && left > 0 && looked < 20; node = step(node), looked++) {
      if (nodeType(node) !== 1 || !isElement(node) || kindOf(node) !== kind) continue;
      found.push(node);
      left--;
    }
  }
  return found;
}

const within = (root: Element, tag: string): Element[] => (tagOf(root) === tag ? [root] : deep(root, tag));

/** Elements of this tag below `root`, through shadow roots where there are some. */
function deep(root: Element, tag: string): Element[] {
  const light = queryAll(root, tag);
  if (light.length > 0 || countBelow(root) > MAX_NODES) return light;
  const found: Element[] = [];
  let left = 2 * MAX_NODES;
  const visit = (node: Node): void => {
    if (left-- <= 0 || nodeType(node) !== 1 || !isElement(node)) return;
    if (tagOf(node) === tag) found.push(node);
    eachChild(node, visit);
  };
  eachChild(root, visit);
  return found;
}

const repeats = (node: Element, el: Element, alike: Alike): boolean =>
  neighbours(node).some((other) => within(other, tagOf(el)).slice(0, 8).some(alike));

/** Where no record repeats the element: what holds it among its like, else a list's only entry, else all of the surroundings. */
function nearOf(chain: readonly Element[], el: Element): number {
  const sameRole: Alike = (other) => roleOf(other) === roleOf(el);
  const among = chain.findIndex((node, i) => i > 0 && repeats(node, el, sameRole));
  const only = chain.findIndex(isEntry);
  return among >= 0 ? among : only >= 0 ? only : chain.length - 1;
}

const ENTRIES = new Set(["li", "tr", "article"]);
const ENTRY_ROLES = new Set(["article", "listitem", "row"]);

/** An entry of a list by its tag, its role or a key of its own, with or without others beside it. */
const isEntry = (el: Element): boolean => ENTRIES.has(tagOf(el)) || ENTRY_ROLES.has(attr(el, "role") ?? "") || attrNames(el).some((name) => KEY.test(name));

const isCrowded = (el: Element): boolean => neighbours(el).length > 0;

interface Group {
  readonly counts: ReadonlyMap<string, number>;
  readonly unique: (runs: readonly string[]) => boolean;
}

const groupOf = (el: Element): Group | null => {
  const parent = parentNode(el);
  return parent === null ? null : (groupsOf(parent).get(kindOf(el)) ?? null);
};

/** The groups among the children of a node, by kind; groups of one or of too many are left out. */
const groupsOf = rememberedOf((parent: Node): Map<string, Group> => {
  const byKind = new Map<string, Element[]>();
  for (let node = firstChild(parent); node !== null; node = nextSibling(node)) {
    if (nodeType(node) !== 1 || !isElement(node)) continue;
    const same = byKind.get(kindOf(node));
    if (same === undefined) byKind.set(kindOf(node), [node]);
    else same.push(node);
  }
  const groups = new Map<string, Group>();
  for (const [kind, records] of byKind) {
    if (records.length < 2 || records.length > MAX_RECORDS) continue;
    const counts = new Map<string, number>();
    const whole = new Map<string, number>();
    for (const record of records) {
      const runs = countBelow(record) > MAX_NODES ? [] : runsOf(record);
      for (const run of new Set(runs)) counts.set(run, (counts.get(run) ?? 0) + 1);
      const joined = runs.join("\n");
      whole.set(joined, (whole.get(joined) ?? 0) + 1);
    }
    groups.set(kind, { counts, unique: (runs) => whole.get(runs.join("\n")) === 1 });
  }
  return groups;
});

// ---------------------------------------------------------------- runs

const KEY = /^data-(?:.*[-_])?(?:id|key|uid|uuid|guid|pk|slug|sku)$/;
const CONTROLS = new Set(["a", "button", "select", "textarea"]);
const reports = (el: Element): boolean => tagOf(el) === "output" || has(el, "aria-live") || /^(?:alert|log|status|timer)$/.test(attr(el, "role") ?? "") || has(el, "id");
const SILENT = new Set(["script", "style", "template", "noscript"]);

/**
 * Texts (`t`; in a control `c`, in a part of the page that reports `s`), links (`h`), keys of the record itself (`K`) and of what is in it (`k`), values that scripts wrote into
 * fields (`v`), in tree order. Keys are attributes made to tell records apart; ids that look generated are none.
 */
const runsOf: (el: Element) => readonly string[] = remembered((el) => {
  const runs: string[] = [];
  let left = 2 * MAX_NODES;
  const add = (kind: string, text: string): void => {
    if (text !== "" && runs.length < MAX_RUNS) runs.push(kind + text.slice(0, MAX_RUN));
  };
  const visit = (node: Node, kind: string): void => {
    if (left-- <= 0) return;
    const type = nodeType(node);
    if (type === 3) {
      const text = data(node as Text).replace(/\s+/g, " ").trim();
      if (runs.some((run) => run.startsWith("t")) || !isPosition(text, el)) add(kind, text);
    } else if (type === 1 && isElement(node) && !SILENT.has(tagOf(node))) {
      keys(node, node === el ? "K" : "k", add);
      const inner = kind !== "t" ? kind : CONTROLS.has(tagOf(node)) ? "c" : node !== el && reports(node) ? "s" : kind;
      eachChild(node, (child) => visit(child, inner));
    }
  };
  visit(el, "t");
  return runs;
});

function keys(el: Element, kind: string, add: (kind: string, text: string) => void): void {
  for (const name of attrNames(el)) {
    if (name === "id") {
      const id = attr(el, name) ?? "";
      if (!isGenerated(id)) add(kind, `id=${id}`);
    } else if (name === "href") {
      add("h", attr(el, name) ?? "");
    } else if (name.startsWith("data-") && KEY.test(name)) {
      add(kind, `${name}=${attr(el, name) ?? ""}`);
    } else if (name === "value" && isInput(el)) {
      const { type } = el;
      if (type === "checkbox" || type === "radio" || type === "submit" || type === "button") add(kind, `value=${attr(el, name) ?? ""}`);
      else if (type === "text" || type === "search" || type === "number") add("v", attr(el, name) ?? "");
      else if (type === "hidden" && KEY.test(`data-${attr(el, "name") ?? ""}`)) add(kind, `value=${attr(el, name) ?? ""}`);
    } else if (name === "value" && tagOf(el) === "button") {
      add(kind, `value=${attr(el, name) ?? ""}`);
    }
  }
}

// ---------------------------------------------------------------- comparing a node with itself

/** Whether `el`, the node whose identity this was, still stands for the same thing. */
export function stillSame(was: Identity, el: Element, alike: Alike): boolean {
  if (was.url !== here() && headingOf(was.levels[was.near]?.at.deref() ?? el) !== was.heading) return false;
  let record = was.record;
  if (record < 0) {
    // What was alone in its list may have got look-alikes, and may be one of them itself by now.
    record = was.levels.findIndex((level) => {
      const node = level.at.deref();
      return node !== undefined && repeats(node, el, alike);
    });
    if (record < 0) return sameAlone(was, el);
  }
  for (let i = record; i < was.levels.length; i++) {
    const level = was.levels[i] as Level;
    const node = level.at.deref();
    if (node === undefined || !flatContains(node, el)) return i > record; // moved out of a larger one: what it is has been compared
    if (!(i === record ? sameRecord(level, node) : samePlace(level, node))) return false;
  }
  return true;
}

/**
 * Nothing repeats it. Its keys and those around it must be the same; the only entry of a list must keep its words; and
 * of the nearest text around, that no control and no status line holds, something must have stayed.
 */
function sameAlone(was: Identity, el: Element): boolean {
  let labelled = false;
  for (const [i, level] of was.levels.entries()) {
    const node = level.at.deref();
    if (node === undefined || !flatContains(node, el)) break;
    const now = runsOf(node);
    if (ownKeys(level.runs) !== ownKeys(now)) return false;
    const { lost, gained } = difference(level.runs, now);
    if (isEntry(node) && lost.length > 0) {
      const numbers = gained.map(skeleton);
      if (!lost.every((run) => run.startsWith("v") || numbers.includes(skeleton(run)))) return false;
      if (!level.runs.some((run) => now.includes(run) && /^t[^0-9]*\p{L}[^0-9]*$/u.test(run))) return false;
    }
    if (labelled || i === 0) continue;
    const labels: string[] = level.runs.filter((run) => /^[th].*\p{L}/u.test(run));
    const words = labels.filter((run) => !/[0-9]/.test(run));
    labelled = labels.length > 0;
    const kept = (run: string): boolean => now.includes(run);
    if (labelled && !(words.length > 0 ? words.some(kept) : labels.every(kept))) return false;
  }
  return true;
}

const ownKeys = (runs: readonly string[]): string => joined(runs.filter((run) => run.startsWith("K")));
const isKey = (run: string): boolean => run.startsWith("k") || run.startsWith("K");
const skeleton = (run: string): string => run.replace(/[0-9]+/g, "0");
const joined = (runs: readonly string[]): string => runs.join("\n");

function sameRecord(was: Level, node: Element): boolean {
  const now = runsOf(node);
  if (joined(was.runs) === joined(now)) return true;
  if (joined(was.runs.filter(isKey)) !== joined(now.filter(isKey))) return false;
  const { lost, gained } = difference(was.runs, now);
  if (lost.every((run) => run.startsWith("v")) && gained.every((run) => run.startsWith("v"))) return !moved(was, node, lost, gained);
  const group = groupOf(node)?.counts ?? null;
  if (was.group === null || group === null || moved(was, node, lost, gained)) return false;
  const kept = was.runs.filter((run) => now.includes(run) && was.group?.get(run) === 1 && group.get(run) === 1);
  if (kept.some((run) => run.startsWith("K") && !isPositional(run, node))) return true;
  if (!kept.some((run) => /^[tch].*\p{L}/u.test(run))) return false;
  const numbers = gained.map(skeleton);
  return lost.every((run) => run.startsWith("v") || numbers.includes(skeleton(run)));
}

/** A larger record around the element: it may change, but not change places with another. */
function samePlace(was: Level, node: Element): boolean {
  if (was.group === null) return true;
  const now = runsOf(node);
  if (joined(was.runs) === joined(now)) return true;
  const { lost, gained } = difference(was.runs, now);
  if (!moved(was, node, lost, gained)) return true;
  const group = groupOf(node)?.counts;
  return was.runs.some((run) => now.includes(run) && was.group?.get(run) === 1 && group?.get(run) === 1);
}

/** What only one of the two lists has. */
function difference(was: readonly string[], now: readonly string[]): { lost: string[]; gained: string[] } {
  const left = new Map<string, number>();
  for (const run of now) left.set(run, (left.get(run) ?? 0) + 1);
  const lost: string[] = [];
  for (const run of was) {
    const count = left.get(run) ?? 0;
    if (count > 0) left.set(run, count - 1);
    else lost.push(run);
  }
  const gained: string[] = [];
  for (const [run, count] of left) for (let i = 0; i < count; i++) gained.push(run);
  return { lost, gained };
}

/** Whether what was lost is another record's now, or what was gained was another's then. */
function moved(was: Level, node: Element, lost: readonly string[], gained: readonly string[]): boolean {
  const now = groupOf(node)?.counts;
  return (
    lost.some((run) => (was.group?.get(run) ?? 1) === 1 && (now?.get(run) ?? 0) > 0) ||
    gained.some((run) => was.group?.get(run) === 1)
  );
}

/** A key that merely counts the records says nothing about which one it is. */
function isPositional(run: string, node: Element): boolean {
  const number = /([0-9]+)$/.exec(run)?.[1];
  return number !== undefined && isIndex(Number(number), node);
}

/** A number at the beginning of a record that says where it is: it changes when another record comes before. */
const isPosition = (text: string, node: Element): boolean => /^#?[0-9]{1,4}[.):]?$/.test(text) && isIndex(Number(/[0-9]+/.exec(text)?.[0]), node);

/** Whether the record is the `number`-th of its kind, counted from 0 or from 1. */
function isIndex(number: number, node: Element): boolean {
  let index = 0;
  const kind = kindOf(node);
  for (let at = previousSibling(node); at !== null; at = previousSibling(at)) {
    if (nodeType(at) === 1 && isElement(at) && kindOf(at) === kind) index++;
  }
  return number === index || number === index + 1;
}

// ---------------------------------------------------------------- proving that a new node stands for one that is gone

/** Whether `el`, which has the same meaning, has the identity of the node that is gone. */
export function proves(was: Identity, el: Element, alike: Alike): boolean {
  if (!was.alone || was.url !== here() || pathOf(el) !== was.path) return false;
  const level = was.levels[was.near];
  const node = chainOf(el)[was.near];
  if (level === undefined || node === undefined || !level.unique || joined(runsOf(node)) !== joined(level.runs)) return false;
  const old = level.at.deref();
  if (old !== undefined && old !== node && isConnected(old)) return false; // it has lost the element, it was not drawn anew
  return within(node, tagOf(el)).filter(alike).length === 1 && headingOf(node) === was.heading;
}

/** Tags, ids, roles and labels from the element up to the root. */
function pathOf(el: Element): string {
  const parts: string[] = [];
  for (let node: Element | null = el; node !== null && parts.length < MAX_PATH; node = flatParent(node)) {
    const id = attr(node, "id") ?? "";
    parts.push([tagOf(node), isGenerated(id) ? "" : id, attr(node, "role") ?? "", attr(node, "aria-label") ?? ""].join("\u0001"));
  }
  return parts.join("\n");
}

/** The nearest heading before the element, going outwards; "" if there is none near. */
function headingOf(el: Element): string {
  let depth = 0;
  for (let node: Element | null = el; node !== null && depth < MAX_DEPTH; node = flatParent(node), depth++) {
    let looked = 0;
    for (let at = previousSibling(node); at !== null && looked < 20; at = previousSibling(at)) {
      if (nodeType(at) !== 1 || !isElement(at)) continue;
      looked++;
      const found = has(at, "role") || /^(?:h[1-6]|legend)$/.test(tagOf(at)) ? headingIn(at) : queryAll(at, HEADINGS).pop();
      if (found !== null && found !== undefined) return (textContent(found) ?? "").replace(/\s+/g, " ").trim().slice(0, MAX_RUN);
    }
  }
  return "";
}

const headingIn = (el: Element): Element | null =>
  /^(?:h[1-6]|legend)$/.test(tagOf(el)) || attr(el, "role") === "heading" ? el : (queryAll(el, HEADINGS).pop() ?? null);
