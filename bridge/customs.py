"""Customs: from what a worker claims to what may cross to the supervisor (design 7).

A claim is words and ids. The words are redacted and cut; the ids are looked up in the task's own tables, and what is
not found there, or was claimed for nothing the host wanted, or is of another kind than wanted, is dropped without a
word. A typed answer is taken field by field: one that does not hold is left out and named among the unmet requirements.
Everything else in the result comes from the bridge: URL, side effects, sizes, hashes, counts.

Invariants: nothing here raises for any claim the decoder lets through; the result encodes to at most `MAX_CLAIM_BYTES`
of JSON, which leaves room for the deliveries the supervisor adds within 16 KiB; a purpose in the result is the host's
own word; a wanted, required deliverable without an artifact, and a required field without a value, turn `completed` into
`partial` and are named among the unmet requirements; texts are cut before a result is ever lost. With free text `none`
every text is a constant of `protocol.policies`, and of the URL only the origin is told, and that only where the host
itself has named it: an attacker can choose the name of a host.

Pure: data in, data out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from ..protocol import limits as L
from ..protocol.answers import AnswerSchema, Kind
from ..protocol.frames import WantedDeliverable
from ..protocol.policies import answer_missing, answer_wrong, missing_text, plain_texts
from ..protocol.results import (
    AnswerValue,
    ArtifactClaim,
    BrowserDelegateResult,
    ClaimStatus,
    FreeText,
    Policy,
    ResolvedArtifact,
    ResultClaim,
    SideEffects,
    Status,
    Usage,
)
from .policy import named_origin
from .redaction import cut, redact_text, redact_url

# Ten deliveries of about 400 bytes each are added later (design 4: 16 KiB in all).
DELIVERY_RESERVE: Final = 4 * L.KIB
MAX_CLAIM_BYTES: Final = L.MAX_RESULT_BYTES - DELIVERY_RESERVE
# Texts shrink by a quarter at a time until the whole fits: from the longest bounds no more than 60 rounds.
_SHRINK: Final = 0.75
_LONG: Final = 200  # characters that every text keeps

_STATUS: Final[Mapping[ClaimStatus, Status]] = {
    ClaimStatus.COMPLETED: Status.COMPLETED,
    ClaimStatus.NEEDS_USER_INPUT: Status.NEEDS_USER_INPUT,
    ClaimStatus.BLOCKED: Status.BLOCKED,
    ClaimStatus.FAILED: Status.FAILED,
}


@dataclass(frozen=True, slots=True)
class Declaration:
    """What the bridge itself knows of the task. `kept`: the task's artifacts by id; `url`: of the page last seen."""

    task: str
    deliverables: tuple[WantedDeliverable, ...]
    kept: Mapping[str, ResolvedArtifact]
    url: str
    side_effects: SideEffects
    tool_calls: int
    answer: AnswerSchema | None = None
    policy: Policy = field(default_factory=Policy)
    start_url: str = ""


@dataclass(frozen=True, slots=True)
class Passed:
    """The result, and how many artifact claims were dropped."""

    result: BrowserDelegateResult
    dropped: int


def pass_through(claim: ResultClaim, declared: Declaration) -> Passed:
    """The whole of customs."""
    artifacts, dropped = _resolve(claim.artifacts, declared)
    answer, faults, lacking = _answer(claim, declared.answer)
    missing = [*_missing(declared.deliverables, artifacts), *faults]
    lacks = lacking or len(missing) > len(faults)
    if declared.policy.free_text is FreeText.NONE:
        return Passed(_plain(claim.status, declared, artifacts, answer, missing, lacks), dropped)
    unmet = (*missing, *_texts(claim.unmet_requirements, L.MAX_UNMET, L.MAX_ACTION_CHARS))[: L.MAX_UNMET]
    execution = _STATUS[claim.status]
    summary = redact_text(claim.summary, L.MAX_SUMMARY_CHARS)
    actions = _texts(claim.completed_actions, L.MAX_ACTIONS, L.MAX_ACTION_CHARS)
    question = redact_text(claim.question or "", L.MAX_QUESTION_CHARS) or None
    next_step = redact_text(claim.next_step or "", L.MAX_QUESTION_CHARS) or None
    result = BrowserDelegateResult(
        task_id=declared.task,
        status=_status(execution, lacks),
        execution_status=execution,
        summary=summary,
        answer=answer,
        current_url=redact_url(declared.url, L.MAX_URL_CHARS) or None,
        completed_actions=actions,
        needs_user_decision=execution is Status.NEEDS_USER_INPUT,
        question=question,
        next_step=next_step,
        artifacts=artifacts,
        side_effects=declared.side_effects,
        unmet_requirements=unmet,
        untrusted=bool(
            summary
            or actions
            or question
            or next_step
            or len(unmet) > len(missing)
            or _has_text(declared, answer)
        ),
        usage=Usage(tool_calls=declared.tool_calls),
    )
    return Passed(_fit(result), dropped)


def _plain(
    claimed: ClaimStatus,
    declared: Declaration,
    artifacts: tuple[ResolvedArtifact, ...],
    answer: dict[str, AnswerValue] | None,
    missing: list[str],
    lacks: bool,
) -> BrowserDelegateResult:
    """A result in which no text is the worker's or a page's."""
    execution = _STATUS[claimed]
    texts = plain_texts(execution)
    return BrowserDelegateResult(
        task_id=declared.task,
        status=_status(execution, lacks),
        execution_status=execution,
        summary=texts.summary,
        answer=answer,
        current_url=named_origin(declared.url, declared.policy, declared.start_url) or None,
        needs_user_decision=execution is Status.NEEDS_USER_INPUT,
        question=texts.question,
        artifacts=artifacts,
        side_effects=declared.side_effects,
        unmet_requirements=tuple(missing[: L.MAX_UNMET]),
        usage=Usage(tool_calls=declared.tool_calls),
    )


def _status(execution: Status, lacks: bool) -> Status:
    return Status.PARTIAL if lacks and execution is Status.COMPLETED else execution


def _answer(
    claim: ResultClaim, schema: AnswerSchema | None
) -> tuple[dict[str, AnswerValue] | None, list[str], bool]:
    """(the fields that hold, what is wrong with the others, whether a required one is lacking).

    An answer is owed only by a task that claims to be completed; without a schema nothing is let through.
    """
    if schema is None:
        return None, [], False
    given = {name: value for name, value in (claim.answer or {}).items() if value is not None}
    owed = claim.status is ClaimStatus.COMPLETED
    passed: dict[str, AnswerValue] = {}
    faults: list[str] = []
    lacking = False
    for wanted in schema.fields:
        if wanted.name not in given:
            if wanted.required and owed:
                faults.append(answer_missing(wanted.name))
                lacking = True
            continue
        value = wanted.read(given[wanted.name])
        if wanted.kind is Kind.TEXT and isinstance(value, str):
            value = redact_text(value, wanted.max_chars)
        if wanted.holds(value) and isinstance(value, bool | int | float | str):
            passed[wanted.name] = value
        else:
            faults.append(answer_wrong(wanted.name))
            lacking = lacking or (wanted.required and owed)
    return passed or None, faults, lacking


def _has_text(declared: Declaration, answer: dict[str, AnswerValue] | None) -> bool:
    texts = {one.name for one in declared.answer.fields if one.kind is Kind.TEXT} if declared.answer else ()
    return any(name in texts for name in answer or ())


def _resolve(
    claims: Iterable[ArtifactClaim], declared: Declaration
) -> tuple[tuple[ResolvedArtifact, ...], int]:
    """The first fitting artifact for each wanted purpose, in the order claimed."""
    wanted = {item.purpose: item.kind for item in declared.deliverables}
    met: dict[str, ResolvedArtifact] = {}
    dropped = 0
    for claim in claims:
        kept = declared.kept.get(claim.artifact_id)
        if kept is None or wanted.get(claim.purpose) is not kept.kind or claim.purpose in met:
            dropped += 1
            continue
        met[claim.purpose] = msgspec.structs.replace(kept, purpose=claim.purpose)
    return tuple(met.values()), dropped


def _missing(wanted: Iterable[WantedDeliverable], artifacts: Iterable[ResolvedArtifact]) -> list[str]:
    have = {artifact.purpose for artifact in artifacts}
    return [
        missing_text(item.purpose, item.kind) for item in wanted if item.required and item.purpose not in have
    ]


def _texts(items: Iterable[str], count: int, max_chars: int) -> tuple[str, ...]:
    out: list[str] = []
    for item in items:
        if len(out) == count:
            break
        text = redact_text(item, max_chars)
        if text:
            out.append(text)
    return tuple(out)


def encoded_size(result: BrowserDelegateResult) -> int:
    """Bytes of UTF-8 JSON, as the host gets it."""
    return len(msgspec.json.encode(result))


def _fit(result: BrowserDelegateResult) -> BrowserDelegateResult:
    """Shrink until the whole fits: actions, a long URL, the long texts (each keeps its start), unmet requirements."""
    while encoded_size(result) > MAX_CLAIM_BYTES:
        texts = (result.summary, result.question or "", result.next_step or "")
        if result.completed_actions:
            result = msgspec.structs.replace(result, completed_actions=result.completed_actions[:-1])
        elif len(result.current_url or "") > _LONG:
            result = msgspec.structs.replace(result, current_url=None)
        elif max(map(len, texts)) > _LONG:
            result = msgspec.structs.replace(
                result,
                summary=_shrunk(result.summary) or "",
                question=_shrunk(result.question),
                next_step=_shrunk(result.next_step),
            )
        elif result.unmet_requirements:
            result = msgspec.structs.replace(result, unmet_requirements=result.unmet_requirements[:-1])
        else:  # ten artifacts and three short texts fit by far: what is left is an answer of long texts
            result = msgspec.structs.replace(result, answer=_shrunk_answer(result.answer or {}))
    return result


def _shrunk_answer(answer: Mapping[str, AnswerValue]) -> dict[str, AnswerValue]:
    """Its longest text cut to three quarters; it still holds, because texts have no minimum."""
    longest = max(answer, key=lambda name: len(value) if isinstance(value := answer[name], str) else 0)
    return {
        name: cut(value, max(1, int(len(value) * _SHRINK)))
        if name == longest and isinstance(value, str)
        else value
        for name, value in answer.items()
    }


def _shrunk(text: str | None) -> str | None:
    return cut(text, max(_LONG, int(len(text) * _SHRINK))) if text else None
