"""Judges from outside whether a worker is sealed, by the text of `/proc/<pid>/task/<tid>/status` (design 6).

Pure: takes texts, reads nothing. The supervisor reads the files of every thread and asks here before the first task;
what the worker says about itself plays no part.

Fail closed: a line that is missing or unreadable counts as unsealed. In a container every process shows `Seccomp: 2`
already, from the container's own filter; so where the kernel counts filters (Linux 5.9), a sealed thread must show more
of them than the judge's own process.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import msgspec

SECCOMP_FILTER_MODE = 2
_ALL_CAPABILITIES = 0xFFFF_FFFF_FFFF_FFFF


class ThreadSeal(msgspec.Struct, frozen=True):
    """One thread's state: seccomp mode (2: a filter), number of filters (None: kernel does not say), no_new_privs, capabilities held (effective or permitted)."""

    seccomp: int
    filters: int | None
    no_new_privs: bool
    capabilities: int


class SealFault(StrEnum):
    """Why threads do not count as sealed."""

    NONE = ""
    NO_THREADS = "no-threads"
    SECCOMP = "seccomp"
    NO_NEW_PRIVS = "no-new-privs"
    CAPABILITIES = "capabilities"


class SealVerdict(msgspec.Struct, frozen=True):
    """`ok`, or the first fault found."""

    ok: bool
    reason: SealFault = SealFault.NONE


def _number(text: str | None, base: int) -> int | None:
    try:
        return int(text, base) if text is not None else None
    except ValueError:
        return None


def parse_thread_status(text: str) -> ThreadSeal:
    """Reads one status text (any length, any content); never raises. Each field of a doubled name is read from its first line."""
    fields: dict[str, str] = {}
    for line in text.split("\n"):
        name, colon, value = line.partition(":")
        if colon:
            fields.setdefault(name, value.strip())
    effective, permitted = (_number(fields.get(name), 16) for name in ("CapEff", "CapPrm"))
    unknown = effective is None or permitted is None
    return ThreadSeal(
        seccomp=_number(fields.get("Seccomp"), 10) or 0,
        filters=_number(fields.get("Seccomp_filters"), 10),
        no_new_privs=fields.get("NoNewPrivs") == "1",
        capabilities=_ALL_CAPABILITIES if unknown else (effective or 0) | (permitted or 0),
    )


def threads_sealed(threads: Sequence[ThreadSeal], judge: ThreadSeal) -> SealVerdict:
    """Whether every thread of a worker is sealed. `judge` is the state of the process that asks (unsealed, same container)."""
    if not threads:
        return SealVerdict(False, SealFault.NO_THREADS)
    for thread in threads:
        uncounted = thread.filters is None or judge.filters is None
        own_filter = uncounted or (thread.filters or 0) > (judge.filters or 0)
        if thread.seccomp != SECCOMP_FILTER_MODE or not own_filter:
            return SealVerdict(False, SealFault.SECCOMP)
        if not thread.no_new_privs:
            return SealVerdict(False, SealFault.NO_NEW_PRIVS)
        if thread.capabilities:
            return SealVerdict(False, SealFault.CAPABILITIES)
    return SealVerdict(True)
