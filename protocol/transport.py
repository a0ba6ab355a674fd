"""ZeroMQ links for an asyncio or uvloop loop: an edge-triggered reader on `zmq.FD`, not `zmq.asyncio`.

`zmq.asyncio` makes a Future a message and costs 1.8 times the latency and three quarters of the throughput
(facts/ipc 1.1). Here a link calls `on_message` straight from the loop's reader.

The rules of the edge are in `transport_edge`.

Invariants: callbacks run in the loop's thread, never inside `send` or the constructor, never after `close`;
`send` never waits; every message of a server is checked for the kernel's pid and uid before it is delivered.
Callbacks may call any method, `close` included. What this does not do: see `transport_base`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final

import zmq

from .errors import Backpressure, LocalMisuse, PeerUnreachable
from .transport_base import (
    DEFAULT_HANDSHAKE_MS,
    DEFAULT_HIGH_WATER,
    Expected,
    LinkEvent,
    LinkEventKind,
    Monitor,
    Peer,
    PeerCheck,
    bind_private,
    check_sendable,
    closed_error,
    endpoint,
    new_context,
    new_dealer,
    new_router,
    release_memory,
)
from .transport_edge import Edge

__all__ = [
    "ClientLink",
    "LinkEvent",
    "LinkEventKind",
    "Links",
    "Peer",
    "ServerLink",
]

# Messages read before a DISCONNECTED is reported: a peer's last words, up to the high-water mark, share the
# queue with those of the other peers.
LAST_WORDS: Final = 256
# When to return the memory of a closed server link to the kernel: libzmq's threads free it in milliseconds, or
# seconds later where every core is busy and what was held is large.
RELEASE_S: Final = (0.05, 0.5, 3.0, 12.0)
_EVENTS: Final = int(zmq.EVENTS)
_POLLIN: Final = int(zmq.POLLIN)
# Plain integers: combining pyzmq's enum flags takes about a microsecond, a message.
_NOWAIT: Final = int(zmq.NOBLOCK)
_NOWAIT_MORE: Final = int(zmq.NOBLOCK | zmq.SNDMORE)
_SERVER: Final = b""  # a dealer's peer has no routing id

OnMessage = Callable[[Peer, bytes], None]
OnEvent = Callable[[LinkEvent], None]


class _Link(ABC):
    """What server and client share: the two edges, events, closing."""

    _client = False

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        sock: zmq.Socket[bytes],
        on_message: OnMessage,
        on_event: OnEvent,
        expected: Expected,
        max_receive: int,
        max_send: int,
    ) -> None:
        self._sock = sock
        self._on_message = on_message
        self._on_event = on_event
        self._check = PeerCheck(expected)
        self._max_receive = max_receive
        self._max_send = max_send
        self._skipping = False
        self._closed = False
        self._loop = asyncio.get_running_loop()
        self._monitor = Monitor(context, sock)
        self._messages = Edge(self._loop, sock, self._receive)
        self._events = Edge(self._loop, self._monitor.socket, self._observe)
        self._events.watch()

    @property
    def closed(self) -> bool:
        return self._closed

    def pause(self) -> None:
        """Read no message until `resume`; the high-water mark bounds what waits. Events go on."""
        self._messages.unwatch()

    def resume(self) -> None:
        """Read (again)."""
        if not self._closed:
            self._messages.watch()

    def set_expected(self, pid: int | None, uid: int | None) -> None:
        """From now on messages of any other pid or uid (None: any) are faults."""
        self._check.expect(Expected(pid, uid))

    def close(self) -> None:
        """End the link now: no callback any more, unsent and unread messages are dropped, memory is freed (by
        libzmq's own thread, within milliseconds). Harmless when closed already."""
        if self._closed:
            return
        self._closed = True
        self._messages.unwatch()
        self._events.unwatch()
        self._monitor.close()
        self._sock.close(0)

    @abstractmethod
    def _receive(self) -> bool:
        """Take one message off the socket; False if there was none."""

    def _observe(self) -> bool:
        found, event = self._monitor.take(client=self._client)
        if event is None:
            return found
        self._note(event)
        try:
            if event.kind is LinkEventKind.DISCONNECTED:
                self._last_words()
        finally:
            if not self._closed:
                self._on_event(event)
        return found

    def _last_words(self) -> None:
        """Deliver what arrived before the end: the owner may close the link when it hears of the end."""
        for _ in range(LAST_WORDS):
            if not self._messages.watching or not self._receive():
                return

    @abstractmethod
    def _note(self, event: LinkEvent) -> None:
        """Keep book of the connection."""

    def _part(self, routing_id: bytes, frame: zmq.Frame) -> None:
        """Judge one received part and deliver it if it is a whole message of the right peer."""
        verdict = self._check.judge(routing_id, frame)
        if frame.more:
            self._skipping = True  # the rest is read and dropped part by part, in later steps
        if isinstance(verdict, LinkEvent):
            self._on_event(verdict)
        elif self._skipping:
            self._on_event(LinkEvent(LinkEventKind.MULTIPART, verdict.pid, verdict.uid))
        elif len(frame) > self._max_receive:
            self._on_event(LinkEvent(LinkEventKind.OVERSIZE, verdict.pid, verdict.uid))
        else:
            self._on_message(verdict, frame.bytes)

    def _waiting(self) -> bool:
        """Whether a message can be read. Also consumes the descriptor's signal, a third of the price of an EAGAIN."""
        return bool(int(self._sock.getsockopt(_EVENTS)) & _POLLIN)

    def _skip(self) -> bool:
        self._skipping = self._sock.recv(_NOWAIT, copy=False).more
        return True


class ServerLink(_Link):
    """A bound mandatory ROUTER. Made by `Links.serve`."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        sock: zmq.Socket[bytes],
        path: str,
        on_message: OnMessage,
        on_event: OnEvent,
        expected: Expected,
        max_receive: int,
        max_send: int,
    ) -> None:
        super().__init__(context, sock, on_message, on_event, expected, max_receive, max_send)
        self.path = path

    def send(self, routing_id: bytes, data: bytes) -> None:
        """Hand `data` (1 to max_send bytes) to the transport for the peer with `routing_id`. Never waits.

        Raises PeerUnreachable if nobody is connected under that id, Backpressure if that peer reads too slowly
        (nothing was queued), FrameTooLarge, LocalMisuse. No error does not mean delivery (see `calls`).
        """
        if self._closed:
            raise closed_error()
        check_sendable(data, self._max_send)
        try:
            self._sock.send(routing_id, _NOWAIT_MORE)
            self._sock.send(data, _NOWAIT)
        except zmq.Again:
            raise Backpressure("the peer reads too slowly") from None
        except zmq.ZMQError as error:
            if error.errno == zmq.EHOSTUNREACH:
                raise PeerUnreachable("nobody is connected under that id") from None
            raise
        finally:
            self._messages.poke()

    def close(self) -> None:
        """End the link now, remove its socket file, and soon give the memory its peers had filled to the kernel."""
        if self.closed:
            return
        super().close()
        if not self._loop.is_closed():
            for delay in RELEASE_S:
                self._loop.call_later(delay, release_memory)
        with contextlib.suppress(OSError):  # libzmq's thread may have removed it first, or the folder is gone
            os.unlink(self.path)

    def _note(self, event: LinkEvent) -> None:
        """Nothing to keep: a server's connections are its peers' affair."""

    def _receive(self) -> bool:
        if not self._waiting():
            return False
        if self._skipping:
            return self._skip()
        try:
            routing_id = self._sock.recv(_NOWAIT)
        except zmq.Again:
            return False
        self._part(routing_id, self._sock.recv(_NOWAIT, copy=False))
        return True


class ClientLink(_Link):
    """A connected DEALER. Made by `Links.connect`."""

    _client = True

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        sock: zmq.Socket[bytes],
        on_message: OnMessage,
        on_event: OnEvent,
        expected: Expected,
        max_receive: int,
        max_send: int,
        *,
        reconnect: bool,
    ) -> None:
        super().__init__(context, sock, on_message, on_event, expected, max_receive, max_send)
        self._reconnect = reconnect
        self._ready = False
        self._ended = False
        self._waiters: set[asyncio.Future[None]] = set()

    @property
    def ready(self) -> bool:
        """Whether the handshake is done and the connection was not seen to end."""
        return self._ready and not self._closed

    async def wait_ready(self, timeout_s: float) -> None:
        """Wait for the handshake. Raises PeerUnreachable when it fails or after `timeout_s` seconds."""
        if self._closed:
            raise closed_error()
        if self._ready:
            return
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._waiters.add(waiter)
        try:
            async with asyncio.timeout(timeout_s):
                await waiter
        except TimeoutError:
            raise PeerUnreachable(f"no answer from the peer within {timeout_s:g} s") from None
        finally:
            self._waiters.discard(waiter)

    def send(self, data: bytes) -> None:
        """Hand `data` (1 to max_send bytes) to the transport. Never waits.

        Raises PeerUnreachable while not connected, Backpressure if the peer reads too slowly (nothing was
        queued), FrameTooLarge, LocalMisuse. No error does not mean delivery (see `calls`).
        """
        if self._closed:
            raise closed_error()
        check_sendable(data, self._max_send)
        if not self._ready and not self._reconnect:  # it would be queued, perhaps for ever
            raise PeerUnreachable("the peer is not connected")
        try:
            self._sock.send(data, _NOWAIT)
        except zmq.Again:
            if self._ready:
                raise Backpressure("the peer reads too slowly, or just went away") from None
            raise PeerUnreachable("the peer is not connected") from None
        finally:
            self._messages.poke()

    def close(self) -> None:
        """End the link now; waiters get PeerUnreachable."""
        super().close()
        self._wake(closed_error())

    def _note(self, event: LinkEvent) -> None:
        match event.kind:
            case LinkEventKind.READY:
                self._ready = True
                self._ended = False
                self._wake(None)
            case LinkEventKind.DISCONNECTED | LinkEventKind.CONNECT_FAILED | LinkEventKind.HANDSHAKE_FAILED:
                self._ready = False
                self._ended = True
                if not self._reconnect:
                    self._wake(PeerUnreachable("the peer is not there"))
            case _:
                return

    def _wake(self, error: PeerUnreachable | None) -> None:
        for waiter in self._waiters:
            if waiter.done():
                continue
            if error is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(error)

    def _receive(self) -> bool:
        if not self._waiting():
            return False
        if self._skipping:
            return self._skip()
        try:
            frame = self._sock.recv(_NOWAIT, copy=False)
        except zmq.Again:
            return False
        if not self._ready and not self._ended:  # the READY event comes by another way and may be later
            self._ready = True
        self._part(_SERVER, frame)
        return True


class Links:
    """Owns one ZeroMQ context and the links made on it. Make it after any fork, inside the running loop's thread."""

    def __init__(self, io_threads: int = 1) -> None:
        self._context = new_context(io_threads)
        self._links: list[ServerLink | ClientLink] = []

    def serve(
        self,
        path: str,
        on_message: OnMessage,
        on_event: OnEvent,
        *,
        expect_pid: int | None,
        expect_uid: int | None,
        max_message: int,
        max_send: int | None = None,
        high_water: int = DEFAULT_HIGH_WATER,
        owner_uid: int | None = None,
        handshake_ms: int = DEFAULT_HANDSHAKE_MS,
        paused: bool = False,
    ) -> ServerLink:
        """Listen at `path` (`transport_base.bind_private` for its rules), giving the socket file to `owner_uid`.

        `max_message` bounds received, `max_send` (default: the same) sent messages, in bytes; `high_water` counts
        queued messages each way and peer. With `paused`, nothing is read before `resume`: for a peer whose pid
        becomes known only after it was spawned. A fault does not end the link; the owner does.
        """
        self._live()
        sock = new_router(self._context, max_message, high_water, handshake_ms)
        link: ServerLink | None = None
        try:
            # The monitor first, or a quick peer's ACCEPTED is missed.
            expected = Expected(expect_pid, expect_uid)
            link = ServerLink(
                self._context,
                sock,
                path,
                on_message,
                on_event,
                expected,
                max_message,
                max_send or max_message,
            )
            bind_private(sock, path, owner_uid)
        except BaseException:
            if link is not None:
                _Link.close(link)  # not its own close: whatever lies at the path is not ours
            else:
                sock.close(0)
            raise
        if not paused:
            link.resume()
        self._add(link)
        return link

    def connect(
        self,
        path: str,
        on_message: OnMessage,
        on_event: OnEvent,
        *,
        expect_server_pid: int | None = None,
        expect_server_uid: int | None = None,
        max_message: int,
        max_send: int | None = None,
        high_water: int = DEFAULT_HIGH_WATER,
        handshake_ms: int = DEFAULT_HANDSHAKE_MS,
        reconnect: bool = False,
    ) -> ClientLink:
        """Connect to `path`; returns at once, READY or CONNECT_FAILED follows (or `await link.wait_ready`).

        Without `reconnect` the first end of the connection is final. Nothing is queued while not connected.
        """
        self._live()
        address = endpoint(path)
        sock = new_dealer(self._context, max_message, high_water, handshake_ms, reconnect=reconnect)
        expected = Expected(expect_server_pid, expect_server_uid)
        link = ClientLink(
            self._context,
            sock,
            on_message,
            on_event,
            expected,
            max_message,
            max_send or max_message,
            reconnect=reconnect,
        )
        sock.connect(address)
        link.resume()
        self._add(link)
        return link

    def close(self) -> None:
        """Close every link and the context. Returns within milliseconds: nothing lingers."""
        for link in self._links:
            link.close()
        self._links.clear()
        self._context.term()
        release_memory()

    def _add(self, link: ServerLink | ClientLink) -> None:
        self._links = [other for other in self._links if not other.closed]
        self._links.append(link)

    def _live(self) -> None:
        if self._context.closed:
            raise LocalMisuse("the links are closed")
