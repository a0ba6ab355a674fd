/**
 * A channel to the page runtime of each document: one port, kept open, calls told apart by number.
 *
 * A port answers in less than half the time of `tabs.sendMessage` (measured 0.3 against 0.8 ms). It closes with its
 * document; whatever was under way then fails with Chrome's own words for it, which `failure.ts` understands.
 */

const NAME = "browsercell"; // the page runtime listens for this one only

interface Waiting {
  readonly resolve: (text: unknown) => void;
  readonly reject: (error: Error) => void;
}

interface Channel {
  readonly port: chrome.runtime.Port;
  readonly waiting: Map<number, Waiting>;
}

export class Channels {
  readonly #open = new Map<string, Channel>();
  #calls = 0;

  /** Sends `message` to a document (undefined: the tab's main one) and resolves with its answer. Rejects if there is none. */
  ask(tab: number, documentId: string | undefined, message: object): Promise<unknown> {
    const key = `${tab} ${documentId ?? ""}`;
    const call = ++this.#calls;
    return new Promise((resolve, reject) => {
      const channel = this.#channel(key, tab, documentId);
      channel.waiting.set(call, { resolve, reject });
      try {
        channel.port.postMessage({ ...message, call });
      } catch (error) {
        this.#open.delete(key);
        channel.waiting.delete(call);
        reject(error instanceof Error ? error : new Error(String(error)));
      }
    });
  }

  #channel(key: string, tab: number, documentId: string | undefined): Channel {
    const known = this.#open.get(key);
    if (known !== undefined) return known;
    const port = chrome.tabs.connect(tab, documentId === undefined ? { frameId: 0, name: NAME } : { documentId, name: NAME });
    const channel: Channel = { port, waiting: new Map() };
    this.#open.set(key, channel);
    port.onMessage.addListener((answer: unknown) => {
      const [call, text] = answer as [number, unknown];
      channel.waiting.get(call)?.resolve(text);
      channel.waiting.delete(call);
    });
    port.onDisconnect.addListener(() => {
      const reason = chrome.runtime.lastError?.message ?? "The message port closed";
      if (this.#open.get(key) === channel) this.#open.delete(key);
      for (const { reject } of channel.waiting.values()) reject(new Error(reason));
      channel.waiting.clear();
    });
    return channel;
  }
}
