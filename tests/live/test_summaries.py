"""First looks at real pages: a summary shows what the page's task needs, and its cursor leads to everything else.

What a summary costs in tokens, on more pages and against Playwright's snapshot: `make bench`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import pytest
from browsercell.protocol.settings import InputMode

from tests.bench.bench_size import shows, wait_whole
from tests.extension.launcher import Chromium
from tests.extension.peer import Peer, until
from tests.support.real_pages import RealPages, real_pages

PAGES: Final = ("datasette", "django-list", "django-form", "govuk")
SHARE: Final = 0.6  # of what reading the whole page takes; of Playwright's snapshot it is far less
_REF: Final = re.compile(r"\[(e\d+)\]")


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealPages]:
    with real_pages(tmp_path_factory.mktemp("pages"), PAGES) as found:
        assert not found.missing, found.missing
        yield found


@pytest.fixture(scope="module")
def peer() -> Iterator[Peer]:
    peer = Peer(mode=InputMode.ALWAYS)
    chromium = Chromium()
    chromium.pair(peer.port, peer.token)
    until(peer.connected.is_set, 20, "the extension's connection")
    yield peer
    chromium.close()
    peer.close()


@pytest.mark.parametrize("name", PAGES)
def test_a_summary_shows_what_the_task_needs_at_a_fraction(pages: RealPages, peer: Peer, name: str) -> None:
    page = pages[name]
    tab = peer.open(page.url)
    wait_whole(page, peer, tab)
    document = ""
    cursor: str | None = None
    while cursor != "":
        given: dict[str, Any] = {} if cursor is None else {"cursor": cursor}
        reply = peer.run("page_observe", tab, mode="document", **given)
        document, cursor = document + reply.text, reply.cursor
    summary = peer.run("page_observe", tab)
    lacking = [needed for needed in page.needed if not shows(summary.text, *needed)]
    assert not lacking, summary.text
    assert len(summary.text) <= len(document) * SHARE
    peer.attempt("browser_tabs_close", tab)


def test_a_cursor_leads_to_all_that_a_summary_leaves_for_later(pages: RealPages, peer: Peer) -> None:
    page = pages["django-list"]
    tab = peer.open(page.url)
    wait_whole(page, peer, tab)
    reply = peer.run("page_observe", tab)
    assert re.search(r"\n… \d+ more (?:elements|lines): cursor=o\d+\.\d+$", reply.text)
    seen, first = [reply.text], _REF.findall(reply.text)[0]
    while reply.cursor:
        reply = peer.run("page_observe", tab, cursor=reply.cursor)
        seen.append(reply.text)
    assert len(seen) < 6
    refs = [ref for part in seen for ref in _REF.findall(part)]
    interactive = _REF.findall(peer.run("page_observe", tab, mode="interactive").text)
    # The same link told again under the same name is left out of a summary; nothing else is.
    assert len(set(refs)) >= 0.9 * len(set(interactive))
    assert peer.run("page_scroll", tab, ref=first).text  # refs of the first part are still valid
    peer.attempt("browser_tabs_close", tab)
