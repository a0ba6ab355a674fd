"""Four small attempts that must fail once the filter is on: open, socket, fork, signal the parent.

A canary that gets through, or fails in an unexpected way, raises `SandboxError`: a filter that does not filter is not a
lesser level but a fault. Each is harmless should it succeed.
"""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable

from ...protocol.errors import SandboxError
from .syscalls import call, errno_name

_REFUSED = frozenset({errno.EPERM, errno.EACCES})
_AF_UNIX, _SOCK_STREAM = 1, 1


def _open() -> None:
    os.close(os.open("/", os.O_RDONLY | os.O_DIRECTORY))


def _socket() -> None:
    os.close(call("socket", _AF_UNIX, _SOCK_STREAM, 0))


def _fork() -> None:
    if call("clone", int(signal.SIGCHLD), 0, 0, 0, 0) == 0:
        os._exit(0)  # the child of a fork that should not have worked


def _signal_parent() -> None:
    os.kill(os.getppid(), 0)


CANARIES: tuple[tuple[str, Callable[[], None]], ...] = (
    ("open", _open),
    ("socket", _socket),
    ("fork", _fork),
    ("signal-parent", _signal_parent),
)


def prove() -> None:
    """Tries every canary; returns if all were refused."""
    for name, attempt in CANARIES:
        try:
            attempt()
        except OSError as error:
            if error.errno not in _REFUSED:
                raise SandboxError(f"canary-{name}", errno_name(error.errno)) from None
        else:
            raise SandboxError(f"canary-{name}", "")
