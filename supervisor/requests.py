"""Is a delegation acceptable, and what is to be done for it: request -> TaskPlan or refusal (design 3).

Invariants: nothing has run when a request is refused; a refusal names the field and the fault, never a value; the
browser of a plan is never AUTO; the assignment of a plan fits into 64 KiB.

Pure: no clock, no file system. Paths of deliverables are judged by `delivery.probe` after this.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from ..protocol import answers, playbook
from ..protocol import limits as L
from ..protocol.answers import AnswerSchema, encode_schema
from ..protocol.errors import BlockerCode, UsageError
from ..protocol.frames import Assign, Assignment, WantedDeliverable
from ..protocol.policies import parse_origins
from ..protocol.results import Browser, ClaimStatus, DelegateRequest, FreeText, PlannerKind
from . import messages
from .budgets import Budget, effective
from .secret_words import address_has_secret, has_secret, variables_with_secret
from .settings import LimitSettings
from .task_events import TaskPlan
from .verdict import Cause

_VARIABLE_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")


@dataclass(frozen=True, slots=True)
class Machine:
    """What this supervisor can offer at the moment."""

    extension: bool  # one is connected in the user's Chrome
    chromium: bool  # an executable was found
    model: bool  # a model is configured
    model_sentence: messages.Sentence  # what to say if it is not
    directory: bool  # the session has a working directory


def plan(
    request: DelegateRequest, task: str, session: str, limits: LimitSettings, machine: Machine
) -> TaskPlan | Cause:
    """The plan of `request`, or why it is refused."""
    cause = _refusal(request, machine)
    if cause is not None:
        return cause
    schema = _answer(request)
    if isinstance(schema, Cause):
        return schema
    book = (
        b"[" + b",".join(bytes(step) for step in request.playbook) + b"]"
        if request.playbook is not None
        else None
    )
    budget = effective(request.limits, limits, playbook=book is not None)
    if book is not None:
        cause = _check_playbook(book, request, budget, schema)
        if cause is not None:
            return cause
    browser = _browser(request.browser, machine)
    if isinstance(browser, Cause):
        return browser
    made = TaskPlan(
        task=task,
        session=session,
        planner=PlannerKind.LLM if book is None else PlannerKind.PLAYBOOK,
        browser=browser,
        goal=request.goal,
        constraints=request.constraints,
        start_url=request.url,
        deliverables=request.deliverables,
        budget=budget,
        playbook=book,
        variables=dict(request.variables),
        answer=schema,
        policy=request.policy,
    )
    size = len(msgspec.msgpack.encode(Assign("w-aaaaaaaaaaaaaaaaaaaaaaaaaa", assignment(made))))
    if size > L.MAX_ASSIGNMENT:
        return Cause(BlockerCode.INVALID_REQUEST, messages.ASSIGNMENT_TOO_LARGE)
    return made


def wanted(made: TaskPlan) -> tuple[WantedDeliverable, ...]:
    """The deliverables without their paths."""
    return tuple(WantedDeliverable(item.purpose, item.kind, item.required) for item in made.deliverables)


def assignment(made: TaskPlan) -> Assignment:
    """What the worker is told."""
    return Assignment(
        task=made.task,
        generation=1,
        planner=made.planner,
        goal=made.goal,
        constraints=made.constraints,
        start_url=made.start_url,
        deliverables=wanted(made),
        steps=made.budget.steps,
        tool_calls=made.budget.tool_calls,
        playbook=made.playbook,
        variables=made.variables,
        answer=encode_schema(made.answer),
        policy=made.policy,
    )


def _secret(field: str) -> Cause:
    """`field`: where it is; never what it is."""
    known = messages.BLOCKERS[BlockerCode.SECRET_IN_GOAL]
    happened = f"{field} holds what looks like a password, token, API key or secret"
    return Cause(BlockerCode.SECRET_IN_GOAL, messages.Sentence(happened, known.next_step))


def _invalid(text: str, next_step: str) -> Cause:
    return Cause(BlockerCode.INVALID_REQUEST, messages.Sentence(text, next_step))


def _refusal(request: DelegateRequest, machine: Machine) -> Cause | None:
    if has_secret(request.goal):
        return _secret("The goal")
    if any(has_secret(text) for text in request.constraints):
        return _secret("A constraint (constraints)")
    if len(request.variables) > L.MAX_VARIABLES:
        return _invalid(f"There are more than {L.MAX_VARIABLES} variables", "Give fewer variables.")
    if not all(_VARIABLE_NAME.fullmatch(name) for name in request.variables):
        return _invalid(
            "A variable's name is not a word of letters, digits and _", "Name it like customer_id."
        )
    if request.url is not None and not _plain_url(request.url):
        return _invalid(
            "The start URL is not an http or https address without user name",
            "Give one like https://example.com/page, without user name and password.",
        )
    if request.url is not None and address_has_secret(request.url):
        return _secret("The start URL (url)")
    variable = variables_with_secret(request.variables)
    if variable is not None:
        return _secret(f"The variable {variable} (variables)")
    purposes = [item.purpose for item in request.deliverables]
    paths = [item.path for item in request.deliverables if item.path is not None]
    if len(set(purposes)) != len(purposes) or len(set(paths)) != len(paths):
        return _invalid(
            "Two deliverables have the same purpose or path",
            "Give each deliverable a purpose and a path of its own.",
        )
    if paths and not machine.directory:
        return Cause(BlockerCode.INVALID_REQUEST, messages.NO_DIRECTORY)
    if request.playbook is None and not machine.model:
        return Cause(BlockerCode.MODEL_UNCONFIGURED, machine.model_sentence)
    return None


def _answer(request: DelegateRequest) -> AnswerSchema | Cause | None:
    """The checked answer schema; the policy is judged with it, because one bounds the other."""
    try:
        schema = None if request.answer is None else answers.parse(request.answer)
        parse_origins(request.policy.origins)
    except UsageError as error:
        return _usage(error, "Correct it and delegate again.")
    if schema is None:
        return None
    if request.policy.free_text is FreeText.NONE and schema.free_text:
        return _invalid(
            "The answer schema has free text, and the policy allows none (freeText)",
            "Use boolean, integer, number, enum and date fields only, or allow free text.",
        )
    if any(has_secret(text) for text in _strings(schema.source)):
        return _secret("The answer schema (answer)")
    return schema


def _usage(error: UsageError, next_step: str) -> Cause:
    return _invalid(error.message[:1].upper() + error.message[1:], error.next_step or next_step)


def _check_playbook(
    book: bytes, request: DelegateRequest, budget: Budget, schema: AnswerSchema | None
) -> Cause | None:
    try:
        steps = playbook.parse(book, request.variables, budget.tool_calls)
    except UsageError as error:
        return _usage(error, "Correct the playbook and delegate again.")
    finish = steps[-1].finish
    given = None if finish is None else finish.answer
    if given is not None and schema is None:
        return _invalid("The playbook gives an answer that was not asked for", "Give its schema in answer.")
    owed = finish is not None and finish.status is ClaimStatus.COMPLETED
    if schema is not None and (owed or given is not None):
        problems = schema.problems(given or {})
        if problems:
            return _invalid(f"In the playbook's finish {problems[0]}", "Correct its answer, or the schema.")
    # As written, before variables are put in: literals are what a person may have typed a secret into.
    if any(has_secret(text) for text in _strings(msgspec.json.decode(book))):
        return _secret("The playbook")
    return None


def _browser(asked: Browser, machine: Machine) -> Browser | Cause:
    if asked == Browser.AUTO:
        asked = Browser.CHROME if machine.extension else Browser.PRIVATE
    if asked == Browser.CHROME and not machine.extension:
        return Cause(BlockerCode.BROWSER_UNAVAILABLE, messages.NO_EXTENSION)
    if asked == Browser.PRIVATE and not machine.chromium:
        return Cause(BlockerCode.BROWSER_UNAVAILABLE, messages.NO_CHROMIUM)
    return asked


def _plain_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return (
        parts.scheme in ("http", "https")
        and bool(parts.hostname)
        and "@" not in parts.netloc
        and url.isprintable()
    )


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _strings(item)
