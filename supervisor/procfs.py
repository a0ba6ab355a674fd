"""What /proc tells about our processes: memory, processor time, sessions, thread states.

Every function answers for a process that may end at any moment: 0, empty or nothing then, never an exception.
Uses `stat`, `statm` and `status` only: they stay readable although a child is not dumpable (facts/sandbox.md 4).
"""

from __future__ import annotations

import os
from pathlib import Path

import psutil

from ..protocol.seal_check import ThreadSeal, parse_thread_status

_STATE, _SESSION = (
    0,
    3,
)  # fields of `stat` counted after the command's closing bracket; psutil knows no sessions


def resident(pid: int) -> int:
    """Bytes of resident memory."""
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return 0


def cpu_seconds(pid: int) -> float:
    """Processor time used so far, user and kernel."""
    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.Error:
        return 0.0
    return float(times.user + times.system)


def session_members(leader: int) -> list[int]:
    """Pids of every living process in the session of `leader`, itself included."""
    return [pid for pid in psutil.pids() if _in_session(pid, leader)]


def family(leader: int, marker: bytes) -> list[int]:
    """The session of `leader` and whoever names `marker` (unguessable) in its command line.

    Chromium's crash handlers leave the session, but their command line names the profile's folder.
    """
    return [pid for pid in psutil.pids() if in_family(pid, leader, marker)]


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


def _in_session(pid: int, leader: int) -> bool:
    fields = _stat(pid)
    return bool(fields) and int(fields[_SESSION]) == leader and fields[_STATE] != b"Z"


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
    return fields if len(fields) > _SESSION else []
