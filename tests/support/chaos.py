"""Ground of the chaos tests: a whole running product, pids that can't be mistaken, and a search for anything left behind.

A process is its pid and its start time, so a recycled pid is never taken for a survivor. What belongs to a run is found
by three ways that do not depend on each other: descent, the kernel's session, and the run's folder in environment,
command line, program, working directory or root. Linux only (/proc); standard library and the product's thin client.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from browsercell.protocol.client import Client
from browsercell.protocol.errors import Unavailable
from browsercell.protocol.frames import HostProgress, ProcessInfo, TaskPhase
from browsercell.protocol.results import BrowserDelegateResult, Status

T = TypeVar("T")

START_S = 40.0  # until a fresh supervisor answers: 1 is usual
GONE_S = 10.0  # until nothing is left of what was killed: 0.3 is usual, a busy machine takes some seconds
LOG_LINES = 60  # of each log shown when a test fails
STEP_S = 0.02  # between two looks
# Names that Chromium gives what it makes outside its profile (base::CreateTemporaryFile, shared memory, singletons).
_CHROMIUM_NAMES = re.compile(r"^\.?(?:org\.chromium|com\.google|chromium|scoped_dir)", re.IGNORECASE)
_SHARED_PLACES = ("/tmp", "/var/tmp", "/dev/shm")

QUICK: tuple[dict[str, Any], ...] = (
    {"tool": "browser_page_navigate", "args": {"url": "${site}/"}},
    {"finish": {"status": "completed", "summary": "The shop's first page was opened"}},
)
# Its wait runs until the shop is released, or half a minute.
HELD: tuple[dict[str, Any], ...] = (
    {"tool": "browser_page_navigate", "args": {"url": "${site}/marker?hold=1&n=200"}},
    {"expect": {"text": "Released"}, "timeout_ms": 30_000},
    {"finish": {"status": "completed", "summary": "The shop has let the page go"}},
)
HELD_CALLS = 1  # settled when the wait begins


# ------------------------------------------------------------------------------------------------ processes


@dataclass(frozen=True)
class Process:
    """A process beyond doubt: `start` in clock ticks after boot."""

    pid: int
    start: int
    name: str = field(compare=False)

    @property
    def alive(self) -> bool:
        """Whether it still runs; a zombie does not."""
        now = _stat(self.pid)
        return now is not None and now.start == self.start and now.state != "Z"

    @property
    def present(self) -> bool:
        """Whether it is still in the process table, a zombie included."""
        now = _stat(self.pid)
        return now is not None and now.start == self.start


@dataclass(frozen=True)
class _Stat:
    pid: int
    name: str
    state: str
    parent: int
    session: int
    start: int


def _stat(pid: int) -> _Stat | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return None
    name, _, rest = text.partition("(")[2].rpartition(")")
    fields = rest.split()
    return _Stat(pid, name, fields[0], int(fields[1]), int(fields[3]), int(fields[19]))


def _all() -> list[_Stat]:
    found = (_stat(int(name)) for name in os.listdir("/proc") if name.isdigit())
    return [stat for stat in found if stat is not None]


def process(pid: int) -> Process:
    """The living process `pid`. Raises ProcessLookupError."""
    stat = _stat(pid)
    if stat is None:
        raise ProcessLookupError(pid)
    return Process(pid, stat.start, stat.name)


def family(root: int) -> frozenset[Process]:
    """`root` and everything below it, by descent and by the sessions of those found (a daemon's child keeps its session)."""
    stats = _all()
    pids = {root}
    while True:
        sessions = {stat.session for stat in stats if stat.pid in pids and stat.session == stat.pid}
        more = {
            stat.pid
            for stat in stats
            if stat.pid not in pids and (stat.parent in pids or stat.session in sessions)
        }
        if not more:
            break
        pids |= more
    return frozenset(Process(stat.pid, stat.start, stat.name) for stat in stats if stat.pid in pids)


def belonging_to(folder: Path, besides: frozenset[int] = frozenset()) -> frozenset[Process]:
    """Every process that names `folder` in environment, command line, program, working directory or root.

    As an ordinary user the undumpable ones of ours can't be read; those are found by descent (`family`).
    """
    mark = str(folder).encode()
    found = set()
    for stat in _all():
        if stat.pid in besides or stat.pid == os.getpid() or stat.state == "Z":
            continue
        if any(mark in text for text in _texts(stat.pid)):
            found.add(Process(stat.pid, stat.start, stat.name))
    return frozenset(found)


def _texts(pid: int) -> Iterator[bytes]:
    for name in ("environ", "cmdline"):
        with contextlib.suppress(OSError):  # ended, or not ours to read
            yield Path(f"/proc/{pid}/{name}").read_bytes()
    for name in ("exe", "cwd", "root"):
        with contextlib.suppress(OSError):
            yield os.fsencode(os.readlink(f"/proc/{pid}/{name}"))


def zombies(parent: int) -> list[str]:
    """Ended children that `parent` has not reaped."""
    return [f"{stat.name} ({stat.pid})" for stat in _all() if stat.parent == parent and stat.state == "Z"]


def kill(target: Process, number: int = signal.SIGKILL) -> None:
    """Signal `target`, by pidfd. Raises AssertionError if it is not there any more: then the test kills nothing."""
    try:
        pidfd = os.pidfd_open(target.pid)
    except ProcessLookupError:
        raise AssertionError(f"{target.name} ({target.pid}) was gone before it was to be killed") from None
    try:
        assert target.alive, f"{target.name} ({target.pid}) was gone before it was to be killed"
        signal.pidfd_send_signal(pidfd, number)
    finally:
        os.close(pidfd)


# ------------------------------------------------------------------------------------------------ descriptors and files


def descriptors(pid: int) -> dict[int, str]:
    """What each open descriptor of `pid` is. Raises OSError (not ours to read, or gone)."""
    folder = f"/proc/{pid}/fd"
    found = {}
    for name in os.listdir(folder):
        with contextlib.suppress(OSError):  # closed since
            found[int(name)] = os.readlink(f"{folder}/{name}")
    return found


def kernel_objects(pid: int) -> frozenset[str]:
    """Sockets and pipes of `pid`: what two processes share if both hold it."""
    return frozenset(text for text in descriptors(pid).values() if text.startswith(("socket:[", "pipe:[")))


def unix_sockets(folder: Path) -> frozenset[str]:
    """Paths of bound sockets below `folder` that some process still holds."""
    lines = Path("/proc/net/unix").read_text().splitlines()[1:]
    paths = (line.split(maxsplit=7)[7] for line in lines if len(line.split(maxsplit=7)) == 8)
    return frozenset(path for path in paths if path.startswith(f"{folder}/"))


def shared_files() -> frozenset[str]:
    """Files in the machine's shared places that Chromium may have made; everything of /dev/shm."""
    found = set()
    for place in _SHARED_PLACES:
        with contextlib.suppress(FileNotFoundError):
            names = os.listdir(place)
            found |= {
                f"{place}/{name}" for name in names if place == "/dev/shm" or _CHROMIUM_NAMES.match(name)
            }
    return frozenset(found)


def owned_by(paths: frozenset[str], uids: frozenset[int]) -> list[str]:
    """Those of `paths` that belong to one of `uids`: other programs of the machine use the same places."""
    found = []
    for path in sorted(paths):
        with contextlib.suppress(FileNotFoundError):
            if os.lstat(path).st_uid in uids:
                found.append(path)
    return found


def uids_of(processes: frozenset[Process]) -> frozenset[int]:
    """The owners of the living ones among `processes`."""
    found = set()
    for one in processes:
        with contextlib.suppress(OSError):
            found.add(os.stat(f"/proc/{one.pid}").st_uid)
    return frozenset(found)


def resident(pid: int) -> int:
    """Bytes of resident memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


# ------------------------------------------------------------------------------------------------ waiting


def until(what: str, look: Callable[[], T], seconds: float = GONE_S) -> T:
    """Look until the answer is true; that answer. Raises AssertionError that says `what` was waited for."""
    deadline = time.monotonic() + seconds
    while True:
        seen = look()
        if seen:
            return seen
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:g} s: {what}")
        time.sleep(STEP_S)


def none_left(
    what: str, look: Callable[[], Sequence[object] | frozenset[Any]], seconds: float = GONE_S
) -> None:
    """Look until nothing is found. Raises AssertionError with what is left."""
    deadline = time.monotonic() + seconds
    while left := look():
        if time.monotonic() > deadline:
            raise AssertionError(f"left after {seconds:g} s: {what}: {sorted(map(str, left))}")
        time.sleep(STEP_S)


def survivors(processes: frozenset[Process]) -> list[str]:
    """Those that still run."""
    return [f"{one.name} ({one.pid})" for one in processes if one.alive]


# ------------------------------------------------------------------------------------------------ the product


class Product:
    """A supervisor of its own with everything in a folder of its own, and a session to look at it. A context manager.

    `settings`: "section.key" to value, above those for loopback. `script`: a program instead of `supervisor run` that
    takes the same arguments (stand-ins for workers). The runtime folder outlives a killed supervisor: `restart`.
    """

    def __init__(
        self, settings: Mapping[str, str] | None = None, script: Sequence[str] | None = None
    ) -> None:
        self.place = Path(tempfile.mkdtemp(prefix="bcx-", dir="/tmp"))
        self.place.chmod(0o711)
        self.runtime = self.place / "run"
        self.state = self.place / "state"
        self._script = tuple(script or (sys.executable, "-B", "-m", "browsercell.supervisor", "run"))
        self._settings = {
            "places.runtime_folder": str(self.runtime),
            "places.state_folder": str(self.state),
            "bridge.port": "0",
            "network.mode": "allowlist",
            "network.allow_cidrs": "127.0.0.0/8",
            "log.level": "debug",
            **(settings or {}),
        }
        self._process: subprocess.Popen[bytes] | None = None
        self._observer: Client | None = None
        self.shared_before = shared_files()
        self.seen: set[Process] = set()  # everything of ours that was ever recorded
        self.uids: set[int] = set()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.discard()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self.stop()
            else:
                self._show_logs()
        finally:
            self.discard()

    # --- life

    def start(self) -> None:
        """Start a supervisor; returns when it answers and its pool is full."""
        arguments = [part for key, value in self._settings.items() for part in ("--set", f"{key}={value}")]
        self._process = subprocess.Popen(
            [*self._script, "--quiet", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        deadline = time.monotonic() + START_S
        while True:
            try:
                self._observer = self.client()
                break
            except Unavailable:
                if self._process.poll() is not None:
                    raise AssertionError(f"the supervisor ended: {self.last_words()}") from None
                assert time.monotonic() < deadline, "the supervisor does not answer"
                time.sleep(STEP_S)
        self.until_idle()

    def restart(self) -> None:
        """A new supervisor in the same folders, after the old one was killed."""
        assert self._process is not None
        self._process.wait(GONE_S)
        self._close_observer()
        self._close_pipe()
        self.start()

    def stop(self) -> int:
        """Ask it to end, as a terminal does; its exit status. Then nothing may be left."""
        assert self._process is not None
        self.record()
        self._close_observer()
        self._process.terminate()
        status = self._process.wait(30)
        self.assert_nothing_left()
        return status

    def discard(self) -> None:
        """End whatever a failed test has left; remove the folder."""
        self._close_observer()
        if self._process is not None:
            if self._process.poll() is None:
                self.record()
                self._process.kill()
                self._process.wait(GONE_S)
            self._close_pipe()
        for one in self.seen:
            with contextlib.suppress(AssertionError, ProcessLookupError):
                if one.alive:
                    kill(one)
        shutil.rmtree(self.place, ignore_errors=True)

    def ended(self, seconds: float = 30.0) -> int:
        """Wait for its own end; the exit status."""
        assert self._process is not None
        return self._process.wait(seconds)

    def last_words(self) -> str:
        """What it wrote to standard error, once it has ended."""
        assert self._process is not None
        assert self._process.stderr is not None
        return self._process.stderr.read(4096).decode("utf-8", "replace")

    def _close_observer(self) -> None:
        observer, self._observer = self._observer, None
        if observer is not None:
            observer.close()

    def _close_pipe(self) -> None:
        if self._process is not None and self._process.stderr is not None:
            self._process.stderr.close()

    def _show_logs(self) -> None:
        """The last lines of every log, which are content-free, for the reader of a failed test."""
        for path in sorted((self.state / "logs").glob("*.log")):
            lines = path.read_text("utf-8", "replace").splitlines()[-LOG_LINES:]
            print(f"--- {path.name}", *lines, sep="\n")

    # --- looking

    @property
    def observer(self) -> Client:
        assert self._observer is not None
        return self._observer

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def client(self, **options: Any) -> Client:
        """A new session. Raises Unavailable."""
        return Client(runtime_folder=str(self.runtime), **options)

    def rows(self, role: str) -> list[ProcessInfo]:
        return [row for row in self.observer.processes() if row.role == role]

    def one(self, role: str) -> Process:
        """The one process of that role; of workers the one at work."""
        rows = [row for row in self.rows(role) if role != "worker" or row.task]
        assert len(rows) == 1, f"{len(rows)} processes are {role}"
        return process(rows[0].pid)

    def record(self) -> frozenset[Process]:
        """Every process of this run at this moment, remembered for the final search."""
        found = family(self.pid)
        self.seen |= found
        self.uids |= uids_of(found)
        return found

    def is_idle(self) -> bool:
        """Bridges ready, pool full of checked spares, no task, no browser, nothing on its way out."""
        status = self.observer.status()
        capacity = status["capacity"]
        states = [row.state for row in self.rows("worker")]
        return (
            status["bridge"]["state"] == status["modelBridge"]["state"] == "ready"
            and capacity["spares"] == capacity["poolSize"] == len(states)
            and capacity["running"] == capacity["queued"] == status["privateBrowser"]["running"] == 0
            and set(states) == {"ready"}
        )

    def until_idle(self, seconds: float = 30.0) -> None:
        until("an idle product with a full pool", self.is_idle, seconds)

    # --- what must not be left

    def assert_only_the_living(self, gone: frozenset[Process]) -> None:
        """After an end: of `gone` nothing runs; folders, sockets and zombies of this run belong to what lives."""
        none_left("processes", lambda: survivors(gone))
        self.until_idle()
        none_left("zombies of the supervisor", lambda: zombies(self.pid))
        folders = len(self.rows("worker"))
        until("one folder a worker", lambda: len(os.listdir(self.runtime / "w")) == folders)
        none_left("profiles", lambda: os.listdir(self.runtime / "b"))
        until("two sockets a worker, one for hosts", lambda: len(self._listening()) == 2 * folders + 1)
        strangers = belonging_to(self.place, frozenset(one.pid for one in self.record()))
        assert not strangers, f"processes outside the supervisor's family: {strangers}"
        self.assert_no_shared_files()

    def _listening(self) -> set[str]:
        return {str(path) for path in self.runtime.rglob("*") if path.is_socket()}

    def assert_nothing_left(self) -> None:
        """After the supervisor's end."""
        none_left("processes", lambda: survivors(frozenset(self.seen)))
        none_left("processes that name the run's folder", lambda: belonging_to(self.place))
        assert not self._listening(), self._listening()
        assert not unix_sockets(self.runtime)
        assert os.listdir(self.runtime / "w") == []
        assert os.listdir(self.runtime / "b") == []
        self.assert_no_shared_files()

    def assert_no_shared_files(self) -> None:
        # As root our Chromiums and workers have uids that nobody else has; root's own files may be any program's.
        uids = frozenset(self.uids - {0}) or frozenset({os.getuid()})
        none_left(
            "files in the machine's shared folders",
            lambda: owned_by(shared_files() - self.shared_before, uids),
        )


# ------------------------------------------------------------------------------------------------ tasks


def running_calls(progress: HostProgress) -> int:
    """How many tool calls of the task are settled; -1 outside of its run."""
    return progress.tool_calls if progress.phase is TaskPhase.RUNNING else -1


def assert_next_task_works(product: Product, site: str) -> None:
    """A short task of a session of its own completes."""
    with product.client() as client:
        result = client.delegate(
            "Open the shop", browser="private", playbook=QUICK, variables={"site": site}, timeout=60
        )
    assert result.status is Status.COMPLETED, described(result)


def described(result: BrowserDelegateResult) -> str:
    """For a failing test."""
    return f"{result.status} {result.blocker_code} {result.side_effects}: {result.summary}"


# ------------------------------------------------------------------------------------------------ numbers


class Timings:
    """Seconds of each run by what was measured, and descriptor counts to find a slope in."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._seconds: dict[str, list[float]] = {}
        self._counts: dict[str, list[int]] = {}

    def add(self, what: str, seconds: float) -> None:
        self._seconds.setdefault(what, []).append(seconds)

    def count(self, what: str, number: int) -> None:
        self._counts.setdefault(what, []).append(number)

    @property
    def counted(self) -> tuple[str, ...]:
        """What was counted at all."""
        return tuple(self._counts)

    def slope(self, what: str) -> float:
        """Per run, by least squares."""
        numbers = self._counts[what]
        if len(numbers) < 2:
            return 0.0
        return statistics.linear_regression(range(len(numbers)), numbers).slope

    def report(self) -> None:
        """Print all of it in one line each (`pytest -s`)."""
        for what, seconds in self._seconds.items():
            ordered = sorted(seconds)
            p95 = ordered[min(len(ordered) - 1, round(0.95 * (len(ordered) - 1)))]
            print(
                f"\n{self.name}: {what}: n={len(ordered)} p50={statistics.median(ordered):.2f} s p95={p95:.2f} s",
                end="",
            )
        for what, numbers in self._counts.items():
            print(
                f"\n{self.name}: descriptors of the {what}: first {numbers[0]}, last {numbers[-1]}, slope {self.slope(what):+.2f} a run",
                end="",
            )
        print()
