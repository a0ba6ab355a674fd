/**
 * The connection to the bridge as a total table: (state, event) -> (next state, effects). Pure: no socket, clock, random.
 *
 * States
 *   idle        not paired: nothing to connect to
 *   waiting     paired, no socket, a timer will start the next attempt
 *   connecting  a socket is opening
 *   challenged  hello sent; the bridge must prove itself first
 *   proving     its proof was right, ours is sent
 *   ready       authenticated: commands may come
 *   refused     the bridge said no; the next attempt is far off, unless the pairing changes
 *
 * A wrong proof of the bridge ends the attempt before anything of ours is sent. The shell tags each socket and timer with
 * the attempt it belongs to and drops events of older ones, so this table never sees them.
 */

import type { ExtRefusal } from "../wire";

export const STATES = ["idle", "waiting", "connecting", "challenged", "proving", "ready", "refused"] as const;
export type State = (typeof STATES)[number];

export const EVENTS = [
  "paired", // a pairing exists that was not used before (start, or changed)
  "unpaired",
  "wake", // alarm, browser start: a chance to try
  "due", // the timer ran out
  "opened",
  "proven", // challenge came and its mac is right
  "unproven", // challenge came and its mac is wrong
  "accepted", // ready came
  "refusal", // refused came
  "garbage", // a frame that does not belong here
  "slow", // the attempt took longer than the handshake may
  "closed",
] as const;
export type EventName = (typeof EVENTS)[number];

export type Event = { readonly name: Exclude<EventName, "refusal"> } | { readonly name: "refusal"; readonly code: ExtRefusal };

export type Effect =
  | { readonly do: "open" }
  | { readonly do: "hello" }
  | { readonly do: "proof" }
  | { readonly do: "close"; readonly code: number }
  | { readonly do: "timer"; readonly ms: number }
  | { readonly do: "stop-timer" };

export interface Connection {
  readonly state: State;
  /** Milliseconds before jitter that the next failure waits. */
  readonly backoff: number;
  /** Why the bridge said no, while it does. */
  readonly refusal: ExtRefusal | null;
  /** The bridge at that address did not know our token. */
  readonly imposter: boolean;
}

export const FIRST_BACKOFF_MS = 250;
export const MAX_BACKOFF_MS = 2_000; // measured: with 5 s a restarted bridge waits up to 6 s, with 2 s at most 2.5 s
export const REFUSED_MS = 30_000; // another connection took our place, or a person must act: do not fight
export const CLOSE_UNPROVEN = 4001;
export const CLOSE_GARBAGE = 4002;
export const CLOSE_SLOW = 4003;
export const CLOSE_NORMAL = 1000;

export const initial: Connection = { state: "idle", backoff: FIRST_BACKOFF_MS, refusal: null, imposter: false };

type Cell = (c: Connection, e: Event) => readonly [Connection, readonly Effect[]];

const stay: Cell = (c) => [c, []];

const connect: Cell = (c) => [{ ...c, state: "connecting", imposter: false, refusal: null }, [{ do: "stop-timer" }, { do: "open" }]];

/** A changed pairing: whatever was under way belongs to the old one. */
const restart: Cell = (c, e) => {
  const [next, effects] = connect({ ...c, backoff: FIRST_BACKOFF_MS }, e);
  return [next, [{ do: "close", code: CLOSE_NORMAL }, ...effects]];
};

const forget: Cell = () => [initial, [{ do: "stop-timer" }, { do: "close", code: CLOSE_NORMAL }]];

const retry: Cell = (c) => [
  { ...c, state: "waiting", backoff: Math.min(c.backoff * 2, MAX_BACKOFF_MS) },
  [{ do: "timer", ms: c.backoff }],
];

const hangUp =
  (code: number): Cell =>
  (c, e) => {
    const [next, effects] = retry(c, e);
    return [next, [{ do: "close", code }, ...effects]];
  };

const imposter: Cell = (c, e) => {
  const [next, effects] = hangUp(CLOSE_UNPROVEN)({ ...c, backoff: MAX_BACKOFF_MS }, e);
  return [{ ...next, imposter: true }, effects];
};

const refuse: Cell = (c, e) => [
  { ...c, state: "refused", refusal: e.name === "refusal" ? e.code : null },
  [
    { do: "close", code: CLOSE_NORMAL },
    { do: "timer", ms: REFUSED_MS },
  ],
];

const become =
  (state: State, ...effects: Effect[]): Cell =>
  (c) => [{ ...c, state }, effects];

const settleIn: Cell = () => [{ state: "ready", backoff: FIRST_BACKOFF_MS, refusal: null, imposter: false }, []];

/** Every pair of state and event; a test counts them. */
export const TABLE: Readonly<Record<State, Readonly<Record<EventName, Cell>>>> = {
  idle: {
    paired: connect,
    unpaired: stay,
    wake: stay,
    due: stay,
    opened: stay,
    proven: stay,
    unproven: stay,
    accepted: stay,
    refusal: stay,
    garbage: stay,
    slow: stay,
    closed: stay,
  },
  waiting: {
    paired: restart,
    unpaired: forget,
    wake: connect,
    due: connect,
    opened: stay,
    proven: stay,
    unproven: stay,
    accepted: stay,
    refusal: stay,
    garbage: stay,
    slow: stay,
    closed: stay,
  },
  connecting: {
    paired: restart,
    unpaired: forget,
    wake: stay,
    due: stay,
    opened: become("challenged", { do: "hello" }),
    proven: hangUp(CLOSE_GARBAGE),
    unproven: hangUp(CLOSE_GARBAGE),
    accepted: hangUp(CLOSE_GARBAGE),
    refusal: refuse,
    garbage: hangUp(CLOSE_GARBAGE),
    slow: hangUp(CLOSE_SLOW),
    closed: retry,
  },
  challenged: {
    paired: restart,
    unpaired: forget,
    wake: stay,
    due: stay,
    opened: stay,
    proven: become("proving", { do: "proof" }),
    unproven: imposter,
    accepted: hangUp(CLOSE_GARBAGE),
    refusal: refuse,
    garbage: hangUp(CLOSE_GARBAGE),
    slow: hangUp(CLOSE_SLOW),
    closed: retry,
  },
  proving: {
    paired: restart,
    unpaired: forget,
    wake: stay,
    due: stay,
    opened: stay,
    proven: hangUp(CLOSE_GARBAGE),
    unproven: hangUp(CLOSE_GARBAGE),
    accepted: settleIn,
    refusal: refuse,
    garbage: hangUp(CLOSE_GARBAGE),
    slow: hangUp(CLOSE_SLOW),
    closed: retry,
  },
  ready: {
    paired: restart,
    unpaired: forget,
    wake: stay,
    due: stay,
    opened: stay,
    proven: hangUp(CLOSE_GARBAGE),
    unproven: hangUp(CLOSE_GARBAGE),
    accepted: hangUp(CLOSE_GARBAGE),
    refusal: refuse,
    garbage: hangUp(CLOSE_GARBAGE),
    slow: stay,
    closed: retry,
  },
  refused: {
    paired: restart,
    unpaired: forget,
    wake: stay,
    due: connect,
    opened: stay,
    proven: stay,
    unproven: stay,
    accepted: stay,
    refusal: stay,
    garbage: stay,
    slow: stay,
    closed: stay,
  },
};

/** One step. */
export function step(connection: Connection, event: Event): readonly [Connection, readonly Effect[]] {
  return TABLE[connection.state][event.name](connection, event);
}
