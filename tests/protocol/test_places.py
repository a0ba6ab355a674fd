"""Where a client looks for a supervisor."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from browsercell.protocol import places


def test_the_variable_wins() -> None:
    assert places.default_runtime_folder({"BROWSERCELL_RUNTIME_DIR": "/x", "XDG_RUNTIME_DIR": "/y"}) == "/x"


def test_the_systems_runtime_folder_is_used_if_it_is_ours(tmp_path: Path) -> None:
    assert places.default_runtime_folder({"XDG_RUNTIME_DIR": str(tmp_path)}) == f"{tmp_path}/browsercell"


@pytest.mark.parametrize("xdg", ["", "relative", "/nonexistent", "/proc/1/root/nonexistent"])
def test_otherwise_a_folder_of_this_user(xdg: str) -> None:
    expected = os.path.join(tempfile.gettempdir(), f"browsercell-{os.getuid()}")
    assert places.default_runtime_folder({"XDG_RUNTIME_DIR": xdg}) == expected


def test_the_environment_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROWSERCELL_RUNTIME_DIR", "/z")
    assert places.default_runtime_folder() == "/z"


def test_the_host_socket_lies_in_a_folder_of_its_own() -> None:
    assert places.host_socket("/r") == "/r/host/socket"


def test_a_folder_is_held_by_a_living_process(tmp_path: Path) -> None:
    assert not places.is_held(str(tmp_path))
    lock = tmp_path / "lock"
    for text, held in ((f"{os.getpid()}\n", True), ("999999999\n", False), ("", False), ("x", False)):
        lock.write_text(text)
        assert places.is_held(str(tmp_path)) is held
