// A host in another language: speaks the HOST link of protocol/README.md ("Another language") with npm's zeromq and @msgpack/msgpack.
//
//   node extension/test/host.mjs <path of the host socket> <working directory> <goal>
//
// Prints one JSON line per frame it gets: {"opened"}, {"progress"}, {"result"}, {"fault"}; ends with 0 after the result.
import { decode, encode } from "@msgpack/msgpack";
import { Dealer } from "zeromq";

const WIRE_VERSION = 1;
const MAX_FRAME = 256 * 1024;
const CONNECT_MS = 5_000;
const [socket, directory, goal] = process.argv.slice(2);

// No reconnecting: a new connection is a new session, and that is this program's decision, not the socket's.
const link = new Dealer({ maxMessageSize: MAX_FRAME, linger: 0, reconnectInterval: -1, receiveTimeout: 300_000 });
const ready = new Promise((resolve, reject) => {
  link.events.on("handshake", resolve);
  setTimeout(() => reject(new Error("no supervisor answers")), CONNECT_MS).unref();
});
link.connect(`ipc://${socket}`);
await ready; // what is sent before it could wait for ever

const send = (frame) => link.send(Buffer.concat([Buffer.from([WIRE_VERSION]), encode(frame)]));
const say = (kind, value) => console.log(JSON.stringify({ [kind]: value }));
const json = (value) => new TextEncoder().encode(JSON.stringify(value));

let call = 0; // ids count up by one, without gaps
await send({ t: "open_session", version: WIRE_VERSION, kind: "top", directory });
for await (const [data] of link) {
  if (data[0] !== WIRE_VERSION) throw new Error(`wire version ${data[0]}`);
  const frame = decode(data.subarray(1));
  if (frame.t === "session_opened") {
    say("opened", frame.supervisor_version);
    await send({ t: "host_call", call: ++call, tool: "browser_delegate_task", args: json({ goal }) });
  } else if (frame.t === "host_progress") {
    if (frame.call === call) say("progress", [frame.phase, frame.tool_calls, frame.max_tool_calls]);
  } else if (frame.t === "host_reply") {
    say("result", JSON.parse(new TextDecoder().decode(frame.content)));
    break;
  } else {
    say("fault", [frame.code, frame.message]);
    process.exitCode = 1;
    break;
  }
}
link.close();
