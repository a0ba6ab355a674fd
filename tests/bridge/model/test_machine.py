"""The machine of one task's inferences: meters, limits, corrections, retries; no socket, no sleep."""

from __future__ import annotations

from typing import Any

import pytest
from browsercell.bridge.model.judge import Completion, RawCall
from browsercell.bridge.model.machine import (
    BACKOFF_S,
    MAX_BACKOFF_S,
    TABLE,
    Abort,
    Ask,
    Effect,
    Inferences,
    Kind,
    Limits,
    Reply,
    Report,
    Rest,
    State,
)
from browsercell.bridge.model.wire import TOOLS, Failure
from browsercell.protocol.errors import BlockerCode, LocalMisuse
from browsercell.protocol.frames import (
    AssignModel,
    ChatMessage,
    ChatRole,
    Infer,
    Inference,
    InferenceFailed,
    ModelFault,
    ModelProblem,
    ModelProgress,
)
from hypothesis import given
from hypothesis import strategies as st

P = ModelProblem
GOOD = RawCall("c1", "browser_page_observe", "{}")
MALFORMED = RawCall("c1", "browser_page_observe", "{")
END = RawCall("c1", "structured_output", '{"status":"completed","summary":"Done"}')


def machine(steps: int = 8, problem: ModelProblem = P.NONE, **limits: int) -> Inferences:
    assigned = AssignModel(worker="worker-aaaa", task="task-aaaa", generation=2, steps=steps)
    numbers = {"soft_tokens": 1_000, "hard_tokens": 2_000, "attempts": 3, **limits}
    return Inferences(assigned, Limits(**numbers), problem)


def infer(call: int = 1) -> Infer:
    return Infer(call=call, messages=(ChatMessage(ChatRole.USER, f"surface {call}"),))


def answer(*calls: RawCall, tokens: int = 100, content: str = "") -> Completion:
    return Completion(content, calls, False, tokens, 0, False)


def progress(steps: int, tokens: int, occupancy: int) -> Report:
    return Report(
        ModelProgress(task="task-aaaa", generation=2, steps=steps, tokens=tokens, occupancy=occupancy)
    )


def over(code: BlockerCode, problem: ModelProblem = P.NONE, call: int = 1) -> list[Effect]:
    fault = ModelFault(task="task-aaaa", generation=2, code=code, problem=problem)
    return [Report(fault), Reply(InferenceFailed(call=call))]


def asked(effects: list[Effect]) -> Ask:
    (ask,) = [effect for effect in effects if isinstance(effect, Ask)]
    return ask


def test_the_table_is_total() -> None:
    assert set(TABLE) == {(state, kind) for state in State for kind in Kind}
    assert len(TABLE) == len(State) * len(Kind)


def test_one_inference() -> None:
    task = machine()
    message = {"role": "user", "content": "surface 1"}
    assert task.infer(infer()) == [progress(1, 0, 0), Ask("task-aaaa-2-1", (message,))]
    effects = task.answered(answer(GOOD, content="plan"))
    assert effects[0] == progress(1, 100, 100)
    (reply,) = effects[1:]
    assert isinstance(reply, Reply)
    assert isinstance(reply.frame, Inference)
    assert (reply.frame.call, reply.frame.content) == (1, "plan")
    assert task.state is State.IDLE


def test_tokens_add_up_and_occupancy_is_the_latest() -> None:
    task = machine()
    task.infer(infer())
    task.answered(answer(GOOD, tokens=300))
    task.infer(infer(2))
    assert task.answered(answer(GOOD, tokens=200))[0] == progress(2, 500, 200)


def test_the_last_step_is_a_step_and_the_next_one_is_refused() -> None:
    task = machine(steps=1)
    task.infer(infer())
    task.answered(answer(GOOD))
    assert task.infer(infer(2)) == over(BlockerCode.STEP_LIMIT, call=2)
    assert task.infer(infer(3)) == [Reply(InferenceFailed(call=3))]  # one fault only


def test_a_tool_that_was_not_offered_ends_the_task_at_once() -> None:
    task = machine()
    task.infer(infer())
    assert task.answered(answer(RawCall("c", "rm", "{}")))[1:] == over(BlockerCode.INVALID_TOOL)
    assert task.state is State.OVER


@pytest.mark.parametrize(
    ("first", "second", "code"),
    [
        ((MALFORMED,), (MALFORMED,), BlockerCode.INVALID_TOOL),
        ((), (), BlockerCode.NO_STRUCTURED_OUTPUT),
        ((MALFORMED,), (), BlockerCode.NO_STRUCTURED_OUTPUT),
        ((), (MALFORMED,), BlockerCode.INVALID_TOOL),
    ],
)
def test_one_correction_then_the_end(first: Any, second: Any, code: BlockerCode) -> None:
    task = machine()
    before = asked(task.infer(infer())).messages
    effects = task.answered(answer(*first))
    again = asked(effects)
    assert effects[:2] == [progress(1, 100, 100), progress(2, 100, 100)]
    assert again.request_id == "task-aaaa-2-2"
    assert again.messages[: len(before)] == before
    assert len(again.messages) > len(before)
    assert task.answered(answer(*second))[1:] == over(code)


def test_a_corrected_answer_is_as_good_as_any_and_the_next_inference_gets_its_own_correction() -> None:
    task = machine()
    for call in (1, 2):
        task.infer(infer(call))
        assert asked(task.answered(answer(MALFORMED)))
        assert isinstance(task.answered(answer(GOOD))[-1], Reply)
    assert [message["content"] for message in asked(task.infer(infer(3))).messages] == ["surface 3"]


def test_a_correction_needs_a_step_and_room() -> None:
    task = machine(steps=1)
    task.infer(infer())
    assert task.answered(answer(MALFORMED))[1:] == over(BlockerCode.STEP_LIMIT)
    task = machine()
    task.infer(infer())
    assert task.answered(answer(MALFORMED, tokens=2_000))[1:] == over(BlockerCode.ROLLOVER_EXHAUSTED)


def test_the_soft_limit_ends_after_the_step_unless_the_step_concludes() -> None:
    for tokens, calls, ends in ((999, (GOOD,), False), (1_000, (GOOD,), True), (5_000, (END,), False)):
        task = machine()
        task.infer(infer())
        effects = task.answered(answer(*calls, tokens=tokens))
        assert (effects[1:] == over(BlockerCode.ROLLOVER_EXHAUSTED)) is ends


def test_the_hard_limit_is_checked_before_an_inference() -> None:
    task = machine(soft_tokens=5_000, hard_tokens=2_000)
    task.infer(infer())
    task.answered(answer(GOOD, tokens=2_000))
    assert task.infer(infer(2)) == over(BlockerCode.ROLLOVER_EXHAUSTED, call=2)


@pytest.mark.parametrize("problem", [problem for problem in P if problem is not P.NONE])
def test_an_endpoint_that_is_not_configured_refuses_with_the_reason(problem: ModelProblem) -> None:
    assert machine(problem=problem).infer(infer()) == over(BlockerCode.MODEL_UNCONFIGURED, problem)


def test_a_retry_is_the_same_request_and_no_step() -> None:
    task = machine()
    first = asked(task.infer(infer()))
    assert task.failed(Failure(P.SERVER_ERROR, True), 0.0) == [Rest(BACKOFF_S / 2)]
    assert task.state is State.RESTING
    assert task.due() == [first]
    assert task.answered(answer(GOOD))[0] == progress(1, 100, 100)


def test_attempts_are_bounded_and_the_last_problem_is_told() -> None:
    task = machine(attempts=3)
    task.infer(infer())
    for problem in (P.UNREACHABLE, P.TIMEOUT):
        assert isinstance(task.failed(Failure(problem, True), 0.5)[0], Rest)
        task.due()
    assert task.failed(Failure(P.RATE_LIMITED, True), 0.5) == over(
        BlockerCode.MODEL_UNAVAILABLE, P.RATE_LIMITED
    )


def test_each_request_has_its_own_attempts() -> None:
    task = machine(attempts=2)
    for call in (1, 2, 3):
        task.infer(infer(call))
        task.failed(Failure(P.SERVER_ERROR, True), 0.5)
        task.due()
        assert isinstance(task.answered(answer(GOOD))[-1], Reply)


def test_what_no_retry_can_cure_ends_at_once() -> None:
    task = machine()
    task.infer(infer())
    assert task.failed(Failure(P.REFUSED_KEY, False), 0.5) == over(
        BlockerCode.MODEL_UNAVAILABLE, P.REFUSED_KEY
    )


@given(st.floats(0, 1, exclude_max=True), st.integers(1, 12))
def test_back_off_doubles_within_its_bounds(random: float, tries: int) -> None:
    task = machine(attempts=20)
    task.infer(infer())
    for _ in range(tries - 1):
        task.failed(Failure(P.SERVER_ERROR, True), random)
        task.due()
    (rest,) = task.failed(Failure(P.SERVER_ERROR, True), random)
    assert isinstance(rest, Rest)
    ceiling = min(MAX_BACKOFF_S, BACKOFF_S * 2 ** (tries - 1))
    assert ceiling / 2 <= rest.seconds <= ceiling


def test_the_endpoints_own_wish_is_honoured() -> None:
    task = machine()
    task.infer(infer())
    assert task.failed(Failure(P.RATE_LIMITED, True, 9.0), 0.0) == [Rest(9.0)]


def test_forgetting_aborts_what_is_under_way_and_drops_the_page() -> None:
    task = machine()
    assert task.forget() == []
    for fail in (False, True):
        task = machine()
        task.infer(infer())
        if fail:
            task.failed(Failure(P.SERVER_ERROR, True), 0.0)
        assert task.forget() == [Abort()]
        assert task.state is State.OVER
        assert task._messages == ()
        assert task.answered(answer(GOOD)) == []
        assert task.failed(Failure(P.TIMEOUT, True), 0.0) == []
        assert task.due() == []
        assert task.forget() == []


def test_page_data_is_held_only_while_an_inference_is_open() -> None:
    task = machine()
    task.infer(infer())
    task.answered(answer(GOOD))
    assert task._messages == ()
    task.infer(infer(2))
    task.failed(Failure(P.REFUSED_KEY, False), 0.0)
    assert task._messages == ()


def test_events_that_cannot_come_are_our_own_bug() -> None:
    task = machine()
    with pytest.raises(LocalMisuse):
        task.answered(answer(GOOD))
    with pytest.raises(LocalMisuse):
        task.failed(Failure(P.TIMEOUT, True), 0.0)
    with pytest.raises(LocalMisuse):
        task.due()
    task.infer(infer())
    with pytest.raises(LocalMisuse):
        task.infer(infer(2))


SCHEMA = b'{"type":"object","properties":{"found":{"type":"boolean"}},"required":["found"]}'
WRONG = RawCall(
    "c1", "structured_output", '{"status":"completed","summary":"Done","answer":{"found":"PAGE"}}'
)


def test_a_typed_answer_is_offered_corrected_once_and_then_left_to_customs() -> None:
    assigned = AssignModel(worker="worker-aaaa", task="task-aaaa", generation=2, steps=8, answer=SCHEMA)
    task = Inferences(assigned, Limits(1_000, 2_000, 3), P.NONE)
    tools = asked(task.infer(infer())).tools
    assert tools[:-1] == TOOLS[:-1]  # the prefix that a provider caches
    assert "found" in tools[-1]["function"]["parameters"]["properties"]["answer"]["properties"]
    assert asked(task.answered(answer(WRONG))).tools == tools
    (_, reply) = task.answered(answer(WRONG))
    assert isinstance(reply, Reply)
    assert isinstance(reply.frame, Inference)
    assert "PAGE" not in reply.frame.tool_calls[0].arguments
