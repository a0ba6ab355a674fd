"""Pages that can't be worked with, each named for what it is, at once; and none of them holds up a listing."""

from __future__ import annotations

import contextlib
import time
from typing import Any

import pytest
from browsercell.protocol.errors import ToolErrorCode as Code
from browsercell.protocol.settings import InputMode

from .answers import Open
from .conftest import Tab, World
from .launcher import Chromium
from .peer import Peer, until

pytestmark = [pytest.mark.live, pytest.mark.timeout(120)]

MODES = pytest.mark.parametrize("mode", [InputMode.ALWAYS, InputMode.NEVER])
SOON_S = 2.0  # far below any tool's deadline, on a busy machine too


def named(tab: Tab, code: Code) -> None:
    """Every kind of tool says it soon, and the listing goes on."""
    for op, args in (
        ("page_observe", {}),
        ("page_click", {"name": "Go"}),
        ("page_extract", {"kind": "text"}),
        ("page_press", {"key": "Tab"}),
    ):
        started = time.monotonic()
        error = tab.fails(op, code, **args)
        assert time.monotonic() - started < SOON_S, op
        assert not error.refs_valid
        assert not error.may_have_effect
    started = time.monotonic()
    assert [one.tab for one in tab.world.peer.run("tabs_list", tabs=(tab.id,)).tabs] == [tab.id]
    assert time.monotonic() - started < SOON_S


def crash(world: World, tab: Tab) -> None:
    """The page's process dies; its tool has no say in it."""
    session = world.chromium.send("Target.attachToTarget", targetId=tab.target, flatten=True)["sessionId"]
    with contextlib.suppress(TimeoutError):  # nobody is left to answer
        world.chromium.send("Page.crash", session, timeout=1)
    world.chromium.send("Target.detachFromTarget", sessionId=session)


@MODES
def test_a_crashed_page(open_tab: Open, world: World, mode: InputMode) -> None:
    tab = open_tab("/shop")
    world.mode(mode)
    tab.observe()
    crash(world, tab)
    named(tab, Code.PAGE_CRASHED)
    tab.run("page_navigate", url=f"{world.site.base}/shop")
    assert 'button "Go"' in tab.observe()


@MODES
def test_a_page_whose_server_or_name_is_not_there(open_tab: Open, world: World, mode: InputMode) -> None:
    tab = open_tab("/shop")
    world.mode(mode)
    for url in ("http://127.0.0.1:9/", "http://nowhere.invalid/"):
        error = tab.fails("page_navigate", Code.NAVIGATION_FAILED, url=url)
        assert "net::ERR_" in error.message
        named(tab, Code.ERROR_PAGE)
    tab.run("page_navigate", url=f"{world.site.base}/shop")
    assert 'button "Go"' in tab.observe()


@MODES
def test_a_page_of_the_browsers_own(open_tab: Open, world: World, mode: InputMode) -> None:
    tab = open_tab("/shop")
    world.mode(mode)
    world.chromium.in_worker(f"chrome.tabs.update({tab.id}, {{url: 'chrome://version/'}}).then(() => true)")
    until(
        lambda: world.peer.run("tabs_list", tabs=(tab.id,)).tabs[0].url == "chrome://version/",
        5,
        "the browser's page",
    )
    named(tab, Code.RESTRICTED_PAGE)
    tab.run("page_navigate", url=f"{world.site.base}/shop")
    assert 'button "Go"' in tab.observe()


@MODES
def test_a_pdf(open_tab: Open, world: World, mode: InputMode) -> None:
    tab = open_tab("/shop")
    world.mode(mode)
    reply = tab.run("page_navigate", url=f"{world.site.base}/leaflet.pdf")
    assert "it is a PDF" in reply.text
    named(tab, Code.PDF_PAGE)
    assert tab.run("page_screenshot").image
    assert tab.run("page_navigate", history="back").url == tab.url
    assert 'button "Go"' in tab.observe()


def test_one_sleeping_tab_among_twenty_of_the_users_browser(world: World) -> None:
    browser, peer = Chromium(), Peer(mode=InputMode.AUTO)
    try:
        browser.pair(peer.port, peer.token, "user")
        until(peer.connected.is_set, 20, "the connection")
        tabs = [peer.open(f"{world.site.base}/shop?t={number}") for number in range(20)]
        assert "Go" in peer.run("page_observe", tabs[7]).text
        slept = browser.in_worker(f"chrome.tabs.discard({tabs[7]}).then(tab => tab.id)")
        # Some Chromes give a sleeping tab another id; the bridge is told and goes by that one.
        sleeping = tabs[7] = int(slept)

        started = time.monotonic()
        listed = peer.run("tabs_list", tabs=tuple(tabs)).tabs
        assert time.monotonic() - started < SOON_S
        assert [one.tab for one in listed] == tabs
        assert [one.tab for one in listed if one.status == "discarded"] == [sleeping]
        assert listed[7].url == f"{world.site.base}/shop?t=7"
        assert listed[7].title != ""

        looks: dict[str, dict[str, Any]] = {
            "page_observe": {},
            "page_click": {"name": "Go"},
            "page_screenshot": {},
        }
        for op, args in looks.items():
            started = time.monotonic()
            error = peer.start(op, sleeping, **args).result(15).error
            assert time.monotonic() - started < SOON_S
            assert error is not None
            assert (error.code, error.retryable) == (Code.PAGE_ASLEEP, True)
            assert error.next_tool == "browser_page_navigate"
        for tab in tabs[:7] + tabs[8:]:
            assert "Go" in peer.run("page_observe", tab).text
        assert peer.run("tabs_list", tabs=(sleeping,)).tabs[0].status == "discarded"  # no look woke it

        peer.run("page_navigate", sleeping, history="reload")
        assert "Go" in peer.run("page_observe", sleeping).text
        assert peer.run("tabs_list", tabs=(sleeping,)).tabs[0].status == "complete"
    finally:
        browser.close()
        peer.close()
