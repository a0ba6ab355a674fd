"""Settings of the endpoint, and the key file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from browsercell.bridge.model.config import limits_hold, problem_of, url_problem
from browsercell.bridge.model.key import MAX_KEY_BYTES, read_key
from browsercell.protocol.frames import ModelProblem
from browsercell.protocol.settings import ModelSettings

P = ModelProblem


@pytest.mark.parametrize(
    "url",
    [
        "https://api.example/v1",
        "HTTPS://api.example",
        "http://127.0.0.1:8000/v1",
        "http://[::1]:8/v1",
        "http://localhost:1/",
        "http://127.9.9.9/",
    ],
)
def test_good_urls(url: str) -> None:
    assert url_problem(url) is P.NONE


@pytest.mark.parametrize(
    "url",
    [
        "",
        "api.example/v1",
        "http://api.example/v1",
        "http://10.0.0.1/v1",
        "http://localhost.example/v1",
        "http://127.0.0.1.example/",
        "ftp://127.0.0.1/",
        "https://user@api.example/",
        "https://user:pw@api.example/",
        "https://api.example/?key=1",
        "https://api.example/#x",
        "https://[::1/",
        "https://api.example:99999/",
        "https:///v1",
    ],
)
def test_urls_that_a_key_must_not_go_to(url: str) -> None:
    assert url_problem(url) is P.INSECURE_URL


def test_without_model_or_url_nothing_is_configured() -> None:
    assert problem_of(ModelSettings()) is P.NOT_CONFIGURED
    assert problem_of(ModelSettings(model="m")) is P.NOT_CONFIGURED
    assert problem_of(ModelSettings(base_url="https://api.example")) is P.NOT_CONFIGURED
    assert problem_of(ModelSettings(model="m", base_url="http://api.example")) is P.INSECURE_URL
    assert problem_of(ModelSettings(model="m", base_url="https://api.example")) is P.NONE


@pytest.mark.parametrize(
    ("fields", "holds"),
    [
        ({}, True),
        ({"soft_tokens": 128_000}, False),
        ({"window": 128_000}, False),
        ({"hard_tokens": 300_000}, False),
    ],
)
def test_soft_is_below_hard_is_below_the_window(fields: Any, holds: bool) -> None:
    assert limits_hold(ModelSettings(**fields)) is holds


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    path = tmp_path / "key"
    path.touch(0o600)
    return path


def test_a_key_is_read_without_the_white_space_around_it(key_file: Path) -> None:
    key_file.write_text(" sk-abc\r\n")
    assert read_key(str(key_file)) == "sk-abc"


def test_no_path_is_no_key() -> None:
    assert read_key("") == ""


@pytest.mark.parametrize("content", [b"", b" \n"])
def test_an_empty_file_is_a_missing_key(key_file: Path, content: bytes) -> None:
    key_file.write_bytes(content)
    assert read_key(str(key_file)) is P.KEY_MISSING


def test_a_missing_file_is_a_missing_key(key_file: Path) -> None:
    assert read_key(f"{key_file}.x") is P.KEY_MISSING
    assert read_key(f"{key_file}/x") is P.KEY_MISSING


@pytest.mark.parametrize(
    "content", [b"two words", b"k\x00y", "schlüssel".encode(), b"k" * (MAX_KEY_BYTES + 1), b"\xff\xfe"]
)
def test_what_is_no_key_is_unreadable(key_file: Path, content: bytes) -> None:
    key_file.write_bytes(content)
    assert read_key(str(key_file)) is P.KEY_UNREADABLE


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o622, 0o666])
def test_a_key_that_others_may_touch_is_exposed(key_file: Path, mode: int) -> None:
    key_file.write_text("sk-abc")
    key_file.chmod(mode)
    assert read_key(str(key_file)) is P.KEY_EXPOSED


def test_what_is_no_file_of_ours_is_unreadable(tmp_path: Path, key_file: Path) -> None:
    assert read_key(str(tmp_path)) is P.KEY_UNREADABLE
    os.mkfifo(tmp_path / "fifo", 0o600)
    assert read_key(str(tmp_path / "fifo")) is P.KEY_UNREADABLE
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    assert read_key(str(tmp_path / "loop")) is P.KEY_UNREADABLE
    assert read_key(f"{key_file}\0") is P.KEY_UNREADABLE


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a file of another user")
def test_another_users_file_is_unreadable(key_file: Path) -> None:
    key_file.write_text("sk-abc")
    os.chown(key_file, 60_123, 60_123)
    assert read_key(str(key_file)) is P.KEY_UNREADABLE


def test_a_file_that_fails_to_read_is_unreadable(key_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_fd: int, _count: int) -> bytes:
        raise OSError(5, "input/output error")

    monkeypatch.setattr(os, "read", broken)
    assert read_key(str(key_file)) is P.KEY_UNREADABLE
