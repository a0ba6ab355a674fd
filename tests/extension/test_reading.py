"""What a page says of itself, in a real Chromium: observe, refs, find, extract, screenshots, frames."""

from __future__ import annotations

import base64
import re
import struct
import time
import zlib

import pytest
from browsercell.protocol.errors import ToolErrorCode as Code
from browsercell.protocol.frames import InputKind
from browsercell.protocol.settings import InputMode

from .answers import ATTACHED, Open, changed, table
from .conftest import World
from .peer import ToolFailed

pytestmark = [pytest.mark.live, pytest.mark.timeout(120)]


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


def test_a_summary_goes_on_into_frames_and_its_cursor_behind(open_tab: Open) -> None:
    tab = open_tab("/long-framed")
    reply = tab.run("page_observe")
    assert 'button "Framed"' in reply.text
    assert "Paragraph 140 of" not in reply.text
    assert reply.text.endswith(f"cursor={reply.cursor}")
    assert reply.text.count("cursor=") == 1
    seen = reply.text
    for _ in range(10):
        if not reply.cursor:
            break
        reply = tab.run("page_observe", cursor=reply.cursor)
        seen += "\n" + reply.text
    assert not reply.cursor
    for number in range(150):
        assert f"Paragraph {number} of" in seen


def test_paging_and_links_that_act_come_first(open_tab: Open) -> None:
    lines = open_tab("/pages").observe().splitlines()[1:]
    said = [line.partition("] ")[2] for line in lines]
    assert said[:7] == [
        *('link "1"', 'link "2"', 'link "3"', 'link "下一页"', 'button "加载更多"', 'link "Delete"'),
        'link "One"',
    ]


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


def test_a_list_drawn_anew_keeps_a_ref(open_tab: Open) -> None:
    tab = open_tab("/refs")
    ref = tab.ref('"Buy"')
    tab.js("rerender()")
    tab.run("page_click", ref=ref)
    assert tab.out == "first"


@pytest.mark.parametrize("change", ["rename()", "reload"])
def test_a_changed_meaning_makes_a_ref_stale(open_tab: Open, change: str) -> None:
    tab = open_tab("/refs")
    ref = tab.ref('"Buy"')
    if change == "reload":
        tab.run(
            "page_navigate", history="reload"
        )  # waits for the new document, which a script's reload does not
    else:
        tab.js(change)
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


def test_find_tells_apart_what_is_called_the_same(open_tab: Open) -> None:
    tab = open_tab("/shop")
    lines = tab.run("page_find", query="Add", role="button", limit=12).text.splitlines()
    assert len(lines) == 12
    assert re.fullmatch(r'\[e\d+\] button "Add" in "Book 3 £3.50 Author 3"', lines[2])
    assert " in " not in tab.run("page_find", query="Go", role="button").text
    tab.run("page_click", ref=lines[4].partition("]")[0][1:])
    assert tab.out == "added 5"


def test_targets_are_exact_and_unambiguous(open_tab: Open) -> None:
    tab = open_tab("/shop")
    error = tab.fails("page_click", Code.AMBIGUOUS_TARGET, name="Add", role="button")
    assert "12" in error.message
    tab.fails("page_click", Code.NOT_FOUND, name="add", role="button")
    tab.fails("page_click", Code.NOT_FOUND, target={"role": "button", "name": "Add", "nth": 13})
    tab.run("page_click", target={"role": "button", "name": "Add", "nth": 3})
    assert tab.out == "added 3"


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
