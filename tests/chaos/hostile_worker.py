"""A worker that seals itself for real and turns hostile at its first assignment, as the goal's first word says.

    honest               the real worker's behaviour
    multipart            endless parts of one message on the page link, written past libzmq to the connection itself
    multipart-model      the same on the model link
    calls                endless valid tool calls on the page link, beyond any credit
    infer                endless valid inferences on the model link
    silent               never answers anything again
    spin                 burns its processor, never answers
    traceback            with the first page data: prints them to both outputs and dies with them in a traceback

Option `--unsealed` (before the worker's own): claims a complete seal without any filter. `--mute`: never says hello.
It runs inside the seal, so everything it needs is imported and used before.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
import time
import traceback
from collections.abc import Callable

from browsercell.protocol import frames as f
from browsercell.protocol import limits as L
from browsercell.protocol.codec import encode
from browsercell.protocol.transport_blocking import BlockingLink
from browsercell.worker import app, seal
from browsercell.worker.loop import Side

# ZMTP 3: flags "long, more follow", length, body. Under both links' bounds, so that no part by itself is a fault.
# libzmq would keep an unfinished message at the sender; native code in a hostile worker has no such manners.
PART_BYTES = 64 * L.KIB
PART = memoryview(b"\x03" + struct.pack(">Q", PART_BYTES) + b"x" * PART_BYTES)
TOOL_CALL = encode(f.ToolCall(1, "browser_page_observe", b"{}"), L.MAX_WORKER_TO_BRIDGE)
MESSAGE = f.ChatMessage(role=f.ChatRole.USER, content="x" * 20_000)
INFER = encode(f.Infer(1, (MESSAGE,)), L.MAX_WORKER_TO_MODEL)
MAX_DESCRIPTOR = 64  # a worker has about twenty
PAGE_DATA_BYTES = 2_000  # a tool result longer than this holds a page


class Shell(app._Shell):
    """Looks at what comes in before the real machine does."""

    mode = b"honest"

    def __init__(self, links: dict[Side, BlockingLink], drop: Callable[[], seal.SealReport]) -> None:
        super().__init__(links, drop)
        self._connections = connections()

    def _take(self, side: Side, link: BlockingLink) -> None:
        taken = link.take

        def looked_at() -> bytes | None:
            data = taken()
            if data is not None:
                self._look(data)
            return data

        link.take = looked_at  # type: ignore[method-assign]
        try:
            super()._take(side, link)
        finally:
            link.take = taken  # type: ignore[method-assign]

    def _look(self, data: bytes) -> None:
        at = data.find(b"MODE:")
        if at >= 0 and self.mode == b"honest":
            self.mode = data[at + 5 :].split(b" ", 1)[0]
            self._turn()
        if self.mode == b"traceback" and len(data) > PAGE_DATA_BYTES:
            tell_everything(data)

    def _turn(self) -> None:
        page, model = self._links[Side.PAGE], self._links[Side.MODEL]
        match self.mode:
            case b"multipart":
                flood_parts(self._connections["page"])
            case b"multipart-model":
                flood_parts(self._connections["model"])
            case b"calls":
                flood_messages(page, TOOL_CALL)
            case b"infer":
                flood_messages(model, INFER)
            case b"silent":
                while True:
                    time.sleep(1)
            case b"spin":
                while True:
                    pass


def connections() -> dict[str, int]:
    """Descriptor of each link's connection by the last part of its path; asked before the seal forbids the question."""
    found: dict[str, int] = {}
    for number in range(3, MAX_DESCRIPTOR):  # /proc is out of sight by now
        try:
            with socket.socket(fileno=os.dup(number)) as one:
                peer = one.getpeername()
        except OSError:
            continue  # no socket, or one without a peer
        if isinstance(peer, str) and peer:
            found[peer.rpartition("/")[2]] = number
    return found


def flood_parts(descriptor: int) -> None:
    rest = PART
    while True:
        try:
            rest = rest[os.write(descriptor, rest) :] or PART
        except BlockingIOError:
            time.sleep(0.0005)  # the reader is behind


def flood_messages(link: BlockingLink, data: bytes) -> None:
    while True:
        link._sock.send(data)


def tell_everything(data: bytes) -> None:
    """Everything a careless worker could do with page data on its way down."""
    text = data.decode("utf-8", "replace")
    for stream in (sys.stdout, sys.stderr):
        print(text, file=stream, flush=True)
    for descriptor in (1, 2):
        os.write(descriptor, data[:60_000])
    try:
        raise RuntimeError(text)
    except RuntimeError:
        traceback.print_exc()
        raise


def pretend(fences: seal.Fences, **_: object) -> seal.SealReport:
    """A complete seal, as a liar reports it."""
    layers = tuple(f.SealLayer(name, True, "") for name in f.SealLayerName)
    return f.SealReport(f.SandboxLevel.CONTAINED, layers, fences.landlock_abi, 100)


def main() -> None:
    arguments = sys.argv[1:]
    if arguments[:1] == ["--mute"]:
        while True:
            time.sleep(1)
    if arguments[:1] == ["--unsealed"]:
        arguments = arguments[1:]
        seal.drop_to_allow_list = pretend
    traceback.format_exception(RuntimeError("used once before the seal"))
    app._Shell = Shell  # type: ignore[misc]
    app.main(arguments)


if __name__ == "__main__":
    main()
