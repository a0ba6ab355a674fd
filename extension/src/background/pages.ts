/**
 * Calls into the page runtime of one frame: inject on demand, ask, and understand why there is no answer.
 *
 * Once injected a call is one message each way. An injection is tried only after Chrome said that nobody listens, and never on a
 * page whose address no extension may touch (some of those hang instead of failing). Every call has a time limit.
 */

import type { FaultShape } from "../page/fault";
import { type Context, left, within } from "./command";
import { crashedFailure, type Debugger } from "./attachment";
import { Channels, type Twofold } from "./channels";
import { asleepFailure, Failure, isCutOff, isNotInjected, textOf, toFailure } from "./failure";
import { type FrameInfo, FrameList } from "./frames";
import type { Session } from "./session";

export interface Answer<T> {
  readonly ok: T;
  readonly url: string;
  readonly title: string;
}

type Ask = (documentId: string | undefined, message: object) => Promise<unknown>;

const WORK_SPARE_MS = 1_000; // before its time is up the page runtime itself says that a page is too large
const DIAGNOSE_MS = 600; // kept free at the end of a command to find out why a page does not answer
/** Calls that change nothing: if the document leaves under them, the next one is asked. */
const READS = new Set(["observe", "find", "extract", "has", "state", "box"]);
const PEEK_MS = 1_500; // what a child frame that answers at all may take to be read

export class Pages {
  readonly #session: Session;
  readonly #debugger: Debugger;
  readonly #channels = new Channels();
  readonly #frames: FrameList;

  constructor(session: Session, dbg: Debugger) {
    this.#session = session;
    this.#debugger = dbg;
    this.#frames = new FrameList(session);
  }

  /** Runs `op` of the page runtime in frame number `frame` (0: main). Throws Failure. `inject: false` only asks. */
  async call<T>(tab: number, frame: number, op: string, args: object, context: Context, inject = true): Promise<Answer<T>> {
    const ask = (documentId: string | undefined, message: object): Promise<unknown> => this.#channels.ask(tab, documentId, message);
    return await this.#exchange<T>(tab, frame, op, args, context, inject, ask);
  }

  /** A call whose page says at once what it found and later, unasked, what followed. A failure at once is the end of it. */
  async callTwofold<T, L>(tab: number, frame: number, op: string, args: object, context: Context): Promise<{ first: Answer<T>; later: Promise<Answer<L>> }> {
    let twofold: Twofold | null = null;
    const ask = async (documentId: string | undefined, message: object): Promise<unknown> => {
      twofold = this.#channels.askTwofold(tab, documentId, message);
      return await twofold.first;
    };
    const asked = (): Twofold | null => twofold;
    try {
      const first = await this.#exchange<T>(tab, frame, op, args, context, true, ask);
      const later = this.#answered<L>(tab, frame, asked()?.later ?? Promise.resolve(), left(context, DIAGNOSE_MS), context);
      later.catch(() => undefined); // an input that fails is told before anybody waits for this
      return { first, later };
    } catch (error) {
      asked()?.forget();
      throw error;
    }
  }

  async #exchange<T>(tab: number, frame: number, op: string, args: object, context: Context, inject: boolean, ask: Ask): Promise<Answer<T>> {
    if (this.#debugger.crashed(tab)) throw crashedFailure(true);
    const documentId = frame === 0 ? undefined : this.#session.documentOf(tab, frame);
    if (frame !== 0 && documentId === undefined) throw staleFrame();
    const state = this.#session.take(tab);
    const limit = left(context, DIAGNOSE_MS);
    const message = { op, args, frame, first: frame === 0 ? state.first : 1, id: context.id, limit: Math.max(limit / 2, limit - WORK_SPARE_MS) };
    const send = async (): Promise<unknown> => {
      try {
        return await ask(documentId, message);
      } catch (error) {
        if (!inject || !(isNotInjected(error) || (READS.has(op) && isCutOff(error)))) throw error;
        await this.#inject(tab, documentId, "page.js").catch((refused: unknown) => {
          const { code, message, advice } = toFailure(refused);
          throw new Failure(code, message, advice, true); // nothing of the call has run
        });
        return await ask(documentId, message);
      }
    };
    return await this.#answered<T>(tab, frame, send(), limit, context);
  }

  /** An answer of the page's, read; within `limit` ms. */
  async #answered<T>(tab: number, frame: number, sent: Promise<unknown>, limit: number, context: Context): Promise<Answer<T>> {
    let late = false;
    const text = await within(sent, limit, () => {
      late = true;
      return new Failure("timeout", "The page did not answer");
    }).catch(async (error: unknown) => {
      throw late ? await this.#silent(tab, context) : error;
    });
    if (typeof text !== "string") throw new Failure("internal", "The page runtime gave no answer");
    const answer = JSON.parse(text) as { ok?: T; fault?: FaultShape; url: string; title: string; next: number };
    if (frame === 0) this.#session.numbered(tab, answer.next);
    if (answer.fault !== undefined) throw ofPage(answer.fault, answer.url);
    return { ok: answer.ok as T, url: answer.url, title: answer.title };
  }

  /** Child frames that can be reached, in the browser's order, numbered. */
  children(tab: number): Promise<FrameInfo[]> {
    return this.#frames.list(tab);
  }

  /** A child frame's answer to a question that changes nothing, or null: no frame holds up the page around it. */
  async peek<T>(tab: number, frame: FrameInfo, op: string, args: object, context: Context): Promise<Answer<T> | null> {
    if (frame.silent) return null;
    const soon = { ...context, deadline: Math.min(context.deadline, performance.now() + PEEK_MS) };
    return await this.call<T>(tab, frame.number, op, args, soon).catch(() => null); // a frame that can't be read hides nothing of the page
  }

  /** Loads a part of the page runtime that is asked for rarely, unless the frame has it. Throws Failure. */
  async need(tab: number, frame: number, part: "article", context: Context): Promise<void> {
    const { ok } = await this.call<{ here: boolean }>(tab, frame, "has", { part }, context);
    if (!ok.here) await this.#inject(tab, frame === 0 ? undefined : this.#session.documentOf(tab, frame), `${part}.js`);
  }

  async #inject(tab: number, documentId: string | undefined, file: string): Promise<void> {
    const { url = "", discarded } = await chrome.tabs.get(tab);
    if (discarded) throw asleepFailure();
    if (documentId === undefined) {
      if (/^(?:view-source|chrome|chrome-search|devtools|edge|about):/.test(url)) {
        throw new Failure("restricted-page", "The browser lets no extension into this page", { refsValid: false, nextTool: "browser_page_navigate" });
      }
    }
    const target = documentId === undefined ? { tabId: tab, frameIds: [0] } : { tabId: tab, documentIds: [documentId] };
    try {
      await chrome.scripting.executeScript({ target, files: [file], world: "ISOLATED", injectImmediately: true });
    } catch (error) {
      // The text for a page that crashed; for a page that may not be touched it goes on with "url".
      throw textOf(error).startsWith("Cannot access contents of the page") ? crashedFailure() : error;
    }
  }

  /** Why a page that exists does not answer. */
  async #silent(tab: number, context: Context): Promise<Failure> {
    if (this.#debugger.crashed(tab)) return crashedFailure();
    if (await this.#debugger.waitsInDialog(tab, left(context, 200))) {
      return new Failure("blocked-by-dialog", "The page waits in a dialog", { retryable: true, nextTool: "browser_tabs_close" });
    }
    return new Failure("timeout", "The page's script does not let anything else run", { retryable: true, nextTool: "browser_page_observe" });
  }
}

const staleFrame = (): Failure =>
  new Failure("stale-ref", "The frame of this ref is gone", { refsValid: false, retryable: true, nextTool: "browser_page_observe" });

function ofPage(fault: FaultShape, url: string): Failure {
  const advice = {
    url,
    ...(fault.refsValid === undefined ? {} : { refsValid: fault.refsValid }),
    ...(fault.retryable === undefined ? {} : { retryable: fault.retryable }),
    ...(fault.next === undefined ? {} : { nextTool: fault.next }),
  };
  return new Failure(fault.code, fault.message, advice, true);
}
