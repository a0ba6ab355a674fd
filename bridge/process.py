"""What the bridge process does to itself before it looks at anything: memory cap, no dumps, no orphan.

Invariants, once `harden` returned: the address space can't grow by more than the given budget beyond what was mapped
then (a hostile peer can flood a ZeroMQ reader in spite of every mark, facts/ipc 1.4: this is what it runs into); no
core file; not readable by other processes of the same user unless asked for; the parent's death is ours; new files
are private; an interrupt from the terminal is not ours. Running out of memory ends the process (`EXIT_CRASH`), it is not survived.

Linux only, a few calls of prctl(2) through ctypes. It does not drop privileges: as root the bridge binds sockets for
workers of other uids.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
from typing import Final

from ..protocol import limits as L

# A screenshot of 16 MiB is, at its worst moment, in memory seven times (frame, text, JSON value, bytes, checks): about
# 130 MiB. Several tasks do that at once; 1 GiB leaves room and still ends a flood within seconds.
DEFAULT_MEMORY: Final = 1024 * L.MIB
MIN_MEMORY: Final = 256 * L.MIB

EXIT_CRASH: Final = 70  # EX_SOFTWARE: a bug of ours, or no memory left
EXIT_PROTOCOL: Final = 76  # EX_PROTOCOL: the supervisor's side of the control link makes no sense
EXIT_SETUP: Final = 78  # EX_CONFIG: after SetupFailed
EXIT_STUCK: Final = 75  # EX_TEMPFAIL: the supervisor does not read its control link

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_DUMPABLE: Final = 4
_M_ARENA_MAX: Final = -8  # mallopt(3)
_ARENAS: Final = 2  # each further one reserves 64 MiB of address space for a thread


class ParentGone(RuntimeError):
    """The parent ended before the death signal was set up."""


def mapped_bytes() -> int:
    """Address space of this process now, in bytes."""
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")


def harden(*, memory: int, parent: int, dumpable: bool) -> int:
    """Apply everything; returns the address space limit in bytes.

    `memory`: budget in bytes beyond what is mapped now. `parent`: the expected parent's pid, 0 if unknown (then a
    parent that died before is noticed by the end of the control link). Raises ParentGone, OSError.
    """
    os.umask(0o077)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C at the terminal is the supervisor's to understand
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mallopt(_M_ARENA_MAX, _ARENAS)
    _prctl(libc, _PR_SET_PDEATHSIG, int(signal.SIGKILL))
    if parent and os.getppid() != parent:
        raise ParentGone("the parent process is gone")
    _prctl(libc, _PR_SET_DUMPABLE, int(dumpable))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    ceiling = mapped_bytes() + memory
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    if hard != resource.RLIM_INFINITY:
        ceiling = min(ceiling, hard)
    resource.setrlimit(resource.RLIMIT_AS, (ceiling, ceiling))
    return ceiling


def _prctl(libc: ctypes.CDLL, option: int, value: int) -> None:
    if (
        libc.prctl(option, ctypes.c_ulong(value), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0))
        != 0
    ):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
