/** A failure inside the page, in our own words: no page text, no typed text. */

import type { ToolErrorCode } from "../wire";

export interface FaultShape {
  readonly code: ToolErrorCode;
  readonly message: string;
  /** Default true. */
  readonly refsValid?: boolean;
  readonly retryable?: boolean;
  /** Worker tool to use next. */
  readonly next?: string;
}

export class Fault extends Error {
  readonly shape: FaultShape;

  constructor(code: ToolErrorCode, message: string, more: Omit<FaultShape, "code" | "message"> = {}) {
    super(message);
    this.shape = { code, message, ...more };
  }
}
