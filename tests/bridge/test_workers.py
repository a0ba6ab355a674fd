"""The machine of one worker's link: total table, phases, credit, liveness, calls (bridge/workers.py)."""

from __future__ import annotations

import pytest
from browsercell.bridge.workers import (
    TABLE,
    Claimed,
    Close,
    Cut,
    Effect,
    Event,
    Read,
    SealReported,
    Send,
    StartCall,
    State,
    WorkerLink,
)
from browsercell.protocol import limits as L
from browsercell.protocol.codec import encode
from browsercell.protocol.errors import LocalMisuse
from browsercell.protocol.frames import (
    Assigned,
    Assignment,
    Credit,
    Finish,
    Finished,
    Frame,
    Hello,
    Ping,
    Pong,
    SandboxLevel,
    Sealed,
    SealReport,
    ToolCall,
    ToolResult,
    Welcome,
    WorkerFaultKind,
)
from browsercell.protocol.results import ClaimStatus, PlannerKind, ResultClaim

ROUTE = b"route"
REPORT = SealReport(SandboxLevel.SEALED, ())
WORK = Assignment("task_aaaa", 3, PlannerKind.LLM, "goal", (), None, (), 1, 1)
CLAIM = ResultClaim(status=ClaimStatus.COMPLETED, summary="done")
PERIOD = L.PING_MS / 1000


def say(machine: WorkerLink, frame: Frame, now: float = 0.0, route: bytes = ROUTE) -> list[Effect]:
    return machine.received(route, encode(frame, L.MAX_WORKER_TO_BRIDGE), now)


def at(state: State) -> WorkerLink:
    """A machine that went the usual way to `state`."""
    machine = WorkerLink()
    if state is State.PREPARED:
        return machine
    if state is State.GONE:
        assert machine.forget(0.0) == [Close()]
        return machine
    assert machine.spawned(42, 0.0) == [Read(42)]
    if state is State.CUT:
        assert machine.fault(WorkerFaultKind.MULTIPART, 0.0) == [Cut(WorkerFaultKind.MULTIPART)]
    if state in (State.GREETING, State.CUT):
        return machine
    assert say(machine, Hello(L.WIRE_VERSION)) == [Send(ROUTE, Welcome(L.WIRE_VERSION))]
    if state is State.SEALING:
        return machine
    assert say(machine, Sealed(REPORT)) == [SealReported(REPORT), Send(ROUTE, Ping(1))]
    if state is State.SPARE:
        return machine
    assert machine.assign(WORK, 0.0) == [Send(ROUTE, Assigned(WORK))]
    if state is State.FINISHING:
        say(machine, Finish(CLAIM))
    return machine


def test_the_table_is_total() -> None:
    assert len(TABLE) == len(State) * len(Event)
    assert set(TABLE) == {(state, event) for state in State for event in Event}


@pytest.mark.parametrize("state", State)
def test_every_state_can_be_reached_and_left(state: State) -> None:
    machine = at(state)
    assert machine.state is state
    expected = [] if state is State.GONE else [Close()]
    assert machine.forget(1.0) == expected
    assert machine.state is State.GONE
    assert machine.next_due() is None


def test_a_call_is_answered_and_its_bytes_are_granted_back() -> None:
    machine = at(State.ASSIGNED)
    frame = ToolCall(1, "browser_page_observe", b"{}")
    assert say(machine, frame) == [StartCall("task_aaaa", 3, 1, "browser_page_observe", b"{}")]
    assert machine.calling
    result = ToolResult(1, True, "text")
    size = len(encode(frame, L.MAX_WORKER_TO_BRIDGE))
    assert machine.result(result, 0.0) == [Send(ROUTE, result), Send(ROUTE, Credit(size))]
    assert not machine.calling
    assert say(machine, Finish(CLAIM)) == [Send(ROUTE, Finished()), Claimed("task_aaaa", 3, CLAIM)]
    assert machine.state is State.FINISHING


def test_large_calls_come_one_after_the_other_without_overdraft() -> None:
    machine = at(State.ASSIGNED)
    for number in range(1, 6):
        frame = ToolCall(number, "browser_page_type", b"x" * (L.MAX_WORKER_TO_BRIDGE - 100))
        assert [type(effect) for effect in say(machine, frame)] == [StartCall]
        effects = machine.result(ToolResult(number, True, ""), 0.0)
        assert effects[1] == Send(ROUTE, Credit(len(encode(frame, L.MAX_WORKER_TO_BRIDGE))))


def test_only_the_open_call_can_be_answered() -> None:
    machine = at(State.ASSIGNED)
    with pytest.raises(LocalMisuse):
        machine.result(ToolResult(1, True, ""), 0.0)
    say(machine, ToolCall(1, "browser_status", b""))
    with pytest.raises(LocalMisuse):
        machine.result(ToolResult(2, True, ""), 0.0)


@pytest.mark.parametrize(
    ("state", "frame", "kind"),
    [
        (State.GREETING, Hello(L.WIRE_VERSION + 1), WorkerFaultKind.WRONG_VERSION),
        (State.GREETING, ToolCall(1, "browser_status", b""), WorkerFaultKind.WRONG_PHASE),
        (State.SEALING, Hello(L.WIRE_VERSION), WorkerFaultKind.WRONG_PHASE),
        (State.SPARE, Sealed(REPORT), WorkerFaultKind.WRONG_PHASE),
        (State.SPARE, Pong(2), WorkerFaultKind.BAD_FRAME),
        (State.ASSIGNED, ToolCall(2, "browser_status", b""), WorkerFaultKind.BAD_FRAME),
        (State.ASSIGNED, ToolCall(1, "browser_teleport", b""), WorkerFaultKind.BAD_FRAME),
        (State.FINISHING, Finish(CLAIM), WorkerFaultKind.WRONG_PHASE),
    ],
)
def test_what_is_not_permitted_cuts_off(state: State, frame: Frame, kind: WorkerFaultKind) -> None:
    machine = at(state)
    assert say(machine, frame) == [Cut(kind)]
    assert machine.state is State.CUT
    assert say(machine, frame) == []
    assert machine.dropped == 1


@pytest.mark.parametrize("frame", [ToolCall(2, "browser_status", b""), Finish(CLAIM)])
def test_nothing_but_pongs_while_a_call_is_open(frame: Frame) -> None:
    machine = at(State.ASSIGNED)
    say(machine, ToolCall(1, "browser_status", b""))
    assert say(machine, Pong(1)) == []
    assert say(machine, frame) == [Cut(WorkerFaultKind.WRONG_PHASE)]


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"\x01nonsense", WorkerFaultKind.BAD_FRAME),
        (b"", WorkerFaultKind.BAD_FRAME),
        (b"\x02\x80", WorkerFaultKind.WRONG_VERSION),
        (b"\x01" * (L.MAX_WORKER_TO_BRIDGE + 1), WorkerFaultKind.OVERSIZE),
    ],
)
def test_bytes_that_are_no_frame(data: bytes, kind: WorkerFaultKind) -> None:
    assert at(State.SPARE).received(ROUTE, data, 0.0) == [Cut(kind)]


def test_another_connection_is_another_peer() -> None:
    assert say(at(State.ASSIGNED), ToolCall(1, "browser_status", b""), route=b"other") == [
        Cut(WorkerFaultKind.WRONG_PHASE)
    ]


def test_overdraft() -> None:
    machine = at(State.ASSIGNED)
    machine._credit.received(L.PAGE_CREDIT - 1)
    assert say(machine, ToolCall(1, "browser_status", b"")) == [Cut(WorkerFaultKind.OVERDRAFT)]


def test_pings_begin_with_the_seal_and_silence_is_noticed() -> None:
    machine = at(State.SEALING)
    assert machine.next_due() is None
    assert machine.tick(100.0) == []
    machine = at(State.SPARE)
    assert machine.next_due() == PERIOD
    assert machine.tick(PERIOD / 2) == []
    assert machine.tick(PERIOD) == [Send(ROUTE, Ping(2))]
    assert say(machine, Pong(2), PERIOD) == []
    now = PERIOD
    pings = []
    for _ in range(L.PING_MISSES):
        now += PERIOD
        pings += machine.tick(now)
    assert pings == [Send(ROUTE, Ping(number)) for number in (3, 4, 5)]
    assert machine.tick(now + PERIOD) == [Cut(WorkerFaultKind.SILENT)]


def test_a_disconnection_is_a_fault_unless_it_is_waited_for() -> None:
    for state in (State.GREETING, State.SEALING, State.SPARE, State.ASSIGNED):
        assert at(state).disconnected(0.0) == [Cut(WorkerFaultKind.DISCONNECTED)]
    for state in (State.PREPARED, State.FINISHING, State.CUT, State.GONE):
        assert at(state).disconnected(0.0) == []


def test_before_the_pid_is_known_nothing_is_the_workers_fault() -> None:
    machine = at(State.PREPARED)
    assert machine.fault(WorkerFaultKind.WRONG_PID, 0.0) == []
    assert say(machine, Hello(L.WIRE_VERSION)) == []
    assert machine.route == b""
    assert machine.spawned(7, 0.0) == [Read(7)]


@pytest.mark.parametrize(
    "state", [state for state in State if state not in (State.SPARE, State.CUT, State.GONE)]
)
def test_only_a_sealed_spare_is_assigned(state: State) -> None:
    with pytest.raises(LocalMisuse, match=state.value):
        at(state).assign(WORK, 0.0)


def test_an_ended_worker_takes_everything_silently() -> None:
    for state in (State.CUT, State.GONE):
        machine = at(state)
        assert machine.spawned(1, 0.0) == machine.assign(WORK, 0.0) == machine.tick(9.0) == []
        assert (
            machine.fault(WorkerFaultKind.OVERSIZE, 0.0) == machine.result(ToolResult(1, True, ""), 0.0) == []
        )
