"""Byte-counted flow control: how much one side may send before the other has consumed it.

ZeroMQ's high-water marks count messages, not bytes, and a router drops or refuses beyond them (facts/ipc 1.4),
so each data link carries its own window, counted in bytes of whole frames as they are on the wire.

Invariants, per direction: the sender's `in_flight` never exceeds the window; the receiver's `outstanding` never
exceeds it either, and a sender that makes it so has broken the protocol; every consumed byte is granted back
exactly once. Grants are batched (half a window) so that small frames do not each cost a grant.

Pure: sends nothing, waits for nothing, and does not order frames; a refused `take` is Backpressure and the
caller keeps the frame.
"""

from __future__ import annotations

from .errors import Backpressure, FrameTooLarge, LocalMisuse, PeerViolation


class SenderCredit:
    """The sending side of one direction. `window` in bytes, > 0, agreed at configuration, never on the wire."""

    __slots__ = ("_in_flight", "_window")

    def __init__(self, window: int) -> None:
        self._window = _positive(window, "window")
        self._in_flight = 0

    @property
    def available(self) -> int:
        """Bytes that may be sent now."""
        return self._window - self._in_flight

    @property
    def in_flight(self) -> int:
        """Bytes sent and not yet granted back."""
        return self._in_flight

    def take(self, size: int) -> None:
        """Account for a frame of `size` bytes about to be sent.

        Raises FrameTooLarge if it could never fit, Backpressure if it does not fit now; neither changes
        anything.
        """
        _positive(size, "size")
        if size > self._window:
            raise FrameTooLarge(f"a frame of {size} bytes never fits a window of {self._window}")
        if size > self.available:
            raise Backpressure(f"{size} bytes need more credit than the {self.available} left")
        self._in_flight += size

    def untake(self, size: int) -> None:
        """Give back what `take` accounted for a frame that the transport then refused to send."""
        if _positive(size, "size") > self._in_flight:
            raise LocalMisuse("more credit returned than taken")
        self._in_flight -= size

    def granted(self, size: int) -> None:
        """The peer reports `size` bytes consumed. Granting what was never sent is a PeerViolation."""
        if size <= 0 or size > self._in_flight:
            raise PeerViolation("credit granted for bytes that were never sent")
        self._in_flight -= size


class ReceiverCredit:
    """The receiving side of one direction. `window` in bytes, > 0, the same as the sender's."""

    __slots__ = ("_outstanding", "_owed", "_window")

    def __init__(self, window: int) -> None:
        self._window = _positive(window, "window")
        self._outstanding = 0  # received and not granted back: unread, or read and owed
        self._owed = 0

    @property
    def outstanding(self) -> int:
        """Bytes received and not yet granted back; never above the window."""
        return self._outstanding

    def received(self, size: int) -> None:
        """A frame of `size` bytes arrived. An overdraft is a PeerViolation: the sender ignores the window."""
        _positive(size, "size")
        if self._outstanding + size > self._window:
            raise PeerViolation("more bytes sent than the credit window allows")
        self._outstanding += size

    def consumed(self, size: int) -> int:
        """`size` received bytes are dealt with. Returns the grant to send now, 0 if it can wait.

        The grant is due when half the window is owed; the sender may have up to the other half left, so a
        frame larger than that waits for `flush`, which the owner calls when nothing is left unread.
        """
        _positive(size, "size")
        if self._owed + size > self._outstanding:
            raise LocalMisuse("more bytes consumed than received")
        self._owed += size
        return self.flush() if 2 * self._owed >= self._window else 0

    def flush(self) -> int:
        """Everything owed, as one grant to send now; 0 if nothing is. Call it when the backlog is empty."""
        grant = self._owed
        self._owed = 0
        self._outstanding -= grant
        return grant


def _positive(value: int, what: str) -> int:
    if value <= 0:
        raise LocalMisuse(f"a credit {what} is a positive number of bytes")
    return value
