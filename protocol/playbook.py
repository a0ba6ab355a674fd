"""The playbook format: a list of steps, checked before a task starts and run by the playbook planner (design 6).

A step is exactly one of
    {"tool": NAME, "args": {...}, "purpose": P?}                      one worker tool call
    {"expect": {"text"|"url"|"gone": TEXT} or {"role": R, "name": N}, "timeout_ms": N?}
    {"finish": {"status": S, "summary": TEXT, ...}}                   the final claim; must be last
`${name}` inside any string value is replaced from `variables`; `$${` stands for a literal `${`.
`target` inside args stands for a ref.

Pure: no clock, no I/O.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct

from . import limits as L
from .errors import UsageError
from .results import AnswerValue, ClaimStatus, Purpose
from .tools import WORKER_TOOLS, decode_args, without_value


class FinishStep(Struct, frozen=True, forbid_unknown_fields=True):
    """The claim of a playbook; artifacts are claimed by the planner from each step's `purpose`."""

    status: ClaimStatus
    summary: Annotated[str, Meta(max_length=L.MAX_SUMMARY_CHARS)]
    question: Annotated[str, Meta(max_length=L.MAX_QUESTION_CHARS)] | None = None
    next_step: Annotated[str, Meta(max_length=L.MAX_QUESTION_CHARS)] | None = None
    answer: dict[str, AnswerValue] | None = None


class Expect(Struct, frozen=True, forbid_unknown_fields=True):
    """A condition to wait for: exactly one of text, url, gone, or role with name."""

    text: Annotated[str, Meta(min_length=1, max_length=L.MAX_QUERY_CHARS)] | None = None
    url: Annotated[str, Meta(min_length=1, max_length=L.MAX_QUERY_CHARS)] | None = None
    gone: Annotated[str, Meta(min_length=1, max_length=L.MAX_QUERY_CHARS)] | None = None
    role: Annotated[str, Meta(min_length=1, max_length=32)] | None = None
    name: Annotated[str, Meta(min_length=1, max_length=L.MAX_NAME_CHARS)] | None = None


class Step(Struct, frozen=True, forbid_unknown_fields=True):
    """One step as written; exactly one of tool, expect and finish."""

    tool: str | None = None
    args: dict[str, Any] = {}
    purpose: Purpose | None = None
    expect: Expect | None = None
    timeout_ms: Annotated[int, Meta(ge=100, le=L.MAX_WAIT_MS)] | None = None
    finish: FinishStep | None = None


_VARIABLE: Final = re.compile(r"\$(\$\{|\{([A-Za-z_][A-Za-z0-9_]{0,63})\})")


def substitute(value: Any, variables: Mapping[str, str]) -> Any:
    """Replaces `${name}` in every string inside `value`. Raises UsageError naming a missing variable."""

    def one(match: re.Match[str]) -> str:
        name = match.group(2)
        if name is None:
            return "${"
        if name not in variables:
            raise UsageError(
                f"the playbook uses ${{{name}}} but no such variable is given",
                next_step=f"Give it in variables (on the command line: --var {name}=…)",
            )
        return variables[name]

    if isinstance(value, str):
        return _VARIABLE.sub(one, value)
    if isinstance(value, list):
        return [substitute(item, variables) for item in value]
    if isinstance(value, dict):
        return {key: substitute(item, variables) for key, item in value.items()}
    return value


def parse(data: bytes, variables: Mapping[str, str], tool_calls: int) -> tuple[Step, ...]:
    """Checks a whole playbook: shape, tool names, argument schemas after substitution, length, one finish at the end.

    `data`: JSON array, ≤ 64 KiB. `tool_calls`: the task's limit; `expect` costs one call each. Raises UsageError whose text
    names the step (1-based) and the fault, never a value.
    """
    if len(data) > L.MAX_PLAYBOOK_BYTES:
        raise UsageError(f"the playbook has {len(data)} bytes; {L.MAX_PLAYBOOK_BYTES} are allowed")
    try:
        raw = msgspec.json.decode(data)
    except msgspec.DecodeError:
        raise UsageError("the playbook is not valid JSON") from None
    if not isinstance(raw, list) or not raw:
        raise UsageError("a playbook is a list of at least one step")
    steps = tuple(_step(index, substitute(item, variables)) for index, item in enumerate(raw, 1))
    _check_order(steps)
    calls = sum(step.finish is None for step in steps)
    if calls > tool_calls:
        raise UsageError(f"the playbook makes {calls} tool calls; the task's limit is {tool_calls}")
    return steps


def _step(index: int, raw: Any) -> Step:
    try:
        step = msgspec.convert(raw, Step)
    except msgspec.ValidationError as error:
        raise UsageError(f"playbook step {index}: {without_value(str(error))}") from None
    kinds = sum(part is not None for part in (step.tool, step.expect, step.finish))
    if kinds != 1:
        raise UsageError(f"playbook step {index}: give exactly one of tool, expect and finish")
    if step.tool is None and (step.args or step.purpose is not None):
        raise UsageError(f"playbook step {index}: args and purpose go with tool")
    if step.expect is None and step.timeout_ms is not None:
        raise UsageError(f"playbook step {index}: timeout_ms goes with expect")
    if step.tool is not None:
        tool = WORKER_TOOLS.get(step.tool)
        if tool is None:
            raise UsageError(f"playbook step {index}: there is no worker tool of that name")
        try:
            decode_args(tool, msgspec.json.encode(step.args))
        except msgspec.ValidationError as error:
            raise UsageError(f"playbook step {index}: {error}") from None
    if step.expect is not None:
        _check_expect(index, step.expect)
    return step


def _check_expect(index: int, expect: Expect) -> None:
    named = expect.role is not None
    if sum((expect.text is not None, expect.url is not None, expect.gone is not None, named)) != 1:
        raise UsageError(f"playbook step {index}: expect exactly one of text, url, gone, or role with name")
    if expect.name is not None and not named:
        raise UsageError(f"playbook step {index}: name goes with role")


def _check_order(steps: Sequence[Step]) -> None:
    finishes = [index for index, step in enumerate(steps) if step.finish is not None]
    if finishes != [len(steps) - 1]:
        raise UsageError("a playbook ends with its one finish step")


def expect_call(step: Step) -> tuple[str, dict[str, Any]]:
    """The tool call that an `expect` step stands for: (tool name, arguments)."""
    expect = step.expect
    if expect is None:
        raise ValueError("not an expect step")
    args: dict[str, Any]
    if expect.text is not None:
        args = {"until": "text", "text": expect.text}
    elif expect.url is not None:
        args = {"until": "url", "url": expect.url}
    elif expect.gone is not None:
        args = {"until": "gone", "text": expect.gone}
    else:
        target = {"role": expect.role} | ({"name": expect.name} if expect.name is not None else {})
        args = {"until": "visible", "target": target}
    if step.timeout_ms is not None:
        args["timeout_ms"] = step.timeout_ms
    return "browser_page_wait", args
