/**
 * Things without a role, a name or a text that a person would click all the same: drawn squares, icons, shapes of a drawing.
 *
 * Listeners cannot be seen from here, so these are found by their looks: an empty element that is painted, has a size one can
 * hit and an identity of its own (class, id, style); and the shapes of a drawing large enough to be no icon. Since they have
 * no name, a hint tells them apart: words of class or id, and the colour. Hints are for reading only: no ref depends on them.
 * Only the first MAX_MARKS of a page are told: where there are more they are ornament.
 */

import { attr, childCount, closest, flatParent, has, queryAll, rectOf, remembered, styleOf, tagOf, textContent } from "./dom";
import { isGenerated } from "./generated";

export const MAX_MARKS = 60;
const MARK_TAGS = new Set(["a", "b", "div", "em", "i", "li", "p", "span", "td"]);
const MIN_SIDE = 8; // CSS pixels; less is a rule or a dot
const MAX_SIDE = 220; // more is a picture or a stripe
const SHAPES = new Set(["rect", "circle", "ellipse", "polygon", "polyline", "path", "line", "text", "image", "use"]);
const SHAPE_SELECTOR = [...SHAPES].join(",");
const MIN_DRAWING = 48; // CSS pixels each way; less is an icon
const MIN_SHAPE = 4;
const MAX_WORDS = 3;
const MAX_HINT = 40; // characters

/** An empty element that is painted and may be clicked. */
export const isMark: (el: Element) => boolean = remembered((el) => {
  if (!MARK_TAGS.has(tagOf(el)) || childCount(el) > 0 || (textContent(el) ?? "").trim() !== "") return false;
  if (!has(el, "class") && !has(el, "id") && !has(el, "style")) return false;
  const { width, height } = rectOf(el);
  if (Math.min(width, height) < MIN_SIDE || Math.max(width, height) > MAX_SIDE) return false;
  const style = styleOf(el);
  if (style.pointerEvents === "none") return false;
  if (isPictured(style)) return true;
  const parent = flatParent(el);
  if (visible(style.backgroundColor) && (parent === null || styleOf(parent).backgroundColor !== style.backgroundColor)) return true;
  return bordered(style);
});

/** Drawn as a picture: in its background, or in place of what it holds (`content: url(…)` of the element itself). */
const isPictured = (style: CSSStyleDeclaration): boolean => style.backgroundImage !== "none" || /\burl\(|^image-set\(/.test(style.content);

const bordered = (style: CSSStyleDeclaration): boolean =>
  style.borderTopStyle !== "none" && style.borderLeftStyle !== "none" && parseFloat(style.borderTopWidth) > 0 && parseFloat(style.borderLeftWidth) > 0;

/** Empty painted elements within `el`, which is operable itself and would hide them. */
export function marksWithin(el: Element): Element[] {
  if (childCount(el) === 0) return [];
  return queryAll(el, "[class],[id],[style]").slice(0, MAX_MARKS).filter(isMark);
}

// ---------------------------------------------------------------- drawings

/** The shapes of a drawing that can be clicked, in the order they are drawn; none for an icon or a picture of very many. */
export const shapesOf: (svg: Element) => Element[] = remembered((svg) => {
  const { width, height } = rectOf(svg);
  if (Math.min(width, height) < MIN_DRAWING) return [];
  const all = queryAll(svg, SHAPE_SELECTOR).filter((shape) => closest(shape, (el) => LEFT_OUT.has(tagOf(el))) === null);
  return all.length > MAX_MARKS ? [] : all.filter(isDrawn);
});

const LEFT_OUT = new Set(["defs", "clippath", "clipPath", "mask", "marker", "pattern", "symbol"]);

function isDrawn(shape: Element): boolean {
  const { width, height } = rectOf(shape);
  if (Math.max(width, height) < MIN_SHAPE) return false;
  const style = styleOf(shape);
  if (style.display === "none" || style.visibility !== "visible" || style.pointerEvents === "none") return false;
  return tagOf(shape) === "image" || tagOf(shape) === "use" || visible(style.fill) || visible(style.stroke);
}

/** Whether `el` is a shape that `shapesOf` tells. */
export const isShape: (el: Element) => boolean = remembered((el) => {
  if (!SHAPES.has(tagOf(el)) || !(el instanceof SVGElement)) return false;
  const svg = closest(el, (node) => tagOf(node) === "svg" && flatParent(node) instanceof HTMLElement);
  return svg !== null && shapesOf(svg).includes(el);
});

// ---------------------------------------------------------------- hints

/** Words that tell an element without a name from others: `trash`, `circle red 40×40`; "" if there are none. */
export function hintOf(el: Element): string {
  const shape = el instanceof SVGElement;
  const words = shape ? [tagOf(el)] : wordsOf(el);
  const style = styleOf(el);
  const paint = shape ? (visible(style.fill) ? style.fill : style.stroke) : style.backgroundColor;
  const colour = visible(paint) && !isPictured(style) ? colourName(paint) : "";
  if (colour !== "") words.push(colour);
  if (shape) {
    const { width, height } = rectOf(el);
    words.push(`${Math.round(width)}×${Math.round(height)}`);
  }
  return words.join(" ").slice(0, MAX_HINT);
}

/** Words of class and id that a person wrote. */
function wordsOf(el: Element): string[] {
  const all = `${attr(el, "class") ?? ""} ${attr(el, "id") ?? ""}`.split(/\s+/);
  const good = all.filter((word) => /^[a-z][a-z0-9_-]{1,23}$/i.test(word) && !isGenerated(word));
  return [...new Set(good)].slice(0, MAX_WORDS);
}

const visible = (paint: string): boolean => paint !== "" && paint !== "none" && paint !== "transparent" && !/^rgba\(.*,\s*0\)$|\/\s*0\)$/.test(paint);

const NAMES: readonly (readonly [string, number, number, number])[] = [
  ["black", 0, 0, 0], ["white", 255, 255, 255], ["gray", 128, 128, 128], ["silver", 192, 192, 192],
  ["red", 255, 0, 0], ["maroon", 128, 0, 0], ["yellow", 255, 255, 0], ["olive", 128, 128, 0],
  ["lime", 0, 255, 0], ["green", 0, 128, 0], ["cyan", 0, 255, 255], ["teal", 0, 128, 128],
  ["blue", 0, 0, 255], ["navy", 0, 0, 128], ["magenta", 255, 0, 255], ["purple", 128, 0, 128],
  ["orange", 255, 165, 0], ["pink", 255, 192, 203], ["brown", 165, 42, 42],
]; // prettier-ignore

/** The nearest name, with the exact value where it is not that colour itself: `red`, `blue #3a5fcd`. */
function colourName(paint: string): string {
  const parts = /rgba?\((\d+),\s*(\d+),\s*(\d+)/.exec(paint);
  if (parts === null) return "";
  const [r, g, b] = [Number(parts[1]), Number(parts[2]), Number(parts[3])];
  let best = "";
  let least = Infinity;
  for (const [name, nr, ng, nb] of NAMES) {
    const far = (r - nr) ** 2 + (g - ng) ** 2 + (b - nb) ** 2;
    if (far < least) [best, least] = [name, far];
  }
  const hex = [r, g, b].map((value) => value.toString(16).padStart(2, "0")).join("");
  return least === 0 ? best : `${hueName(r, g, b) ?? best} #${hex}`;
}

/** Shades and tints are called after their hue, as people do; null for greys. */
function hueName(r: number, g: number, b: number): string | null {
  const high = Math.max(r, g, b);
  const low = Math.min(r, g, b);
  if (high - low < 40) return null;
  const span = high - low;
  const sector = high === r ? ((g - b) / span + 6) % 6 : high === g ? (b - r) / span + 2 : (r - g) / span + 4;
  const hue = sector * 60;
  const light = (high + low) / 510;
  if (hue < 15 || hue >= 345) return light > 0.75 ? "pink" : "red";
  if (hue < 45) return light < 0.35 ? "brown" : "orange";
  if (hue < 70) return "yellow";
  if (hue < 165) return "green";
  if (hue < 200) return "cyan";
  if (hue < 260) return "blue";
  return hue < 300 ? "purple" : "magenta";
}
