"""The thin client without its sockets: requests in, frames out; frames in, outcomes out.

Invariants: every call id is used once; every call ends exactly once, as an answer, a refusal or a loss; what a host
gets from a lost delegation is an honest `supervisor-restarted` result, since the task may have run.

Pure: no socket, no clock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

import msgspec

from . import frames as f
from . import limits as L
from .answers import parse as parse_answer
from .codec import Decoder, encode
from .errors import (
    ActorRaised,
    BlockerCode,
    BrowsercellError,
    LocalMisuse,
    PeerViolation,
    Unavailable,
    UsageError,
)
from .links import Gate, Link, Phase, frame_types
from .policies import parse_origins
from .results import (
    Actions,
    ArtifactKind,
    Browser,
    BrowserDelegateResult,
    DelegateRequest,
    Deliverable,
    Delivery,
    FreeText,
    Policy,
    SideEffects,
    Status,
    TaskLimits,
)
from .tools import DeliverItem, DeliverRequest, without_value

MAX_OPEN_CALLS: Final = 64  # of one session; the supervisor's own queue is far shorter
USAGE_CODES: Final = frozenset(
    {"invalid-request", "unknown-tool", "not-for-child-sessions", "secret-in-goal"}
)

Progress = Callable[[f.HostProgress], None]


@dataclass(frozen=True, slots=True)
class Answered:
    """A call's JSON answer (HostReply) or a status reply."""

    call: int
    content: bytes
    processes: tuple[f.ProcessInfo, ...] = ()


@dataclass(frozen=True, slots=True)
class Refused:
    """A call that the supervisor refused before anything ran."""

    call: int
    error: BrowsercellError


@dataclass(frozen=True, slots=True)
class Opened:
    """The session is open."""

    session: str
    version: str


Event = Answered | Refused | Opened | f.HostProgress


class ClientCore:
    """One session's requests and answers."""

    def __init__(self) -> None:
        self._decoder: Decoder[Any] = Decoder(frame_types(Link.SUPERVISOR_TO_HOST), L.MAX_HOST_FRAME)
        self._gate = Gate(Link.SUPERVISOR_TO_HOST, Phase.OPEN)
        self._next = 0
        self._open: set[int] = set()

    @property
    def open_calls(self) -> frozenset[int]:
        """Ids of calls without an outcome yet."""
        return frozenset(self._open)

    def open_session(self, kind: f.SessionKind, directory: str) -> bytes:
        """First frame. `directory`: absolute, or "" for a session without deliveries."""
        return encode(f.OpenSession(L.WIRE_VERSION, kind, directory), L.MAX_HOST_FRAME)

    def call(self, tool: str, args: bytes) -> tuple[int, bytes]:
        """A new call of a host tool: (id, frame). Raises LocalMisuse over MAX_OPEN_CALLS open ones."""
        call = self._new_call()
        try:
            return call, encode(f.HostCall(call, tool, args), L.MAX_HOST_FRAME)
        except (
            BrowsercellError
        ):  # nothing was sent, so the id is still free: the supervisor wants them without gaps
            self._open.discard(call)
            self._next -= 1
            raise

    def status(self) -> tuple[int, bytes]:
        """Ask for every process: (id, frame)."""
        call = self._new_call()
        return call, encode(f.StatusRequest(call), L.MAX_HOST_FRAME)

    def cancel(self, call: int) -> bytes:
        """Give a call up; it still gets its one answer."""
        return encode(f.HostCancel(call), L.MAX_HOST_FRAME)

    def new_turn(self) -> bytes:
        return encode(f.NewTurn(), L.MAX_HOST_FRAME)

    def stop_supervisor(self) -> bytes:
        return encode(f.StopSupervisor(), L.MAX_HOST_FRAME)

    def receive(self, data: bytes) -> Event | None:
        """What a frame means; None for an answer to a call that is over. Raises PeerViolation."""
        frame = self._decoder.decode(data)
        self._gate.admit(frame)
        match frame:
            case f.SessionOpened():
                return Opened(frame.session, frame.supervisor_version)
            case f.HostProgress():
                return frame if frame.call in self._open else None
            case f.HostReply():
                return Answered(frame.call, frame.content) if self._settle(frame.call) else None
            case f.StatusReply():
                return (
                    Answered(frame.call, frame.status, frame.processes) if self._settle(frame.call) else None
                )
            case _:  # the table leaves HostFault
                error = fault_error(frame)
                if frame.call == 0:
                    raise error
                return Refused(frame.call, error) if self._settle(frame.call) else None

    def lose_all(self) -> frozenset[int]:
        """The link is gone: the calls that get no answer any more."""
        lost = frozenset(self._open)
        self._open.clear()
        return lost

    def _new_call(self) -> int:
        if len(self._open) >= MAX_OPEN_CALLS:
            raise LocalMisuse(f"more than {MAX_OPEN_CALLS} calls are open in this session")
        self._next += 1
        self._open.add(self._next)
        return self._next

    def _settle(self, call: int) -> bool:
        if call not in self._open:
            return False
        self._open.discard(call)
        return True


def fault_error(fault: f.HostFault) -> BrowsercellError:
    """The exception that a refusal stands for: UsageError, Unavailable, or ActorRaised with the code."""
    if fault.code in USAGE_CODES:
        return UsageError(fault.message, next_step=fault.next_step)
    if fault.code in ("overloaded", "shutting-down", "wrong-version"):
        return Unavailable(fault.message, next_step=fault.next_step)
    return ActorRaised(fault.code, fault.message, next_step=fault.next_step)


def delegate_request(
    goal: str,
    *,
    url: str | None = None,
    constraints: Sequence[str] = (),
    browser: Browser | str = Browser.AUTO,
    deliverables: Sequence[Deliverable | Mapping[str, Any]] = (),
    answer: Mapping[str, Any] | None = None,
    policy: Policy | Mapping[str, Any] | None = None,
    playbook: Sequence[Mapping[str, Any]] | None = None,
    variables: Mapping[str, str] | None = None,
    limits: TaskLimits | Mapping[str, int] | None = None,
    idempotency_key: str | None = None,
) -> DelegateRequest:
    """Builds and checks a request from plain Python values (mappings in camelCase, as on the wire).

    `answer`: a closed JSON-Schema subset (protocol/answers.py) that the result's `answer` follows; `policy`: `origins`,
    `actions` ("read" or "interact"), `freeText` ("allow" or "none"). Raises UsageError naming the field at fault, never a
    value.
    """
    given: dict[str, tuple[Any, Callable[[Any], Any]]] = {
        "goal": (goal, _same),
        "url": (url, _same),
        "constraints": (constraints, list),
        "browser": (browser, str),
        "deliverables": (deliverables, lambda items: [_plain(item) for item in items]),
        "answer": (answer, dict),
        "policy": (policy, _plain),
        "playbook": (playbook, list),
        "variables": (variables, dict),
        "limits": (limits, _plain),
        "idempotencyKey": (idempotency_key, _same),
    }
    raw: dict[str, Any] = {}
    for name, (value, build) in given.items():
        if value is None:
            continue
        try:
            raw[name] = build(value)
        except (TypeError, ValueError):
            raise UsageError(f"the delegation is not valid: {name} is of the wrong kind") from None
    try:
        encoded = msgspec.json.encode(raw)
        request = msgspec.json.decode(encoded, type=DelegateRequest)
        if request.answer is not None:
            parse_answer(request.answer)
        parse_origins(request.policy.origins)
    except (msgspec.ValidationError, TypeError) as error:
        raise UsageError(f"the delegation is not valid: {_with_choices(without_value(str(error)))}") from None
    except UnicodeEncodeError:
        raise UsageError("the delegation is not valid: a text holds a lone surrogate") from None
    if len(encoded) > L.MAX_HOST_FRAME - _ENVELOPE:
        raise UsageError(
            f"the delegation is larger than {L.MAX_HOST_FRAME // L.KIB} KiB",
            next_step="Shorten its goal, playbook or variables, or split the task.",
        )
    return request


OPTIONS: Final = frozenset(delegate_request.__kwdefaults__ or {})
_ENVELOPE: Final = L.KIB  # of a frame around a delegation
_CHOICES: Final[Mapping[str, type[Enum]]] = {
    "browser": Browser,
    "kind": ArtifactKind,
    "actions": Actions,
    "freeText": FreeText,
}


def _same(value: Any) -> Any:
    return value


def _with_choices(reason: str) -> str:
    """The reason, with what is allowed where it is one of a few words."""
    field = reason.rpartition(".")[2].rstrip("`")
    choices = _CHOICES.get(field)
    if choices is None or not reason.startswith("Not one of the allowed values"):
        return reason
    return f"{reason}: give one of {', '.join(str(choice.value) for choice in choices)}"


def _plain(value: Any) -> Any:
    return msgspec.to_builtins(value) if isinstance(value, msgspec.Struct) else dict(value)


def delegate_args(request: DelegateRequest) -> bytes:
    return msgspec.json.encode(request)


def deliver_args(items: Sequence[str | DeliverItem | Mapping[str, Any]]) -> bytes:
    """Arguments of `browser_artifact_deliver` from artifact ids or items. Raises UsageError."""
    raw = [{"artifactId": item} if isinstance(item, str) else _plain(item) for item in items]
    try:
        return msgspec.json.encode(msgspec.convert({"items": raw}, DeliverRequest))
    except msgspec.ValidationError as error:
        raise UsageError(f"the delivery is not valid: {error}") from None


def decode_result(content: bytes) -> BrowserDelegateResult:
    """Raises PeerViolation if the supervisor's answer is no result."""
    result: BrowserDelegateResult = _decode(content, BrowserDelegateResult)
    return result


def decode_deliveries(content: bytes) -> tuple[Delivery, ...]:
    deliveries: tuple[Delivery, ...] = _decode(content, tuple[Delivery, ...])
    return deliveries


def decode_json(content: bytes) -> dict[str, Any]:
    value: dict[str, Any] = _decode(content, dict[str, Any])
    return value


def _decode(content: bytes, kind: Any) -> Any:
    try:
        return msgspec.json.decode(content, type=kind)
    except msgspec.DecodeError as error:
        raise PeerViolation(f"the supervisor's answer does not decode ({type(error).__name__})") from None


def lost_result() -> BrowserDelegateResult:
    """What a delegation ends with when its supervisor is gone (design 4)."""
    return BrowserDelegateResult(
        task_id="task-unknown",
        status=Status.FAILED,
        execution_status=Status.FAILED,
        summary="The supervisor ended while the task was under way.",
        next_step="Check what the task may have done, then delegate again.",
        side_effects=SideEffects.POSSIBLE,
        retryable=True,
        blocker_code=BlockerCode.SUPERVISOR_RESTARTED,
    )
