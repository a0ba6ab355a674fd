"""How an end becomes the one result, and what is refused from customs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from browsercell.protocol import limits as L
from browsercell.protocol.answers import AnswerSchema, parse
from browsercell.protocol.errors import BlockerCode, PeerViolation, ToolErrorCode
from browsercell.protocol.frames import TaskFinished
from browsercell.protocol.policies import plain_texts
from browsercell.protocol.results import (
    ArtifactKind,
    BrowserDelegateResult,
    Deliverable,
    Delivery,
    DeliveryStatus,
    FreeText,
    PlannerKind,
    Policy,
    ResolvedArtifact,
    SideEffects,
    Status,
    Usage,
)
from browsercell.supervisor.messages import BLOCKERS, TOOLS, VERDICTS, Sentence
from browsercell.supervisor.verdict import (
    Cause,
    Wanted,
    accept,
    check_promises,
    conclude,
    encoded_size,
    match,
    refused,
    with_blocker,
)

TASK = "t_" + "a" * 26
ARTIFACT = ResolvedArtifact(
    "a_" + "b" * 26, "prices", ArtifactKind.TABLE, 17, "0" * 64, "text/csv; charset=utf-8"
)
OTHER = msgspec.structs.replace(ARTIFACT, artifact_id="a_" + "c" * 26)
TABLE = Deliverable("prices", ArtifactKind.TABLE, True, "out.csv")


def own(**changes: Any) -> BrowserDelegateResult:
    made = BrowserDelegateResult(
        task_id=TASK,
        status=Status.COMPLETED,
        execution_status=Status.COMPLETED,
        summary="Done",
        untrusted=True,
    )
    return msgspec.structs.replace(made, **changes)


def end(
    result: BrowserDelegateResult | None,
    deliverables: tuple[Deliverable, ...] = (),
    deliveries: tuple[Delivery, ...] = (),
    cause: Cause | None = None,
) -> BrowserDelegateResult:
    return conclude(TASK, result, cause, SideEffects.NONE, deliverables, deliveries, Usage(seconds=1.0))


def delivered(path: str = "out.csv", ok: bool = True) -> Delivery:
    return Delivery(ARTIFACT.artifact_id, "prices", path, ok)


def test_a_good_result_is_accepted_whole() -> None:
    result = own(artifacts=(ARTIFACT,), completed_actions=("a",), question="q", next_step="n")
    assert accept(TaskFinished(TASK, 1, result), TASK) == result


@pytest.mark.parametrize(
    "changes",
    [
        {"task_id": "t_" + "z" * 26},
        {"execution_status": Status.PARTIAL},
        {"deliveries": (delivered(),)},
        {"artifacts": (ARTIFACT,) * (L.MAX_CLAIMS + 1)},
        {"artifacts": (msgspec.structs.replace(ARTIFACT, artifact_id="<b>hi</b>"),)},
        {"artifacts": (msgspec.structs.replace(ARTIFACT, sha256="short"),)},
        {"artifacts": (msgspec.structs.replace(ARTIFACT, media_type="a page's words"),)},
        {"artifacts": (msgspec.structs.replace(ARTIFACT, size=-1),)},
        {"artifacts": (msgspec.structs.replace(ARTIFACT, size=L.ARTIFACT_TASK_QUOTA + 1),)},
        {"artifacts": (msgspec.structs.replace(ARTIFACT, purpose="p" * 65),)},
        {"completed_actions": ("x" * (L.MAX_ACTION_CHARS + 1),)},
        {"completed_actions": ("x",) * (L.MAX_ACTIONS + 1)},
        {"question": "x" * (L.MAX_QUESTION_CHARS + 1)},
        {"next_step": "x" * (L.MAX_QUESTION_CHARS + 1)},
        {"summary": "界" * 4000, "current_url": "http://a/" + "界" * 3000},
    ],
)
def test_a_result_no_honest_bridge_sends_is_a_violation(changes: dict[str, Any]) -> None:
    with pytest.raises(PeerViolation):
        accept(TaskFinished(TASK, 1, own(**changes)), TASK)


def test_a_frame_for_another_task_is_a_violation() -> None:
    with pytest.raises(PeerViolation):
        accept(TaskFinished("t_" + "z" * 26, 1, own()), TASK)


def test_the_newest_artifact_of_a_purpose_and_kind_goes_to_its_path_and_the_others_are_granted() -> None:
    assert match([TABLE], [ARTIFACT, OTHER]) == (Wanted(ARTIFACT, "", False), Wanted(OTHER, "out.csv", True))


def test_an_artifact_of_another_kind_is_not_delivered_for_the_purpose() -> None:
    shot = msgspec.structs.replace(ARTIFACT, kind=ArtifactKind.SCREENSHOT)
    assert match([TABLE], [shot]) == (Wanted(shot, "", False),)


def test_a_pathless_deliverable_and_a_repeated_artifact_are_granted_once() -> None:
    wanted = Deliverable("prices", ArtifactKind.TABLE)
    assert match([wanted, wanted], [ARTIFACT, ARTIFACT]) == (Wanted(ARTIFACT, "", True),)


def test_all_delivered_is_completed() -> None:
    result = end(own(artifacts=(ARTIFACT,)), (TABLE,), (delivered(),))
    assert (result.status, result.delivery_status) == (Status.COMPLETED, DeliveryStatus.COMPLETED)
    assert result.usage.seconds == 1.0


@pytest.mark.parametrize(
    ("artifacts", "deliveries", "unmet"),
    [
        ((), (), "deliverable prices (table) is missing"),
        ((ARTIFACT,), (delivered(ok=False),), "deliverable prices (table) was not delivered"),
    ],
)
def test_a_required_deliverable_that_is_missing_or_fails_makes_it_partial(
    artifacts: tuple[ResolvedArtifact, ...], deliveries: tuple[Delivery, ...], unmet: str
) -> None:
    result = end(own(artifacts=artifacts), (TABLE,), deliveries)
    assert (result.status, result.execution_status) == (Status.PARTIAL, Status.COMPLETED)
    assert result.delivery_status is DeliveryStatus.FAILED
    assert result.unmet_requirements == (unmet,)


def test_what_customs_missed_already_is_told_once() -> None:
    customs = ("deliverable prices (table) is missing", "the tax")  # the bridge's own words
    result = end(own(status=Status.PARTIAL, unmet_requirements=customs), (TABLE,))
    assert result.unmet_requirements == ("deliverable prices (table) is missing", "the tax")


def test_an_optional_deliverable_that_was_not_made_costs_nothing() -> None:
    result = end(own(), (Deliverable("shot", ArtifactKind.SCREENSHOT, False, "a.png"),))
    assert (result.status, result.delivery_status) == (Status.COMPLETED, DeliveryStatus.NOT_REQUESTED)


def test_some_delivered_is_a_partial_delivery() -> None:
    both = (TABLE, Deliverable("more", ArtifactKind.TABLE, True, "more.csv"))
    more = msgspec.structs.replace(OTHER, purpose="more")
    result = end(own(artifacts=(ARTIFACT, more)), both, (delivered(),))
    assert (result.status, result.delivery_status) == (Status.PARTIAL, DeliveryStatus.PARTIAL)


def test_a_blocked_execution_stays_blocked_whatever_is_missing() -> None:
    result = end(own(status=Status.BLOCKED, execution_status=Status.BLOCKED), (TABLE,))
    assert result.status is Status.BLOCKED


@pytest.mark.parametrize("code", list(BlockerCode))
def test_a_cause_gives_the_status_of_its_code_and_hides_the_workers_words(code: BlockerCode) -> None:
    result = end(own(summary="page words"), (TABLE,), cause=Cause(code))
    assert (result.status, result.retryable) == VERDICTS[code]
    assert result.blocker_code is code
    assert "page words" not in result.summary
    assert result.summary == BLOCKERS[code].happened + "."
    assert result.delivery_status is DeliveryStatus.FAILED
    assert not result.untrusted


def test_a_cause_may_have_a_sentence_of_its_own() -> None:
    result = refused(
        TASK, Cause(BlockerCode.INVALID_REQUEST, Sentence("The thing is odd", "")), usage=Usage(steps=1)
    )
    assert (result.summary, result.next_step, result.usage.steps) == ("The thing is odd.", None, 1)


def test_no_result_and_no_cause_is_a_crash() -> None:
    assert end(None).blocker_code is BlockerCode.WORKER_CRASHED


FULL = {"summary": "s" * 4000, "current_url": "http://a/" + "u" * 4000}


@pytest.mark.parametrize(
    ("changes", "messages", "kept"),
    [
        ({**FULL, "completed_actions": ("x" * 200,) * 28}, 250, {"summary": 4000}),
        ({**FULL, "completed_actions": ("x" * 200,) * 20}, 900, {"current_url": 4009}),
        ({**FULL, "question": "q" * 1000}, 1300, {}),
    ],
)
def test_deliveries_never_push_a_result_over_its_bound_and_are_never_what_gives_way(
    changes: dict[str, Any], messages: int, kept: dict[str, int]
) -> None:
    deliveries = tuple(
        msgspec.structs.replace(delivered(f"{n}.csv", False), message="m" * messages) for n in range(10)
    )
    result = end(own(artifacts=(ARTIFACT,) * 2, **changes), (TABLE,), deliveries)
    assert encoded_size(result) <= L.MAX_RESULT_BYTES
    assert result.deliveries == deliveries
    for name, length in kept.items():
        assert len(getattr(result, name)) == length


@pytest.mark.parametrize(
    ("planner", "tool", "code", "blocker"),
    [
        (
            PlannerKind.PLAYBOOK,
            "browser_page_navigate",
            ToolErrorCode.POLICY_DENIED,
            BlockerCode.POLICY_DENIED,
        ),
        (PlannerKind.LLM, "browser_page_click", ToolErrorCode.RESTRICTED_PAGE, BlockerCode.POLICY_DENIED),
        (PlannerKind.PLAYBOOK, "browser_page_wait", ToolErrorCode.TIMEOUT, BlockerCode.EXPECTATION_FAILED),
        (PlannerKind.PLAYBOOK, "browser_page_click", ToolErrorCode.TIMEOUT, None),
        (PlannerKind.LLM, "browser_page_wait", ToolErrorCode.TIMEOUT, None),
        (PlannerKind.PLAYBOOK, "browser_page_wait", None, None),
    ],
)
def test_a_blocked_task_gets_its_code_from_its_newest_call(
    planner: PlannerKind, tool: str, code: ToolErrorCode | None, blocker: BlockerCode | None
) -> None:
    made = with_blocker(own(execution_status=Status.BLOCKED), planner, tool, code)
    assert made.blocker_code is blocker
    told = None if code is None else TOOLS[code]
    assert made.next_step == (told if blocker is None else BLOCKERS[blocker].next_step)


@pytest.mark.parametrize("status", [Status.BLOCKED, Status.FAILED])
@pytest.mark.parametrize("code", list(ToolErrorCode))
def test_an_end_by_a_failing_call_always_has_a_next_step(status: Status, code: ToolErrorCode) -> None:
    made = with_blocker(own(execution_status=status), PlannerKind.PLAYBOOK, "browser_page_navigate", code)
    assert made.next_step
    assert made.blocker_code is None or status is Status.BLOCKED
    again = own(execution_status=status, next_step="Ask the owner")
    assert with_blocker(again, PlannerKind.LLM, "browser_page_click", code).next_step == "Ask the owner"


def test_only_a_blocked_task_gets_a_code_and_its_own_next_step_stays() -> None:
    denied = ("browser_page_navigate", ToolErrorCode.POLICY_DENIED)
    assert with_blocker(own(), PlannerKind.LLM, *denied) == own()
    asked = own(execution_status=Status.BLOCKED, next_step="Ask the owner")
    assert with_blocker(asked, PlannerKind.LLM, *denied).next_step == "Ask the owner"
    coded = own(execution_status=Status.BLOCKED, blocker_code=BlockerCode.NO_PROGRESS)
    assert with_blocker(coded, PlannerKind.LLM, *denied) == coded


SCHEMA = parse({"type": "object", "properties": {"found": {"type": "boolean"}}, "required": ["found"]})
PLAIN = Policy(free_text=FreeText.NONE, origins=("https://shop.example",))


@dataclass(frozen=True)
class Plan:
    answer: AnswerSchema | None = SCHEMA
    policy: Policy = field(default_factory=Policy)
    deliverables: tuple[Deliverable, ...] = (TABLE,)
    start_url: str | None = None


def plain(**changes: Any) -> BrowserDelegateResult:
    made: dict[str, Any] = {"summary": plain_texts(Status.COMPLETED).summary, "answer": {"found": True}}
    return own(**(made | {"untrusted": False} | changes))


def test_an_answer_that_keeps_its_schema_is_accepted() -> None:
    check_promises(own(answer={"found": True}), Plan())
    check_promises(own(status=Status.PARTIAL), Plan())
    check_promises(own(), Plan(answer=None))


@pytest.mark.parametrize(
    ("changes", "schema"),
    [
        ({"answer": {"found": True}}, None),
        ({"answer": {"found": "PAGE"}}, SCHEMA),
        ({"answer": {"found": True, "other": 1}}, SCHEMA),
        ({}, SCHEMA),
    ],
)
def test_an_answer_that_breaks_its_schema_ends_the_bridge(
    changes: dict[str, Any], schema: AnswerSchema | None
) -> None:
    with pytest.raises(PeerViolation):
        check_promises(own(**changes), Plan(answer=schema))


def test_without_free_text_our_own_words_are_accepted() -> None:
    check_promises(plain(current_url="https://shop.example", artifacts=(ARTIFACT,)), Plan(policy=PLAIN))
    unmet = ("deliverable prices (table) is missing", "answer.found does not hold")
    check_promises(plain(status=Status.PARTIAL, answer=None, unmet_requirements=unmet), Plan(policy=PLAIN))
    check_promises(plain(answer=None), Plan(answer=None, policy=PLAIN))


@pytest.mark.parametrize(
    "changes",
    [
        {"summary": "PAGE"},
        {"question": "PAGE"},
        {"next_step": "PAGE"},
        {"completed_actions": ("PAGE",)},
        {"unmet_requirements": ("PAGE",)},
        {"artifacts": (msgspec.structs.replace(ARTIFACT, purpose="PAGE"),)},
        {"current_url": "https://shop.example/PAGE"},
        {"current_url": "https://page.example"},
    ],
)
def test_without_free_text_any_other_word_ends_the_bridge(changes: dict[str, Any]) -> None:
    with pytest.raises(PeerViolation):
        check_promises(plain(**changes), Plan(policy=PLAIN))


def test_a_lacking_answer_stays_partial_to_the_end() -> None:
    unmet = ("answer.found is missing",)
    result = end(own(status=Status.PARTIAL, unmet_requirements=unmet))
    assert (result.status, result.execution_status) == (Status.PARTIAL, Status.COMPLETED)
    assert result.unmet_requirements == unmet
