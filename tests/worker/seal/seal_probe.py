"""Prints, as JSON, which layers this machine refuses this account: layer -> errno name, or "" where it is available.

Independent of the product's code: plain calls in children. The tests expect the seal to report exactly this.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
from collections.abc import Callable

libc = ctypes.CDLL(None, use_errno=True)
NAMESPACES = 0x4E00_0000  # net, ipc, uts, cgroup
USER_NAMESPACE = 0x1000_0000


def call(number: int, *arguments: int) -> None:
    if libc.syscall(number, *(ctypes.c_long(a) for a in arguments)) < 0:
        raise OSError(ctypes.get_errno(), "refused")


def refused(*steps: Callable[[], None]) -> str:
    """The errno name of the last step, tried in a child after the others (whose failure does not matter)."""
    pid = os.fork()
    if pid == 0:
        code = 0
        for step in steps:
            try:
                step()
                code = 0
            except OSError as error:
                code = error.errno or 1
        os._exit(code)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return errno.errorcode[status] if status else ""


def unshare() -> None:
    call(272, NAMESPACES | (0 if os.geteuid() == 0 else USER_NAMESPACE))


def landlock() -> None:
    call(444, 0, 0, 1)


print(
    json.dumps(
        {
            "namespaces": refused(unshare),
            "empty_root": refused(unshare, lambda: os.chroot("/")),
            "landlock": refused(landlock),
        }
    )
)
