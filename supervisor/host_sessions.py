"""Host sessions: who may call what, in which order.

Pure: frames in, effects for the shell (hosts.py) out.

    frame --> Session.receive --> effects

Invariants: a session opens once; a call id is used once and counts up; a low-level tool is refused to every host and
a top-only tool to a child session (design 3, two independent layers: this is the receiving end's); a call has at most
one outcome. A host that breaks the protocol loses its session (PeerViolation), and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import msgspec

from ..protocol import frames as f
from ..protocol import limits as L
from ..protocol.errors import PeerViolation
from ..protocol.links import Gate, Link, Phase
from ..protocol.results import Wire
from ..protocol.tools import HOST_TOOLS, WORKER_TOOLS, without_value

MAX_OPEN: Final = 64  # calls of one session without an outcome
MAX_FAULT_CHARS: Final = 300


@dataclass(frozen=True, slots=True)
class Open:
    """The host asks for a session with this working directory ("" : none)."""

    kind: f.SessionKind
    directory: str


@dataclass(frozen=True, slots=True)
class Refuse:
    """Answer with a fault; nothing runs."""

    fault: f.HostFault


@dataclass(frozen=True, slots=True)
class Run:
    """Run a host tool with checked arguments."""

    call: int
    tool: str
    args: Wire


@dataclass(frozen=True, slots=True)
class Reject:
    """A delegation whose input is not valid: a normal, unsuccessful result (design 4)."""

    call: int
    reason: str


@dataclass(frozen=True, slots=True)
class Cancel:
    """The host gave this call up."""

    call: int


@dataclass(frozen=True, slots=True)
class Turn:
    """A new turn begins."""


@dataclass(frozen=True, slots=True)
class Report:
    """Answer with every process."""

    call: int


@dataclass(frozen=True, slots=True)
class Stop:
    """Shut the supervisor down."""


Effect = Open | Refuse | Run | Reject | Cancel | Turn | Report | Stop


class Session:
    """One connection of a host."""

    __slots__ = ("_gate", "_last", "_open", "kind")

    def __init__(self) -> None:
        self._gate = Gate(Link.HOST_TO_SUPERVISOR, Phase.GREETING)
        self._last = 0
        self._open: set[int] = set()
        self.kind = f.SessionKind.TOP

    @property
    def opened(self) -> bool:
        return self._gate.phase is Phase.OPEN

    @property
    def open_calls(self) -> frozenset[int]:
        """Calls without an outcome."""
        return frozenset(self._open)

    def receive(self, frame: Any) -> Effect:
        """What the shell has to do. Raises PeerViolation."""
        self._gate.admit(frame)
        match frame:
            case f.OpenSession():
                return self._enter(frame)
            case f.HostCall():
                return self._call(frame)
            case f.HostCancel():
                return Cancel(frame.call)
            case f.NewTurn():
                return Turn()
            case f.StatusRequest():
                self._begin(frame.call)
                return Report(frame.call)
            case _:  # the table leaves StopSupervisor
                return Stop()

    def settle(self, call: int) -> bool:
        """The call has its outcome; False if it had one before."""
        if call not in self._open:
            return False
        self._open.discard(call)
        return True

    def _enter(self, frame: f.OpenSession) -> Effect:
        if frame.version != L.WIRE_VERSION:
            return Refuse(
                f.HostFault(
                    0,
                    "wrong-version",
                    f"this supervisor speaks wire version {L.WIRE_VERSION}, the host {frame.version}",
                    "Install the same version of browsercell on both sides",
                )
            )
        if frame.directory and not frame.directory.startswith("/"):
            return Refuse(f.HostFault(0, "invalid-request", "the working directory must be an absolute path"))
        self.kind = frame.kind
        self._gate.enter(Phase.OPEN)
        return Open(frame.kind, frame.directory)

    def _begin(self, call: int) -> None:
        if call != self._last + 1:
            raise PeerViolation("call ids count up by one")
        self._last = call
        self._open.add(call)

    def _call(self, frame: f.HostCall) -> Effect:
        self._begin(frame.call)
        tool = HOST_TOOLS.get(frame.tool)
        if tool is None:
            known = frame.tool in WORKER_TOOLS
            why = "is for browser workers, never for hosts" if known else "is not a tool of this supervisor"
            name = frame.tool if known else "that name"
            return self._fault(
                frame.call, "unknown-tool", f"{name} {why}", f"Call one of: {', '.join(HOST_TOOLS)}"
            )
        if tool.top_only and self.kind is f.SessionKind.CHILD:
            return self._fault(
                frame.call, "not-for-child-sessions", f"a child session may not call {tool.name}"
            )
        if len(self._open) > MAX_OPEN:
            return self._fault(
                frame.call, "overloaded", f"this session has more than {MAX_OPEN} calls open", "Wait for some"
            )
        try:
            args = msgspec.json.decode(frame.args, type=tool.args)
        except msgspec.DecodeError as error:
            reason = without_value(str(error))[:MAX_FAULT_CHARS]
            if tool.name == "browser_delegate_task":
                return Reject(frame.call, reason)
            return self._fault(frame.call, "invalid-request", f"{tool.name}: {reason}")
        return Run(frame.call, tool.name, args)

    def _fault(self, call: int, code: str, message: str, next_step: str = "") -> Refuse:
        self._open.discard(call)
        return Refuse(f.HostFault(call, code, message, next_step))
