/**
 * Typing by script into editable content that an editor's own code looks after (Quill, ProseMirror, Lexical, TinyMCE and their kind).
 *
 * Editors keep a document of their own and draw it: what counts is that they take the text, and they tell only by drawing. So one
 * way after the other is tried, from the one nearest to a user's typing to the bluntest, until what is drawn holds the text.
 */

import { focus } from "./act";
import { collapse, flatContains, textContent } from "./dom";
import { turn } from "./turns";

const SELECTION_TURNS = 20; // the word of a new selection comes within one or two
const DRAW_MS = 30; // editors draw in the next task or the next frame

/** Puts `text` into `el` in place of its content, or after it. Gives whether the editor took it. */
export async function typeIntoEditor(el: HTMLElement, text: string, clear: boolean): Promise<boolean> {
  const ways = text === "" ? [remove] : [insert, announceInsertion, paste, writeOver(clear)];
  const before = held(el);
  for (const way of ways) {
    focus(el);
    await selectContent(el, clear);
    way(el, text);
    await drawn();
    if (text === "" ? held(el) === "" : held(el) !== before && held(el).includes(flat(text))) return true;
    if (held(el) !== before) return false; // it took something else: trying on would write twice
  }
  return false;
}

const flat = (text: string): string => collapse(text).replace(/\s/g, "");
/** Without white space: editors break lines into blocks of their own. */
const held = (el: Element): string => flat((textContent(el) ?? "").replace(/[\u200b\ufeff]/g, ""));

/** Until the page has had its turn. In a tab nobody sees timers wait for up to a second; what it does at once is done by then. */
async function drawn(): Promise<void> {
  for (let i = 0; i < 4; i++) await turn();
  if (document.visibilityState === "visible") await new Promise((done) => setTimeout(done, DRAW_MS));
}

const send = (el: Element, event: Event): boolean => EventTarget.prototype.dispatchEvent.call(el, event);

/**
 * Selects all of an editable element, or puts the caret at its end, and resolves when the editor has been told: those with a
 * document of their own go by the selection they heard of last.
 */
export async function selectContent(el: Element, clear: boolean): Promise<void> {
  let heard = false;
  const listener = (): void => {
    heard = true;
  };
  document.addEventListener("selectionchange", listener, { capture: true });
  // The command selects text where the method would select the element around it, which some editors can't follow.
  document.execCommand("selectAll");
  const selection = getSelection();
  const inside = selection !== null && selection.rangeCount > 0 && selection.anchorNode !== null && flatContains(el, selection.anchorNode as Element);
  if (!inside || !flatContains(el, selection.focusNode as Element)) selection?.selectAllChildren(el);
  if (!clear) selection?.collapseToEnd();
  for (let turns = 0; !heard && turns < SELECTION_TURNS; turns++) await turn();
  document.removeEventListener("selectionchange", listener, { capture: true });
}

function remove(): void {
  document.execCommand("delete");
}

function insert(_el: Element, text: string): void {
  document.execCommand("insertText", false, text);
}

/** For editors that act on the announcement and leave nothing to the browser. */
function announceInsertion(el: Element, text: string): void {
  send(el, new InputEvent("beforeinput", { bubbles: true, cancelable: true, composed: true, inputType: "insertText", data: text }));
}

function paste(el: Element, text: string): void {
  const clipboardData = new DataTransfer();
  clipboardData.setData("text/plain", text);
  send(el, new ClipboardEvent("paste", { bubbles: true, cancelable: true, composed: true, clipboardData }));
}

const writeOver =
  (clear: boolean) =>
  (el: Element, text: string): void => {
    el.textContent = clear ? text : (el.textContent ?? "") + text;
    send(el, new InputEvent("input", { bubbles: true, composed: true, inputType: "insertText", data: text }));
  };
