"""Numbers of the x86-64 kernel interface: system calls, `prctl` options.

Pure: data, and one check of what it is told about the machine.

A call number means something else on every other architecture, so importing this module anywhere else raises
`SandboxError("architecture", "ENOSYS")`: never a seal with a wrong table, never silently none.
"""

from __future__ import annotations

import platform
import struct
import sys

from ...protocol.errors import SandboxError


def require_x86_64(system: str, machine: str, pointer_bytes: int) -> None:
    """Raises `SandboxError` unless these are 64-bit x86 Linux (a 32-bit interpreter on a 64-bit kernel has other numbers)."""
    if (system, machine, pointer_bytes) != ("linux", "x86_64", 8):
        raise SandboxError("architecture", "ENOSYS")


require_x86_64(sys.platform, platform.machine(), struct.calcsize("P"))

HIGHEST_KNOWN = 462
"""The newest call this table knows (`mseal`, Linux 6.10). Anything above gets ENOSYS, so that the C library falls back."""

CALLS: dict[str, int] = {
    "read": 0,
    "write": 1,
    "open": 2,
    "close": 3,
    "stat": 4,
    "fstat": 5,
    "lstat": 6,
    "poll": 7,
    "lseek": 8,
    "mmap": 9,
    "mprotect": 10,
    "munmap": 11,
    "brk": 12,
    "rt_sigaction": 13,
    "rt_sigprocmask": 14,
    "rt_sigreturn": 15,
    "ioctl": 16,
    "readv": 19,
    "writev": 20,
    "access": 21,
    "select": 23,
    "sched_yield": 24,
    "mremap": 25,
    "madvise": 28,
    "nanosleep": 35,
    "getpid": 39,
    "socket": 41,
    "sendto": 44,
    "recvfrom": 45,
    "shutdown": 48,
    "getsockopt": 55,
    "clone": 56,
    "execve": 59,
    "exit": 60,
    "kill": 62,
    "fcntl": 72,
    "getcwd": 79,
    "creat": 85,
    "readlink": 89,
    "gettimeofday": 96,
    "getrusage": 98,
    "sysinfo": 99,
    "times": 100,
    "ptrace": 101,
    "getuid": 102,
    "getgid": 104,
    "geteuid": 107,
    "getegid": 108,
    "getppid": 110,
    "capset": 126,
    "sigaltstack": 131,
    "personality": 135,
    "sched_getparam": 143,
    "sched_setscheduler": 144,
    "sched_getscheduler": 145,
    "modify_ldt": 154,
    "pivot_root": 155,
    "prctl": 157,
    "chroot": 161,
    "mount": 165,
    "umount2": 166,
    "swapon": 167,
    "swapoff": 168,
    "reboot": 169,
    "init_module": 175,
    "delete_module": 176,
    "gettid": 186,
    "time": 201,
    "futex": 202,
    "sched_getaffinity": 204,
    "restart_syscall": 219,
    "clock_gettime": 228,
    "clock_getres": 229,
    "clock_nanosleep": 230,
    "exit_group": 231,
    "epoll_wait": 232,
    "epoll_ctl": 233,
    "tgkill": 234,
    "kexec_load": 246,
    "add_key": 248,
    "request_key": 249,
    "keyctl": 250,
    "openat": 257,
    "newfstatat": 262,
    "readlinkat": 267,
    "faccessat": 269,
    "pselect6": 270,
    "ppoll": 271,
    "unshare": 272,
    "set_robust_list": 273,
    "epoll_pwait": 281,
    "eventfd2": 290,
    "perf_event_open": 298,
    "prlimit64": 302,
    "open_by_handle_at": 304,
    "setns": 308,
    "getcpu": 309,
    "process_vm_readv": 310,
    "process_vm_writev": 311,
    "kcmp": 312,
    "finit_module": 313,
    "seccomp": 317,
    "getrandom": 318,
    "kexec_file_load": 320,
    "bpf": 321,
    "execveat": 322,
    "userfaultfd": 323,
    "membarrier": 324,
    "statx": 332,
    "rseq": 334,
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "clone3": 435,
    "openat2": 437,
    "pidfd_getfd": 438,
    "faccessat2": 439,
    "process_madvise": 440,
    "epoll_pwait2": 441,
    "mount_setattr": 442,
    "landlock_create_ruleset": 444,
    "landlock_restrict_self": 446,
    "futex_wake": 454,
    "futex_wait": 455,
}

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_NAME = 15
PR_CAPBSET_DROP = 24
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_CLEAR_ALL = 4
PR_SET_VMA = 0x53564D41
