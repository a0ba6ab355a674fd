"""A small extension with a key of its own and the real handshake: for tests of the bridge that are not about pages.

It answers `browser_tabs_list`, `browser_tabs_open` (background tab, waits until it is loaded), `browser_page_navigate`
and `browser_tabs_close`; anything else is an `internal` error.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

_WORKER = r"""
const text = new TextEncoder();
const hex = (bytes) => [...new Uint8Array(bytes)].map((b) => b.toString(16).padStart(2, "0")).join("");
const mac = async (token, lines) => {
  const key = await crypto.subtle.importKey("raw", text.encode(token), { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  return hex(await crypto.subtle.sign("HMAC", key, text.encode(lines.join("\n"))));
};
let socket = null;
const settle = (tab) => new Promise((done) => {
  const look = async () => {
    const now = await chrome.tabs.get(tab).catch(() => null);
    if (!now || (now.status === "complete" && !now.pendingUrl)) done(now); else setTimeout(look, 30);
  };
  setTimeout(look, 50);
});
const run = async (m) => {
  if (m.op === "browser_tabs_list") {
    const tabs = await chrome.tabs.query({});
    return { tabs: tabs.map((t) => ({ tab: t.id, url: t.url || "", title: t.title || "" })) };
  }
  if (m.op === "browser_tabs_open") {
    const made = await chrome.tabs.create({ url: m.args.url, active: false });
    const tab = await settle(made.id);
    return { tab: made.id, url: (tab && tab.url) || "", title: (tab && tab.title) || "" };
  }
  if (m.op === "browser_page_navigate") {
    await chrome.tabs.update(m.tab, { url: m.args.url });
    const tab = await settle(m.tab);
    return { tab: m.tab, url: (tab && tab.url) || "", title: (tab && tab.title) || "" };
  }
  if (m.op === "browser_tabs_close") { await chrome.tabs.remove(m.tab); return {}; }
  if (m.op === "browser_page_wait") { await new Promise((done) => setTimeout(done, 60000)); return {}; }
  throw new Error("unknown");
};
const connect = async () => {
  const { pairing } = await chrome.storage.local.get("pairing");
  if (!pairing || socket) return;
  const s = new WebSocket(`ws://${pairing.host}:${pairing.port}/extension`);
  socket = s;
  const nonce = hex(crypto.getRandomValues(new Uint8Array(32)));
  s.onopen = () => s.send(JSON.stringify({ t: "hello", version: 1, extensionVersion: "0.0.1", nonce,
    pairing: pairing.pairing, profile: "tiny-profile" }));
  s.onmessage = async (event) => {
    const m = JSON.parse(event.data);
    const lines = (role) => ["browsercell-handshake-1", role, "1", chrome.runtime.id, pairing.pairing, m.connection,
      pairing.host, String(pairing.port), nonce, m.nonce];
    if (m.t === "challenge") {
      if (m.mac !== await mac(pairing.token, lines("bridge"))) { s.close(4001); return; }
      s.send(JSON.stringify({ t: "proof", mac: await mac(pairing.token, lines("extension")) }));
    } else if (m.t === "ping") s.send(JSON.stringify({ t: "pong", nonce: m.nonce }));
    else if (m.t === "command") {
      let reply;
      try { reply = { t: "reply", id: m.id, ok: await run(m) }; }
      catch (e) { reply = { t: "reply", id: m.id, error: { code: "internal", message: "failed" } }; }
      s.send(JSON.stringify(reply));
    }
  };
  s.onclose = () => { if (socket === s) socket = null; setTimeout(connect, 200); };
};
chrome.storage.onChanged.addListener(connect);
chrome.runtime.onStartup.addListener(connect);
connect();
"""


def write(folder: Path) -> Path:
    """Write the extension into `folder` (made) and return it."""
    folder.mkdir(parents=True)
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048).public_key()
    der = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    manifest = {
        "manifest_version": 3,
        "name": "tiny",
        "version": "0.0.1",
        "key": base64.b64encode(der).decode(),
        "background": {"service_worker": "worker.js"},
        "permissions": ["storage", "tabs", "debugger"],
        "host_permissions": ["<all_urls>"],
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    (folder / "worker.js").write_text(_WORKER)
    return folder
