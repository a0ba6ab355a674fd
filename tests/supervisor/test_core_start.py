"""A real supervisor over stand-ins: start, refusals to start, stop, giving up, and what a successor finds."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from browsercell.protocol.errors import BlockerCode as B
from browsercell.protocol.errors import RestartsExhausted, Unavailable
from browsercell.protocol.frames import SandboxLevel
from browsercell.protocol.results import (
    ArtifactKind,
    Deliverable,
)
from browsercell.supervisor import tree
from browsercell.supervisor.core import Supervisor
from browsercell.supervisor.settings import SupervisorSettings

from tests.support import supervised as s
from tests.support.supervised import gone, next_task_works, nothing_left, pid_of, supervise, until

TABLE = Deliverable("prices", ArtifactKind.TABLE, True, "out.csv")
CONTENT = b"name,price\ntea,3\n"


# ---------------------------------------------------------------------------------------------------- start and stop


def test_stopping_ends_running_tasks_with_a_result(tmp_path: Path) -> None:
    results: list[Any] = []

    async def work(supervisor: Supervisor) -> None:
        task = asyncio.ensure_future(s.delegate(supervisor, "hang"))
        await until(lambda: any(row.state == "working" for row in supervisor.processes()))
        await supervisor.stop(2.0)
        results.append(await task)
        results.append(await s.delegate(supervisor, "finish"))

    supervise(tmp_path, work)
    assert [result.blocker_code for result in results] == [B.SUPERVISOR_RESTARTED] * 2


def start_fails(settings: SupervisorSettings, **programs: Any) -> Unavailable:
    before = s.children()

    async def main() -> Unavailable:
        with pytest.raises(Unavailable) as caught:
            await Supervisor(settings, s.programs(**programs)).start()
        return caught.value

    error: Unavailable = s.run(main)
    assert s.children() == before
    return error


def test_a_bridge_that_can_not_use_its_state_says_so_at_the_start(tmp_path: Path) -> None:
    settings = s.settings(tmp_path)
    error = start_fails(settings, bridge="bad-state")
    assert "state folder" in error.message
    assert error.next_step
    nothing_left(settings)


def test_a_bridge_that_keeps_dying_is_given_up_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree, "RESTARTS", 2)
    error = start_fails(s.settings(tmp_path), bridge="exit")
    assert "again and again" in error.message


@pytest.mark.parametrize(
    ("changes", "programs", "words"),
    [
        ({"allow_unsandboxed": False}, {}, "unsandboxed"),
        ({}, {"worker": s.script("fake_worker.py", "--crash"), "bridge": "mute"}, "died:3"),
        ({}, {"worker": ("/nowhere/at-all",)}, "spawn-failed"),
    ],
)
def test_without_a_usable_worker_there_is_no_start(
    tmp_path: Path, changes: dict[str, Any], programs: dict[str, Any], words: str
) -> None:
    error = start_fails(s.settings(tmp_path, **changes), **programs)
    assert words in error.message


def test_a_worker_that_only_claims_to_be_sealed_is_killed_before_any_task(tmp_path: Path) -> None:
    error = start_fails(s.settings(tmp_path, min_sandbox=SandboxLevel.FILTERED), bridge="liar")
    assert "outside-check" in error.message


def test_a_level_below_the_minimum_is_refused(tmp_path: Path) -> None:
    error = start_fails(s.settings(tmp_path, min_sandbox=SandboxLevel.CONTAINED), bridge="liar")
    assert "below-minimum:filtered" in error.message


def test_a_second_supervisor_is_refused_and_harms_nothing(tmp_path: Path) -> None:
    settings = s.settings(tmp_path)

    async def main() -> None:
        first = Supervisor(settings, s.programs())
        await first.start()
        with pytest.raises(Unavailable, match="another supervisor"):
            await Supervisor(settings, s.programs()).start()
        await next_task_works(first)
        await first.stop(2.0)

    s.run(main)


def test_a_bridge_that_keeps_dying_later_is_given_up_loudly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree, "RESTARTS", 1)

    async def work(supervisor: Supervisor) -> None:
        for _ in range(2):
            await until(lambda: supervisor.status()["bridge"]["state"] == "ready")
            os.kill(pid_of(supervisor, "bridge"), signal.SIGKILL)
            await until(lambda: supervisor.status()["bridge"]["state"] != "ready")
        with pytest.raises(RestartsExhausted):
            await asyncio.wait_for(supervisor.gave_up(), 10)
        assert (await s.delegate(supervisor, "finish")).blocker_code is B.BRIDGE_LOST
        assert supervisor.status()["supervisor"]["problem"]

    supervise(tmp_path, work)


def test_reports_name_every_process_and_no_private_thing(tmp_path: Path) -> None:
    async def work(supervisor: Supervisor) -> None:
        rows = supervisor.processes()
        assert sorted(row.role for row in rows) == ["bridge", "model-bridge", "supervisor", "worker"]
        assert all(row.memory > 0 and row.pid > 0 for row in rows)
        text = repr(supervisor.status()) + repr(supervisor.extension_status())
        assert str(tmp_path) not in text
        assert "/tmp" not in text
        assert supervisor.status()["extension"]["connected"] == 1

    supervise(tmp_path, work)


def test_a_dead_spare_is_replaced(tmp_path: Path) -> None:
    async def work(supervisor: Supervisor) -> None:
        spare = pid_of(supervisor, "worker")
        os.kill(spare, signal.SIGKILL)
        await until(
            lambda: supervisor.status()["capacity"]["spares"] == 1 and pid_of(supervisor, "worker") != spare
        )
        await next_task_works(supervisor)

    supervise(tmp_path, work)


def test_when_the_supervisor_is_killed_its_children_die_and_its_successor_sweeps(tmp_path: Path) -> None:
    settings = s.settings(tmp_path)
    code = (
        "import sys, asyncio; sys.path.insert(0, sys.argv[1])\n"
        "from pathlib import Path\nfrom tests.support import supervised as s\n"
        "from browsercell.supervisor.core import Supervisor\nimport msgspec\n"
        "async def main():\n"
        "    settings = msgspec.structs.replace(s.settings(Path(sys.argv[2])), runtime_folder=sys.argv[3])\n"
        "    supervisor = Supervisor(settings, s.programs())\n    await supervisor.start()\n"
        "    task = asyncio.ensure_future(s.delegate(supervisor, 'hang'))\n"
        "    while not any(row.state == 'working' for row in supervisor.processes()): await asyncio.sleep(0.01)\n"
        "    print(*[row.pid for row in supervisor.processes()], flush=True)\n    await task\n"
        "s.run(main)"
    )
    top = str(Path(__file__).parent.parent.parent)
    owner = subprocess.Popen(
        [sys.executable, "-c", code, top, str(tmp_path), settings.runtime_folder],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert owner.stdout is not None
    pids = [int(pid) for pid in owner.stdout.readline().split()]
    assert len(pids) >= 4
    owner.kill()
    owner.wait(10)
    owner.stdout.close()
    end = time.monotonic() + 10
    while not all(gone(pid) for pid in pids):
        assert time.monotonic() < end, "a child outlived its supervisor"
        time.sleep(0.01)
    assert list((Path(settings.runtime_folder) / "w").iterdir())  # nobody of ours was left to remove them

    async def successor() -> None:
        supervisor = Supervisor(settings, s.programs())
        await supervisor.start()
        await next_task_works(supervisor)
        await supervisor.stop(2.0)

    s.run(successor)
    nothing_left(settings)
