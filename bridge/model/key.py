"""Reads the model key from its file: the one place of the product that ever sees it.

Invariants: only a regular file of our own uid that nobody else can read is accepted; the key is at most 4 KiB of
printable ASCII; it is returned, never logged, and no error text holds it or its path.
"""

from __future__ import annotations

import os
import stat
from typing import Final

from ...protocol.frames import ModelProblem

MAX_KEY_BYTES: Final = 4_096  # the longest keys in use are signed tokens of 1 to 2 KiB


def read_key(path: str) -> str | ModelProblem:
    """The key in the file at absolute `path`, white space around it removed; "" for an empty path (none is needed).

    KEY_MISSING: no such file, or nothing in it. KEY_UNREADABLE: not ours, no regular file, or no usable text.
    KEY_EXPOSED: group or others have any permission on it.
    """
    if not path:
        return ""
    try:
        # O_NONBLOCK: a FIFO with nobody behind it must not hang us.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except (FileNotFoundError, NotADirectoryError):
        return ModelProblem.KEY_MISSING
    except (OSError, ValueError):
        return ModelProblem.KEY_UNREADABLE
    try:
        return _read(fd)
    except OSError:
        return ModelProblem.KEY_UNREADABLE
    finally:
        os.close(fd)


def _read(fd: int) -> str | ModelProblem:
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
        return ModelProblem.KEY_UNREADABLE
    if status.st_mode & 0o077:
        return ModelProblem.KEY_EXPOSED
    data = os.read(fd, MAX_KEY_BYTES + 1)
    key = data.decode("ascii", errors="replace").strip()
    if not key:
        return ModelProblem.KEY_MISSING
    if len(data) > MAX_KEY_BYTES or not all("!" <= character <= "~" for character in key):
        return ModelProblem.KEY_UNREADABLE
    return key
