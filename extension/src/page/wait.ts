/** `browser_page_wait` inside one document: conditions looked at after mutations and ten times a second, up to a ceiling. */

import { isConnected, isShown, collapse, rootElement, readyState, titleOf } from "./dom";
import { Fault } from "./fault";
import { matching, resolveRef, type Pointer } from "./refs";
import { takeSnapshot } from "./snapshot";

const LOOK_MS = 100; // for what changes without a mutation: style sheets, animations
const IDLE_MS = 500; // no mutation for this long, with the document loaded, is idle

export interface WaitFor extends Pointer {
  readonly until: "idle" | "text" | "gone" | "visible" | "hidden";
  readonly text?: string | undefined;
  readonly timeout: number;
}

/** Resolves when the condition holds. Throws `timeout`. `stopped` ends it early (the command was cancelled). */
export async function waitFor(args: WaitFor, stopped: () => boolean): Promise<string> {
  const start = performance.now();
  let last = start;
  let dirty = true;
  const observer = new MutationObserver(() => {
    last = performance.now();
    dirty = true;
  });
  observer.observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
  let looked = 0;
  try {
    for (;;) {
      const now = performance.now();
      if (stopped()) throw new Fault("cancelled", "The wait was cancelled");
      if (dirty || now - looked >= 5 * LOOK_MS || args.until === "idle") {
        dirty = false;
        looked = now;
        if (args.until === "idle" ? readyState(document) === "complete" && now - last >= IDLE_MS : holds(args)) {
          return `Condition met after ${Math.round(now - start)} ms`;
        }
      }
      const left = args.timeout - (performance.now() - start);
      if (left <= 0) throw new Fault("timeout", `The condition did not come true within ${args.timeout} ms`, { retryable: true, next: "browser_page_observe" });
      await new Promise((done) => setTimeout(done, Math.min(LOOK_MS, left)));
    }
  } finally {
    observer.disconnect();
  }
}

function holds(args: WaitFor): boolean {
  switch (args.until) {
    case "text":
      return pageHolds(args.text ?? "");
    case "gone":
      return !pageHolds(args.text ?? "");
    case "visible":
      return found(args);
    case "hidden":
      return !found(args);
    case "idle":
      return false;
  }
}

function found(args: Pointer): boolean {
  if (args.ref !== undefined) {
    try {
      const el = resolveRef(args.ref);
      return isConnected(el) && isShown(el);
    } catch (error) {
      if (error instanceof Fault && error.shape.code === "stale-ref") return false; // gone is hidden
      throw error;
    }
  }
  return args.target !== undefined && matching(args.target).length >= (args.target.nth ?? 1);
}

/** Whether visible text or an accessible name holds `wanted`, case ignored. */
function pageHolds(wanted: string): boolean {
  const needle = collapse(wanted).toLowerCase();
  const root = rootElement(document);
  if (root === null) return false;
  if (collapse(titleOf(document)).toLowerCase().includes(needle)) return true;
  return takeSnapshot().lines.some((line) =>
    collapse(line.tokens.map((token) => (typeof token === "string" ? token : ` ${token.name} `)).join(""))
      .toLowerCase()
      .includes(needle),
  );
}
