"""Things without role, name and text: told apart by how they look, and clicked where they are."""

from __future__ import annotations

import re

import pytest
from browsercell.protocol.settings import InputMode

from .answers import Open
from .conftest import Tab, World

pytestmark = [pytest.mark.live, pytest.mark.timeout(120)]


def refs(text: str) -> dict[str, str]:
    """Ref by what the line says after it."""
    return {said.strip(): ref for ref, said in re.findall(r"\[(e\d+)\] ([^\[\n]*)", text)}


def clicked(tab: Tab) -> list[str]:
    log: list[str] = tab.world.chromium.evaluate(tab.target, "window.log.splice(0)")
    return log


def test_painted_things_are_told_apart_and_what_is_only_painted_is_not_told(open_tab: Open) -> None:
    seen = refs(open_tab("/marks").observe("interactive"))
    assert list(seen) == [
        'clickable "" (colour red)',
        'clickable "" (colour blue #3a5fcd)',
        'clickable "Answer"',
        'clickable "" (icon back)',
        'clickable "Pass on"',
        'clickable "" (icon onward)',
        'clickable "Mail from Ada"',
        'clickable "" (trash)',
        'clickable "" (star)',
        'clickable "" (field ttt-0)',
        'clickable "" (orange)',
        'clickable "" (icon like)',
        'clickable "" (sample yellow)',
        'clickable "Drag me"',
        'clickable "L"',
        'clickable "Move me"',
        'button "" (ql-bold white #efefef)',
    ]


@pytest.mark.parametrize("mode", [InputMode.NEVER, InputMode.ALWAYS])
def test_each_is_clicked_where_it_is(world: World, open_tab: Open, mode: InputMode) -> None:
    world.mode(mode)
    tab = open_tab("/marks")
    for said, ref in refs(tab.observe("interactive")).items():
        if "Mail" not in said:
            tab.run("page_click", ref=ref)
    assert clicked(tab) == [
        "red",
        "blue",
        "answer",
        "answer",
        "pass",
        "pass",
        "trash",
        "star",
        "field",
        "generated",
        "like",
        "sample",
        "drag",
        "library",
        "move",
        "bold",
    ]


@pytest.mark.parametrize("mode", [InputMode.NEVER, InputMode.ALWAYS])
def test_shapes_of_a_drawing_can_be_clicked_and_icons_and_charts_are_left_out(
    world: World, open_tab: Open, mode: InputMode
) -> None:
    world.mode(mode)
    tab = open_tab("/shapes")
    seen = refs(tab.observe("interactive"))
    assert [said.partition("×")[0].rstrip("0123456789 ") for said in seen] == [
        'clickable "" (rect red',
        'clickable "" (circle blue',
        'clickable "" (path green',
        'clickable "7" (text black',
    ]
    for ref in seen.values():
        tab.run("page_click", ref=ref)
    assert clicked(tab) == ["rect", "circle", "slice", "seven"]


def test_a_hint_can_be_found_and_changes_no_ref(open_tab: Open) -> None:
    tab = open_tab("/marks")
    [(said, ref)] = refs(tab.run("page_find", query="trash").text).items()
    assert said == 'clickable "" (trash)'
    tab.world.chromium.evaluate(tab.target, "void document.querySelector('.trash').classList.add('used')")
    tab.run("page_click", ref=ref)
    assert clicked(tab) == ["trash"]


@pytest.mark.parametrize("mode", [InputMode.NEVER, InputMode.ALWAYS])
def test_a_handle_that_keys_move_has_changed_its_value_though_only_a_number_is_new(
    world: World, open_tab: Open, mode: InputMode
) -> None:
    world.mode(mode)
    tab = open_tab("/handle")
    [ref] = refs(tab.observe("interactive")).values()
    tab.run("page_press", key="ArrowRight", ref=ref)
    moved = tab.run("page_press", key="ArrowRight", ref=ref)
    rested = tab.run("page_press", key="ArrowLeft", ref=ref)
    assert moved.changes is not None
    assert rested.changes is not None
    assert (moved.changes.value, rested.changes.value) == (True, False)
