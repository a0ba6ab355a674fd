"""The chat API as servers really speak it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from browsercell.bridge.model.judge import Completion, RawCall
from browsercell.bridge.model.wire import (
    MAX_RETRY_AFTER_S,
    TOOLS,
    Failure,
    Shape,
    body,
    classify,
    estimate,
    messages_of,
    read_answer,
    retry_after,
)
from browsercell.protocol.frames import ChatMessage, ChatRole, ChatToolCall, ModelProblem
from browsercell.protocol.tools import WORKER_TOOLS
from hypothesis import given
from hypothesis import strategies as st

P = ModelProblem


def test_the_catalogue_is_offered_in_constant_order_and_without_targets() -> None:
    names = [tool["function"]["name"] for tool in TOOLS]
    assert names == [*WORKER_TOOLS, "structured_output"]
    for tool in TOOLS:
        assert "target" not in tool["function"]["parameters"].get("properties", {})
        assert tool["function"]["parameters"]["type"] == "object"


def test_a_surface_becomes_messages() -> None:
    surface = (
        ChatMessage(ChatRole.SYSTEM, "s"),
        ChatMessage(ChatRole.ASSISTANT, "a", tool_calls=(ChatToolCall("c1", "browser_status", "{}"),)),
        ChatMessage(ChatRole.TOOL, "t", tool_call_id="c1"),
    )
    call = {"id": "c1", "type": "function", "function": {"name": "browser_status", "arguments": "{}"}}
    assert messages_of(surface) == (
        {"role": "system", "content": "s"},
        {"role": "assistant", "content": "a", "tool_calls": [call]},
        {"role": "tool", "content": "t", "tool_call_id": "c1"},
    )


def request(shape: Shape) -> dict[str, Any]:
    return body(({"role": "user", "content": "x"},), model="m", max_output_tokens=99, shape=shape)


def test_equal_requests_have_equal_bytes() -> None:
    assert json.dumps(request(Shape())) == json.dumps(request(Shape()))
    assert request(Shape())["max_tokens"] == 99
    assert request(Shape())["parallel_tool_calls"] is True
    assert request(Shape())["tools"] == list(TOOLS)


def adapted(shape: Shape, error: str) -> Shape:
    other = shape.adapt(error)
    assert other is not None
    return other


def test_a_refused_parameter_is_left_out_once() -> None:
    refusal = "Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens' instead."
    shape = adapted(Shape(), refusal)
    assert shape == Shape("max_completion_tokens", True)
    assert "max_tokens" not in request(shape)
    assert shape.adapt(refusal) is None
    shape = adapted(shape, "parallel_tool_calls: Extra inputs are not permitted")
    assert shape == Shape("max_completion_tokens", False)
    assert "parallel_tool_calls" not in request(shape)
    assert shape.adapt("unknown parameter parallel_tool_calls") is None


def test_other_refusals_change_nothing() -> None:
    assert Shape().adapt("max_tokens must be at least 1") is None
    assert Shape().adapt("unsupported parameter: temperature") is None


def test_an_estimate_grows_with_the_request() -> None:
    assert (
        estimate(({"role": "user", "content": "x" * 3_000},)) - estimate(({"role": "user", "content": ""},))
        == 1_000
    )
    assert estimate(()) > 1_000  # the tools alone


def answered(message: Any, **fields: Any) -> Completion:
    usage = fields.pop("usage", {"prompt_tokens": 7, "completion_tokens": 3})
    answer = {
        "choices": [{"message": message, "finish_reason": fields.pop("finish_reason", "stop")}],
        "usage": usage,
    }
    outcome = read_answer(json.dumps({**answer, **fields}).encode(), 1_000)
    assert isinstance(outcome, Completion)
    return outcome


def test_a_usual_answer() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "browser_status", "arguments": "{}"}}
    assert answered(
        {"role": "assistant", "content": None, "tool_calls": [call]}, finish_reason="tool_calls"
    ) == Completion("", (RawCall("c1", "browser_status", "{}"),), False, 7, 3, False)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, ""),
        ("  words ", "words"),
        (
            [
                {"type": "text", "text": "a"},
                {"type": "image"},
                "x",
                {"type": "text", "text": 1},
                {"type": "text", "text": "b"},
            ],
            "ab",
        ),
        ("<think>secret\nthoughts</think>words", "words"),
        ("<thinking>endless", ""),
        ({"a": 1}, ""),
        (7, ""),
    ],
)
def test_content_in_its_forms(content: Any, text: str) -> None:
    assert answered({"content": content, "reasoning_content": "r", "reasoning": "r"}).content == text


@pytest.mark.parametrize(
    ("message", "calls"),
    [
        ({"tool_calls": None}, ()),
        ({"tool_calls": {}}, ()),
        ({"tool_calls": [{"function": {"name": "n", "arguments": {"a": 1}}}]}, (RawCall("", "n", {"a": 1}),)),
        ({"tool_calls": [{"id": 3, "function": {"name": 4}}]}, (RawCall("", "", None),)),
        ({"tool_calls": ["x", {"id": "c"}, {"function": "f"}]}, (RawCall("", "", ""),) * 3),
        ({"function_call": {"name": "n", "arguments": "{}"}}, (RawCall("", "n", "{}"),)),
        ({"tool_calls": [], "function_call": "x"}, ()),
    ],
)
def test_tool_calls_in_their_forms(message: Any, calls: Any) -> None:
    assert answered(message).calls == calls


def test_the_output_limit_shows() -> None:
    assert answered({"content": "x"}, finish_reason="length").cut_off


@pytest.mark.parametrize(
    "usage",
    [
        None,
        {},
        [],
        {"prompt_tokens": 1},
        {"prompt_tokens": "7", "completion_tokens": 3},
        {"prompt_tokens": True, "completion_tokens": 3},
        {"prompt_tokens": -1, "completion_tokens": 3},
        {"prompt_tokens": 0, "completion_tokens": 0},
        {"prompt_tokens": 2**60, "completion_tokens": 3},
    ],
)
def test_missing_usage_is_estimated_and_marked(usage: Any) -> None:
    message = {"content": "abc", "tool_calls": [{"function": {"name": "nnn", "arguments": "{}x"}}]}
    outcome = answered(message, usage=usage)
    assert (outcome.prompt_tokens, outcome.completion_tokens, outcome.estimated) == (1_000, 3, True)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"<html>",
        b"[]",
        b"{}",
        b'{"choices":[]}',
        b'{"choices":[1]}',
        b'{"choices":[{"message":"x"}]}',
        b"[" * 100_000,
    ],
)
def test_answers_without_a_message_are_bad_ones(data: bytes) -> None:
    assert read_answer(data, 1) == Failure(P.BAD_ANSWER, retryable=True)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ({"error": {"message": "upstream", "code": 502}}, P.SERVER_ERROR),
        ({"error": {"message": "slow down", "code": 429}}, P.RATE_LIMITED),
        ({"error": {"message": "no", "code": "x"}}, P.SERVER_ERROR),
        ({"error": "text"}, P.SERVER_ERROR),
        ({"choices": [{"error": {"code": 401}}]}, P.REFUSED_KEY),
        ({"error": {"message": "odd", "code": 200}}, P.BAD_ANSWER),
    ],
)
def test_errors_inside_a_good_status(answer: Any, problem: ModelProblem) -> None:
    outcome = read_answer(json.dumps(answer).encode(), 1)
    assert isinstance(outcome, Failure)
    assert outcome.problem is problem


@given(st.binary(max_size=200))
def test_no_answer_raises(data: bytes) -> None:
    assert isinstance(read_answer(data, 1), Failure | Completion)


@pytest.mark.parametrize(
    ("status", "text", "problem", "retryable"),
    [
        (301, "", P.REDIRECTED, False),
        (307, "", P.REDIRECTED, False),
        (401, "", P.REFUSED_KEY, False),
        (402, "Insufficient Balance", P.REFUSED_KEY, False),
        (403, "", P.REFUSED_KEY, False),
        (404, "", P.WRONG_MODEL, False),
        (400, "Model Not Exist", P.WRONG_MODEL, False),
        (400, "foo/bar is not a valid model ID", P.WRONG_MODEL, False),
        (422, "The model `x` does not exist", P.WRONG_MODEL, False),
        (400, '{"code":"context_length_exceeded"}', P.CONTEXT_TOO_LONG, False),
        (400, "This model's maximum context length is 8192 tokens", P.CONTEXT_TOO_LONG, False),
        (
            400,
            "'max_tokens' is too large: 4096. This model's maximum context length is 100",
            P.CONTEXT_TOO_LONG,
            False,
        ),
        (500, "the request exceeds the available context size", P.CONTEXT_TOO_LONG, False),
        (413, "", P.CONTEXT_TOO_LONG, False),
        (400, "bad request", P.REQUEST_REFUSED, False),
        (422, "", P.REQUEST_REFUSED, False),
        (405, "", P.REQUEST_REFUSED, False),
        (429, "slow down", P.RATE_LIMITED, True),
        (429, '{"code":"insufficient_quota"}', P.RATE_LIMITED, False),
        (408, "", P.TIMEOUT, True),
        (504, "", P.TIMEOUT, True),
        (409, "", P.SERVER_ERROR, True),
        (500, "", P.SERVER_ERROR, True),
        (529, "overloaded", P.SERVER_ERROR, True),
        (204, "", P.BAD_ANSWER, True),
    ],
)
def test_statuses(status: int, text: str, problem: ModelProblem, retryable: bool) -> None:
    failure = classify(status, text, {})
    assert (failure.problem, failure.retryable) == (problem, retryable)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, 0.0),
        ({"retry-after": "2"}, 2.0),
        ({"retry-after": "2", "retry-after-ms": "500"}, 0.5),
        ({"retry-after-ms": "x", "retry-after": "3"}, 3.0),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}, 0.0),
        ({"retry-after": "99999"}, MAX_RETRY_AFTER_S),
        ({"retry-after": "-1"}, 0.0),
        ({"retry-after": "nan"}, 0.0),
        ({"retry-after": "inf"}, 0.0),
    ],
)
def test_retry_after(headers: dict[str, str], seconds: float) -> None:
    assert retry_after(headers) == seconds
    assert classify(429, "", headers).retry_after == seconds
