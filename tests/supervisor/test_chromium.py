"""A private Chromium's folder, command line and environment; the shell that starts and ends it, with a stand-in program."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from browsercell.protocol.errors import Unavailable
from browsercell.supervisor import chromium, messages, procfs
from browsercell.supervisor.browsers import BrowserHooks, Browsers
from browsercell.supervisor.places import Places
from browsercell.supervisor.settings import ChromiumSettings
from browsercell.supervisor.uids import CHROMIUM_BASE, SLOTS
from browsercell.supervisor.watch import Watcher

from tests.support.supervised import run

ROOT = os.geteuid() == 0
SETTINGS = ChromiumSettings()


@pytest.fixture
def extension(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "built"
    (folder / "icons").mkdir(parents=True)
    (folder / "manifest.json").write_text("{}")
    (folder / "icons" / "x.png").write_bytes(b"png")
    monkeypatch.setattr(chromium, "extension_folder", lambda: folder)
    return folder


@pytest.fixture
def places(private_places: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Places:
    """Under a folder that other uids may pass through, as pytest's own may not be."""
    monkeypatch.setattr("browsercell.supervisor.places.MAX_RUNTIME_BYTES", 1000)
    made = Places(private_places / tmp_path.name, tmp_path / "state")
    made.prepare()
    return made


def program(places: Places, text: str) -> str:
    """An executable stand-in that another uid can run."""
    path = places.runtime / f"program-{time.monotonic_ns()}"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_the_lease_folder_is_private_and_holds_a_copy_of_the_extension(
    places: Places, extension: Path
) -> None:
    uid = CHROMIUM_BASE + 100 if ROOT else os.getuid()
    lease = chromium.prepare(places, "b_x", uid)
    assert sorted(p.name for p in lease.folder.iterdir()) == ["extension", "home", "profile", "tmp"]
    assert (lease.folder / "extension" / "icons" / "x.png").read_bytes() == b"png"
    owners = {path.stat().st_uid for path in (lease.folder, *lease.folder.rglob("*"))}
    assert owners == {uid}
    assert lease.folder.stat().st_mode & 0o777 == 0o700
    assert extension.stat().st_uid == os.getuid()


def test_a_lease_folder_that_can_not_be_filled_leaves_nothing(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shutil, "copytree", full)
    monkeypatch.setattr(chromium, "extension_folder", lambda: Path("/"))
    with pytest.raises(Unavailable, match="No space left"):
        chromium.prepare(places, "b_x", os.getuid())
    assert list(places.browsers.iterdir()) == []


def test_the_command_line_drops_the_uid_and_keeps_chromiums_own_sandbox() -> None:
    lease = chromium.Lease(Path("/run/x/b/b_x"), 60_300)
    line = chromium.command_line("/usr/bin/chromium", lease, SETTINGS)
    assert line[1:8] == ("--pdeathsig", "KILL", "--reuid", "60300", "--regid", "60300", "--clear-groups")
    assert line[8] == "/usr/bin/chromium"
    assert "--no-sandbox" not in line
    assert "--disable-dev-shm-usage" in line
    assert line[-2:] == ("--load-extension=/run/x/b/b_x/extension", "about:blank")
    own = chromium.command_line("/usr/bin/chromium", chromium.Lease(Path("/x"), os.getuid()), SETTINGS)
    assert own[1:4] == ("--pdeathsig", "KILL", "/usr/bin/chromium")


def test_switches_of_the_settings() -> None:
    lease = chromium.Lease(Path("/x"), os.getuid())
    assert "--headless=new" in chromium.command_line("/c", lease, SETTINGS)
    loud = ChromiumSettings(headless=False, chromium_no_sandbox=True)
    line = chromium.command_line("/c", lease, loud)
    assert "--no-sandbox" in line
    assert "--headless=new" not in line


def test_the_environment_is_four_names_and_two_more_for_a_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISPLAY", ":7")
    monkeypatch.setenv("SECRET_THING", "x")
    monkeypatch.delenv("XAUTHORITY", raising=False)
    lease = chromium.Lease(Path("/x"), 0)
    assert set(chromium.environment(lease, SETTINGS)) == {"PATH", "LANG", "HOME", "TMPDIR"}
    assert set(chromium.environment(lease, ChromiumSettings(headless=False))) == {
        "PATH",
        "LANG",
        "HOME",
        "TMPDIR",
        "DISPLAY",
    }


def test_without_setpriv_there_is_a_next_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_args, **_kw: None)
    with pytest.raises(Unavailable, match="util-linux"):
        chromium.command_line("/c", chromium.Lease(Path("/x"), 0), SETTINGS)


def test_finding_the_executable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert chromium.find_executable(ChromiumSettings(executable="none")) is None
    assert chromium.find_executable(ChromiumSettings(executable=str(tmp_path / "missing"))) is None
    assert chromium.find_executable(ChromiumSettings(executable="/bin/sh")) == "/bin/sh"
    monkeypatch.setattr(shutil, "which", lambda name, **_kw: "/opt/c" if name == "chromium-browser" else None)
    assert chromium.find_executable(SETTINGS) == "/opt/c"
    monkeypatch.setattr(shutil, "which", lambda *_args, **_kw: None)
    assert chromium.find_executable(SETTINGS) is None


@pytest.mark.parametrize(("zero", "expected"), [(True, messages.NO_NAMESPACES), (False, None)])
def test_switched_off_namespaces_are_told_before_chromium_fails(
    monkeypatch: pytest.MonkeyPatch, zero: bool, expected: object
) -> None:
    monkeypatch.setattr(chromium, "_is_setuid", lambda _path: False)
    monkeypatch.setattr(chromium, "_reads_zero", lambda path: zero and "max_user" in path)
    assert chromium.sandbox_problem(SETTINGS) == expected
    assert chromium.sandbox_problem(ChromiumSettings(chromium_no_sandbox=True)) is None


def test_a_setuid_helper_needs_no_namespaces(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(chromium, "_reads_zero", lambda _path: True)
    monkeypatch.setattr(chromium, "_is_setuid", lambda _path: True)
    assert chromium.sandbox_problem(SETTINGS) is None
    monkeypatch.undo()
    assert not chromium._is_setuid(str(tmp_path / "missing"))
    assert not chromium._reads_zero(str(tmp_path / "missing"))
    (tmp_path / "switch").write_text("0\n")
    assert chromium._reads_zero(str(tmp_path / "switch"))


def test_a_start_failure_is_classified_and_never_quoted(tmp_path: Path) -> None:
    lease = chromium.Lease(tmp_path, 0)
    assert chromium.start_failure(lease) == messages.BROWSER_NOT_STARTED
    lease.log.write_bytes(b"FATAL: No usable sandbox! private words")
    assert chromium.start_failure(lease) == messages.NO_NAMESPACES


# ---------------------------------------------------------------------------------------------------- the shell


class Told:
    def __init__(self) -> None:
        self.spawned: list[tuple[str, int]] = []
        self.failed: list[messages.Sentence] = []
        self.ended: list[messages.Sentence] = []
        self.pipes: list[tuple[int, int]] = []

    def hooks(self) -> BrowserHooks:
        def spawned(task: str, pid: int, descriptors: tuple[int, int]) -> None:
            self.spawned.append((task, pid))
            self.pipes.append((os.dup(descriptors[0]), os.dup(descriptors[1])))

        return BrowserHooks(
            spawned,
            lambda _task, sentence: self.failed.append(sentence),
            lambda _task, sentence: self.ended.append(sentence),
        )


async def until(condition: Any, seconds: float = 10.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it does not come about"
        await asyncio.sleep(0.01)


def browsers(places: Places, told: Told, text: str) -> Browsers:
    settings = ChromiumSettings(executable=program(places, text))
    return Browsers(settings, places, Watcher(), told.hooks())


@pytest.mark.usefixtures("extension")
def test_a_browser_gets_its_pipe_and_nothing_else_and_dies_with_its_whole_session(places: Places) -> None:
    async def main() -> None:
        told = Told()
        shell = browsers(places, told, 'read line <&3; echo "got $line" >&4; (sleep 60 3<&- 4>&-) & sleep 60')
        shell.start("t")
        await until(lambda: told.spawned)
        command, reply = told.pipes[0]
        os.write(command, b"hello\n")
        assert await asyncio.get_running_loop().run_in_executor(None, os.read, reply, 100) == b"got hello\n"
        [(_, pid)] = told.spawned
        fds = {name: os.readlink(f"/proc/{pid}/fd/{name}") for name in os.listdir(f"/proc/{pid}/fd")}
        log = str(next(places.browsers.iterdir()) / "log")
        assert (fds["0"], fds["1"], fds["2"]) == ("/dev/null", log, log)
        assert fds["3"].startswith("pipe:")
        assert fds["4"].startswith("pipe:")
        # The shell has the script open, and now and then a copy of one of the five while it redirects.
        others = {target for target in fds.values() if "program-" not in target}
        assert others == {fds[name] for name in "01234"}
        if ROOT:
            uid = Path(f"/proc/{pid}").stat().st_uid
            assert CHROMIUM_BASE <= uid < CHROMIUM_BASE + SLOTS
        await until(lambda: len(procfs.session_members(pid)) == 3)
        shell.end("t")
        shell.end("t")
        await until(lambda: not shell.browsers)
        assert procfs.session_members(pid) == []
        assert list(places.browsers.iterdir()) == []
        assert (told.failed, told.ended) == ([], [])
        for descriptor in told.pipes[0]:
            os.close(descriptor)
        await shell.close()

    run(main)


@pytest.mark.usefixtures("extension")
def test_a_browser_that_ends_by_itself_is_told_once_and_removed(places: Places) -> None:
    async def main() -> None:
        told = Told()
        shell = browsers(places, told, "echo 'No usable sandbox' >&2; exit 1")
        shell.start("t")
        await until(lambda: told.ended)
        await shell.close()
        assert told.ended == [messages.NO_NAMESPACES]
        assert (shell.browsers, list(places.browsers.iterdir())) == ({}, [])

    run(main)


@pytest.mark.usefixtures("extension")
def test_ending_a_browser_while_its_folder_is_filled_starts_none(places: Places) -> None:
    async def main() -> None:
        told = Told()
        shell = browsers(places, told, "sleep 60")
        shell.start("t")
        shell.end("t")
        await shell.close()
        assert (told.spawned, told.failed, told.ended) == ([], [], [])
        assert (shell.browsers, list(places.browsers.iterdir())) == ({}, [])

    run(main)


@pytest.mark.usefixtures("extension")
def test_a_browser_that_can_not_start_is_told_with_the_reason(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        told = Told()
        shell = Browsers(ChromiumSettings(executable="none"), places, Watcher(), told.hooks())
        shell.start("t")
        await until(lambda: told.failed)
        monkeypatch.setattr(chromium, "command_line", lambda *_: ("/nowhere/at-all",))
        shell = browsers(places, told, "")
        shell.start("t")
        await until(lambda: len(told.failed) == 2)
        monkeypatch.setattr(chromium, "prepare", _refuse)
        shell.start("u")
        await until(lambda: len(told.failed) == 3)
        await shell.close()
        assert told.failed == [
            messages.NO_CHROMIUM, messages.BROWSER_NOT_STARTED, messages.Sentence("The disk is full", "Free some."),
        ]  # fmt: skip
        assert (shell.browsers, list(places.browsers.iterdir())) == ({}, [])

    run(main)


def _refuse(*_: object) -> None:
    raise Unavailable("the disk is full", next_step="Free some.")
