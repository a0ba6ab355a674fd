"""The pairing token's file (bridge/token.py; design 9)."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from browsercell.bridge.token import TokenUnusable, pairing_token
from browsercell.protocol import limits as L


def write(folder: Path, data: bytes, mode: int = 0o600) -> Path:
    path = folder / "pairing-token"
    path.write_bytes(data)
    path.chmod(mode)
    return path


def test_made_once_and_kept(tmp_path: Path) -> None:
    token = pairing_token(str(tmp_path))
    assert len(token) >= 43
    assert pairing_token(str(tmp_path)) == token
    path = tmp_path / "pairing-token"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == ["pairing-token"]


def test_a_quicker_bridges_token_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def taken(*_: object) -> None:
        write(tmp_path, b"the-other-bridges-token\n")
        raise FileExistsError

    monkeypatch.setattr(os, "link", taken)
    assert pairing_token(str(tmp_path)) == "the-other-bridges-token"
    assert [entry.name for entry in tmp_path.iterdir()] == ["pairing-token"]


def test_a_file_of_ours_gets_its_mode_back(tmp_path: Path) -> None:
    path = write(tmp_path, b"a-token-long-enough", 0o644)
    assert pairing_token(str(tmp_path)) == "a-token-long-enough"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"x" * (L.MIN_TOKEN_CHARS - 1),
        b"two words in one line",
        b"x" * 600,
        "schlüssel-wort-lang".encode(),
        b"a" * 16 + b"\x07" + b"b",
    ],
)
def test_what_is_no_token(tmp_path: Path, data: bytes) -> None:
    write(tmp_path, data)
    with pytest.raises(TokenUnusable) as caught:
        pairing_token(str(tmp_path))
    assert "word" in str(caught.value) or "ASCII" in str(caught.value)


def test_links_and_special_files_are_refused(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_bytes(b"a-token-long-enough")
    (tmp_path / "pairing-token").symlink_to(target)
    with pytest.raises(TokenUnusable, match="link"):
        pairing_token(str(tmp_path))
    (tmp_path / "pairing-token").unlink()
    os.mkfifo(tmp_path / "pairing-token")
    with pytest.raises(TokenUnusable, match="regular"):
        pairing_token(str(tmp_path))


def test_no_folder(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        pairing_token(str(tmp_path / "nowhere"))
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(NotADirectoryError):
        pairing_token(str(tmp_path / "file"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_another_users_file_is_refused(tmp_path: Path) -> None:
    os.chown(write(tmp_path, b"a-token-long-enough"), 65_534, -1)
    with pytest.raises(TokenUnusable, match="another user"):
        pairing_token(str(tmp_path))
