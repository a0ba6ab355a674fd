"""Frames on their way to one bridge: encoded, bounded, and held back while the link's credit is used up.

Invariants: requests leave in order; greeting and spare frames are not counted (protocol/README.md, Credit), nor are
pongs, each of which answers one ping; the counted bytes under way never exceed the window; at most `MAX_WAITING` frames
wait. A grant of more than is under way is dropped down to that: it widens nothing.

Pure: returns the bytes to send, sends nothing.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from ..protocol.codec import encode
from ..protocol.credit import SenderCredit
from ..protocol.errors import PeerViolation
from ..protocol.frames import Frame, Pong

MAX_WAITING: Final = (
    16  # one call and the pongs of half a minute; a bridge that reads nothing for longer is broken
)


class Outbox:
    """The sending half of one link. `window` and `bound` in bytes."""

    __slots__ = ("_bound", "_counted", "_credit", "_waiting")

    def __init__(self, window: int, bound: int) -> None:
        self._credit = SenderCredit(window)
        self._bound = bound
        self._counted = False
        self._waiting: deque[bytes] = deque()

    def count(self) -> None:
        """From now on frames use credit: the assignment is here."""
        self._counted = True

    def put(self, frame: Frame) -> list[bytes]:
        """What to send now. Raises FrameTooLarge, and PeerViolation when too much waits for the bridge."""
        data = encode(frame, self._bound)
        if not self._counted or isinstance(frame, Pong):
            return [data]
        if len(self._waiting) >= MAX_WAITING:
            raise PeerViolation("the bridge grants no credit")
        self._waiting.append(data)
        return self._flush()

    def granted(self, size: int) -> list[bytes]:
        """The bridge has handled `size` bytes; what can be sent now."""
        due = min(size, self._credit.in_flight)
        if due > 0:
            self._credit.granted(due)
        return self._flush()

    def _flush(self) -> list[bytes]:
        ready: list[bytes] = []
        while self._waiting and len(self._waiting[0]) <= self._credit.available:
            data = self._waiting.popleft()
            self._credit.take(len(data))
            ready.append(data)
        return ready
