"""The token of the HTTP listener: a 0600 file in the state folder, made at the first start. A shell.

Invariants: the file is a regular one, ours, and nobody else can read it, or it is refused; the token travels in no argument,
environment variable or log.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
from pathlib import Path
from typing import Final

from ...protocol.errors import Unavailable

NAME: Final = "mcp-token"
BYTES: Final = 32  # of randomness
MAX_FILE_BYTES: Final = 512
_TOKEN: Final = re.compile(r"[\x21-\x7e]{16,256}")  # 16: what the pairing token needs too (design 9)


def load(state_folder: str) -> tuple[str, Path]:
    """The token and its file. Raises Unavailable."""
    path = Path(state_folder) / NAME
    try:
        os.makedirs(state_folder, mode=0o700, exist_ok=True)
        _make_if_missing(path)
        return _read(path), path
    except OSError as error:
        raise Unavailable(
            f"the token file {path} can't be used ({os.strerror(error.errno or 0)})",
            next_step="Check its owner and its permissions, or remove it: a new one is made.",
        ) from None


def _make_if_missing(path: Path) -> None:
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except FileExistsError:
        return
    try:
        os.write(file, secrets.token_urlsafe(BYTES).encode() + b"\n")
    finally:
        os.close(file)


def _read(path: Path) -> str:
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        state = os.fstat(file)
        private = stat.S_ISREG(state.st_mode) and state.st_uid == os.geteuid() and not state.st_mode & 0o077
        text = os.read(file, MAX_FILE_BYTES).decode("ascii", "replace").strip() if private else ""
    finally:
        os.close(file)
    if not private:
        raise Unavailable(
            f"the token file {path} is not a private file of this user",
            next_step=f"Run: chmod 600 {path}, or remove it: a new one is made.",
        )
    if not _TOKEN.fullmatch(text):
        raise Unavailable(
            f"the token file {path} holds no token of 16 to 256 characters",
            next_step="Remove it: a new one is made.",
        )
    return text
