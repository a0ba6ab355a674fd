"""What an observation costs a model: tokens of `browser_page_observe` against Playwright's aria snapshot of the same page.

Twelve real pages (`tests/support/real_pages.py`), each shown in one browser to both. Our side is the whole text a worker reads of
the first observation in each mode, at the tool's own limits, continued by its cursor where controls would be missing otherwise is
not allowed: every control of the page's task has to stand in that first summary. Tokens are those of o200k.
"""

from __future__ import annotations

import contextlib
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from browsercell.protocol.settings import InputMode

from tests.bench.aria import Aria, aria, debugging_port
from tests.bench.harness import Ratio, main
from tests.extension.launcher import Chromium
from tests.extension.peer import Peer, until
from tests.support.real_pages import Needed, RealPage, real_pages

GOAL_SUMMARY: Final = 0.25
GOAL_INTERACTIVE: Final = 0.60
WHOLE_S: Final = 30.0  # for a page to show what its task needs: JupyterLab takes seconds


@dataclass(frozen=True, slots=True)
class Size:
    """Tokens of one page; `lacking`: controls of its task that the summary does not show."""

    page: str
    aria: int
    aria_ai: int
    summary: int
    interactive: int
    lacking: Needed


def run() -> list[Ratio]:
    """All ratios of this module; about a minute."""
    sizes = list(measure())
    print(_table(sizes))
    out: list[Ratio] = []
    for mode, goal in (("summary", GOAL_SUMMARY), ("interactive", GOAL_INTERACTIVE)):
        shares = {size.page: getattr(size, mode) / size.aria for size in sizes}
        worst = max(shares, key=lambda page: shares[page])
        note = f"median {statistics.median(shares.values()):.2f}, {len(shares)} pages; worst: {worst}"
        out.append(Ratio(f"size: {mode} / aria snapshot, worst page", shares[worst], goal, "<=", note))
        whole = sum(getattr(size, mode) for size in sizes) / sum(size.aria for size in sizes)
        out.append(Ratio(f"size: {mode} / aria snapshot, all together", whole, goal, "<=", "sum of tokens"))
    lacking = [f"{size.page}: {role} {name!r}" for size in sizes for role, name in size.lacking]
    out.append(
        Ratio("size: needed controls missing from a summary", len(lacking), 0, "<=", "; ".join(lacking) or "none")
    )
    return out


def measure() -> Iterator[Size]:
    """The sizes, page by page."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bct-size-")))
        pages = stack.enter_context(real_pages(folder))
        peer = Peer(mode=InputMode.ALWAYS)
        stack.callback(peer.close)
        chromium = Chromium("--remote-debugging-port=0", "--window-size=1280,900")
        stack.callback(chromium.close)
        chromium.pair(peer.port, peer.token)
        until(peer.connected.is_set, 20, "the extension's connection")
        theirs = stack.enter_context(aria(debugging_port(chromium.profile)))
        for page in pages.pages:
            yield _measure(page, peer, theirs)
        if pages.missing:
            raise RuntimeError(f"pages missing: {pages.missing}")


def _measure(page: RealPage, peer: Peer, theirs: Aria) -> Size:
    tab = peer.open(page.url)
    _whole(page, peer, tab)
    seen = peer.run("page_observe", tab, mode="summary")
    interactive = peer.run("page_observe", tab, mode="interactive")
    part = seen.url.partition("#")[0]
    whole, _ = theirs.snapshot(part)
    marked, _ = theirs.snapshot(part, mode="ai")
    peer.attempt("browser_tabs_close", tab)
    return Size(
        page.name,
        theirs.tokens(whole),
        theirs.tokens(marked),
        theirs.tokens(seen.text),
        theirs.tokens(interactive.text),
        tuple((role, name) for role, name in page.needed if not shows(seen.text, role, name)),
    )


def shows(text: str, role: str, name: str) -> bool:
    """Whether an observation offers this control."""
    return f"] {role} {json.dumps(name, ensure_ascii=False)}" in text


def _whole(page: RealPage, peer: Peer, tab: int) -> None:
    end = time.monotonic() + WHOLE_S
    while True:
        lacking = [
            (role, name)
            for role, name in page.needed
            if not shows(peer.run("page_find", tab, query=name, role=role).text, role, name)
        ]
        if not lacking:
            return
        if time.monotonic() > end:
            raise TimeoutError(f"{page.name} does not show {lacking}")
        time.sleep(0.2)


def _table(sizes: list[Size]) -> str:
    lines = ["page             aria    ai   summary       interactive"]
    lines += [
        f"{size.page:14} {size.aria:6} {size.aria_ai:6} {size.summary:6} {size.summary / size.aria:5.0%}"
        f" {size.interactive:6} {size.interactive / size.aria:5.0%}"
        for size in sizes
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(run))
