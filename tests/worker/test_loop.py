"""The worker's machine: the whole life without a socket, and every rule a bridge can break."""

from __future__ import annotations

import json
from typing import Any

import pytest
from browsercell.protocol import limits as L
from browsercell.protocol.codec import Decoder, encode
from browsercell.protocol.frames import (
    Assigned,
    Credit,
    Finish,
    Finished,
    Frame,
    Hello,
    Infer,
    InferenceFailed,
    Ping,
    Pong,
    SandboxLevel,
    Sealed,
    SealReport,
    ToolCall,
    Welcome,
)
from browsercell.protocol.links import Link, frame_types
from browsercell.protocol.results import ClaimStatus, PlannerKind
from browsercell.protocol.tools import WORKER_TOOLS
from browsercell.worker.loop import (
    END_S,
    GRACE_S,
    GREETING_S,
    SILENCE_S,
    TABLE,
    THINKING_S,
    Effect,
    End,
    Exit,
    Kind,
    Loop,
    Seal,
    Side,
    State,
    Transmit,
)

from tests.worker.builders import BOUNDARY, assignment, bad, chat_call, inference, ok

REPORT = SealReport(SandboxLevel.SEALED, ())
STEPS = [
    {"tool": "browser_page_navigate", "args": {"url": "https://a.example/"}},
    {"finish": {"status": "completed", "summary": "Done"}},
]
DECODERS: dict[Side, Decoder[Frame]] = {
    Side.PAGE: Decoder(frame_types(Link.WORKER_TO_BRIDGE), L.MAX_WORKER_TO_BRIDGE),
    Side.MODEL: Decoder(frame_types(Link.WORKER_TO_MODEL), L.MAX_WORKER_TO_MODEL),
}


class Run:
    """One machine with its clock."""

    def __init__(self) -> None:
        self.now = 100.0
        self.loop = Loop(self.now)

    def got(self, side: Side, frame: Frame) -> list[Effect]:
        return self.raw(side, encode(frame, L.MAX_BRIDGE_TO_WORKER))

    def raw(self, side: Side, data: bytes) -> list[Effect]:
        return self.loop.received(side, data, self.now, BOUNDARY)

    def page(self, frame: Frame) -> list[Effect]:
        return self.got(Side.PAGE, frame)

    def model(self, frame: Frame) -> list[Effect]:
        return self.got(Side.MODEL, frame)

    def tick(self, seconds: float) -> list[Effect]:
        self.now += seconds
        return self.loop.tick(self.now)

    def greeted(self) -> Run:
        self.loop.start()
        self.page(Welcome(version=L.WIRE_VERSION))
        assert self.model(Welcome(version=L.WIRE_VERSION)) == [Seal()]
        return self

    def spare(self) -> Run:
        self.greeted()
        self.loop.sealed(REPORT, self.now)
        return self

    def playing(self) -> Run:
        self.spare()
        self.page(Assigned(assignment=assignment(PlannerKind.PLAYBOOK, playbook=STEPS)))
        assert self.loop.state is State.CALLING
        return self

    def thinking(self) -> Run:
        self.spare()
        self.page(Assigned(assignment=assignment()))
        assert self.loop.state is State.THINKING
        return self

    def finishing(self) -> Run:
        self.playing()
        self.page(ok())
        assert self.loop.state is State.FINISHING
        return self

    def stranded(self) -> Run:
        self.thinking()
        self.model(InferenceFailed(call=1))
        assert self.loop.state is State.STRANDED
        return self

    def over(self) -> Run:
        self.finishing()
        self.page(Finished())
        assert self.loop.state is State.OVER
        return self


def sent(effects: list[Effect]) -> list[tuple[Side, Frame]]:
    assert all(isinstance(effect, Transmit) for effect in effects)
    return [
        (effect.side, DECODERS[effect.side].decode(effect.data))
        for effect in effects
        if isinstance(effect, Transmit)
    ]


def ended(effects: list[Effect], status: Exit) -> None:
    assert effects == [End(status)]


def test_the_table_is_total() -> None:
    assert set(TABLE) == {(state, kind) for state in State for kind in Kind}
    assert len(TABLE) == len(State) * len(Kind)


def test_the_whole_life_with_a_playbook() -> None:
    run = Run()
    assert sent(run.loop.start()) == [(Side.PAGE, Hello(version=1)), (Side.MODEL, Hello(version=1))]
    assert run.page(Welcome(version=1)) == []
    assert run.model(Welcome(version=1)) == [Seal()]
    assert sent(run.loop.sealed(REPORT, run.now)) == [(Side.PAGE, Sealed(report=REPORT))]
    ((side, call),) = sent(run.page(Assigned(assignment=assignment(PlannerKind.PLAYBOOK, playbook=STEPS))))
    assert side is Side.PAGE
    assert call == ToolCall(call=1, tool="browser_page_navigate", args=b'{"url":"https://a.example/"}')
    ((side, finish),) = sent(run.page(ok(call=1)))
    assert isinstance(finish, Finish)
    assert finish.claim.status is ClaimStatus.COMPLETED
    ended(run.page(Finished()), Exit.OK)
    assert run.loop.next_deadline() is None


def test_the_whole_life_with_a_model_counts_calls_on_each_link() -> None:
    run = Run().spare()
    ((side, first),) = sent(run.page(Assigned(assignment=assignment())))
    assert side is Side.MODEL
    assert isinstance(first, Infer)
    assert first.call == 1
    ((side, call),) = sent(run.model(inference(chat_call("browser_page_observe"))))
    assert (side, call) == (Side.PAGE, ToolCall(call=1, tool="browser_page_observe", args=b"{}"))
    ((side, second),) = sent(run.page(ok("page", call=1)))
    assert isinstance(second, Infer)
    assert second.call == 2
    end = chat_call("structured_output", {"status": "completed", "summary": "Done"})
    ((side, finish),) = sent(run.model(inference(end, call=2)))
    assert side is Side.PAGE
    assert isinstance(finish, Finish)


def test_pings_are_answered_in_every_state_on_both_links() -> None:
    for run in (Run().spare(), Run().playing(), Run().thinking(), Run().finishing(), Run().stranded()):
        for side in Side:
            assert sent(run.got(side, Ping(nonce=7))) == [(side, Pong(nonce=7))]
    run = Run()
    run.loop.start()
    run.model(Welcome(version=1))
    assert sent(run.model(Ping(nonce=1))) == [(Side.MODEL, Pong(nonce=1))]


def test_credit_lets_waiting_frames_out() -> None:
    run = Run().playing()
    assert run.page(Credit(bytes=10)) == []
    assert Run().thinking().model(Credit(bytes=10)) == []
    assert Run().stranded().model(Credit(bytes=10)) == []
    assert Run().finishing().page(Credit(bytes=10)) == []


def test_another_version_of_the_wire_ends_the_worker() -> None:
    run = Run()
    run.loop.start()
    ended(run.page(Welcome(version=2)), Exit.VIOLATION)
    assert run.loop.lost(Side.PAGE, run.now) == []
    assert run.page(Ping(nonce=1)) == []  # GREETING's gate is what it was; OVER does nothing


@pytest.mark.parametrize(
    ("state", "side", "frame"),
    [
        ("spare", Side.PAGE, Finished()),
        ("spare", Side.PAGE, ok()),
        ("spare", Side.MODEL, inference(chat_call("browser_status"))),
        ("spare", Side.PAGE, Welcome(version=1)),
        ("playing", Side.PAGE, Assigned(assignment=assignment())),
        ("playing", Side.PAGE, ok(call=2)),
        ("playing", Side.PAGE, Finished()),
        ("playing", Side.MODEL, inference(chat_call("browser_status"))),
        ("playing", Side.MODEL, InferenceFailed(call=1)),
        ("thinking", Side.PAGE, ok()),
        ("thinking", Side.MODEL, inference(chat_call("browser_status"), call=2)),
        ("thinking", Side.MODEL, InferenceFailed(call=2)),
        ("thinking", Side.MODEL, inference(chat_call("browser_page_evaluate"))),
        ("finishing", Side.PAGE, ok()),
        ("stranded", Side.MODEL, inference(chat_call("browser_status"))),
    ],
)
def test_a_bridge_that_breaks_a_rule_ends_the_worker(state: str, side: Side, frame: Frame) -> None:
    run: Run = getattr(Run(), state)()
    ended(run.got(side, frame), Exit.VIOLATION)
    assert run.loop.state is State.OVER


@pytest.mark.parametrize(
    "data", [b"", b"\x01", b"\x02\x81", b"\x01\xc1", b"\x01" + b"\x00" * L.MAX_BRIDGE_TO_WORKER]
)
def test_bytes_that_are_no_frame_end_the_worker(data: bytes) -> None:
    ended(Run().spare().raw(Side.PAGE, data), Exit.VIOLATION)


def test_a_frame_of_the_other_link_is_no_frame_here() -> None:
    ended(Run().thinking().page(InferenceFailed(call=1)), Exit.VIOLATION)
    ended(Run().playing().model(ok()), Exit.VIOLATION)


def test_an_unbuildable_request_ends_the_worker() -> None:
    run = Run().thinking()
    huge = chat_call("browser_page_type", {"ref": "e1", "text": "x" * 1_000})
    calls = [huge] * 16
    assert run.model(inference(*calls))
    end = chat_call("structured_output", {"status": "completed", "summary": "\\u0000" * 20_000})
    run = Run().thinking()
    run.loop._out[Side.PAGE]._bound = 100
    ended(run.model(inference(end)), Exit.VIOLATION)


@pytest.mark.parametrize("side", list(Side))
@pytest.mark.parametrize(
    ("state", "status"),
    [
        ("greeting", Exit.UNREACHABLE),
        ("greeted", Exit.LINK_LOST),
        ("spare", Exit.LINK_LOST),
        ("thinking", Exit.LINK_LOST),
        ("stranded", Exit.LINK_LOST),
    ],
)
def test_a_lost_link_ends_the_worker(side: Side, state: str, status: Exit) -> None:
    run = Run() if state == "greeting" else getattr(Run(), state)()
    ended(run.loop.lost(side, run.now), status)
    assert run.loop.lost(side, run.now) == []


@pytest.mark.parametrize("state", ["playing", "finishing"])
def test_a_playbook_goes_on_without_the_model_bridge_but_not_without_the_bridge(state: str) -> None:
    run: Run = getattr(Run(), state)()
    assert run.loop.lost(Side.MODEL, run.now) == []
    run.now += END_S - 1
    assert sent(run.page(Ping(nonce=1)))
    if state == "playing":
        assert run.tick(SILENCE_S - END_S + 1) == []  # the lost link's silence is no news
    ended(run.loop.lost(Side.PAGE, run.now), Exit.LINK_LOST)


def test_a_models_task_ends_with_the_model_bridge_in_the_middle_of_a_call() -> None:
    run = Run().thinking()
    run.model(inference(chat_call("browser_page_observe")))
    ended(run.loop.lost(Side.MODEL, run.now), Exit.LINK_LOST)


def test_nothing_is_sent_on_a_lost_link() -> None:
    run = Run().playing()
    run.loop.lost(Side.MODEL, run.now)
    assert run.model(Ping(nonce=1)) == []  # its last words, read after the end was seen


def test_over_is_final() -> None:
    run = Run().over()
    assert run.loop.lost(Side.PAGE, run.now) == []
    assert run.loop.lost(Side.MODEL, run.now) == []
    assert run.tick(1_000.0) == []
    assert run.loop._end(Exit.CRASHED) == []
    for kind in Kind:
        assert TABLE[(State.OVER, kind)](run.loop, None) == []  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("state", "seconds", "status"),
    [
        ("greeting", GREETING_S, Exit.UNREACHABLE),
        ("spare", SILENCE_S, Exit.SILENT),
        ("greeted", SILENCE_S, Exit.SILENT),
        ("finishing", END_S, Exit.NO_ANSWER),
        ("stranded", END_S, Exit.NO_ANSWER),
    ],
)
def test_every_state_has_a_deadline(state: str, seconds: float, status: Exit) -> None:
    run = Run() if state == "greeting" else getattr(Run(), state)()
    assert run.tick(seconds - 0.01) == []
    ended(run.tick(0.02), status)


def keep_alive(run: Run, seconds: float) -> list[Effect]:
    """Time passes with pings on both links; what the last tick did."""
    effects: list[Effect] = []
    while seconds > 0 and not effects:
        step = min(seconds, 2.0)
        effects = run.tick(step)
        seconds -= step
        for side in Side:
            run.got(side, Ping(nonce=1))
    return effects


def test_a_call_has_the_tools_deadline_and_grace() -> None:
    deadline = WORKER_TOOLS["browser_page_navigate"].deadline_ms / 1000 + GRACE_S
    run = Run().playing()
    assert keep_alive(run, deadline - 0.1) == []
    ended(run.tick(0.2), Exit.NO_ANSWER)


def test_an_inference_has_the_tasks_lifetime() -> None:
    run = Run().thinking()
    assert keep_alive(run, THINKING_S - 0.1) == []
    ended(run.tick(0.2), Exit.NO_ANSWER)


def test_one_silent_bridge_is_enough() -> None:
    run = Run().spare()
    run.now += SILENCE_S - 1
    run.page(Ping(nonce=1))
    ended(run.tick(1.0), Exit.SILENT)


def test_a_failed_playbook_step_is_claimed_not_crashed() -> None:
    run = Run().playing()
    ((_, finish),) = sent(run.page(bad(None)))
    assert isinstance(finish, Finish)
    assert finish.claim.status is ClaimStatus.FAILED


class Wrong:
    """Each handler checks its own frame's type, whatever the tables say."""

    HANDLERS: tuple[Any, ...] = (
        Loop._welcome,
        Loop._is_sealed,
        Loop._pong,
        Loop._credit,
        Loop._assigned,
        Loop._result,
        Loop._inference,
        Loop._refused,
    )


@pytest.mark.parametrize("state", [State.GREETING, State.SPARE])
def test_a_handler_that_gets_the_wrong_frame_ends_the_worker(
    state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    from browsercell.worker import loop as module

    for handler in Wrong.HANDLERS:
        run = Run()
        run.loop._state = state
        monkeypatch.setattr(module, "TABLE", {**TABLE, (state, Kind.SEALED): handler})
        event = run.loop._dispatch(Kind.SEALED, module._In(run.now))
        ended(event, Exit.VIOLATION)


def test_an_event_for_a_planner_before_the_assignment_ends_the_worker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from browsercell.worker import loop as module

    run = Run()
    run.loop._calls[Side.PAGE] = 1
    monkeypatch.setattr(module, "TABLE", {**TABLE, (State.GREETING, Kind.RESULT): Loop._result})
    ended(run.loop._dispatch(Kind.RESULT, module._In(run.now, frame=ok())), Exit.VIOLATION)


def test_exit_statuses_are_distinct_and_not_signals() -> None:
    assert len(set(Exit)) == len(Exit)
    assert all(0 <= status < 126 for status in Exit)
    assert json.dumps({status.name: status.value for status in Exit})
