"""The worker's machine: from its greeting to its end, over two links, one planner and one open request (design 6).

    GREETING --both welcomed--> SEALING --sealed--> SPARE --assigned--> CALLING <--> THINKING
                                                                           |            |
                                          FINISHING <--- conclude ---------+------------+
                                              | finished                                | no answer to come
                                             OVER <------ (any broken rule) ------  STRANDED

Invariants: a frame is decoded only from the types of its link and admitted only by the table of its phase
(protocol/links.py); a result or inference must answer the one open request; a ping is answered in every state that may
get one; every state has a deadline, and both links must be heard from within `SILENCE_S`; OVER is final. A broken rule
of a bridge ends the worker, it never argues. A lost model link matters only to a task that needs it.
`len(TABLE) == len(State) * len(Kind)`.

Pure: events and `now` (monotonic seconds) in, effects out. What it does not do: wait, send, seal, or decide what to
call next (planners/).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum, IntEnum
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from ..protocol import limits as L
from ..protocol.codec import Decoder
from ..protocol.errors import BrowsercellError, PeerViolation
from ..protocol.frames import (
    Assigned,
    Credit,
    Finish,
    Finished,
    Frame,
    Hello,
    Infer,
    Inference,
    InferenceFailed,
    Ping,
    Pong,
    Sealed,
    SealReport,
    ToolCall,
    ToolResult,
    Welcome,
)
from ..protocol.links import Gate, Link, Phase, frame_types
from ..protocol.results import PlannerKind, ResultClaim
from ..protocol.tools import WORKER_TOOLS
from .outbox import Outbox
from .planners import Planner, make
from .planners.base import Action, Begin, CallTool, Conclude, Event, Settled, Think, Thought

GREETING_S: Final = 5.0  # both bridges have bound before the worker was started
SILENCE_S: Final = (
    30.0  # a bridge pings every 2 s; fifteen misses mean that it hangs, and nobody else will tell
)
GRACE_S: Final = 2.0  # over the bridge's own deadline of a call, which it reports itself
THINKING_S: Final = (
    L.MAX_SECONDS + 20.0
)  # no task lives longer; the model bridge bounds each request on its own
END_S: Final = 20.0  # from the claim, or from an inference that failed, to `Finished` or the kill


class Exit(IntEnum):
    """Exit status of a worker (worker/README.md). Never evidence: the supervisor believes the bridges."""

    OK = 0
    USAGE = 2
    CRASHED = 70
    SEAL_FAILED = 71
    UNREACHABLE = 72
    VIOLATION = 73
    LINK_LOST = 74
    SILENT = 75
    NO_ANSWER = 76


class Side(Enum):
    """Which of the two links."""

    PAGE = "page"
    MODEL = "model"


class State(Enum):
    """Where the worker is; see the picture above."""

    GREETING = "greeting"
    SEALING = "sealing"
    SPARE = "spare"
    CALLING = "calling"
    THINKING = "thinking"
    FINISHING = "finishing"
    STRANDED = "stranded"
    OVER = "over"


class Kind(Enum):
    """What can happen."""

    WELCOME = "welcome"
    SEALED = "sealed"
    PING = "ping"
    CREDIT = "credit"
    ASSIGNED = "assigned"
    RESULT = "result"
    INFERENCE = "inference"
    REFUSED = "refused"
    FINISHED = "finished"
    PAGE_LOST = "page_lost"
    MODEL_LOST = "model_lost"
    LATE = "late"


class Transmit(Struct, frozen=True):
    """Send these bytes on that link."""

    side: Side
    data: bytes


class Seal(Struct, frozen=True):
    """Both links are up: drop to the allow-list, then call `sealed`."""


class End(Struct, frozen=True):
    """Leave with this status, now."""

    status: Exit


Effect = Transmit | Seal | End


class _In(Struct, frozen=True):
    """One event as the table's methods get it."""

    now: float
    boundary: str = ""
    side: Side = Side.PAGE
    frame: Frame | None = None
    report: SealReport | None = None


_KINDS: Final[Mapping[type, Kind]] = {
    Welcome: Kind.WELCOME,
    Ping: Kind.PING,
    Credit: Kind.CREDIT,
    Assigned: Kind.ASSIGNED,
    ToolResult: Kind.RESULT,
    Inference: Kind.INFERENCE,
    InferenceFailed: Kind.REFUSED,
    Finished: Kind.FINISHED,
}


class Loop:
    """The machine of one worker. `now`: monotonic seconds at its start."""

    def __init__(self, now: float) -> None:
        self._state = State.GREETING
        self._deadline: float | None = now + GREETING_S
        self._heard = dict.fromkeys(Side, now)
        self._lost: set[Side] = set()
        self._greeted: set[Side] = set()
        self._gates = {
            Side.PAGE: Gate(Link.BRIDGE_TO_WORKER, Phase.GREETING),
            Side.MODEL: Gate(Link.MODEL_TO_WORKER, Phase.GREETING),
        }
        self._decoders: dict[Side, Decoder[Frame]] = {
            Side.PAGE: Decoder(frame_types(Link.BRIDGE_TO_WORKER), L.MAX_BRIDGE_TO_WORKER),
            Side.MODEL: Decoder(frame_types(Link.MODEL_TO_WORKER), L.MAX_MODEL_TO_WORKER),
        }
        self._out = {
            Side.PAGE: Outbox(L.PAGE_CREDIT, L.MAX_WORKER_TO_BRIDGE),
            Side.MODEL: Outbox(L.MODEL_CREDIT, L.MAX_WORKER_TO_MODEL),
        }
        self._planner: Planner | None = None
        self._needs_model = True
        self._calls = dict.fromkeys(
            Side, 0
        )  # ids count up from 1 on each link; one request is open at a time

    @property
    def state(self) -> State:
        return self._state

    def next_deadline(self) -> float | None:
        """When `tick` has something to do, in monotonic seconds; None once it is over."""
        if self._state is State.OVER:
            return None
        times = [self._heard[side] + SILENCE_S for side in Side if side not in self._lost]
        if self._deadline is not None:
            times.append(self._deadline)
        return min(times)

    def start(self) -> list[Effect]:
        """Greet both bridges."""
        hello = Hello(version=L.WIRE_VERSION)
        return [*self._send(Side.PAGE, hello), *self._send(Side.MODEL, hello)]

    def sealed(self, report: SealReport, now: float) -> list[Effect]:
        """The shell has carried out `Seal`."""
        return self._dispatch(Kind.SEALED, _In(now, report=report))

    def received(self, side: Side, data: bytes, now: float, boundary: str) -> list[Effect]:
        """A message came. `boundary`: fresh random text (planners.base.Planner.handle)."""
        try:
            frame = self._decoders[side].decode(data)
            self._gates[side].admit(frame)
        except PeerViolation:
            return self._end(Exit.VIOLATION)
        self._heard[side] = now
        return self._dispatch(_KINDS[type(frame)], _In(now, boundary, side, frame))

    def lost(self, side: Side, now: float) -> list[Effect]:
        """The connection has ended and nothing is left to read from it."""
        if side in self._lost:
            return []
        self._lost.add(side)
        return self._dispatch(Kind.PAGE_LOST if side is Side.PAGE else Kind.MODEL_LOST, _In(now, side=side))

    def tick(self, now: float) -> list[Effect]:
        """Time passed; harmless when nothing is due."""
        due = self.next_deadline()
        if due is None or now < due:
            return []
        if self._deadline is not None and now >= self._deadline:
            return self._dispatch(Kind.LATE, _In(now))
        return self._end(Exit.SILENT)

    def _dispatch(self, kind: Kind, event: _In) -> list[Effect]:
        try:
            return TABLE[(self._state, kind)](self, event)
        except (
            BrowsercellError
        ):  # a bridge that breaks its promises, or a frame that can't be built: both are final
            return self._end(Exit.VIOLATION)

    # -------------------------------------------------------------------- greeting and sealing

    def _welcome(self, event: _In) -> list[Effect]:
        frame = event.frame
        if not isinstance(frame, Welcome) or frame.version != L.WIRE_VERSION:
            raise PeerViolation("another version of the wire format")
        self._greeted.add(event.side)
        self._gates[event.side].enter(Phase.SPARE)
        if len(self._greeted) < len(Side):
            return []
        self._state = State.SEALING
        self._deadline = None  # the seal waits for nothing
        return [Seal()]

    def _is_sealed(self, event: _In) -> list[Effect]:
        if event.report is None:
            raise PeerViolation("a seal without a report")
        self._state = State.SPARE
        self._heard = dict.fromkeys(Side, event.now)
        return self._send(Side.PAGE, Sealed(report=event.report))

    # -------------------------------------------------------------------- all along

    def _pong(self, event: _In) -> list[Effect]:
        if not isinstance(event.frame, Ping):
            raise PeerViolation("not a ping")
        return self._send(event.side, Pong(nonce=event.frame.nonce))

    def _credit(self, event: _In) -> list[Effect]:
        if not isinstance(event.frame, Credit):
            raise PeerViolation("not a credit")
        return [Transmit(event.side, data) for data in self._out[event.side].granted(event.frame.bytes)]

    def _link_lost(self, _event: _In) -> list[Effect]:
        return self._end(Exit.LINK_LOST)

    def _model_lost(self, _event: _In) -> list[Effect]:
        """A playbook goes on without the model bridge (protocol/README.md); a model's task can't."""
        return self._end(Exit.LINK_LOST) if self._needs_model else []

    def _violation(self, _event: _In) -> list[Effect]:
        return self._end(Exit.VIOLATION)

    def _nothing(self, _event: _In) -> list[Effect]:
        return []

    # -------------------------------------------------------------------- the task

    def _assigned(self, event: _In) -> list[Effect]:
        if not isinstance(event.frame, Assigned):
            raise PeerViolation("not an assignment")
        assignment = event.frame.assignment
        for side in Side:
            self._gates[side].enter(Phase.ASSIGNED)
            self._out[side].count()
        self._planner = make(assignment)
        self._needs_model = assignment.planner is PlannerKind.LLM
        return self._plan(Begin(), event)

    def _result(self, event: _In) -> list[Effect]:
        if not isinstance(event.frame, ToolResult) or event.frame.call != self._calls[Side.PAGE]:
            raise PeerViolation("a result for a call that is not open")
        return self._plan(Settled(event.frame), event)

    def _inference(self, event: _In) -> list[Effect]:
        if not isinstance(event.frame, Inference) or event.frame.call != self._calls[Side.MODEL]:
            raise PeerViolation("an inference that was not asked for")
        return self._plan(Thought(event.frame), event)

    def _refused(self, event: _In) -> list[Effect]:
        if not isinstance(event.frame, InferenceFailed) or event.frame.call != self._calls[Side.MODEL]:
            raise PeerViolation("an inference that was not asked for")
        self._state = State.STRANDED  # the supervisor knows why and ends this worker
        self._deadline = event.now + END_S
        return []

    def _plan(self, happened: Event, event: _In) -> list[Effect]:
        if self._planner is None:
            raise PeerViolation("no task is assigned")
        return self._act(self._planner.handle(happened, event.boundary), event.now)

    def _act(self, action: Action, now: float) -> list[Effect]:
        if isinstance(action, Conclude):
            return self._conclude(action.claim, now)
        if isinstance(action, CallTool):
            self._calls[Side.PAGE] += 1
            self._state = State.CALLING
            self._deadline = now + WORKER_TOOLS[action.tool].deadline_ms / 1000 + GRACE_S
            call = ToolCall(call=self._calls[Side.PAGE], tool=action.tool, args=action.args)
            return self._send(Side.PAGE, call)
        return self._ask(action, now)

    def _ask(self, action: Think, now: float) -> list[Effect]:
        self._calls[Side.MODEL] += 1
        self._state = State.THINKING
        self._deadline = now + THINKING_S
        return self._send(Side.MODEL, Infer(call=self._calls[Side.MODEL], messages=action.messages))

    def _conclude(self, claim: ResultClaim, now: float) -> list[Effect]:
        self._state = State.FINISHING
        self._deadline = now + END_S
        self._needs_model = False
        return self._send(Side.PAGE, Finish(claim=claim))

    def _finished(self, _event: _In) -> list[Effect]:
        return self._end(Exit.OK)

    def _unreachable(self, _event: _In) -> list[Effect]:
        return self._end(Exit.UNREACHABLE)

    def _no_answer(self, _event: _In) -> list[Effect]:
        return self._end(Exit.NO_ANSWER)

    # -------------------------------------------------------------------- helpers

    def _send(self, side: Side, frame: Frame) -> list[Effect]:
        if side in self._lost:
            return []
        return [Transmit(side, data) for data in self._out[side].put(frame)]

    def _end(self, status: Exit) -> list[Effect]:
        if self._state is State.OVER:
            return []
        self._state = State.OVER
        self._deadline = None
        return [End(status)]


_Handler = Callable[[Loop, _In], list[Effect]]


def _row(
    *, default: _Handler, page_lost: _Handler, model_lost: _Handler, late: _Handler, **cells: _Handler
) -> dict[Kind, _Handler]:
    """One state's row: `default` for every frame that has no cell of its own; ends and lateness are always explicit."""
    row = dict.fromkeys(Kind, default)
    row |= {Kind.PAGE_LOST: page_lost, Kind.MODEL_LOST: model_lost, Kind.LATE: late}
    return row | {Kind(name): handler for name, handler in cells.items()}


_WRONG, _LOST, _NONE = Loop._violation, Loop._link_lost, Loop._nothing
_ROWS: Final[Mapping[State, Mapping[Kind, _Handler]]] = {
    State.GREETING: _row(
        default=_WRONG, page_lost=Loop._unreachable, model_lost=Loop._unreachable, late=Loop._unreachable,
        welcome=Loop._welcome, ping=Loop._pong,  # the first bridge may ping while the second one has not welcomed yet
    ),
    State.SEALING: _row(
        default=_WRONG, page_lost=_LOST, model_lost=_LOST, late=_NONE,  # no deadline is set: see _welcome
        sealed=Loop._is_sealed,
    ),
    State.SPARE: _row(
        default=_WRONG, page_lost=_LOST, model_lost=_LOST, late=_NONE,  # no deadline either: silence ends a spare
        ping=Loop._pong, assigned=Loop._assigned,
    ),
    State.CALLING: _row(
        default=_WRONG, page_lost=_LOST, model_lost=Loop._model_lost, late=Loop._no_answer,
        ping=Loop._pong, credit=Loop._credit, result=Loop._result,
    ),
    State.THINKING: _row(
        default=_WRONG, page_lost=_LOST, model_lost=_LOST, late=Loop._no_answer,
        ping=Loop._pong, credit=Loop._credit, inference=Loop._inference, refused=Loop._refused,
    ),
    State.FINISHING: _row(
        default=_WRONG, page_lost=_LOST, model_lost=_NONE, late=Loop._no_answer,
        ping=Loop._pong, credit=Loop._credit, finished=Loop._finished,
    ),
    State.STRANDED: _row(
        default=_WRONG, page_lost=_LOST, model_lost=_LOST, late=Loop._no_answer,
        ping=Loop._pong, credit=Loop._credit,
    ),
    State.OVER: _row(default=_NONE, page_lost=_NONE, model_lost=_NONE, late=_NONE),
}  # fmt: skip

TABLE: Final[Mapping[tuple[State, Kind], _Handler]] = MappingProxyType(
    {(state, kind): handler for state, row in _ROWS.items() for kind, handler in row.items()}
)
