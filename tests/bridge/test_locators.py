"""What the bridge keeps of a locator, and what of it a worker is told (bridge/locators.py, pagecalls.py)."""

from __future__ import annotations

import msgspec
from browsercell.bridge.leases import Leases, TaskTabs
from browsercell.bridge.locators import Locators, describe, render
from browsercell.bridge.pagecalls import Command, Keep, Local, Refusal, keeps, prepare, present, to_keep
from browsercell.protocol import limits as L
from browsercell.protocol.errors import ToolErrorCode
from browsercell.protocol.frames import Locator, LocatorBy, LocatorCandidate, LocatorFrame, PageReply
from browsercell.protocol.results import ArtifactKind

TOOL = "browser_page_locator"
LOCATOR = Locator(
    (
        LocatorCandidate(LocatorBy.ID, css="#buy", xpath='//*[@id="buy"]'),
        LocatorCandidate(LocatorBy.STRUCTURE, css="form button"),
    ),
    "button",
    "Buy secret things",
)


def ask(args: dict[str, str], kept: Locators | None = None, tab: bool = True) -> Command | Local | Refusal:
    tabs = TaskTabs("task_aaaa", Leases())
    if tab:
        tabs.add(11, opened=True, activate=True)
    return prepare(TOOL, msgspec.json.encode(args), tabs, calls_left=5, browser="private", kept=kept)


def test_the_oldest_locator_gives_way() -> None:
    kept = Locators()
    for i in range(L.MAX_LOCATORS_PER_TASK + 2):
        kept.keep(f"art_{i}", LOCATOR)
    assert len(kept) == L.MAX_LOCATORS_PER_TASK
    assert kept.get("art_1") is None
    assert kept.get("art_2") is LOCATOR


def test_the_file_has_the_bundle_and_the_page_without_what_opens_doors() -> None:
    made = msgspec.json.decode(render(LOCATOR, "https://shop.example/?token=abcdefabcdef123456"))
    assert made["candidates"][0]["css"] == "#buy"
    assert made["role"] == "button"
    assert "abcdefabcdef" not in made["url"]


def test_its_description_has_no_word_of_the_page() -> None:
    framed = msgspec.structs.replace(LOCATOR, frame=LocatorFrame("http://a/"), hosts=("x-box",))
    assert describe(LOCATOR) == "locator by id, structure, the only match each"
    assert (
        describe(framed) == "locator by id, structure in a child frame in a shadow root, the only match each"
    )


def test_a_captured_locator_becomes_an_artifact_and_the_worker_reads_no_selector() -> None:
    command = ask({"ref": "e1"})
    assert isinstance(command, Command)
    assert keeps(command)
    keep = to_keep(command, PageReply(text="Located", locator=LOCATOR, url="https://shop.example/"))
    assert isinstance(keep, Keep)
    assert (keep.kind, keep.media_type, keep.preview) == (ArtifactKind.LOCATOR, "application/json", "")
    assert "buy" not in keep.about.lower()
    assert isinstance(to_keep(command, PageReply()), Refusal)


def test_a_kept_one_is_sent_to_the_page_and_an_unknown_id_is_refused() -> None:
    kept = Locators()
    kept.keep("art_aaaa", LOCATOR)
    command = ask({"locator": "art_aaaa"}, kept)
    assert isinstance(command, Command)
    assert command.op == "locate"
    assert msgspec.json.decode(command.json, type=Locator) == LOCATOR
    assert not keeps(command)
    assert to_keep(command, PageReply()) is None
    assert present(command, PageReply(text='[e7] button "Buy"'), "") == '[e7] button "Buy"'
    for other in (kept, None):
        unknown = ask({"locator": "art_bbbb"}, other)
        assert isinstance(unknown, Refusal)
        assert unknown.code is ToolErrorCode.NOT_FOUND
    no_tab = ask({"locator": "art_aaaa"}, kept, tab=False)
    assert isinstance(no_tab, Refusal)
    assert no_tab.code is ToolErrorCode.NO_TAB


def test_one_way_to_name_an_element() -> None:
    for args in ({}, {"ref": "e1", "locator": "art_aaaa"}, {"locator": "#buy"}):
        refusal = ask(args)
        assert isinstance(refusal, Refusal)
        assert refusal.code is ToolErrorCode.INVALID_ARGUMENTS
