"""Pages whose script or size leaves nothing else a turn, in a real Chromium: named for what they are, within the deadline."""

from __future__ import annotations

import time
from typing import Any

import pytest
from browsercell.protocol.errors import ToolErrorCode as Code
from browsercell.protocol.settings import InputMode

from .answers import Open
from .conftest import World
from .peer import ToolFailed

pytestmark = [pytest.mark.live, pytest.mark.timeout(120)]


@pytest.mark.parametrize("path", ["/endless", "/endless-later"])
@pytest.mark.parametrize("mode", [InputMode.ALWAYS, InputMode.NEVER])
def test_a_page_whose_script_never_ends_is_a_timeout(
    open_tab: Open, world: World, path: str, mode: InputMode
) -> None:
    tab = open_tab("/home")
    world.mode(mode)
    started = time.monotonic()
    error = tab.fails("page_navigate", Code.TIMEOUT, url=f"{world.site.base}{path}", ms=30_000)
    assert time.monotonic() - started < 14
    assert "does not let anything else run" in error.message
    assert error.retryable
    assert not error.may_have_effect
    error = tab.fails("page_observe", Code.TIMEOUT, ms=3_000)
    assert "does not let anything else run" in error.message
    assert not error.may_have_effect


def test_a_tab_opened_on_an_endless_page_is_closed_again(open_tab: Open, world: World) -> None:
    open_tab("/home")
    with pytest.raises(ToolFailed) as caught:
        world.peer.open(f"{world.site.base}/endless")
    assert caught.value.error.code == Code.TIMEOUT
    assert not caught.value.error.may_have_effect


@pytest.mark.parametrize("mode", [InputMode.ALWAYS, InputMode.NEVER])
def test_the_tab_in_front_with_an_endless_script_waits_in_no_dialog(
    open_tab: Open, world: World, mode: InputMode
) -> None:
    tab = open_tab("/home")
    world.mode(mode)
    world.chromium.send("Target.activateTarget", targetId=tab.target)
    tab.js("setTimeout(() => { const end = Date.now() + 4000; while (Date.now() < end); }, 100), true")
    time.sleep(0.4)
    error = tab.fails("page_observe", Code.TIMEOUT, ms=2_000)
    assert "does not let anything else run" in error.message


def test_an_alert_at_load_does_not_hold_up_a_tab_in_the_background(open_tab: Open, world: World) -> None:
    tab = open_tab("/home")
    open_tab("/shop")  # stands in front now
    started = time.monotonic()
    tab.run("page_navigate", url=f"{world.site.base}/alert")
    assert "After the alert" in tab.observe()
    assert time.monotonic() - started < 8


def test_an_alert_at_load_is_dismissed_and_reported_where_input_is_trusted(
    open_tab: Open, world: World
) -> None:
    tab = open_tab("/home")
    tab.run("page_press", key="Tab")
    world.chromium.send("Target.activateTarget", targetId=tab.target)
    reply = tab.run("page_navigate", url=f"{world.site.base}/alert")
    assert reply.changes is not None
    assert reply.changes.dialog == "alert"
    assert "After the alert" in tab.observe()


@pytest.mark.parametrize(
    ("op", "args"),
    [("page_observe", {}), ("page_observe", {"mode": "interactive"}), ("page_find", {"query": "b777"})],
)
def test_a_page_of_a_hundred_thousand_elements_is_read_in_time_or_too_large(
    open_tab: Open, op: str, args: dict[str, Any]
) -> None:
    tab = open_tab("/home")
    started = time.monotonic()
    tab.run("page_navigate", url=f"{tab.world.site.base}/many")
    assert time.monotonic() - started < 20
    started = time.monotonic()
    error = tab.world.peer.start(op, tab.id, **args).result(15).error
    assert time.monotonic() - started < 10
    assert error is None or error.code == Code.TOO_LARGE, (
        error
    )  # either is right; on a slow machine it is this
    assert error is None or (not error.may_have_effect and "too large" in error.message)
