"""One task in one generation, from the queue to its one result, as a total table (protocol/README "A task").

    QUEUED -> OPENING -> WAITING -> BINDING -> RUNNING -> ENDING -> CLOSING -> DELIVERING -> DONE
       |         |          |           |          |         ^         ^
       |         |          |           +-- end ---+-- kill -+         |
       |         +---- end -+------------------------------------------+
       +-- end --> DONE          (a lost bridge skips CLOSING and DELIVERING)

Invariants: exactly one `Finish` effect for each task, whatever comes in whatever order; the first cause stays, but a
death by SIGSYS overrides all (design 6), and a bridge's end explains a bare crash seen before it; a result that
customs let through is kept unless a cause came before it; the browser of a task is ended on every way out; no worker is
assigned after a cause; every state but DONE has a deadline.

Pure: events with monotonic seconds in, effects out. `core.py` executes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any, Final

from ..protocol.errors import BlockerCode, ToolErrorCode
from ..protocol.frames import EndReason, ModelProblem, TaskPhase
from ..protocol.results import (
    Browser,
    BrowserDelegateResult,
    Delivery,
    PlannerKind,
    SideEffects,
)
from . import messages
from .budgets import Counters
from .task_events import (
    EVENTS,
    Bound,
    BridgeLost,
    BrowserDone,
    BrowserFailed,
    BrowserWanted,
    Cancel,
    Closed,
    Deliver,
    Deliveries,
    Effect,
    EndBrowser,
    Fault,
    Finish,
    Finished,
    GotWorker,
    Guard,
    KillWorker,
    LetWorkerExit,
    ModelFault,
    ModelLost,
    ModelProgress,
    NoWorker,
    Opened,
    Progress,
    Refused,
    Report,
    ReturnWorker,
    SendAssign,
    SendAssignModel,
    SendClose,
    SendOpen,
    SpawnBrowser,
    Start,
    TaskPlan,
    Tick,
    UnwantWorker,
    WantWorker,
    WorkerGone,
)
from .verdict import Cause, conclude, match, with_blocker

SIGSYS: Final = 31
QUEUE: Final = 600.0  # seconds a task may wait for its turn: three rounds of the longest tasks
OPEN: Final = 30.0  # seconds for a browser to stand ready: 0.6 is usual, a cold disk takes ten
WAIT: Final = 30.0  # seconds for a worker when no spare is ready
BIND: Final = 10.0  # seconds for the model bridge to answer
END: Final = 20.0  # seconds for a dead worker to be forgotten by both bridges
CLOSE: Final = 45.0  # seconds to settle commands in flight: the longest is a wait of 32
DELIVER: Final = 60.0  # seconds for all files of one task: 64 MiB at most
MAX_REASONS: Final = 64  # events of a task's story that are kept


class State(Enum):
    QUEUED = "queued"
    OPENING = "opening"
    WAITING = "waiting"
    BINDING = "binding"
    RUNNING = "running"
    ENDING = "ending"
    CLOSING = "closing"
    DELIVERING = "delivering"
    DONE = "done"


PHASES: Final[Mapping[State, TaskPhase]] = MappingProxyType(
    {
        State.QUEUED: TaskPhase.QUEUED,
        State.OPENING: TaskPhase.OPENING_BROWSER,
        State.WAITING: TaskPhase.ASSIGNING,
        State.BINDING: TaskPhase.ASSIGNING,
        State.RUNNING: TaskPhase.RUNNING,
        State.ENDING: TaskPhase.CLOSING,
        State.CLOSING: TaskPhase.CLOSING,
        State.DELIVERING: TaskPhase.DELIVERING,
        State.DONE: TaskPhase.DELIVERING,
    }
)


_GUARDS: Final[Mapping[EndReason, Cause]] = MappingProxyType(
    {
        EndReason.TOOL_CALL_LIMIT: Cause(BlockerCode.TOOL_CALL_LIMIT),
        EndReason.REPEATED_ERROR: Cause(BlockerCode.REPEATED_ERROR),
        EndReason.NO_PROGRESS: Cause(BlockerCode.NO_PROGRESS),
        EndReason.EXTENSION_LOST: Cause(BlockerCode.BROWSER_UNAVAILABLE, messages.EXTENSION_LOST),
        EndReason.BROWSER_LOST: Cause(BlockerCode.BROWSER_UNAVAILABLE, messages.BROWSER_LOST),
    }
)


class TaskMachine:
    """One task. `now` at construction: when it was asked for."""

    def __init__(self, plan: TaskPlan, now: float) -> None:
        self.plan = plan
        self.state = State.QUEUED
        self.counters = Counters()
        self.worker: str | None = None
        self.story: list[tuple[float, str]] = []  # for the log: bounded by MAX_REASONS
        self._asked = now
        self._due = now + QUEUE  # of the current state
        self._deadline: float | None = None  # of the whole task, from Start to the end of RUNNING
        self._cause: Cause | None = None
        # The cause is a bare crash. A worker that loses a link ends by itself, perhaps before we hear of the link's other end.
        self._unexplained = False
        self._own: BrowserDelegateResult | None = None
        self._last: tuple[str, ToolErrorCode | None] = ("", None)  # the newest settled call
        self._assigned = False
        self._browser_asked = False
        self._without_bridge = False
        self._side_effects: SideEffects | None = None
        self._deliveries: tuple[Delivery, ...] = ()

    def due(self) -> float | None:
        """When `Tick` has something to do (monotonic seconds); None when DONE."""
        if self.state is State.DONE:
            return None
        bounded = self._deadline is not None and self.state in _TIMED
        return min(self._due, self._deadline) if bounded and self._deadline is not None else self._due

    def handle(self, event: object, now: float) -> list[Effect]:
        before = self.state
        effects = TABLE[(self.state, type(event))](self, event, now)
        if len(self.story) < MAX_REASONS and self.state is not before:
            self.story.append((now, f"{type(event).__name__}: {before.value} -> {self.state.value}"))
        if self.state is not before and self.state is not State.DONE:
            effects.append(self._report())
        return effects

    # --- forwards

    def _start(self, _event: Start, now: float) -> list[Effect]:
        self._deadline = now + self.plan.budget.seconds
        self._go(State.OPENING, now + OPEN)
        return [SendOpen()]

    def _browser_wanted(self, _event: BrowserWanted, _now: float) -> list[Effect]:
        if self._browser_asked or self.plan.browser != Browser.PRIVATE:
            return []
        self._browser_asked = True
        return [SpawnBrowser()]

    def _browser_failed(self, event: BrowserFailed, now: float) -> list[Effect]:
        return self._abandon(Cause(BlockerCode.BROWSER_UNAVAILABLE, event.sentence), now)

    def _browser_done(self, _event: BrowserDone, _now: float) -> list[Effect]:
        return [EndBrowser()]

    def _opened(self, _event: Opened, now: float) -> list[Effect]:
        self._go(State.WAITING, now + WAIT)
        return [WantWorker()]

    def _refused(self, event: Refused, now: float) -> list[Effect]:
        self._note(Cause(event.code))
        return self._finish(now)

    def _got_worker(self, event: GotWorker, now: float) -> list[Effect]:
        self.worker = event.worker
        self._go(State.BINDING, now + BIND)
        return [SendAssignModel(event.worker)]

    def _late_worker(self, event: GotWorker, _now: float) -> list[Effect]:
        return [ReturnWorker(event.worker)]

    def _bound(self, _event: Bound, now: float) -> list[Effect]:
        worker = self._worker()
        self._assigned = True
        self.counters.generations = 1
        # The task's own deadline rules from here; the state's is no earlier than that.
        self._go(State.RUNNING, now + self.plan.budget.seconds)
        return [SendAssign(worker)]

    def _progress(self, event: Progress, _now: float) -> list[Effect]:
        self.counters.calls(event.tool_calls)
        self._last = (event.tool, event.code)
        return [self._report(event.tool, event.ok)]

    def _model_progress(self, event: ModelProgress, _now: float) -> list[Effect]:
        self.counters.inference(event.steps, event.tokens, event.occupancy)
        return [self._report()]

    def _finished(self, event: Finished, now: float) -> list[Effect]:
        self._own = with_blocker(event.result, self.plan.planner, *self._last)
        self._go(State.ENDING, now + END)
        return [LetWorkerExit(self._worker())]

    def _worker_gone(self, event: WorkerGone, now: float) -> list[Effect]:
        self.worker = None
        if event.status == -SIGSYS:
            self._cause, self._own = Cause(BlockerCode.SANDBOX_VIOLATION), None
        elif self._own is None:
            self._crash()
        return self._close(now)

    def _closed(self, event: Closed, now: float) -> list[Effect]:
        self.counters.calls(event.tool_calls)
        self._side_effects = event.side_effects
        if event.unsettled and self._side_effects is SideEffects.NONE:
            self._side_effects = SideEffects.POSSIBLE  # the honest word for commands nobody knows the end of
        if self._own is None or self._cause is not None or not self._own.artifacts:
            return self._finish(now)
        self._go(State.DELIVERING, now + DELIVER)
        return [EndBrowser(), Deliver(match(self.plan.deliverables, self._own.artifacts))]

    def _delivered(self, event: Deliveries, now: float) -> list[Effect]:
        self._deliveries = event.deliveries
        return self._finish(now)

    # --- ends

    def _no_worker(self, _event: NoWorker, now: float) -> list[Effect]:
        return self._abandon(Cause(BlockerCode.WORKER_CRASHED, messages.NO_WORKER), now)

    def _guard(self, event: Guard, now: float) -> list[Effect]:
        return self._abandon(_GUARDS[event.reason], now)

    def _model_fault(self, event: ModelFault, now: float) -> list[Effect]:
        known = event.problem is not ModelProblem.NONE
        return self._abandon(Cause(event.code, messages.MODEL[event.problem] if known else None), now)

    def _fault(self, event: Fault, now: float) -> list[Effect]:
        if event.sentence is None:
            self._crash()
        return self._abandon(Cause(BlockerCode.WORKER_CRASHED, event.sentence), now)

    def _cancel(self, event: Cancel, now: float) -> list[Effect]:
        return self._abandon(Cause(event.code, event.sentence), now)

    def _model_lost(self, _event: ModelLost, now: float) -> list[Effect]:
        if self.plan.planner is not PlannerKind.PLAYBOOK:
            return self._abandon(Cause(BlockerCode.MODEL_UNAVAILABLE), now)
        if self.state is not State.BINDING:
            return []
        # Its worker has lost its greeting with the model bridge, but was told nothing: take a fresh one.
        returned, self.worker = self._worker(), None
        self._go(State.WAITING, now + WAIT)
        return [ReturnWorker(returned), WantWorker()]

    def _bridge_lost(self, _event: BridgeLost, now: float) -> list[Effect]:
        self._without_bridge = True
        return self._abandon(Cause(BlockerCode.BRIDGE_LOST), now)

    def _bridge_lost_late(self, _event: BridgeLost, now: float) -> list[Effect]:
        """The worker is on its way out or gone. A result that is with us stays; its files can't be had any more."""
        self._without_bridge = True
        if self._own is None:
            self._explain(Cause(BlockerCode.BRIDGE_LOST))
        return [] if self.state is State.ENDING else self._finish(now)

    def _model_lost_late(self, _event: ModelLost, _now: float) -> list[Effect]:
        if self._own is None and self.plan.planner is not PlannerKind.PLAYBOOK:
            self._explain(Cause(BlockerCode.MODEL_UNAVAILABLE))
        return []

    def _tick(self, _event: Tick, now: float) -> list[Effect]:
        due = self.due()
        if due is None or now < due:
            return []
        if self._deadline is not None and now >= self._deadline and self.state in _TIMED:
            return self._abandon(Cause(BlockerCode.TIME_LIMIT), now)
        return _LATE[self.state](self, now)

    def _late_queue(self, now: float) -> list[Effect]:
        return self._abandon(Cause(BlockerCode.OVERLOADED), now)

    def _late_open(self, now: float) -> list[Effect]:
        return self._abandon(Cause(BlockerCode.BROWSER_UNAVAILABLE, messages.BROWSER_LATE), now)

    def _late_wait(self, now: float) -> list[Effect]:
        return self._abandon(Cause(BlockerCode.OVERLOADED, messages.NO_WORKER), now)

    def _late_bind(self, now: float) -> list[Effect]:
        return self._abandon(Cause(BlockerCode.MODEL_UNAVAILABLE), now)

    def _late_end(self, now: float) -> list[Effect]:
        """The worker machine has deadlines of its own and ends what hangs; this one only keeps the host from waiting."""
        if self._own is None:
            self._note(Cause(BlockerCode.WORKER_CRASHED))
        return [KillWorker(self._worker()), *self._close(now)]

    def _late_close(self, now: float) -> list[Effect]:
        return self._finish(now)

    # --- shared

    def _abandon(self, cause: Cause, now: float) -> list[Effect]:
        """End the generation, or what there is before one, for `cause`."""
        self._note(cause)
        if self.state is State.QUEUED:
            return self._finish(now)
        if self.state in (State.BINDING, State.RUNNING):
            self._go(State.ENDING, now + END)
            return [KillWorker(self._worker())]
        if self.state is State.WAITING:
            return [UnwantWorker(), *self._close(now)]
        return self._close(now)

    def _close(self, now: float) -> list[Effect]:
        if self._without_bridge:
            return self._finish(now)
        self._go(State.CLOSING, now + CLOSE)
        return [SendClose()]

    def _finish(self, now: float) -> list[Effect]:
        self._go(State.DONE, now)
        effects = self._side_effects
        if effects is None:
            effects = SideEffects.POSSIBLE if self._assigned else SideEffects.NONE
        result = conclude(
            self.plan.task,
            self._own,
            self._cause,
            effects,
            self.plan.deliverables,
            self._deliveries,
            self.counters.usage(now - self._asked),
        )
        return [EndBrowser(), Finish(result)]

    def _note(self, cause: Cause) -> None:
        if self._cause is None and self._own is None:
            self._cause = cause

    def _crash(self) -> None:
        """The worker is gone without a result, and nobody has said why so far."""
        self._unexplained = self._unexplained or (self._cause is None and self._own is None)
        self._note(Cause(BlockerCode.WORKER_CRASHED))

    def _explain(self, cause: Cause) -> None:
        """Put what ended the worker in the place of its bare crash."""
        if self._unexplained:
            self._cause, self._unexplained = None, False
        self._note(cause)

    def _go(self, state: State, due: float) -> None:
        self.state, self._due = state, due

    def _worker(self) -> str:
        assert self.worker is not None
        return self.worker

    def _report(self, tool: str = "", ok: bool = True) -> Report:
        return Report(PHASES[self.state], self.counters.steps, self.counters.tool_calls, tool, ok)

    def _nothing(self, _event: object, _now: float) -> list[Effect]:
        return []


_TIMED: Final = frozenset({State.OPENING, State.WAITING, State.BINDING, State.RUNNING})
_M = TaskMachine
Handler = Callable[[TaskMachine, Any, float], list[Effect]]

_LATE: Final[Mapping[State, Callable[[TaskMachine, float], list[Effect]]]] = MappingProxyType(
    {
        State.QUEUED: _M._late_queue,
        State.OPENING: _M._late_open,
        State.WAITING: _M._late_wait,
        State.BINDING: _M._late_bind,
        State.RUNNING: _M._late_end,  # unreachable before the task's own deadline; ends the generation all the same
        State.ENDING: _M._late_end,
        State.CLOSING: _M._late_close,
        State.DELIVERING: _M._late_close,
    }
)


def _row(state: State, moves: Mapping[type, Handler]) -> dict[tuple[State, type], Handler]:
    return {(state, event): moves.get(event, _M._nothing) for event in EVENTS}


_COMMON: Final[Mapping[type, Handler]] = {Cancel: _M._cancel, Tick: _M._tick}
_LATE_WORKER: Final[Mapping[type, Handler]] = {GotWorker: _M._late_worker}
_COUNT: Final[Mapping[type, Handler]] = {Progress: _M._progress, ModelProgress: _M._model_progress}
_BROWSER: Final[Mapping[type, Handler]] = {BrowserDone: _M._browser_done}

TABLE: Final[Mapping[tuple[State, type], Handler]] = MappingProxyType(
    _row(
        State.QUEUED,
        {**_COMMON, **_LATE_WORKER, Start: _M._start},
    )
    | _row(
        State.OPENING,
        {
            **_COMMON, **_LATE_WORKER, **_BROWSER,
            Opened: _M._opened,
            Refused: _M._refused,
            BrowserWanted: _M._browser_wanted,
            BrowserFailed: _M._browser_failed,
            BridgeLost: _M._bridge_lost,
            ModelLost: _M._model_lost,
        },
    )
    | _row(
        State.WAITING,
        {
            **_COMMON, **_BROWSER,
            GotWorker: _M._got_worker,
            NoWorker: _M._no_worker,
            Guard: _M._guard,
            BridgeLost: _M._bridge_lost,
            ModelLost: _M._model_lost,
        },
    )
    | _row(
        State.BINDING,
        {
            **_COMMON, **_LATE_WORKER, **_BROWSER,
            Bound: _M._bound,
            Guard: _M._guard,
            ModelFault: _M._model_fault,
            Fault: _M._fault,
            WorkerGone: _M._worker_gone,
            BridgeLost: _M._bridge_lost,
            ModelLost: _M._model_lost,
        },
    )
    | _row(
        State.RUNNING,
        {
            **_COMMON, **_LATE_WORKER, **_COUNT, **_BROWSER,
            Guard: _M._guard,
            ModelFault: _M._model_fault,
            Finished: _M._finished,
            Fault: _M._fault,
            WorkerGone: _M._worker_gone,
            BridgeLost: _M._bridge_lost,
            ModelLost: _M._model_lost,
        },
    )
    | _row(
        State.ENDING,
        {
            **_LATE_WORKER, **_COUNT, **_BROWSER,
            Tick: _M._tick,
            WorkerGone: _M._worker_gone,
            BridgeLost: _M._bridge_lost_late,
            ModelLost: _M._model_lost_late,
        },
    )
    | _row(
        State.CLOSING,
        {
            **_LATE_WORKER, **_COUNT, **_BROWSER,
            Tick: _M._tick,
            Refused: _M._refused,
            Closed: _M._closed,
            BridgeLost: _M._bridge_lost_late,
            ModelLost: _M._model_lost_late,
        },
    )
    | _row(
        State.DELIVERING,
        {**_LATE_WORKER, **_BROWSER, Tick: _M._tick, Deliveries: _M._delivered},
    )
    | _row(State.DONE, _LATE_WORKER)
)  # fmt: skip
