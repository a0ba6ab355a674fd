"""The OpenAI-compatible chat API as data: how a request is built, how an answer and an error are read.

Servers differ (OpenAI, DeepSeek, OpenRouter, vLLM, Ollama, llama.cpp); the differences live here and in `judge`:
errors inside a 200 answer, arguments as objects, missing ids and usage, the older `function_call`, content in parts,
reasoning in fields or tags of its own (ignored), a parameter that one of them refuses (`Shape.adapt`, once each).

Invariants: the tools are this process's own catalogue in constant order and the host's answer schema, whatever a worker sends; a problem is one closed
word, and no text of an answer goes into it. Pure: bytes and dictionaries; makes no request.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeGuard

import msgspec

from ...protocol.answers import AnswerSchema
from ...protocol.frames import ChatMessage, ChatRole, ModelProblem
from ...protocol.tools import (
    STRUCTURED_OUTPUT,
    STRUCTURED_OUTPUT_DESCRIPTION,
    WORKER_TOOLS,
    structured_output_schema,
    worker_schema,
)
from .judge import Completion, Message, RawCall

CHARS_PER_TOKEN: Final = 3  # a low estimate for English, JSON and markup, so that limits err on the safe side
MAX_RETRY_AFTER_S: Final = 30.0  # a task lives 180 s; an endpoint that wants longer is asked again after this


def tools_for(schema: AnswerSchema | None) -> tuple[Message, ...]:
    """What the model is offered: the worker's catalogue, then the tool that ends the task, with the typed answer it owes.

    Only the last tool differs from task to task, so the prefix that a provider caches stays the same.
    """
    offered = [(tool.name, tool.description, worker_schema(tool)) for tool in WORKER_TOOLS.values()]
    source = None if schema is None else schema.source
    offered.append((STRUCTURED_OUTPUT, STRUCTURED_OUTPUT_DESCRIPTION, structured_output_schema(source)))
    return tuple(
        {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}
        for name, description, schema in offered
    )


TOOLS: Final = tools_for(None)
_TOOL_CHARS: Final = len(msgspec.json.encode(TOOLS))


@dataclass(frozen=True, slots=True)
class Shape:
    """Which of the parameters that servers disagree about are sent, as learned from their refusals."""

    max_field: str = "max_tokens"
    parallel: bool = True

    def adapt(self, error: str) -> Shape | None:
        """Another shape to try after a refused request, or None if the refusal is about something else.

        `error`: the server's text; it is only searched for the names of parameters we sent.
        """
        text = error.lower()
        if not _REFUSES_PARAMETER.search(text):
            return None
        if self.parallel and "parallel_tool_calls" in text:
            return replace(self, parallel=False)
        if self.max_field == "max_tokens" and "max_tokens" in text:
            return replace(self, max_field="max_completion_tokens")
        return None


_REFUSES_PARAMETER: Final = re.compile(
    r"unsupported|not support|unrecognized|unrecognised|unknown|unexpected|not permitted|not allowed|extra|invalid param"
)


def body(
    messages: Sequence[Message],
    *,
    model: str,
    max_output_tokens: int,
    shape: Shape,
    tools: Sequence[Message] = TOOLS,
) -> dict[str, Any]:
    """The request body; equal inputs give equal bytes, so a retry is the same request."""
    request: dict[str, Any] = {"model": model, "messages": list(messages), "tools": list(tools)}
    request[shape.max_field] = max_output_tokens
    if shape.parallel:
        request["parallel_tool_calls"] = True
    return request


def messages_of(surface: Iterable[ChatMessage]) -> tuple[Message, ...]:
    """A worker's surface as the API wants it."""
    return tuple(_message(message) for message in surface)


def _message(message: ChatMessage) -> Message:
    out: Message = {"role": str(message.role), "content": message.content}
    if message.role is ChatRole.TOOL:
        out["tool_call_id"] = message.tool_call_id
    if message.tool_calls:
        out["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
    return out


def estimate(messages: Sequence[Message]) -> int:
    """Tokens of a request, from its characters: for endpoints that don't count."""
    return (len(msgspec.json.encode(messages)) + _TOOL_CHARS) // CHARS_PER_TOKEN


@dataclass(frozen=True, slots=True)
class Failure:
    """A request came to nothing. `retry_after`: seconds the endpoint asked for, 0 if it did not."""

    problem: ModelProblem
    retryable: bool
    retry_after: float = 0.0


# ---------------------------------------------------------------------------------------------------- answers


def read_answer(data: bytes, prompt_estimate: int) -> Completion | Failure:
    """A 200 answer. `prompt_estimate` stands in where the endpoint reports no usage."""
    try:
        answer = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return Failure(ModelProblem.BAD_ANSWER, retryable=True)
    if not isinstance(answer, dict):
        return Failure(ModelProblem.BAD_ANSWER, retryable=True)
    choices = answer.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    embedded = answer.get("error") or (choice.get("error") if isinstance(choice, dict) else None)
    if embedded:  # OpenRouter reports an upstream failure inside a 200
        status = embedded.get("code") if isinstance(embedded, dict) else None
        return classify(
            status if isinstance(status, int) else 500, msgspec.json.encode(embedded).decode(), {}
        )
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        return Failure(ModelProblem.BAD_ANSWER, retryable=True)
    content = _content(message.get("content"))
    calls = _calls(message)
    prompt, completion, estimated = _usage(answer.get("usage"), prompt_estimate, content, calls)
    return Completion(content, calls, choice.get("finish_reason") == "length", prompt, completion, estimated)


_THINKING: Final = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL)


def _content(value: object) -> str:
    """Text, or the text parts of a list; reasoning inside tags is dropped, reasoning in its own field never read."""
    if isinstance(value, list):
        parts = [part.get("text") for part in value if isinstance(part, dict) and part.get("type") == "text"]
        value = "".join(part for part in parts if isinstance(part, str))
    return _THINKING.sub("", value).strip() if isinstance(value, str) else ""


def _calls(message: Mapping[str, Any]) -> tuple[RawCall, ...]:
    given = message.get("tool_calls")
    items = given if isinstance(given, list) else []
    if not items and isinstance(message.get("function_call"), dict):
        items = [{"function": message["function_call"]}]  # the API's form before tools
    return tuple(_raw(item) for item in items)


def _raw(item: object) -> RawCall:
    """Whatever is no call becomes one of a tool that does not exist."""
    function = item.get("function") if isinstance(item, dict) else None
    if not isinstance(item, dict) or not isinstance(function, dict):
        return RawCall("", "", "")
    call_id, name = item.get("id"), function.get("name")
    return RawCall(
        call_id if isinstance(call_id, str) else "",
        name if isinstance(name, str) else "",
        function.get("arguments"),
    )


def _usage(
    usage: object, prompt_estimate: int, content: str, calls: Sequence[RawCall]
) -> tuple[int, int, bool]:
    """(prompt tokens, completion tokens, whether they are estimated)."""
    if isinstance(usage, dict):
        prompt, completion = usage.get("prompt_tokens"), usage.get("completion_tokens")
        if _is_count(prompt) and _is_count(completion) and prompt + completion > 0:
            return prompt, completion, False
    chars = len(content) + sum(len(call.name) + len(str(call.arguments)) for call in calls)
    return prompt_estimate, chars // CHARS_PER_TOKEN, True


def _is_count(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53


# ---------------------------------------------------------------------------------------------------- errors

_TOO_LONG: Final = re.compile(
    r"context.?length|maximum context|context.?window|context.?size|too many tokens|prompt is too long|input is too long"
    r"|reduce the length"
)
_NO_SUCH_MODEL: Final = re.compile(
    r"model_not_found|model not exist|not a valid model|model .{0,200}(?:not found|does not exist)|no such model"
    r"|unknown model|invalid model"
)
_NO_MONEY: Final = re.compile(r"insufficient_quota|insufficient balance|billing")


def classify(status: int, text: str, headers: Mapping[str, str]) -> Failure:
    """What an error status means. `text`: the body, only searched for known words; `headers` with lower-case names."""
    words = text[:4_096].lower()
    after = retry_after(headers)
    if 300 <= status < 400:
        return Failure(ModelProblem.REDIRECTED, retryable=False)
    if status in (401, 402, 403):
        return Failure(ModelProblem.REFUSED_KEY, retryable=False)
    if status == 413 or (status in (400, 422, 500) and _TOO_LONG.search(words)):
        return Failure(ModelProblem.CONTEXT_TOO_LONG, retryable=False)
    if status == 404 or (status in (400, 422) and _NO_SUCH_MODEL.search(words)):
        return Failure(ModelProblem.WRONG_MODEL, retryable=False)
    if status == 429:
        return Failure(ModelProblem.RATE_LIMITED, not _NO_MONEY.search(words), after)
    if status in (408, 504):
        return Failure(ModelProblem.TIMEOUT, True, after)
    if status >= 500 or status == 409:
        return Failure(ModelProblem.SERVER_ERROR, True, after)
    if status < 300:
        return Failure(ModelProblem.BAD_ANSWER, retryable=True)
    return Failure(ModelProblem.REQUEST_REFUSED, retryable=False)


def retry_after(headers: Mapping[str, str]) -> float:
    """Seconds from `retry-after-ms` or `retry-after` (a number; dates are ignored), at most MAX_RETRY_AFTER_S."""
    for name, divisor in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) / divisor
        except ValueError:
            continue
        if 0 < seconds < float("inf"):
            return min(seconds, MAX_RETRY_AFTER_S)
    return 0.0
