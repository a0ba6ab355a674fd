"""The playbook planner: steps in order, targets waited for once, honest ends."""

from __future__ import annotations

import json
from typing import Any

import pytest
from browsercell.protocol import limits as L
from browsercell.protocol.errors import LocalMisuse, ToolErrorCode
from browsercell.protocol.results import ArtifactClaim, ClaimStatus, PlannerKind, ResultClaim
from browsercell.worker.planners import make
from browsercell.worker.planners.base import Action, Begin, CallTool, Conclude, Settled, Thought
from browsercell.worker.planners.playbook import OUTCOME, TARGET_WAIT_MS, UNMET, PlaybookPlanner

from tests.worker.builders import BOUNDARY, assignment, bad, chat_call, inference, ok

NAVIGATE = {"tool": "browser_page_navigate", "args": {"url": "${site}/search"}}
TYPE = {
    "tool": "browser_page_type",
    "args": {"target": {"role": "searchbox", "name": "Search"}, "text": "tea"},
}
EXPECT = {"expect": {"text": "results"}}
SHOT = {"tool": "browser_page_screenshot", "args": {}, "purpose": "picture"}
FINISH = {"finish": {"status": "completed", "summary": "Done", "question": "Sure?", "next_step": "Pay"}}
LEFT = 20


class Run:
    """Feeds one planner with a playbook."""

    def __init__(self, *steps: Any, **fields: Any) -> None:
        fields.setdefault("variables", {"site": "https://shop.example"})
        self.planner = make(assignment(PlannerKind.PLAYBOOK, playbook=list(steps), **fields))
        assert isinstance(self.planner, PlaybookPlanner)

    def begin(self) -> Action:
        return self.planner.handle(Begin(), BOUNDARY)

    def settled(self, result: Any) -> Action:
        return self.planner.handle(Settled(result), BOUNDARY)


def call(action: Action) -> tuple[str, Any]:
    assert isinstance(action, CallTool)
    return action.tool, json.loads(action.args)


def claim(action: Action) -> ResultClaim:
    assert isinstance(action, Conclude)
    return action.claim


def test_steps_run_in_order_and_the_claim_holds_what_they_made() -> None:
    run = Run(NAVIGATE, TYPE, EXPECT, SHOT, FINISH)
    assert call(run.begin()) == ("browser_page_navigate", {"url": "https://shop.example/search"})
    assert call(run.settled(ok())) == ("browser_page_type", TYPE["args"])
    assert call(run.settled(ok())) == ("browser_page_wait", {"until": "text", "text": "results"})
    assert call(run.settled(ok())) == ("browser_page_screenshot", {})
    assert claim(run.settled(ok(artifact="art-aaaa"))) == ResultClaim(
        status=ClaimStatus.COMPLETED,
        summary="Done",
        completed_actions=(
            "browser_page_navigate ok",
            "browser_page_type ok",
            "browser_page_wait ok",
            "browser_page_screenshot ok",
        ),
        question="Sure?",
        next_step="Pay",
        artifacts=(ArtifactClaim(artifact_id="art-aaaa", purpose="picture"),),
    )


def test_a_purpose_without_an_artifact_claims_nothing() -> None:
    run = Run(SHOT, FINISH)
    run.begin()
    assert claim(run.settled(ok())).artifacts == ()


def test_claims_and_actions_are_bounded() -> None:
    run = Run(*[SHOT] * L.MAX_TOOL_CALLS, FINISH, tool_calls=L.MAX_TOOL_CALLS)
    run.begin()
    for _ in range(L.MAX_TOOL_CALLS - 1):
        run.settled(ok(artifact="art-aaaa"))
    end = claim(run.settled(ok(artifact="art-aaaa")))
    assert len(end.artifacts) == L.MAX_CLAIMS
    assert len(end.completed_actions) == L.MAX_ACTIONS


def test_it_resumes_after_the_last_settled_step() -> None:
    assert call(Run(NAVIGATE, SHOT, FINISH, resume_at=1).begin())[0] == "browser_page_screenshot"
    assert claim(Run(NAVIGATE, FINISH, resume_at=1).begin()).status is ClaimStatus.COMPLETED
    end = claim(Run(NAVIGATE, FINISH, resume_at=2).begin())
    assert (end.status, end.summary) == (ClaimStatus.FAILED, "The playbook has no step left to resume at.")


@pytest.mark.parametrize(
    ("playbook", "fields"),
    [([NAVIGATE], {}), ([NAVIGATE, FINISH], {"variables": {}}), ([{"tool": "rm", "args": {}}, FINISH], {})],
)
def test_a_playbook_that_does_not_hold_ends_failed(playbook: list[Any], fields: dict[str, Any]) -> None:
    end = claim(Run(*playbook, **fields).begin())
    assert end.status is ClaimStatus.FAILED
    assert end.summary.startswith("The playbook can't be run: ")


def test_no_playbook_at_all_ends_failed() -> None:
    planner = make(assignment(PlannerKind.PLAYBOOK))
    assert claim(planner.handle(Begin(), BOUNDARY)).status is ClaimStatus.FAILED


def test_a_condition_that_does_not_come_true_blocks_and_is_named_by_kind() -> None:
    conditions = {
        "the expected text did not appear": {"text": "secret"},
        "the expected URL was not reached": {"url": "secret"},
        "the text did not go away": {"gone": "secret"},
        "the expected element did not appear": {"role": "button", "name": "secret"},
    }
    for words, condition in conditions.items():
        for code in UNMET:
            run = Run(NAVIGATE, {"expect": condition}, FINISH)
            run.begin()
            run.settled(ok())
            end = claim(run.settled(bad(code, "page words")))
            assert end.status is ClaimStatus.BLOCKED
            assert end.summary == f"Step 2: {words} within its time."
            assert end.completed_actions == ("browser_page_navigate ok",)


@pytest.mark.parametrize("code", list(ToolErrorCode))
def test_every_failure_ends_the_task_with_step_tool_and_code(code: ToolErrorCode) -> None:
    run = Run(SHOT, NAVIGATE, FINISH)
    run.begin()
    run.settled(ok(artifact="art-aaaa"))
    end = claim(run.settled(bad(code, "page words", may_have_effect=True)))
    assert end.status is OUTCOME[code]
    assert end.summary == f"Step 2: browser_page_navigate failed with {code}; it may have had an effect."
    assert end.artifacts == (ArtifactClaim(artifact_id="art-aaaa", purpose="picture"),)


def test_a_failure_without_a_code_is_an_internal_one() -> None:
    run = Run(EXPECT, FINISH)
    run.begin()
    end = claim(run.settled(bad(None)))
    assert (end.status, end.summary) == (
        ClaimStatus.FAILED,
        "Step 1: browser_page_wait failed with internal.",
    )


def test_every_code_has_an_outcome() -> None:
    assert set(OUTCOME) == set(ToolErrorCode)
    assert set(OUTCOME.values()) == {ClaimStatus.BLOCKED, ClaimStatus.FAILED}


def missing(**fields: Any) -> Any:
    return bad(ToolErrorCode.NOT_FOUND, left=fields.pop("left", LEFT), **fields)


def test_a_missing_target_is_waited_for_once_and_the_step_tried_again() -> None:
    run = Run(TYPE, FINISH)
    assert call(run.begin())[0] == "browser_page_type"
    wait = {"until": "visible", "target": TYPE["args"]["target"], "timeout_ms": TARGET_WAIT_MS}  # type: ignore[index]
    assert call(run.settled(missing())) == ("browser_page_wait", wait)
    assert call(run.settled(ok()))[0] == "browser_page_type"
    end = claim(run.settled(missing()))  # once only
    assert (end.status, end.summary) == (
        ClaimStatus.BLOCKED,
        "Step 1: browser_page_type failed with not-found.",
    )


def test_a_target_that_does_not_come_ends_with_the_steps_own_failure() -> None:
    run = Run(TYPE, FINISH)
    run.begin()
    run.settled(missing())
    end = claim(run.settled(bad(ToolErrorCode.TIMEOUT)))
    assert end.summary == "Step 1: browser_page_type failed with not-found."


def test_each_step_has_its_own_second_chance_in_its_own_tab() -> None:
    click = {"tool": "browser_page_click", "args": {"name": "Buy", "role": "button", "tab": "t2"}}
    run = Run(TYPE, click, FINISH)
    run.begin()
    run.settled(missing())
    run.settled(ok())
    assert call(run.settled(ok()))[0] == "browser_page_click"
    assert call(run.settled(missing())) == (
        "browser_page_wait",
        {
            "until": "visible",
            "target": {"role": "button", "name": "Buy"},
            "timeout_ms": TARGET_WAIT_MS,
            "tab": "t2",
        },
    )
    assert call(run.settled(ok()))[0] == "browser_page_click"
    assert claim(run.settled(ok())).completed_actions == ("browser_page_type ok", "browser_page_click ok")


@pytest.mark.parametrize(
    ("step", "result"),
    [
        (TYPE, bad(ToolErrorCode.AMBIGUOUS_TARGET, left=LEFT)),
        (TYPE, missing(may_have_effect=True)),
        (TYPE, missing(left=1)),  # the wait and the step again are two
        (NAVIGATE, missing()),
        ({"tool": "browser_page_click", "args": {"name": "Buy"}}, missing()),
        (
            {"tool": "browser_page_wait", "args": {"until": "visible", "target": {"role": "button"}}},
            missing(),
        ),
    ],
)
def test_no_second_chance(step: Any, result: Any) -> None:
    run = Run(step, FINISH)
    run.begin()
    assert claim(run.settled(result)).status is ClaimStatus.BLOCKED


def test_the_second_chance_leaves_the_rest_of_the_playbook_its_calls() -> None:
    for left, chance in ((3, False), (4, True)):
        run = Run(TYPE, EXPECT, SHOT, FINISH)
        run.begin()
        assert isinstance(run.settled(missing(left=left)), CallTool) is chance


def test_a_playbook_makes_no_inference() -> None:
    with pytest.raises(LocalMisuse):
        Run(FINISH).planner.handle(Thought(inference(chat_call("browser_status"))), BOUNDARY)


def test_the_finish_may_give_the_typed_answer() -> None:
    given = {"finish": {"status": "completed", "summary": "Done", "answer": {"found": True}}}
    assert claim(Run(given).begin()).answer == {"found": True}
