"""The machine of one worker's link (PAGE): what it may say when, what is granted back, when it is cut off.

    PREPARED --spawned--> GREETING --Hello--> SEALING --Sealed--> SPARE --assign--> ASSIGNED --Finish--> FINISHING
       any of them --fault, violation, silence, disconnection--> CUT;      any --forget--> GONE

Bytes come in, effects come out. Identity is the transport's: a message of another connection than the greeting's is
the peer's violation, whatever it says (replayed greetings included). A worker that breaks a rule is cut off at once
and reported by one closed word; nothing it sends later is looked at (design 2, rule 6).

Invariants: `len(TABLE) == len(State) * len(Event)`; CUT and GONE say nothing any more; exactly one `Cut` per worker;
at most one tool call is under way, ids count up from 1; credit is granted back once for every counted frame: tool
calls and claims are counted, pongs are not (each answers one ping of ours). Frames of an ended worker are dropped
here and nowhere else, so that no effect of an older generation exists.

Pure: time comes in as monotonic seconds; sends, closes and logs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final

from ..protocol import limits as L
from ..protocol.codec import Decoder, WrongVersion
from ..protocol.credit import ReceiverCredit
from ..protocol.errors import LocalMisuse, PeerViolation
from ..protocol.frames import (
    Assigned,
    Assignment,
    Credit,
    Finish,
    Finished,
    Frame,
    Hello,
    Ping,
    Pong,
    Sealed,
    SealReport,
    ToolCall,
    ToolResult,
    Welcome,
    WorkerFaultKind,
)
from ..protocol.links import Gate, Link, Phase, frame_types
from ..protocol.liveness import Effect as LivenessEffect
from ..protocol.liveness import Liveness, PeerSilent, SendPing
from ..protocol.results import ResultClaim
from ..protocol.tools import WORKER_TOOLS


class State(Enum):
    """Where a worker's link is; GREETING to FINISHING have their permission table (`_PHASES`)."""

    PREPARED = "prepared"  # bound, nothing is read
    GREETING = "greeting"
    SEALING = "sealing"
    SPARE = "spare"
    ASSIGNED = "assigned"
    FINISHING = "finishing"
    CUT = "cut"  # closed by us, reported; the supervisor kills it
    GONE = "gone"


class Event(Enum):
    """What can happen to a worker's link."""

    SPAWNED = "spawned"
    RECEIVED = "received"
    FAULT = "fault"
    DISCONNECTED = "disconnected"
    TICK = "tick"
    ASSIGN = "assign"
    RESULT = "result"
    FORGET = "forget"


_PHASES: Final[Mapping[State, Phase]] = MappingProxyType(
    {
        State.GREETING: Phase.GREETING,
        State.SEALING: Phase.SPARE,
        State.SPARE: Phase.SPARE,
        State.ASSIGNED: Phase.ASSIGNED,
        State.FINISHING: Phase.FINISHING,
    }
)
_DECODER: Final[Decoder[Frame]] = Decoder(frame_types(Link.WORKER_TO_BRIDGE), L.MAX_WORKER_TO_BRIDGE)


@dataclass(frozen=True, slots=True)
class Read:
    """Read the link now, from this pid only."""

    pid: int


@dataclass(frozen=True, slots=True)
class Send:
    """Send to the worker, on the connection `route`."""

    route: bytes
    frame: Frame


@dataclass(frozen=True, slots=True)
class SealReported:
    """The worker is a spare now; pass its report on."""

    report: SealReport


@dataclass(frozen=True, slots=True)
class StartCall:
    """Run this tool call; answer it with `result`."""

    task: str
    generation: int
    call: int
    tool: str
    args: bytes


@dataclass(frozen=True, slots=True)
class Claimed:
    """The final claim, for customs. The worker has been told to exit."""

    task: str
    generation: int
    claim: ResultClaim


@dataclass(frozen=True, slots=True)
class Cut:
    """Close the link now and report the fault to the supervisor."""

    kind: WorkerFaultKind


@dataclass(frozen=True, slots=True)
class Close:
    """Close the link; there is nothing to report."""


Effect = Read | Send | SealReported | StartCall | Claimed | Cut | Close


class WorkerLink:
    """One worker's machine. `task` and `generation` are "" and 0 until it is assigned, and stay afterwards."""

    __slots__ = (
        "_calls",
        "_credit",
        "_gate",
        "_liveness",
        "_open",
        "_route",
        "dropped",
        "generation",
        "state",
        "task",
    )

    def __init__(self) -> None:
        self.state = State.PREPARED
        self.task = ""
        self.generation = 0
        self.dropped = 0  # messages of an ended worker
        self._gate = Gate(Link.WORKER_TO_BRIDGE, Phase.GREETING)
        self._credit = ReceiverCredit(L.PAGE_CREDIT)
        self._liveness = Liveness(L.PING_MS / 1000, L.PING_MISSES)
        self._route: bytes | None = None
        self._calls = 0  # id of the newest call
        self._open = 0  # bytes of the call under way, 0: none

    @property
    def calling(self) -> bool:
        """Whether a tool call is under way."""
        return self._open > 0

    @property
    def route(self) -> bytes:
        """The connection that greeted; b"" before."""
        return self._route or b""

    def next_due(self) -> float | None:
        """When `tick` has something to do (monotonic seconds), None if never."""
        return self._liveness.next_due()

    def spawned(self, pid: int, now: float) -> list[Effect]:
        """The supervisor says which process it is."""
        return self._handle(Event.SPAWNED, now, pid)

    def received(self, route: bytes, data: bytes, now: float) -> list[Effect]:
        """One message of the expected process, on the connection `route`."""
        return self._handle(Event.RECEIVED, now, (route, data))

    def fault(self, kind: WorkerFaultKind, now: float) -> list[Effect]:
        """The transport caught the peer at `kind`."""
        return self._handle(Event.FAULT, now, kind)

    def disconnected(self, now: float) -> list[Effect]:
        """A connection ended."""
        return self._handle(Event.DISCONNECTED, now, WorkerFaultKind.DISCONNECTED)

    def tick(self, now: float) -> list[Effect]:
        """Time passed."""
        return self._handle(Event.TICK, now, None)

    def assign(self, assignment: Assignment, now: float) -> list[Effect]:
        """Give the spare its work. LocalMisuse if it is not a sealed spare; nothing if it has ended meanwhile."""
        return self._handle(Event.ASSIGN, now, assignment)

    def result(self, result: ToolResult, now: float) -> list[Effect]:
        """The open call is settled."""
        return self._handle(Event.RESULT, now, result)

    def forget(self, now: float) -> list[Effect]:
        """The supervisor has ended the worker, or is about to."""
        return self._handle(Event.FORGET, now, None)

    def _handle(self, event: Event, now: float, argument: object) -> list[Effect]:
        return TABLE[(self.state, event)](self, now, argument)

    # --- transitions; each is named in TABLE ---------------------------------------------------------

    def _greet(self, _now: float, pid: object) -> list[Effect]:
        assert isinstance(pid, int)
        self.state = State.GREETING
        return [Read(pid)]

    def _receive(self, now: float, argument: object) -> list[Effect]:
        assert isinstance(argument, tuple)
        route, data = argument
        try:
            return self._frame(route, data, now)
        except WrongVersion:
            return self._cut(now, WorkerFaultKind.WRONG_VERSION)
        except _Fault as fault:
            return self._cut(now, fault.kind)
        except PeerViolation:
            return self._cut(now, WorkerFaultKind.BAD_FRAME)

    def _frame(self, route: bytes, data: bytes, now: float) -> list[Effect]:
        if len(data) > L.MAX_WORKER_TO_BRIDGE:
            raise _Fault(WorkerFaultKind.OVERSIZE)
        if self._route is not None and route != self._route:
            raise _Fault(WorkerFaultKind.WRONG_PHASE)  # a second connection can only begin with a greeting
        frame = _DECODER.decode(data)
        try:
            self._gate.admit(frame)
        except PeerViolation:
            raise _Fault(WorkerFaultKind.WRONG_PHASE) from None
        match frame:
            case Hello():
                return self._hello(route, frame)
            case Sealed():
                self.state = State.SPARE
                return [SealReported(frame.report), *self._alive(self._liveness.start(now), now)]
            case Pong():
                return self._alive(self._liveness.pong(frame.nonce, now), now)
            case ToolCall():
                return self._call(frame, len(data))
            case _:  # the decoder knows no other frame
                assert isinstance(frame, Finish)
                return self._finish(frame, len(data), now)

    def _hello(self, route: bytes, frame: Hello) -> list[Effect]:
        if frame.version != L.WIRE_VERSION:
            raise _Fault(WorkerFaultKind.WRONG_VERSION)
        self._route = route
        self._enter(State.SEALING)
        return [Send(route, Welcome(L.WIRE_VERSION))]

    def _call(self, frame: ToolCall, size: int) -> list[Effect]:
        self._count(size)
        if self.calling:
            raise _Fault(WorkerFaultKind.WRONG_PHASE)
        if frame.call != self._calls + 1 or frame.tool not in WORKER_TOOLS:
            raise _Fault(WorkerFaultKind.BAD_FRAME)
        self._calls = frame.call
        self._open = size
        return [StartCall(self.task, self.generation, frame.call, frame.tool, frame.args)]

    def _finish(self, frame: Finish, size: int, now: float) -> list[Effect]:
        self._count(size)
        if self.calling:
            raise _Fault(WorkerFaultKind.WRONG_PHASE)
        self._enter(State.FINISHING)
        self._liveness.stop(now)
        return [Send(self.route, Finished()), Claimed(self.task, self.generation, frame.claim)]

    def _count(self, size: int) -> None:
        try:
            self._credit.received(size)
        except PeerViolation:
            raise _Fault(WorkerFaultKind.OVERDRAFT) from None

    def _assign(self, _now: float, assignment: object) -> list[Effect]:
        assert isinstance(assignment, Assignment)
        self.task = assignment.task
        self.generation = assignment.generation
        self._enter(State.ASSIGNED)
        return [Send(self.route, Assigned(assignment))]

    def _answer(self, _now: float, result: object) -> list[Effect]:
        assert isinstance(result, ToolResult)
        if not self.calling or result.call != self._calls:
            raise LocalMisuse("a result for a call that is not open")
        granted = self._credit.consumed(self._open) + self._credit.flush()  # nothing else is unread
        self._open = 0
        return [Send(self.route, result), Send(self.route, Credit(granted))]  # what it waits for goes first

    def _check(self, now: float, _argument: object) -> list[Effect]:
        return self._alive(self._liveness.tick(now), now)

    def _alive(self, effects: list[LivenessEffect], now: float) -> list[Effect]:
        out: list[Effect] = []
        for effect in effects:
            if isinstance(effect, SendPing):
                out.append(Send(self.route, Ping(effect.sequence)))
            elif isinstance(effect, PeerSilent):
                out += self._cut(now, WorkerFaultKind.SILENT)
            else:  # a pong that answers no ping of ours
                out += self._cut(now, WorkerFaultKind.BAD_FRAME)
        return out

    def _cut(self, now: float, kind: object) -> list[Effect]:
        assert isinstance(kind, WorkerFaultKind)
        self.state = State.CUT
        self._liveness.stop(now)
        return [Cut(kind)]

    def _end(self, now: float, _argument: object) -> list[Effect]:
        self.state = State.GONE
        self._liveness.stop(now)
        return [Close()]

    def _drop(self, _now: float, _argument: object) -> list[Effect]:
        self.dropped += 1
        return []

    def _nothing(self, _now: float, _argument: object) -> list[Effect]:
        return []

    def _misuse(self, _now: float, _argument: object) -> list[Effect]:
        raise LocalMisuse(f"not in state {self.state.value}")

    def _enter(self, state: State) -> None:
        self.state = state
        self._gate.enter(_PHASES[state])


class _Fault(Exception):
    """A violation whose kind is known where it is found."""

    def __init__(self, kind: WorkerFaultKind) -> None:
        super().__init__(kind.value)
        self.kind = kind


_Transition = Callable[[WorkerLink, float, object], list[Effect]]
_W = WorkerLink


def _row(state: State, *cells: _Transition) -> dict[tuple[State, Event], _Transition]:
    return {(state, event): cell for event, cell in zip(Event, cells, strict=True)}


# fmt: off
TABLE: Final[Mapping[tuple[State, Event], _Transition]] = MappingProxyType({
    #                     SPAWNED     RECEIVED     FAULT        DISCONNECTED  TICK         ASSIGN       RESULT       FORGET
    # Before the pid is known nobody who touches the link can be told from a stranger: events are no fault of the worker.
    **_row(State.PREPARED,  _W._greet,  _W._drop,    _W._nothing, _W._nothing,  _W._nothing, _W._misuse,  _W._misuse,  _W._end),
    **_row(State.GREETING,  _W._misuse, _W._receive, _W._cut,     _W._cut,      _W._nothing, _W._misuse,  _W._misuse,  _W._end),
    **_row(State.SEALING,   _W._misuse, _W._receive, _W._cut,     _W._cut,      _W._nothing, _W._misuse,  _W._misuse,  _W._end),
    **_row(State.SPARE,     _W._misuse, _W._receive, _W._cut,     _W._cut,      _W._check,   _W._assign,  _W._misuse,  _W._end),
    **_row(State.ASSIGNED,  _W._misuse, _W._receive, _W._cut,     _W._cut,      _W._check,   _W._misuse,  _W._answer,  _W._end),
    # Its exit is what we wait for.
    **_row(State.FINISHING, _W._misuse, _W._receive, _W._cut,     _W._nothing,  _W._nothing, _W._misuse,  _W._misuse,  _W._end),
    # A frame for a worker that was cut off may cross our report of it.
    **_row(State.CUT,       _W._nothing, _W._drop,   _W._nothing, _W._nothing,  _W._nothing, _W._nothing, _W._nothing, _W._end),
    **_row(State.GONE,      _W._nothing, _W._drop,   _W._nothing, _W._nothing,  _W._nothing, _W._nothing, _W._nothing, _W._nothing),
})
# fmt: on
