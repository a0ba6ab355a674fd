"""The allow-list of a sealed worker, as data (design 6; x86-64).

Pure: builds rules, loads nothing.

Default: EPERM. A worker that has its links may compute, allocate, wait, and read and write what it already holds; it
may not get anything new by name. Every allowed call is here because the interpreter, libzmq, msgspec or asyncio uses it
after start-up. Not uvloop: libuv registers descriptors through io_uring, and a ring opens files and sockets around any
filter. What is deliberately absent: anything that names a file, an address or another process.

Two tests hold this list: the workload suite (everything a worker does must still work) and the escape list (nothing else does).
"""

from __future__ import annotations

import errno
from typing import Literal

from .bpf import ALLOW, KILL_PROCESS, LOW_BITS, Clause, Equals, Instruction, Rule, always, assemble, fail_with
from .numbers import CALLS, HIGHEST_KNOWN, PR_SET_NAME, PR_SET_VMA

Attack = Literal["kill", "errno"]

EPERM = fail_with(errno.EPERM)
EACCES = fail_with(errno.EACCES)
PRETEND_SUCCESS = fail_with(0)

# Hot calls first: the kernel walks the program from the top.
ALLOWED = (
    # waiting, and moving bytes through descriptors that are already open
    *("read", "write", "epoll_wait", "poll", "recvfrom", "epoll_pwait", "ppoll", "select", "pselect6"),
    *("readv", "writev", "epoll_ctl", "epoll_pwait2", "eventfd2", "getsockopt", "shutdown", "close", "fstat", "lseek"),
    # time
    *("clock_gettime", "clock_nanosleep", "nanosleep", "gettimeofday", "time", "clock_getres"),
    # memory without new mappings of files or code
    *("madvise", "munmap", "brk", "mremap"),
    # threads and signals of this process
    *("sched_yield", "futex_wait", "futex_wake", "set_robust_list", "rseq", "membarrier", "getcpu", "sched_getaffinity"),
    *("rt_sigreturn", "rt_sigprocmask", "rt_sigaction", "sigaltstack", "restart_syscall", "exit", "exit_group"),
    # own identity and accounting (glibc's qsort asks sysinfo for the size of memory)
    *("getpid", "gettid", "getppid", "getuid", "geteuid", "getgid", "getegid", "getrandom"),
    *("getrusage", "times", "sysinfo"),
)  # fmt: skip

# Ordinary library code asks for files by name and copes with "permission denied"; with EPERM some of it does not.
BY_NAME = (
    *("openat", "open", "creat", "openat2", "stat", "lstat", "newfstatat", "statx", "access", "faccessat", "faccessat2"),
    *("readlink", "readlinkat", "getcwd"),
)  # fmt: skip

# No library in a worker makes these by accident: an attempt means somebody else's code is running.
ATTACKS = (
    *("ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "kcmp", "pidfd_getfd"),
    *("bpf", "perf_event_open", "userfaultfd", "io_uring_setup", "io_uring_enter", "io_uring_register"),
    *("keyctl", "add_key", "request_key"),
    *("mount", "umount2", "pivot_root", "chroot", "setns", "unshare", "open_tree", "move_mount", "fsopen", "fsconfig"),
    *("fsmount", "fspick", "mount_setattr", "open_by_handle_at", "swapon", "swapoff"),
    *("init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load", "reboot"),
    *("execve", "execveat", "personality", "modify_ldt"),
)  # fmt: skip

PROT_EXEC_FREE = (0, 1, 2, 3)
"""Every combination of PROT_READ and PROT_WRITE: no mapping of a sealed worker ever becomes code."""

FCNTL_FLAGS = (1, 2, 3, 4)
"""F_GETFD, F_SETFD, F_GETFL, F_SETFL. Not F_SETOWN, which sends signals to others, and not F_DUPFD."""

FUTEX_OPERATIONS = (0, 1, 3, 4, 5, 9, 10)
"""Wait, wake, requeue, compare-requeue, wake-op, wait and wake by bitset; with or without the private and the clock flag. Not
the priority-inheriting ones, which no library here uses and where serious kernel faults have been."""

_FUTEX_FLAGS = 0x180

FIONBIO = 0x5421
"""The only ioctl: Python's `settimeout` and libzmq's "unblock" use it."""

THREAD_FLAGS = (0x3D_0F00, 0x7D_0F00)
"""Exactly the flags of `pthread_create` in glibc and in musl: shares everything, no namespace, no new process."""

SCHED_OTHER = 0


def _when(name: str, otherwise: int, *alternatives: tuple[Equals, ...], then: int = ALLOW) -> Rule:
    return Rule(CALLS[name], tuple(Clause(conditions, then) for conditions in alternatives), otherwise)


def allow_list(pid: int, *, attack: Attack, threads: bool) -> tuple[Rule, ...]:
    """The rules for the process `pid`.

    `attack`: "kill" ends the process with SIGSYS at an attack call (the product), "errno" refuses it with EPERM (tests that
    try all of them in one process). `threads`: whether the worker may start more threads.
    """
    no_exec = [(Equals(2, protection),) for protection in PROT_EXEC_FREE]
    hostile = KILL_PROCESS if attack == "kill" else EPERM
    names = [(Equals(0, option, LOW_BITS),) for option in (PR_SET_NAME, PR_SET_VMA)]
    futexes = [(Equals(1, operation, LOW_BITS ^ _FUTEX_FLAGS),) for operation in FUTEX_OPERATIONS]
    return (
        _when("futex", EPERM, *futexes),
        *(always(CALLS[name], ALLOW) for name in ALLOWED),
        _when("mmap", EPERM, *no_exec),
        _when("mprotect", EPERM, *no_exec),
        # A destination would reopen every datagram socket by path, without socket() or connect().
        _when("sendto", EPERM, (Equals(4, 0),)),
        _when("fcntl", EPERM, *((Equals(1, command, LOW_BITS),) for command in FCNTL_FLAGS)),
        _when("ioctl", fail_with(errno.ENOTTY), (Equals(1, FIONBIO, LOW_BITS),)),
        # abort() and raise(); Landlock's signal scope is not on every kernel.
        _when("kill", EPERM, (Equals(0, pid),)),
        _when("tgkill", EPERM, (Equals(0, pid),)),
        # Reading one's own limits: pid 0 and no new value.
        _when("prlimit64", EPERM, (Equals(0, 0), Equals(2, 0))),
        _when("prctl", EPERM, *names),
        _when("clone", EPERM, *([(Equals(0, flags),) for flags in THREAD_FLAGS] if threads else [])),
        # Its arguments are behind a pointer, which a filter can't read; the C library falls back to clone.
        always(CALLS["clone3"], fail_with(errno.ENOSYS)),
        # libzmq's threads make these when they start and abort the process on EPERM; one may start after the filter.
        always(CALLS["sched_getparam"], PRETEND_SUCCESS),
        always(CALLS["sched_getscheduler"], PRETEND_SUCCESS),
        _when("sched_setscheduler", EPERM, (Equals(1, SCHED_OTHER),), then=PRETEND_SUCCESS),
        *(always(CALLS[name], EACCES) for name in BY_NAME),
        *(always(CALLS[name], hostile) for name in ATTACKS),
    )


def program(pid: int, *, attack: Attack, threads: bool) -> tuple[Instruction, ...]:
    """The assembled filter for the process `pid`; arguments as in `allow_list`."""
    return assemble(allow_list(pid, attack=attack, threads=threads), default=EPERM, highest=HIGHEST_KNOWN)
