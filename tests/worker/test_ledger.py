"""The ledger: bounded, content-free, with a receipt for what is no longer shown."""

from __future__ import annotations

from browsercell.protocol import limits as L
from browsercell.protocol.errors import ToolErrorCode
from browsercell.protocol.frames import LedgerEntry, ToolResult
from browsercell.worker.ledger import EXPIRED, SHOWN, Ledger


def result(ok: bool = True, **fields: object) -> ToolResult:
    return ToolResult(call=1, ok=ok, content=str(fields.pop("content", "")), **fields)  # type: ignore[arg-type]


def test_lines_hold_tool_outcome_and_numbers_only() -> None:
    ledger = Ledger()
    ledger.add("browser_page_observe", result(content="secret page text", page_version=3))
    ledger.add("browser_page_click", result(ok=False, code=ToolErrorCode.NOT_FOUND, content="secret"))
    ledger.add("browser_page_press", result(ok=False))
    ledger.add("browser_page_wait", result())
    assert ledger.lines(0) == [
        f"1. browser_page_observe: ok, page version 3, 16 characters; {EXPIRED}",
        f"2. browser_page_click: failed (not-found); {EXPIRED}",
        f"3. browser_page_press: failed (no code); {EXPIRED}",
        f"4. browser_page_wait: ok, 0 characters; {EXPIRED}",
    ]


def test_the_newest_results_are_shown_and_older_ones_have_expired() -> None:
    ledger = Ledger([LedgerEntry(tool="browser_status", ok=True)])
    ledger.add("browser_page_observe", result())
    ledger.add("browser_page_observe", result())
    assert [line.rsplit("; ")[-1] for line in ledger.lines(1)] == [EXPIRED, EXPIRED, SHOWN]


def test_the_newest_entries_are_kept_and_keep_their_numbers() -> None:
    ledger = Ledger(LedgerEntry(tool="browser_status", ok=True) for _ in range(L.MAX_LEDGER + 2))
    assert len(ledger) == L.MAX_LEDGER
    ledger.add("browser_page_observe", result())
    assert len(ledger) == L.MAX_LEDGER
    assert ledger.lines(1)[0].startswith("4. ")
    assert ledger.lines(1)[-1].startswith(f"{L.MAX_LEDGER + 3}. browser_page_observe")
