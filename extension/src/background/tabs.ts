/** Ops on tabs and navigation: open, list, activate, close, navigate. None ever takes the user's focus. */

import type { NavigateArgs, PageReply, TabInfo, TabsOpenArgs } from "../wire";
import { type Context, left } from "./command";
import type { Debugger } from "./attachment";
import type { Control } from "./control";
import { asleepFailure, Failure, textOf } from "./failure";
import type { LoadEnd, Navigations, Watch } from "./navigation";
import type { Pages } from "./pages";
import type { Pairing } from "./pairing";
import type { Session } from "./session";

const ARRIVED_MS = 5_000; // a page that takes longer to say what it is has arrived all the same
const TRAVEL_MS = 1_000; // a step in the history begins within this, or there is no page to go to

export class Tabs {
  constructor(
    private readonly session: Session,
    private readonly control: Control,
    private readonly dbg: Debugger,
    private readonly navigations: Navigations,
    private readonly pages: Pages,
    private readonly pairing: () => Pairing | null,
  ) {}

  async list(ids: readonly number[]): Promise<PageReply> {
    const tabs: TabInfo[] = [];
    for (const id of ids.slice(0, 100)) {
      const tab = await chrome.tabs.get(id).catch(() => null); // gone: left out
      if (tab !== null) tabs.push(this.#info(tab, id));
    }
    return { tabs };
  }

  #info(tab: chrome.tabs.Tab, id: number): TabInfo {
    const status = this.dbg.crashed(id) ? "crashed" : tab.discarded ? "discarded" : tab.status === "loading" ? "loading" : "complete";
    return { tab: id, url: tab.url ?? "", title: tab.title ?? "", status };
  }

  async open(args: TabsOpenArgs, context: Context): Promise<PageReply> {
    this.checkUrl(args.url);
    const tab = await create(args.url, this.pairing()?.pairing !== "user");
    this.control.take(tab);
    const watch = this.navigations.watch(tab, true);
    const end = await watch.loaded(context, false, 1_000);
    if (end === "closed") throw new Failure("no-tab", "The new tab closed itself", { refsValid: false });
    if (end === "nothing" || typeof end === "object") {
      this.session.drop(tab);
      await chrome.tabs.remove(tab).catch(() => undefined); // closed by itself
      if (context.signal.aborted) throw new Failure("cancelled", "The command was cancelled");
      throw loadFailure(end);
    }
    if (end === "stuck") {
      this.session.drop(tab);
      await chrome.tabs.remove(tab).catch(() => undefined); // closed by itself
      throw stuckFailure();
    }
    return { ...(await this.arrived(tab, context, end)), tab };
  }

  async activate(tab: number): Promise<PageReply> {
    const found = await chrome.tabs.get(tab);
    return { tab, url: found.url ?? "", title: found.title ?? "" };
  }

  async close(tab: number, context: Context): Promise<PageReply> {
    await chrome.tabs.get(tab);
    context.effect = true;
    await chrome.tabs.remove(tab);
    return { text: "Closed the tab" };
  }

  async navigate(tab: number, args: NavigateArgs, context: Context): Promise<PageReply> {
    if (args.url !== undefined) this.checkUrl(args.url);
    const watch = this.navigations.watch(tab);
    const before = await chrome.tabs.get(tab);
    context.effect = args.history !== undefined; // a page of the history may be the answer to a form, sent again; a URL is only read
    if (args.url !== undefined) await chrome.tabs.update(tab, { url: args.url });
    else if (args.history === "reload") await chrome.tabs.reload(tab);
    else await this.#travel(tab, args.history === "back" ? -1 : 1, watch, context);
    const end = await watch.loaded(context, true);
    if (end === "closed") throw new Failure("no-tab", "The tab closed itself", { refsValid: false, nextTool: "browser_tabs_list" });
    if (end === "nothing" || typeof end === "object") {
      if (context.signal.aborted) throw new Failure("cancelled", "The command was cancelled");
      throw loadFailure(end);
    }
    if (end === "stuck") throw stuckFailure();
    const reply = await this.arrived(tab, context, end);
    return { ...reply, changes: { page: true, ...(reply.url === before.url ? {} : { url: true }), ...dialogChange(this.dbg.takeDialog(tab)) } };
  }

  /**
   * One step in the tab's history. The page itself is asked to go: `chrome.tabs.goBack` leaves out pages that nobody
   * clicked in, and so can miss the one that the worker was on. It is the way out of pages that can't be asked.
   */
  async #travel(tab: number, step: -1 | 1, watch: Watch, context: Context): Promise<void> {
    try {
      await this.pages.call(tab, 0, "travel", { step }, context);
    } catch (error) {
      if (error instanceof Failure && error.code !== "error-page" && error.code !== "restricted-page") throw error;
      await (step < 0 ? chrome.tabs.goBack(tab) : chrome.tabs.goForward(tab));
      return;
    }
    if (!(await watch.begun(TRAVEL_MS, context))) {
      context.effect = false;
      throw new Failure("navigation-failed", "There is no such page in the tab's history");
    }
  }

  /** What stands in the tab after a navigation. Pages no extension may read are named by the browser. */
  async arrived(tab: number, context: Context, end: Exclude<LoadEnd, "stuck">): Promise<PageReply> {
    const text = end === "loading" ? "The page is still loading" : "The page is loaded";
    const soon = { ...context, deadline: Math.min(context.deadline, performance.now() + ARRIVED_MS) };
    try {
      const { ok, url, title } = await this.pages.call<{ version: string; pdf: boolean }>(tab, 0, "state", {}, soon);
      this.checkPlace(url);
      return { text: ok.pdf ? `${text}; it is a PDF, which can only be taken as a screenshot` : text, url, title, version: ok.version };
    } catch (error) {
      if (error instanceof Failure && error.code === "policy-denied") {
        await chrome.tabs.update(tab, { url: "about:blank" });
        throw error;
      }
      const found = await chrome.tabs.get(tab);
      return { text: `${text}; it can't be read`, url: found.url ?? "", title: found.title ?? "" };
    }
  }

  /** Addresses that no task may go to (design 5). The bridge checks more; this holds even if it does not. */
  checkUrl(text: string): void {
    let url: URL;
    try {
      url = new URL(text);
    } catch {
      throw new Failure("invalid-arguments", "The URL can't be understood");
    }
    if (url.protocol !== "http:" && url.protocol !== "https:") throw new Failure("policy-denied", "Only http and https URLs can be opened");
    if (url.username !== "" || url.password !== "") throw new Failure("policy-denied", "A URL must not hold a user name or password");
    this.checkPlace(text);
  }

  /** The bridge's own listener is out of bounds, redirects included. */
  checkPlace(text: string): void {
    const port = this.pairing()?.port;
    if (port === undefined || !URL.canParse(text)) return;
    const url = new URL(text);
    const loopback = /^(?:127\.[0-9.]+|localhost|.*\.localhost|\[::1\]|\[::ffff:7f.*\]|0\.0\.0\.0)$/.test(url.hostname);
    if (loopback && url.port === String(port)) throw new Failure("policy-denied", "This address belongs to browsercell itself");
  }
}

/** `shown`: in front. A hidden tab draws nothing, so its page gets no scroll, focus or intersection events; in a private Chromium nobody is disturbed. */
async function create(url: string, shown: boolean): Promise<number> {
  let tab: chrome.tabs.Tab | undefined;
  try {
    tab = await chrome.tabs.create({ url, active: shown });
  } catch (error) {
    if (!textOf(error).startsWith("No current window")) throw error;
    tab = (await chrome.windows.create({ url, focused: false }))?.tabs?.[0];
  }
  if (tab?.id === undefined) throw new Failure("internal", "The browser opened no tab");
  return tab.id;
}

function loadFailure(end: "nothing" | { readonly error: string }): Failure {
  if (end === "nothing") {
    return new Failure("timeout", "The page did not begin to load within the deadline", { refsValid: false, retryable: true, nextTool: "browser_page_navigate" });
  }
  // Chrome's net error names are a closed vocabulary of its own.
  const name = /^net::[A-Z0-9_]+$/.test(end.error) ? end.error : "an unknown error";
  return new Failure("navigation-failed", `The page did not load: ${name}`, { refsValid: false, retryable: true, nextTool: "browser_page_navigate" });
}

const stuckFailure = (): Failure =>
  new Failure("timeout", "The page began to load, but its script does not let anything else run", { refsValid: false, retryable: true, nextTool: "browser_page_navigate" });

export const dialogChange = (dialog: string): { dialog?: string } => (dialog === "" ? {} : { dialog });

/** Waits for what `browser_page_wait` asks of the tab itself. */
export async function waitForTab(watch: Watch, tab: number, until: "load" | "url", part: string, timeout: number, navigations: Navigations, context: Context): Promise<void> {
  const end = performance.now() + Math.min(timeout, left(context));
  for (;;) {
    const found = await chrome.tabs.get(tab);
    if (until === "url" ? (found.url ?? "").includes(part) : found.status === "complete") return;
    if (watch.closed) throw new Failure("no-tab", "The tab is gone", { refsValid: false });
    if (found.discarded) throw asleepFailure();
    context.signal.throwIfAborted();
    const rest = end - performance.now();
    if (rest <= 0) throw new Failure("timeout", "The condition did not come true in time", { retryable: true, nextTool: "browser_page_observe" });
    await navigations.next(tab, Math.min(rest, 200), context.signal);
  }
}
