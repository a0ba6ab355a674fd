"""The machine of one worker's MODEL link: what it may say when, what is granted back, when it is cut off.

    PREPARED --spawned--> GREETING --Hello--> SPARE --assign--> ASSIGNED
       any --fault, violation, silence--> CUT;   any --end of the connection, forget--> GONE

The same rules as on PAGE (bridge/workers.py), with three differences: there is no `Sealed` here, so pings begin after
the greeting; a greeting that does not come within `GREETING_S` is silence; and the end of an assigned worker's connection
is not reported, because a worker whose claim went over PAGE leaves without a word here and the supervisor's pidfd tells.

Invariants: `len(TABLE) == len(State) * len(Event)`; CUT and GONE say nothing any more; at most one inference is open, ids
count up from 1; credit is granted back once for every inference, when it is answered; pongs are not counted, each of
them answers one ping of ours.

Pure: time comes in as monotonic seconds; sends, closes and logs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final

from ...protocol import limits as L
from ...protocol.codec import Decoder, WrongVersion
from ...protocol.credit import ReceiverCredit
from ...protocol.errors import LocalMisuse, PeerViolation
from ...protocol.frames import (
    Credit,
    Frame,
    Hello,
    Infer,
    Inference,
    InferenceFailed,
    Ping,
    Pong,
    Welcome,
    WorkerFaultKind,
)
from ...protocol.links import Gate, Link, Phase, frame_types
from ...protocol.liveness import Effect as LivenessEffect
from ...protocol.liveness import Liveness, PeerSilent, SendPing

GREETING_S: Final = 20.0  # a loaded machine starts an interpreter in a second or two


class State(Enum):
    """Where a worker's link is."""

    PREPARED = "prepared"  # bound, nothing is read
    GREETING = "greeting"
    SPARE = "spare"
    ASSIGNED = "assigned"
    CUT = "cut"
    GONE = "gone"


class Event(Enum):
    SPAWNED = "spawned"
    RECEIVED = "received"
    FAULT = "fault"
    DISCONNECTED = "disconnected"
    TICK = "tick"
    ASSIGN = "assign"
    ANSWER = "answer"
    FORGET = "forget"


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
class Greeted:
    """Tell the supervisor that this link is up."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The worker wants this inference; answer it with `answer`."""

    frame: Infer


@dataclass(frozen=True, slots=True)
class Cut:
    """Close the link now and report the fault."""

    kind: WorkerFaultKind


@dataclass(frozen=True, slots=True)
class Close:
    """Close the link; there is nothing to report."""


Effect = Read | Send | Greeted | Asked | Cut | Close

_DECODER: Final[Decoder[Frame]] = Decoder(frame_types(Link.WORKER_TO_MODEL), L.MAX_WORKER_TO_MODEL)


class _Fault(Exception):
    """A violation whose kind is known where it is found."""

    def __init__(self, kind: WorkerFaultKind) -> None:
        super().__init__(kind.value)
        self.kind = kind


class ModelPeer:
    """One worker's machine."""

    def __init__(self) -> None:
        self.state = State.PREPARED
        self._gate = Gate(Link.WORKER_TO_MODEL, Phase.GREETING)
        self._credit = ReceiverCredit(L.MODEL_CREDIT)
        self._liveness = Liveness(L.PING_MS / 1000, L.PING_MISSES)
        self._greet_by: float | None = None
        self._route: bytes | None = None
        self._calls = 0
        self._open = 0  # bytes of the inference under way, 0: none

    def next_due(self) -> float | None:
        """When `tick` has something to do (monotonic seconds), None if never."""
        return self._liveness.next_due() if self._greet_by is None else self._greet_by

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
        """Time passed; harmless when nothing is due."""
        return self._handle(Event.TICK, now, None)

    def assign(self, now: float) -> list[Effect]:
        """Inferences are allowed from now on. LocalMisuse if it is no spare; nothing if it has ended meanwhile."""
        return self._handle(Event.ASSIGN, now, None)

    def answer(self, frame: Inference | InferenceFailed, now: float) -> list[Effect]:
        """The open inference is settled."""
        return self._handle(Event.ANSWER, now, frame)

    def forget(self, now: float) -> list[Effect]:
        """The supervisor has ended the worker, or is about to."""
        return self._handle(Event.FORGET, now, None)

    def _handle(self, event: Event, now: float, argument: object) -> list[Effect]:
        return TABLE[(self.state, event)](self, now, argument)

    # --- transitions; each is named in TABLE ---------------------------------------------------------

    def _spawned(self, now: float, pid: object) -> list[Effect]:
        assert isinstance(pid, int)
        self.state = State.GREETING
        self._greet_by = now + GREETING_S
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
        if len(data) > L.MAX_WORKER_TO_MODEL:
            raise _Fault(WorkerFaultKind.OVERSIZE)
        if self._route is not None and route != self._route:
            raise _Fault(WorkerFaultKind.WRONG_PHASE)  # a second connection can only begin with a greeting
        frame = _DECODER.decode(data)
        try:
            self._gate.admit(frame)
        except PeerViolation:
            raise _Fault(WorkerFaultKind.WRONG_PHASE) from None
        if isinstance(frame, Hello):
            return self._hello(route, frame, now)
        if isinstance(frame, Pong):
            return self._alive(self._liveness.pong(frame.nonce, now), now)
        assert isinstance(frame, Infer)  # the decoder knows no other frame
        return self._infer(frame, len(data))

    def _hello(self, route: bytes, frame: Hello, now: float) -> list[Effect]:
        if frame.version != L.WIRE_VERSION:
            raise _Fault(WorkerFaultKind.WRONG_VERSION)
        self._route = route
        self._greet_by = None
        self.state = State.SPARE
        self._gate.enter(Phase.SPARE)
        return [Send(route, Welcome(L.WIRE_VERSION)), Greeted(), *self._alive(self._liveness.start(now), now)]

    def _infer(self, frame: Infer, size: int) -> list[Effect]:
        try:
            self._credit.received(size)
        except PeerViolation:
            raise _Fault(WorkerFaultKind.OVERDRAFT) from None
        if self._open:
            raise _Fault(WorkerFaultKind.WRONG_PHASE)
        if frame.call != self._calls + 1:
            raise _Fault(WorkerFaultKind.BAD_FRAME)
        self._calls = frame.call
        self._open = size
        return [Asked(frame)]

    def _assign(self, _now: float, _argument: object) -> list[Effect]:
        self.state = State.ASSIGNED
        self._gate.enter(Phase.ASSIGNED)
        return []

    def _answer(self, _now: float, frame: object) -> list[Effect]:
        assert isinstance(frame, Inference | InferenceFailed)
        if not self._open or frame.call != self._calls:
            raise LocalMisuse("an answer to an inference that is not open")
        granted = self._credit.consumed(self._open) + self._credit.flush()  # nothing else is unread
        self._open = 0
        route = self._route or b""
        return [Send(route, frame), Send(route, Credit(granted))]  # what it waits for goes first

    def _check_greeting(self, now: float, _argument: object) -> list[Effect]:
        late = self._greet_by is not None and now >= self._greet_by
        return self._cut(now, WorkerFaultKind.SILENT) if late else []

    def _check(self, now: float, _argument: object) -> list[Effect]:
        return self._alive(self._liveness.tick(now), now)

    def _alive(self, effects: list[LivenessEffect], now: float) -> list[Effect]:
        out: list[Effect] = []
        for effect in effects:
            if isinstance(effect, SendPing):
                out.append(Send(self._route or b"", Ping(effect.sequence)))
            elif isinstance(effect, PeerSilent):
                out += self._cut(now, WorkerFaultKind.SILENT)
            else:  # a pong that answers no ping
                out += self._cut(now, WorkerFaultKind.BAD_FRAME)
        return out

    def _cut(self, now: float, kind: object) -> list[Effect]:
        assert isinstance(kind, WorkerFaultKind)
        self._leave(State.CUT, now)
        return [Cut(kind)]

    def _end(self, now: float, _argument: object) -> list[Effect]:
        self._leave(State.GONE, now)
        return [Close()]

    def _leave(self, state: State, now: float) -> None:
        self.state = state
        self._greet_by = None
        self._liveness.stop(now)

    def _nothing(self, _now: float, _argument: object) -> list[Effect]:
        return []

    def _misuse(self, _now: float, _argument: object) -> list[Effect]:
        raise LocalMisuse(f"not in state {self.state.value}")


_Transition = Callable[[ModelPeer, float, object], list[Effect]]
_P = ModelPeer


def _row(state: State, *cells: _Transition) -> dict[tuple[State, Event], _Transition]:
    return {(state, event): cell for event, cell in zip(Event, cells, strict=True)}


# fmt: off
TABLE: Final[Mapping[tuple[State, Event], _Transition]] = MappingProxyType({
    #                     SPAWNED      RECEIVED     FAULT        DISCONNECTED  TICK                ASSIGN       ANSWER       FORGET
    # Before the pid is known nobody who touches the link can be told from a stranger: events are no fault of the worker.
    **_row(State.PREPARED, _P._spawned, _P._nothing, _P._nothing, _P._nothing,  _P._nothing,        _P._misuse,  _P._misuse,  _P._end),
    **_row(State.GREETING, _P._misuse,  _P._receive, _P._cut,     _P._cut,      _P._check_greeting, _P._misuse,  _P._misuse,  _P._end),
    **_row(State.SPARE,    _P._misuse,  _P._receive, _P._cut,     _P._cut,      _P._check,          _P._assign,  _P._misuse,  _P._end),
    **_row(State.ASSIGNED, _P._misuse,  _P._receive, _P._cut,     _P._end,      _P._check,          _P._misuse,  _P._answer,  _P._end),
    # What the supervisor says of a worker that has ended may cross our report, and an answer its end.
    **_row(State.CUT,      _P._nothing, _P._nothing, _P._nothing, _P._nothing,  _P._nothing,        _P._nothing, _P._nothing, _P._end),
    **_row(State.GONE,     _P._nothing, _P._nothing, _P._nothing, _P._nothing,  _P._nothing,        _P._nothing, _P._nothing, _P._nothing),
})
# fmt: on
