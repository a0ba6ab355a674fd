"""A real `Supervisor` over stand-in bridges and workers, on a loop in the main thread; helpers to look for leftovers."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import uvloop
from browsercell.protocol.frames import SandboxLevel
from browsercell.protocol.results import BrowserDelegateResult, DelegateRequest, Status
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


Work = Callable[[Supervisor], Awaitable[Any]]


def supervise(place: Path, work: Work, *, stand_ins: dict[str, Any] | None = None, **changes: Any) -> None:
    """Run `work` against a started supervisor; afterwards nothing of it may be left."""
    made = settings(place, **changes)
    before = children()

    async def main() -> None:
        supervisor = Supervisor(made, programs(**(stand_ins or {})))
        await supervisor.start()
        try:
            await work(supervisor)
        finally:
            await supervisor.stop(2.0)

    run(main)
    assert children() == before
    nothing_left(made)


def nothing_left(settings: SupervisorSettings) -> None:
    runtime = Path(settings.runtime_folder)
    assert sorted(path.name for path in runtime.iterdir()) == ["b", "lock", "w"]
    assert list((runtime / "w").iterdir()) == list((runtime / "b").iterdir()) == []
    here = {target for target in descriptors() if str(runtime) in target or settings.state_folder in target}
    assert here == set()


def pid_of(supervisor: Supervisor, role: str) -> int:
    return next((row.pid for row in supervisor.processes() if row.role == role), 0)


def gone(pid: int) -> bool:
    try:
        return "State:\tZ" in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return True


async def until(condition: Callable[[], bool], seconds: float = 15.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it does not come about"
        await asyncio.sleep(0.01)


async def next_task_works(supervisor: Supervisor) -> None:
    """As soon as the stand-in extension is connected again; the pool may still be filling."""
    await until(lambda: supervisor.status()["extension"]["connected"] == 1)
    result = await delegate(supervisor, "finish")
    assert result.status is Status.COMPLETED, result
