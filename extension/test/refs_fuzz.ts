/**
 * Refs under change: pages are drawn from a seed, observed, changed, and one element is clicked by the ref it had.
 *
 * The page keeps its own book: every button knows which item it acts on, whatever the page has done with its node since.
 * A click that acts on another item than the one observed is `wrong`. A target is `provable` if the page itself still
 * tells it from all others: its node stands where it acts on the same item under the same label, or a new node does and no other
 * item, then or now, looks the same. What the runtime makes of that is not asked.
 */

import { aim, syntheticClick } from "../src/page/act";
import { onePass } from "../src/page/dom";
import { observe } from "../src/page/render";
import { begin, labelOf, pin, refOf, resolveRef } from "../src/page/refs";
import { roleOf } from "../src/page/roles";

type Random = () => number;

function randomOf(seed: number): Random {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
}

interface Item {
  readonly id: number;
  name: string;
  count: number;
}

const WORDS = "Alder Birch Cedar Elm Fir Hazel Larch Maple Oak Pine Rowan Willow".split(" ");
const SHAPES = ["table", "list", "cards", "links", "checks", "shadow", "named", "groups"] as const;
const KEYS = ["none", "data-id", "id", "data-key"] as const;

interface Style {
  readonly shape: (typeof SHAPES)[number];
  readonly key: (typeof KEYS)[number];
  /** A column that counts the rows: it says where a row is, not what it is. */
  readonly numbered: boolean;
  readonly counter: boolean;
  readonly heading: boolean;
}

interface Row {
  item: Item;
  readonly el: HTMLElement;
  readonly label: HTMLElement;
  readonly number: HTMLElement | null;
  readonly count: HTMLElement | null;
  readonly buttons: HTMLElement[];
}

let log: string[] = [];

class Page {
  readonly rows: Row[] = [];
  holder: HTMLElement;
  private next = 1;

  constructor(
    readonly random: Random,
    readonly style: Style,
    readonly top: HTMLElement,
  ) {
    this.holder = this.makeHolder();
    const names = this.pick(["words", "numbers"] as const);
    const twins = random() < 0.2;
    const count = 1 + Math.floor(random() * 9);
    for (let i = 0; i < count; i++) {
      const name = twins && random() < 0.5 ? "Alder" : names === "words" ? (WORDS[i] as string) : `Item ${i + 1}`;
      this.insert(this.make(this.newItem(name)), null);
    }
  }

  pick<T>(from: readonly T[]): T {
    return from[Math.floor(this.random() * from.length)] as T;
  }

  newItem(name: string): Item {
    return { id: this.next++, name, count: Math.floor(this.random() * 5) };
  }

  private makeHolder(): HTMLElement {
    const box = document.createElement("section");
    if (this.style.heading) box.append(Object.assign(document.createElement("h2"), { textContent: "Trees" }));
    const tag = this.style.shape === "table" ? "table" : this.style.shape === "list" || this.style.shape === "checks" ? "ul" : "div";
    const list = document.createElement(tag);
    box.append(list);
    const body = tag === "table" ? list.appendChild(document.createElement("tbody")) : list;
    this.top.append(box);
    return body;
  }

  make(item: Item): Row {
    const { shape, key, numbered, counter } = this.style;
    const tag = shape === "table" ? "tr" : shape === "list" || shape === "checks" ? "li" : "div";
    const el = document.createElement(tag);
    if (shape === "cards") el.className = "card";
    if (key !== "none") el.setAttribute(key, `row-${item.id}`);
    let inside: Node = el;
    if (shape === "shadow") inside = el.attachShadow({ mode: "open" });
    if (shape === "groups") inside = el.appendChild(document.createElement("div"));
    const cell = (text: string): HTMLElement => {
      const made = document.createElement(shape === "table" ? "td" : "span");
      made.textContent = text;
      inside.appendChild(made);
      inside.appendChild(document.createTextNode(" "));
      return made;
    };
    const number = numbered ? cell("") : null;
    const label = cell(item.name);
    const count = counter ? cell(`${item.count} left`) : null;
    const place = shape === "table" ? cell("") : inside;
    const buttons: HTMLElement[] = [];
    const row: Row = { item, el, label, number, count, buttons };
    for (const action of shape === "checks" ? ["pick"] : ["Edit", "Delete"]) {
      const button = document.createElement(shape === "links" ? "a" : shape === "checks" ? "input" : "button");
      if (button instanceof HTMLInputElement) {
        button.type = "checkbox";
        button.setAttribute("aria-label", "Chosen");
      } else {
        button.textContent = shape === "named" ? `${action} ${item.name}` : action;
      }
      if (button instanceof HTMLAnchorElement) button.href = "#";
      button.addEventListener("click", (event) => {
        event.preventDefault();
        log.push(`${row.item.id} ${action}`);
      });
      button.dataset["action"] = action;
      buttons.push(button);
      place.appendChild(button);
    }
    return row;
  }

  insert(row: Row, before: Row | null): void {
    this.holder.insertBefore(row.el, before?.el ?? null);
    this.rows.splice(before === null ? this.rows.length : this.rows.indexOf(before), 0, row);
    this.count();
  }

  remove(row: Row): void {
    row.el.remove();
    this.rows.splice(this.rows.indexOf(row), 1);
    this.count();
  }

  /** Puts an item into an old row, as a list without keys does. */
  fill(row: Row, item: Item): void {
    row.item = item;
    row.label.textContent = item.name;
    if (row.count !== null) row.count.textContent = `${item.count} left`;
    if (this.style.key !== "none") row.el.setAttribute(this.style.key, `row-${item.id}`);
    if (this.style.shape === "named") for (const button of row.buttons) button.textContent = `${button.dataset["action"]} ${item.name}`;
  }

  count(): void {
    this.rows.forEach((row, i) => {
      if (row.number !== null) row.number.textContent = `${i + 1}`;
    });
  }

  items(): Item[] {
    return this.rows.map((row) => row.item);
  }

  shuffled<T>(all: readonly T[]): T[] {
    const out = [...all];
    for (let i = out.length - 1; i > 0; i--) {
      const j = Math.floor(this.random() * (i + 1));
      [out[i], out[j]] = [out[j] as T, out[i] as T];
    }
    return out;
  }

  /** New nodes for these items; with `whole` a new list as well. */
  draw(items: readonly Item[], whole: boolean): void {
    const rows = items.map((item) => this.make(item));
    if (whole) {
      this.top.replaceChildren();
      this.holder = this.makeHolder();
    } else {
      this.holder.replaceChildren();
    }
    this.rows.length = 0;
    for (const row of rows) this.insert(row, null);
  }

  /** The items in the old nodes, in order; nodes are added and taken away at the end. */
  patch(items: readonly Item[]): void {
    items.forEach((item, i) => {
      const row = this.rows[i];
      if (row === undefined) this.insert(this.make(item), null);
      else this.fill(row, item);
    });
    while (this.rows.length > items.length) this.remove(this.rows[this.rows.length - 1] as Row);
    this.count();
  }
}

const CHANGES: Readonly<Record<string, (page: Page, target: Row) => void>> = {
  nothing: () => undefined,
  "insert look-alike": (page, target) => {
    if (page.rows.includes(target)) page.insert(page.make(page.newItem(target.item.name)), target);
  },
  "insert near look-alike": (page, target) => {
    if (page.rows.includes(target)) page.insert(page.make(page.newItem(`${target.item.name} (copy)`)), target);
  },
  "insert another": (page) => page.insert(page.make(page.newItem("Yew")), page.rows[0] ?? null),
  reorder: (page) => {
    for (const row of page.shuffled(page.rows)) {
      page.rows.splice(page.rows.indexOf(row), 1);
      page.insert(row, null);
    }
  },
  "re-render by key": (page) => page.draw(page.items(), page.random() < 0.5),
  "re-render by key, reordered": (page) => page.draw(page.shuffled(page.items()), page.random() < 0.5),
  "re-render by key, one more": (page) => page.draw([page.newItem("Yew"), ...page.items()], false),
  "re-render one row": (page, target) => {
    const row = page.rows.find((one) => one.item.id === target.item.id);
    if (row === undefined) return;
    const fresh = page.make(row.item);
    row.el.replaceWith(fresh.el);
    page.rows.splice(page.rows.indexOf(row), 1, fresh);
    page.count();
  },
  "re-render without keys": (page) => page.patch(page.shuffled(page.items())),
  "re-render without keys, one more": (page, target) => page.patch([page.newItem(page.random() < 0.5 ? target.item.name : "Yew"), ...page.items()]),
  "re-render without keys, first removed": (page) => page.patch(page.items().slice(1)),
  "next page without keys": (page) => page.patch(page.items().map((_, i) => page.newItem(`Shrub ${i}`))),
  "swap labels": (page, target) => {
    const other = page.pick(page.rows);
    if (other === undefined || other === target) return;
    const [mine, theirs] = [target.label.textContent, other.label.textContent];
    target.label.textContent = theirs;
    other.label.textContent = mine;
    if (page.style.shape === "named") {
      target.buttons.forEach((button, i) => {
        const before = button.textContent;
        button.textContent = other.buttons[i]?.textContent ?? "";
        if (other.buttons[i] !== undefined) other.buttons[i].textContent = before;
      });
    }
  },
  "swap button labels": (_page, target) => {
    const [a, b] = target.buttons;
    if (a === undefined || b === undefined) return;
    const before = a.textContent;
    a.textContent = b.textContent;
    b.textContent = before;
  },
  "detach row": (page, target) => {
    if (page.rows.includes(target)) page.remove(target);
  },
  "detach button": (_page, target) => target.buttons.forEach((button) => button.isConnected && button.remove()),
  "detach, look-alike stays": (page, target) => {
    if (!page.rows.includes(target)) return;
    page.insert(page.make(page.newItem(target.item.name)), target);
    page.remove(target);
  },
  "count up": (page, target) => {
    target.item.count++;
    for (const row of page.rows) if (row.count !== null && row.item.id === target.item.id) row.count.textContent = `${row.item.count} left`;
  },
  badge: (page, target) => {
    const row = page.rows.find((one) => one.item.id === target.item.id);
    row?.label.after(Object.assign(document.createElement("b"), { textContent: "New!" }));
  },
};

interface Look {
  readonly name: string;
  readonly text: string;
}

/** What a reader tells rows apart by. */
const lookOf = (row: Row): Look => ({ name: row.label.textContent ?? "", text: (row.label.getRootNode() instanceof ShadowRoot ? row.label.parentNode : row.el)?.textContent ?? "" });

/** Everything a row shows but its number, which every insertion changes. */
const marksOf = ({ el, label, count, buttons }: Row): string =>
  [el.id, el.dataset["id"], el.dataset["key"], label.textContent, count?.textContent, ...buttons.map((one) => one.textContent)].join("\n");

export interface FuzzReport {
  cases: number;
  clicked: number;
  wrong: string[];
  /** Another item in the same old node that looks exactly the same: nothing in the page tells them apart. */
  untellable: number;
  provable: number;
  hit: number;
  stale: number;
  /** By change: provable targets and those hit. */
  by: Record<string, [number, number]>;
  missed: string[];
}

/** Runs `count` cases from `seed` on; each seed is one page, its changes and one click. */
export function fuzzRefs(seed: number, count: number): FuzzReport {
  const report: FuzzReport = { cases: 0, clicked: 0, wrong: [], untellable: 0, provable: 0, hit: 0, stale: 0, by: {}, missed: [] };
  for (let one = seed; one < seed + count; one++) oneCase(one, report);
  document.body.replaceChildren();
  return report;
}

function oneCase(seed: number, report: FuzzReport): void {
  const random = randomOf(seed);
  const pick = <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)] as T;
  const top = document.createElement("main");
  document.body.replaceChildren(top);
  const style: Style = { shape: pick(SHAPES), key: pick(KEYS), numbered: random() < 0.4, counter: random() < 0.4, heading: random() < 0.5 };
  const page = new Page(random, style, top);
  begin(1, 0);
  onePass(() => observe("interactive", 200, 24_000, undefined, false));
  const target = pick(page.rows);
  const at = Math.floor(random() * target.buttons.length);
  const button = target.buttons[at] as HTMLElement;
  const wanted = `${target.item.id} ${button.dataset["action"]}`;
  const id = target.item.id;
  const ref = refOf(button, roleOf(button), labelOf(button));
  pin();

  const before = page.rows.map(lookOf);
  const then = new Set(page.rows.flatMap((row) => row.buttons));
  const marks = marksOf(target);
  const look = lookOf(target);
  const shown = button.textContent;
  const aloneThen = before.filter((other) => other.name === look.name).length === 1;
  const names = Object.keys(CHANGES);
  const changes: string[] = [];
  for (let more = 1 + Math.floor(random() * 2); more > 0; more--) {
    const name = pick(names);
    // A look-alike that stayed and is then drawn anew is, to anybody who looks, the item that left.
    const left = !page.rows.some((row) => row.item.id === id);
    if (left && name.startsWith("re-render") && page.rows.some((row) => row.item.name === look.name)) continue;
    changes.push(name);
    CHANGES[name]?.(page, target);
  }

  const row = page.rows.find((other) => other.item.id === id);
  const now = row?.buttons[at];
  const same = row !== undefined && now !== undefined && now.isConnected && row.label.textContent === look.name && now.textContent === shown;
  const aloneNow = page.rows.filter((other) => other.label.textContent === look.name).length === 1;
  // An old node that was filled with another item, in a list where looks decide, proves nothing.
  const kept = same && now === button;
  const replaced = same && now !== button && !then.has(now) && !button.isConnected && aloneThen && aloneNow && lookOf(row).text === look.text;
  const provable = kept || replaced;

  log = [];
  let result = "stale";
  try {
    const el = onePass(() => resolveRef(ref));
    syntheticClick(aim(el));
    result = log.join(",");
  } catch (error) {
    const code = (error as { shape?: { code: string } }).shape?.code;
    if (code !== "stale-ref") result = `failed ${code ?? String(error)}`;
  }
  const told = `${seed}: ${style.shape} ${style.key}${style.numbered ? " numbered" : ""}${style.counter ? " counter" : ""}: ${changes.join(" + ")}: ${result}`;
  report.cases++;
  if (result === "stale") report.stale++;
  else report.clicked++;
  const untold = button.isConnected && marksOf(target) === marks && result !== wanted && result !== "stale";
  if (untold) report.untellable++;
  else if (result !== "stale" && result !== wanted) report.wrong.push(`${told} instead of ${wanted}`);
  if (provable) {
    report.provable++;
    const hit = result === wanted;
    if (hit) report.hit++;
    else report.missed.push(told);
    for (const change of changes) {
      const entry = (report.by[change] ??= [0, 0]);
      entry[0]++;
      if (hit) entry[1]++;
    }
  }
}
