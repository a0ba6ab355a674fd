import assert from "node:assert/strict";
import { test } from "node:test";
import { Failure, isCutOff, isNotInjected, toFailure } from "../src/background/failure";
import { parsePairing } from "../src/background/pairing";
import { pngSize } from "../src/background/screenshot";
import { misfit } from "../src/schema";
import { ARG_SCHEMAS, DOWN_SCHEMAS } from "../src/wire";

test("every generated schema is one this extension can judge", () => {
  for (const schema of [...Object.values(ARG_SCHEMAS), ...Object.values(DOWN_SCHEMAS)]) {
    assert.equal(typeof misfit(schema, {}), "string");
    assert.notEqual(misfit(schema, null), "");
    assert.notEqual(misfit(schema, []), "");
  }
});

test("arguments of a click", () => {
  const fits = (value: unknown): boolean => misfit(ARG_SCHEMAS.browser_page_click, value) === "";
  assert.ok(fits({ ref: "e12" }));
  assert.ok(fits({ ref: "f2e12", role: null }));
  assert.ok(fits({ target: { role: "button", name: "Go", nth: 2 } }));
  assert.ok(!fits({ ref: "12" }));
  assert.ok(!fits({ ref: "e12\n" }));
  assert.ok(!fits({ target: { role: "button", nth: 0 } }));
  assert.ok(!fits({ target: { role: "button", nth: 1.5 } }));
  assert.ok(!fits({ target: { role: "Button" } }));
  assert.ok(!fits({ selector: "#x" }));
  assert.ok(!fits({ __proto__: null, constructor: 1 }));
  assert.ok(!fits({ name: "x".repeat(201) }));
  assert.ok(fits({ name: "😀".repeat(200) }));
});

test("lists, numbers, enums", () => {
  assert.equal(misfit(ARG_SCHEMAS.browser_page_select, { ref: "e1", values: ["a", "b"] }), "");
  assert.notEqual(misfit(ARG_SCHEMAS.browser_page_select, { ref: "e1", values: ["a", 1] }), "");
  assert.notEqual(misfit(ARG_SCHEMAS.browser_page_select, { ref: "e1", values: Array.from({ length: 51 }, () => "a") }), "");
  assert.notEqual(misfit(ARG_SCHEMAS.browser_page_scroll, { viewports: Number.POSITIVE_INFINITY }), "");
  assert.notEqual(misfit(ARG_SCHEMAS.browser_page_scroll, { viewports: 21 }), "");
  assert.notEqual(misfit(ARG_SCHEMAS.browser_page_press, { key: "F12" }), "");
  assert.equal(misfit(ARG_SCHEMAS.browser_tabs_close, {}), "");
});

test("a problem never repeats a value", () => {
  assert.ok(!misfit(ARG_SCHEMAS.browser_page_type, { text: "hunter2", ref: "hunter2" }).includes("hunter2"));
  assert.ok(!misfit(ARG_SCHEMAS.browser_page_type, { text: "x", hunter2: 1 }).includes("hunter2"));
});

test("an unknown schema keyword is loud", () => {
  assert.throws(() => misfit({ oneOf: [] }, 1));
  assert.throws(() => misfit({ type: "null" }, 1));
});

test("pairings", () => {
  const good = { port: 17321, token: "t".repeat(16), pairing: "user" };
  assert.deepEqual(parsePairing(good), { host: "127.0.0.1", ...good });
  for (const bad of [
    null,
    "x",
    { ...good, port: 0 },
    { ...good, port: "17321" },
    { ...good, port: 65_536 },
    { ...good, token: "short" },
    { ...good, token: "t".repeat(513) },
    { ...good, pairing: "" },
    { ...good, pairing: "Über" },
    { ...good, host: "example.org" },
  ]) {
    assert.equal(parsePairing(bad), null);
  }
});

test("Chrome's texts become codes", () => {
  const code = (text: string): string => toFailure(new Error(text)).code;
  assert.equal(code("No tab with id: 5."), "no-tab");
  assert.equal(code("Frame with ID 0 is showing error page"), "error-page");
  assert.equal(code("Cannot access a chrome:// URL"), "restricted-page");
  assert.equal(code('Cannot access contents of url "about:blank". Extension manifest must request permission'), "restricted-page");
  assert.equal(code("The extensions gallery cannot be scripted."), "restricted-page");
  assert.equal(code("No document with id ABC in tab with id 5"), "stale-ref");
  assert.equal(code("something new"), "internal");
  assert.ok(!toFailure(new Error("secret page text")).message.includes("secret"));
  const own = new Failure("covered", "x");
  assert.equal(toFailure(own), own);
});

test("an honest effect", () => {
  assert.equal(new Failure("timeout", "x").toWire(true).mayHaveEffect, true);
  assert.equal(new Failure("timeout", "x").toWire(false).mayHaveEffect, false);
  assert.equal(new Failure("internal", "x", { mayHaveEffect: true }).toWire(false).mayHaveEffect, true);
});

test("who is not there and who went away", () => {
  assert.ok(isNotInjected(new Error("Could not establish connection. Receiving end does not exist.")));
  assert.ok(isCutOff(new Error("The message port closed before a response was received.")));
  assert.ok(!isCutOff(new Failure("timeout", "late")));
});

test("the size of a PNG", () => {
  const head = Buffer.from([0x89, 0x50, 0x4e, 0x47, 13, 10, 26, 10, 0, 0, 0, 13, 0x49, 0x48, 0x44, 0x52, 0, 0, 3, 12, 0, 0, 1, 237]);
  assert.deepEqual(pngSize(head.toString("base64") + "AAAA"), { width: 780, height: 493 });
});
