"""Permission tables: who may send which frame on which link in which phase (style rule 5).

Phases follow OpenSSH's monitor: a phase change swaps the whole table. A frame that is not in the current
table is a PeerViolation; one flagged ONCE may come once a phase. The tables also make the decoders, so a
frame of another link can't even be parsed.

    PAGE, MODEL (towards the bridges)   greeting -> spare -> assigned -> finishing
    EXTENSION (towards the bridge)      hello -> proof -> ready
    HOST (towards the supervisor)       opening -> open

Control links have one phase each.

Pure: tables and a gate over them.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, Flag, auto
from typing import Final

from . import frames as f
from .errors import PeerViolation


class Link(Enum):
    """Every link, in the direction a table is for: towards the named receiver."""

    BRIDGE_TO_SUPERVISOR = auto()
    SUPERVISOR_TO_BRIDGE = auto()
    MODEL_TO_SUPERVISOR = auto()
    SUPERVISOR_TO_MODEL = auto()
    WORKER_TO_BRIDGE = auto()
    BRIDGE_TO_WORKER = auto()
    WORKER_TO_MODEL = auto()
    MODEL_TO_WORKER = auto()
    HOST_TO_SUPERVISOR = auto()
    SUPERVISOR_TO_HOST = auto()
    EXTENSION_TO_BRIDGE = auto()


class Phase(Enum):
    """Phases; links with a single phase use OPEN."""

    GREETING = auto()
    SPARE = auto()
    ASSIGNED = auto()
    FINISHING = auto()
    PROOF = auto()
    OPEN = auto()


class Allow(Flag):
    """How a frame is permitted."""

    MANY = auto()
    ONCE = auto()


Table = Mapping[type, Allow]
_M, _O = Allow.MANY, Allow.ONCE

TABLES: Final[Mapping[Link, Mapping[Phase, Table]]] = {
    Link.WORKER_TO_BRIDGE: {
        Phase.GREETING: {f.Hello: _O},
        Phase.SPARE: {f.Sealed: _O, f.Pong: _M},
        Phase.ASSIGNED: {f.ToolCall: _M, f.Finish: _O, f.Pong: _M},
        Phase.FINISHING: {f.Pong: _M},
    },
    Link.WORKER_TO_MODEL: {
        Phase.GREETING: {f.Hello: _O},
        Phase.SPARE: {f.Pong: _M},
        Phase.ASSIGNED: {f.Infer: _M, f.Pong: _M},
        Phase.FINISHING: {f.Pong: _M},
    },
    Link.BRIDGE_TO_WORKER: {
        Phase.GREETING: {f.Welcome: _O},
        Phase.SPARE: {f.Ping: _M, f.Assigned: _O},
        Phase.ASSIGNED: {f.Ping: _M, f.ToolResult: _M, f.Credit: _M, f.Finished: _O},
        Phase.FINISHING: {},
    },
    Link.MODEL_TO_WORKER: {
        Phase.GREETING: {f.Welcome: _O},
        Phase.SPARE: {f.Ping: _M},
        Phase.ASSIGNED: {f.Ping: _M, f.Inference: _M, f.InferenceFailed: _M, f.Credit: _M},
        Phase.FINISHING: {},
    },
    Link.SUPERVISOR_TO_BRIDGE: {
        Phase.GREETING: {f.ConfigureBridge: _O},
        Phase.OPEN: {
            f.Ping: _M,
            f.PrepareWorker: _M,
            f.WorkerSpawned: _M,
            f.ForgetWorker: _M,
            f.OpenTask: _M,
            f.BrowserSpawned: _M,
            f.BrowserExited: _M,
            f.Assign: _M,
            f.CloseTask: _M,
            f.Deliver: _M,
            f.Shutdown: _O,
        },
    },
    Link.BRIDGE_TO_SUPERVISOR: {
        Phase.GREETING: {f.BridgeReady: _O, f.SetupFailed: _O},
        Phase.OPEN: {
            f.Pong: _M,
            f.WorkerPrepared: _M,
            f.WorkerSealed: _M,
            f.WorkerForgotten: _M,
            f.WorkerFault: _M,
            f.ExtensionState: _M,
            f.BrowserWanted: _M,
            f.BrowserDone: _M,
            f.TaskOpened: _M,
            f.TaskRefused: _M,
            f.TaskProgress: _M,
            f.TaskGuard: _M,
            f.TaskFinished: _M,
            f.TaskClosed: _M,
            f.Delivered: _M,
            f.DeliveryFailed: _M,
        },
    },
    Link.SUPERVISOR_TO_MODEL: {
        Phase.GREETING: {f.ConfigureModel: _O},
        Phase.OPEN: {
            f.Ping: _M,
            f.PrepareWorker: _M,
            f.WorkerSpawned: _M,
            f.ForgetWorker: _M,
            f.AssignModel: _M,
            f.Shutdown: _O,
        },
    },
    Link.MODEL_TO_SUPERVISOR: {
        Phase.GREETING: {f.ModelReady: _O, f.SetupFailed: _O},
        Phase.OPEN: {
            f.Pong: _M,
            f.WorkerPrepared: _M,
            f.WorkerGreeted: _M,
            f.WorkerForgotten: _M,
            f.WorkerFault: _M,
            f.ModelAssigned: _M,
            f.ModelProgress: _M,
            f.ModelFault: _M,
        },
    },
    Link.HOST_TO_SUPERVISOR: {
        Phase.GREETING: {f.OpenSession: _O},
        Phase.OPEN: {
            f.NewTurn: _M,
            f.HostCall: _M,
            f.HostCancel: _M,
            f.StatusRequest: _M,
            f.StopSupervisor: _M,
        },
    },
    Link.SUPERVISOR_TO_HOST: {
        Phase.OPEN: {
            f.SessionOpened: _M,
            f.HostProgress: _M,
            f.HostReply: _M,
            f.HostFault: _M,
            f.StatusReply: _M,
        },
    },
    Link.EXTENSION_TO_BRIDGE: {
        Phase.GREETING: {f.ExtHello: _O},
        Phase.PROOF: {f.ExtProof: _O},
        Phase.OPEN: {f.ExtReply: _M, f.ExtEvent: _M, f.ExtPong: _M},
    },
}


def frame_types(link: Link) -> tuple[type, ...]:
    """Every frame that may ever come on `link`, in table order (what its decoder must know)."""
    seen: dict[type, None] = {}
    for table in TABLES[link].values():
        seen.update(dict.fromkeys(table))
    return tuple(seen)


class Gate:
    """The current table of one connection.

    `admit(frame)` passes a permitted frame and raises PeerViolation otherwise; `enter(phase)` swaps the table.
    """

    __slots__ = ("_link", "_seen", "phase")

    def __init__(self, link: Link, phase: Phase) -> None:
        self._link = link
        self._seen: set[type] = set()
        self.phase = phase

    def admit(self, frame: object) -> None:
        kind = type(frame)
        allow = TABLES[self._link][self.phase].get(kind)
        if allow is None:
            raise PeerViolation(f"{kind.__name__} is not permitted in phase {self.phase.name.lower()}")
        if allow is Allow.ONCE:
            if kind in self._seen:
                raise PeerViolation(f"{kind.__name__} came twice")
            self._seen.add(kind)

    def enter(self, phase: Phase) -> None:
        self.phase = phase
        self._seen.clear()
