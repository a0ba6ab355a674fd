"""The pairing token: a 0600 file in the bridge's state folder, made at the first start.

Whoever has it may pair an extension with this bridge (design 9), so it never appears in a log, an argument or an
environment. Invariants: the file is a regular file of our uid, without permissions for others, once this returns;
two bridges that start at once end up with one token; a token of fewer than `limits.MIN_TOKEN_CHARS` characters is
never used.
"""

from __future__ import annotations

import os
import secrets
import stat
from typing import Final

from ..protocol import limits as L

FILE_NAME: Final = "pairing-token"
_BYTES: Final = 32  # of randomness: 43 characters
_MAX_BYTES: Final = 512  # read at most; a longer file is not a token


class TokenUnusable(Exception):
    """The file can't be trusted. The text is one closed reason without content."""


def pairing_token(state_folder: str) -> str:
    """The token; made if there is none. A file of ours that others could read gets its mode back.

    Raises TokenUnusable for a link, a special file, another user's file or too short a token; OSError otherwise.
    """
    path = os.path.join(state_folder, FILE_NAME)
    try:
        return _read(path)
    except FileNotFoundError:
        _make(state_folder, path)
        return _read(path)


def _read(path: str) -> str:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if os.path.islink(path):
            raise TokenUnusable("the pairing token is a symbolic link") from None
        raise error
    with os.fdopen(fd, "rb") as stream:
        status = os.fstat(stream.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise TokenUnusable("the pairing token is not a regular file")
        if status.st_uid != os.geteuid():
            raise TokenUnusable("the pairing token belongs to another user")
        if status.st_mode & 0o077:
            os.fchmod(stream.fileno(), 0o600)
        data = stream.read(_MAX_BYTES + 1)
    try:
        token = data.decode("ascii").strip()
    except UnicodeDecodeError:
        raise TokenUnusable("the pairing token is not ASCII text") from None
    if not L.MIN_TOKEN_CHARS <= len(token) <= _MAX_BYTES or not token.isprintable() or " " in token:
        raise TokenUnusable(f"the pairing token is not one word of {L.MIN_TOKEN_CHARS} characters or more")
    return token


def _make(state_folder: str, path: str) -> None:
    """A whole file appears under the name at once; another bridge's is never overwritten."""
    temporary = os.path.join(state_folder, f".{FILE_NAME}-{secrets.token_hex(8)}")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "wb") as stream:
            stream.write(secrets.token_urlsafe(_BYTES).encode("ascii") + b"\n")
            stream.flush()
            os.fsync(stream.fileno())
        try:
            os.link(temporary, path)
        except FileExistsError:
            return  # another bridge was quicker: its token counts
    finally:
        os.unlink(temporary)
