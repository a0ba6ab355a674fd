"""The shell of one bridge, over small real programs: what it does when they are late, silent, broken or missing."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from browsercell.protocol.errors import PeerViolation
from browsercell.protocol.frames import BridgeReady, ConfigureBridge, ForgetWorker, Frame, Pong
from browsercell.protocol.links import Link
from browsercell.protocol.settings import BridgeSettings
from browsercell.supervisor import child as module
from browsercell.supervisor import messages
from browsercell.supervisor.child import Service, ServiceHooks
from browsercell.supervisor.lifecycle import State
from browsercell.supervisor.tree import ChildSpec, Restart, Role
from browsercell.supervisor.watch import Watcher

from tests.support.supervised import run, script

SPEC = ChildSpec("bridge", Role.BRIDGE, Restart.PERMANENT, 2, 60.0, 0.3, 256 << 20)
SLEEP = (sys.executable, "-I", "-S", "-c", "import time; time.sleep(60)")


class Told:
    def __init__(self) -> None:
        self.ready: list[Frame] = []
        self.frames: list[Frame] = []
        self.lost = 0
        self.failed: list[messages.Sentence] = []
        self.judge: Callable[[Frame], None] = self.frames.append

    def lose(self) -> None:
        self.lost += 1

    def service(self, place: Path, command: tuple[str, ...], spec: ChildSpec = SPEC) -> Service:
        hooks = ServiceHooks(
            self.ready.append, lambda frame: self.judge(frame), self.lose, self.failed.append
        )
        configure = ConfigureBridge(BridgeSettings(str(place)))
        return Service(
            spec,
            command,
            place / "bridge.log",
            lambda: configure,
            Link.BRIDGE_TO_SUPERVISOR,
            Watcher(),
            hooks,
        )


async def until(condition: Callable[[], bool], seconds: float = 15.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it does not come about"
        await asyncio.sleep(0.01)


def test_an_ordinary_child_is_ready_answers_and_stops_politely(tmp_path: Path) -> None:
    async def main() -> None:
        told = Told()
        service = told.service(tmp_path, script("fake_bridge.py", "bridge"))
        assert not service.send(ForgetWorker("w_" + "a" * 26))  # not started
        service.start()
        await until(lambda: service.ready)
        assert told.ready == [BridgeReady(17321)]
        assert service.send(ForgetWorker("w_" + "a" * 26))
        await until(lambda: len(told.frames) == 2)  # its extension's state, and the answer
        pid = service.pid
        limits = Path(f"/proc/{pid}/limits").read_text()
        assert str(256 << 20) in next(
            line for line in limits.splitlines() if line.startswith("Max data size")
        )
        await service.stop(2.0)
        assert (service.state, service.pid, told.lost, service.restarts) == (State.STOPPED, 0, 0, 0)
        assert not Path(f"/proc/{pid}").exists()
        await service.stop(2.0)

    run(main)


def test_a_child_that_says_nothing_is_killed_and_given_up_after_its_restarts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "START", 0.1)

    async def main() -> None:
        told = Told()
        service = told.service(tmp_path, SLEEP)
        service.start()
        await until(lambda: bool(told.failed))
        assert (service.state, told.lost, service.restarts) == (State.FAILED, 3, 2)
        assert service.reason == "it was not ready in time"
        await service.stop(0.0)

    run(main)


def test_a_missing_program_is_tried_again_and_told(tmp_path: Path) -> None:
    async def main() -> None:
        told = Told()
        service = told.service(tmp_path, ("/nowhere/at-all",))
        service.start()
        await until(lambda: bool(told.failed))
        assert "at-all can't be started" in told.failed[0].happened
        assert told.failed[0].next_step

    run(main)


def test_an_unwritable_log_is_told(tmp_path: Path) -> None:
    (tmp_path / "bridge.log").mkdir()

    async def main() -> None:
        told = Told()
        service = told.service(tmp_path, SLEEP)
        service.start()
        await until(lambda: bool(told.failed))
        assert "Is a directory" in told.failed[0].happened

    run(main)


def test_a_stop_in_the_middle_of_the_start_ends_it(tmp_path: Path) -> None:
    async def main() -> None:
        told = Told()
        service = told.service(tmp_path, SLEEP)
        service.start()
        await service.stop(5.0)
        assert service.state is State.STOPPED

    run(main)


def test_a_child_that_ignores_the_polite_stop_is_killed_after_its_grace(tmp_path: Path) -> None:
    async def main() -> None:
        told = Told()
        service = told.service(tmp_path, script("fake_bridge.py", "bridge", "--scenario", "stubborn"))
        service.start()
        await until(lambda: service.ready)
        begin = time.monotonic()
        await service.stop(5.0)
        assert 0.25 < time.monotonic() - begin < 3.0  # its own grace of 0.3 s, not the 5 s allowed

    run(main)


@pytest.mark.parametrize("way", ["judged", "punished"])
def test_a_frame_that_is_judged_bad_ends_the_child_and_a_fresh_one_comes(tmp_path: Path, way: str) -> None:
    async def main() -> None:
        told = Told()
        service = told.service(tmp_path, script("fake_bridge.py", "bridge"))

        def refuse(_frame: Frame) -> None:
            told.judge = told.frames.append  # the first one only
            raise PeerViolation("no honest bridge says that")

        if way == "judged":
            told.judge = refuse
        service.start()
        if way == "punished":
            await until(lambda: service.ready)
            service.punish("it hangs")
        await until(lambda: told.lost == 1)
        await until(lambda: service.ready and len(told.ready) == 2)
        assert service.restarts == 1
        await service.stop(1.0)

    run(main)


def test_a_pong_that_answers_nothing_is_a_violation(tmp_path: Path) -> None:
    async def main() -> None:
        told = Told()
        service = told.service(tmp_path, script("fake_bridge.py", "bridge"))
        service.start()
        await until(lambda: service.ready)
        service._received(b"\x01" + _encoded(Pong(999)), [])
        await until(lambda: told.lost == 1)
        await service.stop(1.0)

    run(main)


def _encoded(frame: Frame) -> bytes:
    import msgspec

    return msgspec.msgpack.encode(frame)


def test_a_child_that_does_not_read_is_taken_for_hung(tmp_path: Path) -> None:
    async def main() -> None:
        told = Told()
        service = told.service(tmp_path, script("fake_bridge.py", "bridge"))
        service.start()
        await until(lambda: service.ready)
        pid = service.pid
        subprocess.run(["kill", "-STOP", str(pid)], check=True)
        frame = ForgetWorker("w_" + "a" * 26)
        while service.send(frame):
            pass
        await until(lambda: told.lost == 1)
        await until(lambda: service.ready)
        await service.stop(1.0)

    run(main)


HARDEN = """
import ctypes, json, os, resource, sys
from browsercell.supervisor.harden import harden
resource.setrlimit(resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
harden(inspection=sys.argv[1] == "on")
old = os.umask(0)
print(json.dumps({"dumpable": ctypes.CDLL(None).prctl(3, 0, 0, 0, 0), "umask": old,
                  "core": resource.getrlimit(resource.RLIMIT_CORE)[1],
                  "files": resource.getrlimit(resource.RLIMIT_NOFILE)[0]}))
"""


@pytest.mark.parametrize(("inspection", "dumpable"), [("off", 0), ("on", 1)])
def test_the_supervisor_protects_its_memory_unless_it_is_to_be_inspected(
    inspection: str, dumpable: int
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", HARDEN, inspection], capture_output=True, text=True, check=True, timeout=30
    )
    seen: dict[str, Any] = json.loads(done.stdout)
    assert seen["dumpable"] == dumpable
    assert (seen["umask"], seen["core"]) == (0o077, 0)
    assert seen["files"] > 256
