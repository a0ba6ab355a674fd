/**
 * The pairing in `chrome.storage.local`, closed to content scripts.
 *
 * Shape: `pairing = {host?: "127.0.0.1", port, token, pairing}`; `pairing` is "user" or the name a private Chromium was
 * paired under. `profile` is a random id made once per installation. What does not fit counts as not paired.
 */

import { MIN_TOKEN_CHARS } from "../wire";

export interface Pairing {
  readonly host: string;
  readonly port: number;
  readonly token: string;
  readonly pairing: string;
}

export const DEFAULT_HOST = "127.0.0.1";
const MAX_TOKEN_CHARS = 512; // no token of ours is longer than 64; the bound only keeps nonsense out

/** Reads what storage holds; null if it is no usable pairing. Pure. */
export function parsePairing(value: unknown): Pairing | null {
  if (typeof value !== "object" || value === null) return null;
  const { host = DEFAULT_HOST, port, token, pairing } = value as Record<string, unknown>;
  if (host !== DEFAULT_HOST) return null; // the content security policy lets nothing else through
  if (typeof port !== "number" || !Number.isInteger(port) || port < 1 || port > 65_535) return null;
  if (typeof token !== "string" || token.length < MIN_TOKEN_CHARS || token.length > MAX_TOKEN_CHARS) return null;
  if (typeof pairing !== "string" || !/^[a-z0-9-]{1,40}$/.test(pairing)) return null;
  return { host, port, token, pairing };
}

/** The stored pairing. Asked anew for every attempt: the call itself keeps the service worker alive while it retries. */
export async function loadPairing(): Promise<Pairing | null> {
  const { pairing } = await chrome.storage.local.get("pairing");
  return parsePairing(pairing);
}

/** The installation's random id, made at first use. */
export async function loadProfile(): Promise<string> {
  const { profile } = await chrome.storage.local.get("profile");
  if (typeof profile === "string" && /^[a-z0-9-]{1,40}$/.test(profile)) return profile;
  const fresh = crypto.randomUUID();
  await chrome.storage.local.set({ profile: fresh });
  return fresh;
}

/** By default content scripts can read storage.local, token included. */
export async function closeStorage(): Promise<void> {
  await Promise.all([
    chrome.storage.local.setAccessLevel({ accessLevel: "TRUSTED_CONTEXTS" }),
    chrome.storage.session.setAccessLevel({ accessLevel: "TRUSTED_CONTEXTS" }),
  ]);
}
