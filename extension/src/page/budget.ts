/** The time that reading a page in one go may take: a page that needs more is too large, and is told so. */

import { Fault } from "./fault";

const EVERY = 64; // elements between two looks at the clock

let end = Infinity;
let count = 0;

/** Runs `work`, which is synchronous; `spend` ends it with `too-large` after `ms`. */
export function withinBudget<T>(ms: number, work: () => T): T {
  end = performance.now() + ms;
  try {
    return work();
  } finally {
    end = Infinity;
  }
}

/** Called once an element that is looked at. */
export function spend(): void {
  if (++count % EVERY !== 0 || end === Infinity || performance.now() < end) return;
  throw new Fault("too-large", "The page is too large to be read within the deadline", { next: "browser_page_navigate" });
}
