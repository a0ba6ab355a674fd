"""The wire format as another language speaks it: the Node program of protocol/README.md, with npm's ZeroMQ."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browsercell.protocol.places import host_socket

from tests.support.hosts import Served, serving

HOST = Path(__file__).resolve().parents[2] / "extension" / "test" / "host.mjs"
SECONDS = 60


@pytest.fixture
def served() -> Iterator[Served]:
    # Short: a socket's path holds 107 bytes, and pytest's own folders are long.
    with tempfile.TemporaryDirectory(prefix="bc-") as folder, serving(Path(folder) / "r") as one:
        yield one


def speak(socket: str, directory: str, goal: str) -> tuple[int, list[dict[str, Any]], str]:
    node = shutil.which("node") or "node"
    done = subprocess.run(
        [node, str(HOST), socket, directory, goal],
        capture_output=True, text=True, timeout=SECONDS, check=False, env=dict(os.environ),
    )  # fmt: skip
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def test_a_program_in_another_language_delegates(served: Served, tmp_path: Path) -> None:
    code, lines, errors = speak(host_socket(served.folder), str(tmp_path), "buy tea")
    assert code == 0, errors
    assert [next(iter(line)) for line in lines] == ["opened", "progress", "result"]
    assert lines[0]["opened"] == "9"
    assert lines[1]["progress"] == ["running", 2, 40]
    assert (lines[2]["result"]["status"], lines[2]["result"]["summary"]) == ("completed", "buy tea")
    (directory,) = served.core.directories
    assert directory is not None
    assert directory.path == str(tmp_path)


def test_it_reads_a_refusal(served: Served) -> None:
    code, lines, _ = speak(host_socket(served.folder), "not/absolute", "buy tea")
    assert code == 1
    assert lines == [{"fault": ["invalid-request", "the working directory must be an absolute path"]}]


def test_it_is_told_when_nobody_listens(tmp_path: Path) -> None:
    code, lines, errors = speak(str(tmp_path / "none"), "", "buy tea")
    assert (code, lines) == (1, [])
    assert "no supervisor answers" in errors
