/**
 * Trusted input through `chrome.debugger`: mouse, drags, text, keys; and whether a command uses it.
 *
 * `always`: attach at the first input and keep the attachment. `auto`: trusted where the debugger is attached anyway,
 * attaching only for what a script cannot do (keys, hovering, drags) and letting go soon after. `never`: scripts only.
 */

import { chordOf, type KeyFacts, keyOfCharacter } from "../keyboard";
import type { InputMode, Key } from "../wire";
import type { Debugger } from "./attachment";
import { pause } from "./ops";

export const HOLDER = "input";
const SCROLLING = "scrolling";
/** `auto` lets go this long after the last input: letting go and attaching again between two keys would move Chrome's bar each time. */
const LINGER_MS = 3_000;
const DRAG_STEPS = 8; // sortable lists need to see the pointer pass what lies between
const DRAG_BEGIN_MS = 150; // Chrome says within a frame or two that a drag of its own has begun
/** Text up to this long goes key by key, as widgets that listen for keys expect; of a longer one only the last key does. */
const KEYED_CHARS = 200;

/** Bits of Input.dispatchKeyEvent's modifiers. */
const ALT = 1;
const CONTROL = 2;
const META = 4;
const SHIFT = 8;
/** On a Mac the editing combinations are Command's, and Chrome is told the command: it comes from the system's menu there. */
const MAC_COMMANDS: Readonly<Record<string, readonly string[]>> = {
  a: ["selectAll"],
  b: ["toggleBold"],
  c: ["copy"],
  i: ["toggleItalic"],
  v: ["paste"],
  x: ["cut"],
  y: ["redo"],
  z: ["undo"],
};
const ON_MAC = (navigator as { userAgentData?: { platform?: string } }).userAgentData?.platform === "macOS";
const CLIPBOARD: ReadonlySet<Key> = new Set<Key>(["Control+C", "Control+X", "Control+V"]);

export interface Point {
  readonly x: number;
  readonly y: number;
}

export class Input {
  mode: InputMode = "never";
  /** The browser is the user's own, with their clipboard. */
  users = true;
  readonly #debugger: Debugger;
  readonly #lettingGo = new Map<number, ReturnType<typeof setTimeout>>();

  constructor(dbg: Debugger) {
    this.#debugger = dbg;
  }

  /** Whether the key would read or write a clipboard that is the user's. */
  refused(key: Key): boolean {
    return this.users && CLIPBOARD.has(key);
  }

  /** Runs `work` while a tab in the background draws: pages that draw only what is in view go on there. */
  async drawing<T>(tab: number, work: () => Promise<T>): Promise<T> {
    if (this.mode === "never") return await work();
    const held = await this.#debugger.hold(tab, SCROLLING).then(
      () => true,
      () => false, // no debugger may come here: what can be read without is read
    );
    try {
      return await work();
    } finally {
      if (held) await this.#debugger.release(tab, SCROLLING);
    }
  }

  /** Whether this command's input is trusted; attaches where the mode says so. `needed`: a script can't do it well. */
  async trusted(tab: number, needed: boolean): Promise<boolean> {
    switch (this.mode) {
      case "never":
        return false;
      case "auto":
        if (!needed && !this.#debugger.attached(tab)) return false;
    }
    try {
      await this.#debugger.hold(tab, HOLDER);
      if (this.mode === "auto") this.letGo(tab);
      return true;
    } catch {
      return false; // no debugger may come here: by script then, and the reply says so
    }
  }

  /** Lets go of the tab a while after its last input. */
  letGo(tab: number): void {
    clearTimeout(this.#lettingGo.get(tab));
    const timer = setTimeout(() => {
      this.#lettingGo.delete(tab);
      if (this.mode === "auto") this.#debugger.release(tab, HOLDER).catch(() => undefined); // the tab has gone meanwhile
    }, LINGER_MS);
    this.#lettingGo.set(tab, timer);
  }

  /** Presses and releases the left button at a point of the main frame's viewport. Both are sent before either is awaited. */
  async click(tab: number, x: number, y: number): Promise<void> {
    const at = { x, y, button: "left", clickCount: 1 };
    await Promise.all([
      this.#debugger.send(tab, "Input.dispatchMouseEvent", { type: "mousePressed", buttons: 1, ...at }),
      this.#debugger.send(tab, "Input.dispatchMouseEvent", { type: "mouseReleased", buttons: 0, ...at }),
    ]);
  }

  /** Moves the pointer to a point and leaves it there. It comes from one side, so that the page sees it arrive. */
  async hover(tab: number, { x, y }: Point): Promise<void> {
    await this.#mouse(tab, "mouseMoved", { x: Math.max(x - 2, 0), y }, "none", 0);
    await this.#mouse(tab, "mouseMoved", { x, y }, "none", 0);
  }

  async doubleClick(tab: number, at: Point): Promise<void> {
    await this.hover(tab, at);
    const sent: Promise<void>[] = [];
    for (const count of [1, 2]) {
      sent.push(this.#mouse(tab, "mousePressed", at, "left", 1, count), this.#mouse(tab, "mouseReleased", at, "left", 0, count));
    }
    await Promise.all(sent);
  }

  async contextClick(tab: number, at: Point): Promise<void> {
    await this.hover(tab, at);
    await Promise.all([this.#mouse(tab, "mousePressed", at, "right", 2), this.#mouse(tab, "mouseReleased", at, "right", 0)]);
  }

  /**
   * Drags from one point to another, over what lies between, a little past the end's middle (`beyond`): lists that sort decide
   * there. `native`: the element may start a drag of Chrome's own, which is then led by its data and not by the mouse.
   */
  async drag(tab: number, from: Point, to: Point, beyond: Point, native: boolean): Promise<void> {
    const begun = native ? await this.#debugger.interceptDrag(tab) : null;
    try {
      await this.hover(tab, from);
      await this.#mouse(tab, "mousePressed", from, "left", 1);
      const way = path(from, to, beyond);
      for (const [i, point] of way.entries()) {
        await this.#mouse(tab, "mouseMoved", point, "left", 1);
        if (i !== 1 || begun === null) continue;
        const data = await Promise.race([begun.begun, pause(DRAG_BEGIN_MS).then(() => null)]);
        if (data === null) continue; // the page drags by itself
        for (const [type, at] of [["dragEnter", point], ["dragOver", to], ["dragOver", beyond], ["drop", beyond]] as const) {
          await this.#debugger.send(tab, "Input.dispatchDragEvent", { type, x: at.x, y: at.y, data });
        }
        break;
      }
    } finally {
      await this.#mouse(tab, "mouseReleased", beyond, "left", 0);
      if (native) await this.#debugger.send(tab, "Input.setInterceptDrags", { enabled: false });
    }
  }

  async #mouse(tab: number, type: string, { x, y }: Point, button: string, buttons: number, clickCount = 1): Promise<void> {
    await this.#debugger.send(tab, "Input.dispatchMouseEvent", { type, x, y, button, buttons, ...(type === "mouseMoved" ? {} : { clickCount }) });
  }

  /** Puts text in place of the selection: by keys where a keyboard has them, and by insertion. All is sent before any is awaited. */
  async text(tab: number, text: string): Promise<void> {
    if (text === "") return await this.press(tab, "Backspace");
    const from = text.length <= KEYED_CHARS ? 0 : text.length - 1;
    const parts = [...(from > 0 ? [text.slice(0, from)] : []), ...(text.slice(from).match(/[ -~]|[^ -~]+/g) ?? [])];
    await Promise.all(
      parts.flatMap((part) => (/^[ -~]$/.test(part) ? this.#stroke(tab, keyOfCharacter(part), 0) : [this.#debugger.send(tab, "Input.insertText", { text: part })])),
    );
  }

  async press(tab: number, key: Key, times = 1): Promise<void> {
    const chord = chordOf(key);
    const commands = chord.control && ON_MAC ? (MAC_COMMANDS[chord.key] ?? []) : [];
    const control = commands.length > 0 ? META : CONTROL;
    const modifiers = (chord.shift ? SHIFT : 0) + (chord.control ? control : 0) + (chord.alt ? ALT : 0);
    const sent: Promise<unknown>[] = [];
    for (let i = 0; i < times; i++) sent.push(...this.#stroke(tab, chord, modifiers, commands));
    await Promise.all(sent);
  }

  #stroke(tab: number, facts: KeyFacts, modifiers: number, commands: readonly string[] = []): Promise<unknown>[] {
    const base = { key: facts.key, code: facts.code, windowsVirtualKeyCode: facts.keyCode, modifiers };
    // With Control or Alt a key makes no character, but Enter is one still.
    const text = (modifiers & ~SHIFT) === 0 || facts.key === "Enter" ? facts.text : undefined;
    const down = text === undefined ? { type: "rawKeyDown", ...base, commands } : { type: "keyDown", text, unmodifiedText: text, ...base };
    return [this.#debugger.send(tab, "Input.dispatchKeyEvent", down), this.#debugger.send(tab, "Input.dispatchKeyEvent", { type: "keyUp", ...base })];
  }
}

/** The pointer's way: two small steps that begin a drag, even steps to `to`, then `beyond`, twice, for what reacts one step late. */
function path(from: Point, to: Point, beyond: Point): Point[] {
  const along = (part: number): Point => ({ x: from.x + (to.x - from.x) * part, y: from.y + (to.y - from.y) * part });
  const length = Math.hypot(to.x - from.x, to.y - from.y) || 1;
  const way = [along(Math.min(4 / length, 0.3)), along(Math.min(8 / length, 0.6))];
  for (let i = 1; i <= DRAG_STEPS; i++) way.push(along(i / DRAG_STEPS));
  return [...way, beyond, beyond];
}
