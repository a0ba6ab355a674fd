import assert from "node:assert/strict";
import { test } from "node:test";
import {
  CLOSE_UNPROVEN,
  type Connection,
  type Event,
  EVENTS,
  FIRST_BACKOFF_MS,
  initial,
  MAX_BACKOFF_MS,
  REFUSED_MS,
  type State,
  STATES,
  step,
  TABLE,
} from "../src/background/machine";

const event = (name: (typeof EVENTS)[number]): Event => (name === "refusal" ? { name, code: "replaced" } : { name });
const at = (state: State): Connection => ({ ...initial, state });

function drive(...names: (typeof EVENTS)[number][]): { connection: Connection; effects: string[] } {
  let connection = initial;
  const effects: string[] = [];
  for (const name of names) {
    const [next, done] = step(connection, event(name));
    connection = next;
    effects.push(...done.map((effect) => effect.do));
  }
  return { connection, effects };
}

test("the table is total and every cell leads to a known state", () => {
  let cells = 0;
  for (const state of STATES) {
    for (const name of EVENTS) {
      const [next] = step(at(state), event(name));
      assert.ok(STATES.includes(next.state));
      cells++;
    }
  }
  assert.equal(cells, STATES.length * EVENTS.length);
  assert.equal(Object.values(TABLE).reduce((sum, row) => sum + Object.keys(row).length, 0), cells);
});

test("the way to ready: hello, then proof only after the bridge has proven itself", () => {
  const { connection, effects } = drive("paired", "opened", "proven", "accepted");
  assert.equal(connection.state, "ready");
  assert.deepEqual(effects, ["stop-timer", "open", "hello", "proof"]);
});

test("a bridge that proves nothing gets no proof and is tried again late", () => {
  const { connection, effects } = drive("paired", "opened", "unproven");
  assert.equal(connection.state, "waiting");
  assert.equal(connection.imposter, true);
  assert.ok(!effects.includes("proof"));
  const [, done] = step(at("challenged"), { name: "unproven" });
  assert.deepEqual(done, [
    { do: "close", code: CLOSE_UNPROVEN },
    { do: "timer", ms: MAX_BACKOFF_MS },
  ]);
});

test("no state but challenged ever sends a proof", () => {
  for (const state of STATES) {
    for (const name of EVENTS) {
      const [, effects] = step(at(state), event(name));
      if (effects.some((effect) => effect.do === "proof")) assert.deepEqual([state, name], ["challenged", "proven"]);
    }
  }
});

test("back-off doubles to its cap and starts anew after success", () => {
  let connection = at("connecting");
  const waits: number[] = [];
  for (let i = 0; i < 6; i++) {
    const [next, effects] = step(connection, { name: "closed" });
    waits.push(...effects.flatMap((effect) => (effect.do === "timer" ? [effect.ms] : [])));
    [connection] = step(next, { name: "due" });
  }
  assert.deepEqual(waits, [250, 500, 1000, 2000, 2000, 2000]);
  const ready = step({ ...connection, state: "proving" }, { name: "accepted" })[0];
  assert.equal(ready.backoff, FIRST_BACKOFF_MS);
});

test("a refusal is not fought: the next attempt is far off, and an alarm does not shorten it", () => {
  const [refused, effects] = step(at("ready"), { name: "refusal", code: "replaced" });
  assert.equal(refused.state, "refused");
  assert.equal(refused.refusal, "replaced");
  assert.ok(effects.some((effect) => effect.do === "timer" && effect.ms === REFUSED_MS));
  assert.deepEqual(step(refused, { name: "wake" }), [refused, []]);
  assert.equal(step(refused, { name: "due" })[0].state, "connecting");
  assert.equal(step(refused, { name: "paired" })[0].state, "connecting");
});

test("unpairing ends everything from every state", () => {
  for (const state of STATES) {
    const [next, effects] = step({ ...at(state), refusal: "throttled" }, { name: "unpaired" });
    if (state === "idle") continue;
    assert.deepEqual(next, initial);
    assert.ok(effects.some((effect) => effect.do === "close"));
  }
});

test("a new pairing closes what belongs to the old one before it opens", () => {
  for (const state of STATES.filter((one) => one !== "idle")) {
    const names = step(at(state), { name: "paired" })[1].map((effect) => effect.do);
    assert.deepEqual(names, ["close", "stop-timer", "open"]);
  }
});

test("frames out of turn and slow handshakes hang up", () => {
  for (const state of ["connecting", "challenged", "proving", "ready"] as const) {
    const [next, effects] = step(at(state), { name: "garbage" });
    assert.equal(next.state, "waiting");
    assert.ok(effects.some((effect) => effect.do === "close"));
  }
  assert.equal(step(at("proving"), { name: "slow" })[0].state, "waiting");
  assert.equal(step(at("ready"), { name: "slow" })[0].state, "ready");
});
