"""System calls by number, through the C library's `syscall` and `prctl`: the only place that talks to the kernel raw.

Purpose: the calls the seal needs and the standard library does not offer (Landlock, seccomp, capset, unshare).

Invariants: every failure is an `OSError` with the kernel's errno; buffers are passed as objects and stay referenced for
the length of the call (an address of a temporary would give a false EFAULT).

Not here: any decision about what a failure means (`levels.py`), any policy (`policy.py`).
"""

from __future__ import annotations

import ctypes
import errno
import os

from .numbers import CALLS

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
_libc.prctl.restype = ctypes.c_int


def call(name: str, *arguments: int | ctypes.Array[ctypes.c_char] | None) -> int:
    """Makes one system call; arguments are integers, buffers from `ctypes.create_string_buffer`, or None for null.

    Returns the call's result (>= 0); raises `OSError` with the kernel's errno.
    """
    raw = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    result = int(_libc.syscall(ctypes.c_long(CALLS[name]), *raw))
    if result == -1:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def prctl(operation: int, value: int = 0, third: int = 0) -> int:
    """`prctl(2)` with integer arguments; returns its result (>= 0), raises `OSError` with the kernel's errno."""
    unused = ctypes.c_ulong(0)
    result = int(
        _libc.prctl(ctypes.c_int(operation), ctypes.c_ulong(value), ctypes.c_ulong(third), unused, unused)
    )
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def limit_malloc_arenas(count: int) -> None:
    """Asks glibc for at most `count` malloc arenas: each one reserves 64 MiB of address space, which RLIMIT_AS counts.

    Does nothing with a C library that has no `mallopt` arenas (musl): it reserves nothing to begin with.
    """
    mallopt = getattr(_libc, "mallopt", None)
    if mallopt is not None:
        m_arena_max = -8  # malloc.h
        mallopt(ctypes.c_int(m_arena_max), ctypes.c_int(count))


def errno_name(code: int | None) -> str:
    """The symbolic name ("EPERM") of an errno; "EUNKNOWN" for none or one without a name, so that the vocabulary stays closed."""
    if code == errno.EOPNOTSUPP:
        return (
            "EOPNOTSUPP"  # Linux has one number for it and ENOTSUP, and the kernel's documents use this name
        )
    return errno.errorcode.get(code or 0, "EUNKNOWN")
