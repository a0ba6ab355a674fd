/**
 * In which order nodes came into the page and left it, since the first ref was given.
 *
 * A page that draws a list anew takes the old nodes away before, or in the same step as, it puts in the new ones. What came
 * while the old node was still there is no new form of it but something beside it, however alike. Only changes in the
 * document and in the shadow roots that hold refs are seen; of anything else nothing is said. While nothing at all has
 * changed (`quietSince`), what was compared once need not be compared again.
 *
 * Holds nodes weakly, but for the `RECENT` elements named last: an element that was collected could not be asked when it left.
 */

import { flatParent, isConnected, parentNode, sawShadow } from "./dom";

const RECENT = 400; // elements: two observations

const came = new WeakMap<Node, number>();
const left = new WeakMap<Node, number>();
const watched = new WeakSet<Node>();
let recent: Element[] = [];
let step = 0;

const observer = new MutationObserver(write);

function write(records: readonly MutationRecord[]): void {
  for (const record of records) {
    step++;
    record.removedNodes.forEach((node) => left.set(node, step));
    record.addedNodes.forEach((node) => {
      if (!came.has(node)) came.set(node, step); // a move brings nothing new
    });
  }
}

/** From now on changes below `root` (a document or a shadow root) are noted. */
export function watch(root: Node): void {
  if (watched.has(root)) return;
  watched.add(root);
  observer.observe(root, { childList: true, subtree: true, attributes: true, characterData: true });
}

/** The present moment, for `quietSince`. */
export function moment(): number {
  write(observer.takeRecords());
  return step;
}

/**
 * Whether no node, attribute or text of the watched roots has changed since `then`. False wherever the page has shadow roots:
 * those without refs are not watched.
 */
export const quietSince = (then: number): boolean => !sawShadow() && moment() === then;

/** Keeps `el` from being collected until `RECENT` others have been named. */
export function keep(el: Element): void {
  recent.push(el);
  if (recent.length > 2 * RECENT) recent = recent.slice(-RECENT);
}

/** Whether `el`, which is in the page, came when `gone`, which is not, had left or in the same step. False if nobody knows. */
export function cameAfter(el: Element, gone: Element): boolean {
  write(observer.takeRecords());
  let arrival = 0;
  for (let node: Node | null = el; node !== null; node = flatParent(node as Element)) arrival = Math.max(arrival, came.get(node) ?? 0);
  let departure = 0;
  for (let node: Node | null = gone; node !== null && !isConnected(node); node = node instanceof ShadowRoot ? node.host : parentNode(node)) departure = Math.max(departure, left.get(node) ?? 0);
  return departure > 0 && arrival >= departure;
}
