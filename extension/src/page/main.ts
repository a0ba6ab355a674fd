/**
 * The page runtime's door: answers the service worker's calls in one frame, in the isolated world.
 *
 * Injected on demand, once a document; a second injection finds the first and leaves it alone, so refs survive a restart
 * of the service worker. Answers are JSON text. Every failure is a Fault in our own words; whatever else goes wrong is
 * reported as `internal` without its text, which could hold page data.
 */

import type { Gesture, Key, Locator, ObserveMode, ScrollTo } from "../wire";
import { aim, arrival, armGuard, focus, inputArrived, required, scroll, syntheticClick } from "./act";
import { withinBudget } from "./budget";
import { contentTypeOf, deepActive, isConnected, isInput, isSelect, rectOf, titleOf, attr, rootElement, eachChild, isElement, nodeType, onePass } from "./dom";
import { pageVersion } from "./digest";
import { extract, type Extraction } from "./extract";
import { articleReady } from "./reader";
import { Fault, type FaultShape } from "./fault";
import { ariaOption, checkable, field, prepareField, selectNative, setField, syntheticType, unknownOption } from "./fields";
import { find } from "./find";
import { framesBut, frameSpot, seat } from "./frames";
import { aimDrag, aimSlide, syntheticContext, syntheticDouble, syntheticDrag, syntheticHover } from "./gestures";
import { syntheticEnter, syntheticPress } from "./keys";
import { isSensitiveField } from "./names";
import { capture, locate } from "./locator";
import { begin, labelOf, nextNumber, pin, type Pointer, refOf, resolve, sweep } from "./refs";
import { observe } from "./render";
import { isDisabled, roleOf } from "./roles";
import { bounds, slideValue } from "./sliders";
import { markBefore, remember, settle } from "./settle";
import { valueOf } from "./states";
import { waitFor, type WaitFor } from "./wait";

/** What the service worker sends: an operation, its arguments, and the numbering of this frame. */
export interface PageCall {
  /** Counts the calls of one channel; the answer carries it. */
  readonly call: number;
  /** The number of a twofold call's later answer. */
  readonly later?: number;
  readonly op: keyof typeof OPS;
  readonly args: never;
  readonly frame: number;
  readonly first: number;
  readonly id: number;
  /** Milliseconds that reading the page may take. */
  readonly limit: number;
}

/** `wait`: milliseconds that trusted input may take to arrive; absent for a click by script. */
type ClickArgs = Pointer & { readonly wait?: number };

const cancelled = new Set<number>();

/** A line about the element for the worker: role and name as it was told them. */
const called = (el: Element): string => `${roleOf(el) || "element"} ${JSON.stringify(labelOf(el))}`;

const named = (el: Element): { el: Element; said: string } => ({ el, said: called(el) });

const OPS = {
  observe(args: { mode: ObserveMode; maxElements: number; maxChars: number; cursor?: string; header: boolean }) {
    return onePass(() => {
      const seen = observe(args.mode, args.maxElements, args.maxChars, args.cursor, args.header);
      const version = pageVersion();
      remember(version);
      sweep();
      return { ...seen, version };
    });
  },

  find(args: { query: string; role?: string; limit: number }) {
    return onePass(() => ({ text: find(args.query, args.role, args.limit), version: pageVersion() }));
  },

  /** Clicks by script, or aims for a trusted click and arms the guard. */
  click(args: ClickArgs) {
    const { el, said } = onePass(() => {
      const found = required(args);
      return { el: found, said: called(found) };
    });
    const at = aim(el);
    const { wait } = args;
    if (wait !== undefined) {
      // The answer goes first: the input it leads to can't arrive before this task is over.
      afterwards = async () => {
        markBefore(el);
        armGuard(el);
        await arrival(wait);
        return await settle();
      };
    } else {
      markBefore(el);
      syntheticClick(at);
    }
    return { x: at.x, y: at.y, said };
  },

  /** Hovers, double or context clicks by script, or aims for trusted input and arms the guard. */
  gesture(args: Pointer & { gesture: Exclude<Gesture, "click" | "drag">; trusted: boolean }) {
    const { el, said } = onePass(() => named(required(args)));
    const at = aim(el);
    markBefore(el);
    if (args.trusted) {
      armGuard(el);
    } else if (args.gesture === "hover") {
      syntheticHover(at);
    } else if (args.gesture === "context") {
      syntheticContext(at);
    } else {
      syntheticClick(at);
      syntheticClick(at);
      syntheticDouble(at);
    }
    return { x: at.x, y: at.y, said };
  },

  /** Drags to another element, or a slider's handle to a `part` of its track: by script, or aimed and guarded. */
  async drag(args: Pointer & { end?: Pointer; part?: number; trusted: boolean }) {
    const { el, said, aimed } = onePass(() => {
      const from = named(required(args));
      const end = args.end === undefined ? null : named(required(args.end));
      const aimed = end === null ? aimSlide(from.el, args.part ?? 0) : aimDrag(from.el, end.el);
      return { el: from.el, said: end === null ? from.said : `${from.said} to ${end.said}`, aimed };
    });
    markBefore(el);
    if (args.trusted) armGuard(el);
    else await syntheticDrag(aimed);
    const { from, to, beyond, native } = aimed;
    return { x: from.x, y: from.y, to, beyond, native, said };
  },

  /** Types by script, or focuses and selects for trusted typing. */
  async type(args: Pointer & { text: string; clear: boolean; trusted: boolean }) {
    const asked = required(args);
    const { el, setOnly } = field(asked);
    const said = called(asked);
    markBefore(el);
    typed = { el: new WeakRef(el), text: args.text, clear: args.clear, before: valueOf(el) ?? "" };
    const byScript = !args.trusted || setOnly;
    let took = true;
    if (setOnly && isInput(el)) setField(el, args.text);
    else if (byScript) took = await syntheticType(el, args.text, args.clear);
    else await prepareField(el, args.clear);
    return { said, byScript, took };
  },

  /** After trusted typing: whether the field holds the text; if it took nothing at all, types by script. */
  async typed() {
    const el = typed?.el.deref();
    if (typed === null || el === undefined || !isConnected(el)) return { byScript: false, took: true };
    const value = valueOf(el) ?? "";
    const wanted = typed.clear ? typed.text : typed.before + typed.text;
    const untouched = value === typed.before && wanted !== typed.before;
    if (untouched) return { byScript: true, took: await syntheticType(el, typed.text, typed.clear) };
    return { byScript: false, took: true };
  },

  enter() {
    const el = typed?.el.deref();
    if (el !== undefined) syntheticEnter(el);
    return {};
  },

  /** Focuses what the key is for; by script also presses it. */
  press(args: Pointer & { key: Key; times: number; trusted: boolean }) {
    const el = resolve(args);
    if (el !== null) focus(el);
    markBefore(el ?? deepActive());
    if (!args.trusted) for (let i = 0; i < args.times; i++) syntheticPress(args.key);
    return {};
  },

  /** Native lists are chosen at once; for others says what kind of element it is. */
  select(args: Pointer & { values?: string[]; checked?: boolean }) {
    const el = required(args);
    const said = called(el);
    if (args.checked !== undefined) {
      const { state, radio } = checkable(el);
      if (radio && !args.checked) throw new Fault("invalid-arguments", "A radio button can only be chosen, not cleared");
      return { said, done: state === args.checked, kind: "check" as const, ref: refOf(el, roleOf(el), labelOf(el)) };
    }
    const values = args.values ?? [];
    if (isSelect(el)) {
      markBefore(el);
      selectNative(el, values);
      return { said, done: true, kind: "native" as const, ref: "" };
    }
    const role = roleOf(el);
    if (role === "slider" || role === "spinbutton") {
      const wanted = Number(values[0]);
      if (values.length !== 1 || Number.isNaN(wanted)) throw new Fault("invalid-arguments", "This takes exactly one number", { next: "browser_page_select" });
      return { said, done: slideValue(el) === wanted, kind: "slider" as const, ref: refOf(el, role, labelOf(el)) };
    }
    if (role !== "listbox" && role !== "combobox" && role !== "button" && role !== "tree" && role !== "radiogroup" && role !== "menu") {
      throw new Fault("invalid-arguments", "The element is no list of options", { next: "browser_page_observe" });
    }
    return { said, done: false, kind: "aria" as const, ref: refOf(el, role, labelOf(el)) };
  },

  /** A slider's range and where it stands; a native one is set at once. */
  slide(args: { ref: string; value: number }) {
    const el = required({ ref: args.ref });
    if (isDisabled(el)) throw new Fault("disabled", "The slider is disabled", { retryable: true, next: "browser_page_observe" });
    const { min, max } = bounds(el);
    if (args.value < min || args.value > max) throw new Fault("invalid-arguments", "The value is outside of the slider's range", { next: "browser_page_observe" });
    markBefore(el);
    if (isInput(el)) setField(el, String(args.value));
    return { min, max, now: slideValue(el), native: isInput(el) };
  },

  /** The ref of a visible option; waits up to `timeout` ms for one to appear. */
  async option(args: { ref: string; value: string; timeout: number }) {
    const owner = required({ ref: args.ref });
    const end = performance.now() + args.timeout;
    for (;;) {
      const { option, count } = ariaOption(owner, args.value);
      if (option !== null) {
        const chosen = attr(option, "aria-selected") === "true" && attr(owner, "aria-multiselectable") === "true";
        return { ref: refOf(option, roleOf(option), labelOf(option)), chosen };
      }
      if (performance.now() >= end) {
        if (args.timeout === 0) return { ref: "", chosen: false };
        throw unknownOption(count);
      }
      await new Promise((done) => setTimeout(done, 50));
    }
  },

  scroll(args: Pointer & { viewports?: number; to?: ScrollTo }) {
    return { text: scroll(args, resolve(args)), version: pageVersion() };
  },

  async wait(args: WaitFor, id: number) {
    const text = await waitFor(args, () => cancelled.has(id));
    return { text, version: pageVersion() };
  },

  async extract(args: Pointer & Extraction & { region_ref?: string; still: boolean }, id: number, limit: number) {
    const end = performance.now() + limit;
    const read = <T>(work: () => T): T => withinBudget(Math.max(end - performance.now(), 1), () => onePass(work));
    const region = read(() => (args.region_ref === undefined ? resolve(args) : resolve({ ref: args.region_ref })));
    // What is left after the last look is for shaping the answer.
    const seen = await extract(args, region, { read, end: end - limit / 5, stopped: () => cancelled.has(id), still: args.still });
    return { ...seen, version: read(pageVersion) };
  },

  /** Whether the part of the runtime that is loaded on demand is here. */
  has(args: { part: "article" }) {
    return { here: args.part === "article" && articleReady() };
  },

  /** The element's box in page coordinates of this frame, after scrolling it into view; or the page's own sizes. */
  box(args: Pointer) {
    const el = resolve(args);
    if (el !== null) {
      el.scrollIntoView({ block: "center", inline: "center", behavior: "instant" });
      const rect = rectOf(el);
      if (rect.width < 1 || rect.height < 1) throw new Fault("not-visible", "The element has no area", { retryable: true, next: "browser_page_observe" });
      return { x: rect.x + scrollX, y: rect.y + scrollY, width: rect.width, height: rect.height, scale: devicePixelRatio, said: called(el) };
    }
    const root = rootElement(document);
    return {
      x: 0,
      y: 0,
      width: Math.max(root?.scrollWidth ?? 0, innerWidth),
      height: Math.max(root?.scrollHeight ?? 0, innerHeight),
      scale: devicePixelRatio,
      viewWidth: innerWidth,
      viewHeight: innerHeight,
      pdf: isPdf(),
      scrollX,
      scrollY,
      said: "",
    };
  },

  /** Blots out sensitive fields, until `unmask`; and, if `shown` is given, all frames but those: they can't be asked. */
  mask(args: { shown?: number[] }) {
    unmask();
    const root = rootElement(document);
    if (root === null) return { count: 0 };
    if (args.shown !== undefined) masked.push(...framesBut(args.shown).map(hide));
    const visit = (el: Element): void => {
      if (isSensitiveField(el) && el instanceof HTMLElement) masked.push(blot(el));
      eachChild(el, (node) => {
        if (nodeType(node) === 1 && isElement(node)) visit(node);
      });
    };
    visit(root);
    return { count: masked.length };
  },

  unmask() {
    unmask();
    return {};
  },

  locator(args: Pointer) {
    const el = onePass(() => required(args));
    return { locator: onePass(() => capture(el)), said: called(el), version: pageVersion() };
  },

  locate(args: { locator: Locator }) {
    const el = onePass(() => locate(args.locator));
    return { text: `[${refOf(el, roleOf(el), labelOf(el))}] ${called(el)}`, version: pageVersion() };
  },

  seat,

  frameSpot,

  travel(args: { step: -1 | 1 }) {
    history.go(args.step);
    return {};
  },

  async settle() {
    return await settle();
  },

  /** All input was delivered: what has not come by now went elsewhere. */
  arrived() {
    inputArrived();
    return {};
  },

  cancel(args: { id: number }) {
    cancelled.add(args.id);
    if (cancelled.size > 1_000) cancelled.clear();
    return {};
  },

  state() {
    return { version: pageVersion(), pdf: isPdf() };
  },
};

interface Typed {
  readonly el: WeakRef<Element>;
  readonly text: string;
  readonly clear: boolean;
  readonly before: string;
}

/** What a twofold call does once its first answer is on its way, in the same task; gives the later answer. */
let afterwards: (() => Promise<unknown>) | null = null;
let typed: Typed | null = null;
let masked: (() => void)[] = [];

function unmask(): void {
  for (const restore of masked) restore();
  masked = [];
}

/** Hides an element but not its place; gives back the way back. */
function hide(el: HTMLElement): () => void {
  const value = el.style.getPropertyValue("visibility");
  const priority = el.style.getPropertyPriority("visibility");
  const had = attr(el, "style");
  el.style.setProperty("visibility", "hidden", "important");
  return () => {
    if (value === "") el.style.removeProperty("visibility");
    else el.style.setProperty("visibility", value, priority);
    if (had === null && attr(el, "style") === "") el.removeAttribute("style");
  };
}

/** Hides what a field shows by inline style, without changing its size; gives back the way back. */
function blot(el: HTMLElement): () => void {
  const names = ["color", "-webkit-text-fill-color", "background", "text-shadow", "caret-color"] as const;
  const saved = names.map((name) => [el.style.getPropertyValue(name), el.style.getPropertyPriority(name)] as const);
  const had = attr(el, "style");
  for (const name of names) el.style.setProperty(name, name === "text-shadow" ? "none" : "black", "important");
  return () => {
    names.forEach((name, i) => {
      const [value, priority] = saved[i] ?? ["", ""];
      if (value === "") el.style.removeProperty(name);
      else el.style.setProperty(name, value, priority);
    });
    if (had === null && attr(el, "style") === "") el.removeAttribute("style");
  };
}

/** Operations that read all of the page in one go. */
const READS: ReadonlySet<string> = new Set(["observe", "find", "state"]);

const CHANNEL = "browsercell";

interface Runtime {
  readonly version: 1;
}

const scope = globalThis as { __browsercell?: Runtime };

if (scope.__browsercell === undefined) {
  scope.__browsercell = { version: 1 };
  chrome.runtime.onConnect.addListener((port) => {
    // Only the service worker speaks to pages: it is no tab and no other extension.
    if (port.name !== CHANNEL || port.sender?.id !== chrome.runtime.id || port.sender.tab !== undefined) return;
    port.onMessage.addListener((message: unknown) => {
      const call = message as PageCall;
      if (!Object.hasOwn(OPS, call.op)) return;
      const post = (number: number, text: string): void => {
        try {
          port.postMessage([number, text]);
        } catch {
          // the service worker has gone meanwhile; nobody waits for this answer
        }
      };
      void answer(call).then((text) => {
        post(call.call, text);
        pin();
        const rest = afterwards;
        afterwards = null;
        const { later } = call;
        if (rest !== null && later !== undefined) void packed(rest).then((more) => post(later, more));
      });
    });
  });
}

const isPdf = (): boolean => contentTypeOf(document) === "application/pdf";

/** What can be done with a PDF: its viewer is an extension of the browser's, which no other one may look into. */
const OPS_OF_PDF: ReadonlySet<string> = new Set(["travel", "mask", "unmask", "box", "has", "seat", "state"]);

function answer(call: PageCall): Promise<string> {
  return packed(() => {
    if (isPdf() && !OPS_OF_PDF.has(call.op)) {
      throw new Fault("pdf-page", "The page is a PDF, which can't be read", { refsValid: false, next: "browser_page_screenshot" });
    }
    begin(call.first, call.frame);
    const run = OPS[call.op] as (args: unknown, id: number, limit: number) => unknown;
    const work = () => run(call.args, call.id, call.limit);
    return READS.has(call.op) ? withinBudget(call.limit, work) : work();
  });
}

/** What `work` gives or how it failed, as the text of an answer. */
async function packed(work: () => unknown): Promise<string> {
  let shape: FaultShape;
  try {
    const ok = await work();
    return JSON.stringify({ ok, url: location.href, title: titleOf(document), next: nextNumber() });
  } catch (error) {
    shape = error instanceof Fault ? error.shape : { code: "internal", message: "The page runtime failed" };
  }
  return JSON.stringify({ fault: shape, url: location.href, title: titleOf(document), next: nextNumber() });
}
