"""A supervisor of a client's own: its error is the client's, and it never outlives the client."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from browsercell.protocol import client_start
from browsercell.protocol.client import Client
from browsercell.protocol.client_start import OwnSupervisor
from browsercell.protocol.errors import Unavailable


@pytest.fixture
def folder() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="bcs-") as short:
        yield f"{short}/r"


def test_its_one_line_error_is_what_the_client_says(folder: str) -> None:
    with pytest.raises(Unavailable, match="did you mean mode"):
        Client(runtime_folder=folder, start=True, start_arguments=["--set", "network.mod=x"])


def stand_in(monkeypatch: pytest.MonkeyPatch, place: Path, code: str) -> None:
    """Let the client start a script instead of an interpreter with our module."""
    script = place / "python"
    script.write_text(f"#!{sys.executable}\n{code}\n")
    script.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(script))


def test_a_silent_end_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, folder: str) -> None:
    stand_in(monkeypatch, tmp_path, "raise SystemExit(3)")
    with pytest.raises(Unavailable, match="ended at its start"):
        OwnSupervisor(folder, lambda: False)


def test_one_that_never_listens_is_ended(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, folder: str
) -> None:
    monkeypatch.setattr(client_start, "START_SECONDS", 0.3)
    stand_in(monkeypatch, tmp_path, "import sys; sys.stdin.read()")
    with pytest.raises(Unavailable, match="supervisor doctor"):
        OwnSupervisor(folder, lambda: False)


def test_one_that_ignores_its_lifeline_is_killed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, folder: str
) -> None:
    monkeypatch.setattr(client_start, "STOP_SECONDS", 0.2)
    stand_in(monkeypatch, tmp_path, "import time; time.sleep(60)")
    looks = iter([True])
    own = OwnSupervisor(folder, lambda: next(looks, False))
    began = time.monotonic()
    own.close()
    own.close()
    assert time.monotonic() - began < 5
    assert not os.path.exists(f"/proc/{own.pid}")


def test_the_loser_of_a_race_uses_the_winner(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, folder: str
) -> None:
    os.makedirs(folder)
    Path(folder, "lock").write_text(f"{os.getpid()}\n")
    stand_in(monkeypatch, tmp_path, "raise SystemExit(3)")
    looks = iter([False, False, False, True])
    own = OwnSupervisor(folder, lambda: next(looks, True))
    own._process.wait(10)
    assert not own.running
    own.close()


def test_one_that_serves_others_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, folder: str
) -> None:
    monkeypatch.setattr(client_start, "SHARED_SECONDS", 0.2)
    stand_in(monkeypatch, tmp_path, "import time; time.sleep(60)")
    own = OwnSupervisor(folder, lambda: True)
    own.close()
    assert own.running
    os.kill(own.pid, 9)
    own._process.wait(5)
