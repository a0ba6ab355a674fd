"""What an attempt is made of: its targets, its description, and raw system calls by x86-64 number."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable
from typing import NamedTuple

import msgspec

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
Buffer = ctypes.Array[ctypes.c_char]

MIB = 1 << 20
AT_FDCWD = -100


class Targets(msgspec.Struct, frozen=True):
    """What the host put up for the attempts: own pid, a sibling process, listeners that answer, decoy files."""

    supervisor: int
    sibling: int
    sibling_address: int  # a readable page of the sibling
    home: str  # holds `secret`
    scratch: str  # holds `decoy`, `decoy.sock` and the folder `mount`; writable
    runtime: str  # a file of the interpreter's library
    link_path: str  # the worker's own page socket, as the host sees it
    tcp: int
    udp: int
    neighbour: str  # a stream socket of another worker, by path
    daemon: str  # a stream socket of some daemon, by path
    datagram: str  # a datagram socket by path
    abstract: str


class Attempt(NamedTuple):
    """`family.name`, what a success would prove, how to try it, and whether a success is harmless."""

    name: str
    proves: str
    run: Callable[[Targets], object]
    harmless: bool = False


def raw(number: int, *arguments: int | Buffer | None) -> int:
    """One x86-64 system call; raises OSError. Buffers stay referenced during the call."""
    result = int(
        _libc.syscall(
            ctypes.c_long(number), *[ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
        )
    )
    if result == -1:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def text(value: str) -> Buffer:
    """A C string."""
    return ctypes.create_string_buffer(os.fsencode(value))


def data(value: bytes) -> Buffer:
    """A buffer with this content."""
    return ctypes.create_string_buffer(value, len(value))


def close(descriptor: int) -> None:
    os.close(descriptor)


def read(path: str) -> str:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return f"{len(os.read(descriptor, 64))} bytes"
    finally:
        os.close(descriptor)


def create(path: str) -> None:
    close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))


def in_child(action: Callable[[], object]) -> None:
    """Runs `action` in a forked child and raises what it raised."""
    pid = os.fork()
    if pid == 0:
        try:
            action()
            os._exit(0)
        except OSError as error:
            os._exit(error.errno or 1)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if status:
        raise OSError(status if status > 0 else errno.EPERM, "in the child")
