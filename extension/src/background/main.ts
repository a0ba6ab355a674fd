/**
 * The service worker: wires socket, commands and browser events together.
 *
 * It may be stopped at any moment and started by any event, so everything is registered in the first turn, the
 * connection is tried at every start, and what must survive lies in `chrome.storage.session`.
 */

import { ARG_SCHEMAS, type ExtCommand, type ExtEvent, type Locator, LOCATOR_SCHEMA, MAX_EXTENSION_FRAME, type OpArgs, type PageReply } from "../wire";
import { misfit } from "../schema";
import { Acting } from "./acting";
import { Debugger } from "./attachment";
import { type Context, Runner } from "./command";
import { Link } from "./connection";
import { Control } from "./control";
import { Failure } from "./failure";
import { HOLDER, Input } from "./input";
import { Locators } from "./locators";
import { Navigations } from "./navigation";
import { Pages } from "./pages";
import { closeStorage, type Pairing } from "./pairing";
import { Reading } from "./reading";
import { Session } from "./session";
import { Tabs } from "./tabs";

const ALARM = "reconnect";
const ALARM_MINUTES = 0.5; // the shortest Chrome allows; wakes a worker that slept while the bridge was away

const session = new Session();
let paired: Pairing | null = null;
/** Counts connections: a command belongs to the one it came by. */
let epoch = 0;

function emit(kind: ExtEvent["kind"], tab: number, more: { url?: string; newTab?: number } = {}): void {
  void session.load().then(() => {
    if (session.controlled(tab)) link.send({ t: "event", kind, tab, ...more });
  });
}

const dbg = new Debugger(session, {
  detached: (tab) => emit("detached", tab),
  cancelled: (tab) => void control.stop(tab),
  crashed: (tab) => emit("crashed", tab),
});

const navigations = new Navigations({
  committed(tab, url) {
    dbg.navigated(tab);
    emit("navigated", tab, { url: url.slice(0, 4_096) });
  },
  opened(tab, created) {
    // What a page under control opens is under control; nothing else is.
    void session.load().then(() => {
      if (!session.controlled(tab) || session.controlled(created)) return;
      control.take(created, tab);
      control.behind(tab, created);
    });
  },
});

const runner = new Runner();
const control = new Control(session, dbg, runner, () => paired?.pairing === "user", (frame) => void link.send(frame));
const pages = new Pages(session, dbg);
const input = new Input(dbg);
const tabs = new Tabs(session, control, dbg, navigations, pages, () => paired);
const acting = new Acting(pages, dbg, input, navigations, tabs);
const reading = new Reading(pages, dbg, input, navigations, tabs);
const locators = new Locators(pages, tabs);

const link = new Link({
  command: (command) => void execute(command),
  cancel: ({ id }) => runner.cancel(id),
  ready(mode, pairing) {
    input.mode = mode;
    input.users = pairing.pairing === "user";
    paired = pairing;
    void session.load().then(() => {
      control.tell();
      // What an earlier service worker held is let go, too.
      for (const tab of session.list()) if (session.take(tab).holders.includes(HOLDER)) input.letGo(tab);
    });
  },
  lost() {
    epoch++;
    runner.abandon();
  },
});

type PageOp = (tab: number, args: never, context: Context) => Promise<PageReply>;

const PAGE_OPS: Readonly<Record<Exclude<keyof OpArgs, "browser_tabs_list" | "browser_tabs_open">, PageOp>> = {
  browser_tabs_activate: (tab) => tabs.activate(tab),
  browser_tabs_close: (tab, _args, context) => tabs.close(tab, context),
  browser_page_navigate: (tab, args, context) => tabs.navigate(tab, args, context),
  browser_page_observe: (tab, args, context) => reading.observe(tab, args, context),
  browser_page_find: (tab, args, context) => reading.find(tab, args, context),
  browser_page_click: (tab, args, context) => acting.click(tab, args, context),
  browser_page_type: (tab, args, context) => acting.type(tab, args, context),
  browser_page_press: (tab, args, context) => acting.press(tab, args, context),
  browser_page_select: (tab, args, context) => acting.select(tab, args, context),
  browser_page_scroll: async (tab, args, context) => {
    // A tab in the background tells its page of no scrolling unless it draws (seen), so lists that grow would not.
    await input.trusted(tab, !(await chrome.tabs.get(tab)).active);
    return await reading.scroll(tab, args, context);
  },
  browser_page_wait: (tab, args, context) => reading.wait(tab, args, context),
  browser_page_extract: (tab, args, context) => reading.extract(tab, args, context),
  browser_page_screenshot: (tab, args, context) => reading.screenshot(tab, args, context),
  browser_page_locator: (tab, args, context) => locators.capture(tab, args, context),
};

/** Runs one command and sends its one reply, unless the bridge it came from is gone. */
async function execute(command: ExtCommand): Promise<void> {
  const mine = epoch;
  let outcome = await runner.run(command.id, command.tab, command.deadlineMs, (context) => perform(command, context));
  if ("error" in outcome && outcome.error.url === undefined && command.tab !== undefined) {
    const tab = session.controlled(command.tab) ? await chrome.tabs.get(command.tab).catch(() => null) : null; // gone: no URL
    if (tab?.url !== undefined) outcome = { error: { ...outcome.error, url: tab.url } };
  }
  // The bridge of a new connection never sent this command.
  if (mine !== epoch) return;
  let text = JSON.stringify({ t: "reply", id: command.id, ...outcome });
  if (text.length > MAX_EXTENSION_FRAME) {
    text = JSON.stringify({ t: "reply", id: command.id, error: new Failure("too-large", "The answer is too large").toWire(false) });
  }
  link.sendText(text);
}

async function perform(command: ExtCommand, context: Context): Promise<PageReply> {
  await session.load();
  const args: unknown = command.args;
  if (command.op === "release") {
    const tab = needTab(command);
    await control.release(tab);
    return {};
  }
  if (command.op === "locate") {
    const problem = misfit(LOCATOR_SCHEMA, args, "arguments");
    if (problem !== "") throw new Failure("invalid-arguments", `Bad call: ${problem}`);
    return await locators.locate(await needControlled(command), args as Locator, context);
  }
  if (!Object.hasOwn(ARG_SCHEMAS, command.op)) throw new Failure("unknown-tool", "This extension does not know the tool");
  const op = command.op as keyof OpArgs;
  const problem = misfit(ARG_SCHEMAS[op], args, "arguments");
  if (problem !== "") throw new Failure("invalid-arguments", `Bad call: ${problem}`);
  if (op === "browser_tabs_list") return await tabs.list(command.tabs ?? []);
  if (op === "browser_tabs_open") return await tabs.open(args as OpArgs["browser_tabs_open"], context);
  const tab = await needControlled(command);
  return await PAGE_OPS[op](tab, args as never, context);
}

async function needControlled(command: ExtCommand): Promise<number> {
  const tab = needTab(command);
  if (!session.controlled(tab)) {
    await chrome.tabs.get(tab);
    if (paired?.pairing === "user") {
      throw new Failure("tab-not-shared", "This tab was neither opened by browsercell nor shared with it", { nextTool: "browser_tabs_list" });
    }
    session.take(tab);
  }
  return tab;
}

function needTab(command: ExtCommand): number {
  if (command.tab === undefined || command.tab === null) throw new Failure("no-tab", "The command names no tab");
  return command.tab;
}

// ---------------------------------------------------------------- browser events

chrome.tabs.onRemoved.addListener((tab) => {
  void session.load().then(() => {
    if (!session.controlled(tab)) return;
    link.send({ t: "event", kind: "tab-closed", tab });
    session.drop(tab);
  });
});

chrome.tabs.onReplaced.addListener((added, removed) => {
  void session.load().then(() => {
    if (!session.controlled(removed)) return;
    session.replace(removed, added);
    link.send({ t: "event", kind: "tab-replaced", tab: removed, newTab: added });
  });
});

chrome.runtime.onStartup.addListener(() => void link.refresh("wake"));
chrome.runtime.onInstalled.addListener(() => void link.refresh("wake"));
chrome.alarms.onAlarm.addListener(() => void link.refresh("wake"));
chrome.storage.onChanged.addListener((changes, area) => {
  if (area !== "local" || changes["pairing"] === undefined) return;
  // Another pairing, or none: what was shared was shared with the old one.
  void session.load().then(() => (paired === null ? undefined : control.stopAll())).then(() => link.refresh("changed"));
});
chrome.tabs.onUpdated.addListener((tab, info) => {
  const { groupId } = info;
  if (groupId !== undefined) void session.load().then(() => control.regrouped(tab, groupId));
});
chrome.tabs.onActivated.addListener(({ tabId, windowId }) => control.activated(tabId, windowId));
chrome.windows.onFocusChanged.addListener((window) => control.focused(window));
chrome.windows.onRemoved.addListener((window) => control.windowClosed(window));

/** The popup asks; nobody else is answered. */
chrome.runtime.onMessage.addListener((message: unknown, sender, answer: (status: PopupStatus) => void) => {
  if (sender.id !== chrome.runtime.id || sender.origin !== `chrome-extension://${chrome.runtime.id}`) return false;
  const { ask, tab } = (message ?? {}) as { ask?: unknown; tab?: unknown };
  if (ask !== "status" && ((ask !== "share" && ask !== "stop") || typeof tab !== "number")) return false;
  void (async () => {
    await session.load();
    let problem = false;
    try {
      if (ask === "share") await control.share(tab as number);
      if (ask === "stop") await control.stop(tab as number);
    } catch {
      problem = true; // the tab is gone or no task may have it: the popup says so
    }
    answer(await status(problem));
  })();
  return true; // the answer comes later
});

async function status(problem: boolean): Promise<PopupStatus> {
  const { connection, since, pairing } = link.status;
  const controlled = await Promise.all(
    session.list().map(async (tab): Promise<PopupTab | null> => {
      const found = await chrome.tabs.get(tab).catch(() => null); // closing
      return found === null ? null : { tab, title: found.title ?? "", url: found.url ?? "", shared: session.controlled(tab) && session.take(tab).shared };
    }),
  );
  return {
    state: connection.state,
    refusal: connection.refusal,
    imposter: connection.imposter,
    since,
    host: pairing?.host ?? "",
    port: pairing?.port ?? 0,
    pairing: pairing?.pairing ?? "",
    tabs: controlled.filter((tab) => tab !== null),
    problem,
  };
}

export interface PopupTab {
  readonly tab: number;
  readonly title: string;
  readonly url: string;
  readonly shared: boolean;
}

export interface PopupStatus {
  readonly state: string;
  readonly refusal: string | null;
  readonly imposter: boolean;
  readonly since: number;
  readonly host: string;
  readonly port: number;
  readonly pairing: string;
  /** Tabs under control. */
  readonly tabs: readonly PopupTab[];
  /** What was asked for could not be done. */
  readonly problem: boolean;
}

async function start(): Promise<void> {
  await closeStorage();
  await Promise.all([chrome.alarms.create(ALARM, { periodInMinutes: ALARM_MINUTES }), dbg.recover(), control.look(), link.refresh("start")]);
}

void start();
