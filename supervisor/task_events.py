"""What can happen to a task, what is done about it, and what it was planned to be: the vocabulary of `coordinator.py`.

Events come from the two bridges, the worker's pidfd, the host and the clock, each judged before; effects are executed by
`core.py`. All are frozen; none holds page data but `Finished` and `Finish`, which hold the result customs let through.
Pure: data only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from ..protocol.answers import AnswerSchema
from ..protocol.errors import BlockerCode, ToolErrorCode
from ..protocol.frames import EndReason, ModelProblem, TaskPhase
from ..protocol.results import (
    Browser,
    BrowserDelegateResult,
    Deliverable,
    Delivery,
    PlannerKind,
    Policy,
    ResolvedArtifact,
    SideEffects,
)
from .budgets import Budget
from .messages import Sentence
from .verdict import Wanted


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """Everything decided before a task starts. `browser` is never AUTO."""

    task: str
    session: str
    planner: PlannerKind
    browser: Browser
    goal: str
    constraints: tuple[str, ...]
    start_url: str | None
    deliverables: tuple[Deliverable, ...]
    budget: Budget
    playbook: bytes | None = None
    variables: dict[str, str] = field(default_factory=dict)
    answer: AnswerSchema | None = None
    policy: Policy = field(default_factory=Policy)


# ---------------------------------------------------------------------------------------------------- events


@dataclass(frozen=True, slots=True)
class Start:
    """Its turn has come."""


@dataclass(frozen=True, slots=True)
class Opened:
    pass


@dataclass(frozen=True, slots=True)
class Refused:
    code: BlockerCode


@dataclass(frozen=True, slots=True)
class BrowserWanted:
    pass


@dataclass(frozen=True, slots=True)
class BrowserFailed:
    """It could not be started."""

    sentence: Sentence


@dataclass(frozen=True, slots=True)
class BrowserDone:
    pass


@dataclass(frozen=True, slots=True)
class GotWorker:
    worker: str


@dataclass(frozen=True, slots=True)
class NoWorker:
    pass


@dataclass(frozen=True, slots=True)
class Bound:
    """The model bridge knows the worker."""


@dataclass(frozen=True, slots=True)
class Progress:
    tool_calls: int
    tool: str
    ok: bool
    code: ToolErrorCode | None = None  # why it failed


@dataclass(frozen=True, slots=True)
class ModelProgress:
    steps: int
    tokens: int
    occupancy: int


@dataclass(frozen=True, slots=True)
class Guard:
    reason: EndReason


@dataclass(frozen=True, slots=True)
class ModelFault:
    code: BlockerCode
    problem: ModelProblem


@dataclass(frozen=True, slots=True)
class Finished:
    """Customs let the claim through; `result` has passed `verdict.accept`."""

    result: BrowserDelegateResult


@dataclass(frozen=True, slots=True)
class Fault:
    """A bridge cut the worker off, or it floods one. `sentence` None: the general one of a crash."""

    sentence: Sentence | None = None


@dataclass(frozen=True, slots=True)
class WorkerGone:
    """It is dead and forgotten. `status`: exit status, negative the signal; None: unknown."""

    status: int | None
    unsettled: int = 0


@dataclass(frozen=True, slots=True)
class BridgeLost:
    pass


@dataclass(frozen=True, slots=True)
class ModelLost:
    pass


@dataclass(frozen=True, slots=True)
class Cancel:
    """The host gives it up, or (`sentence`) the supervisor stops."""

    code: BlockerCode = BlockerCode.CANCELLED
    sentence: Sentence | None = None


@dataclass(frozen=True, slots=True)
class Tick:
    pass


@dataclass(frozen=True, slots=True)
class Closed:
    side_effects: SideEffects
    unsettled: int
    tool_calls: int
    artifacts: tuple[ResolvedArtifact, ...] = ()


@dataclass(frozen=True, slots=True)
class Deliveries:
    deliveries: tuple[Delivery, ...]


EVENTS: Final[tuple[type, ...]] = (
    Start, Opened, Refused, BrowserWanted, BrowserFailed, BrowserDone, GotWorker, NoWorker, Bound, Progress,
    ModelProgress, Guard, ModelFault, Finished, Fault, WorkerGone, BridgeLost, ModelLost, Cancel, Tick, Closed,
    Deliveries,
)  # fmt: skip

# ---------------------------------------------------------------------------------------------------- effects


@dataclass(frozen=True, slots=True)
class SendOpen:
    pass


@dataclass(frozen=True, slots=True)
class SpawnBrowser:
    pass


@dataclass(frozen=True, slots=True)
class EndBrowser:
    """Harmless if there is none."""


@dataclass(frozen=True, slots=True)
class WantWorker:
    pass


@dataclass(frozen=True, slots=True)
class UnwantWorker:
    pass


@dataclass(frozen=True, slots=True)
class ReturnWorker:
    """It came too late; it was never told of the task: end it all the same (a spare is given away once)."""

    worker: str


@dataclass(frozen=True, slots=True)
class SendAssignModel:
    worker: str


@dataclass(frozen=True, slots=True)
class SendAssign:
    worker: str


@dataclass(frozen=True, slots=True)
class LetWorkerExit:
    worker: str


@dataclass(frozen=True, slots=True)
class KillWorker:
    worker: str


@dataclass(frozen=True, slots=True)
class SendClose:
    pass


@dataclass(frozen=True, slots=True)
class Deliver:
    items: tuple[Wanted, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """Progress for the host."""

    phase: TaskPhase
    steps: int
    tool_calls: int
    tool: str = ""
    ok: bool = True


@dataclass(frozen=True, slots=True)
class Finish:
    """The one result."""

    result: BrowserDelegateResult


Event = Any  # one of EVENTS
Effect = Any  # one of the dataclasses above; a Union of 15 says no more and costs a page
