"""The tools in a Chromium started with no debugging switch, the extension installed for good and paired by its popup.

An attached debugger hides half of the faults: it keeps the service worker awake, answers dialogs and makes tabs draw.
What a page saw is read from the page itself, with the same tools.
"""

from __future__ import annotations

import base64
import shutil
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browsercell.protocol import frames
from browsercell.protocol.errors import ToolErrorCode as Code
from browsercell.protocol.frames import InputKind
from browsercell.protocol.settings import InputMode

from .answers import changed, table
from .bare import installed_profile, started
from .frame_pages import KINDS
from .peer import Peer, ToolFailed, until
from .site import Site

pytestmark = [pytest.mark.live, pytest.mark.timeout(180)]


class User:
    """A site, a bridge's stand-in, and the user's browser."""

    def __init__(self) -> None:
        self.site = Site()
        self.peer = Peer(mode=InputMode.AUTO)
        self.profile: Path = installed_profile(self.peer.port, self.peer.token)
        until(lambda: not self.peer.connected.is_set(), 10, "the end of the first browser")
        self._browser = started(self.profile)
        self.pid = self._browser.__enter__()
        until(self.peer.connected.is_set, 20, "the paired browser")

    def restart(self) -> None:
        self._browser.__exit__(None, None, None)
        until(lambda: not self.peer.connected.is_set(), 10, "the end of the browser")
        self._browser = started(self.profile)
        self.pid = self._browser.__enter__()
        until(self.peer.connected.is_set, 20, "the browser's return")

    def close(self) -> None:
        self._browser.__exit__(None, None, None)
        self.peer.close()
        self.site.close()
        shutil.rmtree(self.profile, ignore_errors=True)  # a late child may still write; the system cleans


@pytest.fixture(scope="module")
def user() -> Iterator[User]:
    one = User()
    yield one
    one.close()


class Tab:
    """A tab of the task."""

    def __init__(self, user: User, path: str) -> None:
        self.user = user
        self.url = f"{user.site.base}{path}"
        self.id = user.peer.open(self.url)

    def run(self, op: str, **args: Any) -> frames.PageReply:
        return self.user.peer.run(op, self.id, **args)

    def fails(self, op: str, code: Code, **args: Any) -> frames.PageError:
        with pytest.raises(ToolFailed) as caught:
            self.run(op, **args)
        assert caught.value.error.code == code, caught.value
        return caught.value.error

    def ref(self, part: str, mode: str = "interactive") -> str:
        for line in self.run("page_observe", mode=mode).text.splitlines():
            if part in line and "[" in line:
                return line[line.index("[") + 1 : line.index("]")]
        raise LookupError(part)

    def says(self, words: str, timeout_ms: int = 3_000) -> None:
        """The page says so, now or soon."""
        self.run("page_wait", until="text", text=words, timeout_ms=timeout_ms)

    def silent(self, words: str) -> None:
        assert words not in self.run("page_observe", mode="document").text


@pytest.fixture
def open_tab(user: User) -> Iterator[Any]:
    tabs: list[Tab] = []

    def make(path: str) -> Tab:
        tabs.append(Tab(user, path))
        return tabs[-1]

    yield make
    for tab in tabs:
        user.peer.attempt("browser_tabs_close", tab.id)


def test_nobody_can_debug_this_browser(user: User) -> None:
    line = Path(f"/proc/{user.pid}/cmdline").read_bytes()
    assert b"remote-debugging" not in line
    assert b"load-extension" not in line.replace(
        b"--load-extension=\0", b"\0"
    )  # a wrapper of the system may give an empty one
    assert user.peer.hellos[-1].pairing == "user"


def test_a_list_drawn_anew_all_the_time(open_tab: Any) -> None:
    tab = open_tab("/case/rerender")
    ref = tab.ref('"Choose B"')
    time.sleep(0.6)
    tab.run("page_click", ref=ref)
    tab.says("chose B of drawing")


def test_buttons_that_look_alike(open_tab: Any) -> None:
    tab = open_tab("/case/deletes")
    tab.fails("page_click", Code.AMBIGUOUS_TARGET, name="Delete", role="button")
    lines = [
        line
        for line in tab.run("page_observe", mode="document").text.splitlines()
        if "Delete" in line or "Invoice" in line
    ]
    at = next(i for i, line in enumerate(lines) if "Invoice 3" in line)
    line = next(line for line in lines[at:] if "Delete" in line)
    tab.run("page_click", ref=line[line.index("[") + 1 : line.index("]")])
    tab.says("deleted 3")


def test_tiles_of_text(open_tab: Any) -> None:
    tab = open_tab("/case/tiles")
    tab.run("page_click", ref=tab.ref("Yearly plan", "summary"))
    tab.says("picked Yearly plan")


def test_three_controls_in_a_cell(open_tab: Any) -> None:
    tab = open_tab("/case/cell")
    tab.run("page_click", name="Copy", role="button")
    tab.says("lamp copy")


def test_frames_of_every_kind(open_tab: Any) -> None:
    started_at = time.monotonic()
    tab = open_tab("/kinds")  # one of them never loads
    assert time.monotonic() - started_at < 8
    seen = tab.run("page_observe", mode="document").text
    assert [kind for kind in KINDS if f'"Press {kind}"' not in seen] == []
    for kind in ("cross", "srcdoc", "blob", "deepest"):
        tab.run("page_click", name=f"Press {kind}", role="button")
        tab.says(f"{kind} pressed false")


def test_a_busy_frame(open_tab: Any) -> None:
    tab = open_tab("/busy-frame")
    time.sleep(1)
    started_at = time.monotonic()
    assert '"Press object"' in tab.run("page_observe").text
    assert time.monotonic() - started_at < 3


def test_a_card_form_in_frames(open_tab: Any) -> None:
    tab = open_tab("/card")
    seen = tab.run("page_observe").text
    assert "4111" not in seen
    assert "987" not in seen
    tab.run("page_type", ref=tab.ref('"Name on card"'), text="Ada")
    tab.fails("page_type", Code.SENSITIVE_FIELD, ref=tab.ref('"Card number"'), text="1")
    tab.run("page_click", name="Pay")
    tab.says("paid by Ada")


def test_a_link_to_a_new_tab(open_tab: Any, user: User) -> None:
    tab = open_tab("/openers")
    new_tab = changed(tab.run("page_click", name="Blank")).new_tab
    assert new_tab is not None
    assert "Page /home" in user.peer.run("page_observe", new_tab).text
    user.peer.run("tabs_close", new_tab)


def test_twenty_five_thousand_elements(open_tab: Any) -> None:
    tab = open_tab("/case/large")
    started_at = time.monotonic()
    assert "Row 1" in tab.run("page_observe", mode="document").text
    assert "Open 4321" in tab.run("page_find", query="Open 4321", role="link").text
    assert time.monotonic() - started_at < 10


def test_a_field_that_goes_when_it_loses_the_focus(open_tab: Any) -> None:
    tab = open_tab("/case/blur")
    tab.run("page_type", ref=tab.ref('"Code"'), text="abc")
    tab.run("page_click", name="Send")
    tab.says("sent")


def test_an_infinite_list(open_tab: Any) -> None:
    tab = open_tab("/case/infinite")
    for _ in range(4):
        tab.run("page_scroll", to="bottom")
        time.sleep(0.2)
    tab.says("Post number 60")


def test_a_wall_of_cookies(open_tab: Any) -> None:
    tab = open_tab("/case/wall")
    error = tab.fails("page_click", Code.COVERED, name="Buy now")
    assert not error.may_have_effect
    tab.run("page_click", name="Reject all")
    tab.run("page_click", name="Buy now")
    tab.says("bought")


def test_a_date_picker_that_takes_no_text(open_tab: Any) -> None:
    tab = open_tab("/case/picker")
    with pytest.raises(ToolFailed):
        tab.run("page_type", ref=tab.ref('"Arrival"'), text="2026-03-14")
    tab.run("page_click", ref=tab.ref('"Arrival"'))
    tab.run("page_click", name="14", role="button")
    tab.says("arrival 2026-03-14")


def test_an_autocomplete_that_needs_real_keys(open_tab: Any) -> None:
    tab = open_tab("/case/autocomplete")
    tab.run("page_type", ref=tab.ref('"City"'), text="Berg")
    assert tab.run("page_press", key="ArrowDown").input == InputKind.TRUSTED
    tab.run("page_press", key="Enter")
    tab.says("city Bergen")


def test_an_alert_at_load(open_tab: Any) -> None:
    started_at = time.monotonic()
    tab = open_tab("/case/alert")
    assert "After the welcome" in tab.run("page_observe").text
    assert time.monotonic() - started_at < 8


def test_an_alert_and_a_question_on_a_click(open_tab: Any) -> None:
    tab = open_tab("/clicks")
    tab.run("page_click", name="Confirm")
    tab.says("confirm false")


def test_a_page_that_replaces_what_scripts_are_made_of(open_tab: Any) -> None:
    tab = open_tab("/case/hostile")
    tab.run("page_type", ref=tab.ref('"Word"'), text="owl")
    tab.says("word owl")
    tab.run("page_click", name="Press me")
    tab.says("pressed")


def test_a_page_that_never_rests(open_tab: Any) -> None:
    tab = open_tab("/case/spin")
    started_at = time.monotonic()
    tab.run("page_click", name="Press")
    tab.says("calm")
    assert time.monotonic() - started_at < 3


def test_secrets_are_neither_shown_nor_typed(open_tab: Any) -> None:
    tab = open_tab("/case/secrets")
    for mode in ("summary", "interactive", "document"):
        seen = tab.run("page_observe", mode=mode).text
        assert not any(word in seen for word in ("sesame", "482913", "tok-5551"))
    assert "sesame" not in tab.run("page_extract", kind="text").text
    tab.fails("page_type", Code.SENSITIVE_FIELD, ref=tab.ref('"Password"'), text="x")
    tab.run("page_click", name="Sign in")
    tab.says("sent 8")


def test_an_editor(open_tab: Any) -> None:
    tab = open_tab("/case/editor")
    tab.run("page_type", ref=tab.ref('"Story"'), text="a new one")
    tab.says("story a new one")


def test_what_comes_late(open_tab: Any) -> None:
    tab = open_tab("/case/late")
    tab.run("page_wait", until="text", text="At last", timeout_ms=5_000)
    tab.run("page_click", name="At last")
    tab.says("late")


def test_lists_and_boxes(open_tab: Any) -> None:
    tab = open_tab("/form")
    tab.run("page_select", ref=tab.ref('"Sort"'), values=["By name"])
    assert changed(tab.run("page_select", ref=tab.ref('"I agree"'), checked=True)).checked is True
    tab.says("agree true")


def test_a_table(open_tab: Any) -> None:
    tab = open_tab("/rows")
    assert table(tab.run("page_extract", kind="table")).total == 30


def test_back_and_forth(open_tab: Any) -> None:
    tab = open_tab("/shop")
    assert tab.run("page_click", name="Home").url.endswith("/home")
    assert tab.run("page_navigate", history="back").url.endswith("/shop")
    assert tab.run("page_navigate", history="reload").url.endswith("/shop")


def test_pictures_of_a_tab_in_the_background(open_tab: Any) -> None:
    tab = open_tab("/case/tall")
    height = 0
    for args in ({}, {"full_page": True}):
        started_at = time.monotonic()
        picture = tab.run("page_screenshot", **args)
        assert time.monotonic() - started_at < 5
        width, height = struct.unpack(">II", base64.b64decode(picture.image)[16:24])
        assert (width, height) == (picture.width, picture.height)
    assert height > 7_000


def test_a_tab_of_the_users_is_not_reached(user: User) -> None:
    with pytest.raises(ToolFailed) as caught:
        user.peer.run("page_observe", 1)
    assert caught.value.error.code in (Code.NO_TAB, Code.TAB_NOT_SHARED)


def test_a_lost_bridge_is_found_again(user: User) -> None:
    user.peer.drop()
    until(lambda: not user.peer.connected.is_set(), 5, "the end of the connection")
    assert until(user.peer.connected.is_set, 10, "the reconnection") < 5


def test_a_restarted_browser_is_still_paired(user: User) -> None:
    user.restart()
    tab = Tab(user, "/shop")
    assert "Books" in tab.run("page_observe").text
    tab.run("tabs_close")
