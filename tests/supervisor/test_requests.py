"""Which delegations are refused, for what reason, and what the others become."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from browsercell.protocol import limits as L
from browsercell.protocol.answers import encode_schema
from browsercell.protocol.codec import encode
from browsercell.protocol.errors import BlockerCode
from browsercell.protocol.frames import Assign
from browsercell.protocol.results import (
    Actions,
    ArtifactKind,
    Browser,
    DelegateRequest,
    Deliverable,
    FreeText,
    PlannerKind,
    Policy,
    TaskLimits,
)
from browsercell.supervisor import messages
from browsercell.supervisor.requests import Machine, assignment, plan, wanted
from browsercell.supervisor.settings import LimitSettings
from browsercell.supervisor.task_events import TaskPlan
from browsercell.supervisor.verdict import Cause

ALL = Machine(True, True, True, messages.MODEL[next(iter(messages.MODEL))], True)
FINISH = {"finish": {"status": "completed", "summary": "ok"}}


def steps(*items: Any) -> tuple[msgspec.Raw, ...]:
    return tuple(msgspec.Raw(json.dumps(item).encode()) for item in items)


def judge(machine: Machine = ALL, **fields: Any) -> TaskPlan | Cause:
    asked: dict[str, Any] = {"goal": "Find the price of tea"} | fields
    request = DelegateRequest(**asked)
    return plan(request, "t-" + "a" * 26, "s-aaaa", LimitSettings(), machine)


def code(machine: Machine = ALL, **fields: Any) -> BlockerCode:
    cause = judge(machine, **fields)
    assert isinstance(cause, Cause)
    return cause.code


TYPED = {
    "tool": "browser_page_type",
    "args": {"target": {"role": "textbox", "name": "A"}, "text": "password: hunter2"},
}


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"goal": "password: hunter2"}, "The goal"),
        ({"constraints": ("Be quick", "token=abcd1234")}, "constraints"),
        ({"url": "https://example.com/?token=abcd1234"}, "(url)"),
        ({"url": "https://example.com/#access_token=abcd1234"}, "(url)"),
        ({"variables": {"site": "x", "user_password": "hunter2"}}, "variable user_password"),
        ({"variables": {"note": "sk-proj-abcdefgh1234"}}, "variable note"),
        ({"variables": {"note": "password: hunter2"}, "playbook": steps(FINISH)}, "variable note"),
        ({"playbook": steps(TYPED, FINISH)}, "The playbook"),
    ],
)
def test_a_secret_is_refused_wherever_it_is_and_the_field_is_named(
    fields: dict[str, Any], named: str
) -> None:
    cause = judge(**fields)
    assert isinstance(cause, Cause)
    assert cause.code is BlockerCode.SECRET_IN_GOAL
    assert cause.sentence is not None
    assert named in cause.sentence.happened
    assert cause.sentence.next_step
    assert not any(value in cause.sentence.happened for value in ("hunter2", "abcd1234", "sk-proj"))


def test_ordinary_addresses_and_variables_are_no_secrets() -> None:
    look = {"tool": "browser_page_observe", "args": {"max_elements": 5}}
    planned = judge(
        url="https://example.com/search?q=token+ring&pageToken=CAUQAA&key=features",
        variables={"site": "https://example.com/", "keyword": "password reset", "token_count": "12"},
        playbook=steps(look, FINISH),
    )
    assert isinstance(planned, TaskPlan)


@pytest.mark.parametrize(
    "fields",
    [
        {"variables": {f"v{n}": "" for n in range(L.MAX_VARIABLES + 1)}},
        {"variables": {"not a word": ""}},
        {"url": "file:///etc/passwd"},
        {"url": "javascript:alert(1)"},
        {"url": "http://user:pw@example.com/"},
        {"url": "http://[broken/"},
        {"url": "http:///nohost"},
        {"url": "http://example.com/\n"},
        {"deliverables": (Deliverable("a", ArtifactKind.TEXT), Deliverable("a", ArtifactKind.LIST))},
        {"deliverables": (Deliverable("a", ArtifactKind.TEXT, path="x"), Deliverable("b", ArtifactKind.TEXT, path="x"))},
        {"playbook": steps({"tool": "no_such_tool"}, FINISH)},
        {"playbook": steps({"tool": "browser_tabs_list"})},
        {"playbook": (), "goal": "x"},
        {"playbook": steps({"tool": "browser_tabs_list"}, {"tool": "browser_tabs_list"}, FINISH), "limits": TaskLimits(tool_calls=1)},
        {"playbook": steps(FINISH), "variables": {f"v{n}": "x" * 4000 for n in range(17)}},
    ],
)  # fmt: skip
def test_what_can_not_be_carried_out_as_written_is_invalid(fields: dict[str, Any]) -> None:
    cause = judge(**fields)
    assert isinstance(cause, Cause)
    assert cause.code is BlockerCode.INVALID_REQUEST
    assert cause.sentence is not None
    assert cause.sentence.next_step


def test_a_refusal_names_the_fault_and_never_a_value() -> None:
    cause = judge(
        playbook=steps({"tool": "browser_page_type", "args": {"text": "topsecretvalue", "nope": 1}}, FINISH)
    )
    assert isinstance(cause, Cause)
    assert cause.sentence is not None
    assert "step 1" in cause.sentence.happened
    assert "topsecretvalue" not in cause.sentence.happened


def test_a_path_needs_a_working_directory() -> None:
    fields: dict[str, Any] = {"deliverables": (Deliverable("a", ArtifactKind.TEXT, path="x"),)}
    assert code(replace(ALL, directory=False), **fields) is BlockerCode.INVALID_REQUEST
    assert isinstance(judge(**fields), TaskPlan)


def test_without_a_model_only_playbooks_run() -> None:
    machine = replace(ALL, model=False)
    assert code(machine) is BlockerCode.MODEL_UNCONFIGURED
    assert isinstance(judge(machine, playbook=steps(FINISH)), TaskPlan)


@pytest.mark.parametrize(
    ("asked", "extension", "chromium", "got"),
    [
        (Browser.AUTO, True, True, Browser.CHROME),
        (Browser.AUTO, False, True, Browser.PRIVATE),
        (Browser.AUTO, False, False, messages.NO_CHROMIUM),
        (Browser.CHROME, True, False, Browser.CHROME),
        (Browser.CHROME, False, True, messages.NO_EXTENSION),
        (Browser.PRIVATE, True, True, Browser.PRIVATE),
        (Browser.PRIVATE, True, False, messages.NO_CHROMIUM),
    ],
)
def test_the_browser_is_resolved_or_the_task_refused_with_what_to_do(
    asked: Browser, extension: bool, chromium: bool, got: object
) -> None:
    planned = judge(replace(ALL, extension=extension, chromium=chromium), browser=asked)
    if isinstance(planned, Cause):
        assert (planned.code, planned.sentence) == (BlockerCode.BROWSER_UNAVAILABLE, got)
    else:
        assert planned.browser is got


def test_a_plan_keeps_paths_from_the_worker_and_fits_its_bound() -> None:
    deliverables = (Deliverable("a", ArtifactKind.TEXT, True, "secret/place.txt"),)
    planned = judge(
        url="https://example.com/", deliverables=deliverables, constraints=("c",), limits=TaskLimits(steps=3)
    )
    assert isinstance(planned, TaskPlan)
    made = assignment(planned)
    assert (made.steps, made.planner, made.start_url) == (3, PlannerKind.LLM, "https://example.com/")
    assert b"place.txt" not in encode(Assign("w-" + "a" * 26, made), L.MAX_FROM_SUPERVISOR)
    assert [item.purpose for item in wanted(planned)] == ["a"]


def test_a_playbook_plan_has_no_steps_and_its_playbook_as_bytes() -> None:
    planned = judge(playbook=steps({"tool": "browser_tabs_list"}, FINISH))
    assert isinstance(planned, TaskPlan)
    assert (planned.planner, planned.budget.steps) == (PlannerKind.PLAYBOOK, 0)
    assert planned.playbook is not None
    assert json.loads(planned.playbook)[1] == FINISH


FOUND = {"type": "object", "properties": {"found": {"type": "boolean"}}, "required": ["found"]}
NOTE = {"type": "object", "properties": {"note": {"type": "string", "maxLength": 9}}}


def finish(status: str = "completed", **more: Any) -> dict[str, Any]:
    return {"finish": {"status": status, "summary": "ok"} | more}


def test_a_typed_answer_and_a_policy_reach_everybody_who_has_to_know() -> None:
    policy = Policy(origins=("https://shop.example",), actions=Actions.READ, free_text=FreeText.NONE)
    made = judge(answer=FOUND, policy=policy)
    assert isinstance(made, TaskPlan)
    assert made.answer is not None
    assert assignment(made).answer == encode_schema(made.answer)
    assert (made.policy, assignment(made).policy) == (policy, policy)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"answer": {"type": "array"}}, "The answer schema is a JSON Schema"),
        ({"answer": NOTE, "policy": Policy(free_text=FreeText.NONE)}, "has free text"),
        ({"policy": Policy(origins=("shop.example",))}, "An origin of the policy"),
        ({"playbook": steps(finish(answer={"found": True}))}, "was not asked for"),
        ({"answer": FOUND, "playbook": steps(finish())}, "finish answer.found is missing"),
        (
            {"answer": FOUND, "playbook": steps(finish("failed", answer={"found": 3}))},
            "finish answer.found is not",
        ),
    ],
)
def test_an_answer_that_can_not_be_given_is_refused_before_anything_runs(
    fields: dict[str, Any], said: str
) -> None:
    cause = judge(**fields)
    assert isinstance(cause, Cause)
    assert cause.code is BlockerCode.INVALID_REQUEST
    assert cause.sentence is not None
    assert said in cause.sentence.happened
    assert cause.sentence.next_step


def test_a_playbook_may_give_the_answer_that_was_asked_for() -> None:
    assert isinstance(judge(answer=FOUND, playbook=steps(finish(answer={"found": True}))), TaskPlan)
    assert isinstance(judge(answer=FOUND, playbook=steps(finish("blocked"))), TaskPlan)


def test_a_secret_in_the_schema_is_refused() -> None:
    noted = {"type": "object", "properties": {"x": {"type": "boolean", "description": "password: hunter2"}}}
    assert code(answer=noted) is BlockerCode.SECRET_IN_GOAL
