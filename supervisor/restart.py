"""Whether and when an ended child is started again: intensity window, back-off, escalation (OTP's `add_restart`).

    exit --permanent, or transient and status not 0--> within intensity: RestartAt (now + back-off)
                                                      over intensity:   GiveUp  (the owner escalates)
         --otherwise--> LeaveEnded

Invariants: never more than `intensity` RestartAt within any `period` seconds; the back-off doubles with each restart
inside the window, from FIRST_DELAY up to MAX_DELAY, and starts anew once the window is empty; after GiveUp nothing but
GiveUp comes until `reset`.

Pure: time comes in as monotonic seconds. Starts nothing.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

from .tree import ChildSpec, Restart

FIRST_DELAY: Final = 0.05  # seconds: one crash must hardly be felt
MAX_DELAY: Final = 5.0  # seconds: a loop of crashes must not burn a core


@dataclass(frozen=True, slots=True)
class RestartAt:
    """Start the child at `due` (monotonic seconds), not before; a shutdown may get in between."""

    child: str
    due: float


@dataclass(frozen=True, slots=True)
class GiveUp:
    """More than `restarts` restarts in `seconds`: stop trying, tell everybody."""

    child: str
    restarts: int
    seconds: float


@dataclass(frozen=True, slots=True)
class LeaveEnded:
    """Its restart type says so."""

    child: str


Effect = RestartAt | GiveUp | LeaveEnded


class RestartPolicy:
    """The restart history of one child."""

    __slots__ = ("_exhausted", "_recent", "_spec", "total")

    def __init__(self, spec: ChildSpec) -> None:
        self._spec = spec
        self._recent: deque[float] = deque()
        self._exhausted = False
        self.total = 0  # restarts since the owner started

    def ended(self, now: float, status: int | None) -> list[Effect]:
        """The child ended with `status` (negative: the signal, None: it could not even be started)."""
        spec = self._spec
        if spec.restart is Restart.TEMPORARY or (spec.restart is Restart.TRANSIENT and status == 0):
            return [LeaveEnded(spec.id)]
        while self._recent and self._recent[0] <= now - spec.period:
            self._recent.popleft()
        if self._exhausted or len(self._recent) >= spec.intensity:
            self._exhausted = True
            return [GiveUp(spec.id, spec.intensity, spec.period)]
        delay = min(FIRST_DELAY * 2.0 ** len(self._recent), MAX_DELAY)
        self._recent.append(now)
        self.total += 1
        return [RestartAt(spec.id, now + delay)]

    def reset(self) -> None:
        """A person started the child by hand: the history no longer counts."""
        self._recent.clear()
        self._exhausted = False
