"""The parts of the extension's listener that touch sockets and the WebSocket library: one connection, its bounds.

Invariants: before its proof a peer can make us hold MAX_BEFORE_PROOF bytes and no more, whatever it sends and in however
many pieces; a message is at most the bound its reader names; what the library would log (requests, tracebacks) goes
nowhere. Nothing is decided here: `listener` gives the orders.
"""

from __future__ import annotations

import asyncio
import http
import logging
import socket
from collections.abc import Callable
from typing import Any, Final, Protocol

from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed
from websockets.frames import Frame, Opcode
from websockets.http11 import Request, Response
from websockets.protocol import State

from ...protocol import limits as L
from ...protocol.codec import encode_json
from ...protocol.errors import PeerViolation
from ...protocol.frames import ExtFrame
from ...protocol.liveness import Liveness

# Request line and headers of a browser (under 1 KiB), hello and proof; all that a stranger can make us hold.
MAX_BEFORE_PROOF: Final = 4 * L.MAX_HANDSHAKE_FRAME
MAX_FRAGMENTS: Final = 16_384  # of one message: the largest one in pieces of 2 KiB
HEARTBEAT_MISSES: Final = 2
_BACKLOG: Final = 64

_DATA: Final = frozenset({Opcode.TEXT, Opcode.BINARY, Opcode.CONT})

# The library's own records hold requests and tracebacks, so they go nowhere.
SILENT: Final = logging.getLogger(f"{__name__}.library")
SILENT.addHandler(logging.NullHandler())
SILENT.propagate = False
SILENT.setLevel(logging.CRITICAL + 1)


class Watcher(Protocol):
    """Who is told of a socket's life."""

    def accept(self, ws: Socket) -> Connection:
        """It was accepted."""
        ...

    def oversize(self, connection: Connection) -> None:
        """A stranger sent more than a handshake takes."""
        ...

    def lost(self, connection: Connection) -> None:
        """The socket is closed."""
        ...


class Connection:
    """One socket from its acceptance to its end; `port.Wire` once it is authenticated."""

    __slots__ = (
        "born",
        "deliver",
        "dismissed",
        "extension_id",
        "judged",
        "liveness",
        "number",
        "queued",
        "received",
        "socket",
        "trusted",
        "uid",
    )

    def __init__(self, number: int, ws: Socket, uid: int | None, now: float) -> None:
        self.number = number
        self.socket = ws
        self.uid = uid  # of the process at the other end; None: unknown
        self.born = now
        self.extension_id = ""
        self.received = 0  # bytes before the proof
        self.judged = False  # it has sent a whole request
        self.trusted = False
        self.deliver: Callable[[bytes], None] | None = None  # takes messages straight from the socket
        self.queued = 0  # messages on their way through the library's queue
        self.dismissed = False  # we ended it and said why in the log
        self.liveness = Liveness(L.EXTENSION_HEARTBEAT_MS / 1000, HEARTBEAT_MISSES)

    def send_now(self, frame: ExtFrame) -> bool:
        """Hand a frame over if that takes no waiting; False: nothing was done. Raises FrameTooLarge."""
        socket = self.socket
        if socket.state is not State.OPEN or socket.transport.get_write_buffer_size():
            return False
        socket.protocol.send_text(encode_json(frame).encode())
        socket.send_data()
        return True

    async def send(self, frame: ExtFrame) -> None:
        """Hand a frame over. Raises ConnectionError if the connection has ended, FrameTooLarge."""
        text = encode_json(frame)
        try:
            await self.socket.send(text)
        except ConnectionClosed:
            raise ConnectionError("the extension's connection has ended") from None

    def trust(self) -> None:
        """From now on messages may have the size that screenshots need."""
        self.trusted = True
        protocol: Any = self.socket.protocol
        # One name up to websockets 15, the other since.
        name = "max_message_size" if hasattr(protocol, "max_message_size") else "max_size"
        setattr(protocol, name, L.MAX_EXTENSION_FRAME)

    def cut(self) -> None:
        """End it at once."""
        self.deliver = None
        self.socket.transport.abort()


class Socket(ServerConnection):
    """The library's connection, counted from its first byte. Subclassed per listener, which sets `watcher`."""

    watcher: Watcher
    connection: Connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.connection = self.watcher.accept(self)

    def data_received(self, data: bytes) -> None:
        connection = self.connection
        if not connection.trusted:
            connection.received += len(data)
            if connection.received > MAX_BEFORE_PROOF:
                self.watcher.oversize(connection)
                return
        super().data_received(data)

    def process_event(self, event: Any) -> None:
        """One frame off the wire. A message in one piece needs no queue and no other task to be woken for it; while one
        in pieces is under way everything goes through the queue, so that the order stays."""
        connection = self.connection
        if isinstance(event, Frame) and event.opcode in _DATA:
            if (
                connection.deliver is not None
                and event.fin
                and not connection.queued
                and event.opcode is not Opcode.CONT
            ):
                connection.deliver(bytes(event.data))
                return
            connection.queued += event.opcode is not Opcode.CONT
        super().process_event(event)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.watcher.lost(self.connection)


async def receive(ws: ServerConnection, bound: int) -> bytes:
    """One message, in pieces: a message of endlessly many empty fragments is over no size limit of the library's."""
    parts: list[bytes] = []
    size = 0
    async for part in ws.recv_streaming(decode=False):
        parts.append(part)
        size += len(part)
        if size > bound or len(parts) > MAX_FRAGMENTS:
            raise PeerViolation("a message over the bound")
    if isinstance(ws, Socket):
        ws.connection.queued -= 1  # the caller handles it in this same turn
    return parts[0] if len(parts) == 1 else b"".join(parts)


def without_detail(ws: ServerConnection, _request: Request, response: Response) -> Response | None:
    """Refusals say their status and nothing else."""
    if response.status_code == http.HTTPStatus.SWITCHING_PROTOCOLS:
        return None
    return ws.respond(http.HTTPStatus(response.status_code), "")


def bind(host: str, port: int) -> socket.socket:
    """A listening socket at a literal loopback address. Raises OSError (EADDRINUSE: somebody has the port)."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        # On Linux this only skips the wait after a predecessor's end; it takes no port from anyone who listens.
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind((host, port))
        bound.listen(_BACKLOG)
        bound.setblocking(False)
    except OSError:
        bound.close()
        raise
    return bound
