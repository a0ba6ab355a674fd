/**
 * What must outlive the service worker, per tab under control: numbering of refs and frames, who holds the debugger.
 *
 * Kept in `chrome.storage.session` (memory of the browser, gone with it) and in a copy here. A tab is under control from
 * the moment it was opened for the bridge (or by a page under control) until `release`, closing or disconnection of the
 * browser. Frame numbers are given to documents, not to frames, and never again in the tab.
 */

export interface TabState {
  /** First free ref number of the tab: refs of a later document never repeat an earlier one's. */
  first: number;
  nextFrame: number;
  /** Frame number to document id. */
  frames: Record<string, string>;
  /** Reasons to keep the debugger attached. */
  holders: string[];
  /** The user shared it in the popup. */
  shared: boolean;
  /** The tab group it was put in. */
  group?: number;
}

type Stored = Record<string, TabState>;

const MAX_FRAMES = 200; // documents remembered a tab; the oldest are forgotten, their refs become stale

export class Session {
  #tabs: Stored = {};
  #loaded: Promise<void> | null = null;
  #saving = false;
  #dirty = false;

  /** Resolves when the state of an earlier service worker is here. */
  load(): Promise<void> {
    this.#loaded ??= (async () => {
      const { tabs } = await chrome.storage.session.get("tabs");
      if (typeof tabs === "object" && tabs !== null) this.#tabs = { ...(tabs as Stored), ...this.#tabs };
    })();
    return this.#loaded;
  }

  controlled(tab: number): boolean {
    return Object.hasOwn(this.#tabs, tab);
  }

  list(): number[] {
    return Object.keys(this.#tabs).map(Number);
  }

  /** Takes a tab under control, or gives its state. */
  take(tab: number): TabState {
    let state = this.#tabs[tab];
    if (state === undefined) {
      state = { first: 1, nextFrame: 1, frames: {}, holders: [], shared: false };
      this.#tabs[tab] = state;
      this.save();
    }
    return state;
  }

  drop(tab: number): void {
    if (!this.controlled(tab)) return;
    delete this.#tabs[tab];
    this.save();
  }

  /** A discarded tab came back under another id. */
  replace(old: number, fresh: number): void {
    const state = this.#tabs[old];
    if (state === undefined) return;
    delete this.#tabs[old];
    this.#tabs[fresh] = { ...state, frames: {}, holders: [] }; // Chrome keeps it in its group
    this.save();
  }

  /** The number of a child document; new ones get the next. */
  frameNumber(tab: number, documentId: string): number {
    const state = this.take(tab);
    for (const [number, id] of Object.entries(state.frames)) if (id === documentId) return Number(number);
    const number = state.nextFrame++;
    state.frames[number] = documentId;
    const known = Object.keys(state.frames);
    for (const old of known.slice(0, Math.max(0, known.length - MAX_FRAMES))) delete state.frames[old];
    this.save();
    return number;
  }

  documentOf(tab: number, frame: number): string | undefined {
    return this.#tabs[tab]?.frames[frame];
  }

  numbered(tab: number, next: number): void {
    const state = this.#tabs[tab];
    if (state === undefined || next <= state.first) return;
    state.first = next;
    this.save();
  }

  /** Writes soon; several changes of one turn are one write. */
  save(): void {
    this.#dirty = true;
    if (this.#saving) return;
    this.#saving = true;
    queueMicrotask(() => void this.#write());
  }

  async #write(): Promise<void> {
    while (this.#dirty) {
      this.#dirty = false;
      await chrome.storage.session.set({ tabs: this.#tabs });
    }
    this.#saving = false;
  }
}
