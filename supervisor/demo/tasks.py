"""The demo's two tasks as playbooks: the main job and the memory proof. Data, and one function a task.

The site's address is a variable, so nothing of a page is in here; what a page says never comes back but in artifacts.
"""

from __future__ import annotations

from typing import Any, Final

from ..memory_search import MARKER_LENGTH

PRICES: Final = "prices"
PICTURE: Final = "shop page"
PRICES_FILE: Final = "prices.csv"
PICTURE_FILE: Final = "shop.png"
MARKER_CHARS: Final = 100_000  # characters of the marker page: about 4,000 markers
MAIN_GOAL: Final = "Search the bookshop, page through the results, export its price table and take a picture"
PROOF_GOAL: Final = (
    "Read a page of 100,000 characters that nobody outside the worker and the bridge may ever hold"
)

DELIVERABLES: Final[tuple[dict[str, Any], ...]] = (
    {"purpose": PRICES, "kind": "table", "path": PRICES_FILE},
    {"purpose": PICTURE, "kind": "screenshot", "path": PICTURE_FILE},
)

MAIN: Final[tuple[dict[str, Any], ...]] = (
    {"tool": "browser_page_navigate", "args": {"url": "${site}/"}},
    {"tool": "browser_page_observe", "args": {"mode": "summary"}},
    {
        "tool": "browser_page_type",
        "args": {"target": {"role": "searchbox", "name": "Search"}, "text": "the", "submit": True},
    },
    {"expect": {"text": "page 1 of"}},
    {"tool": "browser_page_extract", "args": {"kind": "list"}},
    {"tool": "browser_page_click", "args": {"target": {"role": "link", "name": "Next"}}},
    {"expect": {"text": "page 2 of"}},
    {"tool": "browser_page_click", "args": {"target": {"role": "link", "name": "Page 3"}}},
    {"expect": {"text": "page 3 of"}},
    {"tool": "browser_page_navigate", "args": {"url": "${site}/prices"}},
    {
        "tool": "browser_page_extract",
        "args": {
            "kind": "table",
            "target": {"role": "table", "name": "Prices", "nth": 1},
            "to_artifact": "csv",
        },
        "purpose": PRICES,
    },
    {"tool": "browser_page_screenshot", "args": {}, "purpose": PICTURE},
    {"finish": {"status": "completed", "summary": "Searched, paged, exported the prices and took a picture"}},
)

PROOF: Final[tuple[dict[str, Any], ...]] = (
    {"tool": "browser_page_navigate", "args": {"url": "${site}/marker?hold=1&n=" + str(MARKER_CHARS)}},
    {"tool": "browser_page_observe", "args": {"mode": "document", "max_chars": 24_000}},
    {"tool": "browser_page_extract", "args": {"kind": "text", "to_artifact": "markdown"}},
    {"tool": "browser_page_screenshot", "args": {}},
    # One wait is 30 s at most; a search of two processes on a busy machine may take longer.
    {"expect": {"text": "Held for 20 s"}, "timeout_ms": 30_000},
    {"expect": {"text": "Held for 40 s"}, "timeout_ms": 30_000},
    {"expect": {"text": "Released"}, "timeout_ms": 30_000},
    {"finish": {"status": "completed", "summary": "Read, extracted and photographed the marker page"}},
)
# Calls of the proof that are settled when the memory search begins: everything but the wait.
PROOF_CALLS: Final = sum("tool" in step for step in PROOF)

assert MARKER_LENGTH == 24, "the site's tokens and the search's markers are of one length"
