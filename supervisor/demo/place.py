"""The demo's temporary folder: its own while it runs, and swept by the next demo where one was killed.

Invariants: a folder of ours holds a lock file that is locked as long as its demo lives; only folders of this account, under our
prefix, with an unlocked lock file are removed; no link is followed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

PREFIX: Final = "bcdemo-"
_LOCK: Final = ".lock"


@contextlib.contextmanager
def temporary_place() -> Iterator[str]:
    """A temporary folder that worker accounts may pass through and nobody else may list."""
    _sweep()
    made = tempfile.mkdtemp(prefix=PREFIX)
    lock = os.open(os.path.join(made, _LOCK), os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.chmod(made, 0o711)
        yield made
    finally:
        # What another account left is the temporary folder's to clean.
        shutil.rmtree(made, ignore_errors=True)
        os.close(lock)


def _sweep() -> None:
    """Remove what killed demos of this account left."""
    for left in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):  # gone meanwhile, or not ours after all
            info = left.lstat()
            if stat.S_ISDIR(info.st_mode) and info.st_uid == os.geteuid() and _abandoned(left):
                shutil.rmtree(left, ignore_errors=True)


def _abandoned(folder: Path) -> bool:
    """Whether nobody holds its lock. Without a lock file it may be just being made. Raises OSError."""
    lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(lock)
    return True
