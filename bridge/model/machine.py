"""The machine of one task's inferences: meters, limits, corrections, retries (design 8).

    IDLE --infer--> ASKING --answered, accepted--> IDLE
                    |    ^ \\--malformed, silent: corrected once, ASKING again; twice: OVER
             failed |    | due
                    v    |
                    RESTING (back-off)              any --limit, last failure--> OVER;   any --forget--> OVER

Invariants: the worker's word counts for nothing: a step is a request of ours (a retry of the same request is not another
one, a correction is), tokens are what the endpoint billed or an estimate from characters; no request is made at the step
limit or with the latest occupancy at the hard limit; at the soft limit the step is not handed on unless it ends the task;
every inference gets exactly one of `Inference` and `InferenceFailed`; exactly one `ModelFault` is reported, and OVER
makes no request any more. In this slice (one generation) both token limits end the task `rollover-exhausted`.
`len(TABLE) == len(State) * len(Kind)`.

Pure: events, and a random number for the jitter, in; effects out. Makes no request, keeps no key, waits for nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final

from ...protocol.answers import decode
from ...protocol.errors import BlockerCode, LocalMisuse
from ...protocol.frames import (
    AssignModel,
    Infer,
    Inference,
    InferenceFailed,
    ModelFault,
    ModelProblem,
    ModelProgress,
)
from .judge import Accepted, Completion, Malformed, Message, Silent, Unknown, judge
from .wire import TOOLS, Failure, messages_of, tools_for

BACKOFF_S: Final = 0.5  # before the first retry; doubles with each one
MAX_BACKOFF_S: Final = 8.0  # four attempts then fit into half a minute of a task's 180 s


class State(Enum):
    IDLE = "idle"
    ASKING = "asking"
    RESTING = "resting"
    OVER = "over"


class Kind(Enum):
    INFER = "infer"
    ANSWERED = "answered"
    FAILED = "failed"
    DUE = "due"
    FORGET = "forget"


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one task, from the settings: tokens, and attempts of one request."""

    soft_tokens: int
    hard_tokens: int
    attempts: int


@dataclass(frozen=True, slots=True)
class Ask:
    """Make this request now. `request_id` stays the same over the retries of one request; `tools`: what is offered."""

    request_id: str
    messages: tuple[Message, ...]
    tools: tuple[Message, ...] = TOOLS


@dataclass(frozen=True, slots=True)
class Rest:
    """Call `due` after so many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Abort:
    """Give up the request or the rest under way."""


@dataclass(frozen=True, slots=True)
class Report:
    """Tell the supervisor."""

    frame: ModelProgress | ModelFault


@dataclass(frozen=True, slots=True)
class Reply:
    """Answer the worker's open inference."""

    frame: Inference | InferenceFailed


Effect = Ask | Rest | Abort | Report | Reply


@dataclass(frozen=True, slots=True)
class _In:
    random: float = 0.0
    infer: Infer | None = None
    completion: Completion | None = None
    failure: Failure | None = None


class Inferences:
    """One task generation. `problem`: why the endpoint can't be used at all, or NONE. Raises UsageError for a bad schema."""

    def __init__(self, assigned: AssignModel, limits: Limits, problem: ModelProblem) -> None:
        self._task = assigned.task
        self._generation = assigned.generation
        self._max_steps = assigned.steps
        self._limits = limits
        self._answer = decode(assigned.answer)
        self._tools = TOOLS if self._answer is None else tools_for(self._answer)
        self._problem = problem
        self._state = State.IDLE
        self._steps = 0
        self._tokens = 0
        self._occupancy = 0
        self._call = 0
        self._messages: tuple[Message, ...] = ()  # page data: held while an inference is open, not longer
        self._corrected = False
        self._attempt = 0

    @property
    def state(self) -> State:
        return self._state

    def infer(self, frame: Infer) -> list[Effect]:
        """The worker asks for an inference. LocalMisuse while one is open: the link's machine lets none through."""
        return self._handle(Kind.INFER, _In(infer=frame))

    def answered(self, completion: Completion) -> list[Effect]:
        """The endpoint has answered."""
        return self._handle(Kind.ANSWERED, _In(completion=completion))

    def failed(self, failure: Failure, random: float) -> list[Effect]:
        """The request came to nothing. `random`: uniform in [0, 1), spreads the retries of many tasks."""
        return self._handle(Kind.FAILED, _In(random=random, failure=failure))

    def due(self) -> list[Effect]:
        """The rest is over."""
        return self._handle(Kind.DUE, _In())

    def forget(self) -> list[Effect]:
        """The worker is dead or about to be."""
        return self._handle(Kind.FORGET, _In())

    def _handle(self, kind: Kind, event: _In) -> list[Effect]:
        return TABLE[(self._state, kind)](self, event)

    # -------------------------------------------------------------------- transitions

    def _infer(self, event: _In) -> list[Effect]:
        assert event.infer is not None
        self._call = event.infer.call
        if self._problem is not ModelProblem.NONE:
            return self._over(BlockerCode.MODEL_UNCONFIGURED, self._problem)
        self._messages = messages_of(event.infer.messages)
        self._corrected = False
        return self._step()

    def _refuse(self, event: _In) -> list[Effect]:
        assert event.infer is not None
        return [Reply(InferenceFailed(call=event.infer.call))]

    def _step(self) -> list[Effect]:
        """A new request over the present messages, if the limits allow one."""
        if self._steps >= self._max_steps:
            return self._over(BlockerCode.STEP_LIMIT)
        if self._occupancy >= self._limits.hard_tokens:
            return self._over(BlockerCode.ROLLOVER_EXHAUSTED)
        self._steps += 1
        self._attempt = 0
        return [self._progress(), self._ask()]

    def _ask(self) -> Ask:
        self._state = State.ASKING
        self._attempt += 1
        return Ask(f"{self._task}-{self._generation}-{self._steps}", self._messages, self._tools)

    def _answered(self, event: _In) -> list[Effect]:
        completion = event.completion
        assert completion is not None
        self._tokens += completion.tokens
        self._occupancy = completion.tokens
        progress = self._progress()
        verdict = judge(completion, self._answer, lenient=self._corrected)
        if isinstance(verdict, Unknown):
            return [progress, *self._over(BlockerCode.INVALID_TOOL)]
        if isinstance(verdict, Malformed):
            return [progress, *self._correct(verdict.correction, BlockerCode.INVALID_TOOL)]
        if isinstance(verdict, Silent):
            return [progress, *self._correct(verdict.correction, BlockerCode.NO_STRUCTURED_OUTPUT)]
        return [progress, *self._accept(verdict)]

    def _correct(self, correction: tuple[Message, ...], code: BlockerCode) -> list[Effect]:
        """Once; the second bad answer in a row ends the task."""
        if self._corrected:
            return self._over(code)
        self._corrected = True
        self._messages += correction
        return self._step()

    def _accept(self, accepted: Accepted) -> list[Effect]:
        if self._occupancy >= self._limits.soft_tokens and not accepted.concludes:
            return self._over(BlockerCode.ROLLOVER_EXHAUSTED)
        self._state = State.IDLE
        self._messages = ()
        return [Reply(Inference(call=self._call, tool_calls=accepted.calls, content=accepted.content))]

    def _failed(self, event: _In) -> list[Effect]:
        failure = event.failure
        assert failure is not None
        if not failure.retryable or self._attempt >= self._limits.attempts:
            return self._over(BlockerCode.MODEL_UNAVAILABLE, failure.problem)
        self._state = State.RESTING
        backoff = min(MAX_BACKOFF_S, BACKOFF_S * 2 ** (self._attempt - 1)) * (0.5 + event.random / 2)
        return [Rest(max(backoff, failure.retry_after))]

    def _due(self, _event: _In) -> list[Effect]:
        return [self._ask()]

    def _abort(self, _event: _In) -> list[Effect]:
        self._end()
        return [Abort()]

    def _stop(self, _event: _In) -> list[Effect]:
        self._end()
        return []

    def _nothing(self, _event: _In) -> list[Effect]:
        return []

    def _misuse(self, _event: _In) -> list[Effect]:
        raise LocalMisuse(f"not in state {self._state.value}")

    # -------------------------------------------------------------------- helpers

    def _over(self, code: BlockerCode, problem: ModelProblem = ModelProblem.NONE) -> list[Effect]:
        self._end()
        fault = ModelFault(task=self._task, generation=self._generation, code=code, problem=problem)
        return [Report(fault), Reply(InferenceFailed(call=self._call))]

    def _end(self) -> None:
        self._state = State.OVER
        self._messages = ()

    def _progress(self) -> Report:
        return Report(
            ModelProgress(
                task=self._task,
                generation=self._generation,
                steps=self._steps,
                tokens=self._tokens,
                occupancy=self._occupancy,
            )
        )


_Transition = Callable[[Inferences, _In], list[Effect]]
_I = Inferences


def _row(state: State, *cells: _Transition) -> dict[tuple[State, Kind], _Transition]:
    return {(state, kind): cell for kind, cell in zip(Kind, cells, strict=True)}


# fmt: off
TABLE: Final[Mapping[tuple[State, Kind], _Transition]] = MappingProxyType({
    #                    INFER       ANSWERED      FAILED       DUE          FORGET
    **_row(State.IDLE,    _I._infer,  _I._misuse,   _I._misuse,  _I._misuse,  _I._stop),
    **_row(State.ASKING,  _I._misuse, _I._answered, _I._failed,  _I._misuse,  _I._abort),
    **_row(State.RESTING, _I._misuse, _I._misuse,   _I._misuse,  _I._due,     _I._abort),
    # An answer may cross the end of its task.
    **_row(State.OVER,    _I._refuse, _I._nothing,  _I._nothing, _I._nothing, _I._nothing),
})
# fmt: on
