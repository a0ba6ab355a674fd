/**
 * What an action changed, and a short, bounded wait for what it set going.
 *
 * `mark` notes the state before; `settle` compares after. Where nothing happens it costs two turns of the event loop
 * and no timer; where mutations go on it waits until they pause, half a second at most. A navigation that has begun is
 * only reported: waiting for it is the service worker's part, because this document is about to end.
 */

import { askForRoots, attr, deepActive, isConnected } from "./dom";
import { pageVersion } from "./digest";
import { endGuard } from "./act";
import { isSensitiveField } from "./names";
import { checkedOf, valueOf } from "./states";
import { turn } from "./turns";

const QUIET_MS = 60; // a pause this long between mutations counts as settled: four frames of a busy page
const MAX_MS = 500; // animations and tickers never pause

interface Mark {
  readonly url: string;
  readonly active: Element | null;
  readonly el: Element | null;
  readonly checked: boolean | "mixed" | null;
  readonly value: string | null;
  readonly place: string;
}

/** Where the handle of a slider without ARIA stands on its track: such a thing has no other value, and numbers alone are no new version. */
function placeOf(el: Element): string {
  if (!(el instanceof HTMLElement) || attr(el, "tabindex") === null) return "";
  const { left, right, top, bottom } = el.style;
  return [left, right, top, bottom].join(" ");
}

export interface Settled {
  readonly url: boolean;
  readonly page: boolean;
  readonly focus: boolean;
  readonly value: boolean;
  readonly valueLength: number | null;
  readonly checked: boolean | null;
  readonly guard: "none" | "hit" | "missed";
  /** A download has begun, as far as the page itself can tell. */
  readonly download: boolean;
  /** A navigation to another document has begun. */
  readonly leaving: boolean;
  readonly version: string;
  /** How long consequences were waited for and looked at, microseconds. */
  readonly took: number;
}

let mark: Mark | null = null;
let observer: MutationObserver | null = null;
let mutations = 0;
let lastMutation = 0;
let leaving = false;
let download = false;
/** Version of the last observation or action, while nothing was seen to change since. */
let known: string | null = null;

/** Remembers the version of an observation: what the next action's change is measured against. */
export function remember(version: string): void {
  known = version;
}

const saw = (records: MutationRecord[]): void => {
  if (records.length === 0) return;
  mutations += records.length;
  lastMutation = performance.now();
};

const onNavigate = (event: Event): void => {
  const to = (event as Event & { destination?: { sameDocument?: boolean }; downloadRequest?: string | null });
  if ((to.downloadRequest ?? null) !== null) download = true;
  else if (to.destination?.sameDocument === false) leaving = true;
};

const navigation = (globalThis as { navigation?: EventTarget }).navigation;

/** Notes the state before an action on `el` and starts to watch. */
export function markBefore(el: Element | null): void {
  stop();
  mutations = 0;
  leaving = false;
  download = false;
  const secret = el !== null && isSensitiveField(el);
  mark = {
    url: location.href,
    active: deepActive(),
    el,
    checked: el === null ? null : checkedOf(el),
    value: el === null || secret ? null : valueOf(el),
    place: el === null ? "" : placeOf(el),
  };
  observer = new MutationObserver(saw);
  const watch = { subtree: true, childList: true, attributes: true, characterData: true };
  observer.observe(document, watch);
  const root = el?.getRootNode();
  if (root instanceof ShadowRoot) observer.observe(root, watch);
  navigation?.addEventListener("navigate", onNavigate);
}

function stop(): void {
  observer?.disconnect();
  observer = null;
  navigation?.removeEventListener("navigate", onNavigate);
}

/** Ends an action: waits while things change, then says what did. */
export async function settle(): Promise<Settled> {
  const started = performance.now();
  await turn();
  await turn();
  if (observer !== null) saw(observer.takeRecords());
  while (mutations > 0 && !leaving) {
    const now = performance.now();
    const quiet = lastMutation + QUIET_MS - now;
    if (quiet <= 0 || now - started >= MAX_MS) break;
    await new Promise((done) => setTimeout(done, Math.min(quiet, MAX_MS - (now - started))));
    if (observer !== null) saw(observer.takeRecords());
  }
  if (mutations > 0) askForRoots();
  const guard = endGuard();
  stop();
  const before = mark;
  mark = null;
  if (before === null) {
    const version = pageVersion();
    known = version;
    return { url: false, page: false, focus: false, value: false, valueLength: null, checked: null, guard, download, leaving, version, took: since(started) };
  }
  const { el } = before;
  const alive = el !== null && isConnected(el);
  const secret = alive && isSensitiveField(el);
  const value = alive && !secret ? valueOf(el) : null;
  const checked = alive ? checkedOf(el) : null;
  const version = leaving ? (known ?? "") : pageVersion();
  const result: Settled = {
    url: location.href !== before.url,
    page: known === null ? mutations > 0 : version !== known,
    focus: deepActive() !== before.active,
    value: (value !== null && value !== before.value) || (alive && placeOf(el) !== before.place),
    valueLength: value === null ? null : value.length,
    checked: checked !== null && checked !== before.checked ? checked === true : null,
    guard,
    download,
    leaving,
    version,
    took: since(started),
  };
  if (!leaving) known = version;
  return result;
}

const since = (started: number): number => Math.round((performance.now() - started) * 1_000);
