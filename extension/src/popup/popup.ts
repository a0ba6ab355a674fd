/**
 * The popup: says whether this browser is paired, with whom, and whether the connection stands; pairs and forgets;
 * shares the tab it was opened over, lists the tabs under control and stops that.
 *
 * It shows what the service worker says and asks again every second, so it tells the truth while the bridge comes and
 * goes. The token is written to storage and never read back here.
 */

import { DEFAULT_PORT, MIN_TOKEN_CHARS } from "../wire";
import type { PopupStatus, PopupTab } from "../background/main";

const REFRESH_MS = 1_000;

const text = (name: string, ...values: string[]): string => chrome.i18n.getMessage(name, values);

function byId<T extends HTMLElement>(id: string): T {
  const el = document.getElementById(id);
  if (el === null) throw new Error(`no element ${id}`);
  return el as T;
}

function fillTexts(): void {
  document.documentElement.lang = chrome.i18n.getUILanguage();
  for (const el of document.querySelectorAll<HTMLElement>("[data-text]")) el.textContent = text(el.dataset["text"] ?? "");
  byId("version").textContent = text("version", chrome.runtime.getManifest().version);
  byId<HTMLInputElement>("port").value = String(DEFAULT_PORT);
}

interface Said {
  readonly look: "good" | "busy" | "bad" | "unknown";
  readonly headline: string;
  readonly detail: string;
}

function say(status: PopupStatus): Said {
  const where = `${status.host}:${status.port}`;
  if (status.state === "idle") return { look: "unknown", headline: text("notPaired"), detail: text("notPairedDetail") };
  if (status.state === "ready") return { look: "good", headline: text("connected"), detail: text("connectedDetail", where) };
  if (status.state === "refused") {
    const known = ["old-extension", "old-bridge", "not-paired", "not-allowed", "replaced", "throttled"];
    const name = known.includes(status.refusal ?? "") ? `refused_${(status.refusal ?? "").replace("-", "_")}` : "refused_unknown";
    return { look: "bad", headline: text("refused"), detail: text(name) };
  }
  if (status.imposter) return { look: "bad", headline: text("wrongToken"), detail: text("wrongTokenDetail", where) };
  if (status.state === "waiting" || status.state === "connecting") return { look: "busy", headline: text("away"), detail: text("awayDetail", where) };
  return { look: "busy", headline: text("connecting"), detail: where };
}

let shown = "";
let listed = "";
/** The tab that the popup was opened over. */
let here: chrome.tabs.Tab | undefined;

function showTabs(status: PopupStatus): void {
  const mine = status.pairing === "user" && status.state !== "idle";
  byId("controlled").hidden = !mine || status.tabs.length === 0;
  const over = status.tabs.find(({ tab }) => tab === here?.id);
  const shareable = /^https?:/.test(here?.url ?? "");
  byId("here").hidden = !mine || status.state !== "ready" || here === undefined || over !== undefined;
  byId("share").hidden = !shareable;
  byId("hereDetail").textContent = text(shareable ? "shareDetail" : "notShareable");
  const now = JSON.stringify(status.tabs);
  if (now === listed) return; // what a person points at must not be made anew under the pointer
  listed = now;
  byId("controlledTitle").textContent = text("controlled", String(status.tabs.length));
  byId("tabs").replaceChildren(...status.tabs.map(row));
}

function row({ tab, title, url, shared }: PopupTab): HTMLLIElement {
  const line = (words: string, className: string): HTMLParagraphElement => {
    const p = document.createElement("p");
    p.textContent = words;
    p.className = className;
    return p;
  };
  const item = document.createElement("li");
  const box = document.createElement("div");
  const name = line(title === "" ? url : title, "");
  name.title = url;
  const host = URL.canParse(url) ? new URL(url).host : "";
  box.append(name, line([text(shared ? "sharedByYou" : "openedByTask"), host].filter((part) => part !== "").join(" · "), "why"));
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = text("stop");
  button.setAttribute("aria-label", text("stopTab", title === "" ? url : title));
  button.addEventListener("click", () => void ask({ ask: "stop", tab }));
  item.append(box, button);
  return item;
}

async function ask(what: { ask: "share" | "stop"; tab: number }): Promise<void> {
  const status = (await chrome.runtime.sendMessage(what)) as PopupStatus;
  byId("shareProblem").textContent = status.problem ? text("shareProblem") : "";
  await refresh();
}

async function refresh(): Promise<void> {
  let said: Said;
  let paired = true;
  try {
    const status = (await chrome.runtime.sendMessage({ ask: "status" })) as PopupStatus;
    said = say(status);
    paired = status.state !== "idle";
    showTabs(status);
  } catch {
    said = { look: "bad", headline: text("noWorker"), detail: text("noWorkerDetail") };
  }
  byId("pair").hidden = paired;
  byId("paired").hidden = !paired;
  const now = JSON.stringify(said);
  if (now === shown) return; // a screen reader hears changes only
  shown = now;
  byId("status").dataset["state"] = said.look;
  byId("headline").textContent = said.headline;
  byId("detail").textContent = said.detail;
}

async function pair(event: SubmitEvent): Promise<void> {
  event.preventDefault();
  const port = Number(byId<HTMLInputElement>("port").value);
  const field = byId<HTMLInputElement>("token");
  const token = field.value.trim();
  const problem = byId("problem");
  problem.textContent = "";
  if (!Number.isInteger(port) || port < 1 || port > 65_535) {
    problem.textContent = text("badPort");
    return;
  }
  if (token.length < MIN_TOKEN_CHARS) {
    problem.textContent = text("badToken", String(MIN_TOKEN_CHARS));
    return;
  }
  field.value = "";
  await chrome.storage.local.set({ pairing: { host: byId<HTMLInputElement>("host").value, port, token, pairing: "user" } });
  await refresh();
}

async function forget(): Promise<void> {
  await chrome.storage.local.remove("pairing");
  await refresh();
}

fillTexts();
byId<HTMLFormElement>("pair").addEventListener("submit", (event) => void pair(event));
byId("forget").addEventListener("click", () => void forget());
byId("share").addEventListener("click", () => {
  if (here?.id !== undefined) void ask({ ask: "share", tab: here.id });
});
void chrome.tabs.query({ active: true, lastFocusedWindow: true }).then(([tab]) => {
  here = tab;
  return refresh();
});
setInterval(() => void refresh(), REFRESH_MS);
