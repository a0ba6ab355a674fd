"""From a tool call to a command, from a reply to what the worker reads (bridge/pagecalls.py)."""

from __future__ import annotations

import base64
import struct
import zlib

import msgspec
import pytest
from browsercell.bridge.leases import Lease, Leases, TaskTabs
from browsercell.bridge.pagecalls import (
    Command,
    Keep,
    Local,
    Refusal,
    describe_kept,
    keeps,
    page_key,
    prepare,
    present,
    present_tabs,
    settle_tabs,
    to_keep,
)
from browsercell.protocol import limits as L
from browsercell.protocol.errors import ToolErrorCode
from browsercell.protocol.frames import Changes, PageReply, Rows, TabInfo
from browsercell.protocol.results import ArtifactKind
from browsercell.protocol.tools import WORKER_TOOLS

URL = "https://shop.example/books"
ROWS = Rows(("Title", "Price"), (("Ulysses", "12"), ("Emma", "9")), 7)


def tabs(*chrome: int) -> TaskTabs:
    made = TaskTabs("task_aaaa", Leases())
    for one in chrome:
        made.add(one, opened=True, activate=True)
    return made


def ask(tool: str, given: TaskTabs, **args: object) -> Command | Local | Refusal:
    return prepare(tool, msgspec.json.encode(args), given, calls_left=5, browser="private")


def command(tool: str, given: TaskTabs | None = None, **args: object) -> Command:
    made = ask(tool, tabs(11) if given is None else given, **args)
    assert isinstance(made, Command)
    return made


def png(width: int, height: int) -> str:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    data = (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")
    )
    return base64.b64encode(data).decode()


def test_a_page_tool_goes_to_the_active_tab_without_its_tab_argument() -> None:
    made = command("browser_page_click", tabs(11, 12), name="Buy", role="button")
    assert (made.op, made.lease, made.url) == ("browser_page_click", Lease("t2", 12, True), "")
    assert msgspec.json.decode(made.json) == {"name": "Buy", "role": "button"}
    assert made.deadline_ms == L.ACTION_MS
    named = command("browser_page_click", tabs(11, 12), ref="e1", tab="t1")
    assert named.lease == Lease("t1", 11, True)
    assert msgspec.json.decode(named.json) == {"ref": "e1"}


def test_a_wait_has_its_own_ceiling() -> None:
    assert command("browser_page_wait", until="load", timeout_ms=500).deadline_ms == 2_500
    longest = command("browser_page_wait", until="load", timeout_ms=L.MAX_WAIT_MS).deadline_ms
    assert longest <= WORKER_TOOLS["browser_page_wait"].deadline_ms


def test_navigation_names_the_url_to_judge_and_opens_the_first_tab() -> None:
    assert command("browser_page_navigate", url=URL).url == URL
    assert command("browser_page_navigate", history="back").url == ""
    first = command("browser_page_navigate", tabs(), url=URL)
    assert (first.op, first.url, first.lease) == ("browser_tabs_open", URL, None)
    assert msgspec.json.decode(first.json) == {"url": URL}


@pytest.mark.parametrize(
    ("tool", "raw", "text"),
    [
        ("browser_page_click", b'{"ref": "x9"}', "$.ref"),
        ("browser_page_click", b"{}", "exactly one of ref, name, target"),
        ("browser_page_click", b"{", "not one JSON object"),
        ("browser_page_click", b"\xff", "not one JSON object"),
        ("browser_page_click", b"[]", "Expected `object`"),
        ("browser_page_observe", b'{"max_chars": 99999}', "<= 24000"),
        ("browser_status", b'{"nosy": 1}', "unknown field"),
    ],
)
def test_arguments_are_judged_before_anything_is_sent(tool: str, raw: bytes, text: str) -> None:
    made = prepare(tool, raw, tabs(11), calls_left=5, browser="private")
    assert isinstance(made, Refusal)
    assert made.code is ToolErrorCode.INVALID_ARGUMENTS
    assert text in made.message


@pytest.mark.parametrize(
    ("tool", "args", "code"),
    [
        ("browser_page_observe", {}, ToolErrorCode.NO_TAB),
        ("browser_page_navigate", {"history": "back"}, ToolErrorCode.NO_TAB),
        ("browser_page_observe", {"tab": "t7"}, ToolErrorCode.TAB_NOT_LEASED),
        ("browser_page_navigate", {"url": URL, "tab": "t7"}, ToolErrorCode.TAB_NOT_LEASED),
        ("browser_tabs_activate", {"tab": "t7"}, ToolErrorCode.TAB_NOT_LEASED),
        ("browser_tabs_close", {"tab": "t7"}, ToolErrorCode.TAB_NOT_LEASED),
    ],
)
def test_a_tab_that_is_not_the_tasks(tool: str, args: dict[str, object], code: ToolErrorCode) -> None:
    made = ask(tool, tabs(), **args)
    assert isinstance(made, Refusal)
    assert made.code is code
    assert made.next_tool.startswith("browser_tabs_")


def test_the_bound_of_tabs() -> None:
    made = ask("browser_tabs_open", tabs(*range(L.MAX_TABS_PER_TASK)), url=URL)
    assert isinstance(made, Refusal)
    assert made.code is ToolErrorCode.QUOTA_EXCEEDED


def test_what_the_bridge_answers_itself() -> None:
    given = tabs(11, 12)
    assert ask("browser_tabs_activate", given, tab="t1") == Local("t1 is the active tab now.")
    status = ask("browser_status", given)
    assert isinstance(status, Local)
    assert msgspec.json.decode(status.text) == {
        "browser": "private",
        "calls_left": 5,
        "tabs": ["t1", "t2"],
        "active_tab": "t1",
    }
    assert ask("browser_tabs_list", tabs()) == Local("No tab is open.")
    assert command("browser_tabs_list", given).tabs == (11, 12)


def test_leases_follow_the_replies() -> None:
    given = tabs(11)
    opened = command("browser_tabs_open", given, url=URL)
    assert settle_tabs(opened, PageReply(tab=12), given) == "Tab t2 is open and active."
    assert settle_tabs(opened, PageReply(), given) == ""
    close = command("browser_tabs_close", given, tab="t2")
    assert settle_tabs(close, PageReply(), given) == "Tab t2 is closed; active tab: t1."
    close = command("browser_tabs_close", given, tab="t1")
    assert settle_tabs(close, PageReply(), given) == "Tab t1 is closed; active tab: none."
    given = tabs(11)
    click = command("browser_page_click", given, ref="e1")
    assert settle_tabs(click, PageReply(changes=Changes(new_tab=20)), given) == "A new tab opened: t2."
    assert given.active == Lease("t1", 11, True)
    full = tabs(*range(L.MAX_TABS_PER_TASK))
    assert "not this task's" in settle_tabs(click, PageReply(changes=Changes(new_tab=99)), full)
    assert settle_tabs(click, PageReply(), given) == ""


def test_what_a_worker_reads() -> None:
    navigate = command("browser_page_navigate", url=URL)
    assert present(navigate, PageReply(text="loaded", url=URL, title="Books"), "") == f"Books\n{URL}\nloaded"
    click = command("browser_page_click", ref="e1")
    seen = Changes(url=True, page=True, focus=True, value=True, checked=True, dialog="alert")
    assert present(click, PageReply(url=URL, changes=seen), "A line.") == (
        f"{URL}\nA line.\nChanged: the URL, the page, the focus, the field's value. It is now checked. "
        "A dialog of the page was dismissed."
    )
    assert (
        present(click, PageReply(changes=Changes(checked=False)), "")
        == "No change was seen. It is now not checked."
    )
    typed = Changes(value=True, value_length=1_234, download=True)
    assert present(click, PageReply(changes=typed), "") == (
        "Changed: the field's value. The field now holds 1,234 characters. "
        "The page began a download, which this task does not get."
    )
    observe = command("browser_page_observe")
    assert len(present(observe, PageReply(text="x" * 99_999), "")) == L.MAX_OBSERVE_CHARS
    extract = command("browser_page_extract", kind="table")
    assert present(extract, PageReply(rows=ROWS), "").splitlines()[2] == "| Ulysses | 12 |"
    assert present(extract, PageReply(), "") == ""


def test_the_list_of_tabs() -> None:
    given = tabs(11, 12)
    reply = PageReply(
        tabs=(TabInfo(11, URL, "It's"), TabInfo(12, "http://no.example/", "x"), TabInfo(13, URL))
    )
    assert present_tabs(reply, given, ["http://no.example/"]) == (
        f't1: complete "It\'s" {URL}\nt2 (active): its page is not allowed by the network policy'
    )
    assert present_tabs(PageReply(), given, []) == "No tab is open."


def test_rows_and_text_become_artifacts() -> None:
    table = command("browser_page_extract", kind="table", to_artifact="csv")
    keep = to_keep(table, PageReply(rows=ROWS))
    assert isinstance(keep, Keep)
    assert (keep.kind, keep.media_type) == (ArtifactKind.TABLE, "text/csv")
    assert keep.data == b"Title,Price\r\nUlysses,12\r\nEmma,9\r\n"
    assert describe_kept(keep, "art_aaaa") == (
        "Kept as artifact art_aaaa: table as csv, 2 of 7 rows, 33 bytes.\n\n"
        "| Title | Price |\n| --- | --- |\n| Ulysses | 12 |\n| Emma | 9 |"
    )
    text = command("browser_page_extract", kind="text", to_artifact="markdown")
    whole = to_keep(text, PageReply(text="short…", rows=Rows(("text",), (("# One",), ("two",), ()), 2)))
    assert isinstance(whole, Keep)
    assert (whole.kind, whole.data, whole.preview) == (ArtifactKind.TEXT, b"# One\ntwo", "# One\ntwo")
    plain = to_keep(text, PageReply(text="only text"))
    assert isinstance(plain, Keep)
    assert plain.data == b"only text"
    links = to_keep(command("browser_page_extract", kind="links", to_artifact="json"), PageReply(rows=ROWS))
    assert isinstance(links, Keep)
    assert links.kind is ArtifactKind.LINKS
    listed = to_keep(command("browser_page_extract", kind="list", to_artifact="json"), PageReply(text="x"))
    assert isinstance(listed, Keep)
    assert (listed.kind, listed.preview) == (ArtifactKind.LIST, "")
    assert describe_kept(listed, "art_aaaa").endswith("bytes.")
    article = to_keep(
        command("browser_page_extract", kind="article", to_artifact="markdown"),
        PageReply(rows=Rows(("kind", "text"), (("title", "T"), ("paragraph", "One.")), 2)),
    )
    assert isinstance(article, Keep)
    assert (article.kind, article.data) == (ArtifactKind.ARTICLE, b"# T\n\nOne.\n")
    assert (article.about, article.preview) == ("article as markdown, 4 characters", "T\nOne.")
    assert keeps(table)
    for other in (command("browser_page_extract", kind="table"), command("browser_page_observe")):
        assert not keeps(other)
        assert to_keep(other, PageReply(text="x", rows=ROWS)) is None


def test_a_picture_is_kept_whole() -> None:
    shot = command("browser_page_screenshot")
    assert keeps(shot)
    image = png(40, 30)
    keep = to_keep(shot, PageReply(image=image))
    assert isinstance(keep, Keep)
    assert (keep.kind, keep.media_type, keep.about) == (
        ArtifactKind.SCREENSHOT,
        "image/png",
        "screenshot, 40 x 30 pixels",
    )
    assert keep.data == base64.b64decode(image)


@pytest.mark.parametrize(
    ("image", "code"),
    [
        ("", ToolErrorCode.INTERNAL),
        ("####", ToolErrorCode.INTERNAL),
        (base64.b64encode(b"GIF89a" + b"\0" * 40).decode(), ToolErrorCode.INTERNAL),
        (base64.b64encode(base64.b64decode(png(1, 1))[:-4]).decode(), ToolErrorCode.INTERNAL),
        (
            base64.b64encode(base64.b64decode(png(1, 1)).replace(b"IHDR", b"IHDX")).decode(),
            ToolErrorCode.INTERNAL,
        ),
        (png(0, 5), ToolErrorCode.TOO_LARGE),
        (png(4_001, 4_000), ToolErrorCode.TOO_LARGE),
        ("A" * (L.MAX_SCREENSHOT_BYTES * 4 // 3 + 8), ToolErrorCode.TOO_LARGE),
    ],
    ids=["none", "no-base64", "gif", "cut-off", "no-header", "empty", "pixels", "bytes"],
)
def test_what_is_no_picture_is_refused(image: str, code: ToolErrorCode) -> None:
    refusal = to_keep(command("browser_page_screenshot"), PageReply(image=image))
    assert isinstance(refusal, Refusal)
    assert refusal.code is code


def test_a_page_version_leaves_the_fragment_out() -> None:
    assert page_key(PageReply(url=URL + "#a", version="v")) == (URL, "v")
    assert page_key(PageReply(version="v")) is None
