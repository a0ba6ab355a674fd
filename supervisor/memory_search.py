"""Searches a process's memory for page markers: the proof that page data was never in the supervisor.

A marker is 24 characters of a-z and 0-9. A hit is any single marker in UTF-8, in UTF-16 of either byte order, or in
base64 at any of its three alignments. `search_bytes` and `MarkerIndex` are pure and say nothing of where bytes come
from; `search_process` reads every readable mapping of a process through `/proc/<pid>/mem`.

Invariants: a marker across two chunks is found (they overlap); a mapping that can't be read is counted, not passed over in
silence. It finds nothing compressed, encrypted or split: those need the bytes to have been there first.
"""

from __future__ import annotations

import base64
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from ..protocol.errors import Unavailable

MARKER_LENGTH: Final = 24
CHUNK: Final = 4 << 20  # bytes read at once: bounds our own memory
OVERLAP: Final = 2 * MARKER_LENGTH + 2  # the longest encoding (UTF-16) and a bit
_RAW_RUN: Final = re.compile(rb"[a-z0-9]{24,}")
_WIDE_RUN: Final = re.compile(rb"[a-z0-9](?:\x00[a-z0-9]){23,}")  # UTF-16 of either byte order, in one pass
# The base64 of a-z, 0-9 and whatever surrounds them never needs + or / inside a marker's own characters.
_BASE64_RUN: Final = re.compile(rb"[A-Za-z0-9]{31,}")
_SKIPPED: Final = frozenset(
    {"[vvar]", "[vvar_vclock]", "[vsyscall]", "[vdso]"}
)  # the kernel's, not the process's


class MarkerIndex:
    """The encodings of a set of markers, ready to be looked up."""

    __slots__ = ("_base64", "_raw")

    def __init__(self, markers: Iterable[str]) -> None:
        """`markers`: each 24 characters of a-z and 0-9. Raises ValueError otherwise, or if there are none."""
        self._raw: set[bytes] = set()
        self._base64: dict[int, set[bytes]] = {}
        for marker in markers:
            raw = marker.encode("ascii")
            if len(raw) != MARKER_LENGTH or not _RAW_RUN.fullmatch(raw):
                raise ValueError("a marker is 24 characters of a-z and 0-9")
            self._raw.add(raw)
            for lead in range(3):
                own = _own_base64(raw, lead)
                self._base64.setdefault(len(own), set()).add(own)
        if not self._raw:
            raise ValueError("no marker to search for")

    def search(self, data: bytes) -> Counter[str]:
        """Hits by encoding; an occurrence counts once."""
        hits: Counter[str] = Counter()
        for name, run in self._runs(data):
            hits[name] += self._hits(run, self._raw, MARKER_LENGTH)
        for match in _BASE64_RUN.finditer(data):
            for length, known in self._base64.items():
                hits["base64"] += self._hits(match.group(), known, length)
        return +hits

    @staticmethod
    def _runs(data: bytes) -> Iterator[tuple[str, bytes]]:
        for match in _RAW_RUN.finditer(data):
            yield "utf-8", match.group()
        for match in _WIDE_RUN.finditer(data):
            yield "utf-16", match.group()[::2]

    @staticmethod
    def _hits(run: bytes, known: set[bytes], length: int) -> int:
        return sum(run[start : start + length] in known for start in range(len(run) - length + 1))


def _own_base64(raw: bytes, lead: int) -> bytes:
    """The characters that only `raw` decides when `lead` bytes (0, 1, 2) stand before it in its base64 group."""
    text = base64.b64encode(b"\0" * lead + raw + b"\0" * 3)
    return text[-(-8 * lead // 6) : 8 * (lead + len(raw)) // 6]


@dataclass(slots=True)
class SearchReport:
    """What was searched and found in one process."""

    pid: int
    mappings: int = 0
    bytes: int = 0
    unreadable: int = 0  # mappings that the kernel refused although they are marked readable
    hits: Counter[str] = field(default_factory=Counter)

    @property
    def total(self) -> int:
        return sum(self.hits.values())


def search_bytes(data: bytes, index: MarkerIndex) -> Counter[str]:
    """Hits in a whole file or value."""
    return index.search(data)


def search_process(pid: int, index: MarkerIndex) -> SearchReport:
    """Search every readable mapping of `pid`. Raises Unavailable if its memory may not be read at all."""
    report = SearchReport(pid)
    try:
        memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise Unavailable(
            f"the memory of process {pid} can't be read ({error.strerror})",
            next_step="Start the supervisor with --set debug.inspection=true, or run this as root",
        ) from None
    try:
        for start, end in _readable_mappings(pid):
            report.mappings += 1
            if not _search_mapping(memory, start, end, index, report):
                report.unreadable += 1
    finally:
        os.close(memory)
    return report


def _readable_mappings(pid: int) -> list[tuple[int, int]]:
    found = []
    with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as lines:
        for line in lines:
            parts = line.split(None, 5)
            name = parts[5].strip() if len(parts) > 5 else ""
            if parts[1].startswith("r") and name not in _SKIPPED:
                start, _, end = parts[0].partition("-")
                found.append((int(start, 16), int(end, 16)))
    return found


def _search_mapping(memory: int, start: int, end: int, index: MarkerIndex, report: SearchReport) -> bool:
    """False if nothing of it could be read."""
    position, tail, read_any = start, b"", False
    while position < end:
        try:
            data = os.pread(memory, min(CHUNK, end - position), position)
        except OSError:  # unmapped meanwhile, or a device's memory: counted by the caller if nothing was read
            return read_any
        if not data:
            return read_any
        read_any = True
        report.bytes += len(data)
        report.hits += index.search(tail + data) - index.search(tail)
        tail = data[-OVERLAP:]
        position += len(data)
    return read_any
