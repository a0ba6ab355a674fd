"""From a warm spare's assignment to its first inference request, against the creation of a Ray actor.

The product as it is: a real `Supervisor` on a loop of this process, its bridges, sealed spares and model bridge, a real
Chromium whose extension is connected before any task begins, so that no browser is started within the time taken. The
clock starts when the supervisor reports the phase "assigning", which is just before it gives the spare away, and
ends when the scripted endpoint has read the first inference request: both in this process, on CLOCK_MONOTONIC. In between
are AssignModel, ModelAssigned, Assign, Assigned, Infer and the HTTP request on a fresh connection or a kept one.

Ray lives in an environment of its own (`build/ray`, made by `.ci/setup bench`) and is started beside it; rounds alternate.
What is compared is a creation that has to start a process ("cold"), as for us each task has one of its own. A
creation while a prestarted worker process is free is printed too. Without Ray the ratio counts as missed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import uvloop
from browsercell.protocol.frames import TaskPhase
from browsercell.protocol.results import Browser, DelegateRequest, Status
from browsercell.protocol.settings import BridgeSettings, ModelSettings
from browsercell.supervisor.core import Supervisor
from browsercell.supervisor.settings import ChromiumSettings, SupervisorSettings

from tests.bench.harness import Ratio, load, main, median_ratio, missing
from tests.extension.launcher import Chromium
from tests.support.live import private_place
from tests.support.openai_server import OpenAIServer, Reply, Request, finish

GOAL_MS = 5.0
GOAL_RAY = 1 / 50
ROUNDS = 12  # a Ray actor each, which costs half a second and 70 MB
TASKS = 4  # of ours a round: the median of a round stands against its actor
READY_SECONDS = 60.0
RAY = Path(__file__).resolve().parents[2] / "build" / "ray" / "bin" / "python"
RAY_SECONDS = 90.0  # one answer of it


def run() -> list[Ratio]:
    """All ratios of this module; about half a minute."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_measure())


async def _measure() -> list[Ratio]:
    with contextlib.ExitStack() as stack:
        place = stack.enter_context(private_place())
        endpoint = stack.enter_context(OpenAIServer([_answer]))
        ray = stack.enter_context(_ray())
        settings = SupervisorSettings(
            runtime_folder=str(place / "run"),
            state_folder=str(place / "state"),
            bridge=BridgeSettings(str(place / "state"), port=0),
            model=ModelSettings(base_url=endpoint.url, model="scripted"),
            chromium=ChromiumSettings(executable="none"),
        )
        supervisor = Supervisor(settings)
        await supervisor.start()
        try:
            chromium = await _connected(supervisor, place / "state")
            stack.callback(chromium.close)
            await _assigned(supervisor, endpoint)  # the first one opens the model bridge's connection
            ours: list[float] = []
            medians: list[float] = []
            cold: list[float] = []
            for _ in range(ROUNDS):
                if ray is not None:
                    cold.append((await asyncio.to_thread(ray.answer))["cold"])
                some = [await _assigned(supervisor, endpoint) for _ in range(TASKS)]
                ours += some
                medians.append(statistics.median(some))
        finally:
            await supervisor.stop(5.0)
    p50, p90 = statistics.median(ours), statistics.quantiles(ours, n=10)[8]
    rows = [
        Ratio("assign: warm spare to its first request, ms", p50, GOAL_MS, "<=",
              f"p50 {p50:.2f} ms, p90 {p90:.2f} ms, {len(ours)} tasks; {load()}"),
    ]  # fmt: skip
    name = "assign: the same / a Ray actor's creation"
    if ray is None:
        return [*rows, missing(name, GOAL_RAY, "<=", "no Ray in build/ray; run: .ci/setup bench")]
    warm = f"{statistics.median(ray.warm):.0f}" if ray.warm else "?"
    return [
        *rows,
        Ratio(name, median_ratio(medians, cold), GOAL_RAY, "<=",
              f"Ray {ray.version}: {statistics.median(cold):.0f} ms ({min(cold):.0f}-{max(cold):.0f}) with a process to start, "
              f"{warm} ms with a prestarted one free"),
    ]  # fmt: skip


def _answer(_request: Request) -> Reply:
    return finish("Done")


async def _assigned(supervisor: Supervisor, endpoint: OpenAIServer) -> float:
    """One task; milliseconds from its assignment to its first request."""
    await _until_spares(supervisor)
    before = len(endpoint.requests)
    phases: dict[TaskPhase, float] = {}

    def on_progress(phase: TaskPhase, _steps: int, _calls: int, _tool: str, _ok: bool, _ms: int) -> None:
        phases.setdefault(phase, time.monotonic())

    request = DelegateRequest(goal="Finish at once", browser=Browser.CHROME)
    handle = supervisor.delegate(request, directory=None, session="s-bench", on_progress=on_progress)
    result = await handle.result()
    assert result.status is Status.COMPLETED, f"{result.status} {result.blocker_code} {result.summary}"
    (request_seen,) = endpoint.requests[before:]
    return (request_seen.at - phases[TaskPhase.ASSIGNING]) * 1000


async def _until_spares(supervisor: Supervisor) -> None:
    """Wait until the pool is full: a start of a spare beside the measured assignment is another measurement."""
    async with asyncio.timeout(READY_SECONDS):
        while True:
            capacity = supervisor.status()["capacity"]
            if capacity["spares"] == capacity["poolSize"] and not capacity["running"]:
                return
            await asyncio.sleep(0.02)


async def _connected(supervisor: Supervisor, state: Path) -> Chromium:
    """A Chromium whose extension is paired as the user's."""
    async with asyncio.timeout(READY_SECONDS):
        while supervisor.status()["bridge"]["listener"]["state"] != "on":
            await asyncio.sleep(0.02)
        port = supervisor.status()["bridge"]["listener"]["port"]
        token = (state / "pairing-token").read_text().strip()
        chromium = await asyncio.to_thread(Chromium)
        await asyncio.to_thread(chromium.pair, port, token, "user")
        while not supervisor.status()["extension"]["connected"]:
            await asyncio.sleep(0.02)
    return chromium


class _Ray:
    """A running `ray_actor.py`."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        first = self._line()
        self.version: str = first["version"]
        self.warm: list[float] = first["warm"]

    def answer(self) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return self._line()

    def _line(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        decoded: dict[str, Any] = json.loads(self._process.stdout.readline())
        return decoded


@contextlib.contextmanager
def _ray() -> Iterator[_Ray | None]:
    """Ray on this machine alone; None where it is not installed or does not start."""
    if not RAY.is_file():
        yield None
        return
    # A short path: Ray puts sockets deep below it.
    with tempfile.TemporaryDirectory(prefix="bcr-", ignore_cleanup_errors=True) as folder:
        command = [str(RAY), "-I", str(Path(__file__).with_name("ray_actor.py")), folder]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        with process:
            try:
                started: _Ray | None = _Ray(process)
            except ValueError:  # it printed nothing and ended
                started = None
            yield started
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()


if __name__ == "__main__":
    sys.exit(main(run))
