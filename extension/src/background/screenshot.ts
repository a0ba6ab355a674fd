/**
 * Screenshots: PNG of the viewport, the whole page or one element, with sensitive fields blotted out.
 *
 * The attachment is shared and given back; it is also what makes a background tab draw at all (`attachment.ts`).
 */

import { MAX_SCREENSHOT_BYTES, MAX_SCREENSHOT_PIXELS, type PageReply } from "../wire";
import type { Debugger } from "./attachment";
import type { Context } from "./command";
import { Failure } from "./failure";
import type { FrameInfo, Seat } from "./frames";
import type { Pages } from "./pages";

const HOLDER = "screenshot";

export interface Box {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
  readonly scale: number;
}

export type Shot = { readonly kind: "viewport" } | { readonly kind: "page" | "element"; readonly box: Box };

/** Takes the picture. `children`: all child frames, whose fields must be blotted out; one that is silent is blotted out as a whole. */
export async function capture(tab: number, shot: Shot, children: readonly FrameInfo[], pages: Pages, dbg: Debugger, context: Context): Promise<PageReply> {
  const params: Record<string, unknown> = { format: "png" };
  if (shot.kind !== "viewport") {
    const { x, y, width, height, scale } = shot.box;
    if (width * height * scale * scale > MAX_SCREENSHOT_PIXELS) {
      throw new Failure("too-large", "The picture would have too many pixels; take the viewport or an element");
    }
    params["captureBeyondViewport"] = true;
    params["clip"] = { x, y, width, height, scale: 1 };
  }
  await dbg.hold(tab, HOLDER);
  const masked: number[] = [];
  try {
    const answering = children.filter((frame) => !frame.silent);
    const seats = answering.length === children.length ? null : await seatsOf(tab, answering, pages, context);
    for (const frame of [MAIN, ...answering]) {
      masked.push(frame.number); // even if the answer is lost, the fields are restored
      const shown = seats?.filter((seat) => seat.parent === frame.frameId).map((seat) => seat.index);
      await pages.call(tab, frame.number, "mask", shown === undefined ? {} : { shown }, context);
    }
    const { data } = await dbg.send(tab, "Page.captureScreenshot", params);
    if (typeof data !== "string") throw new Failure("internal", "The browser gave no picture");
    if ((data.length * 3) / 4 > MAX_SCREENSHOT_BYTES) throw new Failure("too-large", "The picture is too large; take the viewport or an element");
    const { width, height } = pngSize(data);
    return { image: data, width, height };
  } finally {
    for (const frame of masked) await pages.call(tab, frame, "unmask", {}, context, false).catch(() => undefined); // a page that is gone needs none
    await dbg.release(tab, HOLDER);
  }
}

const MAIN = { number: 0, frameId: 0 } as const;

/** Where frames sit in their parents. */
async function seatsOf(tab: number, frames: readonly FrameInfo[], pages: Pages, context: Context): Promise<{ parent: number; index: number }[]> {
  const answers = await Promise.all(frames.map((frame) => pages.peek<Seat>(tab, frame, "seat", {}, context)));
  return frames.map((frame, i) => ({ parent: frame.parentFrameId, index: answers[i]?.ok.index ?? -1 }));
}

/** Width and height from a PNG's first chunk. */
export function pngSize(base64: string): { width: number; height: number } {
  const head = atob(base64.slice(0, 32)); // 24 bytes: signature, length, "IHDR", width, height
  const at = (offset: number): number => {
    let value = 0;
    for (let i = 0; i < 4; i++) value = value * 256 + head.charCodeAt(offset + i);
    return value;
  };
  return { width: at(16), height: at(20) };
}
