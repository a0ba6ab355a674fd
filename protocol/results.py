"""What a host asks and what it gets back: the two ends of `browser_delegate_task` (design 3 and 4).

camelCase JSON towards hosts, snake_case in Python. All types are frozen and closed: an unknown field is
refused with its name. These types say nothing about policy; `supervisor` judges a request, the bridge's
customs make a result.

Pure: data only.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from . import limits as L
from .errors import BlockerCode


class Wire(Struct, frozen=True, forbid_unknown_fields=True, rename="camel", omit_defaults=True):
    """Base of everything a host reads or writes as JSON."""


class Browser(StrEnum):
    """Which browser a task runs in (design 3)."""

    AUTO = "auto"
    CHROME = "chrome"
    PRIVATE = "private"


class PlannerKind(StrEnum):
    """Who decides the next step inside the worker."""

    LLM = "llm"
    PLAYBOOK = "playbook"


class ArtifactKind(StrEnum):
    """What an artifact holds; `network-body` and `har` come with their tools."""

    SCREENSHOT = "screenshot"
    TEXT = "text"
    LIST = "list"
    TABLE = "table"
    LINKS = "links"
    ARTICLE = "article"
    LOCATOR = "locator"


Purpose = Annotated[
    str, Meta(min_length=1, max_length=L.MAX_PURPOSE_CHARS, pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._-]*$")
]


class Deliverable(Wire, frozen=True):
    """One file the host wants. `path` is relative to the session's working directory; the worker never sees it."""

    purpose: Purpose
    kind: ArtifactKind
    required: bool = True
    path: Annotated[str, Meta(min_length=1, max_length=L.MAX_PATH_CHARS)] | None = None


class TaskLimits(Wire, frozen=True):
    """Lower, never raise, the numbers of design 8. Absent: the configured ones."""

    steps: Annotated[int, Meta(ge=1, le=L.MAX_STEPS)] | None = None
    tool_calls: Annotated[int, Meta(ge=1, le=L.MAX_TOOL_CALLS)] | None = None
    seconds: Annotated[int, Meta(ge=1, le=L.MAX_SECONDS)] | None = None


class Actions(StrEnum):
    """`read`: nothing is clicked, typed, pressed or selected, and no form is sent. `interact`: all tools."""

    READ = "read"
    INTERACT = "interact"


class FreeText(StrEnum):
    """`none`: no text that a page may have written reaches the host (design 7)."""

    ALLOW = "allow"
    NONE = "none"


class Policy(Wire, frozen=True):
    """What the task may do, enforced in the bridge. `origins`: where pages may be, absent: wherever the network policy
    allows (protocol/policies.py says how one is written)."""

    origins: (
        Annotated[
            tuple[Annotated[str, Meta(min_length=8, max_length=L.MAX_ORIGIN_CHARS)], ...],
            Meta(min_length=1, max_length=L.MAX_ORIGINS),
        ]
        | None
    ) = None
    actions: Actions = Actions.INTERACT
    free_text: FreeText = FreeText.ALLOW


class DelegateRequest(Wire, frozen=True):
    """Input of `browser_delegate_task`.

    `playbook` is the parsed list of steps (protocol/playbook.py checks it); with it the playbook planner
    runs, without it the llm planner. `variables` replace `${name}` inside playbook strings. `answer` is a closed
    JSON-Schema subset (protocol/answers.py checks it) that the result's `answer` follows. A repeated
    `idempotency_key` gives the recorded result of the first delegation under it, never a second run.
    """

    goal: Annotated[str, Meta(min_length=1, max_length=L.MAX_GOAL_CHARS)]
    constraints: Annotated[
        tuple[Annotated[str, Meta(max_length=L.MAX_CONSTRAINT_CHARS)], ...],
        Meta(max_length=L.MAX_CONSTRAINTS),
    ] = ()
    url: Annotated[str, Meta(max_length=L.MAX_URL_CHARS)] | None = None
    browser: Browser = Browser.AUTO
    deliverables: Annotated[tuple[Deliverable, ...], Meta(max_length=L.MAX_DELIVERABLES)] = ()
    answer: dict[str, Any] | None = None
    policy: Policy = Policy()
    playbook: tuple[msgspec.Raw, ...] | None = None
    variables: dict[str, Annotated[str, Meta(max_length=L.MAX_VARIABLE_CHARS)]] = {}
    limits: TaskLimits = TaskLimits()
    idempotency_key: Annotated[str, Meta(min_length=1, max_length=L.MAX_IDEMPOTENCY_KEY)] | None = None


class Status(StrEnum):
    """Overall status of a delegation."""

    COMPLETED = "completed"
    NEEDS_USER_INPUT = "needs_user_input"
    BLOCKED = "blocked"
    FAILED = "failed"
    PARTIAL = "partial"


class DeliveryStatus(StrEnum):
    """How the declared files fared."""

    NOT_REQUESTED = "not-requested"
    COMPLETED = "completed"
    PARTIAL = "partial"
    FAILED = "failed"


class SideEffects(StrEnum):
    """`none` only if nothing but reads was dispatched; `confirmed` if the bridge verified an effect."""

    NONE = "none"
    POSSIBLE = "possible"
    CONFIRMED = "confirmed"


class ResolvedArtifact(Wire, frozen=True):
    """An artifact the bridge holds for this task and the worker claimed for `purpose`."""

    artifact_id: str
    purpose: str
    kind: ArtifactKind
    size: int  # bytes
    sha256: str  # 64 lower-case hex digits
    media_type: str


class Delivery(Wire, frozen=True):
    """One attempt to put an artifact at its declared path. `code` is empty when `delivered`."""

    artifact_id: str
    purpose: str
    path: str
    delivered: bool
    size: int = 0
    sha256: str = ""
    code: str = ""
    message: str = ""


class Usage(Wire, frozen=True):
    """What the task used, counted outside the worker."""

    steps: int = 0
    tool_calls: int = 0
    tokens: int = 0
    generations: int = 0
    seconds: float = 0.0


AnswerValue = bool | int | float | str  # of a typed answer; which is allowed where is the host's schema


class BrowserDelegateResult(Wire, frozen=True, kw_only=True):
    """The one thing that comes back (design 4); at most 16 KiB of UTF-8 JSON.

    `untrusted` is true whenever a text field was written by the worker (and so may repeat what a page said).
    """

    task_id: str
    status: Status
    execution_status: Status
    delivery_status: DeliveryStatus = DeliveryStatus.NOT_REQUESTED
    summary: Annotated[str, Meta(max_length=L.MAX_SUMMARY_CHARS)] = ""
    answer: dict[str, AnswerValue] | None = None
    current_url: Annotated[str, Meta(max_length=L.MAX_URL_CHARS)] | None = None
    completed_actions: tuple[str, ...] = ()
    needs_user_decision: bool = False
    question: str | None = None
    next_step: str | None = None
    artifacts: tuple[ResolvedArtifact, ...] = ()
    deliveries: tuple[Delivery, ...] = ()
    side_effects: SideEffects = SideEffects.NONE
    unmet_requirements: tuple[str, ...] = ()
    retryable: bool = False
    blocker_code: BlockerCode | None = None
    untrusted: bool = False
    usage: Usage = Usage()


class ArtifactClaim(Struct, frozen=True, forbid_unknown_fields=True):
    """What a worker may say of an artifact: its id and the deliverable it is for."""

    artifact_id: Annotated[str, Meta(max_length=64)]
    purpose: Annotated[str, Meta(max_length=L.MAX_PURPOSE_CHARS)]


class ClaimStatus(StrEnum):
    """The statuses a worker may claim."""

    COMPLETED = "completed"
    NEEDS_USER_INPUT = "needs_user_input"
    BLOCKED = "blocked"
    FAILED = "failed"


class ResultClaim(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Arguments of `structured_output`: everything a worker can say at its end. Lengths are cut by customs,
    not refused, so one overlong field never loses a result; the frame bound still holds."""

    status: ClaimStatus
    summary: str
    answer: dict[str, AnswerValue | None] | None = None
    completed_actions: tuple[str, ...] = ()
    question: str | None = None
    next_step: str | None = None
    artifacts: Annotated[tuple[ArtifactClaim, ...], Meta(max_length=L.MAX_CLAIMS)] = ()
    unmet_requirements: tuple[str, ...] = ()
