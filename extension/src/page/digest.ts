/**
 * The page version: a 64-bit FNV-1a digest of what the page says (design 8, progress).
 *
 * In: what an observation would tell, in reading order: text with its numbers blurred (clocks and counters are no new page),
 * role, name and states of elements, levels of headings. Out: values of fields, focus, scroll position, style, and structure
 * that shows nowhere. Equal pages give equal digests; nothing is cached across a change, because a stylesheet can show or
 * hide things without a mutation.
 */

import { isItem } from "./lines";
import { CONTROL_ROLES } from "./roles";
import { takeSnapshot } from "./snapshot";
import { stateWords } from "./states";

// Two 32-bit lanes with FNV-1a's prime for 32 bits and different offsets: 64 bits without BigInt.
const PRIME = 0x01000193;

/** The digest as 16 hex digits. */
export function pageVersion(): string {
  let a = 0x811c9dc5;
  let b = 0x6c62272e;
  const feed = (text: string, blurred: boolean): void => {
    let number = false;
    for (let i = 0; i < text.length; i++) {
      let code = text.charCodeAt(i);
      if (blurred && code >= 48 && code <= 57) {
        if (number) continue;
        number = true;
        code = 48;
      } else {
        number = false;
      }
      a = Math.imul(a ^ code, PRIME);
      b = Math.imul(b ^ (code + 1), PRIME) + code;
    }
    a = Math.imul(a ^ 0xff, PRIME);
    b = Math.imul(b ^ 0xfe, PRIME);
  };
  for (const line of takeSnapshot().lines) {
    feed(LEVELS[line.level] ?? "", false);
    for (const token of line.tokens) {
      if (!isItem(token)) {
        feed(token.trim(), true);
        continue;
      }
      feed(token.role, false);
      feed(token.name, token.role === "link" || !CONTROL_ROLES.has(token.role));
      if (CONTROL_ROLES.has(token.role)) for (const word of stateWords(token.el, token.role)) feed(word, false);
    }
  }
  return hex(a) + hex(b);
}

const LEVELS = ["/", "#1", "#2", "#3", "#4", "#5", "#6"];

const hex = (value: number): string => (value >>> 0).toString(16).padStart(8, "0");
