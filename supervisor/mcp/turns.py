"""When a new turn of the conversation begins: MCP has no word for it, so a quiet period stands for it (design 8).

Invariants: the first call begins no turn (the session began with one); a call that comes QUIET_SECONDS or more after the
last one ended, with none under way, begins one. So a circuit that has opened stays open while an agent hammers at it.

Pure: events and the time in seconds in, decisions out.
"""

from __future__ import annotations

from typing import Final

QUIET_SECONDS: Final = (
    30.0  # a model thinks for less between two calls of one turn; a person takes longer to answer
)


class Turns:
    """Of one session."""

    __slots__ = ("_ended", "_open")

    def __init__(self) -> None:
        self._open = 0
        self._ended: float | None = None

    def begin(self, now: float) -> bool:
        """A call begins; True if a new turn begins with it."""
        quiet = self._open == 0 and self._ended is not None and now - self._ended >= QUIET_SECONDS
        self._open += 1
        return quiet

    def end(self, now: float) -> None:
        """A call has ended."""
        self._open -= 1
        self._ended = now
