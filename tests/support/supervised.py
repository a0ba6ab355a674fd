"""A real `Supervisor` over stand-in bridges and workers, on a loop in the main thread; helpers to look for leftovers."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import uvloop
from browsercell.protocol.frames import SandboxLevel
from browsercell.protocol.results import BrowserDelegateResult, DelegateRequest
from browsercell.protocol.settings import BridgeSettings
from browsercell.supervisor.core import Supervisor
from browsercell.supervisor.delivery import DirectoryGrant
from browsercell.supervisor.settings import ChromiumSettings, SupervisorSettings
from browsercell.supervisor.spawn import Programs

HERE = Path(__file__).parent
FINISH = msgspec.Raw(b'{"finish": {"status": "completed", "summary": "ok"}}')


def script(name: str, *arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-I", "-B", str(HERE / name), *arguments)


def programs(*, bridge: str = "ok", model: str = "ok", worker: tuple[str, ...] | None = None) -> Programs:
    return Programs(
        bridge=script("fake_bridge.py", "bridge", "--scenario", bridge),
        model=script("fake_bridge.py", "model", "--scenario", model),
        worker=worker or script("fake_worker.py"),
    )


def settings(place: Path, **changes: Any) -> SupervisorSettings:
    made = SupervisorSettings(
        runtime_folder=tempfile.mkdtemp(prefix="r-", dir=os.environ.get("XDG_RUNTIME_DIR")),
        state_folder=str(place / "state"),
        bridge=BridgeSettings(str(place / "state"), port=0),
        chromium=ChromiumSettings(executable="none"),
        pool_size=1,
        min_sandbox=SandboxLevel.UNSANDBOXED,
        allow_unsandboxed=True,
        inspection=True,  # the test process itself must stay debuggable
    )
    return msgspec.structs.replace(made, **changes)


def run(work: Callable[[], Awaitable[Any]]) -> Any:
    """On a loop in this (the main) thread: children are tied to the thread that spawns them."""

    async def main() -> Any:
        return await asyncio.wait_for(work(), 60)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main())


async def delegate(
    supervisor: Supervisor,
    goal: str,
    *,
    directory: DirectoryGrant | None = None,
    session: str = "s-aaaa",
    **fields: Any,
) -> BrowserDelegateResult:
    asked: dict[str, Any] = {"playbook": (FINISH,)} | fields
    request = DelegateRequest(goal=goal, **asked)
    handle = supervisor.delegate(request, directory=directory, session=session, on_progress=lambda *_: None)
    return await handle.result()


def children() -> set[int]:
    """Pids of this process's children, zombies included."""
    found: set[int] = set()
    for thread in os.listdir("/proc/self/task"):
        found |= {int(pid) for pid in Path(f"/proc/self/task/{thread}/children").read_text().split()}
    return found


def descriptors() -> set[str]:
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            found.add(os.readlink(f"/proc/self/fd/{name}"))
        except OSError:
            continue
    return found
