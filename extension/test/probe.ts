/**
 * A bundle for tests only: lays the page runtime's reading of elements open to a test that evaluates it in an isolated
 * world. `node build.mjs --test` writes it to `build/test/probe.js`; nothing of the product contains it.
 */

import { isElement, isShown, onePass, tagOf, visibility } from "../src/page/dom";
import { nameOf } from "../src/page/names";
import { headingLevel, roleOf } from "../src/page/roles";
import { describeState, stateWords, treeLevel } from "../src/page/states";
import { captureAll, locateAll } from "./locators_tried";
import { fuzzRefs } from "./refs_fuzz";

/** All elements of the document in tree order, shadow content before light children; frames are not entered. */
function everyElement(reach: (el: Element) => ShadowRoot | null): Element[] {
  const found: Element[] = [];
  const visit = (node: Node): void => {
    if (isElement(node)) {
      found.push(node);
      const shadow = reach(node);
      if (shadow !== null) for (let child = shadow.firstChild; child !== null; child = child.nextSibling) visit(child);
    }
    for (let child = node.firstChild; child !== null; child = child.nextSibling) visit(child);
  };
  visit(document.documentElement);
  return found;
}

const opened = (el: Element): ShadowRoot | null => el.shadowRoot ?? globalThis.chrome?.dom?.openOrClosedShadowRoot?.(el as HTMLElement) ?? null;

interface Said {
  readonly tag: string;
  readonly role: string;
  readonly name: string;
  readonly states: string[];
  /** All that is printed after the name. */
  readonly line: string;
  readonly seen: "shown" | "unseen" | "gone" | "concealed";
}

const probe = {
  /** Expected and computed name (and role, where one is expected) of each element that a test page marks. */
  expected(): { test: string; label: string | null; role: string | null; gotLabel: string; gotRole: string }[] {
    return onePass(() =>
      everyElement(opened)
        .filter((el) => el.hasAttribute("data-expectedlabel") || el.hasAttribute("data-expectedrole"))
        .map((el) => ({
          test: el.getAttribute("data-testname") ?? "",
          label: el.getAttribute("data-expectedlabel"),
          role: el.getAttribute("data-expectedrole"),
          gotLabel: nameOf(el),
          gotRole: roleOf(el),
        })),
    );
  },

  /** The level of each heading and entry of a tree that carries the class `case`. */
  levels(): number[] {
    return everyElement(opened)
      .filter((el) => el.classList.contains("case"))
      .map((el) => (roleOf(el) === "heading" ? headingLevel(el) : treeLevel(el)));
  },

  /** What the runtime says of every element, in tree order. */
  everything(): Said[] {
    return onePass(() =>
      everyElement(opened).map((el) => {
        const role = roleOf(el);
        const seen = visibility(el);
        return {
          tag: tagOf(el),
          role,
          name: nameOf(el),
          states: stateWords(el, role),
          line: describeState(el, role).trim(),
          seen: seen === "shown" && !isShown(el) ? "concealed" : seen,
        };
      }),
    );
  },

  fuzzRefs,
  captureAll,
  locateAll,
};

export type Probe = typeof probe;
(globalThis as { probe?: Probe }).probe = probe;
