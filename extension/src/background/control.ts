/**
 * Which tabs browsercell controls in the user's Chrome, shown to the person as a tab group, and how they take one back.
 *
 * A tab comes under control when the bridge opens it, when a page under control opens it, or when the user shares it in
 * the popup; it leaves when the bridge gives it back (a shared one stays shared), and at once when the user stops it in
 * the popup, drags it out of the group or presses Cancel in Chrome's bar: whatever runs in it ends, the debugger goes,
 * and the bridge is told. Nothing here gives a tab or window the focus; a tab that a page under control puts in front of
 * the user's own goes behind it again. In a private Chromium there is nobody to show anything to, and no group.
 */

import type { UpFrame } from "../wire";
import type { Debugger } from "./attachment";
import type { Runner } from "./command";
import { asleepFailure, Failure, textOf } from "./failure";
import type { Session } from "./session";

const TITLE = "browsercell";
const FRESH_MS = 1_000; // Chrome puts a new tab in front within some ten ms
const BUSY_TRIES = 5; // while a person drags a tab Chrome refuses to change any
const BUSY_MS = 400;

export const takenBack = (): Failure =>
  new Failure("tab-not-shared", "The user took this tab back", { refsValid: false, nextTool: "browser_tabs_list" });

export class Control {
  /** Grouping one after the other: two at once would make two groups. */
  #grouping: Promise<void> = Promise.resolve();
  /** The tab in front of each window, and the one before it. */
  readonly #front = new Map<number, { now: number; before: number | undefined }>();
  /** Tabs that a page under control opened just now, and that page's tab. */
  readonly #fresh = new Map<number, number>();
  #focus: { now: number | undefined; before: number | undefined } = { now: undefined, before: undefined };

  constructor(
    private readonly session: Session,
    private readonly dbg: Debugger,
    private readonly runner: Runner,
    private readonly user: () => boolean,
    private readonly send: (frame: UpFrame) => void,
  ) {}

  /** A tab that the bridge opened, or a page under control (`opener`). */
  take(tab: number, opener?: number): void {
    this.session.take(tab);
    if (!this.user()) return;
    if (opener !== undefined) this.send({ t: "event", kind: "tab-opened", tab: opener, newTab: tab });
    this.#group(tab);
  }

  /** The user shares a tab in the popup. Throws Failure for one that no task may have. */
  async share(tab: number): Promise<void> {
    const { url = "", discarded } = await chrome.tabs.get(tab);
    if (!/^https?:/.test(url)) throw new Failure("restricted-page", "Only web pages can be shared");
    if (discarded) throw asleepFailure();
    this.session.take(tab).shared = true;
    this.session.save();
    this.#group(tab);
    this.send({ t: "event", kind: "tab-shared", tab });
  }

  /** The bridge is there: it is told what is shared. */
  tell(): void {
    for (const tab of this.session.list()) if (this.session.take(tab).shared) this.send({ t: "event", kind: "tab-shared", tab });
  }

  /** The user takes a tab back. What runs in it ends now. */
  async stop(tab: number): Promise<void> {
    if (!this.session.controlled(tab)) return;
    const { group } = this.session.take(tab);
    this.runner.end(tab, takenBack());
    const detached = this.dbg.releaseAll(tab);
    this.session.drop(tab);
    this.send({ t: "event", kind: "tab-withdrawn", tab });
    await detached;
    if (group !== undefined) await ungroup(tab);
  }

  /** The pairing is gone: nothing is controlled any more. */
  async stopAll(): Promise<void> {
    await Promise.all(this.session.list().map((tab) => this.stop(tab)));
  }

  /** The bridge gives a tab back: what the user shared stays shared, everything else is theirs alone again. */
  async release(tab: number): Promise<void> {
    if (!this.session.controlled(tab)) return;
    const { shared, group } = this.session.take(tab);
    await this.dbg.releaseAll(tab);
    if (shared) return;
    this.session.drop(tab);
    if (group !== undefined) await ungroup(tab);
  }

  /** A tab's group has changed. By whom else but the user, once it was in ours? */
  async regrouped(tab: number, group: number): Promise<void> {
    const ours = (): number | undefined => (this.session.controlled(tab) ? this.session.take(tab).group : undefined);
    if (ours() === undefined || ours() === group) return;
    // A tab that closes leaves its group first; that it is closed is told by another event.
    if (group < 0) await new Promise((done) => setTimeout(done, 0));
    if (await chrome.tabs.get(tab).catch(() => null)) await this.stop(tab);
  }

  /** A tab came to the front of its window. */
  activated(tab: number, window: number): void {
    if (this.#front.get(window)?.now !== tab) this.#front.set(window, { now: tab, before: this.#front.get(window)?.now });
    const opener = this.#fresh.get(tab);
    if (opener !== undefined) void this.#putBehind(opener, tab);
  }

  /** A window has the focus now (-1: none of Chrome's has). */
  focused(window: number): void {
    if (window === this.#focus.now || window === chrome.windows.WINDOW_ID_NONE) return;
    this.#focus = { now: window, before: this.#focus.now };
  }

  /** What is in front when the service worker starts. */
  async look(): Promise<void> {
    const [tabs, window] = await Promise.all([chrome.tabs.query({ active: true }), chrome.windows.getLastFocused().catch(() => null)]); // no window is open
    for (const { id, windowId } of tabs) if (id !== undefined && !this.#front.has(windowId)) this.activated(id, windowId);
    if (window?.id !== undefined) this.focused(window.id);
  }

  windowClosed(window: number): void {
    this.#front.delete(window);
  }

  /** A page under control opened a tab in front of the one the user was looking at: back with it. */
  behind(opener: number, created: number): void {
    if (!this.user()) return;
    this.#fresh.set(created, opener);
    setTimeout(() => this.#fresh.delete(created), FRESH_MS);
    void this.#putBehind(opener, created);
  }

  async #putBehind(opener: number, created: number): Promise<void> {
    const tab = await chrome.tabs.get(created).catch(() => null); // closed again: nothing is in front
    if (tab === null || !tab.active) return;
    const home = await chrome.tabs.get(opener).catch(() => null); // its page closed it
    if (home !== null && home.windowId !== tab.windowId) {
      const window = this.#focus.now === tab.windowId ? this.#focus.before : this.#focus.now;
      if (window !== undefined && window !== tab.windowId) await chrome.windows.update(window, { focused: true }).catch(() => undefined); // closed
      return;
    }
    const front = this.#front.get(tab.windowId);
    const before = front?.now === created ? front.before : front?.now;
    if (before === undefined || before === created || before === opener) return;
    this.#fresh.delete(created); // once: whoever comes back to it wants it
    await chrome.tabs.update(before, { active: true }).catch(() => undefined); // the user closed it: Chrome chooses
  }

  #group(tab: number): void {
    this.#grouping = this.#grouping.then(async () => {
      for (let attempt = 0; attempt < BUSY_TRIES; attempt++) {
        try {
          await this.#join(tab);
          return;
        } catch (error) {
          // A window without a tab strip has no groups; a tab that is gone needs none.
          if (!textOf(error).startsWith("Tabs cannot be edited")) return;
          await new Promise((done) => setTimeout(done, BUSY_MS));
        }
      }
    });
  }

  async #join(tab: number): Promise<void> {
    const { windowId, pinned } = await chrome.tabs.get(tab);
    if ((await chrome.windows.get(windowId)).type !== "normal") return; // no tab strip; a group would move it to another window
    if (pinned || !this.session.controlled(tab)) return; // a group would unpin it
    const known = await this.#groupIn(windowId);
    const group = await chrome.tabs.group({ tabIds: [tab], ...(known === undefined ? { createProperties: { windowId } } : { groupId: known }) });
    if (!this.session.controlled(tab)) return await ungroup(tab);
    this.session.take(tab).group = group;
    this.session.save();
    if (known === undefined) await chrome.tabGroups.update(group, { title: TITLE, color: "cyan" });
  }

  async #groupIn(window: number): Promise<number | undefined> {
    const groups = new Set(this.session.list().map((tab) => this.session.take(tab).group));
    for (const group of groups) {
      if (group === undefined) continue;
      const found = await chrome.tabGroups.get(group).catch(() => null); // its last tab has left
      if (found?.windowId === window) return group;
    }
    return undefined;
  }
}

async function ungroup(tab: number): Promise<void> {
  await chrome.tabs.ungroup(tab).catch(() => undefined); // gone, or no longer in a group
}
