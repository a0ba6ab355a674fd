"""The control link: an inherited `SOCK_SEQPACKET` socketpair between the supervisor and a bridge (design 2).

Why not ZeroMQ here: bounds are exact (one datagram, one frame; the kernel holds no more than its buffer), there
is no name to steal and nobody to authenticate, the end of the peer is an end of file, and descriptors can travel.

Invariants: a frame is 1 to `max_send` bytes out, 1 to `max_receive` in, whole or not at all; a longer one, more
descriptors than fit, or any descriptor towards a link that accepts none ends the link as the peer's violation,
and no descriptor leaks; frames keep their order; at most `max_queue` bytes wait for a slow peer, then sending is
Backpressure; `on_eof` is called exactly once unless the owner closed first, `fault` then says why; callbacks run
in the loop's thread, never inside `send` or the constructor, never after `close`.

An empty datagram can't be told from an end of file and is taken for one. SO_PEERCRED is not looked at: for a
pair made before the fork it names the maker, whoever holds the other end. Knows no frame type.
"""

from __future__ import annotations

import array
import asyncio
import contextlib
import fcntl
import os
import socket
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from .errors import Backpressure, FrameTooLarge, LocalMisuse, PeerUnreachable, PeerViolation

MAX_DESCRIPTORS: Final = 8  # a frame; a debugging pipe has two, a delivery one
BUFFER_BYTES: Final = 256 * 1024  # asked for; the kernel caps it at net.core.wmem_max, by default 208 KiB
# What must have been granted: a 72 KiB frame costs up to twice its size of kernel memory (truesize).
MIN_BUFFER_BYTES: Final = 160 * 1024
DEFAULT_QUEUE_BYTES: Final = 1024 * 1024  # a dozen of the largest frames: a peer behind by more is stuck
_TURN: Final = 64  # frames a turn of the loop
_INT: Final = array.array("i").itemsize

OnMessage = Callable[[bytes, list[int]], None]


class ControlPair(NamedTuple):
    """Both ends of a new control link: ours as a socket, the child's as a bare descriptor to hand over.

    Both are close-on-exec; give `child_fd` to the child (`pass_fds`) and close it here after the spawn.
    """

    parent: socket.socket
    child_fd: int

    @classmethod
    def make(cls) -> ControlPair:
        """A connected pair, non-blocking, with buffers for at least one largest frame.

        Raises LocalMisuse if the kernel grants too small a buffer.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            for end in (ours, theirs):
                end.setblocking(False)
                end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
                if end.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) < MIN_BUFFER_BYTES:
                    raise LocalMisuse(
                        "the kernel grants too small a socket buffer",
                        next_step=f"raise net.core.wmem_max to {BUFFER_BYTES}",
                    )
        except BaseException:
            ours.close()
            theirs.close()
            raise
        return cls(ours, theirs.detach())


def adopt(fd: int) -> socket.socket:
    """The child's end, from the descriptor it inherited. LocalMisuse if it is not such a socket."""
    try:
        sock = socket.socket(fileno=fd)
    except OSError:
        raise LocalMisuse("the inherited control descriptor is not a socket") from None
    if sock.family != socket.AF_UNIX or sock.type != socket.SOCK_SEQPACKET:
        sock.detach()
        raise LocalMisuse("the inherited control descriptor is not a SOCK_SEQPACKET unix socket")
    sock.setblocking(False)
    sock.set_inheritable(False)
    return sock


class _Queued(NamedTuple):
    data: bytes
    fds: tuple[int, ...]  # duplicates, ours to close


class ControlLink:
    """One end of a control link. Owns `sock`. Bounds in bytes of a frame; needs a running loop.

    `on_message(data, fds)`: one frame; the descriptors (close-on-exec, [] unless `accept_fds`) are the callee's
    to close. `on_eof()`: the link has ended and is closed; `fault` is the PeerViolation behind it, or None.
    """

    def __init__(
        self,
        sock: socket.socket,
        *,
        max_send: int,
        max_receive: int,
        on_message: OnMessage,
        on_eof: Callable[[], None],
        accept_fds: bool,
        max_queue: int = DEFAULT_QUEUE_BYTES,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._sock = sock
        self._max_send = max_send
        self._max_receive = max_receive
        self._on_message = on_message
        self._on_eof = on_eof
        # No room for ancillary data: the kernel then discards descriptors and says MSG_CTRUNC (recvmsg(2)).
        self._ancillary = socket.CMSG_SPACE(MAX_DESCRIPTORS * _INT) if accept_fds else 0
        self._max_queue = max_queue
        self._queue: deque[_Queued] = deque()
        self._queued_bytes = 0
        self._closed = False
        self._ending = False
        self._fault: PeerViolation | None = None
        # One byte more than allowed, so that one too many shows even without the kernel's MSG_TRUNC.
        self._buffer = bytearray(max_receive + 1)
        self._view = memoryview(self._buffer)
        sock.setblocking(False)
        self._fd = sock.fileno()
        self._loop.add_reader(self._fd, self._read)

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def fault(self) -> PeerViolation | None:
        """What the peer did wrong, if that is what ended the link."""
        return self._fault

    @property
    def queued_bytes(self) -> int:
        """Bytes waiting for the peer to read; never above `max_queue`."""
        return self._queued_bytes

    def send(self, data: bytes, fds: Sequence[int] = ()) -> None:
        """Send one frame, with up to MAX_DESCRIPTORS descriptors (borrowed: the caller may close them at once).

        Raises PeerUnreachable (the link has ended; `on_eof` follows or was called), Backpressure (nothing was
        queued), FrameTooLarge, LocalMisuse.
        """
        if self._closed or self._ending:
            raise PeerUnreachable("the control link has ended")
        if not data:
            raise LocalMisuse("an empty frame would read as the end of the link")
        if len(data) > self._max_send:
            raise FrameTooLarge(f"a frame of {len(data)} bytes is over the link's bound of {self._max_send}")
        if len(fds) > MAX_DESCRIPTORS:
            raise LocalMisuse(f"a frame carries at most {MAX_DESCRIPTORS} descriptors")
        if not self._queue:
            try:
                self._transmit(data, fds)
                return
            except BlockingIOError:
                pass  # full: queued below
            except (BrokenPipeError, ConnectionResetError):
                self._end_soon()
                raise PeerUnreachable("the control link has ended") from None
            except OSError as error:
                raise LocalMisuse(f"the frame can't be sent ({os.strerror(error.errno or 0)})") from None
        if self._queued_bytes + len(data) > self._max_queue:
            raise Backpressure("the peer reads its control link too slowly")
        self._queue.append(_Queued(data, _duplicates(fds)))
        self._queued_bytes += len(data)
        if len(self._queue) == 1:
            self._loop.add_writer(self._fd, self._flush)

    def close(self) -> None:
        """End the link now: no callback any more, queued frames are dropped. Harmless when closed already."""
        if self._closed:
            return
        self._closed = True
        self._loop.remove_reader(self._fd)
        self._loop.remove_writer(self._fd)
        while self._queue:
            _close_all(self._queue.popleft().fds)
        self._queued_bytes = 0
        self._sock.close()

    def _transmit(self, data: bytes, fds: Sequence[int]) -> None:
        if fds:
            rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))
            self._sock.sendmsg([data], [rights], socket.MSG_NOSIGNAL)
        else:
            self._sock.send(data, socket.MSG_NOSIGNAL)

    def _flush(self) -> None:
        """The peer has read something: send what waits, in order."""
        while self._queue:
            item = self._queue[0]
            try:
                self._transmit(item.data, item.fds)
            except BlockingIOError:
                return
            except OSError:  # the peer is gone; what it sent before is still read first
                self._loop.remove_writer(self._fd)
                self._end_soon()
                return
            self._queue.popleft()
            self._queued_bytes -= len(item.data)
            _close_all(item.fds)
        self._loop.remove_writer(self._fd)

    def _read(self) -> None:
        for _ in range(_TURN):
            if self._closed or not self._read_one():
                return

    def _read_one(self) -> bool:
        """Read one frame. False when there is nothing more to read in this turn."""
        try:
            size, ancillary, flags, _ = self._sock.recvmsg_into(
                [self._buffer], self._ancillary, socket.MSG_CMSG_CLOEXEC
            )
        except BlockingIOError:
            return False
        except ConnectionResetError:  # the peer closed with frames of ours unread
            self._end(None)
            return False
        fds = _received(ancillary) if ancillary else []
        if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC) or size > self._max_receive:
            _close_all(fds)
            what = (
                "descriptors that this link does not take"
                if flags & socket.MSG_CTRUNC
                else "an oversize frame"
            )
            self._end(PeerViolation(f"the peer sent {what} over the control link"))
            return False
        if size == 0:
            _close_all(fds)
            self._end(None)
            return False
        self._on_message(bytes(self._view[:size]), fds)
        return True

    def _end_soon(self) -> None:
        """A send found the peer gone: what it sent before is read first, then the end of file ends the link."""
        self._ending = True
        self._loop.call_soon(self._finish)

    def _finish(self) -> None:
        try:
            while not self._closed and self._read_one():
                continue
        finally:  # a callback that raises does not keep the link open
            self._end(None)

    def _end(self, fault: PeerViolation | None) -> None:
        if self._closed:
            return
        self._fault = fault
        self.close()
        self._on_eof()


def _received(ancillary: Sequence[tuple[int, int, bytes]]) -> list[int]:
    fds = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(data[: len(data) - len(data) % _INT])
    return list(fds)


def _duplicates(fds: Sequence[int]) -> tuple[int, ...]:
    made: list[int] = []
    try:
        for fd in fds:
            made.append(fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 0))
    except OSError as error:
        _close_all(made)
        raise LocalMisuse(f"a descriptor can't be queued ({os.strerror(error.errno or 0)})") from None
    return tuple(made)


def _close_all(fds: Sequence[int]) -> None:
    for fd in fds:
        with contextlib.suppress(OSError):  # EIO of a network file: the descriptor is closed all the same
            os.close(fd)
