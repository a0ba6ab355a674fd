/**
 * The worker tools that act on a page: each takes checked arguments and gives a reply or throws a Failure.
 *
 * An action marks the state before, acts once, settles, and reports what changed.
 */

import { type Changes, type ClickArgs, type Gesture, type InputKind, type Key, MAX_KEY_TIMES, type PageReply, type PressArgs, type SelectArgs, type TypeArgs } from "../wire";
import type { Settled } from "../page/settle";
import { type Context, left } from "./command";
import { Failure, isCutOff } from "./failure";
import { DRAWN_MS, outwards } from "./frames";
import type { Point } from "./input";
import type { Watch } from "./navigation";
import { Ops, pause, pick, type Pointing } from "./ops";
import type { Answer } from "./pages";
import { dialogChange } from "./tabs";

const NETWORK_MS = 500; // what an action set going on the network may take before the reply goes out
const ARRIVAL_MS = 20; // between the browser's word that input was delivered and the page's own: either may be first
const BEGIN_MS = 1_000; // a navigation that the page announced begins within this, or never

const SAID: Readonly<Record<Exclude<Gesture, "click">, string>> = { double: "Double-clicked", context: "Right-clicked", hover: "Hovered over", drag: "Dragged" };

export class Acting extends Ops {
  async click(tab: number, args: ClickArgs, context: Context): Promise<PageReply> {
    const pointing = pick(args, "ref", "name", "role", "target");
    const { gesture = "click" } = args;
    if (gesture === "click") return await this.inFrames(tab, args, context, (frame) => this.#click(tab, frame, pointing, context));
    if (gesture !== "drag") {
      return await this.inFrames(tab, args, context, (frame) => this.#point(tab, frame, gesture, "gesture", { ...pointing, gesture }, context));
    }
    if (args.ref !== undefined && args.to_ref !== undefined && frameOf(args.ref) !== frameOf(args.to_ref)) {
      throw new Failure("invalid-arguments", "A drag can't leave its frame");
    }
    const end = { ref: args.to_ref, target: args.to_target };
    return await this.inFrames(tab, args, context, (frame) => this.#point(tab, frame, "drag", "drag", { ...pointing, end }, context));
  }

  /** Every gesture but the plain click. Trusted ones are sent while the page's guard swallows what would reach another element. */
  async #point(tab: number, frame: number, gesture: Exclude<Gesture, "click">, op: "gesture" | "drag", args: object, context: Context): Promise<PageReply> {
    const trusted = await this.input.trusted(tab, gesture === "hover" || gesture === "drag");
    const before = await this.#before(tab);
    const aimed = await this.#effective(context, () => this.pages.call<Gestured>(tab, frame, op, { ...args, trusted }, context));
    const { said } = aimed.ok;
    if (!trusted) return reply(`${SAID[gesture]} ${said}`, await this.#settle(tab, frame, before, context), "synthetic");
    const out = (point: Point): Promise<Point> => outwards(this.pages, tab, frame, point, context);
    const at = await out(aimed.ok);
    switch (gesture) {
      case "hover":
        await this.input.hover(tab, at);
        break;
      case "double":
        await this.input.doubleClick(tab, at);
        break;
      case "context":
        await this.input.contextClick(tab, at);
        break;
      case "drag": {
        const { to = aimed.ok, beyond = to, native = false } = aimed.ok;
        await this.input.drag(tab, at, await out(to), await out(beyond), native);
      }
    }
    await pause(ARRIVAL_MS);
    const done = await this.#settle(tab, frame, before, context);
    if (done.guard === "missed" && !done.moved) {
      context.effect = false; // the page's guard swallowed it
      throw new Failure("covered", "Something else lies where the element was", { retryable: true, nextTool: "browser_page_observe" });
    }
    return reply(`${SAID[gesture]} ${said}`, done, "trusted");
  }

  async #click(tab: number, frame: number, pointing: Pointing, context: Context): Promise<PageReply> {
    const trusted = await this.input.trusted(tab, false);
    const before = await this.#before(tab);
    for (let attempt = 1; ; attempt++) {
      const { said, settled } = await this.#dispatchClick(tab, frame, pointing, trusted, context);
      const done = await this.#settle(tab, frame, before, context, settled);
      const guard = done.guard;
      if (!trusted || guard === "hit" || done.moved) {
        return reply(`Clicked ${said}`, done, trusted ? "trusted" : "synthetic");
      }
      // Swallowed, or never arrived: nothing happened, and Chrome's bar may just have moved the page. Once more.
      context.effect = false;
      if (frame !== 0) await pause(DRAWN_MS);
      if (attempt === 2) {
        if (guard === "missed") throw new Failure("covered", "Something else lies where the element was", { retryable: true, nextTool: "browser_page_observe" });
        throw new Failure("timeout", "The click did not reach the page", { retryable: true, nextTool: "browser_page_observe" });
      }
    }
  }

  /** Clicks by script, or sends the input; `settled`: what the page will say when that has arrived. */
  async #dispatchClick(tab: number, frame: number, pointing: Pointing, trusted: boolean, context: Context): Promise<Dispatched> {
    if (!trusted) {
      const { ok } = await this.#effective(context, () => this.pages.call<Aimed>(tab, frame, "click", pointing, context));
      return { said: ok.said, settled: null };
    }
    const { first, later } = await this.pages.callTwofold<Aimed, Settled>(tab, frame, "click", { ...pointing, wait: left(context, 1_000) }, context);
    const { x, y } = await outwards(this.pages, tab, frame, first.ok, context);
    context.effect = true;
    return { said: first.ok.said, settled: this.#delivered(tab, frame, this.input.click(tab, x, y), later, context) };
  }

  async type(tab: number, args: TypeArgs, context: Context): Promise<PageReply> {
    return await this.inFrames(tab, args, context, (frame) => this.#type(tab, frame, args, context));
  }

  async #type(tab: number, frame: number, args: TypeArgs, context: Context): Promise<PageReply> {
    const trusted = await this.input.trusted(tab, false);
    const before = await this.#before(tab);
    const prepared = await this.#effective(context, () =>
      this.pages.call<{ said: string } & Typed>(
        tab,
        frame,
        "type",
        { ...pick(args, "ref", "target"), text: args.text, clear: args.clear ?? true, trusted },
        context,
      ),
    );
    let { byScript, took } = prepared.ok;
    if (!byScript) {
      await this.input.text(tab, args.text);
      // A page that a key sends away says nothing more.
      await this.#lastWords(async () => ({ byScript, took } = (await this.pages.call<Typed>(tab, frame, "typed", {}, context)).ok));
    }
    if (!took) throw new Failure("not-editable", "The field did not take the text", { mayHaveEffect: true, nextTool: "browser_page_observe" });
    if (args.submit === true) {
      if (trusted) await this.input.press(tab, "Enter");
      else await this.#lastWords(() => this.pages.call(tab, frame, "enter", {}, context));
    }
    const done = await this.#settle(tab, frame, before, context);
    return reply(`Typed into ${prepared.ok.said}${args.submit === true ? " and pressed Enter" : ""}`, done, byScript ? "synthetic" : "trusted");
  }

  async press(tab: number, args: PressArgs, context: Context): Promise<PageReply> {
    if (this.input.refused(args.key)) throw new Failure("policy-denied", "The clipboard of the user's Chrome is not used");
    const { key, times = 1 } = args;
    return await this.inFrames(tab, args, context, async (frame) => {
      const trusted = await this.input.trusted(tab, true);
      const before = await this.#before(tab);
      await this.#effective(context, () => this.pages.call(tab, frame, "press", { ...pick(args, "ref", "target"), key, times, trusted }, context));
      if (trusted) await this.input.press(tab, key, times);
      const done = await this.#settle(tab, frame, before, context);
      return reply(`Pressed ${key}${times === 1 ? "" : ` ${times} times`}`, done, trusted ? "trusted" : "synthetic");
    });
  }

  async select(tab: number, args: SelectArgs, context: Context): Promise<PageReply> {
    return await this.inFrames(tab, args, context, (frame) => this.#select(tab, frame, args, context));
  }

  async #select(tab: number, frame: number, args: SelectArgs, context: Context): Promise<PageReply> {
    const before = await this.#before(tab);
    const chosen = await this.#effective(context, () =>
      this.pages.call<Chosen>(tab, frame, "select", pick(args, "ref", "target", "values", "checked"), context),
    );
    const { kind, said, done, ref } = chosen.ok;
    if (kind === "native") return reply(`Selected in ${said}`, await this.#settle(tab, frame, before, context), "synthetic");
    context.effect = false;
    if (kind === "slider") return await this.#slide(tab, frame, ref, said, Number(args.values?.[0]), context);
    if (kind === "check") {
      if (done) return { text: `${said} is so already`, ...(await this.placeNow(tab, context)) };
      const clicked = await this.#click(tab, frame, { ref }, context);
      const after = await this.pages.call<Chosen>(tab, frame, "select", { ref, checked: args.checked }, context).catch(() => null); // re-rendered: the reply says what was seen
      if (after !== null && !after.ok.done) throw new Failure("internal", "The element did not take the new state", { mayHaveEffect: true, nextTool: "browser_page_observe" });
      return { ...clicked, text: `Set ${said}`, changes: { ...clicked.changes, checked: args.checked === true } };
    }
    let last: PageReply = {};
    for (const value of args.values ?? []) {
      let option = (await this.pages.call<Option>(tab, frame, "option", { ref, value, timeout: 0 }, context)).ok;
      if (option.ref === "") {
        await this.#click(tab, frame, { ref }, context);
        option = (await this.pages.call<Option>(tab, frame, "option", { ref, value, timeout: Math.min(2_000, left(context, 800)) }, context)).ok;
      }
      if (!option.chosen) last = await this.#click(tab, frame, { ref: option.ref }, context);
    }
    return { ...last, ...(await this.placeNow(tab, context)), text: `Selected in ${said}` };
  }

  /**
   * Moves a slider: a native one by its value; others by keys, as ARIA has them, and where keys do not reach the value, by its
   * handle. Verified by what the slider says of itself.
   */
  async #slide(tab: number, frame: number, ref: string, said: string, value: number, context: Context): Promise<PageReply> {
    const before = await this.#before(tab);
    const look = async (): Promise<Slider> => (await this.#effective(context, () => this.pages.call<Slider>(tab, frame, "slide", { ref, value }, context))).ok;
    const start = await look();
    let at = start;
    let how: InputKind = "synthetic";
    if (!at.native && at.now !== value) {
      const trusted = await this.input.trusted(tab, true);
      how = trusted ? "trusted" : "synthetic";
      const press = async (key: Key, times: number): Promise<Slider> => {
        await this.#effective(context, () => this.pages.call(tab, frame, "press", { ref, key, times, trusted }, context));
        if (trusted) await this.input.press(tab, key, times);
        await pause(ARRIVAL_MS);
        return await look();
      };
      // Steps are measured, not believed; the third round is for one that rounds.
      for (let round = 0; round < 3 && at.now !== value; round++) {
        const from = at.now ?? at.min;
        at = await press(from < value ? "ArrowRight" : "ArrowLeft", 1);
        const now = at.now ?? from;
        const step = Math.abs(now - from);
        if (step === 0) break;
        const times = Math.min(Math.round(Math.abs(value - now) / step), MAX_KEY_TIMES);
        if (times > 0) at = await press(now < value ? "ArrowRight" : "ArrowLeft", times);
      }
      if (at.now !== value) {
        await this.#point(tab, frame, "drag", "drag", { ref, part: (value - at.min) / (at.max - at.min || 1) }, context);
        at = await look();
      }
    }
    const done = await this.#settle(tab, frame, before, context);
    const text = at.native || at.now === value ? `Moved ${said} to ${value}` : `Moved ${said}; it now stands at ${at.now ?? "no number"}, not at ${value}`;
    const answer = reply(text, done, how);
    return at.now === start.now && !at.native ? answer : { ...answer, changes: { ...answer.changes, value: true } };
  }

  // -------------------------------------------------------------- helpers

  /** A call that acts inside the page: a fault means nothing was done, silence means something may have been. */
  async #effective<T>(context: Context, call: () => Promise<Answer<T>>): Promise<Answer<T>> {
    const before = context.effect;
    context.effect = true;
    try {
      return await call();
    } catch (error) {
      if (error instanceof Failure && error.untouched) context.effect = before;
      throw error;
    }
  }

  /** A call whose answer may be lost because the page leaves. */
  async #lastWords(call: () => Promise<unknown>): Promise<void> {
    try {
      await call();
    } catch (error) {
      if (!isCutOff(error)) throw error;
    }
  }

  async #before(tab: number): Promise<Before> {
    this.dbg.takeDialog(tab);
    this.dbg.takeDownload(tab);
    return { watch: this.navigations.watch(tab), dialogs: tab, began: performance.now() };
  }

  /** What the page says of trusted input once it has arrived. Throws if the browser refuses the input. */
  async #delivered(tab: number, frame: number, input: Promise<void>, answer: Promise<Answer<Settled>>, context: Context): Promise<Answer<Settled>> {
    let open = true;
    const delivered = input.then(async () => {
      await pause(ARRIVAL_MS);
      // What the page has not seen by now went to another frame, or nowhere.
      if (open) await this.pages.call(tab, frame, "arrived", {}, context, false);
      return await answer;
    });
    try {
      return await Promise.race([answer, delivered]);
    } finally {
      open = false;
      delivered.catch(() => undefined); // the answer came first
    }
  }

  /** Waits for what the action set going, within bounds, and says what changed. */
  async #settle(tab: number, frame: number, before: Before, context: Context, asked: Promise<Answer<Settled>> | null = null): Promise<Done> {
    const { watch } = before;
    let began = performance.now();
    let took = 0;
    const spent = (): number => took + Math.round((performance.now() - began) * 1_000);
    let settled: Answer<Settled> | null = null;
    try {
      settled = await (asked ?? this.pages.call<Settled>(tab, frame, "settle", {}, context, false));
      took = settled.ok.took;
      began = performance.now();
      const end = performance.now() + Math.min(NETWORK_MS, left(context, 1_000));
      let waited = false;
      while (!settled.ok.leaving && !watch.started && this.dbg.busy(tab, before.began) && performance.now() < end) {
        waited = true;
        await pause(20);
      }
      if (waited && !watch.started) {
        const later = await this.pages.call<Settled>(tab, frame, "settle", {}, context, false);
        settled = { ...settled, ok: { ...settled.ok, page: settled.ok.page || later.ok.version !== settled.ok.version, version: later.ok.version } };
      }
    } catch (error) {
      if (!isCutOff(error)) throw error; // the document is leaving
    }
    let moved = false;
    let failed = "";
    if (settled === null || settled.ok.leaving || watch.started) {
      if (await watch.begun(BEGIN_MS, context)) {
        const end = await watch.loaded(context, true);
        moved = end !== "nothing" && end !== "same-document";
        if (typeof end === "object") failed = end.error;
      }
    }
    const changes: Changes = {
      ...(settled?.ok.url === true || moved ? { url: true } : {}),
      ...(settled?.ok.page === true || moved ? { page: true } : {}),
      ...(settled?.ok.focus === true ? { focus: true } : {}),
      ...(settled?.ok.value === true ? { value: true } : {}),
      ...(settled === null || settled.ok.valueLength === null ? {} : { valueLength: settled.ok.valueLength }),
      ...(settled === null || settled.ok.checked === null ? {} : { checked: settled.ok.checked }),
      ...(watch.newTab === undefined ? {} : { newTab: watch.newTab }),
      ...dialogChange(this.dbg.takeDialog(before.dialogs)),
      ...(this.dbg.takeDownload(before.dialogs, settled?.ok.download === true) ? { download: true } : {}),
    };
    const guard = settled?.ok.guard ?? "none";
    if (watch.closed) return { changes, guard, moved: true, failed, url: "", title: "", version: "", settleUs: spent() };
    if (!moved && settled !== null && frame === 0) {
      return { changes, guard, moved, failed, url: settled.url, title: settled.title, version: settled.ok.version, settleUs: spent() };
    }
    const place = failed === "" ? await this.tabs.arrived(tab, context, "completed") : await this.#placeByTab(tab);
    return { changes, guard, moved, failed, url: place.url ?? "", title: place.title ?? "", version: place.version ?? "", settleUs: spent() };
  }

  async #placeByTab(tab: number): Promise<PageReply> {
    const found = await chrome.tabs.get(tab);
    return { url: found.url ?? "", title: found.title ?? "" };
  }
}

interface Aimed {
  readonly x: number;
  readonly y: number;
  readonly said: string;
}

interface Gestured extends Aimed {
  readonly to?: Point;
  readonly beyond?: Point;
  readonly native?: boolean;
}

interface Dispatched {
  readonly said: string;
  readonly settled: Promise<Answer<Settled>> | null;
}

/** `took`: the field holds what was typed, as far as can be told. */
interface Typed {
  readonly byScript: boolean;
  readonly took: boolean;
}

interface Chosen {
  readonly said: string;
  readonly done: boolean;
  readonly kind: "native" | "check" | "aria" | "slider";
  readonly ref: string;
}

interface Slider {
  readonly min: number;
  readonly max: number;
  readonly now: number | null;
  readonly native: boolean;
}

interface Option {
  readonly ref: string;
  readonly chosen: boolean;
}

interface Before {
  readonly watch: Watch;
  readonly dialogs: number;
  readonly began: number;
}

interface Done {
  readonly changes: Changes;
  readonly guard: Settled["guard"];
  /** Another document stands in the tab, or the tab is gone. */
  readonly moved: boolean;
  readonly failed: string;
  readonly url: string;
  readonly title: string;
  readonly version: string;
  readonly settleUs: number;
}

const frameOf = (ref: string): string => /^f[0-9]+/.exec(ref)?.[0] ?? "";

/** The bridge puts the changes into words; only what it can't know is said here. */
function reply(said: string, done: Done, input: InputKind): PageReply {
  const text = done.failed === "" ? said : `${said}; the page it leads to did not load`;
  return { text, url: done.url, title: done.title, version: done.version, input, changes: done.changes, settleUs: done.settleUs };
}
