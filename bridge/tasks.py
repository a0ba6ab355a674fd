"""The machine of one task: its life, its calls and their settlement, its guards, and the verdict on side effects.

    OPENING --opened--> READY --assign--> RUNNING (one worker after the other) --close--> CLOSING --> CLOSED
       `--refused--> CLOSED                                    close in any state: CLOSED once nothing is in flight

What is counted here is counted by the bridge and by nobody else (design 2, rule 2): calls, repeated errors, actions
without progress, page versions. Side effects: click, type, press and select are effects; loading, opening and closing
pages are not (a navigation is a GET; what a page does by itself on load is the site's doing). `none`: no effect was
dispatched; `confirmed`: the page showed that one happened; otherwise `possible`. An effect whose command got no
answer before its worker or the task ended is `unsettled`, and never retried.

Invariants: `len(TABLE) == len(State) * len(Event)`; at most one call in flight; every started call is settled exactly
once; TaskProgress follows every settled call; one guard at most, and none of the task's calls is run after it; page
versions count up from 1; exactly one of TaskOpened and TaskRefused, exactly one TaskClosed.

Pure: it runs no call, knows no tab, touches no file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final

from ..protocol import limits as L
from ..protocol.answers import decode
from ..protocol.errors import BlockerCode, LocalMisuse, ToolErrorCode
from ..protocol.frames import (
    Changes,
    EndReason,
    Frame,
    LedgerEntry,
    OpenTask,
    TaskClosed,
    TaskFinished,
    TaskGuard,
    TaskOpened,
    TaskProgress,
    TaskRefused,
)
from ..protocol.results import ArtifactKind, ResolvedArtifact, ResultClaim, SideEffects
from .customs import Declaration, pass_through
from .policy import EFFECT_TOOLS, TaskPolicy


class State(Enum):
    """Where a task is."""

    OPENING = "opening"
    READY = "ready"
    RUNNING = "running"
    CLOSING = "closing"
    CLOSED = "closed"


class Event(Enum):
    """What can happen to a task."""

    OPENED = "opened"
    REFUSED = "refused"
    ASSIGN = "assign"
    CALL = "call"
    SETTLE = "settle"
    FINISH = "finish"
    LOST = "lost"
    WORKER_GONE = "worker-gone"
    CLOSE = "close"


@dataclass(frozen=True, slots=True)
class Kept:
    """An artifact of this task, from the store's index."""

    artifact: str
    kind: ArtifactKind
    size: int
    sha256: str
    media_type: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a tool call ended.

    `dispatched`: a command went to a page; `answered`: and its answer came. `may_have_effect`: what a failure says.
    `page`: URL without fragment and structural digest of the page after it, None if unknown. `url`: the page's.
    """

    ok: bool
    code: ToolErrorCode | None = None
    chars: int = 0
    dispatched: bool = False
    answered: bool = True
    may_have_effect: bool = False
    page: tuple[str, str] | None = None
    url: str = ""
    changes: Changes | None = None
    kept: Kept | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """Send to the supervisor."""

    frame: Frame


@dataclass(frozen=True, slots=True)
class Run:
    """Run the call."""

    worker: str
    call: int
    tool: str


@dataclass(frozen=True, slots=True)
class Answer:
    """Give the settled call's result to `worker`, with these numbers."""

    worker: str
    page_version: int
    calls_left: int


@dataclass(frozen=True, slots=True)
class Withdraw:
    """Nobody waits for the call in flight any more. `effect`: its answer decides what can be said of side effects,
    so it is worth a short wait; otherwise cancel it at once."""

    effect: bool


@dataclass(frozen=True, slots=True)
class Forgotten:
    """Nothing of `worker` is in flight any more; `unsettled` of its commands have an unknown effect."""

    worker: str
    unsettled: int


@dataclass(frozen=True, slots=True)
class Release:
    """Quiescent: give tabs, port and browser back. `keep_tabs`: a person has to look at them."""

    keep_tabs: bool


Effect = Report | Run | Answer | Withdraw | Forgotten | Release


@dataclass(slots=True)
class _Flight:
    worker: str
    tool: str


class Task:
    """One task. `spec` is what the supervisor asked for. Raises UsageError for a schema or an origin that is none."""

    __slots__ = (
        "_answer",
        "_errors",
        "_finished",
        "_flight",
        "_guard",
        "_idle",
        "_leaving",
        "_purposes",
        "_shot",
        "_tool_calls",
        "_unsettled",
        "_unsettled_of",
        "_version",
        "_versions",
        "_worker",
        "dropped_claims",
        "generation",
        "kept",
        "needs_person",
        "policy",
        "side_effects",
        "spec",
        "state",
        "url",
    )

    def __init__(self, spec: OpenTask) -> None:
        self.spec = spec
        self._answer = decode(spec.answer)
        self.policy = TaskPolicy(spec.policy)
        self.state = State.OPENING
        self.generation = 0
        self.side_effects = SideEffects.NONE
        self.kept: dict[str, Kept] = {}
        self.url = ""  # of the page last seen, as the browser tells it
        self.needs_person = False
        self.dropped_claims = 0  # artifact claims that were forged, foreign or for nothing wanted
        self._worker = ""
        self._flight: _Flight | None = None
        self._leaving = ""  # worker whose last call is being settled
        self._tool_calls = 0
        self._unsettled = 0
        self._unsettled_of = 0
        self._errors: Counter[tuple[str, ToolErrorCode]] = Counter()
        self._idle = 0  # consecutive calls without progress
        self._guard = False
        self._versions: dict[tuple[str, str], int] = {}
        self._version = 0  # of the page last seen
        self._shot: set[int] = set()  # page versions that have been photographed
        self._purposes: dict[str, str] = {}  # artifact -> purpose customs let through
        self._finished = False

    @property
    def task(self) -> str:
        return self.spec.task

    @property
    def worker(self) -> str:
        """The worker of the present generation, "" if none."""
        return self._worker

    @property
    def calls_left(self) -> int:
        return max(0, self.spec.tool_calls - self._tool_calls)

    @property
    def in_flight(self) -> bool:
        return self._flight is not None

    def opened(self) -> list[Effect]:
        """A browser stands ready, the start page is open."""
        return self._handle(Event.OPENED, None)

    def refused(self, code: BlockerCode) -> list[Effect]:
        """It can't be opened."""
        return self._handle(Event.REFUSED, code)

    def assign(self, worker: str, generation: int) -> list[Effect]:
        """`worker` is the task's generation from now on. LocalMisuse if there is no browser or another worker."""
        return self._handle(Event.ASSIGN, (worker, generation))

    def call(self, call: int, tool: str) -> list[Effect]:
        """The worker wants a tool run."""
        return self._handle(Event.CALL, (call, tool))

    def settle(self, outcome: Outcome) -> list[Effect]:
        """The call in flight has ended."""
        return self._handle(Event.SETTLE, outcome)

    def finish(self, claim: ResultClaim) -> list[Effect]:
        """The worker's final claim."""
        return self._handle(Event.FINISH, claim)

    def lost(self, reason: EndReason) -> list[Effect]:
        """The extension or Chromium is gone."""
        return self._handle(Event.LOST, reason)

    def worker_gone(self, worker: str) -> list[Effect]:
        """The supervisor ends the worker: settle what it had under way, then say so (Forgotten)."""
        return self._handle(Event.WORKER_GONE, worker)

    def close(self) -> list[Effect]:
        """No more commands; quiescent as soon as nothing is in flight."""
        return self._handle(Event.CLOSE, None)

    def artifacts(self) -> tuple[ResolvedArtifact, ...]:
        """What the task has, claimed ones first; `purpose` is "" where nothing was claimed."""
        claimed = [self._resolved(self.kept[name], purpose) for name, purpose in self._purposes.items()]
        others = [self._resolved(kept, "") for name, kept in self.kept.items() if name not in self._purposes]
        return tuple([*claimed, *others][: L.MAX_CLAIMS])

    @staticmethod
    def _resolved(kept: Kept, purpose: str) -> ResolvedArtifact:
        return ResolvedArtifact(kept.artifact, purpose, kept.kind, kept.size, kept.sha256, kept.media_type)

    def _handle(self, event: Event, argument: object) -> list[Effect]:
        return TABLE[(self.state, event)](self, argument)

    # --- transitions; each is named in TABLE ---------------------------------------------------------

    def _open(self, _argument: object) -> list[Effect]:
        self.state = State.READY
        return [Report(TaskOpened(self.task))]

    def _refuse(self, code: object) -> list[Effect]:
        assert isinstance(code, BlockerCode)
        self.state = State.CLOSED
        return [Report(TaskRefused(self.task, code)), Release(keep_tabs=False)]

    def _refuse_lost(self, _argument: object) -> list[Effect]:
        return self._refuse(BlockerCode.BROWSER_UNAVAILABLE)

    def _assign(self, argument: object) -> list[Effect]:
        assert isinstance(argument, tuple)
        worker, generation = argument
        if self._worker or self._flight is not None or generation <= self.generation:
            raise LocalMisuse("a task has one worker at a time, and generations count up")
        self._worker = worker
        self._unsettled_of = 0
        self.generation = generation
        self.state = State.RUNNING
        return []

    def _call(self, argument: object) -> list[Effect]:
        assert isinstance(argument, tuple)
        call, tool = argument
        if self._guard:
            return []  # the supervisor is ending this generation
        if self._flight is not None:
            raise LocalMisuse("one call at a time")
        if self._tool_calls >= self.spec.tool_calls:
            return self._trip(EndReason.TOOL_CALL_LIMIT)
        self._flight = _Flight(self._worker, tool)
        return [Run(self._worker, call, tool)]

    def _settle(self, outcome: object) -> list[Effect]:
        assert isinstance(outcome, Outcome)
        flight = self._flight
        if flight is None:
            raise LocalMisuse("no call is in flight")
        self._flight = None
        self._tool_calls += 1
        if outcome.url:
            self.url = outcome.url
        progress = self._note(flight.tool, outcome)
        self._judge(flight.tool, outcome)
        entry = LedgerEntry(flight.tool, outcome.ok, outcome.code, self._version, outcome.chars)
        effects: list[Effect] = [Report(TaskProgress(self.task, self.generation, self._tool_calls, entry))]
        tripped = self._guards(flight.tool, outcome, progress)
        if self._leaving:
            effects += self._forgotten()
        elif tripped is not None:
            effects += self._trip(tripped)
        elif self.state is State.RUNNING and not self._guard:
            effects.insert(
                0, Answer(flight.worker, self._version, self.calls_left)
            )  # the worker waits for it
        if self.state is State.CLOSING:
            effects += self._closed()
        return effects

    def _note(self, tool: str, outcome: Outcome) -> bool:
        """Take what the call made into the books; True if it was progress (design 8)."""
        progress = False
        if outcome.page is not None:
            known = self._versions.get(outcome.page)
            progress = known is None
            self._version = self._versions.setdefault(outcome.page, len(self._versions) + 1)
        if outcome.kept is not None:
            self.kept[outcome.kept.artifact] = outcome.kept
            if tool != "browser_page_screenshot" or self._version not in self._shot:
                progress = True
            if tool == "browser_page_screenshot":
                self._shot.add(self._version)
        changes = outcome.changes
        if outcome.ok and changes is not None and (changes.value or changes.checked is not None):
            progress = True
        return progress

    def _judge(self, tool: str, outcome: Outcome) -> None:
        if tool not in EFFECT_TOOLS or not outcome.dispatched:
            return
        if not outcome.answered:
            self._unsettled += 1
            self._unsettled_of += 1
        if outcome.changes is not None and _verified(outcome.changes):
            self.side_effects = SideEffects.CONFIRMED
        elif (outcome.ok or not outcome.answered or outcome.may_have_effect) and (
            self.side_effects is SideEffects.NONE
        ):
            self.side_effects = SideEffects.POSSIBLE

    def _guards(self, tool: str, outcome: Outcome, progress: bool) -> EndReason | None:
        self._idle = 0 if progress else self._idle + 1
        if outcome.code is not None:
            self._errors[(tool, outcome.code)] += 1
            if self._errors[(tool, outcome.code)] >= L.MAX_REPEATED_ERROR:
                return EndReason.REPEATED_ERROR
        return EndReason.NO_PROGRESS if self._idle >= L.MAX_WITHOUT_PROGRESS else None

    def _trip(self, reason: EndReason) -> list[Effect]:
        if self._guard:
            return []
        self._guard = True
        return [Report(TaskGuard(self.task, self.generation, reason))]

    def _finish(self, claim: object) -> list[Effect]:
        assert isinstance(claim, ResultClaim)
        if self._guard:
            return []  # the generation is being ended already
        self._finished = True
        passed = pass_through(
            claim,
            Declaration(
                task=self.task,
                deliverables=self.spec.deliverables,
                kept={name: self._resolved(kept, "") for name, kept in self.kept.items()},
                url=self.url,
                side_effects=self.side_effects,
                tool_calls=self._tool_calls,
                answer=self._answer,
                policy=self.spec.policy,
                start_url=self.spec.url or "",
            ),
        )
        self._purposes = {artifact.artifact_id: artifact.purpose for artifact in passed.result.artifacts}
        self.dropped_claims += passed.dropped
        self.needs_person = passed.result.needs_user_decision
        return [Report(TaskFinished(self.task, self.generation, passed.result))]

    def _lose(self, reason: object) -> list[Effect]:
        assert isinstance(reason, EndReason)
        return [] if self._finished else self._trip(reason)

    def _worker_gone(self, worker: object) -> list[Effect]:
        assert isinstance(worker, str)
        if worker != self._worker:
            return [Forgotten(worker, 0)]
        self._worker = ""
        self._guard = False  # guards end a generation; what they counted goes on
        self._leaving = worker
        if self._flight is None:
            return self._forgotten()
        return [Withdraw(self._flight.tool in EFFECT_TOOLS)]

    def _forgotten(self) -> list[Effect]:
        worker, self._leaving = self._leaving, ""
        return [Forgotten(worker, self._unsettled_of)]

    def _close(self, _argument: object) -> list[Effect]:
        self.state = State.CLOSING
        if self._flight is None:
            return self._closed()
        return [Withdraw(self._flight.tool in EFFECT_TOOLS)]

    def _closed(self) -> list[Effect]:
        self.state = State.CLOSED
        return [Report(self.closed_report()), Release(self.needs_person)]

    def closed_report(self) -> TaskClosed:
        """What the task did and has; the answer to a repeated CloseTask as well."""
        return TaskClosed(self.task, self.side_effects, self._unsettled, self._tool_calls, self.artifacts())

    def _closed_again(self, _argument: object) -> list[Effect]:
        return [Report(self.closed_report())]

    def _forget_late(self, worker: object) -> list[Effect]:
        assert isinstance(worker, str)
        return [Forgotten(worker, self._unsettled_of if worker == self._worker else 0)]

    def _nothing(self, _argument: object) -> list[Effect]:
        return []

    def _misuse(self, _argument: object) -> list[Effect]:
        raise LocalMisuse(f"not in state {self.state.value}")


def _verified(changes: Changes) -> bool:
    return (
        changes.url
        or changes.page
        or changes.value
        or changes.checked is not None
        or changes.new_tab is not None
    )


_Transition = Callable[[Task, object], list[Effect]]
_T = Task


def _row(state: State, *cells: _Transition) -> dict[tuple[State, Event], _Transition]:
    return {(state, event): cell for event, cell in zip(Event, cells, strict=True)}


# fmt: off
TABLE: Final[Mapping[tuple[State, Event], _Transition]] = MappingProxyType({
    #                   OPENED      REFUSED     ASSIGN      CALL        SETTLE      FINISH      LOST             WORKER_GONE          CLOSE
    **_row(State.OPENING, _T._open,    _T._refuse, _T._misuse, _T._misuse, _T._misuse, _T._misuse, _T._refuse_lost, _T._forget_late, _T._close),
    **_row(State.READY,   _T._misuse,  _T._misuse, _T._assign, _T._misuse, _T._misuse, _T._misuse, _T._lose,        _T._forget_late, _T._close),
    **_row(State.RUNNING, _T._misuse,  _T._misuse, _T._assign, _T._call,   _T._settle, _T._finish, _T._lose,        _T._worker_gone,     _T._close),
    # Closing: the call in flight is settled, everything else of the worker comes too late.
    **_row(State.CLOSING, _T._misuse,  _T._misuse, _T._nothing, _T._nothing, _T._settle, _T._nothing, _T._nothing,  _T._worker_gone,     _T._nothing),
    # An opening that was overtaken by its close still ends; its outcome is nobody's.
    **_row(State.CLOSED,  _T._nothing, _T._nothing, _T._nothing, _T._nothing, _T._misuse, _T._nothing, _T._nothing, _T._forget_late, _T._closed_again),
})
# fmt: on
