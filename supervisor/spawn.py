"""The one place that starts processes: bridges, workers and Chromiums alike (design 2; facts/sandbox.md 4).

Invariants: only from the main thread, because a parent-death signal follows the spawning *thread*; by `posix_spawn`, so no
Python code runs between fork and exec; the child has exactly the descriptors and the environment given here, a session
of its own, default signals and an empty signal mask; its pidfd is open before anybody can reap it.

`posix_spawn` closes nothing by itself. What we open is close-on-exec (PEP 446); what we inherited from a shell or a build tool
may not be, so every descriptor over 2 is marked just before each spawn.

It does not watch (`watch.py`), restart (`restart.py`) or know roles.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ..protocol.errors import LocalMisuse, SpawnError

# Sources are moved above every target first: a dup2 onto a descriptor that is itself a source yet to come would lose it.
_ABOVE: Final = 64
LOG_BYTES: Final = (
    4 * 1024 * 1024
)  # a child writes a few lines a day; a looping one must not fill the disk unseen
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
BASE_ENVIRONMENT: Final[Mapping[str, str]] = {"PATH": _PATH, "LANG": "C.UTF-8"}


@dataclass(frozen=True, slots=True)
class Spawned:
    """A child: `pidfd` is ours to close; the child is a zombie until `watch.reap`."""

    pid: int
    pidfd: int


def interpreter(module: str, *arguments: str) -> tuple[str, ...]:
    """Command line of one of our own processes: isolated (-I), no bytecode written (-B)."""
    return (sys.executable, "-I", "-B", "-m", module, *arguments)


@dataclass(frozen=True, slots=True)
class Programs:
    """What is started for each role of ours; tests put small stand-ins here. Arguments are added by the owner."""

    bridge: tuple[str, ...] = interpreter("browsercell.bridge")
    model: tuple[str, ...] = interpreter("browsercell.bridge.model")
    worker: tuple[str, ...] = interpreter("browsercell.worker")


def open_log(path: Path) -> int:
    """Append to a 0600 log, starting a new one (the old one kept beside it) over LOG_BYTES. Raises OSError."""
    with contextlib.suppress(FileNotFoundError):
        if path.lstat().st_size > LOG_BYTES:
            path.replace(path.with_suffix(".old.log"))
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(path, flags, 0o600)


def spawn(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    output: int | None,
    inherit: Mapping[int, int] | None = None,
) -> Spawned:
    """Start `command` (absolute program first).

    `output`: descriptor for 1 and 2 (None: /dev/null); 0 is /dev/null. `inherit`: descriptor in the child -> ours; ours stay
    open and ours. Raises SpawnError (program missing, no process or descriptor left), LocalMisuse (not the main thread).
    """
    if threading.current_thread() is not threading.main_thread():
        raise LocalMisuse("processes are started from the main thread only")
    _mark_close_on_exec()
    actions: list[Any] = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)]
    moved: list[int] = []
    try:
        if output is None:
            actions.append((os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0))
            actions.append((os.POSIX_SPAWN_DUP2, 1, 2))
        else:
            source = _move(output, moved)
            actions.extend([(os.POSIX_SPAWN_DUP2, source, 1), (os.POSIX_SPAWN_DUP2, source, 2)])
        for target, ours in sorted((inherit or {}).items()):
            if not 3 <= target < _ABOVE:
                raise LocalMisuse(f"a child's descriptor is 3 to {_ABOVE - 1}")
            actions.append((os.POSIX_SPAWN_DUP2, _move(ours, moved), target))
        pid = os.posix_spawn(
            command[0],
            list(command),
            dict(environment),
            file_actions=actions,
            setsid=True,
            setsigmask=[],
            setsigdef=_settable_signals(),
        )
    except OSError as error:
        # posix_spawn names no file of its own in every case; the program's base name is no secret.
        name = os.path.basename(command[0])
        raise SpawnError(f"{name} can't be started ({os.strerror(error.errno or 0)})") from None
    finally:
        for descriptor in moved:
            os.close(descriptor)
    try:
        return Spawned(pid, os.pidfd_open(pid))
    except OSError as error:  # no descriptor left: an unwatched child must not live
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise SpawnError(f"a child can't be watched ({os.strerror(error.errno or 0)})") from None


def cap_memory(pid: int, data: int) -> None:
    """Cap a fresh child's private writable memory at `data` bytes. Raises SpawnError if the kernel refuses."""
    try:
        resource.prlimit(pid, resource.RLIMIT_DATA, (data, data))
    except (OSError, ValueError):
        raise SpawnError("a child's memory can't be capped") from None


def kill(pidfd: int) -> None:
    """SIGKILL; harmless for a process that is dead already."""
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)


def close(descriptor: int) -> None:
    """Close one of ours after handing it over; an error at closing (network files) closes it all the same."""
    with contextlib.suppress(OSError):
        os.close(descriptor)


def _move(descriptor: int, moved: list[int]) -> int:
    copy = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _ABOVE)
    moved.append(copy)
    return copy


def _settable_signals() -> list[int]:
    return [number for number in signal.valid_signals() if number not in (signal.SIGKILL, signal.SIGSTOP)]


def _mark_close_on_exec() -> None:
    for name in os.listdir("/proc/self/fd"):
        descriptor = int(name)
        if descriptor > 2:
            with contextlib.suppress(OSError):  # the listing's own descriptor is closed by now
                flags = fcntl.fcntl(descriptor, fcntl.F_GETFD)
                if not flags & fcntl.FD_CLOEXEC:
                    fcntl.fcntl(descriptor, fcntl.F_SETFD, flags | fcntl.FD_CLOEXEC)
