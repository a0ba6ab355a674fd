/**
 * What surrounds the content of a page: navigation, banners, sidebars, footers, cookie notices (for `main_only`).
 *
 * Judged by landmarks where there are any, else by what authors call such parts and by lists that are nothing but links.
 * Reads only. A part that holds most of the page's text is never left out, whatever it is called.
 */

import { attr, closest, flatParent, queryAll, rootElement, tagOf, textContent, isShown } from "./dom";
import { roleOf } from "./roles";
import type { Line } from "./snapshot";

const ROLES = new Set(["navigation", "banner", "contentinfo", "complementary", "search", "menubar", "menu", "dialog", "alertdialog"]);
const WORDS =
  /(?:^|[\s_-])(?:nav|navbar|navigation|menu|breadcrumbs?|footer|sidebar|side-bar|cookies?|consent|gdpr|newsletter|social|share|sharing|related|promo|advert(?:isement)?|ads?|skip-?link|toolbar|masthead|site-header|pagination|pager)(?:$|[\s_-])/i;
const LINKS_SHARE = 0.7; // of a list's text
const MIN_LINKS = 4;
const MAX_LINK_CHARS = 40; // of the average link: longer ones are headlines, which are content
const MOST = 0.5; // of the page's text

/** A judge of elements, for the text lines of `region` or the page. */
export function boilerplate(region: Element | null, lines: readonly Line[]): (el: Element) => boolean {
  const root = region ?? rootElement(document);
  const whole = lines.reduce((sum, line) => sum + lengthOf(line), 0);
  const mains = root === null ? [] : queryAll(root, "main,[role=main]").filter((el) => isShown(el) && size(el) > 0);
  const answers = new Map<Element, boolean>();
  const judge = (el: Element): boolean => {
    const known = answers.get(el);
    if (known !== undefined) return known;
    const own = el !== root && isSurrounding(el, mains.length > 0) && size(el) < whole * MOST;
    const parent = el === root ? null : flatParent(el);
    const answer = own || (parent !== null && judge(parent));
    answers.set(el, answer);
    return answer;
  };
  return (el) => (mains.length > 0 && closest(el, (node) => mains.includes(node)) === null) || judge(el);
}

const size = (el: Element): number => (textContent(el) ?? "").replace(/\s+/g, " ").length;

const lengthOf = (line: Line): number => line.tokens.reduce((sum, token) => sum + (typeof token === "string" ? token : token.name).length, 0);

function isSurrounding(el: Element, landmarks: boolean): boolean {
  const tag = tagOf(el);
  if (tag === "main" || tag === "article" || tag === "body" || tag === "html") return false;
  if (ROLES.has(roleOf(el))) return true;
  if (WORDS.test(`${attr(el, "class") ?? ""} ${attr(el, "id") ?? ""}`)) return true;
  return !landmarks && (tag === "ul" || tag === "ol" || attr(el, "role") === "list") && isMenu(el);
}

/** A list of nothing but short links. */
function isMenu(list: Element): boolean {
  const links = queryAll(list, "a[href]");
  if (links.length < MIN_LINKS) return false;
  const linked = links.reduce((sum, link) => sum + size(link), 0);
  return linked >= size(list) * LINKS_SHARE && linked / links.length <= MAX_LINK_CHARS;
}
