"""What an observation costs a model: tokens of `browser_page_observe` against Playwright's aria snapshot of the same page.

Real pages (`tests/support/real_pages.py` and some more of the same applications), each shown in one browser to both. Our side is
the whole text a worker reads of the first observation in each mode; every control of the page's task has to stand in the first
summary. Tokens are those of o200k. Playwright's side is `ariaSnapshot()` of the body; its form with refs (`ai`) is printed, too.

The goals are for pages whose aria snapshot takes 1,000 tokens or more. A smaller page is told whole, since there is nothing to
be saved: a summary of it may be longer than the snapshot, which gives no ref to act by. The table shows those pages all the same.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import pydoc
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
from tests.bench.browser_ground import served
from tests.bench.harness import Ratio, main
from tests.extension.launcher import Chromium
from tests.extension.peer import Peer, until
from tests.support.real_pages import Needed, RealPage, RealPages, real_pages

GOAL_SUMMARY: Final = 0.25
GOAL_INTERACTIVE: Final = 0.60
SMALL: Final = 1_000  # tokens of the aria snapshot; see above
PAGES: Final = 10  # that are not small, at least
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
    large = [size for size in sizes if size.aria >= SMALL]
    if len(large) < PAGES:
        raise RuntimeError(f"only {len(large)} pages have {SMALL} tokens or more")
    out: list[Ratio] = []
    for mode, goal in (("summary", GOAL_SUMMARY), ("interactive", GOAL_INTERACTIVE)):
        shares = {size.page: getattr(size, mode) / size.aria for size in large}
        worst = max(shares, key=lambda page: shares[page])
        note = f"median {statistics.median(shares.values()):.2f}, {len(shares)} pages; worst: {worst}"
        out.append(Ratio(f"size: {mode} / aria snapshot, worst page", shares[worst], goal, "<=", note))
        whole = sum(getattr(size, mode) for size in large) / sum(size.aria for size in large)
        out.append(Ratio(f"size: {mode} / aria snapshot, all together", whole, goal, "<=", "sum of tokens"))
    lacking = [f"{size.page}: {role} {name!r}" for size in sizes for role, name in size.lacking]
    out.append(
        Ratio(
            "size: needed controls missing from a summary",
            len(lacking),
            0,
            "<=",
            "; ".join(lacking) or "none",
        )
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
        more = stack.enter_context(served({"/pydoc": _python_docs()}))
        for page in (*pages.pages, *_others(pages, more)):
            yield _measure(page, peer, theirs)
        if pages.missing:
            raise RuntimeError(f"pages missing: {pages.missing}")


def _python_docs() -> bytes:
    maker = pydoc.HTMLDoc()
    return maker.page("http.client", maker.document(http.client, "http.client")).encode()


def _others(pages: RealPages, more: str) -> list[RealPage]:
    """Further pages of the applications that are running."""
    stations = pages["datasette"].url
    database = stations.rpartition("/")[0]
    inside = pages["django-list"].url.partition("?")[0] + "?next=/admin/auth/"
    return [
        RealPage("datasette-facets", f"{stations}?_facet=region&_facet=note", "Only stations of the moor, as JSON",
                 (("link", "moor"), ("link", "json"), ("button", "Apply"))),
        RealPage("datasette-sql", f"{database}?sql=select+id,+name,+region+from+stations+limit+200", "Change the query and run it",
                 (("button", "Run SQL"), ("button", "Format SQL"), ("link", "CSV"))),
        RealPage("django-staff", f"{inside}user/%3Fis_staff__exact=1", "Clear the filter, open the first of them",
                 (("link", "Add user"), ("link", "keeper"), ("button", "Go"))),
        RealPage("django-group", f"{inside}group/add/", "Name a group, give it every permission, save",
                 (("textbox", "Name:"), ("button", "Choose all permissions"), ("button", "Save"))),
        RealPage("python-docs-2", f"{more}/pydoc", "Go to the class HTTPSConnection",
                 (("link", "HTTPConnection"), ("link", "HTTPSConnection"))),
    ]  # fmt: skip


def _measure(page: RealPage, peer: Peer, theirs: Aria) -> Size:
    tab = peer.open(page.url)
    wait_whole(page, peer, tab)
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


def wait_whole(page: RealPage, peer: Peer, tab: int) -> None:
    """Wait until the page shows all that its task needs. Raises TimeoutError."""
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
    lines = ["page                 aria     ai   summary       interactive"]
    lines += [
        f"{size.page:18} {size.aria:6} {size.aria_ai:6} {size.summary:6} {size.summary / size.aria:5.0%}"
        f" {size.interactive:6} {size.interactive / size.aria:5.0%}"
        for size in sizes
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(run))
