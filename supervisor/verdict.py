"""How a task's end becomes its one result (design 4), and the second look at what customs let through (design 2, rule 3).

Invariants: the result is at most 16 KiB of JSON; it names our own task id; of artifacts it holds what the bridge
resolved, never a path the worker could have written; a required deliverable that is missing or not delivered makes a
completed task `partial`.

Pure: values in, a BrowserDelegateResult out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import msgspec

from ..protocol import limits as L
from ..protocol.answers import AnswerSchema
from ..protocol.errors import BlockerCode, PeerViolation, ToolErrorCode
from ..protocol.frames import TaskFinished
from ..protocol.policies import answer_missing, answer_wrong, is_named, missing_text, plain_texts
from ..protocol.results import (
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
from .messages import BLOCKERS, TOOLS, VERDICTS, Sentence

_HEX64: Final = re.compile(r"[0-9a-f]{64}")
_ID: Final = re.compile(r"[a-z]{1,8}[-_][a-z2-7]{4,32}")
_MEDIA: Final = re.compile(r"[a-z]+/[a-z0-9.+-]+(?:; ?charset=utf-8)?")
_DENIED: Final = frozenset({ToolErrorCode.POLICY_DENIED, ToolErrorCode.RESTRICTED_PAGE})
# How a wait says that its condition did not come true.
_UNMET: Final = frozenset({ToolErrorCode.TIMEOUT, ToolErrorCode.NOT_FOUND, ToolErrorCode.NOT_VISIBLE})
_EXECUTION: Final = frozenset({Status.COMPLETED, Status.NEEDS_USER_INPUT, Status.BLOCKED, Status.FAILED})


class Promises(Protocol):
    """What of a task's plan (`task_events.TaskPlan`) a result has to keep."""

    @property
    def answer(self) -> AnswerSchema | None: ...

    @property
    def policy(self) -> Policy: ...

    @property
    def deliverables(self) -> tuple[Deliverable, ...]: ...

    @property
    def start_url(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a task ended without a result of its own. `sentence` None: the code's."""

    code: BlockerCode
    sentence: Sentence | None = None


def encoded_size(result: BrowserDelegateResult) -> int:
    """Bytes of its JSON."""
    return len(msgspec.json.encode(result))


def accept(frame: TaskFinished, task: str) -> BrowserDelegateResult:
    """The result as far as it may come from the bridge. Raises PeerViolation: bounds broken, a foreign task, paths."""
    result = frame.result
    if result.task_id != task or frame.task != task:
        raise PeerViolation("a result names another task")
    if result.execution_status not in _EXECUTION:
        raise PeerViolation("a result has an execution status that no execution has")
    if result.deliveries or len(result.artifacts) > L.MAX_CLAIMS:
        raise PeerViolation("a result holds deliveries or too many artifacts")
    for artifact in result.artifacts:
        check_artifact(artifact)
    long_text = any(len(text) > L.MAX_ACTION_CHARS for text in result.completed_actions)
    long_question = any(
        len(text or "") > L.MAX_QUESTION_CHARS for text in (result.question, result.next_step)
    )
    if long_text or long_question or len(result.completed_actions) > L.MAX_ACTIONS:
        raise PeerViolation("a result's text is over its bound")
    if encoded_size(result) > L.MAX_RESULT_BYTES:
        raise PeerViolation("a result is over 16 KiB")
    return result


def check_promises(result: BrowserDelegateResult, plan: Promises) -> None:
    """Raises PeerViolation unless the answer follows the host's schema and, without free text, no text is a page's.

    The bridge's customs have seen to both; this is the second look.
    """
    given = result.answer
    if given is not None:
        schema = plan.answer
        if schema is None:
            raise PeerViolation("a result holds an answer that was not asked for")
        fields = {field.name: field for field in schema.fields}
        if not all(name in fields and fields[name].holds(value) for name, value in given.items()):
            raise PeerViolation("a result's answer breaks its schema")
    complete = result.status is Status.COMPLETED and plan.answer is not None
    if complete and plan.answer is not None and plan.answer.problems(given or {}):
        raise PeerViolation("a completed result lacks an answer")
    if plan.policy.free_text is FreeText.NONE:
        _check_plain(result, plan)


def _check_plain(result: BrowserDelegateResult, plan: Promises) -> None:
    texts = plain_texts(result.execution_status)
    unmet = {missing_text(item.purpose, item.kind) for item in plan.deliverables}
    for field in plan.answer.fields if plan.answer is not None else ():
        unmet |= {answer_missing(field.name), answer_wrong(field.name)}
    purposes = {item.purpose for item in plan.deliverables}
    plain = (
        result.summary == texts.summary
        and result.question == texts.question
        and result.next_step is None
        and not result.completed_actions
        and set(result.unmet_requirements) <= unmet
        and all(artifact.purpose in purposes for artifact in result.artifacts)
        and (result.current_url is None or is_named(result.current_url, plan.policy, plan.start_url or ""))
    )
    if not plain:
        raise PeerViolation("a result holds text where the policy allows none")


def with_blocker(
    result: BrowserDelegateResult, planner: PlannerKind, tool: str, code: ToolErrorCode | None
) -> BrowserDelegateResult:
    """A blocked task's code and the next step of a blocked or failed one, from how its newest call ended.

    `tool`, `code`: of that call; `code` None if it went well.

    The call is the bridge's word, not the worker's; a worker that claims to be blocked names no code itself.
    """
    if result.execution_status not in (Status.BLOCKED, Status.FAILED) or result.blocker_code is not None:
        return result
    blocked = result.execution_status is Status.BLOCKED
    blocker: BlockerCode | None = None
    if blocked and code in _DENIED:
        blocker = BlockerCode.POLICY_DENIED
    elif blocked and planner is PlannerKind.PLAYBOOK and tool == "browser_page_wait" and code in _UNMET:
        blocker = BlockerCode.EXPECTATION_FAILED
    next_step = result.next_step
    if next_step is None and blocker is not None:
        next_step = BLOCKERS[blocker].next_step
    elif next_step is None and code is not None:
        next_step = TOOLS[code]
    return msgspec.structs.replace(result, blocker_code=blocker, next_step=next_step)


def check_artifact(artifact: ResolvedArtifact) -> None:
    """Raises PeerViolation unless every field has the shape of its kind (ids, hash, type: no room for text)."""
    good = (
        _ID.fullmatch(artifact.artifact_id) is not None
        and _HEX64.fullmatch(artifact.sha256) is not None
        and _MEDIA.fullmatch(artifact.media_type) is not None
        and 0 <= artifact.size <= L.ARTIFACT_TASK_QUOTA
        and len(artifact.purpose) <= L.MAX_PURPOSE_CHARS
    )
    if not good:
        raise PeerViolation("a result holds a malformed artifact")


@dataclass(frozen=True, slots=True)
class Wanted:
    """One delivery to make, or an artifact that is only granted (`path` "")."""

    artifact: ResolvedArtifact
    path: str
    required: bool


def match(deliverables: Sequence[Deliverable], artifacts: Sequence[ResolvedArtifact]) -> tuple[Wanted, ...]:
    """Every artifact once: the newest claimed for a deliverable's purpose and kind goes to its path."""
    chosen: dict[str, Deliverable] = {}
    for deliverable in deliverables:
        fitting = [a for a in artifacts if a.purpose == deliverable.purpose and a.kind is deliverable.kind]
        if fitting and fitting[-1].artifact_id not in chosen:
            chosen[fitting[-1].artifact_id] = deliverable
    unique = {artifact.artifact_id: artifact for artifact in artifacts}
    return tuple(
        Wanted(
            artifact,
            (chosen[key].path or "") if key in chosen else "",
            key in chosen and chosen[key].required,
        )
        for key, artifact in unique.items()
    )


def refused(task: str, cause: Cause, *, usage: Usage | None = None) -> BrowserDelegateResult:
    """A delegation that never ran."""
    return conclude(task, None, cause, SideEffects.NONE, (), (), usage or Usage())


def conclude(
    task: str,
    own: BrowserDelegateResult | None,
    cause: Cause | None,
    side_effects: SideEffects,
    deliverables: Sequence[Deliverable],
    deliveries: Sequence[Delivery],
    usage: Usage,
) -> BrowserDelegateResult:
    """The one result. `own`: what customs let through, used if there is no `cause`."""
    if cause is not None or own is None:
        return _without_own(
            task, cause or Cause(BlockerCode.WORKER_CRASHED), side_effects, deliverables, usage
        )
    unmet = list(own.unmet_requirements)
    delivered = {(item.purpose, item.path) for item in deliveries if item.delivered}
    missing = False
    with_path = failed = 0
    for wanted in deliverables:
        present = any(a.purpose == wanted.purpose and a.kind is wanted.kind for a in own.artifacts)
        arrived = wanted.path is None or (wanted.purpose, wanted.path) in delivered
        if wanted.path is not None and (present or wanted.required):
            with_path += 1
            failed += not arrived
        if wanted.required and not (present and arrived):
            missing = True
            # Customs say of a missing one the same in the same words, so it is told once.
            fault = "was not delivered" if present else "is missing"
            unmet.append(f"deliverable {wanted.purpose} ({wanted.kind.value}) {fault}")
    status = own.execution_status
    # Customs call it partial for a required field of a typed answer as well, which nothing here could tell.
    if (missing or own.status is Status.PARTIAL) and status is Status.COMPLETED:
        status = Status.PARTIAL
    result = msgspec.structs.replace(
        own,
        task_id=task,
        status=status,
        delivery_status=_delivery_status(with_path, failed),
        deliveries=tuple(deliveries),
        side_effects=side_effects,
        unmet_requirements=tuple(dict.fromkeys(unmet))[: L.MAX_UNMET],
        usage=usage,
    )
    return _bounded(result)


def _delivery_status(with_path: int, failed: int) -> DeliveryStatus:
    if not with_path:
        return DeliveryStatus.NOT_REQUESTED
    if not failed:
        return DeliveryStatus.COMPLETED
    return DeliveryStatus.FAILED if failed == with_path else DeliveryStatus.PARTIAL


def _without_own(
    task: str, cause: Cause, side_effects: SideEffects, deliverables: Sequence[Deliverable], usage: Usage
) -> BrowserDelegateResult:
    verdict = VERDICTS[cause.code]
    sentence = cause.sentence or BLOCKERS[cause.code]
    paths = sum(1 for item in deliverables if item.path is not None)
    return BrowserDelegateResult(
        task_id=task,
        status=verdict.status,
        execution_status=verdict.status,
        delivery_status=_delivery_status(paths, paths),
        summary=sentence.happened + ".",
        next_step=sentence.next_step or None,
        side_effects=side_effects,
        retryable=verdict.retryable,
        blocker_code=cause.code,
        usage=usage,
    )


def _bounded(result: BrowserDelegateResult) -> BrowserDelegateResult:
    """Deliveries may push a full result over 16 KiB: the text gives way, never an id or a delivery."""
    if encoded_size(result) <= L.MAX_RESULT_BYTES:
        return result
    result = msgspec.structs.replace(result, completed_actions=())
    over = encoded_size(result) - L.MAX_RESULT_BYTES
    if over <= 0:
        return result
    # Cutting as many characters as bytes are over is always enough: a character has at least one byte.
    result = msgspec.structs.replace(result, summary=result.summary[: max(len(result.summary) - over, 0)])
    if encoded_size(result) <= L.MAX_RESULT_BYTES:
        return result
    return msgspec.structs.replace(result, summary="", question=None, next_step=None, current_url=None)
