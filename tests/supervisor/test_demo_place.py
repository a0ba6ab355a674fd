"""The demo's temporary folder: removed at the end, by the next demo where one was killed, and nobody else's ever."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from browsercell.supervisor.demo.place import PREFIX, temporary_place


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def ours(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in tmp_path.iterdir())


def test_it_is_private_and_goes_at_the_end(tmp_path: Path) -> None:
    with temporary_place() as made:
        assert os.stat(made).st_mode & 0o777 == 0o711
        (Path(made) / "state").mkdir()
    assert ours(tmp_path) == []


def test_what_a_killed_demo_left_is_removed_by_the_next_one(tmp_path: Path) -> None:
    program = (
        "import sys, tempfile, time; tempfile.tempdir = sys.argv[1]\n"
        "from browsercell.supervisor.demo.place import temporary_place\n"
        "with temporary_place() as made: print(made, flush=True); time.sleep(60)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, tmp_path], stdout=subprocess.PIPE, text=True
    ) as demo:
        assert demo.stdout is not None
        made = Path(demo.stdout.readline().strip())
        with temporary_place():
            assert made.is_dir()  # it lives
        demo.send_signal(signal.SIGKILL)
        demo.wait(10)
    assert made.is_dir()
    with temporary_place() as mine:
        assert ours(tmp_path) == [Path(mine).name]


def test_what_is_not_a_demos_stays(tmp_path: Path) -> None:
    (tmp_path / f"{PREFIX}new").mkdir()  # being made: no lock file yet
    (tmp_path / f"{PREFIX}file").write_text("theirs")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / ".lock").touch()
    (tmp_path / f"{PREFIX}link").symlink_to(tmp_path / "other")
    linked = tmp_path / f"{PREFIX}linked"
    linked.mkdir()
    (linked / ".lock").symlink_to(tmp_path / "other" / ".lock")
    before = ours(tmp_path)
    with temporary_place():
        pass
    assert ours(tmp_path) == before
    assert (tmp_path / "other" / ".lock").exists()
