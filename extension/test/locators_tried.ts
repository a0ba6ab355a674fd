/** Locators of every interactive element of a page, and what becomes of them after a reload; beside those of `@medv/finder`. */

import { finder } from "@medv/finder";
import { isConcealed, onePass, visibility } from "../src/page/dom";
import { capture, locate } from "../src/page/locator";
import { isClickable, labelOf } from "../src/page/refs";
import { CONTROL_ROLES, roleOf } from "../src/page/roles";
import type { Locator } from "../src/wire";

/** Visible interactive elements in tree order, through open shadow roots. */
function interactive(): Element[] {
  const found: Element[] = [];
  const visit = (el: Element): void => {
    if (isConcealed(el) || visibility(el) === "gone") return;
    if (visibility(el) === "shown" && (CONTROL_ROLES.has(roleOf(el)) || isClickable(el))) found.push(el);
    for (const child of el.shadowRoot?.children ?? []) visit(child);
    for (const child of el.children) visit(child);
  };
  onePass(() => visit(document.documentElement));
  return found;
}

const sayingOf = (el: Element): string => `${roleOf(el)} ${labelOf(el)}`;

export interface Tried {
  /** What says the element; after a reload the same must be there. */
  readonly said: string;
  readonly locator: Locator | null;
  /** Each candidate was judged here a second time, by the page's own functions. */
  readonly unique: boolean;
  /** Characters of the first candidate; of the first in CSS; of finder's selector (0: it gave up). */
  readonly first: number;
  readonly css: number;
  readonly finder: number;
}

export function captureAll(withFinder: boolean): Tried[] {
  return interactive().map((el) => {
    let locator: Locator | null = null;
    try {
      locator = onePass(() => capture(el));
    } catch {
      // told by `locator: null`
    }
    const [first] = locator?.candidates ?? [];
    const css = locator?.candidates.find((one) => one.css !== undefined)?.css ?? "";
    return {
      said: sayingOf(el),
      locator,
      unique: locator !== null && isUnique(locator, el),
      first: (first?.css ?? first?.xpath ?? "").length,
      css: css.length,
      finder: withFinder && el.getRootNode() === document ? found(el) : 0,
    };
  });
}

function found(el: Element): number {
  try {
    return finder(el, { timeoutMs: 300 }).length;
  } catch {
    return 0; // it throws when its time is up
  }
}

function isUnique(locator: Locator, el: Element): boolean {
  const root = el.getRootNode() as Document | ShadowRoot;
  return locator.candidates.every((one) => {
    if (one.css !== undefined) {
      const all = root.querySelectorAll(one.css);
      if (all.length !== 1 || all[0] !== el) return false;
    }
    if (one.xpath === undefined) return true;
    const all = document.evaluate(one.xpath, document, null, XPathResult.ORDERED_NODE_SNAPSHOT_TYPE, null);
    return all.snapshotLength === 1 && all.snapshotItem(0) === el;
  });
}

/** For each locator: "hit", "lost", or what it found instead; `-`: the element is not in this load of the page. */
export function locateAll(tried: readonly { said: string; locator: Locator }[]): string[] {
  const now = interactive();
  const bySaying = new Map<string, Element[]>();
  for (const el of now) bySaying.set(sayingOf(el), [...(bySaying.get(sayingOf(el)) ?? []), el]);
  const seen = new Map<string, number>();
  return tried.map(({ said, locator }) => {
    const index = seen.get(said) ?? 0;
    seen.set(said, index + 1);
    const wanted = bySaying.get(said)?.[index];
    if (wanted === undefined) return "-";
    try {
      const el = onePass(() => locate(locator));
      return el === wanted ? "hit" : `other: ${sayingOf(el)}`;
    } catch {
      return "lost";
    }
  });
}
