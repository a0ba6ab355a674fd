// Builds the unpacked extension into `dist/` (default) or the node tests into `build/test/` (`--test`).
//
// `dist/` is complete: what Chrome loads, what the wheel ships. It is written anew each time, and equal sources give
// equal bytes: no time stamp, no absolute path, no source map.
import { cp, mkdir, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const common = {
  absWorkingDir: here,
  bundle: true,
  charset: "utf8",
  legalComments: "none",
  logLevel: "warning",
  target: "chrome125",
};

async function buildExtension() {
  const dist = join(here, "dist");
  await rm(dist, { recursive: true, force: true });
  await mkdir(dist, { recursive: true });
  const manifest = JSON.parse(await readFile(join(here, "manifest.json"), "utf8"));
  const own = JSON.parse(await readFile(join(here, "package.json"), "utf8"));
  if (manifest.version !== own.version) {
    throw new Error("manifest.json and package.json name different versions");
  }
  await build({
    ...common,
    entryPoints: { background: "src/background/main.ts", page: "src/page/main.ts", article: "src/page/article.ts", popup: "src/popup/popup.ts" },
    outdir: "dist",
    format: "iife",
    minify: true,
  });
  await Promise.all([
    writeFile(join(dist, "manifest.json"), `${JSON.stringify(manifest, null, 2)}\n`),
    writeFile(join(dist, "NOTICE.txt"), await notice()),
    cp(join(here, "_locales"), join(dist, "_locales"), { recursive: true }),
    cp(join(here, "icons"), join(dist, "icons"), { recursive: true }),
    cp(join(here, "src/popup/popup.html"), join(dist, "popup.html")),
    cp(join(here, "src/popup/popup.css"), join(dist, "popup.css")),
  ]);
}

/** Names what is bundled from others, with version and licence; Apache-2.0, section 4, asks for the licence's own words. */
async function notice() {
  const folder = join(here, "node_modules/@mozilla/readability");
  const { name, version, license } = JSON.parse(await readFile(join(folder, "package.json"), "utf8"));
  const words = await readFile(join(folder, "LICENSE.md"), "utf8");
  return `browsercell contains, in article.js, the library ${name} ${version} (licence: ${license}), unchanged but minified:\n\n${words}`;
}

async function buildTests() {
  const out = join(here, "build/test");
  await rm(out, { recursive: true, force: true });
  const tests = (await readdir(join(here, "test"))).filter((name) => name.endsWith(".test.ts"));
  await build({
    ...common,
    entryPoints: tests.map((name) => `test/${name}`),
    outdir: "build/test",
    outExtension: { ".js": ".mjs" },
    format: "esm",
    platform: "node",
    target: "node18",
  });
  await build({ ...common, entryPoints: ["test/probe.ts"], outdir: "build/test", format: "iife" });
}

await (process.argv.includes("--test") ? buildTests() : buildExtension());
