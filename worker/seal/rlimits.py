"""Resource limits of a worker. Each is set soft and hard, so a worker can't raise it again.

Not here: the number of processes and threads. RLIMIT_NPROC counts per user and exempts root; the filter forbids new
processes, and the address space bounds threads.
"""

from __future__ import annotations

import os
import resource

from ...protocol.frames import SealLayer, SealLayerName
from .steps import first_call, must
from .syscalls import limit_malloc_arenas

OPEN_FILES = 64
"""Descriptors: 3 standard ones, about 12 of libzmq and 6 of an event loop; the rest is slack for eventfds."""

_CPU_GRACE_SECONDS = 1
"""Between SIGXCPU (soft) and SIGKILL (hard): enough to die of the first one if nothing catches it."""

_MALLOC_ARENAS = 2
"""One for the interpreter, one for libzmq's threads; the default of 8 per core reserves 64 MiB of address space each."""

_NOTHING = (
    resource.RLIMIT_CORE,  # a core file would hold page data
    resource.RLIMIT_FSIZE,  # also what bounds a memfd or tmpfs file, which the address space does not see
    resource.RLIMIT_MEMLOCK,
    resource.RLIMIT_MSGQUEUE,
    resource.RLIMIT_SIGPENDING,  # queued signals; plain ones still arrive
    resource.RLIMIT_NICE,
    resource.RLIMIT_RTPRIO,
)


def _lower(what: int, soft: int, hard: int) -> None:
    """Sets a limit, or keeps the present one where that is lower already."""
    ceiling = resource.getrlimit(what)[1]
    if ceiling != resource.RLIM_INFINITY:
        soft, hard = min(soft, ceiling), min(hard, ceiling)
    resource.setrlimit(what, (soft, hard))


def mapped_bytes() -> int:
    """Address space of this process now, in bytes (needs /proc)."""
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")


def apply(*, address_space: int, cpu_seconds: int, off: frozenset[str]) -> SealLayer:
    """Sets every limit: `address_space` in bytes, what is mapped already included; `cpu_seconds` of processor time."""
    layer = first_call(SealLayerName.RLIMITS, lambda: _lower(resource.RLIMIT_CORE, 0, 0), off)
    if layer.on:
        limit_malloc_arenas(_MALLOC_ARENAS)
        with must("rlimits"):
            for what in _NOTHING:
                _lower(what, 0, 0)
            _lower(resource.RLIMIT_NOFILE, OPEN_FILES, OPEN_FILES)
            _lower(resource.RLIMIT_CPU, cpu_seconds, cpu_seconds + _CPU_GRACE_SECONDS)
            _lower(resource.RLIMIT_AS, address_space, address_space)
    return layer
