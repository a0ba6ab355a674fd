"""The life of one worker, spare to grave, as a total table (protocol/README "A spare", "A task").

    PREPARING --both prepared--> SPAWNING --spawned--> SEALING --sealed and greeted--> CHECKING --checked--> READY
        |                                                                                              | taken
        +--fault, late, lost--> ENDING (killed) --exited--> FORGETTING --both forgot--> GONE <-- ... WORKING

Invariants: nothing is believed before the outside check; a worker that was spawned is reaped only in GONE, when both
bridges have forgotten it (no pid reuse, design 2); GONE is reached from everywhere and left never; the first reason
stays. A lost model bridge ends every worker but a working one, whose task decides (playbooks go on).

Pure: events with `now` in, effects out. The shell (`keeper.py`) executes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final

STAGE = 15.0  # seconds for each stage of a spare's birth: 0.1 is usual, a busy machine takes a few
EXIT = 3.0  # seconds for a worker that has finished to exit by itself
FORGET = 10.0  # seconds for a bridge to settle a dead worker's commands


class Side(Enum):
    """The two bridges."""

    PAGE = "page"
    MODEL = "model"


class State(Enum):
    PREPARING = "preparing"
    SPAWNING = "spawning"
    SEALING = "sealing"
    CHECKING = "checking"
    READY = "ready"
    WORKING = "working"
    ENDING = "ending"
    FORGETTING = "forgetting"
    GONE = "gone"


class Event(Enum):
    PREPARED = "prepared"
    SPAWNED = "spawned"
    SPAWN_FAILED = "spawn-failed"
    SEALED = "sealed"
    GREETED = "greeted"
    CHECKED = "checked"
    TAKEN = "taken"
    FINISHED = "finished"  # its result is with customs: it exits by itself
    END = "end"
    EXITED = "exited"
    FORGOTTEN = "forgotten"
    LOST = "lost"  # the bridge of `side` is gone
    TICK = "tick"


class Reason(Enum):
    """Why it ended; the first one stays."""

    NONE = ""
    DONE = "done"
    PREPARE_LATE = "prepare-late"
    SPAWN_FAILED = "spawn-failed"
    SEAL_LATE = "seal-late"
    REFUSED = "refused"  # its seal does not hold, or is below the minimum
    FAULT = "fault"  # a bridge has cut it off
    DIED = "died"
    BRIDGE_LOST = "bridge-lost"
    ORDERED = "ordered"  # its task ended, the supervisor stops, or it is the victim of a flood


class Do(Enum):
    """Effects, in order."""

    PREPARE = "prepare"  # PrepareWorker to both
    SPAWN = "spawn"
    ANNOUNCE = "announce"  # WorkerSpawned to both
    CHECK = "check"  # read /proc/<pid>/task/*/status
    READY = "ready"
    KILL = "kill"
    FORGET = "forget"  # ForgetWorker to every side in `pending`
    STUCK = "stuck"  # the sides in `pending` do not forget: they hang
    GONE = "gone"  # reap, remove folder, give the uid back


@dataclass(frozen=True, slots=True)
class Input:
    """An event with what it carries; fields that an event has no use for are ignored."""

    event: Event
    side: Side = Side.PAGE
    reason: Reason = Reason.NONE
    status: int | None = None  # EXITED: exit status, negative the signal
    unsettled: int = 0  # FORGOTTEN: commands whose effect is unknown


class WorkerMachine:
    """One worker. `pending`: sides whose answer the state waits for; `due`: monotonic seconds of its deadline."""

    __slots__ = ("due", "exit_status", "greeted", "lost", "pending", "reason", "sealed", "state", "unsettled")

    def __init__(self) -> None:
        self.state = State.PREPARING
        self.pending = {Side.PAGE, Side.MODEL}
        self.lost: set[Side] = set()
        self.sealed = False
        self.greeted = False
        self.reason = Reason.NONE
        self.exit_status: int | None = None
        self.unsettled = 0
        self.due: float | None = None

    def begin(self, now: float) -> list[Do]:
        """First call."""
        self.due = now + STAGE
        return [Do.PREPARE]

    def handle(self, what: Input, now: float) -> list[Do]:
        return TABLE[(self.state, what.event)](self, what, now)

    # --- birth

    def _prepared(self, what: Input, now: float) -> list[Do]:
        self.pending.discard(what.side)
        if self.pending:
            return []
        self.state, self.due = State.SPAWNING, now + STAGE
        return [Do.SPAWN]

    def _spawned(self, _what: Input, now: float) -> list[Do]:
        self.state, self.due = State.SEALING, now + STAGE
        return [Do.ANNOUNCE]

    def _spawn_failed(self, _what: Input, now: float) -> list[Do]:
        return self._forget(Reason.SPAWN_FAILED, now)

    def _sealed(self, _what: Input, now: float) -> list[Do]:
        self.sealed = True
        return self._maybe_check(now)

    def _greeted(self, _what: Input, now: float) -> list[Do]:
        self.greeted = True
        return self._maybe_check(now)

    def _maybe_check(self, now: float) -> list[Do]:
        if not (self.sealed and self.greeted):
            return []
        self.state, self.due = State.CHECKING, now + STAGE
        return [Do.CHECK]

    def _checked(self, _what: Input, _now: float) -> list[Do]:
        self.state, self.due = State.READY, None
        return [Do.READY]

    def _taken(self, _what: Input, _now: float) -> list[Do]:
        self.state = State.WORKING
        return []

    # --- end

    def _finished(self, _what: Input, now: float) -> list[Do]:
        self._note(Reason.DONE)
        self.state, self.due = State.ENDING, now + EXIT
        return []

    def _end_unspawned(self, what: Input, now: float) -> list[Do]:
        return self._forget(what.reason, now)

    def _end(self, what: Input, now: float) -> list[Do]:
        return self._kill(what.reason, now)

    def _end_again(self, what: Input, _now: float) -> list[Do]:
        self._note(what.reason)
        return [Do.KILL]

    def _kill(self, reason: Reason, now: float) -> list[Do]:
        self._note(reason)
        self.state, self.due = State.ENDING, now + EXIT
        return [Do.KILL]

    def _exited(self, what: Input, now: float) -> list[Do]:
        self.exit_status = what.status
        return self._forget(Reason.DIED, now)

    def _forget(self, reason: Reason, now: float) -> list[Do]:
        self._note(reason)
        self.pending = {Side.PAGE, Side.MODEL} - self.lost
        self.state, self.due = State.FORGETTING, now + FORGET
        return [Do.FORGET] if self.pending else self._gone()

    def _forgotten(self, what: Input, _now: float) -> list[Do]:
        if what.side in self.pending:
            self.pending.discard(what.side)
            self.unsettled += what.unsettled
        return [] if self.pending else self._gone()

    def _gone(self) -> list[Do]:
        self.state, self.due = State.GONE, None
        return [Do.GONE]

    def _note(self, reason: Reason) -> None:
        if self.reason is Reason.NONE:
            self.reason = reason

    # --- a bridge is lost

    def _lost_unspawned(self, what: Input, now: float) -> list[Do]:
        self.lost.add(what.side)
        return self._forget(Reason.BRIDGE_LOST, now)

    def _lost_spare(self, what: Input, now: float) -> list[Do]:
        self.lost.add(what.side)
        return self._kill(Reason.BRIDGE_LOST, now)

    def _lost_working(self, what: Input, now: float) -> list[Do]:
        self.lost.add(what.side)
        return self._kill(Reason.BRIDGE_LOST, now) if what.side is Side.PAGE else []

    def _lost_ending(self, what: Input, _now: float) -> list[Do]:
        self.lost.add(what.side)
        return []

    def _lost_forgetting(self, what: Input, _now: float) -> list[Do]:
        self.lost.add(what.side)
        self.pending.discard(what.side)
        return [] if self.pending else self._gone()

    # --- time

    def _late_preparing(self, _what: Input, now: float) -> list[Do]:
        return self._forget(Reason.PREPARE_LATE, now) if self._is_due(now) else []

    def _late_sealing(self, _what: Input, now: float) -> list[Do]:
        return self._kill(Reason.SEAL_LATE, now) if self._is_due(now) else []

    def _late_ending(self, _what: Input, now: float) -> list[Do]:
        if not self._is_due(now):
            return []
        self.due = now + EXIT
        return [Do.KILL]

    def _late_forgetting(self, _what: Input, now: float) -> list[Do]:
        if not self._is_due(now):
            return []
        self.due = now + FORGET
        return [Do.STUCK]

    def _is_due(self, now: float) -> bool:
        return self.due is not None and now >= self.due

    def _nothing(self, _what: Input, _now: float) -> list[Do]:
        return []


Handler = Callable[[WorkerMachine, Input, float], list[Do]]
_M = WorkerMachine


def _row(state: State, **moves: Handler) -> dict[tuple[State, Event], Handler]:
    return {(state, event): moves.get(event.name.lower(), _M._nothing) for event in Event}


TABLE: Final[Mapping[tuple[State, Event], Handler]] = MappingProxyType(
    _row(
        State.PREPARING,
        prepared=_M._prepared,
        end=_M._end_unspawned,
        lost=_M._lost_unspawned,
        tick=_M._late_preparing,
    )
    | _row(
        State.SPAWNING,
        spawned=_M._spawned,
        spawn_failed=_M._spawn_failed,
        end=_M._end_unspawned,
        lost=_M._lost_unspawned,
        tick=_M._late_preparing,
    )
    | _row(
        State.SEALING,
        sealed=_M._sealed,
        greeted=_M._greeted,
        end=_M._end,
        exited=_M._exited,
        lost=_M._lost_spare,
        tick=_M._late_sealing,
    )
    | _row(
        State.CHECKING,
        checked=_M._checked,
        end=_M._end,
        exited=_M._exited,
        lost=_M._lost_spare,
        tick=_M._late_sealing,
    )
    | _row(State.READY, taken=_M._taken, end=_M._end, exited=_M._exited, lost=_M._lost_spare)
    | _row(
        State.WORKING,
        finished=_M._finished,
        end=_M._end,
        exited=_M._exited,
        lost=_M._lost_working,
    )
    | _row(State.ENDING, end=_M._end_again, exited=_M._exited, lost=_M._lost_ending, tick=_M._late_ending)
    | _row(
        State.FORGETTING,
        forgotten=_M._forgotten,
        lost=_M._lost_forgetting,
        tick=_M._late_forgetting,
    )
    | _row(State.GONE)
)
