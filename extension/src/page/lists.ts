/**
 * `browser_page_extract`, kind list: repeated records as rows.
 *
 * The records around the region, inside it, or, without one, of the largest list of the page. Only what is visible.
 */

import { attr, breaksText, children, collapse, data, eachChild, isConcealed, isElement, isShown, matches, nodeType, queryAll, rectOf, rootElement, tagOf, textContent, visibility } from "./dom";
import { Fault } from "./fault";
import { nameOf } from "./names";
import { roleOf } from "./roles";
import { MAX_CELL, type Table } from "./rows";
import { recordGroup } from "./snapshot";

const MIN_SHOWN = 2; // records of a list that can be seen: of a row of tab panels it is one
const MAX_COLUMNS = 24; // of a list; what a record has beyond them is joined into the last

/**
 * Records as rows. A column is a place inside the record (its path of tags and first classes), so that a record that
 * lacks a part leaves a gap instead of shifting what follows.
 */
export function readList(region: Element | null): Table {
  const records = findList(region).filter(isShown);
  const places = new Map<string, number>();
  const parsed = records.map((record) => {
    const pieces = piecesOf(record);
    for (const { place } of pieces) if (!places.has(place) && places.size < MAX_COLUMNS) places.set(place, places.size);
    const link = tagOf(record) === "a" ? record : queryAll(record, "a[href]").find(isShown);
    return { pieces, url: link instanceof HTMLAnchorElement ? httpUrl(link) : "" };
  });
  const linked = parsed.some(({ url }) => url !== "");
  const width = Math.max(places.size, 1);
  const rows = parsed.map(({ pieces, url }) => {
    const row = Array.from({ length: width }, () => "");
    for (const { place, text } of pieces) {
      const at = places.get(place) ?? width - 1;
      row[at] = row[at] === "" ? text : `${row[at]} ${text}`.slice(0, MAX_CELL);
    }
    return linked ? [...row, url] : row;
  });
  const columns = Array.from({ length: width }, (_, i) => (i === 0 ? "text" : `text ${i + 1}`));
  return { columns: linked ? [...columns, "url"] : columns, rows, caption: "" };
}

interface Piece {
  readonly place: string;
  text: string;
}

/** Visible texts of a record with the place each stands at. Buttons and fields are no part of the record's data. */
function piecesOf(record: Element): Piece[] {
  const pieces: Piece[] = [];
  const add = (place: string, text: string): void => {
    const last = pieces[pieces.length - 1];
    if (last?.place === place) last.text += text;
    else pieces.push({ place, text });
  };
  const visit = (el: Element, place: string, counts: Map<string, number>): void => {
    if (isConcealed(el)) return;
    const seen = visibility(el);
    const role = roleOf(el);
    if (seen === "gone" || SILENT.has(tagOf(el)) || OPERATED.has(role)) return;
    if (role === "img") {
      add(`${place}/img`, ` ${nameOf(el)} `);
      return;
    }
    // Plain inline formatting is no place of its own: "two <b>big</b> rooms" is one text.
    const own = attr(el, "class") !== null || role === "link" || breaksText(el);
    let here = place;
    if (own && el !== record) {
      here += `/${tagOf(el)}.${(attr(el, "class") ?? "").trim().split(/\s+/)[0] ?? ""}`;
      const count = (counts.get(here) ?? 0) + 1;
      counts.set(here, count);
      if (count > 1) here += `#${count}`;
    }
    const inner = here === place ? counts : new Map<string, number>();
    eachChild(el, (node) => {
      if (nodeType(node) === 3) {
        if (seen === "shown" && data(node).trim() !== "") add(here, data(node));
      } else if (isElement(node)) {
        visit(node, here, inner);
      }
    });
  };
  visit(record, "", new Map());
  return pieces.map(({ place, text }) => ({ place, text: collapse(text).slice(0, MAX_CELL) })).filter(({ text }) => text !== "");
}

/** Controls that are operated; the others (options, tabs, items of trees and menus) are what a list lists. */
const OPERATED = new Set(["button", "checkbox", "combobox", "listbox", "radio", "scrollbar", "searchbox", "slider", "spinbutton", "switch", "textbox"]);
const SILENT = new Set(["script", "style", "noscript", "template", "svg"]);

/** The records around the region, inside it, or, without one, of the list with the largest area. */
function findList(region: Element | null): Element[] {
  if (region !== null) {
    for (let el: Element | null = region; el !== null; el = el.parentElement) {
      const group = recordGroup(el);
      if (group !== null && (el === region || group.records.some((record) => record.contains(region)))) return group.records;
    }
  }
  let best: Element[] | null = null;
  let size = 0;
  const root = region ?? rootElement(document);
  const visit = (el: Element): void => {
    if (!isShown(el) && getComputedStyle(el).display !== "contents") return;
    if (!matches(el, "nav,[role=navigation],thead")) {
      const group = recordGroup(el);
      const shown = group === null ? [] : group.records.filter(isShown);
      if (group !== null && shown.length >= MIN_SHOWN) {
        const area = shown.reduce((sum, record) => {
          const rect = rectOf(record);
          return sum + rect.width * rect.height;
        }, 0);
        const weight = area + shown.reduce((sum, record) => sum + Math.min((textContent(record) ?? "").length, 500), 0) * 50;
        if (weight > size) [best, size] = [group.records, weight];
      }
      eachChild(el, (node) => {
        if (nodeType(node) === 1 && isElement(node)) visit(node);
      });
    }
  };
  if (root !== null) visit(root);
  if (best === null) {
    const items = root === null ? [] : queryAll(root, "ul,ol,[role=list]").filter(isShown).map((list) => Array.from(children(list)));
    const longest = items.sort((a, b) => b.length - a.length)[0];
    if (longest !== undefined && longest.length > 0) return longest;
    throw new Fault("not-found", "There is no list of repeated records here", { next: "browser_page_observe" });
  }
  return best;
}
/** The address of a link, "" if it is none that can be opened. */
export const httpUrl = (link: HTMLAnchorElement): string => (/^https?:/.test(link.href) ? link.href : "");
