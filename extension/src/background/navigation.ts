/**
 * What main frames do, told by `chrome.webNavigation`, and waiting for it.
 *
 * Every tab's newest navigation is kept, so that a load that begins between `tabs.create` and the first look is not
 * missed. A watch sees only what happened after it was made.
 */

import { type Context, left } from "./command";

interface Load {
  committed: boolean;
  /** When its document was parsed (`performance.now()`), or null: what is missing then are pictures, frames and the like. */
  parsed: number | null;
  completed: boolean;
  /** `net::ERR_...`, or "". */
  error: string;
  documentId: string;
}

interface TabNavigation {
  starts: number;
  load: Load | null;
  /** The document that was there when the newest load began. */
  before: string;
  sameDocument: number;
  opened: number[];
  closed: boolean;
}

const fresh = (): TabNavigation => ({ starts: 0, load: null, before: "", sameDocument: 0, opened: [], closed: false });

export interface NavigationEvents {
  committed(tab: number, url: string): void;
  /** `tab` opened `created`. */
  opened(tab: number, created: number): void;
}

const POLL_MS = 250; // pages restored from the back-forward cache may send no "completed"
const PULSE_MS = 500; // most pages are loaded before anything is asked
const STUCK_MS = 9_000; // a page that lets nothing run for so long answers no tool within its 10 s either
/** A parsed page waits no longer for the rest: a frame or picture that never ends must hold up nothing, and it can be read. */
const REST_MS = 4_000;
const ABORT_GRACE_MS = 300; // a load replaced by another one ends with ERR_ABORTED before that one begins

export class Navigations {
  readonly #tabs = new Map<number, TabNavigation>();
  readonly #waiters = new Map<number, Set<() => void>>();

  constructor(events: NavigationEvents) {
    const nav = chrome.webNavigation;
    nav.onBeforeNavigate.addListener((d) => {
      if (d.frameId !== 0) return;
      const tab = this.#of(d.tabId);
      tab.starts++;
      tab.before = tab.load?.documentId || tab.before;
      tab.load = { committed: false, parsed: null, completed: false, error: "", documentId: "" };
      this.#notify(d.tabId);
    });
    nav.onCommitted.addListener((d) => {
      if (d.frameId !== 0) return;
      const tab = this.#of(d.tabId);
      tab.load ??= { committed: false, parsed: null, completed: false, error: "", documentId: "" };
      if (tab.load.error === "") {
        tab.load.committed = true;
        tab.load.documentId = d.documentId;
      }
      events.committed(d.tabId, d.url);
      this.#notify(d.tabId);
    });
    nav.onDOMContentLoaded.addListener((d) => {
      if (d.frameId !== 0) return;
      const { load } = this.#of(d.tabId);
      if (load !== null && load.committed && load.documentId === d.documentId) load.parsed = performance.now();
      this.#notify(d.tabId);
    });
    nav.onCompleted.addListener((d) => {
      if (d.frameId !== 0) return;
      const { load } = this.#of(d.tabId);
      if (load !== null && load.committed && load.documentId === d.documentId) load.completed = true;
      this.#notify(d.tabId);
    });
    nav.onErrorOccurred.addListener((d) => {
      if (d.frameId !== 0) return;
      const { load, before } = this.#of(d.tabId);
      // A page that is left before it was complete ends with an error of its own, after the next one has begun.
      if (load !== null && (load.committed || d.documentId !== before)) load.error = d.error;
      this.#notify(d.tabId);
    });
    const inside = (d: { tabId: number; frameId: number }): void => {
      if (d.frameId !== 0) return;
      this.#of(d.tabId).sameDocument++;
      this.#notify(d.tabId);
    };
    nav.onHistoryStateUpdated.addListener(inside);
    nav.onReferenceFragmentUpdated.addListener(inside);
    const opened = (source: number, created: number): void => {
      const tab = this.#of(source);
      if (tab.opened.includes(created)) return;
      tab.opened.push(created);
      if (tab.opened.length > 100) tab.opened.shift(); // only the newest are looked at
      events.opened(source, created);
      this.#notify(source);
    };
    // `openerTabId` is no answer: it names the tab that was in front, also for tabs that the user opens (seen).
    nav.onCreatedNavigationTarget.addListener((d) => opened(d.sourceTabId, d.tabId));
    chrome.tabs.onRemoved.addListener((tab) => {
      this.#of(tab).closed = true;
      this.#notify(tab);
      this.#tabs.delete(tab);
    });
  }

  /** Watches from now on; `all`: from the tab's beginning. */
  watch(tab: number, all = false): Watch {
    const state = this.#of(tab);
    return new Watch(this, tab, state, all ? 0 : state.starts, all ? 0 : state.sameDocument, [...state.opened]);
  }

  /** Resolves at the tab's next event, or after `ms`. */
  next(tab: number, ms: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      let waiters = this.#waiters.get(tab);
      if (waiters === undefined) this.#waiters.set(tab, (waiters = new Set()));
      const own = waiters;
      const done = (): void => {
        clearTimeout(timer);
        own.delete(done);
        signal.removeEventListener("abort", done);
        resolve();
      };
      const timer = setTimeout(done, ms);
      own.add(done);
      signal.addEventListener("abort", done);
    });
  }

  #of(tab: number): TabNavigation {
    let state = this.#tabs.get(tab);
    if (state === undefined) this.#tabs.set(tab, (state = fresh()));
    return state;
  }

  #notify(tab: number): void {
    for (const done of [...(this.#waiters.get(tab) ?? [])]) done();
    if (this.#waiters.get(tab)?.size === 0) this.#waiters.delete(tab);
  }
}

export type LoadEnd = "completed" | "same-document" | "loading" | "stuck" | "nothing" | "closed" | { readonly error: string };

export class Watch {
  readonly #all: Navigations;
  readonly #tab: number;
  readonly #state: TabNavigation;
  readonly #starts: number;
  readonly #same: number;
  readonly #opened: readonly number[];

  constructor(all: Navigations, tab: number, state: TabNavigation, starts: number, same: number, opened: readonly number[]) {
    this.#all = all;
    this.#tab = tab;
    this.#state = state;
    this.#starts = starts;
    this.#same = same;
    this.#opened = opened;
  }

  /** A navigation to another document began. */
  get started(): boolean {
    return this.#state.starts > this.#starts;
  }

  get sameDocument(): boolean {
    return this.#state.sameDocument > this.#same;
  }

  get closed(): boolean {
    return this.#state.closed;
  }

  get committed(): boolean {
    return this.started && this.#state.load?.committed === true;
  }

  /** The newest tab this one opened. */
  get newTab(): number | undefined {
    return this.#state.opened.filter((tab) => !this.#opened.includes(tab)).at(-1);
  }

  /** Waits until a navigation has begun, `ms` at most. */
  async begun(ms: number, context: Context): Promise<boolean> {
    const end = performance.now() + Math.min(ms, left(context));
    while (!this.started && !this.sameDocument && !this.closed && !context.signal.aborted) {
      const rest = end - performance.now();
      if (rest <= 0) return false;
      await this.#all.next(this.#tab, rest, context.signal);
    }
    return this.started || this.sameDocument;
  }

  /** Waits for the load's end, as long as the command's deadline lets it; `inside`: a same-document navigation will do. */
  async loaded(context: Context, inside: boolean, spare = 500): Promise<LoadEnd> {
    let abortedAt: number | null = null;
    const pulse = new Pulse(this.#tab);
    for (;;) {
      if (this.closed) return "closed";
      const load = this.started ? this.#state.load : null;
      if (load?.completed === true) return "completed";
      if (load !== null && load.error !== "") {
        if (load.error !== "net::ERR_ABORTED") return { error: load.error };
        abortedAt ??= performance.now();
        // Given up without another page coming: answered by 204, by a download, or stopped by the page; the old one stays.
        if (performance.now() - abortedAt >= ABORT_GRACE_MS) return inside && !load.committed ? "nothing" : { error: load.error };
      } else {
        abortedAt = null;
      }
      if (inside && !this.started && this.sameDocument) return "same-document";
      if (load?.committed === true && load.error === "") {
        if (pulse.silent(load.documentId, performance.now())) return "stuck";
        if (load.parsed !== null && performance.now() - load.parsed >= REST_MS && pulse.answering) return "loading";
      }
      const rest = left(context, spare);
      if (rest <= 0 || context.signal.aborted) return this.committed ? "loading" : "nothing";
      await this.#all.next(this.#tab, Math.min(rest, abortedAt === null ? POLL_MS : ABORT_GRACE_MS), context.signal);
      if (this.committed && this.#state.load?.completed !== true) {
        const tab = await chrome.tabs.get(this.#tab).catch(() => null); // closed: said above
        if (tab?.status === "complete" && this.#state.load?.committed === true && this.#state.load.error === "") return "completed";
      }
    }
  }
}

/** Whether the script of a page that loads lets anything else run: asked again once answered, never twice at a time. */
class Pulse {
  readonly #tab: number;
  #documentId = "";
  /** When the question was put that has no answer yet. */
  #asked: number | null = null;
  /** When the document last answered, or was first looked at. */
  #heard = 0;

  constructor(tab: number) {
    this.#tab = tab;
  }

  /** Whether the last question was answered. */
  get answering(): boolean {
    return this.#asked === null;
  }

  silent(documentId: string, now: number): boolean {
    if (documentId !== this.#documentId) {
      this.#documentId = documentId;
      this.#asked = null;
      this.#heard = now;
    }
    if (this.#asked !== null) return now - this.#asked >= STUCK_MS;
    if (now - this.#heard < PULSE_MS) return false;
    this.#asked = now;
    const answered = (): void => {
      if (documentId !== this.#documentId) return;
      this.#asked = null;
      this.#heard = performance.now();
    };
    // A document that may not be asked, or that has left, keeps nobody waiting.
    chrome.scripting.executeScript({ target: { tabId: this.#tab, documentIds: [documentId] }, func: () => true, injectImmediately: true }).then(answered, answered);
    return false;
  }
}
