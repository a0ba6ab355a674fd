"""What /proc tells about our processes: memory, processor time, sessions, thread states.

Every function answers for a process that may end at any moment: 0, empty or nothing then, never an exception.
Uses `stat`, `statm` and `status` only: they stay readable although a child is not dumpable (facts/sandbox.md 4).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from ..protocol.seal_check import ThreadSeal, parse_thread_status

_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_SESSION, _UTIME, _STIME = 3, 11, 12  # fields of `stat` counted after the command's closing bracket


def resident(pid: int) -> int:
    """Bytes of resident memory."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_bytes().split()[1]) * _PAGE
    except (OSError, IndexError, ValueError):
        return 0


def cpu_seconds(pid: int) -> float:
    """Processor time used so far, user and kernel."""
    fields = _stat(pid)
    return (int(fields[_UTIME]) + int(fields[_STIME])) / _TICKS if fields else 0.0


def session_members(leader: int) -> list[int]:
    """Pids of every living process in the session of `leader`, itself included."""
    return [pid for pid in _pids() if _in_session(pid, leader)]


def family(leader: int, marker: bytes) -> list[int]:
    """The session of `leader` and whoever names `marker` (unguessable) in its command line.

    Chromium's crash handlers leave the session, but their command line names the profile's folder.
    """
    return [pid for pid in _pids() if in_family(pid, leader, marker)]


def in_family(pid: int, leader: int, marker: bytes) -> bool:
    return _in_session(pid, leader) or marker in _command_line(pid)


def thread_seals(pid: int) -> list[ThreadSeal]:
    """The seal of every thread of `pid`; empty if it can't be read, which counts as unsealed."""
    seals = []
    try:
        for entry in os.scandir(f"/proc/{pid}/task"):
            seals.append(parse_thread_status(Path(entry.path, "status").read_text("utf-8", "replace")))
    except OSError:
        return []
    return seals


def own_seal() -> ThreadSeal:
    """The state of this process, to compare with."""
    return parse_thread_status(Path("/proc/self/status").read_text("utf-8", "replace"))


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _in_session(pid: int, leader: int) -> bool:
    fields = _stat(pid)
    return bool(fields) and int(fields[_SESSION]) == leader and fields[0] != b"Z"


def _command_line(pid: int) -> bytes:
    """Empty for a zombie."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _stat(pid: int) -> list[bytes]:
    try:
        data = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return []
    fields = data[data.rfind(b")") + 1 :].split()  # the command may hold spaces and brackets
    return fields if len(fields) > _STIME else []
