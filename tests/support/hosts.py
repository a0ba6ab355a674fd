"""A host link with a stand-in for the supervisor behind it, in a thread of its own: for tests of hosts and clients.

The stand-in does what it is told per goal: finish, wait until cancelled, or report progress first. Everything between
the client's call and the stand-in (sockets, frames, sessions) is the product's.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from browsercell.protocol import frames as f
from browsercell.protocol.errors import BlockerCode, UsageError
from browsercell.protocol.places import host_socket
from browsercell.protocol.results import BrowserDelegateResult, DelegateRequest, Delivery, Status
from browsercell.protocol.tools import DeliverRequest
from browsercell.protocol.transport import Links
from browsercell.supervisor.delivery import DirectoryGrant
from browsercell.supervisor.hosts import HostLink, OnProgress

START_SECONDS = 10.0


class Handle:
    """A delegation of the stand-in."""

    def __init__(self, request: DelegateRequest, on_progress: OnProgress) -> None:
        self._cancelled = asyncio.Event()
        self._request = request
        self._on_progress = on_progress

    def cancel(self) -> None:
        self._cancelled.set()

    async def result(self) -> BrowserDelegateResult:
        goal = self._request.goal
        if goal == "fail":
            raise RuntimeError("a fault of the stand-in")
        self._on_progress(f.TaskPhase.RUNNING, 1, 2, "browser_page_click", True, 3)
        if goal == "wait":
            await self._cancelled.wait()
            return BrowserDelegateResult(
                task_id="t",
                status=Status.FAILED,
                execution_status=Status.FAILED,
                blocker_code=BlockerCode.CANCELLED,
            )
        return BrowserDelegateResult(
            task_id="t", status=Status.COMPLETED, execution_status=Status.COMPLETED, summary=goal
        )


class StandIn:
    """What the host link sees as the supervisor."""

    def __init__(self) -> None:
        self.handles: list[Handle] = []
        self.directories: list[DirectoryGrant | None] = []
        self.stops = 0

    def delegate(
        self,
        request: DelegateRequest,
        *,
        directory: DirectoryGrant | None,
        session: str,
        on_progress: OnProgress,
    ) -> Handle:
        assert session
        self.directories.append(directory)
        handle = Handle(request, on_progress)
        self.handles.append(handle)
        return handle

    async def deliver(
        self, request: DeliverRequest, *, session: str, directory: DirectoryGrant | None
    ) -> tuple[Delivery, ...]:
        assert session
        if directory is None:
            raise UsageError("the session has no working directory")
        return tuple(Delivery(item.artifact_id, "p", item.path or "a", True) for item in request.items)

    def status(self) -> dict[str, Any]:
        return {"supervisor": {"state": "running"}}

    def extension_status(self) -> dict[str, Any]:
        return {"connected": []}

    def processes(self) -> tuple[f.ProcessInfo, ...]:
        return (f.ProcessInfo("supervisor", os.getpid(), "running", 1, 2),)


class Served:
    """A running host link; `call` runs something in its loop."""

    def __init__(self, folder: Path, core: StandIn, loop: asyncio.AbstractEventLoop, link: HostLink) -> None:
        self.folder = str(folder)
        self.core = core
        self._loop = loop
        self.link = link

    def call(self, work: Callable[[], Any]) -> Any:
        async def run() -> Any:
            return work()

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(START_SECONDS)

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self.link.close(), self._loop).result(START_SECONDS)


@contextmanager
def serving(folder: Path) -> Iterator[Served]:
    """Serve hosts at `folder` until the block ends."""
    path = Path(host_socket(str(folder)))
    path.parent.mkdir(mode=0o700, parents=True)
    core = StandIn()
    started: list[Served] = []
    ready = threading.Event()
    done = threading.Event()

    async def main() -> None:
        links = Links()

        def on_stop() -> None:
            core.stops += 1

        link = HostLink(core, links, str(path), version="9", on_stop=on_stop)
        started.append(Served(folder, core, asyncio.get_running_loop(), link))
        ready.set()
        while not done.is_set():
            await asyncio.sleep(0.01)
        await link.close()
        links.close()

    thread = threading.Thread(target=lambda: asyncio.run(main()), daemon=True)
    thread.start()
    assert ready.wait(START_SECONDS)
    try:
        yield started[0]
    finally:
        done.set()
        thread.join(START_SECONDS)
