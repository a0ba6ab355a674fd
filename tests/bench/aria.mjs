// Playwright's side of a comparison: aria snapshots of pages in a browser that is already there, and tokens of a text.
//
// One JSON request a line on stdin, one JSON answer a line on stdout:
//   {"aria": "part of a URL", "times": 3, "mode": "default" | "ai"}  ->  {"text": "...", "ms": [1.2, ...]}
//   {"count": "text"}                                                ->  {"tokens": 12}
// The first argument is the browser's debugging port. Tokens are those of o200k, GPT-4o's.
import { createInterface } from "node:readline";
import { countTokens } from "gpt-tokenizer/encoding/o200k_base";
import { chromium } from "playwright-core";

const browser = await chromium.connectOverCDP(`http://127.0.0.1:${process.argv[2]}`);

async function pageOf(part) {
  for (let tries = 0; tries < 200; tries++) {
    const found = browser.contexts().flatMap((context) => context.pages()).find((page) => page.url().includes(part));
    if (found !== undefined) return found;
    await new Promise((done) => setTimeout(done, 50));
  }
  throw new Error("no such page");
}

async function answer(request) {
  if (request.count !== undefined) return { tokens: countTokens(request.count) };
  const page = await pageOf(request.aria);
  const ms = [];
  let text = "";
  for (let i = 0; i < request.times; i++) {
    const began = performance.now();
    text = await page.locator("body").ariaSnapshot(request.mode === "ai" ? { mode: "ai" } : {});
    ms.push(performance.now() - began);
  }
  return { text, ms };
}

for await (const line of createInterface({ input: process.stdin })) {
  const out = await answer(JSON.parse(line)).catch((error) => ({ error: String(error) }));
  process.stdout.write(`${JSON.stringify(out)}\n`);
}
await browser.close(); // of a connected browser: only lets go of it
