"""What is done to a page, in a real Chromium: clicks, fields, keys, waits, navigation, tabs, and how each fails."""

from __future__ import annotations

import time

import pytest
from browsercell.protocol.errors import ToolErrorCode as Code
from browsercell.protocol.frames import ExtCancel, ExtEventKind, InputKind
from browsercell.protocol.settings import InputMode

from .answers import ATTACHED, Open, changed
from .conftest import World
from .peer import ToolFailed, until

pytestmark = [pytest.mark.live, pytest.mark.timeout(120)]


# ---------------------------------------------------------------- click


def test_a_click_is_trusted_and_verified(open_tab: Open) -> None:
    tab = open_tab("/clicks")
    tab.observe()
    reply = tab.run("page_click", name="Plain")
    assert tab.out == "plain true"
    assert reply.input == InputKind.TRUSTED
    assert reply.changes is not None
    assert changed(reply).page
    assert not changed(reply).url


def test_a_click_by_script_says_so(open_tab: Open, world: World) -> None:
    tab = open_tab("/clicks")
    world.mode(InputMode.NEVER)
    reply = tab.run("page_click", name="Plain")
    assert tab.out == "plain false"
    assert reply.input == InputKind.SYNTHETIC


def test_auto_does_not_attach_for_a_click_but_for_a_key(open_tab: Open, world: World) -> None:
    tab = open_tab("/clicks")
    world.mode(InputMode.AUTO)
    assert tab.run("page_click", name="Plain").input == InputKind.SYNTHETIC
    assert tab.run("page_press", key="Tab").input == InputKind.TRUSTED
    assert tab.run("page_click", name="Plain").input == InputKind.TRUSTED


@pytest.mark.parametrize(
    ("name", "code"),
    [("Off", Code.DISABLED), ("Under", Code.COVERED), ("Ghost", Code.NOT_FOUND)],
)
def test_what_a_user_could_not_click_is_refused(open_tab: Open, name: str, code: Code) -> None:
    tab = open_tab("/clicks")
    error = tab.fails("page_click", code, name=name, role="button")
    assert not error.may_have_effect
    assert tab.out == ""
    if code == Code.COVERED:
        assert "dialog" in error.message


def test_far_and_hidden_boxes_are_reached(open_tab: Open) -> None:
    tab = open_tab("/clicks")
    tab.run("page_click", name="Far")
    assert tab.out == "far"
    reply = tab.run("page_click", target={"role": "checkbox", "name": "Custom"})
    assert tab.out == "custom true"
    assert changed(reply).checked is True
    tab.run("page_click", target={"role": "checkbox", "name": "Gone box"})
    assert tab.out == "gone true"


def test_dialogs_are_dismissed_and_reported(open_tab: Open) -> None:
    tab = open_tab("/clicks")
    assert changed(tab.run("page_click", name="Alert")).dialog == "alert"
    assert tab.out == "after alert"
    assert changed(tab.run("page_click", name="Confirm")).dialog == "confirm"
    assert tab.out == "confirm false"


@pytest.mark.parametrize("name", ["Popup", "Blank"])
def test_new_tabs_are_reported_and_usable(open_tab: Open, world: World, name: str) -> None:
    tab = open_tab("/clicks")
    reply = tab.run("page_click", name=name)
    new_tab = changed(reply).new_tab
    assert new_tab is not None
    until(lambda: "Page" in world.peer.run("page_observe", new_tab).text, 5, "the new tab's page")
    world.peer.run("tabs_close", new_tab, tab="t1")


def test_settling_waits_for_what_the_click_set_going(open_tab: Open) -> None:
    tab = open_tab("/clicks")
    reply = tab.run("page_click", name="Fetch")
    assert tab.out == "slow answer"
    assert changed(reply).page
    reply = tab.run("page_click", name="Push")
    assert changed(reply).url
    assert reply.url.endswith("/clicks/spa")
    assert reply.title == "Spa"


def test_a_long_poll_of_the_page_delays_no_action(open_tab: Open) -> None:
    tab = open_tab("/polling")
    tab.run("page_press", key="Tab")
    tab.js("fetch('/hang'), true")
    time.sleep(0.1)
    started = time.monotonic()
    tab.run("page_click", name="Still here")
    assert time.monotonic() - started < 0.4


def test_a_link_is_followed_to_its_load(open_tab: Open) -> None:
    tab = open_tab("/shop")
    reply = tab.run("page_click", name="Home")
    assert reply.url.endswith("/home")
    assert reply.title == "/home"
    assert changed(reply).url
    assert reply.version


# ---------------------------------------------------------------- fields


@pytest.mark.parametrize("mode", [InputMode.ALWAYS, InputMode.NEVER])
def test_typing_replaces_or_appends(open_tab: Open, world: World, mode: InputMode) -> None:
    tab = open_tab("/form")
    world.mode(mode)
    kind = InputKind.TRUSTED if mode == InputMode.ALWAYS else InputKind.SYNTHETIC
    reply = tab.run("page_type", target={"role": "textbox", "name": "Notes"}, text="new")
    assert reply.input == kind
    assert changed(reply).value_length == 3
    tab.run("page_type", target={"role": "textbox", "name": "Notes"}, text=" more", clear=False)
    assert tab.js("document.querySelector('textarea').value") == "new more"
    tab.run("page_type", target={"role": "textbox", "name": "Notes"}, text="")
    assert tab.js("document.querySelector('textarea').value") == ""
    tab.run("page_type", target={"role": "textbox", "name": "Comment"}, text="final")
    assert tab.js("document.querySelector('#ed').textContent") == "final"
    tab.run("page_type", target={"role": "textbox", "name": "Full name"}, text="Ada")
    assert tab.js("log.includes('name true')") is (mode == InputMode.ALWAYS)
    reply = tab.run("page_type", target={"role": "textbox", "name": "Day"}, text="2026-05-04")
    assert reply.input == InputKind.SYNTHETIC
    assert tab.js("document.querySelector('[name=day]').value") == "2026-05-04"


@pytest.mark.parametrize("mode", [InputMode.ALWAYS, InputMode.NEVER])
def test_submitting_follows_the_form(open_tab: Open, world: World, mode: InputMode) -> None:
    tab = open_tab("/shop")
    world.mode(mode)
    reply = tab.run("page_type", target={"role": "searchbox", "name": "Search"}, text="tea", submit=True)
    assert reply.url.endswith("/search?q=tea")
    assert changed(reply).url


def test_fields_that_take_no_text_are_refused(open_tab: Open) -> None:
    tab = open_tab("/form")
    tab.fails("page_type", Code.NOT_EDITABLE, target={"role": "textbox", "name": "Fixed"}, text="x")
    tab.fails("page_type", Code.DISABLED, target={"role": "textbox", "name": "Off"}, text="x")
    tab.fails("page_type", Code.NOT_EDITABLE, target={"role": "checkbox", "name": "I agree"}, text="x")


def test_selecting_options_and_boxes(open_tab: Open) -> None:
    tab = open_tab("/form")
    tab.run("page_select", target={"role": "combobox", "name": "Sort"}, values=["By name"])
    assert tab.js("document.querySelector('[name=sort]').value") == "n"
    tab.run("page_select", target={"role": "combobox", "name": "Sort"}, values=["p"])
    assert tab.js("document.querySelector('[name=sort]').value") == "p"
    tab.run("page_select", target={"role": "listbox", "name": "Colours"}, values=["red", "blue"])
    assert (
        tab.js("[...document.querySelector('[name=colours]').selectedOptions].map(o => o.value).join()")
        == "red,blue"
    )
    tab.fails(
        "page_select", Code.UNKNOWN_OPTION, target={"role": "combobox", "name": "Sort"}, values=["By colour"]
    )
    for wanted in (True, True, False):
        tab.run("page_select", target={"role": "checkbox", "name": "I agree"}, checked=wanted)
        assert tab.js("document.querySelector('[name=agree]').checked") is wanted
    tab.run("page_select", target={"role": "radio", "name": "Large"}, checked=True)
    assert tab.js("document.querySelector('[name=size]:checked').value") == "l"
    reply = tab.run("page_select", target={"role": "switch", "name": "Alerts"}, checked=True)
    assert changed(reply).checked is True
    tab.run("page_select", target={"role": "combobox", "name": "Country"}, values=["Spain"])
    assert tab.out == "country Spain"


@pytest.mark.parametrize("mode", [InputMode.ALWAYS, InputMode.NEVER])
def test_keys(open_tab: Open, world: World, mode: InputMode) -> None:
    tab = open_tab("/form")
    world.mode(mode)
    tab.run("page_press", target={"role": "textbox", "name": "Full name"}, key="Tab")
    assert tab.js("document.activeElement.tagName") == "TEXTAREA"
    tab.run("page_press", key="Shift+Tab")
    assert tab.js("document.activeElement.id") == "name"
    tab.run("page_press", target={"role": "checkbox", "name": "I agree"}, key="Space")
    assert tab.js("document.querySelector('[name=agree]').checked") is True
    tab.run("page_type", target={"role": "textbox", "name": "Full name"}, text="ab")
    tab.run("page_press", key="Backspace")
    assert tab.js("document.querySelector('#name').value") == "a"
    tab.run("page_press", target={"role": "combobox", "name": "Sort"}, key="ArrowDown")
    assert tab.js("document.querySelector('[name=sort]').value") == "n"


# ---------------------------------------------------------------- scroll, wait


def test_scrolling(open_tab: Open) -> None:
    tab = open_tab("/long")
    tab.run("page_scroll", viewports=2)
    assert tab.js("scrollY >= innerHeight")
    tab.run("page_scroll", to="bottom")
    assert tab.js("scrollY + innerHeight >= document.documentElement.scrollHeight - 2")
    tab.run("page_scroll", to="top")
    assert tab.js("scrollY") == 0
    tab.run("page_scroll", target={"role": "link", "name": "Link 300"})
    assert tab.js("scrollY > 1000")


def test_waiting(open_tab: Open) -> None:
    tab = open_tab("/dynamic")
    tab.run("page_wait", until="gone", text="Loading", timeout_ms=3_000)
    tab.run("page_click", name="Show soon")
    tab.run("page_wait", until="visible", target={"role": "button", "name": "Appeared"}, timeout_ms=3_000)
    tab.run("page_wait", until="text", text="appeared")
    tab.run("page_wait", until="idle", timeout_ms=3_000)
    started = time.monotonic()
    error = tab.fails("page_wait", Code.TIMEOUT, until="text", text="never", timeout_ms=400)
    assert error.retryable
    assert 0.35 < time.monotonic() - started < 1.5
    tab.js("setTimeout(() => location.href = '/home', 200), true")
    reply = tab.run("page_wait", until="text", text="Page /home", timeout_ms=5_000)
    assert reply.url.endswith("/home")
    tab.run("page_wait", until="url", url="/home")


def test_a_cancelled_command_is_answered_at_once(open_tab: Open, world: World) -> None:
    tab = open_tab("/dynamic")
    future = world.peer.start("page_wait", tab.id, until="text", text="never", timeout_ms=9_000)
    time.sleep(0.3)
    started = time.monotonic()
    world.peer.send(ExtCancel(world.peer.last_id))
    error = future.result(5).error
    assert error is not None
    assert error.code == Code.CANCELLED
    assert not error.may_have_effect
    assert time.monotonic() - started < 1


# ---------------------------------------------------------------- navigation and pages that refuse


def test_navigation_by_url_and_history(open_tab: Open) -> None:
    tab = open_tab("/shop")
    base = tab.world.site.base
    reply = tab.run("page_navigate", url=f"{base}/redirect")
    assert reply.url == f"{base}/home"
    assert tab.run("page_navigate", history="back").url == tab.url
    assert tab.run("page_navigate", history="forward").url == f"{base}/home"
    assert tab.run("page_navigate", history="reload").url == f"{base}/home"
    assert tab.run("page_navigate", url=f"{base}/home#part").url == f"{base}/home#part"
    tab.run("page_navigate", url=f"{base}/slowload")
    kinds = [event.kind for event in tab.world.peer.events if event.tab == tab.id]
    assert kinds.count(ExtEventKind.NAVIGATED) >= 5


def test_pages_that_do_not_load(open_tab: Open) -> None:
    tab = open_tab("/shop")
    error = tab.fails("page_navigate", Code.NAVIGATION_FAILED, url="http://localhost:9/")
    assert "net::ERR_" in error.message
    assert not error.may_have_effect
    tab.fails("page_observe", Code.ERROR_PAGE)
    tab.fails("page_click", Code.ERROR_PAGE, name="Go")
    with pytest.raises(ToolFailed) as caught:
        tab.world.peer.open("http://127.0.0.1:9/")
    assert caught.value.error.code == Code.NAVIGATION_FAILED
    assert not caught.value.error.may_have_effect
    # Its request may be a form's, sent again.
    assert tab.fails("page_navigate", Code.NAVIGATION_FAILED, history="reload").may_have_effect


@pytest.mark.parametrize(
    "url",
    [
        "chrome://version",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "http://user:pw@127.0.0.1/",
        "view-source:http://127.0.0.1/",
    ],
)
def test_addresses_that_are_no_task_of_ours(open_tab: Open, url: str) -> None:
    open_tab("/shop").fails("page_navigate", Code.POLICY_DENIED, url=url)


def test_the_bridges_own_port_is_out_of_bounds(open_tab: Open, world: World) -> None:
    tab = open_tab("/shop")
    for host in ("127.0.0.1", "localhost", "127.1"):
        tab.fails("page_navigate", Code.POLICY_DENIED, url=f"http://{host}:{world.peer.port}/")


def test_restricted_pages_answer_quickly(open_tab: Open, world: World) -> None:
    tab = open_tab("/shop")
    for url in ("chrome://version/", "about:blank", f"view-source:{world.site.base}/shop"):
        world.chromium.in_worker(
            f"chrome.tabs.update({tab.id}, {{url: '{url}'}}).then(() => new Promise(r => setTimeout(r, 400))).then(() => true)"
        )
        started = time.monotonic()
        tab.fails("page_observe", Code.RESTRICTED_PAGE)
        assert time.monotonic() - started < 2
    tab.run("page_navigate", url=f"{world.site.base}/shop")


def test_a_dialog_without_debugger_is_named(open_tab: Open, world: World) -> None:
    world.mode(InputMode.NEVER)
    tab = open_tab("/home")
    world.chromium.send(
        "Target.activateTarget", targetId=tab.target
    )  # an alert of a background tab does not block
    tab.js("setTimeout(() => alert('stuck'), 150), true")  # after the test's own session is gone
    time.sleep(0.5)
    error = tab.fails("page_observe", Code.BLOCKED_BY_DIALOG, ms=2_000)
    assert error.retryable
    tab.run("tabs_close", tab="t1")


def test_a_busy_page_ends_at_the_deadline(open_tab: Open) -> None:
    tab = open_tab("/home")
    tab.js("setTimeout(() => { const end = Date.now() + 2500; while (Date.now() < end); }, 0), true")
    time.sleep(0.1)
    started = time.monotonic()
    error = tab.fails("page_click", Code.TIMEOUT, ms=1_200, name="Nothing", role="button")
    assert error.retryable
    assert time.monotonic() - started < 1.6
    time.sleep(1.6)
    assert tab.observe()


def test_a_crashed_page_is_named_and_comes_back(open_tab: Open, world: World) -> None:
    tab = open_tab("/shop")
    tab.run("page_press", key="Tab")
    world.chromium.in_worker(
        f"chrome.debugger.sendCommand({{tabId: {tab.id}}}, 'Page.crash').catch(() => 0), true"
    )
    until(
        lambda: any(e.kind == ExtEventKind.CRASHED and e.tab == tab.id for e in world.peer.events),
        5,
        "the crash",
    )
    assert not tab.fails("page_observe", Code.PAGE_CRASHED).refs_valid
    assert world.peer.run("tabs_list", tabs=(tab.id,)).tabs[0].status == "crashed"
    tab.run("page_navigate", url=f"{world.site.base}/shop")
    assert 'button "Go"' in tab.observe()


# ---------------------------------------------------------------- tabs


def test_tabs_of_a_private_browser_open_in_front_and_are_listed(open_tab: Open, world: World) -> None:
    one = open_tab("/shop")
    two = open_tab("/home")
    active = world.chromium.in_worker("chrome.tabs.query({active: true}).then(all => all.map(t => t.id))")
    assert one.id not in active
    assert two.id in active  # a hidden tab draws nothing, so its page would not scroll or take the focus
    tabs = world.peer.run("tabs_list", tabs=(one.id, two.id, 999_999)).tabs
    assert [(tab.tab, tab.title, tab.status) for tab in tabs] == [
        (one.id, "Shop", "complete"),
        (two.id, "/home", "complete"),
    ]
    assert one.run("tabs_activate", tab="t1").url == one.url
    assert one.id not in world.chromium.in_worker(
        "chrome.tabs.query({active: true}).then(all => all.map(t => t.id))"
    )
    one.run("tabs_close", tab="t1")
    one.fails("page_observe", Code.NO_TAB)
    until(
        lambda: any(e.kind == ExtEventKind.TAB_CLOSED and e.tab == one.id for e in world.peer.events),
        5,
        "the event",
    )


def test_bad_calls_are_refused_before_anything_happens(open_tab: Open) -> None:
    tab = open_tab("/shop")
    for args in ({"ref": "e1", "extra": 1}, {"ref": 5}, {"ref": "x1"}, {"name": ""}):
        tab.fails("page_click", Code.INVALID_ARGUMENTS, **args)
    tab.fails("page_nonsense", Code.UNKNOWN_TOOL)


def test_release_lets_go_of_the_tab(open_tab: Open, world: World) -> None:
    tab = open_tab("/shop")
    tab.run("page_click", name="Go")
    tab.run("release")
    assert world.chromium.in_worker(ATTACHED.replace("TAB", str(tab.id))) is False
    count = len(world.peer.events)
    world.chromium.in_worker(
        f"chrome.tabs.reload({tab.id}).then(() => new Promise(r => setTimeout(r, 400))).then(() => true)"
    )
    assert [e for e in world.peer.events[count:] if e.tab == tab.id] == []
