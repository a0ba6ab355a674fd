"""Application-level liveness of one peer: pings answered by its actor loop, as a total state table.

A ZeroMQ heartbeat is answered by the I/O thread even while the process hangs (facts/ipc 1.4), and death itself
is the pidfd's business; this machine is for hangs. A peer is silent once `misses` consecutive pings of one
`interval` each went unanswered, so a hang is noticed after at most `(misses + 1) * interval` seconds.

Invariants: at most one ping an interval; sequence numbers rise by one and start at 1; a pong answers any ping
sent since the newest answered one (a slow answer is not a violation), every other pong is a violation;
`PeerSilent` is reported once, and SILENT is left only by `start`. `len(TABLE) == len(State) * len(Event)`.

Pure: time comes in as monotonic seconds. Sends nothing, kills nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final

from .errors import LocalMisuse


class State(Enum):
    """STOPPED: not watching. ALIVE: watching. SILENT: reported, waiting for the owner's decision."""

    STOPPED = "stopped"
    ALIVE = "alive"
    SILENT = "silent"


class Event(Enum):
    """What can happen; PONG carries the sequence number it answers."""

    START = "start"
    TICK = "tick"
    PONG = "pong"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class SendPing:
    """Send a ping with this sequence number now."""

    sequence: int


@dataclass(frozen=True, slots=True)
class PeerSilent:
    """`missed` pings in a row went unanswered; the peer is hung or unreachable."""

    missed: int


@dataclass(frozen=True, slots=True)
class UnexpectedPong:
    """A pong that answers no open ping: the peer broke the protocol."""


Effect = SendPing | PeerSilent | UnexpectedPong


class Liveness:
    """One peer's machine. `interval` in seconds (> 0); `misses` unanswered pings make it silent (>= 1)."""

    __slots__ = ("_answered", "_due", "_interval", "_misses", "_sent", "_state")

    def __init__(self, interval: float, misses: int) -> None:
        if interval <= 0 or misses < 1:
            raise LocalMisuse("liveness needs a positive interval and at least one miss")
        self._interval = interval
        self._misses = misses
        self._state = State.STOPPED
        self._sent = 0
        self._answered = 0
        self._due = 0.0

    @property
    def state(self) -> State:
        return self._state

    @property
    def unanswered(self) -> int:
        """Pings sent since the newest answered one."""
        return self._sent - self._answered

    def next_due(self) -> float | None:
        """When `tick` has something to do, in monotonic seconds; None while not watching."""
        return self._due if self._state is State.ALIVE else None

    def start(self, now: float) -> list[Effect]:
        """Watch (again): forgets what is unanswered and pings at once."""
        return self._handle(Event.START, now, 0)

    def tick(self, now: float) -> list[Effect]:
        """Time passed; harmless when nothing is due."""
        return self._handle(Event.TICK, now, 0)

    def pong(self, sequence: int, now: float) -> list[Effect]:
        """The peer answered ping `sequence`."""
        return self._handle(Event.PONG, now, sequence)

    def stop(self, now: float) -> list[Effect]:
        """Watch no longer: the peer is being ended, or is gone."""
        return self._handle(Event.STOP, now, 0)

    def _handle(self, event: Event, now: float, sequence: int) -> list[Effect]:
        return TABLE[(self._state, event)](self, now, sequence)

    def _begin(self, now: float, _sequence: int) -> list[Effect]:
        self._state = State.ALIVE
        self._answered = self._sent  # pings of an earlier watch are void
        return self._ping(now)

    def _check(self, now: float, _sequence: int) -> list[Effect]:
        if now < self._due:
            return []
        if self.unanswered >= self._misses:
            self._state = State.SILENT
            return [PeerSilent(self.unanswered)]
        return self._ping(now)

    def _ping(self, now: float) -> list[Effect]:
        # Counted from now, not from when it was due: a supervisor that itself was suspended must not send a
        # burst of pings and call the peer silent in the same instant.
        self._due = now + self._interval
        self._sent += 1
        return [SendPing(self._sent)]

    def _answer(self, _now: float, sequence: int) -> list[Effect]:
        if not self._answered < sequence <= self._sent:
            return [UnexpectedPong()]
        self._answered = sequence
        return []

    def _end(self, _now: float, _sequence: int) -> list[Effect]:
        self._state = State.STOPPED
        return []

    def _nothing(self, _now: float, _sequence: int) -> list[Effect]:
        return []


TABLE: Final[Mapping[tuple[State, Event], Callable[[Liveness, float, int], list[Effect]]]] = MappingProxyType(
    {
        (State.STOPPED, Event.START): Liveness._begin,
        (State.STOPPED, Event.TICK): Liveness._nothing,
        (State.STOPPED, Event.PONG): Liveness._nothing,  # an answer that crossed our stop
        (State.STOPPED, Event.STOP): Liveness._nothing,
        (State.ALIVE, Event.START): Liveness._begin,
        (State.ALIVE, Event.TICK): Liveness._check,
        (State.ALIVE, Event.PONG): Liveness._answer,
        (State.ALIVE, Event.STOP): Liveness._end,
        (State.SILENT, Event.START): Liveness._begin,
        (State.SILENT, Event.TICK): Liveness._nothing,
        (State.SILENT, Event.PONG): Liveness._nothing,  # too late: the decision is the owner's
        (State.SILENT, Event.STOP): Liveness._end,
    }
)
