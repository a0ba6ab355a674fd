/**
 * Trusted input through `chrome.debugger`: mouse, text, keys; and whether a command uses it.
 *
 * `always`: attach at the first input and keep the attachment. `auto`: trusted where the debugger is attached anyway,
 * attaching only for what a script cannot do (keys). `never`: scripts only.
 */

import type { InputMode, Key } from "../wire";
import type { Debugger } from "./attachment";

export const HOLDER = "input";
const SCROLLING = "scrolling";

interface KeyFacts {
  readonly key: string;
  readonly code: string;
  readonly keyCode: number;
  readonly text?: string;
  readonly shift?: boolean;
}

const KEYS: Readonly<Record<Key, KeyFacts>> = {
  Enter: { key: "Enter", code: "Enter", keyCode: 13, text: "\r" },
  Tab: { key: "Tab", code: "Tab", keyCode: 9 },
  "Shift+Tab": { key: "Tab", code: "Tab", keyCode: 9, shift: true },
  Escape: { key: "Escape", code: "Escape", keyCode: 27 },
  Space: { key: " ", code: "Space", keyCode: 32, text: " " },
  Backspace: { key: "Backspace", code: "Backspace", keyCode: 8 },
  Delete: { key: "Delete", code: "Delete", keyCode: 46 },
  ArrowUp: { key: "ArrowUp", code: "ArrowUp", keyCode: 38 },
  ArrowDown: { key: "ArrowDown", code: "ArrowDown", keyCode: 40 },
  ArrowLeft: { key: "ArrowLeft", code: "ArrowLeft", keyCode: 37 },
  ArrowRight: { key: "ArrowRight", code: "ArrowRight", keyCode: 39 },
  Home: { key: "Home", code: "Home", keyCode: 36 },
  End: { key: "End", code: "End", keyCode: 35 },
  PageUp: { key: "PageUp", code: "PageUp", keyCode: 33 },
  PageDown: { key: "PageDown", code: "PageDown", keyCode: 34 },
};

const SHIFT = 8; // bit of Input.dispatchKeyEvent's modifiers

export class Input {
  mode: InputMode = "never";
  readonly #debugger: Debugger;

  constructor(dbg: Debugger) {
    this.#debugger = dbg;
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
      return true;
    } catch {
      return false; // no debugger may come here: by script then, and the reply says so
    }
  }

  /** Presses and releases the left button at a point of the main frame's viewport. Both are sent before either is awaited. */
  async click(tab: number, x: number, y: number): Promise<void> {
    const at = { x, y, button: "left", clickCount: 1 };
    await Promise.all([
      this.#debugger.send(tab, "Input.dispatchMouseEvent", { type: "mousePressed", buttons: 1, ...at }),
      this.#debugger.send(tab, "Input.dispatchMouseEvent", { type: "mouseReleased", buttons: 0, ...at }),
    ]);
  }

  /** Inserts text at the caret, in place of the selection. */
  async text(tab: number, text: string): Promise<void> {
    if (text === "") await this.press(tab, "Backspace");
    else await this.#debugger.send(tab, "Input.insertText", { text });
  }

  async press(tab: number, key: Key): Promise<void> {
    const facts = KEYS[key];
    const base = {
      key: facts.key,
      code: facts.code,
      windowsVirtualKeyCode: facts.keyCode,
      modifiers: facts.shift === true ? SHIFT : 0,
    };
    const down =
      facts.text === undefined ? { type: "rawKeyDown", ...base } : { type: "keyDown", text: facts.text, unmodifiedText: facts.text, ...base };
    await Promise.all([
      this.#debugger.send(tab, "Input.dispatchKeyEvent", down),
      this.#debugger.send(tab, "Input.dispatchKeyEvent", { type: "keyUp", ...base }),
    ]);
  }
}
