/** Where a slider or spin button stands, native or of ARIA, and between which ends. */

import { attr, isInput } from "./dom";

/** Its number; null if it tells none. */
export function slideValue(el: Element): number | null {
  const said = isInput(el) ? el.value : attr(el, "aria-valuenow");
  if (said === null || said.trim() === "") return null;
  const value = Number(said);
  return Number.isNaN(value) ? null : value;
}

/** Its ends. ARIA's own defaults for a slider are 0 and 100; a number field without bounds has none. */
export function bounds(el: Element): { min: number; max: number } {
  const open = isInput(el) && el.type !== "range";
  const end = (name: string, otherwise: number): number => {
    const said = attr(el, isInput(el) ? name : `aria-value${name}`);
    const value = Number(said ?? "");
    return said === null || said.trim() === "" || Number.isNaN(value) ? otherwise : value;
  };
  return { min: end("min", open ? -1e15 : 0), max: end("max", open ? 1e15 : 100) };
}
