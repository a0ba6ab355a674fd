"""Judges what a model answered: which tools it named, whether their arguments hold (design 6 and 8).

    completion --> Accepted      known names, valid arguments, in the model's order, re-encoded from what was decoded
               --> Unknown       a tool that was not offered: the task ends `invalid-tool`, at once
               --> Malformed     arguments that break JSON or schema: one correction, as messages to append
               --> Silent        no call at all: likewise

Decisions: names are judged for every call, even those beyond `MAX_TOOL_CALLS_PER_STEP`, of which only the first are
kept (the worker never hears of the others, so its chat stays well-formed, and the model can repeat them). `target` is
for playbooks and was not offered: a model that sends it is malformed. In the correction, arguments that are not a JSON
object are echoed as `{}`, because several servers parse the history and refuse the whole request otherwise.

What is wrong is told to the model alone: msgspec's words name fields and bounds, and quote a value that is in no
enumeration. Pure: an answer in, a verdict out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import msgspec

from ...protocol import limits as L
from ...protocol.answers import AnswerSchema, Field, Kind
from ...protocol.frames import ChatToolCall
from ...protocol.results import ClaimStatus, ResultClaim
from ...protocol.tools import STRUCTURED_OUTPUT, WORKER_TOOLS, decode_args

Message = dict[str, Any]

# All arguments of one answer, in bytes: with ids, names and notes they fit MAX_MODEL_TO_WORKER (128 KiB).
MAX_ARGUMENT_BYTES: Final = 96 * L.KIB
MAX_NOTES_CHARS: Final = 4_000  # the model's words beside its calls; the worker shows no more of them either
MAX_ID_CHARS: Final = 80  # frames.ChatToolCall
_MAX_REASON_CHARS: Final = 300

NO_CALL: Final = f"You answered without a tool call. Answer with tool calls only; call {STRUCTURED_OUTPUT} to end the task."
_NOT_RUN: Final = "Not run: another call of this answer was malformed. Send all calls again, corrected."


@dataclass(frozen=True, slots=True)
class RawCall:
    """A call as the endpoint returned it. `arguments`: text, or whatever else the server thought of."""

    id: str
    name: str
    arguments: object


@dataclass(frozen=True, slots=True)
class Completion:
    """One answer of an endpoint. Tokens of this request; `estimated` if the endpoint did not count them."""

    content: str
    calls: tuple[RawCall, ...]
    cut_off: bool  # the answer hit the output limit
    prompt_tokens: int
    completion_tokens: int
    estimated: bool

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True, slots=True)
class Accepted:
    """Calls for the worker; `concludes` if the final claim is among them."""

    calls: tuple[ChatToolCall, ...]
    content: str
    concludes: bool


@dataclass(frozen=True, slots=True)
class Unknown:
    """A tool that was not offered."""


@dataclass(frozen=True, slots=True)
class Malformed:
    """Arguments that don't hold; `correction` is to be appended to the request."""

    correction: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class Silent:
    """No tool call; `correction` as above."""

    correction: tuple[Message, ...]


Verdict = Accepted | Unknown | Malformed | Silent


def judge(completion: Completion, schema: AnswerSchema | None = None, *, lenient: bool = False) -> Verdict:
    """The verdict on one answer. `schema`: of the task's typed answer.

    `lenient`: the model has been corrected already, so a wrong field of the answer is left out instead of ending the task.
    """
    if not completion.calls:
        said = completion.content[:MAX_NOTES_CHARS] or "(no answer)"
        return Silent(({"role": "assistant", "content": said}, {"role": "user", "content": NO_CALL}))
    if any(call.name != STRUCTURED_OUTPUT and call.name not in WORKER_TOOLS for call in completion.calls):
        return Unknown()
    kept = completion.calls[: L.MAX_TOOL_CALLS_PER_STEP]
    ids = _ids(kept)
    checked = [_check(call, schema, lenient) for call in kept]
    if sum(len(text) for text, _ in checked) > MAX_ARGUMENT_BYTES:
        checked = [
            (text, f"the arguments are longer than {MAX_ARGUMENT_BYTES} bytes together")
            for text, _ in checked
        ]
    if any(reason for _, reason in checked):
        return Malformed(_correction(completion, kept, ids, [reason for _, reason in checked]))
    return Accepted(
        calls=tuple(
            ChatToolCall(id=call_id, name=call.name, arguments=text.decode())
            for call_id, call, (text, _) in zip(ids, kept, checked, strict=True)
        ),
        content=completion.content[:MAX_NOTES_CHARS],
        concludes=any(call.name == STRUCTURED_OUTPUT for call in kept),
    )


def _ids(calls: tuple[RawCall, ...]) -> list[str]:
    """One id a call, unique in this answer: the model's own, or a number where it is missing, long or repeated."""
    ids: list[str] = []
    for number, call in enumerate(calls, 1):
        usable = bool(call.id) and len(call.id) <= MAX_ID_CHARS and call.id not in ids
        ids.append(call.id if usable else f"call_{number}_{len(calls)}")
    return ids


def as_object(arguments: object) -> dict[str, Any] | None:
    """The JSON object that `arguments` stands for, or None.

    Servers differ: text, an object, nothing at all for a call without arguments, text inside text.
    """
    value = arguments
    for _ in range(2):
        if not isinstance(value, str):
            break
        if not value.strip():
            return {}
        try:
            value = msgspec.json.decode(value)
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            return None
    if value is None:
        return {}
    return value if isinstance(value, dict) else None


def _check(call: RawCall, schema: AnswerSchema | None, lenient: bool) -> tuple[bytes, str]:
    """(canonical arguments, "" or what is wrong with them)."""
    value = as_object(call.arguments)
    if value is None:
        return b"{}", "the arguments are not a JSON object"
    try:
        text = msgspec.json.encode(value)
        if call.name == STRUCTURED_OUTPUT:
            return _claim(msgspec.json.decode(text, type=ResultClaim), value, schema, lenient)
        if "target" in value:
            return text, "Object contains unknown field `target`"
        return msgspec.json.encode(decode_args(WORKER_TOOLS[call.name], text)), ""
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        return msgspec.json.encode({}), _reason(error)


def _claim(
    claim: ResultClaim, arguments: dict[str, Any], schema: AnswerSchema | None, lenient: bool
) -> tuple[bytes, str]:
    """A claim's `arguments` with the answer that its schema leaves: owed by a task that claims to be completed."""
    rest = {name: value for name, value in arguments.items() if name != "answer"}
    given = {name: value for name, value in (claim.answer or {}).items() if value is not None}
    if schema is None:
        return msgspec.json.encode(rest), ""
    problems = schema.problems(given)
    if claim.status is ClaimStatus.COMPLETED and problems and not lenient:
        return msgspec.json.encode(rest), "; ".join(problems)[:_MAX_REASON_CHARS]
    fields = {field.name: field for field in schema.fields}
    kept = {name: value for name, value in given.items() if name in fields and _keeps(fields[name], value)}
    return msgspec.json.encode(rest | ({"answer": kept} if kept else {})), ""


def _keeps(field: Field, value: object) -> bool:
    """A text may be too long, customs cut it; anything else holds or goes."""
    return isinstance(value, str) if field.kind is Kind.TEXT else field.holds(field.read(value))


def _reason(error: Exception) -> str:
    """What msgspec says of it: field and bound. Other errors are of text that can't be encoded or nests too deep."""
    known = isinstance(error, msgspec.ValidationError)
    return str(error)[:_MAX_REASON_CHARS] if known else "the arguments can't be read"


def _correction(
    completion: Completion, calls: tuple[RawCall, ...], ids: list[str], reasons: list[str]
) -> tuple[Message, ...]:
    hint = " Your answer was cut off at its length limit; make it shorter." if completion.cut_off else ""
    asked: Message = {
        "role": "assistant",
        "content": completion.content[:MAX_NOTES_CHARS],
        "tool_calls": [
            {"id": call_id, "type": "function", "function": {"name": call.name, "arguments": _echo(call)}}
            for call_id, call in zip(ids, calls, strict=True)
        ],
    }
    answers = [
        {
            "role": "tool",
            "tool_call_id": call_id,
            "content": f"Not run: {reason}. Correct it and send all calls again.{hint}"
            if reason
            else _NOT_RUN,
        }
        for call_id, reason in zip(ids, reasons, strict=True)
    ]
    return (asked, *answers)


def _echo(call: RawCall) -> str:
    """The model's arguments as JSON text of bounded length, `{}` where they are none."""
    try:
        text = msgspec.json.encode(as_object(call.arguments) or {})
    except (UnicodeEncodeError, RecursionError):
        return "{}"
    return text.decode() if len(text) <= MAX_ARGUMENT_BYTES else "{}"
