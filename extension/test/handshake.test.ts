import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { test } from "node:test";
import { equal, hex, message, nonce, proof, type Transcript } from "../src/background/handshake";

const transcript: Transcript = {
  version: 1,
  extensionId: "abcdefghijklmnopabcdefghijklmnop",
  pairing: "user",
  connection: "c".repeat(64),
  host: "127.0.0.1",
  port: 17321,
  extensionNonce: "a".repeat(64),
  bridgeNonce: "b".repeat(64),
};

test("the transcript is ten lines in the documented order", () => {
  assert.equal(
    message("bridge", transcript),
    `browsercell-handshake-1\nbridge\n1\nabcdefghijklmnopabcdefghijklmnop\nuser\n${"c".repeat(64)}\n127.0.0.1\n17321\n${"a".repeat(64)}\n${"b".repeat(64)}`,
  );
});

test("a proof is HMAC-SHA-256 of the transcript with the token", async () => {
  const token = "a token of some length é";
  const expected = createHmac("sha256", Buffer.from(token, "utf8")).update(message("extension", transcript), "utf8").digest("hex");
  assert.equal(await proof(token, "extension", transcript), expected);
});

test("every part of the transcript changes the proof", async () => {
  const base = await proof("t".repeat(20), "bridge", transcript);
  const seen = new Set([base, await proof("t".repeat(20), "extension", transcript), await proof("u".repeat(20), "bridge", transcript)]);
  for (const key of Object.keys(transcript) as (keyof Transcript)[]) {
    const other = { ...transcript, [key]: typeof transcript[key] === "number" ? (transcript[key] as number) + 1 : `${transcript[key]}x` };
    seen.add(await proof("t".repeat(20), "bridge", other));
  }
  assert.equal(seen.size, 3 + Object.keys(transcript).length);
});

test("comparison and nonces", () => {
  assert.ok(equal("abc", "abc"));
  assert.ok(!equal("abc", "abd"));
  assert.ok(!equal("abc", "abcd"));
  assert.equal(hex(new Uint8Array([0, 15, 255])), "000fff");
  assert.match(nonce(), /^[0-9a-f]{64}$/);
  assert.notEqual(nonce(), nonce());
});
