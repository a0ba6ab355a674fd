/**
 * Text drawn by `::before` and `::after`, as far as it belongs to accessible names.
 *
 * Asking the computed style of two pseudo-elements costs more than all else that is asked of an element, and most draw
 * nothing that can be read. So the style sheets of a tree are read once and kept by their number of rules: only elements
 * that fit a rule whose `content` can be read are asked. A sheet that can't be read (another origin), or a selector whose
 * subject lies outside it, makes every element of that tree a candidate: slower, never wrong. Characters of private use,
 * the glyphs of icon fonts, mean nothing to a reader and are dropped. Counters are not spelled out.
 */

import { adoptedSheetsOf, attr, matches, rememberedOf, rootOf, sheetsOf, styleOf, styleOfPseudo, tagOf } from "./dom";

export type PseudoElement = "::before" | "::after";

interface Scan {
  /** The sheet's number of rules when it was read: a sheet that has grown or shrunk is read again. */
  readonly rules: number;
  readonly hosts: readonly string[];
  /** Whether any element might have one. */
  readonly unsure: boolean;
}

const MAX_RULES = 20_000; // of one sheet; reading that many takes some 30 ms, once
const MAX_HOSTS = 100; // selectors of a tree; to fit an element to more of them costs what asking its style does
const PRIVATE = /[\ue000-\uf8ff\u{f0000}-\u{10fffd}]/gu;

const scans = new WeakMap<CSSStyleSheet, Scan>();

/** What a pseudo-element adds to the name: "" for nothing; with spaces around where its box is kept apart. */
export function pseudoText(el: Element, which: PseudoElement): string {
  if (tagOf(el) !== "q") {
    const hosts = hostsIn(rootOf(el));
    if (hosts === "none" || (hosts !== "all" && !matches(el, hosts))) return "";
  }
  const style = styleOfPseudo(el, which);
  const content = style.content;
  if (content === "none" || content === "normal" || content === '""') return "";
  if (style.display === "none" || style.visibility !== "visible") return "";
  const text = spell(content, el);
  return text === "" || style.display === "inline" ? text : ` ${text} `;
}

/** "none", "all", or the selector of those that may have a readable pseudo-element. */
const hostsIn = rememberedOf((root: Node): string => {
  const found = new Set<string>();
  for (const sheet of [...sheetsOf(root), ...adoptedSheetsOf(root)]) {
    if (sheet.disabled) continue;
    const scan = scanOf(sheet);
    if (scan.unsure) return "all";
    for (const host of scan.hosts) found.add(host);
  }
  if (found.size === 0) return "none";
  if (found.size > MAX_HOSTS) return "all";
  const joined = [...found].join(",");
  try {
    matches(document.documentElement, joined);
    return joined;
  } catch {
    return "all"; // a selector that may stand in a sheet but can't be asked for
  }
});

function scanOf(sheet: CSSStyleSheet): Scan {
  let list: CSSRuleList;
  try {
    list = sheet.cssRules;
  } catch {
    return { rules: -1, hosts: [], unsure: true }; // another origin's
  }
  const known = scans.get(sheet);
  if (known !== undefined && known.rules === list.length) return known;
  const hosts: string[] = [];
  const unsure = !collect(list, hosts, { left: MAX_RULES }, false);
  const scan = { rules: list.length, hosts, unsure };
  scans.set(sheet, scan);
  return scan;
}

/** Whether all could be told. `nested`: within a style rule, so that selectors are relative to another one. */
function collect(list: CSSRuleList, hosts: string[], budget: { left: number }, nested: boolean): boolean {
  for (let i = 0; i < list.length; i++) {
    if (--budget.left < 0) return false;
    const rule = list[i];
    if (rule instanceof CSSStyleRule) {
      if (!hostsOfRule(rule, hosts, nested)) return false;
      if (rule.cssRules.length > 0 && !collect(rule.cssRules, hosts, budget, true)) return false;
    } else if (rule instanceof CSSImportRule) {
      const scan = rule.styleSheet === null ? null : scanOf(rule.styleSheet);
      if (scan?.unsure === true) return false;
      hosts.push(...(scan?.hosts ?? []));
    } else if (rule instanceof CSSGroupingRule) {
      const scoped = rule.constructor.name === "CSSScopeRule";
      if (!collect(rule.cssRules, hosts, budget, nested || scoped)) return false;
    }
  }
  return true;
}

function hostsOfRule(rule: CSSStyleRule, hosts: string[], nested: boolean): boolean {
  const selector = rule.selectorText;
  if (!selector.includes("::before") && !selector.includes("::after")) return true;
  const content = rule.style.getPropertyValue("content");
  if (content === "" || !canBeRead(content)) return true;
  if (nested || /:host|::slotted|::part|&/.test(selector)) return false;
  for (const part of splitSelectors(selector)) {
    const base = /^(.*?)::(?:before|after)$/s.exec(part.trim());
    if (base === null) {
      if (/::(?:before|after)/.test(part)) return false;
      continue;
    }
    const host = base[1] as string;
    hosts.push(host === "" || /[\s>+~]$/.test(host) ? `${host}*` : host);
  }
  return true;
}

const canBeRead = (content: string): boolean =>
  content !== "none" && content !== "normal" && (/[a-z]\(|-quote|inherit/.test(content) || /[^\s"'/]/.test(content.replace(PRIVATE, "").replace(/\\[ef][0-9a-f]{3}\s?/gi, "")));

/** The parts of a selector list: commas inside brackets and strings divide nothing. */
export function splitSelectors(list: string): string[] {
  const parts: string[] = [];
  let depth = 0;
  let quote = "";
  let from = 0;
  for (let i = 0; i < list.length; i++) {
    const char = list[i] as string;
    if (char === "\\") i++;
    else if (quote !== "") quote = char === quote ? "" : quote;
    else if (char === '"' || char === "'") quote = char;
    else if (char === "(" || char === "[") depth++;
    else if (char === ")" || char === "]") depth--;
    else if (char === "," && depth === 0) {
      parts.push(list.slice(from, i));
      from = i + 1;
    }
  }
  parts.push(list.slice(from));
  return parts;
}

const PIECES = /"((?:[^"\\]|\\.)*)"|attr\(\s*([-\w]+)[^)]*\)|(open-quote)|(close-quote)|(\/)/gs;

/** The text of a computed `content`: what stands behind its slash, if there is one, is meant for readers. */
function spell(content: string, el: Element): string {
  let text = "";
  for (const [, string, name, open, close, slash] of content.matchAll(PIECES)) {
    if (slash !== undefined) text = "";
    else if (string !== undefined) text += unescape(string);
    else if (name !== undefined) text += attr(el, name) ?? "";
    else text += quoteOf(el, open !== undefined, close !== undefined);
  }
  return text.replace(PRIVATE, "");
}

const unescape = (text: string): string =>
  text.replace(/\\(?:([0-9a-f]{1,6})\s?|(.))/gis, (_all, hex: string | undefined, plain: string | undefined) => {
    const code = hex === undefined ? -1 : parseInt(hex, 16);
    return code >= 0 ? (code <= 0x10ffff ? String.fromCodePoint(code) : "") : (plain ?? "");
  });

function quoteOf(el: Element, open: boolean, close: boolean): string {
  const marks = [...styleOf(el).quotes.matchAll(/"([^"]*)"/g)].map((mark) => mark[1] ?? "");
  return open ? (marks[0] ?? "“") : close ? (marks[1] ?? "”") : "";
}
