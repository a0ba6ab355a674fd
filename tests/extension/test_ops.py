"""Every op of the extension in a real Chromium: what it does, what it says, how it fails."""

from __future__ import annotations

import base64
import re
import struct
import time
import zlib
from collections.abc import Callable

import pytest
from browsercell.protocol.errors import ToolErrorCode as Code
from browsercell.protocol.frames import Changes, ExtCancel, ExtEventKind, InputKind, PageReply, Rows
from browsercell.protocol.settings import InputMode

from .conftest import Tab, World
from .peer import ToolFailed, until

pytestmark = [pytest.mark.live, pytest.mark.timeout(120)]
Open = Callable[[str], Tab]
ATTACHED = "chrome.debugger.getTargets().then(all => all.some(t => t.tabId === TAB && t.attached))"


def changed(reply: PageReply) -> Changes:
    """What an action says it changed."""
    assert reply.changes is not None
    return reply.changes


def table(reply: PageReply) -> Rows:
    """What an extraction gave."""
    assert reply.rows is not None
    return reply.rows


# ---------------------------------------------------------------- observe


def test_summary_ranks_controls_then_navigation_then_records(open_tab: Open) -> None:
    text = open_tab("/shop").observe()
    order = [
        'searchbox "Search"',
        'button "Go"',
        'link "Next"',
        'link "Home"',
        'link "Book 1"',
        'link "terms"',
        "## Opening hours",
        'link "Author 1"',
    ]
    places = [text.index(part) for part in order]
    assert places == sorted(places), text
    assert (
        "£1.50" in text.splitlines()[next(i for i, line in enumerate(text.splitlines()) if "Book 1" in line)]
    )
    assert "(12 records)" in text


def test_rows_of_a_table_are_records_with_its_columns(open_tab: Open) -> None:
    tab = open_tab("/rows")
    text = tab.observe()
    head = next(line for line in text.splitlines() if line.startswith("(30 records"))
    assert re.fullmatch(r'\(30 records of \[e\d+\] table "Stock": Title \| Left\)', head), head
    assert re.search(r'^- \[e\d+\] link "Title 7" \| 7$', text, re.M), text
    assert text.count('table "Stock"') == 1
    cut = tab.run("page_observe", max_elements=5)
    assert cut.cursor


def test_what_shows_the_pointing_hand_can_be_clicked(open_tab: Open) -> None:
    tab = open_tab("/pointed")
    lines = tab.observe("interactive").splitlines()[1:]
    assert [line.partition("] ")[2] for line in lines] == ['clickable "Div with a listener"', 'button "Real"']
    tab.run("page_click", ref=tab.ref("listener"))
    assert tab.out == "div clicked"
    tab.run("page_click", name="Div with a listener")


def test_a_modal_dialog_hides_the_rest(open_tab: Open) -> None:
    tab = open_tab("/clicks")
    tab.js(
        "(() => { const d = document.createElement('dialog'); d.innerHTML = '<button>Agree</button>'; document.body.append(d); d.showModal(); })()"
    )
    text = tab.observe()
    assert 'button "Agree"' in text
    assert 'button "Plain"' not in text
    tab.fails("page_click", Code.COVERED, name="Plain")


def test_interactive_mode_has_controls_only(open_tab: Open) -> None:
    lines = open_tab("/shop").observe("interactive").splitlines()[1:]
    assert all(re.match(r"\[e\d+\] [a-z]+ \"", line) for line in lines)
    assert len(lines) == 2 + 2 + 12 * 3 + 3 + 1


def test_document_mode_reads_in_order_with_inline_refs(open_tab: Open) -> None:
    text = open_tab("/shop").observe("document")
    assert re.search(r'^Read the \[e\d+\] link "terms" first\.$', text, re.M)
    assert (
        text.index("# Books")
        < text.index("Book 1")
        < text.index("## Opening hours")
        < text.index("Every day from nine.")
    )


def test_observe_keeps_hard_limits_and_a_cursor_goes_on(open_tab: Open) -> None:
    tab = open_tab("/long")
    seen: list[str] = []
    cursor: str | None = None
    for _ in range(40):
        args = {} if cursor is None else {"cursor": cursor}
        reply = tab.run("page_observe", mode="document", max_elements=50, max_chars=8_000, **args)
        assert len(reply.text) <= 8_000
        refs = re.findall(r"\[(e\d+)\] link", reply.text)
        assert len(refs) <= 50
        seen += refs
        if not reply.cursor:
            break
        assert reply.text.endswith(f"cursor={reply.cursor}")
        cursor = reply.cursor
    assert len(seen) == len(set(seen)) == 400
    first = seen[0]
    assert tab.run("page_scroll", ref=first).text  # refs of the first part are still valid


def test_an_older_observations_cursor_is_refused(open_tab: Open) -> None:
    tab = open_tab("/long")
    cursor = tab.run("page_observe", max_elements=10).cursor
    tab.observe()
    assert tab.fails("page_observe", Code.STALE_REF, cursor=cursor).next_tool == "browser_page_observe"


def test_version_is_stable_and_moves_with_the_page(open_tab: Open) -> None:
    tab = open_tab("/form")
    one = tab.run("page_observe").version
    assert re.fullmatch(r"[0-9a-f]{16}", one)
    assert tab.run("page_observe", mode="document").version == one
    tab.js("document.querySelector('#name').value = 'typed'; scrollTo(0, 100)")
    assert tab.run("page_observe").version == one
    tab.js("document.body.append(document.createElement('button'))")
    assert tab.run("page_observe").version != one


def test_sensitive_fields_show_neither_value_nor_length(open_tab: Open) -> None:
    tab = open_tab("/form")
    for mode in ("summary", "interactive", "document"):
        text = tab.observe(mode)
        assert 'textbox "Password" sensitive filled' in text
        assert 'textbox "Card number" sensitive filled' in text
        assert 'textbox "验证码" sensitive filled' in text
        assert "hunter2" not in text
        assert "4111" not in text
        assert "123456" not in text
    for kind in ("text", "links"):
        try:
            reply = tab.run("page_extract", kind=kind)
        except ToolFailed:
            continue
        assert "4111" not in reply.text + str(reply.rows)
    for name in ("Password", "Card number", "验证码"):
        error = tab.fails(
            "page_type", Code.SENSITIVE_FIELD, target={"role": "textbox", "name": name}, text="x"
        )
        assert not error.may_have_effect


def test_pages_can_fake_neither_refs_nor_globals(open_tab: Open) -> None:
    text = open_tab("/hostile").observe("document")
    assert 'button "Send"' in text
    assert '[e1] button "Pay"' not in text
    assert "[f2e3]" not in text
    assert "fooled" not in text


def test_shadow_roots_open_and_closed(open_tab: Open) -> None:
    tab = open_tab("/shadow")
    text = tab.observe("document")
    assert 'button "Open inner"' in text
    assert 'textbox "Inner field"' in text
    assert "slotted words" in text
    tab.run("page_click", name="Open inner")
    assert tab.out == "open inner"
    assert tab.run("page_click", name="Closed inner").input == InputKind.TRUSTED
    assert tab.out == "closed inner"
    assert (
        changed(
            tab.run("page_type", target={"role": "textbox", "name": "Inner field"}, text="abc")
        ).value_length
        == 3
    )


# ---------------------------------------------------------------- refs


def test_a_look_alike_inserted_before_is_never_hit(open_tab: Open) -> None:
    tab = open_tab("/refs")
    ref = tab.ref('"Buy"')
    tab.js("before()")
    tab.run("page_click", ref=ref)
    assert tab.out == "first"


def test_unrelated_changes_keep_a_ref(open_tab: Open) -> None:
    tab = open_tab("/refs")
    ref = tab.ref('"Buy"')
    tab.js("unrelated()")
    tab.run("page_click", ref=ref)
    assert tab.out == "first"


@pytest.mark.parametrize("change", ["rerender()", "rename()", "location.reload()"])
def test_a_changed_meaning_makes_a_ref_stale(open_tab: Open, change: str) -> None:
    tab = open_tab("/refs")
    ref = tab.ref('"Buy"')
    tab.js(change)
    tab.run("page_wait", until="load")
    error = tab.fails("page_click", Code.STALE_REF, ref=ref)
    assert not error.refs_valid
    assert error.next_tool == "browser_page_observe"
    assert not error.may_have_effect
    assert tab.out == ""


def test_refs_are_not_reused_by_a_later_document(open_tab: Open) -> None:
    tab = open_tab("/refs")
    old = set(re.findall(r"\[(e\d+)\]", tab.observe()))
    tab.run("page_navigate", url=f"{tab.world.site.base}/shop")
    new = set(re.findall(r"\[(e\d+)\]", tab.observe()))
    assert old
    assert new
    assert not old & new


# ---------------------------------------------------------------- find and targets


def test_find_ranks_and_gives_only_hits(open_tab: Open) -> None:
    tab = open_tab("/shop")
    lines = tab.run("page_find", query="book 7", limit=3).text.splitlines()
    assert len(lines) == 3
    assert 'link "Book 7"' in lines[0]
    assert tab.run("page_find", query="opening hours", role="heading").text.endswith(
        'heading "Opening hours"'
    )
    assert "every day" in tab.run("page_find", query="every day from").text.lower()
    assert tab.run("page_find", query="zebra").text == "No matches"


def test_targets_are_exact_and_unambiguous(open_tab: Open) -> None:
    tab = open_tab("/shop")
    error = tab.fails("page_click", Code.AMBIGUOUS_TARGET, name="Add", role="button")
    assert "12" in error.message
    tab.fails("page_click", Code.NOT_FOUND, name="add", role="button")
    tab.fails("page_click", Code.NOT_FOUND, target={"role": "button", "name": "Add", "nth": 13})
    tab.run("page_click", target={"role": "button", "name": "Add", "nth": 3})
    assert tab.out == "added 3"


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
    assert changed(reply).new_tab is not None
    assert "Page" in world.peer.run("page_observe", changed(reply).new_tab).text
    world.peer.run("tabs_close", changed(reply).new_tab, tab="t1")


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


# ---------------------------------------------------------------- extract


def test_tables_with_spans_headers_and_hidden_rows(open_tab: Open) -> None:
    tab = open_tab("/tables")
    rows = table(tab.run("page_extract", kind="table"))
    assert rows.columns == ("Name", "Price Net", "Price Gross")
    assert rows.rows == (('A, "best"', "1", "2"), ("B", "3", "4"), ("B", "5", "5"))
    picked = tab.run("page_extract", kind="table", fields=["price gross", "Name"], limit=1)
    assert table(picked).columns == ("Price Gross", "Name")
    assert table(picked).rows == (("2", 'A, "best"'),)
    assert table(picked).total == 3
    assert "… 2 more rows" in picked.text
    grid = table(tab.run("page_extract", kind="table", target={"role": "gridcell", "name": "v1"}))
    assert grid.columns == ("K", "V")
    assert grid.rows == (("k1", "v1"),)
    tab.fails("page_extract", Code.NOT_FOUND, kind="table", fields=["nothing"])


def test_lists_links_and_text(open_tab: Open) -> None:
    tab = open_tab("/shop")
    rows = table(tab.run("page_extract", kind="list"))
    assert rows.total == 12
    assert rows.rows[0][:3] == ("Book 1", "£1.50", "Author 1")
    assert rows.rows[0][-1].endswith("/book/1")
    links = table(tab.run("page_extract", kind="links", target={"role": "navigation", "name": "Main"}))
    assert [row[0] for row in links.rows] == ["Home", "About us"]
    assert links.rows[0][1] == f"{tab.world.site.base}/home"
    text = tab.run("page_extract", kind="text").text
    assert text.index("# Books") < text.index("Every day from nine.")
    assert "say(" not in text


def test_extract_previews_are_bounded(open_tab: Open) -> None:
    tab = open_tab("/long")
    reply = tab.run("page_extract", kind="text")
    assert len(reply.text) <= 24_000
    assert table(reply).total == 800


# ---------------------------------------------------------------- screenshots


def _pixels(png: bytes) -> tuple[int, int, list[bytes]]:
    """Width, bytes a pixel and unfiltered rows of a PNG without interlacing."""
    width, height, _depth, colour = struct.unpack(">IIBB", png[16:26])
    size = {2: 3, 6: 4}[colour]
    data, at = b"", 8
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        if png[at + 4 : at + 8] == b"IDAT":
            data += png[at + 8 : at + 8 + length]
        at += 12 + length
    raw = zlib.decompress(data)
    rows: list[bytes] = []
    before = bytes(width * size)
    for y in range(height):
        kind = raw[y * (width * size + 1)]
        line = bytearray(raw[y * (width * size + 1) + 1 : (y + 1) * (width * size + 1)])
        for x in range(len(line)):
            a = line[x - size] if x >= size else 0
            b = before[x]
            c = before[x - size] if x >= size else 0
            p = a + b - c
            paeth = min((abs(p - a), 0, a), (abs(p - b), 1, b), (abs(p - c), 2, c))[2]
            line[x] = (line[x] + (0, a, b, (a + b) // 2, paeth)[kind]) & 255
        before = bytes(line)
        rows.append(before)
    return width, size, rows


def test_screenshots_of_background_tabs(open_tab: Open) -> None:
    tab = open_tab("/shop")
    started = time.monotonic()
    view = tab.run("page_screenshot")
    assert time.monotonic() - started < 3
    png = base64.b64decode(view.image)
    assert png.startswith(b"\x89PNG")
    assert struct.unpack(">II", png[16:24]) == (view.width, view.height)
    full = tab.run("page_screenshot", full_page=True)
    assert full.height > view.height
    element = tab.run("page_screenshot", target={"role": "button", "name": "Go"})
    assert element.width < 100
    assert element.height < 60


def test_sensitive_fields_are_blotted_out_and_restored(open_tab: Open) -> None:
    tab = open_tab("/secret-shot")
    style = tab.js("document.querySelector('input').getAttribute('style')")
    shot = tab.run("page_screenshot", target={"role": "textbox"})
    width, size, rows = _pixels(base64.b64decode(shot.image))
    middle = rows[len(rows) // 2]
    inner = {middle[x * size : x * size + 3] for x in range(10, width - 10)}
    assert inner == {b"\x00\x00\x00"}
    assert tab.js("document.querySelector('input').getAttribute('style').includes('black')") is False
    assert tab.js("document.querySelector('input').style.fontSize") == "60px"
    assert "60px" in style


def test_pictures_over_the_limit_are_refused(open_tab: Open) -> None:
    tab = open_tab("/shop")
    tab.js("document.body.style.height = '30000px'")
    tab.fails("page_screenshot", Code.TOO_LARGE, full_page=True)


def test_a_screenshot_gives_its_attachment_back(open_tab: Open, world: World) -> None:
    tab = open_tab("/shop")
    world.mode(InputMode.NEVER)
    tab.run("page_screenshot")
    assert world.chromium.in_worker(ATTACHED.replace("TAB", str(tab.id))) is False


# ---------------------------------------------------------------- frames


def test_frames_are_merged_and_clicked(open_tab: Open) -> None:
    tab = open_tab("/frames")
    text = tab.observe("interactive")
    refs = {name: ref for ref, name in re.findall(r'\[(f\d+e\d+)\] button "([^"]+)"', text)}
    assert set(refs) == {"In same", "In cross", "In deep"}, text
    assert tab.run("page_click", ref=refs["In same"]).input == InputKind.TRUSTED
    assert tab.run("page_click", ref=refs["In deep"]).input == InputKind.TRUSTED
    assert "in deep true" in tab.run("page_observe", mode="document").text
    assert "in same true" in tab.observe("document")
    tab.run("page_wait", until="text", text="in deep true", timeout_ms=2_000)
    tab.run("page_wait", until="visible", target={"role": "button", "name": "In cross"}, timeout_ms=2_000)
    tab.fails("page_wait", Code.TIMEOUT, until="text", text="nowhere", timeout_ms=300)
    reply = tab.run("page_type", target={"role": "textbox", "name": "Frame field"}, text="abc")
    assert changed(reply).value_length == 3
    tab.js("document.querySelector('iframe').remove()")
    error = tab.fails("page_click", Code.STALE_REF, ref=refs["In same"])
    assert not error.refs_valid


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
    tab.fails("page_observe", Code.ERROR_PAGE)
    tab.fails("page_click", Code.ERROR_PAGE, name="Go")
    with pytest.raises(ToolFailed) as caught:
        tab.world.peer.open("http://127.0.0.1:9/")
    assert caught.value.error.code == Code.NAVIGATION_FAILED


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


def test_tabs_open_in_the_background_and_are_listed(open_tab: Open, world: World) -> None:
    one = open_tab("/shop")
    two = open_tab("/home")
    active = world.chromium.in_worker("chrome.tabs.query({active: true}).then(all => all.map(t => t.id))")
    assert one.id not in active
    assert two.id not in active
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
