"""Every fault of the ground is one line on standard error with the next step, the right exit code, and no traceback."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from browsercell.protocol.errors import BlockerCode, Unavailable
from browsercell.protocol.results import Status
from browsercell.supervisor.demo.server import Bookshop

from tests.support.apps.process import free_port
from tests.support.live import (
    LOOPBACK,
    Live,
    cli,
    done,
    navigate,
    observe,
    own_settings,
    own_supervisor,
    private_place,
    said,
    sets,
)

ROOT = os.geteuid() == 0
CLONE_NEWNS = 0x00020000  # sched.h: a mount table of one's own
MS_REC_PRIVATE = 0x4000 | 0x40000  # mount.h: MS_REC | MS_PRIVATE
QUICK = 45.0  # seconds: no command here runs a task


@pytest.fixture
def place() -> Iterator[Path]:
    with private_place() as folder:
        yield folder


def one_line(done: subprocess.CompletedProcess[str], code: int, *words: str) -> str:
    """The only line of standard error, checked."""
    assert done.returncode == code, done
    assert "Traceback" not in done.stderr + done.stdout
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("supervisor: ")
    for word in words:
        assert word in lines[0], lines[0]
    return lines[0]


def run(place: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    """`supervisor run` that is expected to refuse."""
    own = own_settings(
        place, {**LOOPBACK, **{key.replace("__", "."): value for key, value in settings.items()}}
    )
    return cli("run", *sets(own), runtime=f"{place}/run", timeout=QUICK)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[network]\nmode = 'open'\n", ("network.mode",)),
        ("[network]\nmoode = 'strict'\n", ("moode", "did you mean mode")),
        ("[netwrk]\n", ("netwrk", "did you mean network")),
        ("[bridge]\nport = 70000\n", ("bridge.port",)),
        ("[model]\nbase_url = 'http://example.com/v1'\nmodel = 'x'\n", ("model.base_url", "https")),
        ("not toml at all", ("TOML",)),
    ],
)
@pytest.mark.parametrize("command", [("run",), ("config", "check"), ("delegate", "Look")])
def test_a_bad_configuration_is_named(
    place: Path, text: str, words: tuple[str, ...], command: tuple[str, ...]
) -> None:
    file = place / "bad.toml"
    file.write_text(text)
    line = one_line(cli(*command, "--config", str(file), runtime=f"{place}/run", timeout=QUICK), 2, *words)
    assert "bad.toml" in line


def test_a_bad_variable_and_a_missing_file_are_named(place: Path) -> None:
    wrong = cli("run", runtime=f"{place}/run", timeout=QUICK, env={"BROWSERCELL_BRIDGE_PORT": "many"})
    one_line(wrong, 2, "BROWSERCELL_BRIDGE_PORT", "bridge.port")
    missing = cli("run", "--config", f"{place}/none.toml", runtime=f"{place}/run", timeout=QUICK)
    one_line(missing, 2, "there is no configuration file")


def test_no_supervisor_is_said_with_what_to_do(place: Path) -> None:
    one_line(
        cli("status", runtime=f"{place}/run", timeout=QUICK), 3, "no supervisor answers", "supervisor run"
    )


def test_a_second_supervisor_on_the_same_folder_is_refused(live: Live) -> None:
    again = cli("run", *sets(live.settings), runtime=live.runtime, timeout=QUICK)
    one_line(again, 3, "supervisor")
    with live.client() as client:
        assert client.supervisor_pid is None
        assert client.status()["supervisor"]["state"] == "running"


def test_a_runtime_path_that_is_too_long_is_refused(place: Path) -> None:
    deep = place / ("d" * 50)
    refused = cli("run", *sets(own_settings(place, LOOPBACK)), runtime=f"{deep}/run", timeout=QUICK)
    one_line(refused, 2, "60 bytes", "places.runtime_folder")
    assert not deep.exists()


def test_a_taken_port_is_said_by_whom_and_private_browsers_go_on(place: Path, bookshop: Bookshop) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with own_supervisor({**LOOPBACK, "bridge.port": str(port)}, place) as live, live.client() as client:
            listener = client.status()["bridge"]["listener"]
            assert listener["state"] == "taken"
            assert listener["ownerPid"] == os.getpid()
            assert "port" in listener["nextStep"]
            assert client.extension_status()["nextStep"]
            result = client.delegate(
                "Look", browser="private", playbook=[navigate(f"{bookshop.url}/"), observe(), done()]
            )
            assert result.status is Status.COMPLETED, said(result)
            shown = cli("status", runtime=live.runtime, timeout=QUICK)
            assert shown.returncode == 0
            assert str(os.getpid()) in shown.stdout


def test_a_missing_chromium_is_a_result_with_the_next_step(place: Path) -> None:
    settings = {**LOOPBACK, "chromium.executable": "/nonexistent/chromium"}
    with own_supervisor(settings, place) as live:
        with live.client() as client:
            assert client.status()["privateBrowser"]["available"] is False
            result = client.delegate("Look", browser="private", playbook=[observe(), done()])
        assert (result.status, result.blocker_code) == (Status.BLOCKED, BlockerCode.BROWSER_UNAVAILABLE), (
            said(result)
        )
        assert "chromium" in (result.next_step or "").lower()
        assert result.usage.generations == 0
        book = place / "book.json"
        book.write_text('[{"finish": {"status": "completed", "summary": "Done"}}]')
        shown = cli("delegate", "Look", "--playbook", str(book), runtime=live.runtime, timeout=QUICK)
        assert shown.returncode == 3, shown
        assert "Traceback" not in shown.stderr


def test_a_state_folder_that_can_not_be_used_is_named(place: Path) -> None:
    state = place / "state"
    state.mkdir(mode=0o700)
    if ROOT:  # nothing is unreadable to root; a folder of another user is not to be trusted either
        os.chown(state, 65_534, 65_534)
    else:
        (place / "up").mkdir()
        state = place / "up" / "state"
        (place / "up").chmod(0o500)
    refused = run(place, places__state_folder=str(state))
    one_line(refused, 3, str(state))
    if not ROOT:
        (place / "up").chmod(0o700)


def test_a_file_where_the_state_folder_should_be_is_named(place: Path) -> None:
    (place / "state").write_text("a file")
    one_line(run(place), 3, "state")


def small_disk(folder: Path) -> None:
    """Runs in the child: a file system of 64 KiB over `folder`, seen by this process and its children only."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) or libc.mount(b"none", b"/", None, MS_REC_PRIVATE, None):
        raise OSError(ctypes.get_errno(), "no mount table of one's own")
    if libc.mount(b"tmpfs", bytes(folder), b"tmpfs", 0, b"size=16k,mode=0700"):
        raise OSError(ctypes.get_errno(), "no small file system")
    (folder / "ballast").write_bytes(bytes(12 << 10))


def test_a_full_disk_is_said_in_one_line(place: Path) -> None:
    if not ROOT:
        pytest.skip(
            "a file system of its own size needs root; the limit itself is the kernel's, not the user's"
        )
    state = place / "state"
    state.mkdir(mode=0o700)
    own = own_settings(place, LOOPBACK)
    refused = cli(
        "run", *sets(own), runtime=f"{place}/run", timeout=QUICK, preexec_fn=lambda: small_disk(state)
    )
    one_line(refused, 3, "disk", "Free some space")


def test_a_client_reports_the_one_line_of_the_supervisor_it_started(place: Path) -> None:
    (place / "state").write_text("a file")
    with pytest.raises(Unavailable) as caught, own_supervisor(LOOPBACK, place):
        pass
    assert "state" in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_doctor_names_every_fault_at_once(place: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        settings = {
            **own_settings(place, LOOPBACK),
            "bridge.port": str(taken.getsockname()[1]),
            "chromium.executable": "/nonexistent/chromium",
        }
        found = cli("doctor", *sets(settings), runtime=f"{place}/run", timeout=QUICK)
    # Each takes away one kind of browser only, so they are warnings; each is followed by its remedy.
    assert found.returncode == 0, found
    assert found.stderr == ""
    lines = found.stdout.splitlines()
    warned = {line.split()[1]: number for number, line in enumerate(lines) if line.startswith("! ")}
    assert {"chromium", "port", "model"} <= set(warned)
    for name in ("chromium", "port"):
        assert any(line.strip().startswith("→") for line in lines[warned[name] : warned[name] + 3]), name


def test_a_free_port_is_really_used(place: Path) -> None:
    port = free_port()
    with own_supervisor({**LOOPBACK, "bridge.port": str(port)}, place) as live, live.client() as client:
        assert client.status()["bridge"]["listener"] == {"state": "on", "port": port}
        with socket.create_connection(("127.0.0.1", port), timeout=5):
            pass


def test_a_configured_runtime_folder_hides_no_supervisor_from_the_client_that_starts_it(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROWSERCELL_PLACES_RUNTIME_FOLDER", f"{place}/elsewhere")
    with own_supervisor(LOOPBACK, place) as running, running.client() as client:
        assert client.status()["supervisor"]["state"] == "running"
    assert not (place / "elsewhere").exists()


def test_under_nohup_a_supervisor_stays_and_ends_in_order_all_the_same(place: Path) -> None:
    command = [sys.executable, "-m", "browsercell.supervisor", "run", *sets(own_settings(place, LOOPBACK))]
    environment = {**os.environ, "BROWSERCELL_RUNTIME_DIR": f"{place}/run"}
    with subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    ) as running:
        assert running.stdout is not None
        assert "ready" in running.stdout.readline()
        running.send_signal(signal.SIGHUP)
        with pytest.raises(subprocess.TimeoutExpired):
            running.wait(1.0)
        running.send_signal(signal.SIGTERM)
        assert running.wait(QUICK) == 0
