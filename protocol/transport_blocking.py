"""ZeroMQ links for a process without an event loop: the worker, which holds exactly two, one to each bridge.

Invariants: every wait has a deadline; a lost connection is final (no reconnect) and every later call says so;
a message over the bound or of several parts ends the link, as the peer broke the protocol; no thread of ours.
A frame
handed to `send` is written by libzmq's thread a moment later: who exits at once takes its last frames along, so
wait for the peer's answer first. Imports no asyncio. After the worker's seal nothing here opens a file or a socket: connect, `wait_ready`, then
seal. What this does not do: see `transport_base`; who the server is can't be checked from inside a pid namespace
(an outer pid reads as 0), so the private folder is what vouches for it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import zmq

from .errors import Backpressure, PeerUnreachable, PeerViolation
from .transport_base import (
    DEFAULT_HANDSHAKE_MS,
    DEFAULT_HIGH_WATER,
    LinkEventKind,
    Monitor,
    check_sendable,
    closed_error,
    endpoint,
    new_context,
    new_dealer,
)

_ENDS = frozenset(
    {LinkEventKind.DISCONNECTED, LinkEventKind.CONNECT_FAILED, LinkEventKind.HANDSHAKE_FAILED},
)


class BlockingLink:
    """A connected DEALER. Made by `BlockingLinks.connect`; for one thread."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        sock: zmq.Socket[bytes],
        max_receive: int,
        max_send: int,
    ) -> None:
        self._sock = sock
        self._monitor = Monitor(context, sock)
        self._max_receive = max_receive
        self._max_send = max_send
        self._ready = False
        self._lost = False
        self._closed = False

    @property
    def lost(self) -> bool:
        """Whether the connection has ended, or never came to be. Messages that arrived before can still be taken."""
        return self._lost or self._closed

    def wait_ready(self, timeout_ms: int) -> None:
        """Wait for the handshake; PeerUnreachable when it fails or after `timeout_ms`."""
        deadline = time.monotonic() + timeout_ms / 1000
        self._observe()
        while not self._ready:
            left = deadline - time.monotonic()
            if self.lost or left <= 0:
                raise PeerUnreachable(
                    "the peer is not there" if self.lost else "no answer from the peer in time"
                )
            self._monitor.socket.poll(_milliseconds(left))
            self._observe()

    def send(self, data: bytes, timeout_ms: int) -> None:
        """Hand `data` (1 to max_send bytes) to the transport, waiting for room for up to `timeout_ms`.

        Raises PeerUnreachable once the connection is gone, Backpressure at the deadline (nothing was queued),
        FrameTooLarge, LocalMisuse. No error does not mean delivery (see `calls`).
        """
        if self._closed:
            raise closed_error()
        check_sendable(data, self._max_send)
        deadline = time.monotonic() + timeout_ms / 1000
        while True:
            self._observe()
            if self._lost:
                raise PeerUnreachable("the peer has closed the connection")
            if self._ready:  # before that it would be queued, perhaps for ever
                try:
                    self._sock.send(data, zmq.NOBLOCK)
                    return
                except zmq.Again:
                    pass  # no room: wait for it
            left = deadline - time.monotonic()
            if left <= 0:
                raise (
                    Backpressure("the peer reads too slowly")
                    if self._ready
                    else PeerUnreachable("not connected")
                )
            waits = [(self._monitor.socket, zmq.POLLIN)]
            if self._ready:
                waits.append((self._sock, zmq.POLLOUT))
            zmq.zmq_poll(waits, _milliseconds(left))

    def take(self) -> bytes | None:
        """The next message, or None if there is none now. PeerViolation ends the link; PeerUnreachable: it is
        lost (or closed) and nothing is left to take."""
        if self._closed:
            raise closed_error()
        known_lost = self._lost
        try:
            frame = self._sock.recv(zmq.NOBLOCK, copy=False)
        except zmq.Again:
            if known_lost:
                raise PeerUnreachable("the peer has closed the connection") from None
            self._observe()
            # Newly lost: its last message may have come between the two looks.
            return self.take() if self._lost else None
        if frame.more or len(frame) > self._max_receive:
            self.close()
            raise PeerViolation("the peer sent a message of several parts or over the link's bound")
        return frame.bytes

    def receive(self, timeout_ms: int) -> bytes | None:
        """The next message, waiting for up to `timeout_ms`; None at the deadline. Raises what `take` raises."""
        poll_all([self], timeout_ms)
        return self.take()

    def close(self) -> None:
        """End the link now. Harmless when closed already."""
        if self._closed:
            return
        self._closed = True
        self._monitor.close()
        self._sock.close(0)

    def _observe(self) -> None:
        while not self._closed:
            found, event = self._monitor.take(client=True)
            if not found:
                return
            if event is None:
                continue
            if event.kind is LinkEventKind.READY:
                self._ready = True
            elif event.kind in _ENDS:
                self._lost = True

    def _readable(self) -> bool:
        return self.lost or bool(int(self._sock.getsockopt(zmq.EVENTS)) & zmq.POLLIN)

    def _descriptors(self) -> list[tuple[zmq.Socket[bytes], int]]:
        return [(self._sock, zmq.POLLIN), (self._monitor.socket, zmq.POLLIN)]


def poll_all(links: Sequence[BlockingLink], timeout_ms: int) -> list[BlockingLink]:
    """Wait for up to `timeout_ms` until a link has a message or is lost; those links, in order, else []."""
    deadline = time.monotonic() + timeout_ms / 1000
    while True:
        for link in links:
            link._observe()
        due = [link for link in links if link._readable()]
        left = deadline - time.monotonic()
        if due or left <= 0:
            return due
        zmq.zmq_poll([pair for link in links for pair in link._descriptors()], _milliseconds(left))


class BlockingLinks:
    """Owns one ZeroMQ context and the links made on it."""

    def __init__(self, io_threads: int = 1) -> None:
        self._context = new_context(io_threads)
        self._links: list[BlockingLink] = []

    def connect(
        self,
        path: str,
        *,
        max_message: int,
        max_send: int | None = None,
        high_water: int = DEFAULT_HIGH_WATER,
        handshake_ms: int = DEFAULT_HANDSHAKE_MS,
    ) -> BlockingLink:
        """Connect to `path`; returns at once, `wait_ready` tells. Bounds as in `transport.Links.connect`."""
        address = endpoint(path)
        sock = new_dealer(self._context, max_message, high_water, handshake_ms, reconnect=False)
        link = BlockingLink(self._context, sock, max_message, max_send or max_message)
        sock.connect(address)
        self._links.append(link)
        return link

    def close(self) -> None:
        """Close every link and the context; nothing lingers."""
        for link in self._links:
            link.close()
        self._links.clear()
        self._context.term()


def _milliseconds(seconds: float) -> int:
    """Rounded up, so that a wait never turns into polling in its last millisecond."""
    return int(seconds * 1000) + 1
