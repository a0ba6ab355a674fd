/**
 * The socket's shell: turns WebSocket and timers into events of `machine.ts` and carries out its effects.
 *
 * One connection at a time. Frames are checked against their schema before anything looks at them; before `ready` only
 * handshake frames are accepted. Nothing is ever sent again: a command whose connection is gone is abandoned.
 */

import {
  DOWN_SCHEMAS,
  EXTENSION_HANDSHAKE_MS,
  EXTENSION_PROTOCOL,
  type ExtCancel,
  type ExtChallenge,
  type ExtCommand,
  MAX_EXTENSION_FRAME,
  MAX_HANDSHAKE_FRAME,
  type DownFrame,
  type InputMode,
  type UpFrame,
} from "../wire";
import { misfit } from "../schema";
import { equal, nonce, proof, type Transcript } from "./handshake";
import { type Connection, type Effect, type Event, initial, step } from "./machine";
import { loadPairing, loadProfile, type Pairing } from "./pairing";

export interface Handlers {
  /** A command of an authenticated bridge. */
  command(command: ExtCommand): void;
  cancel(cancel: ExtCancel): void;
  /** Authenticated; commands follow. */
  ready(input: InputMode, pairing: Pairing): void;
  /** The connection is gone: abandon what runs. */
  lost(): void;
}

const CAPABILITIES = ["frames", "screenshots", "trusted-input"] as const;
const JITTER = 0.2; // of the back-off, either way: two extensions must not knock in step

export class Link {
  #machine: Connection = initial;
  #socket: WebSocket | null = null;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #handshakeTimer: ReturnType<typeof setTimeout> | undefined;
  #pairing: Pairing | null = null;
  #nonce = "";
  #mac = "";
  #since = Date.now();
  readonly #handlers: Handlers;

  constructor(handlers: Handlers) {
    this.#handlers = handlers;
  }

  /** What the popup shows. */
  get status(): { connection: Connection; since: number; pairing: Pairing | null } {
    return { connection: this.#machine, since: this.#since, pairing: this.#pairing };
  }

  /** Reads the pairing anew and acts on it. `wake` is an occasion to try, not news. */
  async refresh(why: "start" | "wake" | "changed"): Promise<void> {
    const pairing = await loadPairing();
    if (pairing === null) {
      this.#pairing = null;
      this.#feed({ name: "unpaired" });
      return;
    }
    const same =
      this.#pairing !== null &&
      this.#pairing.port === pairing.port &&
      this.#pairing.token === pairing.token &&
      this.#pairing.pairing === pairing.pairing;
    this.#pairing = pairing;
    if (!same || this.#machine.state === "idle") this.#feed({ name: "paired" });
    else if (why !== "changed") this.#feed({ name: "wake" });
  }

  /** Sends a frame if the bridge is there; says whether it was. */
  send(frame: UpFrame): boolean {
    if (this.#socket?.readyState !== WebSocket.OPEN || this.#machine.state !== "ready") return false;
    this.#socket.send(JSON.stringify(frame));
    return true;
  }

  /** Sends text that is already a frame of ours. */
  sendText(text: string): boolean {
    if (this.#socket?.readyState !== WebSocket.OPEN || this.#machine.state !== "ready") return false;
    this.#socket.send(text);
    return true;
  }

  #feed(event: Event): void {
    const before = this.#machine.state;
    const [next, effects] = step(this.#machine, event);
    this.#machine = next;
    if (next.state !== before) {
      this.#since = Date.now();
      if (before === "ready") this.#handlers.lost();
      if (next.state !== "connecting" && next.state !== "challenged" && next.state !== "proving") clearTimeout(this.#handshakeTimer);
    }
    for (const effect of effects) this.#run(effect);
  }

  #run(effect: Effect): void {
    switch (effect.do) {
      case "open":
        void this.#open();
        return;
      case "hello":
        void this.#hello();
        return;
      case "proof":
        this.#sendHandshake({ t: "proof", mac: this.#mac });
        return;
      case "close": {
        const socket = this.#socket;
        this.#socket = null; // its later events are of an older attempt
        socket?.close(effect.code);
        return;
      }
      case "timer":
        clearTimeout(this.#timer);
        this.#timer = setTimeout(() => void this.#due(), effect.ms * (1 - JITTER + 2 * JITTER * Math.random()));
        return;
      case "stop-timer":
        clearTimeout(this.#timer);
        this.#timer = undefined;
    }
  }

  /** Storage is read in every attempt: it is the truth, and the call keeps the service worker awake (facts 3). */
  async #due(): Promise<void> {
    const pairing = await loadPairing();
    this.#pairing = pairing;
    this.#feed({ name: pairing === null ? "unpaired" : "due" });
  }

  async #open(): Promise<void> {
    const pairing = this.#pairing;
    if (pairing === null) return;
    clearTimeout(this.#handshakeTimer);
    this.#handshakeTimer = setTimeout(() => this.#feed({ name: "slow" }), EXTENSION_HANDSHAKE_MS);
    const socket = new WebSocket(`ws://${pairing.host}:${pairing.port}/extension`);
    this.#socket = socket;
    const current = (event: Event): void => {
      if (this.#socket === socket) this.#feed(event);
    };
    socket.onopen = () => current({ name: "opened" });
    socket.onmessage = (message: MessageEvent<unknown>) => {
      if (this.#socket === socket) void this.#receive(message.data, socket);
    };
    socket.onclose = () => {
      if (this.#socket !== socket) return;
      this.#socket = null;
      this.#feed({ name: "closed" });
    };
  }

  #sendHandshake(frame: UpFrame): void {
    if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify(frame));
  }

  async #hello(): Promise<void> {
    const socket = this.#socket;
    const pairing = this.#pairing;
    if (pairing === null) return;
    const profile = await loadProfile();
    if (this.#socket !== socket) return;
    this.#nonce = nonce();
    this.#sendHandshake({
      t: "hello",
      version: EXTENSION_PROTOCOL,
      extensionVersion: chrome.runtime.getManifest().version,
      nonce: this.#nonce,
      pairing: pairing.pairing,
      profile,
      capabilities: CAPABILITIES,
    });
  }

  async #receive(data: unknown, socket: WebSocket): Promise<void> {
    const frame = this.#parse(data);
    if (frame === null) {
      this.#feed({ name: "garbage" });
      return;
    }
    const ready = this.#machine.state === "ready";
    switch (frame.t) {
      case "challenge": {
        const right = await this.#verify(frame);
        if (this.#socket === socket) this.#feed({ name: right ? "proven" : "unproven" });
        return;
      }
      case "ready":
        this.#feed({ name: "accepted" });
        if (this.#machine.state === "ready" && !ready && this.#pairing !== null) this.#handlers.ready(frame.input, this.#pairing);
        return;
      case "refused":
        this.#feed({ name: "refusal", code: frame.code });
        return;
      case "ping":
        if (ready) this.send({ t: "pong", nonce: frame.nonce });
        else this.#feed({ name: "garbage" });
        return;
      case "command":
        if (ready) this.#handlers.command(frame);
        else this.#feed({ name: "garbage" });
        return;
      case "cancel":
        if (ready) this.#handlers.cancel(frame);
        else this.#feed({ name: "garbage" });
    }
  }

  #parse(data: unknown): DownFrame | null {
    const bound = this.#machine.state === "ready" ? MAX_EXTENSION_FRAME : MAX_HANDSHAKE_FRAME;
    if (typeof data !== "string" || data.length > bound) return null;
    let value: unknown;
    try {
      value = JSON.parse(data);
    } catch {
      return null; // not JSON: the caller treats it as garbage
    }
    if (typeof value !== "object" || value === null) return null;
    const tag = (value as { t?: unknown }).t;
    if (typeof tag !== "string" || !Object.hasOwn(DOWN_SCHEMAS, tag)) return null;
    return misfit(DOWN_SCHEMAS[tag as DownFrame["t"]], value) === "" ? (value as DownFrame) : null;
  }

  async #verify(challenge: ExtChallenge): Promise<boolean> {
    const pairing = this.#pairing;
    if (pairing === null) return false;
    const transcript: Transcript = {
      version: EXTENSION_PROTOCOL,
      extensionId: chrome.runtime.id,
      pairing: pairing.pairing,
      connection: challenge.connection,
      host: pairing.host,
      port: pairing.port,
      extensionNonce: this.#nonce,
      bridgeNonce: challenge.nonce,
    };
    if (!equal(challenge.mac, await proof(pairing.token, "bridge", transcript))) return false;
    this.#mac = await proof(pairing.token, "extension", transcript);
    return true;
  }
}
