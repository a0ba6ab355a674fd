/**
 * The page version: a 64-bit FNV-1a digest of what the page is made of (design 8, progress).
 *
 * In: tag, role, name and states of visible elements, and their text with numbers blurred (clocks and counters are no
 * new page). Out: values of fields, focus, scroll position, style. Equal pages give equal digests; nothing is cached
 * across a change, because a stylesheet can show or hide things without a mutation.
 */

import { data, eachChild, isConcealed, isElement, nodeType, rootElement, tagOf, visibility } from "./dom";
import { nameOf } from "./names";
import { CONTROL_ROLES, roleOf } from "./roles";
import { stateWords } from "./states";

const SKIPPED = new Set(["script", "style", "noscript", "template", "head"]);
// Two 32-bit lanes with FNV-1a's prime for 32 bits and different offsets: 64 bits without BigInt.
const PRIME = 0x01000193;

/** The digest as 16 hex digits. */
export function pageVersion(): string {
  let a = 0x811c9dc5;
  let b = 0x6c62272e;
  const feed = (text: string): void => {
    for (let i = 0; i < text.length; i++) {
      const code = text.charCodeAt(i);
      a = Math.imul(a ^ code, PRIME);
      b = Math.imul(b ^ (code + i), PRIME);
    }
    a = Math.imul(a ^ 0xff, PRIME);
    b = Math.imul(b ^ 0xfe, PRIME);
  };
  const visit = (el: Element): void => {
    const tag = tagOf(el);
    if (SKIPPED.has(tag) || isConcealed(el)) return;
    const seen = visibility(el);
    if (seen === "gone") return;
    feed(tag);
    if (seen === "shown") {
      const role = roleOf(el);
      if (role !== "") feed(role);
      if (CONTROL_ROLES.has(role)) {
        if (tag !== "a") feed(nameOf(el));
        for (const word of stateWords(el, role)) feed(word);
      }
    }
    eachChild(el, (node) => {
      if (nodeType(node) === 3) {
        if (seen === "shown") feedText(data(node), feed);
      } else if (isElement(node)) {
        visit(node);
      }
    });
    feed("/");
  };
  const root = rootElement(document);
  if (root !== null) visit(root);
  return hex(a) + hex(b);
}

function feedText(text: string, feed: (text: string) => void): void {
  const flat = text.replace(/\s+/g, " ").replace(/[0-9]+/g, "0");
  if (flat !== "" && flat !== " ") feed(flat);
}

const hex = (value: number): string => (value >>> 0).toString(16).padStart(8, "0");
