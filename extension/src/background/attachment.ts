/**
 * One debugger attachment a tab, shared by all who need it and counted by name.
 *
 * Holders are words ("input", "screenshot"); the attachment goes when the last one does. While attached, dialogs are
 * dismissed by rule (`beforeunload` may leave, everything else gets "no"), crashes are noticed and requests counted.
 * After a restart of the service worker the attachment itself has survived: it is found again by `recover`.
 */

import { Failure, textOf } from "./failure";
import type { Session } from "./session";

export interface Watcher {
  /** The user pressed Cancel in Chrome's bar. */
  cancelled(tab: number): void;
  detached(tab: number): void;
  crashed(tab: number): void;
}

const PROTOCOL = "1.3";
const TOLD_MS = 5_000; // a download's second announcement comes within this
/** Bytes of bodies Chrome keeps for us: none are read here. */
const NO_BODIES = { maxTotalBufferSize: 1, maxResourceBufferSize: 1 };
/** Requests that stay open by design say nothing about a page being busy. */
const LONG_LIVED = new Set(["WebSocket", "EventSource", "Ping", "Preflight"]);

/**
 * A tab in the background draws nothing: its first picture takes seconds, `requestAnimationFrame` stands still, and
 * after each click its own tasks are kept back for 50 ms (all measured). A screencast makes it draw while it stays where
 * it is. Its frames are never acknowledged, so no more than the first two are ever encoded.
 */
const DRAWING = { format: "jpeg", quality: 1, maxWidth: 16, maxHeight: 16 };

interface State {
  ready: Promise<void>;
  /** Requests under way, by id: when they began (`performance.now()`). */
  requests: Map<string, number>;
}

export class Debugger {
  readonly #tabs = new Map<number, State>();
  readonly #dialogs = new Map<number, string>();
  readonly #downloads = new Set<number>();
  /** Tabs whose page told of a download before the debugger did: until when the debugger's word is the same one's. */
  readonly #told = new Map<number, number>();
  readonly #drags = new Map<number, (data: unknown) => void>();
  readonly #crashed = new Set<number>();
  /** What ends the preparation of a tab that turns out to have crashed: most of its commands would get no answer. */
  readonly #dying = new Map<number, () => void>();
  readonly #session: Session;
  readonly #watcher: Watcher;

  constructor(session: Session, watcher: Watcher) {
    this.#session = session;
    this.#watcher = watcher;
    chrome.debugger.onEvent.addListener((source, method, params) => {
      if (source.tabId !== undefined) this.#event(source.tabId, method, (params ?? {}) as Record<string, unknown>);
    });
    chrome.debugger.onDetach.addListener((source, reason) => {
      if (source.tabId === undefined) return;
      const tab = source.tabId;
      this.#tabs.delete(tab);
      void this.#session.load().then(() => {
        if (!this.#session.controlled(tab)) return;
        this.#session.take(tab).holders = [];
        this.#session.save();
        if (reason === "canceled_by_user") this.#watcher.cancelled(tab);
        else this.#watcher.detached(tab);
      });
    });
  }

  attached(tab: number): boolean {
    return this.#tabs.has(tab);
  }

  crashed(tab: number): boolean {
    return this.#crashed.has(tab);
  }

  /** Whether a request that began at `since` or later is under way: older ones are long polls. */
  busy(tab: number, since: number): boolean {
    for (const began of this.#tabs.get(tab)?.requests.values() ?? []) if (began >= since) return true;
    return false;
  }

  /** Kind of the last dialog that was dismissed since this was last asked; "" if none. */
  takeDialog(tab: number): string {
    const kind = this.#dialogs.get(tab) ?? "";
    this.#dialogs.delete(tab);
    return kind;
  }

  /** Whether a download has begun since this was last asked. `told`: the page itself says that one has. */
  takeDownload(tab: number, told = false): boolean {
    const seen = this.#downloads.delete(tab);
    if (told && !seen && this.attached(tab)) this.#told.set(tab, performance.now() + TOLD_MS);
    return seen || told;
  }

  /** From now on Chrome's own drags are kept from the system; gives, as `begun`, the data of the next. */
  async interceptDrag(tab: number): Promise<{ readonly begun: Promise<unknown> }> {
    const begun = new Promise<unknown>((done) => this.#drags.set(tab, done));
    await this.send(tab, "Input.setInterceptDrags", { enabled: true });
    return { begun };
  }

  /** Finds attachments that an earlier service worker of ours made. */
  async recover(): Promise<void> {
    await this.#session.load();
    const held = this.#session.list().filter((tab) => this.#session.take(tab).holders.length > 0);
    if (held.length === 0) return;
    const targets = await chrome.debugger.getTargets();
    const attached = new Set(targets.filter((target) => target.attached).map((target) => target.tabId));
    for (const tab of held) {
      if (attached.has(tab)) {
        this.#tabs.set(tab, { ready: this.#prepare(tab), requests: new Map() });
        this.#tabs.get(tab)?.ready.catch(() => this.#tabs.delete(tab)); // not ours after all: the next hold attaches
      } else {
        this.#session.take(tab).holders = [];
        this.#session.save();
      }
    }
  }

  /** Attaches if nobody has, and notes the holder. Throws what Chrome says. */
  async hold(tab: number, holder: string): Promise<void> {
    let state = this.#tabs.get(tab);
    if (state === undefined) {
      state = { ready: this.#attach(tab), requests: new Map() };
      this.#tabs.set(tab, state);
      state.ready.catch(() => this.#tabs.delete(tab)); // the caller gets the reason by awaiting
    }
    await state.ready;
    const { holders } = this.#session.take(tab);
    if (!holders.includes(holder)) {
      holders.push(holder);
      this.#session.save();
    }
  }

  /** Drops a holder; the last one detaches. */
  async release(tab: number, holder: string): Promise<void> {
    if (!this.#session.controlled(tab)) return;
    const state = this.#session.take(tab);
    state.holders = state.holders.filter((name) => name !== holder);
    this.#session.save();
    if (state.holders.length === 0) await this.#detach(tab);
  }

  /** Detaches whoever holds it. */
  async releaseAll(tab: number): Promise<void> {
    if (this.#session.controlled(tab)) {
      this.#session.take(tab).holders = [];
      this.#session.save();
    }
    await this.#detach(tab);
  }

  async send(tab: number, method: string, params: Record<string, unknown> = {}): Promise<Record<string, unknown>> {
    return ((await chrome.debugger.sendCommand({ tabId: tab }, method, params)) ?? {}) as Record<string, unknown>;
  }

  /** A new document: what the old one was loading counts no more. */
  navigated(tab: number): void {
    this.#tabs.get(tab)?.requests.clear();
    this.#crashed.delete(tab);
  }

  /**
   * Whether a tab that does not answer waits in a dialog (true) or its script runs on (false), within `ms`.
   *
   * Only the tab that a person would see can: Chrome answers dialogs of the others itself. While one is open Chrome drops
   * keys and says so at once; a busy page owes the answer (both measured). The key let go is none that a keyboard has.
   */
  async waitsInDialog(tab: number, ms: number): Promise<boolean> {
    const ask = async (): Promise<boolean> => {
      if (!(await chrome.tabs.get(tab)).active) return false;
      const own = !this.attached(tab);
      if (own) await chrome.debugger.attach({ tabId: tab }, PROTOCOL);
      const key = this.send(tab, "Input.dispatchKeyEvent", { type: "keyUp" });
      const late = new Promise<boolean>((done) => setTimeout(() => done(false), ms));
      try {
        return await Promise.race([key.then(() => true), late]);
      } finally {
        key.catch(() => undefined); // detached before the page took it
        if (own && !this.attached(tab)) await chrome.debugger.detach({ tabId: tab });
      }
    };
    return await ask().catch(() => false); // the tab is gone, or no debugger may come here: no dialog was seen
  }

  async #attach(tab: number): Promise<void> {
    try {
      await chrome.debugger.attach({ tabId: tab }, PROTOCOL);
    } catch (error) {
      // Ours already, from before a restart of the service worker? Then commands work.
      if (!textOf(error).startsWith("Another debugger")) throw error;
    }
    try {
      await this.#prepare(tab);
    } catch (error) {
      await chrome.debugger.detach({ tabId: tab }).catch(() => undefined); // it has gone by itself
      throw error;
    }
  }

  async #prepare(tab: number): Promise<void> {
    const death = new Promise<never>((_, fail) => this.#dying.set(tab, () => fail(crashedFailure())));
    const prepared = Promise.all([
      this.send(tab, "Page.enable"),
      this.send(tab, "Inspector.enable"),
      this.send(tab, "Network.enable", NO_BODIES),
      this.send(tab, "Emulation.setFocusEmulationEnabled", { enabled: true }), // a background tab takes keys, too
      this.#draw(tab),
    ]);
    try {
      await Promise.race([prepared, death]);
    } finally {
      this.#dying.delete(tab);
    }
  }

  async #draw(tab: number): Promise<void> {
    try {
      await this.send(tab, "Page.startScreencast", DRAWING);
    } catch (error) {
      // An attachment from before a restart of the service worker draws already.
      if (!textOf(error).includes("already active")) throw error;
    }
  }

  async #detach(tab: number): Promise<void> {
    if (!this.#tabs.delete(tab)) return;
    try {
      await chrome.debugger.detach({ tabId: tab });
    } catch {
      // the tab is gone, and the attachment with it
    }
  }

  #event(tab: number, method: string, params: Record<string, unknown>): void {
    const state = this.#tabs.get(tab);
    if (state === undefined) return;
    switch (method) {
      case "Page.javascriptDialogOpening": {
        const kind = String(params["type"]);
        this.#dialogs.set(tab, kind);
        const accept = kind === "beforeunload"; // staying would block the navigation the task asked for
        this.send(tab, "Page.handleJavaScriptDialog", { accept }).catch(() => undefined); // closed by someone else: fine
        return;
      }
      case "Input.dragIntercepted":
        this.#drags.get(tab)?.(params["data"]);
        this.#drags.delete(tab);
        return;
      case "Page.downloadWillBegin":
        if ((this.#told.get(tab) ?? 0) < performance.now()) this.#downloads.add(tab);
        this.#told.delete(tab);
        return;
      case "Network.requestWillBeSent":
        if (!LONG_LIVED.has(String(params["type"]))) state.requests.set(String(params["requestId"]), performance.now());
        return;
      case "Network.loadingFinished":
      case "Network.loadingFailed":
        state.requests.delete(String(params["requestId"]));
        return;
      case "Inspector.targetCrashed":
        this.#crashed.add(tab);
        this.#dying.get(tab)?.();
        this.#watcher.crashed(tab);
        return;
      case "Inspector.targetReloadedAfterCrash":
        this.#crashed.delete(tab);
    }
  }
}

/** `untouched`: it had crashed before the command did anything. */
export const crashedFailure = (untouched = false): Failure =>
  new Failure("page-crashed", "The page has crashed", { refsValid: false, retryable: true, nextTool: "browser_page_navigate" }, untouched);
