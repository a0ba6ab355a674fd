"""Real children: what they inherit, how they die, how they are seen to die."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browsercell.protocol.errors import LocalMisuse, SpawnError
from browsercell.supervisor import procfs, spawn
from browsercell.supervisor.watch import Watcher, exit_status

SHOW = """
import json, os, signal, sys
fds = {}
for name in os.listdir('/proc/self/fd'):
    try: fds[name] = os.readlink('/proc/self/fd/' + name)
    except OSError: pass
blocked = next(l for l in open('/proc/self/status') if l.startswith('SigBlk')).split()[1]
ignored = next(l for l in open('/proc/self/status') if l.startswith('SigIgn')).split()[1]
print(json.dumps({'fds': fds, 'env': dict(os.environ), 'sid': os.getsid(0) == os.getpid(), 'argv': sys.argv[1:],
                  'blocked': int(blocked, 16), 'ignored': int(ignored, 16)}))
"""
PYTHON = (sys.executable, "-I", "-S", "-B", "-c")


@pytest.fixture
def log(tmp_path: Path) -> Iterator[tuple[Path, int]]:
    path = tmp_path / "child.log"
    descriptor = spawn.open_log(path)
    yield path, descriptor
    os.close(descriptor)


def ended(child: spawn.Spawned) -> int:
    until = time.monotonic() + 10
    while (status := exit_status(child.pidfd)) is None:
        assert time.monotonic() < until, "the child does not end"
        time.sleep(0.005)
    os.waitid(os.P_PIDFD, child.pidfd, os.WEXITED)
    os.close(child.pidfd)
    return status


def show(log: tuple[Path, int], **options: Any) -> dict[str, Any]:
    child = spawn.spawn((*PYTHON, SHOW), environment=spawn.BASE_ENVIRONMENT, output=log[1], **options)
    assert ended(child) == 0
    made: dict[str, Any] = json.loads(log[0].read_text())
    return made


def test_a_child_has_exactly_the_descriptors_environment_and_session_given(log: tuple[Path, int]) -> None:
    leak = os.open("/etc/passwd", os.O_RDONLY)
    os.set_inheritable(leak, True)  # what a shell or a build tool may have left open in us
    read, write = os.pipe()
    try:
        seen = show(log, inherit={3: read})
    finally:
        for descriptor in (leak, read, write):
            os.close(descriptor)
    fds = {name: target for name, target in seen["fds"].items() if not target.endswith("/fd")}
    assert set(fds) == {"0", "1", "2", "3"}
    assert fds["0"] == "/dev/null"
    assert fds["1"] == fds["2"] == str(log[0])
    assert fds["3"].startswith("pipe:")
    env = {name: value for name, value in seen["env"].items() if name != "LC_CTYPE"}  # Python's own coercion
    assert env == dict(spawn.BASE_ENVIRONMENT)
    assert seen["sid"]


def test_a_child_starts_with_default_signals_and_nothing_blocked(log: tuple[Path, int]) -> None:
    before = signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        seen = show(log)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGUSR2, before)
    assert seen["blocked"] == 0
    assert not seen["ignored"] & (1 << (signal.SIGUSR2 - 1))


def test_descriptors_that_cross_arrive_crossed(log: tuple[Path, int], tmp_path: Path) -> None:
    """3 -> 4 and 4 -> 3 at once: a plain dup2 in order would lose one of them."""
    files = [tmp_path / "a", tmp_path / "b"]
    a, b = (os.open(path, os.O_CREAT | os.O_RDWR, 0o600) for path in files)
    low = {3: os.dup(3) if _is_open(3) else None, 4: os.dup(4) if _is_open(4) else None}
    try:
        os.dup2(a, 3)
        os.dup2(b, 4)
        seen = show(log, inherit={3: 4, 4: 3})
    finally:
        for target, saved in low.items():
            if saved is None:
                os.close(target)
            else:
                os.dup2(saved, target, inheritable=False)
                os.close(saved)
        for descriptor in (a, b):
            if descriptor not in low:
                os.close(descriptor)
    assert (seen["fds"]["3"], seen["fds"]["4"]) == (str(files[1]), str(files[0]))


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def test_without_a_log_everything_goes_to_dev_null(tmp_path: Path) -> None:
    out = tmp_path / "out"
    code = f"import os; open({str(out)!r}, 'w').write(os.readlink('/proc/self/fd/1') + os.readlink('/proc/self/fd/2'))"
    assert ended(spawn.spawn((*PYTHON, code), environment={}, output=None)) == 0
    assert out.read_text() == "/dev/null/dev/null"


def test_spawning_leaves_no_descriptor_open_but_the_pidfd(log: tuple[Path, int]) -> None:
    before = set(os.listdir("/proc/self/fd"))
    child = spawn.spawn((*PYTHON, ""), environment={}, output=log[1], inherit={3: log[1]})
    assert len(set(os.listdir("/proc/self/fd")) - before) == 1
    ended(child)
    assert set(os.listdir("/proc/self/fd")) == before


def test_another_thread_than_the_main_one_is_refused() -> None:
    caught: list[BaseException] = []

    def attempt() -> None:
        try:
            spawn.spawn((*PYTHON, ""), environment={}, output=None)
        except LocalMisuse as error:
            caught.append(error)

    thread = threading.Thread(target=attempt)
    thread.start()
    thread.join()
    assert "main thread" in str(caught[0])


def test_a_missing_program_is_a_spawn_error_that_names_no_folder() -> None:
    with pytest.raises(SpawnError, match=r"^nothing-here can't be started \(No such file") as caught:
        spawn.spawn(("/home/somebody/nothing-here",), environment={}, output=None)
    assert "somebody" not in str(caught.value)


@pytest.mark.parametrize("target", [2, 64])
def test_a_childs_descriptor_must_be_in_range(target: int) -> None:
    with pytest.raises(LocalMisuse):
        spawn.spawn((*PYTHON, ""), environment={}, output=None, inherit={target: 0})


def test_a_childs_memory_is_capped() -> None:
    child = spawn.spawn((*PYTHON, "import time; time.sleep(60)"), environment={}, output=None)
    spawn.cap_memory(child.pid, 100 << 20)
    assert resource.prlimit(child.pid, resource.RLIMIT_DATA) == (100 << 20, 100 << 20)
    spawn.kill(child.pidfd)
    assert ended(child) == -9
    with pytest.raises(SpawnError):
        spawn.cap_memory(child.pid, 100 << 20)


def test_a_log_is_private_appended_to_and_begun_anew_when_large(tmp_path: Path) -> None:
    path = tmp_path / "bridge.log"
    for text in (b"one", b"two"):
        descriptor = spawn.open_log(path)
        os.write(descriptor, text)
        os.close(descriptor)
    assert path.read_bytes() == b"onetwo"
    assert path.stat().st_mode & 0o777 == 0o600
    os.truncate(path, spawn.LOG_BYTES + 1)
    os.close(spawn.open_log(path))
    assert path.stat().st_size == 0
    assert path.with_suffix(".old.log").stat().st_size == spawn.LOG_BYTES + 1


def test_a_log_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "x.log").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        spawn.open_log(tmp_path / "x.log")


# ---------------------------------------------------------------------------------------------------- watching


def on_loop(work: Callable[[], Any]) -> Any:
    return asyncio.run(work())


def start(code: str) -> spawn.Spawned:
    return spawn.spawn((*PYTHON, code), environment={}, output=None)


@pytest.mark.parametrize(
    ("code", "status"),
    [("import os; os._exit(7)", 7), ("", 0), ("import os, signal; os.kill(os.getpid(), signal.SIGSYS)", -31)],
)
def test_an_exit_is_seen_once_with_its_status_and_the_zombie_stays_until_reaped(
    code: str, status: int
) -> None:
    async def main() -> None:
        watcher = Watcher()
        seen: list[int] = []
        child = start(code)
        done = asyncio.Event()

        def ended_with(got: int) -> None:
            seen.append(got)
            done.set()

        watcher.watch(child.pidfd, ended_with)
        await asyncio.wait_for(done.wait(), 10)
        await asyncio.sleep(0.05)
        assert seen == [status]
        assert "State:\tZ" in Path(f"/proc/{child.pid}/status").read_text()  # its pid can't be reused yet
        watcher.reap(child.pidfd)
        assert not Path(f"/proc/{child.pid}").exists()

    on_loop(main)


def test_a_death_is_seen_within_milliseconds() -> None:
    async def main() -> list[float]:
        watcher, took = Watcher(), []
        for _ in range(5):
            child = start("import time; time.sleep(60)")
            done: asyncio.Future[float] = asyncio.get_running_loop().create_future()
            watcher.watch(child.pidfd, lambda _status, done=done: done.set_result(time.monotonic()))  # type: ignore[misc]
            begin = time.monotonic()
            spawn.kill(child.pidfd)
            took.append(await asyncio.wait_for(done, 10) - begin)
            watcher.reap(child.pidfd)
        return took

    assert min(on_loop(main)) < 0.05


def test_reaping_a_killed_child_before_its_exit_was_seen_calls_nobody() -> None:
    async def main() -> None:
        watcher = Watcher()
        seen: list[int] = []
        child = start("import time; time.sleep(60)")
        watcher.watch(child.pidfd, seen.append)
        spawn.kill(child.pidfd)
        watcher.reap(child.pidfd)
        await asyncio.sleep(0.05)
        assert seen == []

    on_loop(main)


def test_killing_what_is_dead_is_harmless() -> None:
    child = start("")
    os.waitid(os.P_PIDFD, child.pidfd, os.WEXITED)
    spawn.kill(child.pidfd)
    os.close(child.pidfd)


# ---------------------------------------------------------------------------------------------------- /proc


def test_proc_answers_for_the_living_and_says_nothing_of_the_dead() -> None:
    child = start("import time\nwhile time.process_time() < 0.3: pass\nprint()\ntime.sleep(60)")
    until = time.monotonic() + 10
    while procfs.cpu_seconds(child.pid) < 0.1:
        assert time.monotonic() < until
        time.sleep(0.01)
    assert procfs.resident(child.pid) > 1 << 20
    assert procfs.session_members(child.pid) == [child.pid]
    [seal] = procfs.thread_seals(child.pid)
    assert seal.seccomp == procfs.own_seal().seccomp
    spawn.kill(child.pidfd)
    ended(child)
    assert (procfs.resident(child.pid), procfs.cpu_seconds(child.pid)) == (0, 0.0)
    assert procfs.session_members(child.pid) == []
    assert procfs.thread_seals(child.pid) == []


def test_a_session_counts_all_its_processes() -> None:
    code = "import os, time\nif os.fork() == 0: time.sleep(60)\ntime.sleep(60)"
    child = start(code)
    until = time.monotonic() + 10
    while len(procfs.session_members(child.pid)) < 2:
        assert time.monotonic() < until
        time.sleep(0.01)
    for pid in procfs.session_members(child.pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert ended(child) == -9
