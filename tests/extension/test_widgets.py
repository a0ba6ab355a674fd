"""Editors and widgets from npm, as pages use them: trusted input and script where both apply."""

from __future__ import annotations

import json
import re

import pytest
from browsercell.protocol.errors import ToolErrorCode as Code
from browsercell.protocol.frames import InputKind
from browsercell.protocol.settings import InputMode

from .answers import Open
from .conftest import World
from .peer import until

pytestmark = [pytest.mark.live, pytest.mark.timeout(120)]
both = pytest.mark.parametrize("mode", [InputMode.ALWAYS, InputMode.NEVER])


@both
@pytest.mark.parametrize("path", ["/quill", "/prosemirror", "/lexical"])
def test_editors_replace_and_append(open_tab: Open, world: World, mode: InputMode, path: str) -> None:
    tab = open_tab(path)
    world.mode(mode)
    story = {"role": "textbox", "name": "Story"}
    reply = tab.run("page_type", target=story, text="Once upon a time")
    assert reply.input == (InputKind.TRUSTED if mode is InputMode.ALWAYS else InputKind.SYNTHETIC)
    until(
        lambda: tab.js("told()") == "Once upon a time", 3, f"the editor's own text, not {tab.js('told()')!r}"
    )
    tab.run("page_type", target=story, text=" there was", clear=False)
    until(lambda: tab.js("told()") == "Once upon a time there was", 3, f"not {tab.js('told()')!r}")


@both
def test_an_editor_in_a_frame(open_tab: Open, world: World, mode: InputMode) -> None:
    tab = open_tab("/tinymce")
    world.mode(mode)
    until(
        lambda: tab.js("!!(window.tinymce && tinymce.activeEditor && tinymce.activeEditor.initialized)"), 10
    )
    refs = re.findall(r"\[(f[0-9]+e[0-9]+)\] textbox", tab.observe("interactive"))
    tab.run("page_type", ref=refs[0], text="A new story")
    assert tab.js("tinymce.activeEditor.getContent({format: 'text'}).trim()") == "A new story"


@both
def test_inputs_that_react_controls(open_tab: Open, world: World, mode: InputMode) -> None:
    tab = open_tab("/react")
    world.mode(mode)
    tab.run("page_type", target={"role": "textbox", "name": "Name"}, text="Grace")
    tab.run("page_select", target={"role": "checkbox", "name": "On"}, checked=True)
    tab.run("page_select", target={"role": "combobox", "name": "Size"}, values=["Large"])
    tab.run("page_type", ref=tab.ref('"Day"'), text="2026-05-04")
    assert json.loads(tab.js("told()")) == ["GRACE", True, "l", "2026-05-04"]
    tab.run("page_type", target={"role": "textbox", "name": "Name"}, text="!", clear=False, submit=True)
    assert tab.out == "sent GRACE!"


@both
def test_an_autocomplete_that_needs_keys(open_tab: Open, world: World, mode: InputMode) -> None:
    tab = open_tab("/complete")
    world.mode(mode)
    tab.run("page_type", target={"role": "textbox", "name": "City"}, text="Bern")
    tab.run("page_click", name="Bern", role="option")
    assert tab.out == "Bern"
    tab.run("page_type", ref=tab.ref('"Port"'), text="Ro")
    tab.run("page_wait", until="text", text="Rostock")
    tab.run("page_press", key="ArrowDown", times=2)
    tab.run("page_press", key="Enter")
    assert tab.out == "Rostock"


@both
def test_a_date_picker_that_rejects_typed_text(open_tab: Open, world: World, mode: InputMode) -> None:
    tab = open_tab("/flatpickr")
    world.mode(mode)
    date = tab.ref('"Date"')
    assert "clicked" in tab.fails("page_type", Code.NOT_EDITABLE, ref=date, text="2026-05-20").message
    tab.run("page_click", ref=date)
    tab.run("page_click", ref=tab.ref("May 20, 2026"))
    assert tab.out == "2026-05-20"
    tab.fails("page_type", Code.NOT_EDITABLE, target={"role": "textbox", "name": "Strict"}, text="x")


@both
def test_select2(open_tab: Open, world: World, mode: InputMode) -> None:
    tab = open_tab("/select2")
    world.mode(mode)
    tab.run("page_select", target={"role": "combobox", "name": "Alpha"}, values=["Gamma"])
    assert tab.out == "Gamma"


@both
def test_jstree(open_tab: Open, world: World, mode: InputMode) -> None:
    tab = open_tab("/jstree")
    world.mode(mode)
    tab.run("page_press", target={"role": "treeitem", "name": "North"}, key="ArrowRight")
    tab.run("page_click", name="Tromso", role="treeitem")
    assert tab.out == "Tromso"


@both
def test_a_cell_of_tabulator(open_tab: Open, world: World, mode: InputMode) -> None:
    tab = open_tab("/tabulator")
    world.mode(mode)
    tab.run("page_click", target={"role": "gridcell", "name": "Bob"})
    field: str = tab.ref("textbox")
    tab.run("page_type", ref=field, text="Bert", submit=True)
    assert tab.out == "edited Bert"
