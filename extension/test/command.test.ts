import assert from "node:assert/strict";
import { test } from "node:test";
import { type Context, Runner, within } from "../src/background/command";
import { Failure } from "../src/background/failure";

const gate = (): { open: () => void; closed: Promise<void> } => {
  let open = (): void => undefined;
  const closed = new Promise<void>((done) => (open = done));
  return { open, closed };
};

const turn = (): Promise<void> => new Promise((done) => setImmediate(done));

test("one tab's commands run in order, another tab's beside them", async () => {
  const runner = new Runner();
  const first = gate();
  const log: string[] = [];
  const work = (name: string, wait?: Promise<void>) => async () => {
    log.push(`${name}+`);
    await wait;
    log.push(`${name}-`);
    return { text: name };
  };
  const a = runner.run(1, 7, 10_000, work("a", first.closed));
  const b = runner.run(2, 7, 10_000, work("b"));
  const c = runner.run(3, 8, 10_000, work("c"));
  await c;
  assert.deepEqual(log, ["a+", "c+", "c-"]);
  first.open();
  assert.deepEqual(await a, { ok: { text: "a" } });
  assert.deepEqual(await b, { ok: { text: "b" } });
  assert.deepEqual(log, ["a+", "c+", "c-", "a-", "b+", "b-"]);
});

test("a command that hangs is answered at its deadline, honestly, and frees its tab", async () => {
  const runner = new Runner();
  const hang = new Promise<never>(() => undefined);
  const stuck = runner.run(1, 7, 20, async (context) => {
    context.effect = true;
    return await hang;
  });
  const next = runner.run(2, 7, 5_000, async () => ({ text: "free" }));
  const outcome = await stuck;
  assert.ok("error" in outcome);
  assert.equal(outcome.error.code, "timeout");
  assert.equal(outcome.error.mayHaveEffect, true);
  assert.deepEqual(await next, { ok: { text: "free" } });
});

test("a cancelled command is answered at once; one still waiting never runs", async () => {
  const runner = new Runner();
  const held = gate();
  let ran = false;
  let inner: Context | undefined;
  const a = runner.run(1, 7, 10_000, async (context) => {
    inner = context;
    await held.closed;
    return {};
  });
  const b = runner.run(2, 7, 10_000, async () => {
    ran = true;
    return {};
  });
  await turn();
  runner.cancel(2);
  const second = await b;
  assert.ok("error" in second && second.error.code === "cancelled" && second.error.mayHaveEffect === false);
  runner.cancel(1);
  const first = await a;
  assert.ok("error" in first && first.error.code === "cancelled");
  assert.ok(inner?.signal.aborted);
  held.open();
  await turn();
  assert.equal(ran, false);
  runner.cancel(99); // unknown: nothing happens
});

test("a lost bridge ends everything", async () => {
  const runner = new Runner();
  const all = [1, 2, 3].map((id) => runner.run(id, id, 10_000, () => new Promise(() => undefined)));
  runner.abandon();
  for (const outcome of await Promise.all(all)) assert.ok("error" in outcome && outcome.error.code === "cancelled");
});

test("an id in use and a flooded tab are refused", async () => {
  const runner = new Runner();
  const held = gate();
  const work = async (): Promise<object> => {
    await held.closed;
    return {};
  };
  const first = runner.run(1, 7, 10_000, work);
  const again = await runner.run(1, 7, 10_000, work);
  assert.ok("error" in again && again.error.code === "internal");
  const rest = Array.from({ length: 70 }, (_, i) => runner.run(i + 2, 7, 10_000, work));
  held.open();
  const codes = (await Promise.all(rest)).map((outcome) => ("error" in outcome ? outcome.error.code : "ok"));
  assert.equal(codes.filter((code) => code === "quota-exceeded").length, 7);
  assert.deepEqual(await first, { ok: {} });
});

test("within gives the result or the failure", async () => {
  const late = (): Failure => new Failure("timeout", "late");
  assert.equal(await within(Promise.resolve(5), 1_000, late), 5);
  await assert.rejects(within(new Promise(() => undefined), 5, late), { code: "timeout" });
  await assert.rejects(within(Promise.reject(new Error("own")), 1_000, late), /own/);
});
