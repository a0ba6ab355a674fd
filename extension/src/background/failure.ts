/**
 * Failures of commands, and Chrome's error texts turned into codes by their beginning (measured, not documented).
 *
 * Our sentences only: neither Chrome's text nor anything of the page is passed on.
 */

import type { PageError, ToolErrorCode } from "../wire";

export interface Advice {
  readonly refsValid?: boolean;
  readonly retryable?: boolean;
  readonly mayHaveEffect?: boolean;
  readonly nextTool?: string;
  readonly url?: string;
}

export class Failure extends Error {
  readonly code: ToolErrorCode;
  readonly advice: Advice;
  /** Raised before the page runtime did anything. */
  readonly untouched: boolean;

  constructor(code: ToolErrorCode, message: string, advice: Advice = {}, untouched = false) {
    super(message);
    this.code = code;
    this.advice = advice;
    this.untouched = untouched;
  }

  /** As it goes to the bridge; `effect`: something was already dispatched. */
  toWire(effect: boolean): PageError {
    return { code: this.code, message: this.message.slice(0, 300), mayHaveEffect: effect, ...this.advice };
  }
}

/** The memory saver took the page; the tab still stands in its window, and a reload brings it back. */
export const asleepFailure = (): Failure =>
  new Failure("page-asleep", "The tab sleeps; reload it to wake it", { refsValid: false, retryable: true, nextTool: "browser_page_navigate" });

const NAVIGATE = { refsValid: false, nextTool: "browser_page_navigate" } as const;

/** Beginning of Chrome's message, and what it means. The first that fits counts. */
const TEXTS: ReadonlyArray<readonly [string, () => Failure]> = [
  ["No tab with id", () => new Failure("no-tab", "The tab is gone", { refsValid: false, nextTool: "browser_tabs_list" })],
  ["No tab with given id", () => new Failure("no-tab", "The tab is gone", { refsValid: false, nextTool: "browser_tabs_list" })],
  ["Tabs cannot be edited right now", () => new Failure("timeout", "The browser is busy with its tabs", { retryable: true })],
  ["No frame with id", () => new Failure("stale-ref", "The frame is gone", { refsValid: false, retryable: true, nextTool: "browser_page_observe" })],
  ["No document with id", () => new Failure("stale-ref", "The document is gone", { refsValid: false, retryable: true, nextTool: "browser_page_observe" })],
  ["Frame with ID", () => new Failure("error-page", "The browser shows an error page", NAVIGATE)],
  ["Cannot access a chrome", () => new Failure("restricted-page", "The browser lets no extension into this page", NAVIGATE)],
  ["Cannot access contents of", () => new Failure("restricted-page", "The browser lets no extension into this page", NAVIGATE)],
  ["The extensions gallery", () => new Failure("restricted-page", "The browser lets no extension into this page", NAVIGATE)],
  ["Cannot attach to this target", () => new Failure("restricted-page", "The browser lets no extension into this page", NAVIGATE)],
  ["Cannot navigate to", () => new Failure("restricted-page", "The browser does not navigate there", NAVIGATE)],
  ["Another debugger", () => new Failure("restricted-page", "Another debugger holds this tab", { retryable: true })],
  ["Debugger is not attached", () => new Failure("timeout", "The debugger was taken off this tab", { retryable: true })],
  ["Detached while handling command", () => new Failure("timeout", "The debugger was taken off this tab", { retryable: true })],
  ["The tab was closed", () => new Failure("no-tab", "The tab is gone", { refsValid: false, nextTool: "browser_tabs_list" })],
  ["A listener indicated", () => left()],
  ["The message port closed", () => left()],
  ["Attempting to use a disconnected port", () => left()],
  ["The page keeping the extension port", () => left()],
  ["Cannot find a next page in history", () => new Failure("navigation-failed", "There is no such page in the tab's history")],
];

const left = (): Failure =>
  new Failure("stale-ref", "The page left while the command ran", { refsValid: false, retryable: true, nextTool: "browser_page_observe" });

/** Any thrown thing as a Failure. */
export function toFailure(error: unknown): Failure {
  if (error instanceof Failure) return error;
  const text = textOf(error);
  for (const [start, make] of TEXTS) if (text.startsWith(start)) return make();
  return new Failure("internal", "The extension failed");
}

export const textOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** The page runtime is not in that document. */
export const isNotInjected = (error: unknown): boolean => textOf(error).startsWith("Could not establish connection");

/** The document went away, or into the back-forward cache, while it was answering. */
export function isCutOff(error: unknown): boolean {
  const text = textOf(error);
  return (
    text.startsWith("A listener indicated an asynchronous response") ||
    text.startsWith("The message port closed") ||
    text.startsWith("Attempting to use a disconnected port") ||
    text.startsWith("The page keeping the extension port is moved") ||
    text.startsWith("No tab with id") ||
    text.startsWith("No document with id") ||
    isNotInjected(error)
  );
}
