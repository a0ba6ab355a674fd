"""Which tabs are under control in the user's Chrome: sharing, the group, taking back, and never the focus."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from browsercell.protocol.errors import ToolErrorCode as Code
from browsercell.protocol.frames import ExtEventKind as Kind
from browsercell.protocol.settings import InputMode

from .conftest import World
from .launcher import EXTENSION_ID, Chromium
from .peer import Peer, ToolFailed, until

pytestmark = [pytest.mark.live, pytest.mark.timeout(120)]


_numbers = itertools.count(1)


class User:
    """A browser paired as the user's own, its peer, and what a person does in it."""

    def __init__(self, world: World) -> None:
        self.site = world.site
        self.chromium = Chromium()
        self.peer = Peer(mode=InputMode.AUTO)
        self.chromium.pair(self.peer.port, self.peer.token, "user")
        until(self.peer.connected.is_set, 20, "the connection")

    def worker(self, expression: str) -> Any:
        return self.chromium.in_worker(expression)

    def own_tab(self, path: str) -> int:
        """A tab that the user opened, in front."""
        url = f"{self.site.base}{path}?u={next(_numbers)}"
        self.chromium.send("Target.createTarget", url=url)
        until(lambda: self.chrome_id(url) is not None, 5, "the user's tab")
        return int(self.chrome_id(url) or 0)

    def chrome_id(self, url: str) -> int | None:
        found = self.worker(
            f"chrome.tabs.query({{}}).then(all => all.find(t => t.url === {json.dumps(url)})?.id ?? null)"
        )
        return None if found is None else int(found)

    def tab(self, tab: int) -> dict[str, Any]:
        found: dict[str, Any] = self.worker(
            f"chrome.tabs.get({tab}).then(t => ({{active: t.active, groupId: t.groupId, url: t.url}}))"
        )
        return found

    def front(self) -> int:
        return int(
            self.worker("chrome.tabs.query({active: true, lastFocusedWindow: true}).then(([t]) => t.id)")
        )

    def group(self, tab: int) -> dict[str, Any] | None:
        """Title of the tab's group."""
        found: dict[str, Any] | None = self.worker(
            f"chrome.tabs.get({tab}).then(t => t.groupId < 0 ? null : chrome.tabGroups.get(t.groupId)).then(g => g && ({{id: g.id, title: g.title}}))"
        )
        return found

    def popup(self) -> str:
        """The popup's page, open behind the tab in front."""
        url = f"chrome-extension://{EXTENSION_ID}/popup.html"
        target = str(self.chromium.send("Target.createTarget", url=url, background=True)["targetId"])
        until(
            lambda: bool(
                self.chromium.evaluate(
                    target, "document.getElementById('headline')?.textContent === 'Connected'"
                )
            ),
            10,
            "the popup",
        )
        return target

    def press(self, popup: str, selector: str) -> None:
        self.chromium.evaluate(popup, f"document.querySelector({json.dumps(selector)}).click(), true")

    def shown(self, popup: str, selector: str) -> bool:
        return bool(
            self.chromium.evaluate(
                popup, f"!!document.querySelector({json.dumps(selector)})?.checkVisibility()"
            )
        )

    def kinds(self, tab: int) -> list[Kind]:
        return [event.kind for event in self.peer.events if event.tab == tab]

    def refused(self, tab: int) -> bool:
        error = self.peer.start("page_observe", tab).result(10).error
        return error is not None and error.code == Code.TAB_NOT_SHARED

    def close(self) -> None:
        self.chromium.close()
        self.peer.close()


@pytest.fixture(scope="module")
def user(world: World) -> Iterator[User]:
    one = User(world)
    yield one
    one.close()


def test_a_tab_is_reached_from_its_sharing_in_the_popup_to_its_stop_there(user: User) -> None:
    tab = user.own_tab("/shop")
    assert user.refused(tab)
    popup = user.popup()
    until(lambda: user.shown(popup, "#share"), 5, "the offer to share")
    user.press(popup, "#share")
    until(lambda: Kind.TAB_SHARED in user.kinds(tab), 5, "the news")
    assert "Books" in user.peer.run("page_observe", tab).text
    until(lambda: user.shown(popup, "#tabs li button"), 5, "the list")
    assert not user.shown(popup, "#share")
    until(lambda: (user.group(tab) or {}).get("title") == "browsercell", 5, "the group")
    user.peer.run("release", tab)  # a task's end is not the end of sharing
    assert "Books" in user.peer.run("page_observe", tab).text
    count = len(user.kinds(tab))
    user.peer.drop()
    until(
        lambda: user.kinds(tab)[count:] == [Kind.TAB_SHARED], 10, "what is shared, told to a new connection"
    )
    until(lambda: user.shown(popup, "#tabs li button"), 5, "the list")
    user.press(popup, "#tabs li button")
    until(lambda: user.kinds(tab)[-1] == Kind.TAB_WITHDRAWN, 5, "the end")
    assert user.refused(tab)
    until(lambda: user.group(tab) is None, 5, "the tab's leaving the group")
    user.chromium.send("Target.closeTarget", targetId=popup)


def test_only_web_pages_are_shared(user: User) -> None:
    blank = int(user.worker("chrome.tabs.create({url: 'chrome://version', active: false}).then(t => t.id)"))
    popup = user.popup()
    said = user.chromium.evaluate(popup, f"chrome.runtime.sendMessage({{ask: 'share', tab: {blank}}})")
    assert said["problem"] is True
    assert said["tabs"] == []
    user.chromium.send("Target.closeTarget", targetId=popup)
    user.worker(f"chrome.tabs.remove({blank}).then(() => true)")


def test_tabs_of_tasks_stand_in_one_group_behind_the_users(user: User) -> None:
    front = user.own_tab("/home")
    assert user.front() == front
    one, two = user.peer.open(f"{user.site.base}/a"), user.peer.open(f"{user.site.base}/b")
    until(lambda: user.group(one) is not None and user.group(one) == user.group(two), 5, "one group")
    assert (user.group(one) or {})["title"] == "browsercell"
    assert user.front() == front
    user.peer.run("release", one)
    until(lambda: user.group(one) is None, 5, "the released tab's leaving")
    assert user.refused(one)
    user.worker(f"chrome.tabs.ungroup({two}).then(() => true)")  # as a drag out of it does
    until(lambda: Kind.TAB_WITHDRAWN in user.kinds(two), 5, "the end of control")
    assert user.refused(two)


def test_taking_a_tab_back_ends_what_runs_in_it_at_once(user: User) -> None:
    tab = user.peer.open(f"{user.site.base}/dynamic")
    user.peer.run("page_press", tab, key="Tab")  # attaches
    until(lambda: user.group(tab) is not None, 5, "the group")
    waiting = user.peer.start("page_wait", tab, until="text", text="never", timeout_ms=9_000)
    time.sleep(0.3)
    started = time.monotonic()
    user.worker(f"chrome.tabs.ungroup({tab}).then(() => true)")
    error = waiting.result(5).error
    assert time.monotonic() - started < 1
    assert error.code == Code.TAB_NOT_SHARED
    assert (
        user.worker(
            f"chrome.debugger.getTargets().then(all => all.some(t => t.tabId === {tab} && t.attached))"
        )
        is False
    )


def test_a_closed_tab_was_not_taken_back(user: User) -> None:
    tab = user.peer.open(f"{user.site.base}/home")
    until(lambda: user.group(tab) is not None, 5, "the group")
    user.worker(f"chrome.tabs.remove({tab}).then(() => true)")
    until(lambda: bool(user.kinds(tab)), 5, "the news")
    time.sleep(0.2)
    assert [kind for kind in user.kinds(tab) if kind in (Kind.TAB_CLOSED, Kind.TAB_WITHDRAWN)] == [
        Kind.TAB_CLOSED
    ]


@pytest.mark.parametrize("mode", [InputMode.ALWAYS, InputMode.NEVER])
@pytest.mark.parametrize("name", ["Popup", "Blank", "Empty", "Window"])
def test_what_a_page_opens_follows_it_and_stays_behind_the_users_tab(
    user: User, name: str, mode: InputMode
) -> None:
    front = user.own_tab("/home")
    tab = user.peer.open(f"{user.site.base}/openers")
    user.peer.mode = mode
    user.peer.drop()
    until(lambda: not user.peer.connected.is_set(), 5, "the end of the connection")
    until(user.peer.connected.is_set, 10, "the new connection")
    try:
        new_tab = (user.peer.run("page_click", tab, name=name).changes or pytest.fail("no changes")).new_tab
    except ToolFailed as failed:
        pytest.fail(str(failed))
    if mode == InputMode.NEVER and name != "Blank":
        assert new_tab is None  # Chrome's popup blocker: nobody pressed anything
        return
    assert new_tab is not None
    until(lambda: Kind.TAB_OPENED in user.kinds(tab), 5, "the news")
    if name == "Empty":  # the browser lets no extension into a top-level about:blank
        assert user.peer.start("page_observe", new_tab).result(10).error.code == Code.RESTRICTED_PAGE
    else:
        until(lambda: "Page" in user.peer.run("page_observe", new_tab).text, 5, "the page")
    if name != "Window":
        until(lambda: user.front() == front, 3, "the user's tab in front")
    user.peer.run("tabs_close", new_tab)
    user.peer.run("tabs_close", tab)


def test_forgetting_the_pairing_ends_all_control(world: World) -> None:
    user = User(world)
    try:
        tab = user.peer.open(f"{user.site.base}/home")
        until(lambda: user.group(tab) is not None, 5, "the group")
        popup = user.popup()
        user.press(popup, "#forget")
        until(lambda: not user.peer.connected.is_set(), 5, "the end of the connection")
        assert user.group(tab) is None
        assert (
            user.worker("chrome.storage.session.get('tabs').then(({tabs}) => Object.keys(tabs).length)") == 0
        )
    finally:
        user.close()
