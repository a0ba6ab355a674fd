"""The process tree as data (style, Erlang/OTP): what each child is, when it is restarted, how it is ended, what it may use.

    supervisor
      bridge         permanent   5 restarts in 60 s, then the supervisor gives up
      model-bridge   permanent   likewise, counted apart
      worker         temporary   one a spare or generation; never restarted, the pool makes fresh ones
      chromium       temporary   one a private browser; never restarted, its task ends

Restart `permanent`: after every exit. `transient`: after an exit other than 0. `temporary`: never.
Invariant: a specification is checked before anything starts (`check_specs`), so policy errors are start-up errors.
Pure: data and its check; starts nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from ..protocol import limits as L
from ..protocol.errors import LocalMisuse
from .settings import MemorySettings

RESTARTS = 5  # within RESTART_PERIOD: a crash a minute is survivable, a crash loop is not
RESTART_PERIOD = 60.0  # seconds
BRIDGE_GRACE = 5.0  # seconds to finish writing artifacts and close
CHROMIUM_GRACE = 0.0  # the bridge has asked it to close before; its profile is thrown away
MIN_MEMORY = 64 * L.MIB  # less does not even hold an interpreter


class Role(StrEnum):
    """What a child is; also the role shown in status."""

    BRIDGE = "bridge"
    MODEL = "model-bridge"
    WORKER = "worker"
    CHROMIUM = "chromium"


class Restart(StrEnum):
    """When an ended child is started again."""

    PERMANENT = "permanent"
    TRANSIENT = "transient"
    TEMPORARY = "temporary"


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """One kind of child. `intensity` restarts within `period` seconds; `shutdown`: seconds between asking it to end
    and SIGKILL (0: at once); `memory`: cap in bytes (0: none of ours)."""

    id: str
    role: Role
    restart: Restart
    intensity: int = 0
    period: float = RESTART_PERIOD
    shutdown: float = 0.0
    memory: int = 0


def process_tree(memory: MemorySettings) -> tuple[ChildSpec, ...]:
    """The tree of this product."""
    return (
        ChildSpec(
            "bridge", Role.BRIDGE, Restart.PERMANENT, RESTARTS, RESTART_PERIOD, BRIDGE_GRACE, memory.bridge
        ),
        ChildSpec(
            "model",
            Role.MODEL,
            Restart.PERMANENT,
            RESTARTS,
            RESTART_PERIOD,
            BRIDGE_GRACE,
            memory.model_bridge,
        ),
        ChildSpec("worker", Role.WORKER, Restart.TEMPORARY, memory=memory.worker),
        ChildSpec("chromium", Role.CHROMIUM, Restart.TEMPORARY, shutdown=CHROMIUM_GRACE),
    )


def check_specs(specs: Sequence[ChildSpec]) -> None:
    """Raises LocalMisuse naming the first specification that makes no sense and why."""
    seen: set[str] = set()
    for spec in specs:
        fault = _fault(spec, seen)
        if fault:
            raise LocalMisuse(f"child specification {spec.id!r}: {fault}")
        seen.add(spec.id)


def _fault(spec: ChildSpec, seen: set[str]) -> str:
    if not spec.id:
        return "it needs an id"
    if spec.id in seen:
        return "its id is taken"
    if spec.intensity < 0 or spec.period <= 0:
        return "intensity is 0 or more restarts in a positive period"
    if spec.restart is Restart.TEMPORARY and spec.intensity:
        return "a temporary child is never restarted"
    if spec.restart is not Restart.TEMPORARY and not spec.intensity:
        return "a restarted child needs an intensity, or one crash ends the supervisor"
    if spec.shutdown < 0:
        return "the shutdown grace is negative"
    if spec.memory and spec.memory < MIN_MEMORY:
        return "the memory cap does not hold an interpreter"
    return ""
