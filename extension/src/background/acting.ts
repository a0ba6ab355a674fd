/**
 * The worker tools that act on a page: each takes checked arguments and gives a reply or throws a Failure.
 *
 * An action marks the state before, acts once, settles, and reports what changed.
 */

import type { Changes, ClickArgs, InputKind, PageReply, PressArgs, SelectArgs, TypeArgs } from "../wire";
import type { Settled } from "../page/settle";
import { type Context, left } from "./command";
import { Failure, isCutOff } from "./failure";
import { DRAWN_MS, outwards } from "./frames";
import type { Watch } from "./navigation";
import { Ops, pause, pick, type Pointing } from "./ops";
import type { Answer } from "./pages";
import { dialogChange } from "./tabs";

const NETWORK_MS = 500; // what an action set going on the network may take before the reply goes out
const ARRIVAL_MS = 20; // between the browser's word that input was delivered and the page's own: either may be first
const BEGIN_MS = 1_000; // a navigation that the page announced begins within this, or never

export class Acting extends Ops {
  async click(tab: number, args: ClickArgs, context: Context): Promise<PageReply> {
    return await this.inFrames(tab, args, context, (frame) => this.#click(tab, frame, pick(args, "ref", "name", "role", "target"), context));
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
      this.pages.call<{ said: string; byScript: boolean }>(
        tab,
        frame,
        "type",
        { ...pick(args, "ref", "target"), text: args.text, clear: args.clear ?? true, trusted },
        context,
      ),
    );
    let byScript = prepared.ok.byScript;
    if (!byScript) {
      await this.input.text(tab, args.text);
      byScript = (await this.pages.call<{ byScript: boolean }>(tab, frame, "typed", {}, context)).ok.byScript;
    }
    if (args.submit === true) {
      if (trusted) await this.input.press(tab, "Enter");
      else await this.#lastWords(() => this.pages.call(tab, frame, "enter", {}, context));
    }
    const done = await this.#settle(tab, frame, before, context);
    return reply(`Typed into ${prepared.ok.said}${args.submit === true ? " and pressed Enter" : ""}`, done, byScript ? "synthetic" : "trusted");
  }

  async press(tab: number, args: PressArgs, context: Context): Promise<PageReply> {
    return await this.inFrames(tab, args, context, async (frame) => {
      const trusted = await this.input.trusted(tab, true);
      const before = await this.#before(tab);
      await this.#effective(context, () => this.pages.call(tab, frame, "press", { ...pick(args, "ref", "target"), key: args.key, trusted }, context));
      if (trusted) await this.input.press(tab, args.key);
      const done = await this.#settle(tab, frame, before, context);
      return reply(`Pressed ${args.key}`, done, trusted ? "trusted" : "synthetic");
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

interface Dispatched {
  readonly said: string;
  readonly settled: Promise<Answer<Settled>> | null;
}

interface Chosen {
  readonly said: string;
  readonly done: boolean;
  readonly kind: "native" | "check" | "aria";
  readonly ref: string;
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

/** The bridge puts the changes into words; only what it can't know is said here. */
function reply(said: string, done: Done, input: InputKind): PageReply {
  const text = done.failed === "" ? said : `${said}; the page it leads to did not load`;
  return { text, url: done.url, title: done.title, version: done.version, input, changes: done.changes, settleUs: done.settleUs };
}
