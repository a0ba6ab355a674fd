"""The real process, and what of it can be shown in this one: hardening, exit statuses, log, end with its parent (bridge/process.py, bridge/__main__.py)."""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from browsercell.bridge import __main__ as entry
from browsercell.bridge.process import DEFAULT_MEMORY, MIN_MEMORY, ParentGone, harden, mapped_bytes
from browsercell.protocol import limits as L
from browsercell.protocol.codec import Decoder, encode
from browsercell.protocol.control import ControlPair
from browsercell.protocol.frames import (
    BridgeReady,
    ConfigureBridge,
    Frame,
    Ping,
    Pong,
    PrepareWorker,
    SetupFailed,
    Shutdown,
    WorkerFault,
    WorkerFaultKind,
    WorkerPrepared,
    WorkerSpawned,
)
from browsercell.protocol.links import Link, frame_types
from browsercell.protocol.settings import BridgeSettings

from .harness import FakeHub

SECONDS = 20.0
TOP = str(Path(__file__).parents[2])
DECODER: Decoder[Frame] = Decoder(frame_types(Link.BRIDGE_TO_SUPERVISOR), L.MAX_TO_SUPERVISOR)


class Child:
    """The bridge, started as the supervisor starts it."""

    def __init__(self, tmp_path: Path, *options: str) -> None:
        self.log = tmp_path / "bridge.log"
        self.state = tmp_path / "state"
        self.state.mkdir(mode=0o700, exist_ok=True)
        pair = ControlPair.make()
        self.control: socket.socket = pair.parent
        self.control.setblocking(True)
        self.control.settimeout(SECONDS)
        with open(self.log, "ab", opener=lambda path, flags: os.open(path, flags, 0o600)) as log:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-I", "-B", "-m", "browsercell.bridge"),
                    *("--control-fd", str(pair.child_fd), *options),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[pair.child_fd],
                env={"PATH": os.environ["PATH"]},
            )
        os.close(pair.child_fd)

    def send(self, frame: Frame) -> None:
        self.control.send(encode(frame, L.MAX_FROM_SUPERVISOR))

    def receive(self) -> Frame:
        return DECODER.decode(self.control.recv(L.MAX_TO_SUPERVISOR))

    def configure(self) -> Frame:
        self.send(ConfigureBridge(BridgeSettings(str(self.state), port=0)))
        return self.receive()

    def wait(self) -> int:
        return self.process.wait(SECONDS)

    def events(self) -> list[str]:
        return [json.loads(line)["event"] for line in self.log.read_text().splitlines()]


@pytest.fixture
def child(tmp_path: Path) -> Child:
    return Child(tmp_path, "--parent", str(os.getpid()))


def test_a_bridge_of_its_own(child: Child) -> None:
    ready = child.configure()
    assert isinstance(ready, BridgeReady)
    assert ready.port > 0
    token = (child.state / "pairing-token").read_text().strip()
    pid = child.process.pid
    assert resource.prlimit(pid, resource.RLIMIT_CORE) == (0, 0)
    soft, hard = resource.prlimit(pid, resource.RLIMIT_AS)
    assert soft == hard
    mapped = int(Path(f"/proc/{pid}/statm").read_text().split()[0]) * resource.getpagesize()
    assert mapped < soft < mapped + DEFAULT_MEMORY
    status = Path(f"/proc/{pid}/status").read_text()
    assert "Umask:\t0077" in status
    # Not dumpable: the kernel's, not the user's (run as root, this line can't tell the two apart).
    assert Path(f"/proc/{pid}/environ").stat().st_uid == 0
    os.kill(pid, signal.SIGINT)  # as Ctrl-C does to a whole terminal
    child.send(Ping(5))
    assert child.receive() == Pong(5)
    child.send(Shutdown(2_000))
    assert child.wait() == 0
    assert [event for event in child.events() if event in ("started", "ready", "shutdown")] == [
        "started",
        "ready",
        "shutdown",
    ]
    assert token not in child.log.read_text()


def test_the_end_of_the_control_link_ends_it(child: Child) -> None:
    child.configure()
    child.control.close()
    assert child.wait() == 0
    assert "control-ended" in child.events()


def test_nonsense_ends_it_loudly(child: Child) -> None:
    child.control.send(b"\x01nonsense")
    assert child.wait() == 76
    assert "control-violation" in child.events()


def test_a_state_folder_that_is_not_there(child: Child) -> None:
    child.state.rmdir()
    answer = child.configure()
    assert isinstance(answer, SetupFailed)
    assert answer.errno_name == "ENOENT"
    assert child.wait() == 78


@pytest.mark.parametrize(
    "options",
    [("--memory", str(MIN_MEMORY - 1)), ("--memory", "much"), ("--unknown",), ("--parent", "-1")],
)
def test_usage(tmp_path: Path, options: tuple[str, ...]) -> None:
    child = Child(tmp_path, *options)
    assert child.wait() == 64
    assert child.events() == ["usage"]


def test_another_parent_than_expected(tmp_path: Path) -> None:
    assert Child(tmp_path, "--parent", "1").wait() == 70


def test_readable_only_when_asked_for(tmp_path: Path) -> None:
    child = Child(tmp_path, "--dumpable", "--memory", str(MIN_MEMORY))
    assert isinstance(child.configure(), BridgeReady)
    assert Path(f"/proc/{child.process.pid}/environ").stat().st_uid == os.geteuid()
    child.send(Shutdown(1_000))
    assert child.wait() == 0


def test_it_dies_with_its_parent(tmp_path: Path) -> None:
    """Even stopped, it goes: the kernel's death signal, not its own loop, ends it."""
    code = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "sys.path[:0] = [sys.argv[2]]\n"
        "from tests.bridge.test_process import Child\n"
        "child = Child(Path(sys.argv[1]))\n"
        "child.configure()\n"
        "print(child.process.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path), TOP], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        os.kill(pid, signal.SIGSTOP)
        parent.kill()
    deadline = time.monotonic() + SECONDS
    while _alive(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not _alive(pid)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_out_of_memory_is_an_end_not_a_state(tmp_path: Path) -> None:
    """With the smallest budget, 300 MiB more than there is."""
    code = (
        "import sys\n"
        "from browsercell.bridge.__main__ import main\n"
        "def make_hub(*_, **__):\n"
        "    return bytearray(300 << 20)\n"
        "sys.exit(main(sys.argv[1:], make_hub))\n"
    )
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    pair = ControlPair.make()
    process = subprocess.Popen(
        [sys.executable, "-c", code, "--control-fd", str(pair.child_fd), "--memory", str(MIN_MEMORY)],
        pass_fds=[pair.child_fd],
        stderr=subprocess.PIPE,
    )
    os.close(pair.child_fd)
    pair.parent.send(encode(ConfigureBridge(BridgeSettings(str(state))), L.MAX_FROM_SUPERVISOR))
    _, errors = process.communicate(timeout=SECONDS)
    pair.parent.close()
    assert process.returncode == 70
    assert b"Traceback" not in errors


FLOOD = """
import sys
sys.path[:0] = [sys.argv[2]]
from tests.protocol import zmtp
sock = zmtp.connect(sys.argv[1], timeout=30)
part = zmtp.frame(bytes(65536), zmtp.MORE)
try:
    while True:
        sock.sendall(part)
except ConnectionError:
    sys.exit(3)
"""


def test_a_flood_of_unfinished_messages_ends_at_the_cap(tmp_path: Path) -> None:
    """facts/ipc 1.4: neither marks nor MAXMSGSIZE stop it. At the cap libzmq gets no memory for the next part, drops
    the flooder's connection and frees what it sent; or an allocation of ours fails first, and the bridge ends."""
    child = Child(tmp_path, "--memory", str(MIN_MEMORY))
    child.configure()
    folder = tmp_path / "w"
    folder.mkdir(mode=0o700)
    child.send(PrepareWorker("w_aaaa", str(folder), os.geteuid()))
    assert isinstance(child.receive(), WorkerPrepared)
    peak = 0
    with subprocess.Popen([sys.executable, "-c", FLOOD, str(folder / "page"), TOP]) as flood:
        child.send(WorkerSpawned("w_aaaa", flood.pid))
        deadline = time.monotonic() + SECONDS
        while flood.poll() is None and time.monotonic() < deadline:
            peak = max(peak, _resident(child.process.pid))
            time.sleep(0.002)
        assert flood.returncode == 3  # the connection was ended from this side
    assert MIN_MEMORY // 2 < peak < MIN_MEMORY + 128 * L.MIB
    if child.process.poll() is None:
        assert child.receive() == WorkerFault("w_aaaa", WorkerFaultKind.DISCONNECTED)
        child.send(Ping(1))
        assert child.receive() == Pong(1)
        child.send(Shutdown(1_000))
        assert child.wait() == 0
    else:
        assert child.wait() in (70, -signal.SIGABRT)


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()
    except (FileNotFoundError, ProcessLookupError):
        return 0


class FakeLibc:
    """Records what `harden` asks the C library for; `answer` is prctl's."""

    def __init__(self, answer: int = 0) -> None:
        self.calls: list[tuple[str, int, int]] = []
        self.answer = answer

    def mallopt(self, option: int, value: int) -> int:
        self.calls.append(("mallopt", option, value))
        return 1

    def prctl(self, option: int, value: ctypes.c_ulong, *_: ctypes.c_ulong) -> int:
        self.calls.append(("prctl", option, value.value))
        return self.answer


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> dict[int, tuple[int, int]]:
    """What `harden` would have limited; nothing of this process is changed."""
    seen: dict[int, tuple[int, int]] = {}
    monkeypatch.setattr(resource, "setrlimit", seen.__setitem__)
    monkeypatch.setattr(os, "umask", lambda mask: mask)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    return seen


@pytest.mark.parametrize("dumpable", [False, True])
def test_what_harden_asks_for(
    limits: dict[int, tuple[int, int]], monkeypatch: pytest.MonkeyPatch, dumpable: bool
) -> None:
    libc = FakeLibc()
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: libc)
    before = mapped_bytes()
    ceiling = harden(memory=MIN_MEMORY, parent=os.getppid(), dumpable=dumpable)
    assert before + MIN_MEMORY <= ceiling
    assert limits == {resource.RLIMIT_CORE: (0, 0), resource.RLIMIT_AS: (ceiling, ceiling)}
    assert libc.calls == [("mallopt", -8, 2), ("prctl", 1, signal.SIGKILL), ("prctl", 4, int(dumpable))]


def test_a_lower_ceiling_of_the_machine_stays(
    limits: dict[int, tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: FakeLibc())
    monkeypatch.setattr(resource, "getrlimit", lambda _what: (5, 5))
    assert harden(memory=MIN_MEMORY, parent=0, dumpable=False) == 5
    assert limits[resource.RLIMIT_AS] == (5, 5)


def test_what_harden_refuses(limits: dict[int, tuple[int, int]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: FakeLibc())
    with pytest.raises(ParentGone):
        harden(memory=MIN_MEMORY, parent=os.getpid(), dumpable=False)
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: FakeLibc(-1))
    with pytest.raises(OSError):  # noqa: PT011 - whatever errno says
        harden(memory=MIN_MEMORY, parent=0, dumpable=False)
    assert limits == {}


class Gone(BaseException):
    """In place of the end of this process."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


def test_main_in_this_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def die(status: int) -> None:
        raise Gone(status)

    monkeypatch.setattr(entry, "setup", lambda: None)
    monkeypatch.setattr(entry, "harden", lambda **_: 1)
    monkeypatch.setattr(entry, "_die", die)
    assert entry.main(["--control-fd", "-1"], FakeHub) == 64
    (tmp_path / "state").mkdir(mode=0o700)
    pair = ControlPair.make()
    pair.parent.send(encode(ConfigureBridge(BridgeSettings(str(tmp_path / "state"))), L.MAX_FROM_SUPERVISOR))
    pair.parent.send(encode(Shutdown(1_000), L.MAX_FROM_SUPERVISOR))
    with pytest.raises(Gone) as caught:
        entry.main(["--control-fd", str(pair.child_fd)], FakeHub)
    assert caught.value.status == 0
    pair.parent.close()
    reading, writing = os.pipe()
    assert entry.main(["--control-fd", str(reading)], FakeHub) == 70  # no control link
    os.close(reading)
    os.close(writing)
    monkeypatch.setattr(entry, "harden", _refuse)
    assert entry.main(["--control-fd", "3"], FakeHub) == 70


def _refuse(**_: object) -> int:
    raise ParentGone("gone")
