"""What this process does to itself before its first frame: it dies with its parent and leaks nothing by accident.

Invariants: files it makes are private; no core file, no tracing by the user's other processes (the key is in its
memory); address space bounded, so that a flooding worker ends this process and not the machine. Linux only.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
from typing import Final

_PR_SET_PDEATHSIG: Final = 1  # prctl(2)
_PR_SET_DUMPABLE: Final = 4


def harden(memory_bytes: int | None) -> None:
    """Call first. `memory_bytes`: address space on top of what is mapped now; None: no limit. Raises OSError."""
    os.umask(0o077)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
    _prctl(_PR_SET_DUMPABLE, 0)
    if memory_bytes is not None:
        with open("/proc/self/statm", encoding="ascii") as statm:
            mapped = int(statm.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        limit = mapped + memory_bytes
        ceiling = resource.getrlimit(resource.RLIMIT_AS)[1]
        if ceiling != resource.RLIM_INFINITY:
            limit = min(limit, ceiling)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if (
        libc.prctl(option, ctypes.c_ulong(value), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0))
        != 0
    ):
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
