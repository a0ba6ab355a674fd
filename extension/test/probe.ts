/**
 * A bundle for tests only: lays the page runtime's reading of elements open to a test that evaluates it in an isolated
 * world. `node build.mjs --test` writes it to `build/test/probe.js`; nothing of the product contains it.
 */

import { isElement, onePass, tagOf } from "../src/page/dom";
import { nameOf } from "../src/page/names";
import { roleOf } from "../src/page/roles";
import { describeState } from "../src/page/states";
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

  /** Tag, role, name and state words of every element. */
  everything(): [string, string, string, string][] {
    return onePass(() => everyElement(opened).map((el) => [tagOf(el), roleOf(el), nameOf(el), describeState(el, roleOf(el))]));
  },

  fuzzRefs,
  captureAll,
  locateAll,
};

export type Probe = typeof probe;
(globalThis as { probe?: Probe }).probe = probe;
