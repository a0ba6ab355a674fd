"""The sealing of a worker: from an ordinary process to one that can only talk to its two links (design 6).

The worker's app calls, in this order and all from the main thread:

1. `begin`               die with the supervisor, be unreadable
2. `warm_up`             after importing everything it will ever need
3. `enter_fences`        namespaces, empty root, ids, limits, Landlock; before any other thread exists
4. (the app)             ZeroMQ context, both links, hello and welcome on both
5. `drop_to_allow_list`  output to nowhere, the filter on every thread, canaries; returns the report

Rules: a layer the host lacks is reported, with its errno, never passed over; the filter decides the level, the others
raise it; a step that fails in any other way raises `SandboxError` and the worker must end. Nothing here logs or writes.

What it does not do: decide whether a level is good enough, or believe the report. The supervisor does both.
"""

from __future__ import annotations

import os
import signal

import msgspec

from ...protocol.errors import SandboxError
from ...protocol.frames import SandboxLevel, SealLayer, SealLayerName, SealReport
from . import canaries, landlock, policy, privileges, rlimits, seccomp
from .levels import judge
from .numbers import PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS, PR_SET_PDEATHSIG
from .policy import Attack
from .steps import PRETENDED, first_call, must
from .syscalls import prctl
from .warm import warm_up

__all__ = [
    "ORPHANED",
    "Attack",
    "Fences",
    "SandboxError",
    "SandboxLevel",
    "SealLayer",
    "SealLayerName",
    "SealReport",
    "begin",
    "drop_to_allow_list",
    "enter_fences",
    "warm_up",
]

ORPHANED = 99
"""Exit status of a worker whose supervisor was gone before the death signal was armed."""


class Fences(msgspec.Struct, frozen=True):
    """What `enter_fences` put up, and what `drop_to_allow_list` needs of it.

    `empty_root`: the root directory is now `root_dir`, so the worker connects to "/page" and "/model".
    """

    empty_root: bool
    layers: tuple[SealLayer, ...]
    landlock_abi: int
    null_fd: int
    off: frozenset[str]


def begin(expected_ppid: int) -> None:
    """Dies with the parent from now on, and can't be read or traced by its user's other processes.

    Ends the process with status `ORPHANED` if the parent is no longer `expected_ppid`. Also repeated by `enter_fences`:
    changing ids clears both.
    """
    with must("death-signal"):
        prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() != expected_ppid:
        os._exit(ORPHANED)
    with must("dumpable"):
        prctl(PR_SET_DUMPABLE, 0)


def _require_one_thread() -> None:
    """Landlock and the ids would cover only this thread; the others would stay outside."""
    with must("threads"):
        threads = len(os.listdir("/proc/self/task"))
    if threads != 1:
        raise SandboxError("threads", "EBUSY")


def enter_fences(
    *,
    root_dir: str,
    uid: int | None,
    memory_bytes: int,
    cpu_seconds: int,
    expected_ppid: int,
    off: frozenset[str] = frozenset(),
) -> Fences:
    """Puts up every fence that must stand before there is a second thread. Can't be undone.

    `root_dir`: absolute path of the folder with the two socket files, owned by the worker's uid.
    `uid`: the ordinary user to become (root only); None keeps the present one.
    `memory_bytes`: address space the worker may map on top of what is mapped now (each thread reserves about 8 MiB of it).
    `cpu_seconds`: processor time of the whole worker. `expected_ppid`: the supervisor.
    `off`: names of layers to pretend missing, for tests of lesser hosts; no configuration leads here.

    Raises `SandboxError`.
    """
    _require_one_thread()
    with must("null-device"):
        null_fd = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    with must("statm"):
        address_space = rlimits.mapped_bytes() + memory_bytes
    namespaces = privileges.enter_namespaces(user=os.geteuid() != 0 or uid is None, off=off)
    empty_root = privileges.enter_empty_root(root_dir, off)
    dropped = privileges.drop_privileges(uid, off)
    begin(expected_ppid)
    limits = rlimits.apply(address_space=address_space, cpu_seconds=cpu_seconds, off=off)
    with must("no-new-privs"):
        prctl(PR_SET_NO_NEW_PRIVS, 1)
    landlocked, abi = _landlock(off)
    return Fences(
        empty_root=empty_root.on,
        layers=(namespaces, empty_root, dropped, limits, landlocked),
        landlock_abi=abi,
        null_fd=null_fd,
        off=off,
    )


def _landlock(off: frozenset[str]) -> tuple[SealLayer, int]:
    abi = 0

    def query() -> None:
        nonlocal abi
        abi = min(landlock.supported_abi(), landlock.MAX_ABI)

    layer = first_call(SealLayerName.LANDLOCK, query, off)
    if layer.on:
        with must("landlock"):
            landlock.restrict(abi)
    return layer, abi


def drop_to_allow_list(fences: Fences, *, attack: Attack = "kill", threads: bool = True) -> SealReport:
    """Output to /dev/null, the allow-list on every thread, and the proof. Can't be undone; nothing can be opened after it.

    `attack`: what an attack call meets, see `policy.allow_list`. `threads`: whether the worker may start threads later.
    Without seccomp on the host the report says `unsandboxed`, and the process is *not* sealed. Raises `SandboxError`.
    """
    with must("output"):
        os.dup2(fences.null_fd, 1)
        os.dup2(fences.null_fd, 2)
        os.close(fences.null_fd)
    program = policy.program(os.getpid(), attack=attack, threads=threads)
    filtered = first_call(SealLayerName.SECCOMP, lambda: seccomp.load(program), fences.off)
    proven = SealLayer(SealLayerName.CANARIES, filtered.on, filtered.reason)
    if filtered.on:
        if SealLayerName.CANARIES in fences.off:
            proven = SealLayer(SealLayerName.CANARIES, False, PRETENDED)
        else:
            canaries.prove()
    layers = (*fences.layers, filtered, proven)
    return SealReport(
        level=judge(layers),
        layers=layers,
        landlock_abi=fences.landlock_abi,
        instructions=len(program) if filtered.on else 0,
    )
