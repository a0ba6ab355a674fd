"""The content-free ledger of a task: which tools ran and how they ended, never what they said (design 6 and 8).

Invariants: at most `MAX_LEDGER` entries, the newest kept; numbers go on over a cut and over a rollover within this
worker; a line holds tool names, codes and numbers only, plus one of two fixed remarks about where the result is.

Pure: a list with a bound, and its text.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ..protocol import limits as L
from ..protocol.frames import LedgerEntry, ToolResult

EXPIRED: Final = "its result is no longer shown: read the page again if you need it"
"""The receipt that stands for every result older than the last step."""

SHOWN: Final = "its result is shown below"


class Ledger:
    """The entries of this task so far. `entries`: those of earlier generations, oldest first."""

    __slots__ = ("_cut", "_entries")

    def __init__(self, entries: Iterable[LedgerEntry] = ()) -> None:
        self._entries = list(entries)
        self._cut = 0
        self._trim()

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, tool: str, result: ToolResult) -> None:
        """Note a settled call."""
        self._entries.append(
            LedgerEntry(
                tool=tool,
                ok=result.ok,
                code=result.code,
                page_version=result.page_version,
                chars=len(result.content),
            )
        )
        self._trim()

    def lines(self, shown: int) -> list[str]:
        """One line a call, oldest first; the newest `shown` of them have their results in the surface."""
        first_shown = len(self._entries) - shown
        return [
            f"{self._cut + index + 1}. {_line(entry)}; {SHOWN if index >= first_shown else EXPIRED}"
            for index, entry in enumerate(self._entries)
        ]

    def _trim(self) -> None:
        over = len(self._entries) - L.MAX_LEDGER
        if over > 0:
            del self._entries[:over]
            self._cut += over


def _line(entry: LedgerEntry) -> str:
    if not entry.ok:
        return f"{entry.tool}: failed ({entry.code or 'no code'})"
    version = f", page version {entry.page_version}" if entry.page_version else ""
    return f"{entry.tool}: ok{version}, {entry.chars} characters"
