"""Random sequences of events through the machines: whatever comes in whatever order, the invariants hold."""

from __future__ import annotations

from collections import Counter

from browsercell.bridge import tasks, workers
from browsercell.bridge.tasks import Outcome, Task
from browsercell.bridge.workers import Close, Cut, Send, StartCall, WorkerLink
from browsercell.protocol import limits as L
from browsercell.protocol.codec import encode
from browsercell.protocol.errors import BlockerCode, LocalMisuse, ToolErrorCode
from browsercell.protocol.frames import (
    Assignment,
    Changes,
    Credit,
    EndReason,
    Finish,
    Frame,
    Hello,
    OpenTask,
    Pong,
    SandboxLevel,
    Sealed,
    SealReport,
    TaskClosed,
    TaskGuard,
    TaskOpened,
    TaskProgress,
    TaskRefused,
    ToolCall,
    ToolResult,
    WorkerFaultKind,
)
from browsercell.protocol.results import Browser, ClaimStatus, PlannerKind, ResultClaim
from hypothesis import given, settings
from hypothesis import strategies as st

CLAIM = ResultClaim(status=ClaimStatus.COMPLETED, summary="")
WORK = Assignment("task_aaaa", 1, PlannerKind.LLM, "g", (), None, (), 1, 1)
FRAMES: tuple[Frame, ...] = (
    Hello(L.WIRE_VERSION),
    Hello(9),
    Sealed(SealReport(SandboxLevel.SEALED, ())),
    Pong(1),
    Pong(2),
    ToolCall(1, "browser_status", b"{}"),
    ToolCall(2, "browser_page_click", b"{}"),
    Finish(CLAIM),
)

link_events = st.one_of(
    st.tuples(st.just("frame"), st.sampled_from(FRAMES), st.sampled_from([b"one", b"two"])),
    st.tuples(st.just("bytes"), st.binary(max_size=40), st.just(b"one")),
    st.tuples(
        st.sampled_from(["spawned", "assign", "result", "fault", "disconnected", "tick", "forget"]),
        st.integers(1, 3),
        st.just(b""),
    ),
)


def drive(machine: WorkerLink, event: tuple[str, object, bytes], now: float) -> list[workers.Effect]:
    kind, value, route = event
    if isinstance(value, bytes):
        return machine.received(route, value, now)
    if not isinstance(value, int):
        return machine.received(route, encode(value, L.MAX_WORKER_TO_BRIDGE), now)  # type: ignore[arg-type]
    match kind:
        case "spawned":
            return machine.spawned(value, now)
        case "assign":
            return machine.assign(WORK, now)
        case "result":
            return machine.result(ToolResult(value, True, ""), now)
        case "fault":
            return machine.fault(WorkerFaultKind.MULTIPART, now)
        case "disconnected":
            return machine.disconnected(now)
        case "tick":
            return machine.tick(now)
        case _:
            return machine.forget(now)


# A usual beginning now and then, or random events seldom get far.
USUAL: list[tuple[str, object, bytes]] = [
    ("spawned", 2, b""),
    ("frame", FRAMES[0], b"one"),
    ("frame", FRAMES[2], b"one"),
    ("assign", 1, b""),
]


@settings(max_examples=300)
@given(st.integers(0, len(USUAL)), st.lists(link_events, max_size=25))
def test_a_workers_link(usual: int, events: list[tuple[str, object, bytes]]) -> None:
    machine = WorkerLink()
    now, cut, closed, taken, granted = 0.0, 0, 0, 0, 0
    for event in [*USUAL[:usual], *events]:
        now += 1.0
        state = machine.state
        try:
            effects = drive(machine, event, now)
        except LocalMisuse:
            assert event[0] in ("spawned", "assign", "result")  # ours to get wrong, never the peer's
            assert machine.state is state
            continue
        if cut or closed:
            assert all(isinstance(effect, Close) for effect in effects)
        for effect in effects:
            cut += isinstance(effect, Cut)
            closed += isinstance(effect, Close)
            taken += isinstance(effect, StartCall)
            granted += isinstance(effect, Send) and isinstance(effect.frame, Credit)
        assert cut <= 1
        assert closed <= 1
        assert taken - granted in (0, 1)
        assert machine.calling == (taken - granted == 1)
        assert machine.next_due() is None or machine.state in (workers.State.SPARE, workers.State.ASSIGNED)


outcomes = st.builds(
    Outcome,
    ok=st.booleans(),
    code=st.none() | st.sampled_from([ToolErrorCode.STALE_REF, ToolErrorCode.CANCELLED]),
    dispatched=st.booleans(),
    answered=st.booleans(),
    may_have_effect=st.booleans(),
    page=st.none() | st.tuples(st.just("u"), st.sampled_from("abcdefgh")),
    changes=st.none() | st.builds(Changes, page=st.booleans(), value=st.booleans()),
)
task_events = st.one_of(
    st.tuples(st.just("settle"), outcomes),
    st.tuples(
        st.sampled_from(["opened", "refused", "assign", "call", "finish", "lost", "gone", "close"]),
        st.just(None),
    ),
)


@settings(max_examples=300)
@given(st.lists(task_events, max_size=40), st.booleans())
def test_a_task(events: list[tuple[str, Outcome | None]], opened: bool) -> None:
    task = Task(OpenTask("task_aaaa", Browser.CHROME, None, (), 10))
    seen: Counter[type] = Counter()
    generation, settled, runs, left = 0, 0, 0, 0
    start: list[tuple[str, Outcome | None]] = [("opened", None), ("assign", None)] if opened else []
    for kind, outcome in [*start, *events]:
        was_closed = task.state is tasks.State.CLOSED
        worker = task.worker
        try:
            match kind:
                case "opened":
                    effects = task.opened()
                case "refused":
                    effects = task.refused(BlockerCode.OVERLOADED)
                case "assign":
                    effects = task.assign(f"w_{generation}", generation + 1)
                    generation += 1
                case "call":
                    effects = task.call(1, "browser_page_click")
                case "finish":
                    effects = task.finish(CLAIM)
                case "lost":
                    effects = task.lost(EndReason.EXTENSION_LOST)
                case "gone":
                    left += bool(worker) and not was_closed
                    effects = task.worker_gone(worker or "w_none")
                case "close":
                    effects = task.close()
                case _:
                    assert outcome is not None
                    effects = task.settle(outcome)
                    settled += 1
        except LocalMisuse:
            continue
        for effect in effects:
            if isinstance(effect, tasks.Report):
                seen[type(effect.frame)] += not (was_closed and isinstance(effect.frame, TaskClosed))
            runs += isinstance(effect, tasks.Run)
            if isinstance(effect, tasks.Answer):
                assert effect.worker == worker
        assert seen[TaskOpened] + seen[TaskRefused] <= 1
        assert seen[TaskClosed] <= 1
        assert seen[TaskProgress] == settled
        assert task.in_flight == (runs - settled == 1)
        assert seen[TaskGuard] <= max(1, generation + 1)
        assert not (task.state is tasks.State.CLOSED and task.in_flight)
        assert task.calls_left >= 0
