/**
 * What a key of the allow-list is to a page: its names, its code, what it types, and the modifiers held with it.
 *
 * Shared by trusted keys (service worker) and keys by script (page). Pure.
 */

import type { Key } from "./wire";

export interface KeyFacts {
  readonly key: string;
  readonly code: string;
  readonly keyCode: number;
  /** The character it types, if any. */
  readonly text?: string;
}

export interface Chord extends KeyFacts {
  /** The key without its modifiers, as the allow-list calls it. */
  readonly name: string;
  readonly shift: boolean;
  readonly control: boolean;
  readonly alt: boolean;
}

const NAMED: Readonly<Record<string, KeyFacts>> = {
  Enter: { key: "Enter", code: "Enter", keyCode: 13, text: "\r" },
  Tab: { key: "Tab", code: "Tab", keyCode: 9 },
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

export function chordOf(key: Key): Chord {
  const held = key.split("+");
  const name = held.pop() ?? "";
  const facts = NAMED[name] ?? { key: name.toLowerCase(), code: `Key${name}`, keyCode: name.charCodeAt(0) };
  return { ...facts, name, shift: held.includes("Shift"), control: held.includes("Control"), alt: held.includes("Alt") };
}

/** The key of a printable ASCII character, without what a keyboard would need for it: pages look at key and text. */
export function keyOfCharacter(char: string): KeyFacts {
  const upper = char.toUpperCase();
  if (char === " ") return { key: " ", code: "Space", keyCode: 32, text: " " };
  if (/[A-Z]/.test(upper)) return { key: char, code: `Key${upper}`, keyCode: upper.charCodeAt(0), text: char };
  if (/[0-9]/.test(char)) return { key: char, code: `Digit${char}`, keyCode: char.charCodeAt(0), text: char };
  return { key: char, code: "", keyCode: 0, text: char };
}
