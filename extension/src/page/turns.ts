/** Waiting without a timer's clamp, which in a tab nobody sees is a whole second. */

/** One turn of the event loop: what is queued goes first. */
export function turn(): Promise<void> {
  return new Promise((done) => {
    const channel = new MessageChannel();
    channel.port1.onmessage = () => {
      channel.port1.close();
      done();
    };
    channel.port2.postMessage(0);
  });
}
