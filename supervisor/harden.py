"""What the supervisor process does to itself at its start (facts/sandbox.md 4; design 2).

Not dumpable: no other process of the same user may read its memory, environment or descriptors. No core file, private
files by default, room for descriptors. With `inspection` it stays dumpable, for the tests that search its memory.
"""

from __future__ import annotations

import ctypes
import logging
import os
import resource
from typing import Final

from ..protocol.errors import Unavailable

log = logging.getLogger(__name__)

_PR_SET_DUMPABLE: Final = 4
OPEN_FILES: Final = 4096  # a worker costs 1, a browser 3, a host 1; the usual soft limit is 1024


def harden(*, inspection: bool) -> None:
    """Raises Unavailable if the kernel refuses what every Linux grants."""
    os.umask(0o077)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    if inspection:
        log.warning("inspection is on: this process can be read by others of the same user")
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise Unavailable(
            f"the supervisor can't protect its memory ({os.strerror(number)})",
            next_step="Use a Linux kernel with prctl.",
        )
