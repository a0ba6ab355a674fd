/**
 * The handshake's proofs (design 9).
 *
 * mac = lower-case hex HMAC-SHA-256, key: the token's UTF-8 bytes, message: these lines joined by "\n", no line feed at
 * the end, UTF-8:
 *
 *     browsercell-handshake-1
 *     <role>               "bridge" or "extension": whose proof it is
 *     <protocol version>   decimal, 1
 *     <extension id>       32 letters a-p, from the Origin header and from chrome.runtime.id
 *     <pairing>            "user", or the name a private Chromium was paired under
 *     <connection>         64 hex digits, made by the bridge for this connection
 *     <host>               as the listener and the URL write it: 127.0.0.1
 *     <port>               decimal
 *     <extension nonce>    64 hex digits
 *     <bridge nonce>       64 hex digits
 *
 * The bridge proves itself first; a wrong proof ends the connection before the extension has proven anything, so a
 * process that took the port learns nothing it could use. Holds no state.
 */

export interface Transcript {
  readonly version: number;
  readonly extensionId: string;
  readonly pairing: string;
  readonly connection: string;
  readonly host: string;
  readonly port: number;
  readonly extensionNonce: string;
  readonly bridgeNonce: string;
}

export type Role = "bridge" | "extension";

const LABEL = "browsercell-handshake-1";

/** The bytes that are authenticated. */
export function message(role: Role, t: Transcript): string {
  return [
    LABEL,
    role,
    String(t.version),
    t.extensionId,
    t.pairing,
    t.connection,
    t.host,
    String(t.port),
    t.extensionNonce,
    t.bridgeNonce,
  ].join("\n");
}

/** The proof of `role`. */
export async function proof(token: string, role: Role, transcript: Transcript): Promise<string> {
  const encoder = new TextEncoder();
  const key = await crypto.subtle.importKey("raw", encoder.encode(token), { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  return hex(new Uint8Array(await crypto.subtle.sign("HMAC", key, encoder.encode(message(role, transcript)))));
}

/** Compares two hex strings in time that depends on their length only. */
export function equal(a: string, b: string): boolean {
  if (a.length !== b.length) return false;
  let difference = 0;
  for (let i = 0; i < a.length; i++) difference |= a.charCodeAt(i) ^ b.charCodeAt(i);
  return difference === 0;
}

export const hex = (bytes: Uint8Array): string => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");

/** 32 fresh random bytes as 64 hex digits. */
export const nonce = (): string => hex(crypto.getRandomValues(new Uint8Array(32)));
