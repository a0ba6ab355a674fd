"""What the reports are made from: gathers the supervisor's own tables and /proc into `report.Facts` and process rows.

It asks no child: what it says is what the supervisor knows, with its age. No path, token or URL is in reach here.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field

import msgspec

from ..protocol import frames as f
from ..protocol.bundle import ExtensionMissing, ExtensionUnreadable, bundle_digest, extension_folder
from . import chromium, messages, procfs
from .browsers import Browsers
from .budgets import Admission
from .child import Service
from .keeper import Keeper
from .lifecycle import State
from .pool import Pool
from .report import Bundle, Facts, Part
from .settings import SupervisorSettings


class _Manifest(msgspec.Struct, frozen=True):
    """What is read of the extension's manifest."""

    version: str


@dataclass(slots=True)
class Known:
    """The latest word of each child; None: it is not there."""

    bridge: f.BridgeReady | None = None
    model: f.ModelReady | None = None
    extension: f.ExtensionState | None = None
    extension_since: float = field(default_factory=time.monotonic)
    problem: messages.Sentence | None = None  # why a child was given up

    @property
    def user_extensions(self) -> int:
        """How many are connected in the user's own Chrome."""
        return 0 if self.extension is None else sum(not one.private for one in self.extension.extensions)

    def set_extension(self, state: f.ExtensionState | None) -> None:
        self.extension, self.extension_since = state, time.monotonic()


@dataclass(frozen=True, slots=True)
class Views:
    """References to the parts; `born` in monotonic seconds."""

    settings: SupervisorSettings
    born: float
    known: Known
    bridge: Service
    model: Service
    keeper: Keeper
    browsers: Browsers
    pool: Pool
    admission: Admission

    def processes(self) -> tuple[f.ProcessInfo, ...]:
        """Every process of ours; a private browser's tree as one row with its memory summed."""
        rows = [_row("supervisor", os.getpid(), "running", self.born)]
        for service in (self.bridge, self.model):
            if service.pid:
                role, state = service.spec.role.value, service.state.value
                rows.append(_row(role, service.pid, state, service.since, restarts=service.restarts))
        for worker in self.keeper.workers.values():
            if worker.child is not None:
                level = worker.report.level.value if worker.report is not None else ""
                state = worker.machine.state.value
                rows.append(
                    _row("worker", worker.child.pid, state, worker.born, sandbox=level, task=worker.task)
                )
        sandbox = "off" if self.settings.chromium.chromium_no_sandbox else "chromium"
        for browser in self.browsers.browsers.values():
            if browser.child is not None and browser.lease is not None:
                pid = browser.child.pid
                memory = sum(map(procfs.resident, procfs.family(pid, browser.lease.marker)))
                rows.append(
                    _row(
                        "chromium",
                        pid,
                        "running",
                        browser.born,
                        sandbox=sandbox,
                        task=browser.task,
                        memory=memory,
                    )
                )
        return tuple(rows)

    def bundle(self) -> Bundle | None:
        """The built extension that is at hand; None: there is none, or it can't be read."""
        try:
            folder = extension_folder()
            manifest = msgspec.json.decode((folder / "manifest.json").read_bytes(), type=_Manifest)
            return Bundle(manifest.version, bundle_digest(folder))
        except (ExtensionMissing, ExtensionUnreadable, OSError, msgspec.DecodeError):
            return None

    def facts(self) -> Facts:
        settings, known = self.settings, self.known
        return Facts(
            age_ms=_ago(self.born),
            bridge=_part(self.bridge),
            model=_part(self.model),
            bridge_ready=known.bridge if self.bridge.state is State.READY else None,
            model_ready=known.model if self.model.state is State.READY else None,
            extension=known.extension,
            extension_age_ms=_ago(known.extension_since),
            chromium=chromium.find_executable(settings.chromium) is not None,
            chromium_sandbox=not settings.chromium.chromium_no_sandbox,
            browsers=len(self.browsers.browsers),
            running=self.admission.running,
            max_tasks=settings.max_tasks,
            queued=self.admission.queued,
            max_queue=settings.max_queue,
            spares=self.pool.ready,
            pool_size=settings.pool_size,
            seal=self.keeper.level,
            minimum=settings.min_sandbox.value,
            refusal=self.keeper.refusal,
            incidents=self.keeper.incidents,
            inspection=settings.inspection,
            problem=known.problem,
        )


def _part(service: Service) -> Part:
    return Part(service.state.value, _ago(service.since), service.restarts, service.reason)


def _ago(since: float) -> int:
    return max(int((time.monotonic() - since) * 1000), 0)


def _row(
    role: str,
    pid: int,
    state: str,
    since: float,
    *,
    sandbox: str = "",
    task: str = "",
    restarts: int = 0,
    memory: int | None = None,
) -> f.ProcessInfo:
    resident = procfs.resident(pid) if memory is None else memory
    return f.ProcessInfo(role, pid, state, _ago(since), resident, sandbox, task, restarts)
