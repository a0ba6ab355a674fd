"""Runtime and state folders: made, checked, locked, swept (protocol/README "Processes and places").

    <runtime>/            0711 as root (workers of other uids pass through), else 0700
      lock                flock held by the living supervisor; its pid as text, for messages only
      host/socket         the host link's socket, in a 0700 folder
      w/<id>/  b/<id>/    one folder a worker, one a private Chromium
    <state>/              0700
      logs/ artifacts/    0700;  grants.sqlite, delegations.sqlite, pairing-token 0600

Invariants: a folder of ours is a real folder, owned by us, and not writable by anybody else, or we refuse it; nothing
is removed before the lock is ours (the lock dies with its owner, so holding it proves that the owner is dead), and
nothing outside the runtime folder's `w`, `b` and `host/socket`; a link is removed, never followed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
from pathlib import Path
from typing import Final

from ..protocol.errors import Unavailable

_PASSABLE: Final = 0o711
_PRIVATE: Final = 0o700
MAX_RUNTIME_BYTES: Final = 60  # + "/w/<35>/model": a socket's path holds 107


class Places:
    """The folders of one supervisor. Absolute paths."""

    def __init__(self, runtime: Path, state: Path) -> None:
        self.runtime = runtime
        self.state = state
        self.workers = runtime / "w"
        self.browsers = runtime / "b"
        self.host_socket = runtime / "host" / "socket"
        self.logs = state / "logs"
        self.grants = state / "grants.sqlite"
        self.recorded = state / "delegations.sqlite"
        self._lock: int | None = None

    def prepare(self) -> None:
        """Make and check every folder. Raises Unavailable naming the folder and what to do."""
        if len(os.fsencode(self.runtime)) > MAX_RUNTIME_BYTES:
            raise Unavailable(
                f"the runtime folder's path is longer than {MAX_RUNTIME_BYTES} bytes",
                next_step="Set a shorter runtime folder: a socket's path can hold no more.",
            )
        runtime_mode = _PASSABLE if os.geteuid() == 0 else _PRIVATE
        for folder in (self.runtime, self.workers, self.browsers):
            _make(folder, runtime_mode)
        for folder in (self.state, self.logs):
            _make(folder, _PRIVATE)

    def lock(self) -> None:
        """Become the one supervisor of the runtime folder. Raises Unavailable if another one lives."""
        path = self.runtime / "lock"
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise Unavailable(
                f"the lock file can't be opened ({os.strerror(error.errno or 0)})",
                next_step=f"Check {self.runtime}.",
            ) from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            owner = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip()
            os.close(descriptor)
            who = f" (pid {owner})" if owner.isdigit() else ""
            raise Unavailable(
                f"another supervisor is running{who}",
                next_step="Use it, or stop it first: supervisor status.",
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        self._lock = descriptor

    def unlock(self) -> None:
        """Give the lock back; harmless without it."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def sweep(self) -> int:
        """Remove what a dead run left; returns how many entries. Needs the lock."""
        if self._lock is None:
            raise Unavailable("the runtime folder is not locked", next_step="")
        removed = 0
        for folder in (self.workers, self.browsers):
            for entry in os.scandir(folder):
                remove(Path(entry.path))
                removed += 1
        with contextlib.suppress(FileNotFoundError):
            self.host_socket.unlink()
            removed += 1
        return removed

    def make_private(self, parent: Path, name: str, uid: int) -> Path:
        """A fresh 0700 folder `parent/name`, owned by `uid`. Raises Unavailable (disk full, no permission)."""
        folder = parent / name
        try:
            folder.mkdir(mode=_PRIVATE)
            folder.chmod(_PRIVATE)
            if uid != os.getuid():
                os.chown(folder, uid, uid, follow_symlinks=False)
        except OSError as error:
            raise Unavailable(
                f"a folder can't be made in {self.runtime} ({os.strerror(error.errno or 0)})",
                next_step="Check its disk and permissions.",
            ) from None
        return folder


def remove(path: Path) -> None:
    """Remove a file, link or folder, whoever filled it; what can't be removed now is left to the next sweep."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(
            path, ignore_errors=True
        )  # descends by descriptors, so a swapped-in link is not followed
    else:
        with contextlib.suppress(OSError):
            path.unlink()


def _make(folder: Path, mode: int) -> None:
    try:
        folder.mkdir(mode=mode, parents=True, exist_ok=True)
        info = folder.lstat()
    except OSError as error:
        raise Unavailable(
            f"the folder {folder} can't be made ({os.strerror(error.errno or 0)})",
            next_step="Choose another one, or check its parents' permissions.",
        ) from None
    if not stat.S_ISDIR(info.st_mode):
        raise Unavailable(f"{folder} is not a real folder", next_step="Remove it or choose another one.")
    if info.st_uid != os.geteuid():
        raise Unavailable(f"the folder {folder} belongs to another user", next_step="Choose another one.")
    if stat.S_IMODE(info.st_mode) != mode:
        folder.chmod(mode)
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        raise Unavailable(
            f"the folder {folder} can't be used", next_step="Check its permissions and file system."
        )
