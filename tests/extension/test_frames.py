"""Frames of every kind, in a real Chromium: seen, clicked (trusted and by script), typed into, read, waited for, pictured."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator

import pytest
from browsercell.protocol.errors import ToolErrorCode as Code
from browsercell.protocol.frames import InputKind
from browsercell.protocol.settings import InputMode

from .answers import Open, table
from .conftest import Tab, World
from .frame_pages import KINDS

pytestmark = [pytest.mark.live, pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def kinds(world: World) -> Iterator[Tab]:
    """One page with all kinds; every test has a kind of its own."""
    world.mode(InputMode.ALWAYS)
    tab = Tab(world, "/kinds")
    yield tab
    tab.close()


def test_a_frame_that_never_loads_holds_up_nothing(kinds: Tab) -> None:
    started = time.monotonic()
    kinds.run("page_navigate", history="reload")
    assert time.monotonic() - started < 6
    started = time.monotonic()
    seen = kinds.observe("document")
    assert time.monotonic() - started < 2
    assert [kind for kind in KINDS if f'"Press {kind}"' not in seen] == []


@pytest.mark.parametrize(
    ("kind", "mode"),
    [(kind, InputMode.ALWAYS) for kind in KINDS]
    + [(kind, InputMode.NEVER) for kind in ("cross", "sandboxed", "blob", "deepest")],
)
def test_every_kind_of_frame_takes_every_tool(kinds: Tab, world: World, kind: str, mode: InputMode) -> None:
    world.mode(mode)
    ref = kinds.ref(f'button "Press {kind}"')
    assert ref.startswith("f")
    assert f"[{ref}]" in kinds.run("page_find", query=f"Press {kind}", limit=50).text
    reply = kinds.run("page_click", ref=ref)
    assert reply.input == (InputKind.TRUSTED if mode == InputMode.ALWAYS else InputKind.SYNTHETIC)
    assert reply.url == kinds.url  # the tab's, not the frame's
    scripts = kind not in ("scriptless",)
    if scripts:
        wanted = f"{kind} pressed {str(mode == InputMode.ALWAYS).lower()}"
        kinds.run("page_wait", until="text", text=wanted, timeout_ms=3_000)
        assert wanted in kinds.observe("document")
    field = kinds.ref(f'textbox "Field {kind}"')
    kinds.run("page_type", ref=field, text=f"typed in {kind}")
    assert f'"Field {kind}" ="typed in {kind}"' in kinds.observe("interactive")
    rows = table(
        kinds.run("page_extract", kind="table", target={"role": "table", "name": f"Table {kind}"})
    ).rows
    assert rows == ((f"{kind} one", f"{kind} two"),)


def test_an_element_in_a_frame_is_pictured(kinds: Tab) -> None:
    picture = kinds.run("page_screenshot", ref=kinds.ref('button "Press deepest"'))
    assert base64.b64decode(picture.image).startswith(b"\x89PNG")
    assert 20 < picture.width < 300
    assert 10 < picture.height < 60


def test_a_busy_frame_of_another_site_holds_up_nothing(open_tab: Open) -> None:
    tab = open_tab("/busy-frame")
    time.sleep(1)
    started = time.monotonic()
    seen = tab.observe("interactive")
    assert time.monotonic() - started < 2.5
    assert '"Press plain"' in seen
    assert '"Press object"' in seen
    started = time.monotonic()
    tab.run("page_click", name="Press object", role="button")
    assert "object pressed true" in tab.run(
        "page_find", query="object pressed"
    ).text or "object pressed true" in tab.observe("document")
    tab.fails("page_click", Code.NOT_FOUND, name="Nowhere", role="button")
    tab.run("page_screenshot")
    assert time.monotonic() - started < 6


def test_a_frame_under_a_cover_is_not_clicked(open_tab: Open) -> None:
    tab = open_tab("/covered-frame")
    error = tab.fails("page_click", Code.COVERED, ref=tab.ref('"Press plain"'))
    assert not error.may_have_effect


def test_a_card_form_in_presentation_frames(open_tab: Open) -> None:
    tab = open_tab("/card")
    seen = tab.observe()
    assert "4111" not in seen
    assert "987" not in seen
    tab.run("page_type", ref=tab.ref('"Name on card"'), text="Ada")
    tab.fails("page_type", Code.SENSITIVE_FIELD, ref=tab.ref('"Card number"'), text="1")
    tab.run("page_click", name="Pay")
    assert "paid by Ada" in tab.observe("document")
