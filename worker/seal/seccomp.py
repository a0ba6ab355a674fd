"""Loads an assembled filter for all threads of this process. Can't be undone.

Invariants: no_new_privs is set (an ordinary user's filter is refused otherwise, and the seal needs it anyway); TSYNC, so
that libzmq's threads, which exist already, get the filter too, all or none.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence

from ...protocol.errors import SandboxError
from .bpf import Instruction, encode
from .numbers import PR_SET_NO_NEW_PRIVS
from .syscalls import call, prctl

_SET_MODE_FILTER = 1
_TSYNC = 1


def load(program: Sequence[Instruction]) -> None:
    """Puts the program on every thread. Raises `OSError` when the kernel refuses it, `SandboxError` when a thread could not follow."""
    code = encode(program)
    instructions = ctypes.create_string_buffer(code, len(code))
    # struct sock_fprog: length, padding, pointer.
    header = struct.pack("HxxxxxxQ", len(program), ctypes.addressof(instructions))
    fprog = ctypes.create_string_buffer(header, len(header))
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    if call("seccomp", _SET_MODE_FILTER, _TSYNC, fprog) != 0:  # a positive result is the thread that diverged
        raise SandboxError("seccomp", "ESRCH")
