"""The life of one long-lived child (a bridge), as a total table of states and events (style, s6).

    STOPPED --start--> STARTING --ready--> READY --stop--> STOPPING --exited--> STOPPED
                          |  ^                |
          silent, late,   v  | retry          v  link lost, violation, silent
          link lost ... KILLING --exited--> BACKOFF --exhausted--> FAILED
                          STARTING --setup failed--> FAILING --exited--> FAILED

Invariants: every combination of state and event is written down; LOST is ordered exactly once for each incarnation
that was spawned, unless the owner asked for the end; a process is never left running in STOPPED, BACKOFF or FAILED;
a stop gets through in every state.

Pure: the table and its reader. The shell (`child.py`) executes the actions.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final


class State(Enum):
    """Where the child is."""

    STOPPED = "stopped"
    STARTING = "starting"  # spawned, configured, not yet ready
    READY = "ready"
    KILLING = "killing"  # SIGKILL sent, its exit not yet seen; a restart follows
    BACKOFF = "backoff"  # no process; waiting to start again
    STOPPING = "stopping"  # asked to end; no restart follows
    FAILING = "failing"  # it can't take its settings; no restart follows
    FAILED = "failed"  # given up


class Event(Enum):
    """What can happen to it."""

    START = "start"
    SPAWN_FAILED = "spawn-failed"
    READY = "ready"
    SETUP_FAILED = "setup-failed"
    LATE = "late"  # not ready within its deadline
    LINK_LOST = "link-lost"
    VIOLATION = "violation"
    SILENT = "silent"
    EXITED = "exited"
    RETRY = "retry"  # back-off is over
    EXHAUSTED = "exhausted"  # restart intensity is used up
    STOP = "stop"
    GRACE_OVER = "grace-over"


class Action(Enum):
    """What the shell does, in order."""

    SPAWN = "spawn"
    ANNOUNCE = "announce"  # it is ready
    LOST = "lost"  # this incarnation is gone or being killed: fail what needs it
    KILL = "kill"
    ASK_STOP = "ask-stop"
    PLAN = "plan"  # ask the restart policy
    REPORT_STOPPED = "report-stopped"
    REPORT_FAILED = "report-failed"


Row = tuple[State, tuple[Action, ...]]
_A = Action
_CUT: Final[Row] = (State.KILLING, (_A.LOST, _A.KILL))


def _row(state: State, **moves: Row) -> dict[tuple[State, Event], Row]:
    """All events of `state`: those named in `moves`, every other one changes nothing."""
    return {(state, event): moves.get(event.name.lower(), (state, ())) for event in Event}


TABLE: Final[Mapping[tuple[State, Event], Row]] = MappingProxyType(
    _row(
        State.STOPPED,
        start=(State.STARTING, (_A.SPAWN,)),
        stop=(State.STOPPED, (_A.REPORT_STOPPED,)),
    )
    | _row(
        State.STARTING,
        spawn_failed=(State.BACKOFF, (_A.LOST, _A.PLAN)),
        ready=(State.READY, (_A.ANNOUNCE,)),
        setup_failed=(State.FAILING, (_A.LOST, _A.KILL)),
        late=_CUT,
        link_lost=_CUT,
        violation=_CUT,
        silent=_CUT,
        exited=(State.BACKOFF, (_A.LOST, _A.PLAN)),
        stop=(State.STOPPING, (_A.KILL,)),  # not ready: there is nothing it could finish
    )
    | _row(
        State.READY,
        link_lost=_CUT,
        violation=_CUT,
        silent=_CUT,
        exited=(State.BACKOFF, (_A.LOST, _A.PLAN)),
        stop=(State.STOPPING, (_A.ASK_STOP,)),
    )
    | _row(
        State.KILLING,
        exited=(State.BACKOFF, (_A.PLAN,)),
        stop=(State.STOPPING, (_A.KILL,)),  # killed already; said again because it costs nothing
    )
    | _row(
        State.BACKOFF,
        retry=(State.STARTING, (_A.SPAWN,)),
        exhausted=(State.FAILED, (_A.REPORT_FAILED,)),
        stop=(State.STOPPED, (_A.REPORT_STOPPED,)),
    )
    | _row(
        State.STOPPING,
        violation=(State.STOPPING, (_A.KILL,)),
        exited=(State.STOPPED, (_A.REPORT_STOPPED,)),
        grace_over=(State.STOPPING, (_A.KILL,)),
    )
    | _row(
        State.FAILING,
        exited=(State.FAILED, (_A.REPORT_FAILED,)),
        stop=(State.STOPPING, (_A.KILL,)),
    )
    | _row(
        State.FAILED,
        start=(State.STARTING, (_A.SPAWN,)),
        stop=(State.STOPPED, (_A.REPORT_STOPPED,)),
    )
)


class Lifecycle:
    """One child's state; `handle` moves it and says what to do."""

    __slots__ = ("state",)

    def __init__(self) -> None:
        self.state = State.STOPPED

    def handle(self, event: Event) -> tuple[Action, ...]:
        self.state, actions = TABLE[(self.state, event)]
        return actions
