/**
 * What every worker tool of a page shares, whether it reads (`reading.ts`) or acts (`acting.ts`).
 *
 * Main frame first: where a call names an element by role and name, child frames are asked only if the main frame has
 * no such element.
 */

import type { PageReply, Target } from "../wire";
import type { Debugger } from "./attachment";
import type { Context } from "./command";
import { Failure, toFailure } from "./failure";
import type { Input } from "./input";
import type { Navigations } from "./navigation";
import type { Answer, Pages } from "./pages";
import type { Tabs } from "./tabs";

export interface Pointing {
  readonly ref?: string | undefined;
  readonly name?: string | undefined;
  readonly role?: string | undefined;
  readonly target?: Target | undefined;
}

/** A frame that left, or that no extension may read, has no element. */
const GONE: ReadonlySet<string> = new Set(["stale-ref", "error-page", "restricted-page"]);

export abstract class Ops {
  constructor(
    protected readonly pages: Pages,
    protected readonly dbg: Debugger,
    protected readonly input: Input,
    protected readonly navigations: Navigations,
    protected readonly tabs: Tabs,
  ) {}

  /** Runs `work` in the frame that the arguments point at; by role and name in the first frame that has such an element. */
  protected async inFrames<T>(tab: number, pointing: Pointing, context: Context, work: (frame: number) => Promise<T>): Promise<T> {
    const number = /^f([0-9]+)e/.exec(pointing.ref ?? "")?.[1];
    if (number !== undefined) return await work(Number(number));
    try {
      return await work(0);
    } catch (error) {
      if (!(error instanceof Failure) || error.code !== "not-found" || pointing.ref !== undefined) throw error;
      for (const frame of await this.pages.children(tab)) {
        if (frame.silent) continue;
        try {
          return await work(frame.number);
        } catch (inner) {
          // Every other failure is the answer of the frame that has the element.
          if (context.effect || (toFailure(inner).code !== "not-found" && !GONE.has(toFailure(inner).code))) throw inner;
        }
      }
      throw error;
    }
  }

  protected async placeNow(tab: number, context: Context): Promise<PageReply> {
    const { ok, url, title } = await this.pages.call<{ version: string }>(tab, 0, "state", {}, context);
    return { url, title, version: ok.version };
  }

  /** The tab's address and title: a child frame's answer tells its own. */
  protected async place(tab: number, answer: Answer<unknown>): Promise<{ url: string; title: string }> {
    const found = await chrome.tabs.get(tab).catch(() => null); // closing: what the frame said will do
    return found === null ? { url: answer.url, title: answer.title } : { url: found.url ?? answer.url, title: found.title ?? answer.title };
  }
}

export const pause = (ms: number): Promise<void> => new Promise((done) => setTimeout(done, ms));

/** The named fields of `args` that are there. */
export function pick<T extends object, K extends keyof T>(args: T, ...names: K[]): Pick<T, K> {
  const out: Partial<Pick<T, K>> = {};
  for (const name of names) if (args[name] !== undefined && args[name] !== null) out[name] = args[name];
  return out as Pick<T, K>;
}
