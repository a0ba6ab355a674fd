"""The machine of one worker's MODEL link: phases, credit, liveness, cutting off."""

from __future__ import annotations

import pytest
from browsercell.bridge.model.peer import (
    GREETING_S,
    TABLE,
    Asked,
    Close,
    Cut,
    Effect,
    Event,
    Greeted,
    ModelPeer,
    Read,
    Send,
    State,
)
from browsercell.protocol import limits as L
from browsercell.protocol.codec import encode
from browsercell.protocol.errors import LocalMisuse
from browsercell.protocol.frames import (
    ChatMessage,
    ChatRole,
    Credit,
    Frame,
    Hello,
    Infer,
    InferenceFailed,
    Ping,
    Pong,
    ToolCall,
    Welcome,
    WorkerFaultKind,
)

K = WorkerFaultKind
ROUTE = b"route"
PING_S = L.PING_MS / 1000


class Run:
    """One machine with its clock."""

    def __init__(self) -> None:
        self.peer = ModelPeer()
        self.now = 50.0

    def raw(self, data: bytes, route: bytes = ROUTE) -> list[Effect]:
        return self.peer.received(route, data, self.now)

    def got(self, frame: Frame, route: bytes = ROUTE) -> list[Effect]:
        return self.raw(encode(frame, 4 * L.MIB), route)

    def tick(self, seconds: float) -> list[Effect]:
        self.now += seconds
        return self.peer.tick(self.now)

    def greeting(self) -> Run:
        assert self.peer.spawned(77, self.now) == [Read(77)]
        return self

    def spare(self) -> Run:
        self.greeting()
        self.got(Hello(version=L.WIRE_VERSION))
        assert self.peer.state is State.SPARE
        return self

    def assigned(self) -> Run:
        self.spare()
        assert self.peer.assign(self.now) == []
        return self


def infer(call: int = 1, size: int = 10) -> Infer:
    return Infer(call=call, messages=(ChatMessage(ChatRole.USER, "x" * size),))


def test_the_table_is_total() -> None:
    assert set(TABLE) == {(state, event) for state in State for event in Event}
    assert len(TABLE) == len(State) * len(Event)


def test_a_greeting_is_answered_and_pings_begin() -> None:
    run = Run().greeting()
    assert run.got(Hello(version=L.WIRE_VERSION)) == [
        Send(ROUTE, Welcome(version=L.WIRE_VERSION)),
        Greeted(),
        Send(ROUTE, Ping(nonce=1)),
    ]
    assert run.got(Pong(nonce=1)) == []
    assert run.tick(PING_S) == [Send(ROUTE, Ping(nonce=2))]


def test_an_inference_is_asked_and_its_bytes_are_granted_back_with_the_answer() -> None:
    run = Run().assigned()
    assert run.got(infer()) == [Asked(infer())]
    failed = InferenceFailed(call=1)
    size = len(encode(infer(), L.MIB))
    assert run.peer.answer(failed, run.now) == [Send(ROUTE, failed), Send(ROUTE, Credit(bytes=size))]
    assert run.got(infer(2)) == [Asked(infer(2))]


def test_before_the_pid_is_known_nothing_counts() -> None:
    run = Run()
    assert run.got(Hello(version=L.WIRE_VERSION)) == []
    assert run.peer.fault(K.MULTIPART, run.now) == []
    assert run.peer.disconnected(run.now) == []
    assert run.tick(100.0) == []
    assert run.peer.next_due() is None


def test_a_greeting_has_a_deadline() -> None:
    run = Run().greeting()
    assert run.peer.next_due() == run.now + GREETING_S
    assert run.tick(GREETING_S - 0.1) == []
    assert run.tick(0.2) == [Cut(K.SILENT)]


def test_a_worker_that_answers_no_ping_is_cut_off() -> None:
    run = Run().assigned()
    for _ in range(L.PING_MISSES - 1):
        (effect,) = run.tick(PING_S)
        assert isinstance(effect, Send)
    assert run.tick(PING_S) == [Cut(K.SILENT)]


@pytest.mark.parametrize(
    ("state", "frame", "kind"),
    [
        ("greeting", Pong(nonce=1), K.WRONG_PHASE),
        ("greeting", infer(), K.WRONG_PHASE),
        ("greeting", Hello(version=2), K.WRONG_VERSION),
        ("spare", Hello(version=1), K.WRONG_PHASE),
        ("spare", infer(), K.WRONG_PHASE),
        ("spare", Pong(nonce=9), K.BAD_FRAME),
        ("assigned", infer(2), K.BAD_FRAME),
        ("assigned", infer(0), K.BAD_FRAME),
        ("assigned", ToolCall(call=1, tool="browser_status", args=b"{}"), K.BAD_FRAME),
        ("assigned", infer(1, L.MAX_WORKER_TO_MODEL), K.OVERSIZE),
    ],
)
def test_a_frame_against_the_rules_cuts_the_worker_off(
    state: str, frame: Frame, kind: WorkerFaultKind
) -> None:
    run: Run = getattr(Run(), state)()
    assert run.got(frame) == [Cut(kind)]
    assert run.peer.state is State.CUT
    assert run.got(frame) == []  # once


@pytest.mark.parametrize(
    ("data", "kind"), [(b"", K.BAD_FRAME), (b"\x02\x80", K.WRONG_VERSION), (b"\x01\xc1", K.BAD_FRAME)]
)
def test_bytes_that_are_no_frame_cut_the_worker_off(data: bytes, kind: WorkerFaultKind) -> None:
    assert Run().spare().raw(data) == [Cut(kind)]


def test_a_second_connection_cannot_speak_for_the_first() -> None:
    assert Run().assigned().got(infer(), b"other") == [Cut(K.WRONG_PHASE)]


def test_a_second_inference_while_one_is_open_is_a_violation() -> None:
    run = Run().assigned()
    run.got(infer())
    assert run.got(infer(2)) == [Cut(K.WRONG_PHASE)]


def test_an_overdraft_is_a_violation() -> None:
    run = Run().assigned()
    big = L.MAX_WORKER_TO_MODEL - 200
    run.got(infer(1, big))
    run.peer._open = 0  # as if it were answered without the grant
    run.got(infer(2, big))
    run.peer._open = 0
    assert run.got(infer(3, big)) == [Cut(K.OVERDRAFT)]


@pytest.mark.parametrize("state", ["greeting", "spare", "assigned"])
def test_what_the_transport_catches_cuts_the_worker_off(state: str) -> None:
    run: Run = getattr(Run(), state)()
    assert run.peer.fault(K.MULTIPART, run.now) == [Cut(K.MULTIPART)]
    assert run.peer.next_due() is None


def test_a_lost_spare_is_reported_and_an_assigned_worker_leaves_without_a_word() -> None:
    for state in ("greeting", "spare"):
        run: Run = getattr(Run(), state)()
        assert run.peer.disconnected(run.now) == [Cut(K.DISCONNECTED)]
    run = Run().assigned()
    assert run.peer.disconnected(run.now) == [Close()]
    assert run.peer.state is State.GONE


@pytest.mark.parametrize("state", ["greeting", "spare", "assigned"])
def test_a_forgotten_worker_says_nothing_any_more(state: str) -> None:
    run: Run = getattr(Run(), state)()
    assert run.peer.forget(run.now) == [Close()]
    assert run.got(Hello(version=1)) == []
    assert run.peer.fault(K.MULTIPART, run.now) == []
    assert run.peer.disconnected(run.now) == []
    assert run.peer.spawned(1, run.now) == []
    assert run.peer.assign(run.now) == []
    assert run.peer.answer(InferenceFailed(call=1), run.now) == []
    assert run.tick(100.0) == []
    assert run.peer.forget(run.now) == []


def test_a_cut_off_worker_can_still_be_forgotten() -> None:
    run = Run().spare()
    run.peer.fault(K.OVERSIZE, run.now)
    assert run.peer.assign(run.now) == []
    assert run.peer.forget(run.now) == [Close()]


def test_what_our_own_side_does_wrong_is_our_bug() -> None:
    with pytest.raises(LocalMisuse):
        Run().peer.assign(0.0)
    with pytest.raises(LocalMisuse):
        Run().spare().peer.spawned(1, 0.0)
    run = Run().assigned()
    with pytest.raises(LocalMisuse):
        run.peer.answer(InferenceFailed(call=1), run.now)
    run.got(infer())
    with pytest.raises(LocalMisuse):
        run.peer.answer(InferenceFailed(call=2), run.now)
