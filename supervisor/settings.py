"""What a supervisor is told at its start: one frozen Struct, decoded and validated once at the edge (style rule 11).

`config.py` builds it from TOML, environment and flags; tests and the demo build it directly. Every number names its
unit and reason. The children's own settings travel on to them over their control links; nothing here is a secret.
Pure: data only.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from msgspec import Meta

from ..protocol import limits as L
from ..protocol.frames import SandboxLevel
from ..protocol.settings import BridgeSettings, ModelSettings, Settings

DEFAULT_BRIDGE_MEMORY = (
    768 * L.MIB
)  # a few 32 MiB extension frames as text, as bytes and decoded, side by side
DEFAULT_MODEL_MEMORY = 512 * L.MIB  # the SDK alone takes 100; surfaces are half a MiB each
DEFAULT_WORKER_MEMORY = 512 * L.MIB  # address space, not resident: 115 of interpreter, the rest budget


class LogLevel(StrEnum):
    """Least severity that is written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogSettings(Settings, frozen=True):
    """`level` of the supervisor's own log. Children log to 0600 files in `<state>/logs`, without content."""

    level: LogLevel = LogLevel.INFO


class ChromiumSettings(Settings, frozen=True):
    """Private Chromium. `executable` empty: searched on PATH; "none": never start one.

    `chromium_no_sandbox` switches Chromium's own sandbox off: every page then runs with the full rights of the
    account. Loud in status and log; for machines that can't give an ordinary user a namespace.
    """

    executable: Annotated[str, Meta(max_length=4096)] = ""
    headless: bool = True
    chromium_no_sandbox: bool = False


class MemorySettings(Settings, frozen=True):
    """Caps in bytes. Bridges: private writable memory (RLIMIT_DATA). Worker: address space (RLIMIT_AS)."""

    bridge: Annotated[int, Meta(ge=128 * L.MIB)] = DEFAULT_BRIDGE_MEMORY
    model_bridge: Annotated[int, Meta(ge=128 * L.MIB)] = DEFAULT_MODEL_MEMORY
    worker: Annotated[int, Meta(ge=192 * L.MIB)] = DEFAULT_WORKER_MEMORY


class LimitSettings(Settings, frozen=True):
    """Budgets of one task (design 8); a request can only lower them."""

    steps: Annotated[int, Meta(ge=1, le=L.MAX_STEPS)] = L.MAX_STEPS
    tool_calls: Annotated[int, Meta(ge=1, le=L.MAX_TOOL_CALLS)] = L.MAX_TOOL_CALLS
    seconds: Annotated[int, Meta(ge=1, le=L.MAX_SECONDS)] = L.MAX_SECONDS


class SupervisorSettings(Settings, frozen=True):
    """All a `Supervisor` needs. Folders are absolute; they are made if missing, 0700 (runtime as root: 0711).

    `pool_size`: sealed spares kept ready. `max_tasks`: delegations that run at once, `max_queue`: that wait behind
    them; more are refused as overloaded. `min_sandbox`: a worker below it is killed. `allow_unsandboxed`: the explicit
    switch without which no page data goes to an unsandboxed worker. `inspection`: the supervisor stays dumpable, so that a
    test of the same user may search its memory; shown in status and doctor.
    """

    runtime_folder: Annotated[str, Meta(min_length=1, max_length=60)]  # + /w/<35>/model stays under 107 bytes
    state_folder: Annotated[str, Meta(min_length=1, max_length=4096)]
    bridge: BridgeSettings
    model: ModelSettings = ModelSettings()
    chromium: ChromiumSettings = ChromiumSettings()
    pool_size: Annotated[int, Meta(ge=1, le=16)] = 2
    max_tasks: Annotated[int, Meta(ge=1, le=16)] = 4
    max_queue: Annotated[int, Meta(ge=0, le=64)] = 8
    memory: MemorySettings = MemorySettings()
    limits: LimitSettings = LimitSettings()
    min_sandbox: SandboxLevel = SandboxLevel.FILTERED
    allow_unsandboxed: bool = False
    inspection: bool = False
    log: LogSettings = LogSettings()
