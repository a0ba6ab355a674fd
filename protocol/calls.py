"""Bookkeeping of the calls one side has open on one link: at most once, every one with a deadline.

ZeroMQ delivers at most once and loses what a dead receiver had not read without any error (facts/ipc 1.4), so
every call has an id, a deadline and, when it fails, an honest word on whether it may have run.

    open --> QUEUED --sent--> SENT --settle--> (gone, Settled)
               |                |
               +--cancel, expire, fail_all, spoil--> (gone, Failed)

Invariants: an id is open at most once and is never reused while the table remembers it; a call leaves the table
exactly once, with exactly one of Settled or Failed; an answer to anything not open is reported as Stray, never
delivered; a failed call says `not_started` only if its frame was never handed to the transport, `finished` only
if the peer answered (unusably), otherwise `unknown`. At most
`capacity` calls are open, and the newest `REMEMBERED` finished ids are remembered to tell a second or late
answer (ours, harmless) from an invented one (the peer's fault).

Pure: sends nothing and keeps no payloads: the shell maps ids to its own futures.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from enum import Enum
from typing import Final

from .errors import Backpressure, Execution, LocalMisuse

REMEMBERED: Final = 1024  # finished ids: far more answers than can be under way; about 100 KiB


class FailReason(Enum):
    """Why a call ended without an answer."""

    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    LINK_LOST = "link_lost"  # the connection ended or the peer was cut off
    PEER_DIED = "peer_died"  # the pidfd says so
    BAD_ANSWER = "bad_answer"  # the peer ran it, but its answer can't be used


class StrayKind(Enum):
    """Why an answer has no open call."""

    LATE = "late"  # its call had failed: cancelled, timed out or lost
    REPEATED = "repeated"  # its call had been answered
    UNKNOWN = "unknown"  # never opened, or too long ago to remember


@dataclass(frozen=True, slots=True)
class Settled:
    """Deliver this answer: the call was open and is now closed."""

    call_id: str


@dataclass(frozen=True, slots=True)
class Stray:
    """Count and drop this answer; UNKNOWN and REPEATED are the peer's fault, LATE is nobody's."""

    call_id: str
    kind: StrayKind


@dataclass(frozen=True, slots=True)
class Failed:
    """The call is over without an answer. `notify_peer`: it was sent and the peer should hear of the end."""

    call_id: str
    reason: FailReason
    execution: Execution
    notify_peer: bool


@dataclass(slots=True)
class _Open:
    deadline: float
    sent: bool


class CallTable:
    """The open calls of one link. `capacity`: how many may be open at once (>= 1)."""

    __slots__ = ("_capacity", "_finished", "_open")

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise LocalMisuse("a call table holds at least one call")
        self._capacity = capacity
        self._open: dict[str, _Open] = {}
        self._finished: OrderedDict[str, StrayKind] = OrderedDict()  # id -> what another answer would be

    def __len__(self) -> int:
        return len(self._open)

    def __contains__(self, call_id: str) -> bool:
        return call_id in self._open

    def open(self, call_id: str, deadline: float, now: float) -> None:
        """Register a call before its frame is sent. `deadline` and `now` in monotonic seconds.

        Raises Backpressure when `capacity` calls are open, LocalMisuse for an id that is open or remembered or
        a deadline that is not in the future.
        """
        if call_id in self._open or call_id in self._finished:
            raise LocalMisuse("a call id is used once")
        if deadline <= now:
            raise LocalMisuse("a call needs a deadline in the future")
        if len(self._open) >= self._capacity:
            raise Backpressure(f"{self._capacity} calls are open already")
        self._open[call_id] = _Open(deadline, sent=False)

    def sent(self, call_id: str) -> None:
        """The frame was handed to the transport: from now on the call may have run.

        Call it before handing over, or in the same turn of the loop. LocalMisuse if it is not open or was sent.
        """
        call = self._open.get(call_id)
        if call is None or call.sent:
            raise LocalMisuse("only a queued call can be sent")
        call.sent = True

    def settle(self, call_id: str) -> Settled | Stray:
        """An answer for `call_id` arrived. An answer to a call that was never sent is invented: UNKNOWN."""
        stray = self._stray(call_id)
        if stray is not None:
            return stray
        self._close(call_id, StrayKind.REPEATED)
        return Settled(call_id)

    def spoil(self, call_id: str) -> Failed | Stray:
        """An answer for `call_id` arrived that can't be used (wrong type, over a bound): it ran, to no avail."""
        stray = self._stray(call_id)
        if stray is not None:
            return stray
        self._close(call_id, StrayKind.REPEATED)
        return Failed(call_id, FailReason.BAD_ANSWER, Execution.FINISHED, notify_peer=False)

    def cancel(self, call_id: str) -> Failed | None:
        """The caller gave up. None if the call is not open any more (its answer won the race)."""
        if call_id not in self._open:
            return None
        return self._fail(call_id, FailReason.CANCELLED, notify=True)

    def expire(self, now: float) -> list[Failed]:
        """Every call whose deadline has come, earliest first."""
        due = sorted((call.deadline, call_id) for call_id, call in self._open.items() if call.deadline <= now)
        return [self._fail(call_id, FailReason.TIMEOUT, notify=True) for _, call_id in due]

    def fail_all(self, reason: FailReason) -> list[Failed]:
        """Close every open call, in the order they were opened: the link or the peer is gone."""
        return [self._fail(call_id, reason, notify=False) for call_id in list(self._open)]

    def next_deadline(self) -> float | None:
        """When `expire` has something to do; None while nothing is open."""
        return min((call.deadline for call in self._open.values()), default=None)

    def _stray(self, call_id: str) -> Stray | None:
        call = self._open.get(call_id)
        if call is not None:
            return None if call.sent else Stray(call_id, StrayKind.UNKNOWN)
        kind = self._finished.get(call_id, StrayKind.UNKNOWN)
        if kind is StrayKind.LATE:
            self._finished[call_id] = StrayKind.REPEATED  # one late answer is a race, a second one is not
        return Stray(call_id, kind)

    def _fail(self, call_id: str, reason: FailReason, *, notify: bool) -> Failed:
        sent = self._close(call_id, StrayKind.LATE).sent
        execution = Execution.UNKNOWN if sent else Execution.NOT_STARTED
        return Failed(call_id, reason, execution, notify_peer=sent and notify)

    def _close(self, call_id: str, later: StrayKind) -> _Open:
        call = self._open.pop(call_id)
        self._finished[call_id] = later
        if len(self._finished) > REMEMBERED:
            self._finished.popitem(last=False)
        return call
