/**
 * Running commands: one reply each, concurrent across tabs, first in first out within one, each with its own deadline.
 *
 * A command that hangs (a page in a dialog, a crashed renderer) is answered at its deadline and then forgotten; the next
 * one of its tab starts at once. Nothing is retried here.
 */

import type { PageError, PageReply } from "../wire";
import { Failure, toFailure } from "./failure";

/** What an op may use while it runs. */
export interface Context {
  readonly id: number;
  /** `performance.now()` by which the reply must be out. */
  readonly deadline: number;
  readonly signal: AbortSignal;
  /** Set just before the first thing that may change something. */
  effect: boolean;
}

/** Milliseconds left for a wait that must leave time for the reply. */
export const left = (context: Context, spare = 100): number => Math.max(0, context.deadline - performance.now() - spare);

export type Outcome = { readonly ok: PageReply } | { readonly error: PageError };

const MAX_QUEUED = 64; // commands waiting for one tab: a bridge sends one at a time, so more is a fault

export class Runner {
  readonly #tails = new Map<number, Promise<unknown>>();
  readonly #queued = new Map<number, number>();
  readonly #running = new Map<number, AbortController>();
  /** Commands of each tab, waiting ones included. */
  readonly #inTab = new Map<number, Set<AbortController>>();

  /** Runs `work` in its turn and resolves with its one outcome; never rejects. */
  async run(id: number, tab: number | undefined, deadlineMs: number, work: (context: Context) => Promise<PageReply>): Promise<Outcome> {
    const controller = new AbortController();
    const context: Context = { id, deadline: performance.now() + deadlineMs, signal: controller.signal, effect: false };
    if (this.#running.has(id)) return { error: new Failure("internal", "A command with this id is running").toWire(false) };
    this.#running.set(id, controller);
    const inTab = this.#commandsOf(tab);
    inTab?.add(controller);
    try {
      return { ok: await (tab === undefined ? limited(work(context), context) : this.#enqueue(tab, context, work)) };
    } catch (error) {
      return { error: toFailure(error).toWire(context.effect) };
    } finally {
      setTimeout(() => controller.abort(), 0); // whatever is still under way stops waiting; the reply goes first
      this.#running.delete(id);
      inTab?.delete(controller);
      if (tab !== undefined && inTab?.size === 0) this.#inTab.delete(tab);
    }
  }

  cancel(id: number): void {
    this.#running.get(id)?.abort(new Failure("cancelled", "The command was cancelled"));
  }

  /** Ends every command of a tab with `failure`. */
  end(tab: number, failure: Failure): void {
    for (const controller of this.#inTab.get(tab) ?? []) controller.abort(failure);
  }

  #commandsOf(tab: number | undefined): Set<AbortController> | undefined {
    if (tab === undefined) return undefined;
    let commands = this.#inTab.get(tab);
    if (commands === undefined) this.#inTab.set(tab, (commands = new Set()));
    return commands;
  }

  /** The connection is gone: nobody waits any more. */
  abandon(): void {
    for (const controller of this.#running.values()) controller.abort(new Failure("cancelled", "The bridge is gone"));
  }

  async #enqueue(tab: number, context: Context, work: (context: Context) => Promise<PageReply>): Promise<PageReply> {
    const queued = this.#queued.get(tab) ?? 0;
    if (queued >= MAX_QUEUED) throw new Failure("quota-exceeded", "Too many commands wait for this tab", { retryable: true });
    this.#queued.set(tab, queued + 1);
    const before = this.#tails.get(tab);
    const turn = (async () => {
      if (before !== undefined) await before;
      context.signal.throwIfAborted();
      return await work(context);
    })();
    const end = limited(turn, context);
    // The next one waits for this one's end or deadline, whichever is first.
    const tail = end.then(
      () => undefined,
      () => undefined, // its own reply has said so
    );
    this.#tails.set(tab, tail);
    try {
      return await end;
    } finally {
      const count = (this.#queued.get(tab) ?? 1) - 1;
      if (count === 0) this.#queued.delete(tab);
      else this.#queued.set(tab, count);
      if (this.#tails.get(tab) === tail) this.#tails.delete(tab);
    }
  }
}

/** `work`, cut off at the command's deadline or cancellation. */
async function limited<T>(work: Promise<T>, context: Context): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let onAbort: (() => void) | undefined;
  const end = new Promise<never>((_, reject) => {
    const late = (): void => reject(new Failure("timeout", "The command did not finish within its deadline", { retryable: true, nextTool: "browser_page_observe" }));
    timer = setTimeout(late, Math.max(0, context.deadline - performance.now()));
    onAbort = () => {
      const reason: unknown = context.signal.reason;
      if (reason instanceof Failure) reject(reason);
    };
    context.signal.addEventListener("abort", onAbort);
    if (context.signal.aborted) onAbort();
  });
  try {
    return await Promise.race([work, end]);
  } finally {
    clearTimeout(timer);
    if (onAbort !== undefined) context.signal.removeEventListener("abort", onAbort);
    work.catch(() => undefined); // already answered; a late failure has no reader
    end.catch(() => undefined); // likewise
  }
}

/** `work`, or a Failure after `ms`. */
export async function within<T>(work: Promise<T>, ms: number, failure: () => Failure): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(failure()), ms);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
    work.catch(() => undefined); // too late to matter
    late.catch(() => undefined); // likewise
  }
}
