"""Gestures, drags, sliders, keys and fields in a real Chromium, by trusted input and by script where both apply."""

from __future__ import annotations

import time

import pytest
from browsercell.protocol.errors import ToolErrorCode as Code
from browsercell.protocol.frames import InputKind
from browsercell.protocol.settings import InputMode

from .answers import ATTACHED, Open, changed
from .conftest import World
from .peer import until

pytestmark = [pytest.mark.live, pytest.mark.timeout(120)]
both = pytest.mark.parametrize("mode", [InputMode.ALWAYS, InputMode.NEVER])


def kind(mode: InputMode) -> InputKind:
    return InputKind.TRUSTED if mode is InputMode.ALWAYS else InputKind.SYNTHETIC


@both
def test_double_and_context_clicks(open_tab: Open, world: World, mode: InputMode) -> None:
    tab = open_tab("/gestures")
    world.mode(mode)
    reply = tab.run("page_click", name="Twice", gesture="double")
    assert reply.input == kind(mode)
    assert tab.out == f"double {str(mode is InputMode.ALWAYS).lower()} 2"
    assert changed(tab.run("page_click", name="Right", gesture="context")).page
    assert tab.out == "context 2"


def test_a_menu_that_only_hovering_opens(open_tab: Open) -> None:
    tab = open_tab("/gestures")
    tab.fails("page_click", Code.NOT_FOUND, name="Tea", role="link")
    tab.run("page_click", name="Products", gesture="hover")
    tab.run("page_click", name="Tea", role="link")
    assert tab.out == "tea"


@both
def test_what_a_script_opens_on_hover(open_tab: Open, world: World, mode: InputMode) -> None:
    tab = open_tab("/gestures")
    world.mode(mode)
    assert changed(tab.run("page_click", name="Account", gesture="hover")).page
    tab.run("page_click", name="Sign out")
    assert tab.out == "signed out"


@both
@pytest.mark.parametrize(
    ("source", "end", "said"),
    [
        ("Card", ("group", "Bin"), "dropped the card"),
        ("Knob", ("group", "Goal"), "knob to goal true"),
        ("Knob", ("button", "Spot"), "knob to spot true"),
    ],
)
def test_drags(
    open_tab: Open, world: World, mode: InputMode, source: str, end: tuple[str, str], said: str
) -> None:
    tab = open_tab("/drags")
    world.mode(mode)
    role, name = end
    reply = tab.run("page_click", name=source, gesture="drag", to_target={"role": role, "name": name})
    assert reply.input == kind(mode)
    assert tab.out == said


@both
def test_sliders_move_to_a_value(open_tab: Open, world: World, mode: InputMode) -> None:
    tab = open_tab("/sliders")
    world.mode(mode)
    reply = tab.run("page_select", target={"role": "slider", "name": "Volume"}, values=["35"])
    assert reply.input == kind(mode)
    assert tab.js("aria.getAttribute('aria-valuenow')") == "35"
    assert changed(reply).value
    tab.run("page_select", target={"role": "slider", "name": "Balance"}, values=["60"])
    assert abs(int(tab.js("mouse.getAttribute('aria-valuenow')")) - 60) <= 1
    tab.run("page_select", target={"role": "slider", "name": "Level"}, values=["8"])
    assert tab.js("level.value") == "8"
    tab.run("page_select", target={"role": "spinbutton", "name": "Count"}, values=["12"])
    assert tab.js("count.value") == "12"
    tab.fails(
        "page_select", Code.INVALID_ARGUMENTS, target={"role": "slider", "name": "Level"}, values=["80"]
    )


@both
def test_a_handle_without_a_role_takes_keys(open_tab: Open, world: World, mode: InputMode) -> None:
    tab = open_tab("/sliders")
    world.mode(mode)
    tab.js("document.querySelector('.ui-slider-handle').setAttribute('aria-label', 'Handle'), 0")
    tab.run("page_press", ref=tab.ref("Handle"), key="ArrowRight", times=13)
    assert tab.js("val.textContent") == "13"


@both
def test_fields_of_every_type(open_tab: Open, world: World, mode: InputMode) -> None:
    tab = open_tab("/fields")
    world.mode(mode)
    for field, good, bad in (
        ("day", "2026-05-04", "4 May"),
        ("time", "13:45", "quarter to two"),
        ("when", "2026-05-04T13:45", "tomorrow"),
        ("month", "2026-05", "May"),
        ("week", "2026-W19", "19"),
        ("amount", "35", "much"),
        ("colour", "#a1b2c3", "red"),
    ):
        ref = tab.ref(f'"{field.capitalize()}"')
        tab.run("page_type", ref=ref, text=good)
        assert tab.js(f"document.getElementById('{field}').value") == good
        assert tab.js(f"log.includes('{field} input') && log.includes('{field} change')") is True
        error = tab.fails("page_type", Code.INVALID_ARGUMENTS, ref=ref, text=bad)
        assert bad not in error.message
        assert tab.js(f"document.getElementById('{field}').value") == good


@both
def test_combinations(open_tab: Open, world: World, mode: InputMode) -> None:
    tab = open_tab("/keys")
    world.mode(mode)
    tab.run("page_press", target={"role": "textbox", "name": "Line"}, key="Control+A")
    assert tab.js("line.selectionEnd - line.selectionStart") == 10
    tab.run("page_press", key="Backspace")
    assert tab.js("line.value") == ""
    for key in ("Control+Enter", "Alt+ArrowDown", "Shift+Enter", "Control+B"):
        tab.run("page_press", target={"role": "button", "name": "Combo"}, key=key)
        said = key.replace("Control", "ctrl").replace("Alt", "alt").replace("Shift", "shift")
        assert tab.out == said.replace("+B", "+b")


def test_a_private_browser_has_a_clipboard_of_its_own(open_tab: Open) -> None:
    tab = open_tab("/keys")
    tab.run("page_press", target={"role": "textbox", "name": "Line"}, key="Control+A")
    tab.run("page_press", key="Control+C")
    tab.run("page_press", target={"role": "textbox", "name": "Area"}, key="Control+V")
    assert tab.js("area.value") == "some words"


@both
def test_a_field_that_goes_when_it_loses_the_focus(open_tab: Open, world: World, mode: InputMode) -> None:
    tab = open_tab("/blur")
    world.mode(mode)
    tab.run("page_click", name="Cell")
    tab.run("page_type", target={"role": "textbox", "name": "Edit"}, text="new")
    tab.run("page_click", name="Save")
    assert tab.out == "saved new"


def test_auto_lets_go_of_the_tab_soon_after(open_tab: Open, world: World) -> None:
    tab = open_tab("/gestures")
    world.mode(InputMode.AUTO)
    attached = ATTACHED.replace("TAB", str(tab.id))
    assert tab.run("page_click", name="Right", gesture="context").input == InputKind.SYNTHETIC
    assert tab.run("page_click", name="Products", gesture="hover").input == InputKind.TRUSTED
    assert world.chromium.in_worker(attached) is True
    until(lambda: world.chromium.in_worker(attached) is False, 8, "the end of the attachment")


@both
def test_downloads_and_nothing_are_told_apart(open_tab: Open, world: World, mode: InputMode) -> None:
    tab = open_tab("/downloads")
    world.mode(mode)
    assert changed(tab.run("page_click", name="Report")).download
    started = time.monotonic()
    reply = tab.run("page_click", name="Idle")
    assert time.monotonic() - started < 0.5
    assert not changed(reply).url
    assert not changed(reply).download
    assert not changed(tab.run("page_click", name="Nothing")).url
