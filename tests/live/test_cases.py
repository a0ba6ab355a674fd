"""What users of other browser tools complain about, each through supervisor, bridge, worker and a real Chromium.

A scripted planner stands in the model's place and sees what a worker is shown; whether it worked is what the page's own server was told.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from browsercell.protocol.client import Client
from browsercell.protocol.results import BrowserDelegateResult, Status

from tests.support.case_pages import CARD, CasePages
from tests.support.live import Live, said
from tests.support.planner import Failed, Page, Planner, Planners, Running, elements, planned


class Cases:
    """The pages, the planners and a supervisor that asks them."""

    def __init__(self, pages: CasePages, planners: Planners, live: Live) -> None:
        self.pages = pages
        self._planners = planners
        self._live = live

    def play(self, name: str, planner: Planner) -> tuple[BrowserDelegateResult, Running]:
        """One task that starts at that page; fails with the planner's own error."""
        self.pages.did.clear()
        url = self.pages.url(name)
        running = self._planners.expect(url, planner)
        with self._live.client() as client:
            result = self._delegate(client, url)
        running.stop()
        if running.error is not None:
            raise AssertionError(f"{running.error!r} after {running.page.log[-3:]}") from running.error
        assert result.status is Status.COMPLETED, f"{said(result)} after {running.page.log[-6:]}"
        return result, running

    @staticmethod
    def _delegate(client: Client, url: str) -> BrowserDelegateResult:
        return client.delegate("Do what the page asks for", browser="private", url=url)


@pytest.fixture(scope="module")
def cases(private_places: Path) -> Iterator[Cases]:  # noqa: ARG001 - settings are hidden first
    with Planners() as planners, CasePages() as pages, planned(planners) as live:
        yield Cases(pages, planners, live)


def test_a_list_that_is_rendered_anew_between_look_and_click(cases: Cases) -> None:
    """The old ref hits the same order or nothing; by its name the right one is hit at once."""

    def planner(page: Page) -> None:
        button = page.find("Open Order 3", role="button")
        page.call("page_wait", until="text", text="version 12", timeout_ms=8_000)
        (answer,) = page.turn(("page_click", {"ref": button.ref}))
        if not answer.startswith("ok"):
            assert answer.startswith("failed: stale-ref")
            page.press_button("Open Order 3")

    cases.play("rerendered", planner)
    assert cases.pages.did == ["open Order 3"]


def test_delete_buttons_that_look_alike(cases: Cases) -> None:
    def planner(page: Page) -> None:
        with pytest.raises(Failed, match="ambiguous-target"):
            page.press_button("Delete")
        beta = next(line for line in page.observe().splitlines() if "Beta" in line)
        page.click(next(one for one in elements(beta) if one.name == "Delete"))

    cases.play("delete-buttons", planner)
    assert cases.pages.did == ["delete beta"]


def test_tiles_of_text_alone(cases: Cases) -> None:
    def planner(page: Page) -> None:
        page.click(next(one for one in page.controls() if one.name == "Medium"))

    cases.play("tiles", planner)
    assert cases.pages.did == ["chose Medium"]


def test_a_cell_with_three_controls(cases: Cases) -> None:
    def planner(page: Page) -> None:
        row = elements(next(line for line in page.observe().splitlines() if "Ben" in line))
        by_name = {one.name: one for one in row}
        page.all(
            ("page_select", {"ref": by_name["Paid"].ref, "checked": True}),
            ("page_click", {"ref": by_name["Edit"].ref}),
            ("page_click", {"ref": by_name["View"].ref}),
        )

    cases.play("cell-of-three", planner)
    assert cases.pages.did == ["paid Ben true", "edit Ben", "view Ben"]


def test_one_tab_that_does_not_answer_among_many(cases: Cases) -> None:
    """As many tabs as a task may have: neither their list nor a task in another tab waits for it."""

    def planner(page: Page) -> None:
        page.all(*(("tabs_open", {"url": f"{cases.pages.url('plain')}?tab={n}"}) for n in range(8)))
        page.turn(("tabs_open", {"url": cases.pages.url("busy")}))
        began = time.monotonic()
        tabs = page.call("tabs_list")
        assert time.monotonic() - began < 6
        ids = re.findall(r"^\s*(t\d+)(?: \(active\))?:", tabs, re.MULTILINE)
        assert len(ids) == 10, tabs
        page.call("page_click", name="Plain button", role="button", tab=ids[5])

    cases.play("plain", planner)
    assert cases.pages.did == ["plain"]


def test_a_frame_that_never_loads(cases: Cases) -> None:
    def planner(page: Page) -> None:
        began = time.monotonic()
        page.click(next(one for one in page.controls() if one.name == "Go on"))
        assert time.monotonic() - began < 8

    cases.play("never-loads", planner)
    assert cases.pages.did == ["go on"]


def test_a_click_that_opens_a_window(cases: Cases) -> None:
    """A private Chromium opens none; the task goes on in its own tab."""

    def planner(page: Page) -> None:
        page.press_button("Open report")
        page.press_button("Stay here")

    cases.play("opener", planner)
    assert cases.pages.did == ["asked", "stayed"]


def test_a_card_form_two_frames_deep(cases: Cases) -> None:
    """Frames of `role=presentation` are looked into; the card's number is neither shown nor typed over."""

    def planner(page: Page) -> None:
        seen = page.controls()
        for _ in range(3):
            if any(one.name == "Pay" for one in seen):
                break
            page.turn(("page_wait", {"until": "idle", "timeout_ms": 1_000}))
            seen = page.controls()
        by_name = {one.name: one for one in seen}
        assert "sensitive" in by_name["Card number"].state
        with pytest.raises(Failed, match="sensitive-field"):
            page.type(by_name["Card number"], "4111111111111111")
        page.type(by_name["Name on card"], "A. Lovelace")
        page.click(by_name["Pay"])

    _, running = cases.play("shop", planner)
    assert cases.pages.did == ["holder A. Lovelace", "pay"]
    shown = "\n".join(answer for _, answer in running.page.log)
    assert CARD not in shown
    assert CARD.replace(" ", "") not in shown


def test_a_page_of_25_000_elements(cases: Cases) -> None:
    def planner(page: Page) -> None:
        began = time.monotonic()
        text = page.call("page_observe", mode="summary")
        assert "cursor=" in text
        page.click(page.find("Retry 6249", role="button"))
        assert time.monotonic() - began < 20

    cases.play("huge", planner)
    assert cases.pages.did == ["retry 6249"]


def test_a_focused_field_that_leaves_on_blur(cases: Cases) -> None:
    def planner(page: Page) -> None:
        page.type(page.controls()[0], "tea")
        page.press_button("Next")

    cases.play("blur-removes", planner)
    assert sorted(cases.pages.did) == ["next", "saved tea"]


def test_a_feed_without_end(cases: Cases) -> None:
    def planner(page: Page) -> None:
        for _ in range(10):
            found = [hit for hit in page.hits("Like post 90", role="button") if hit.name == "Like post 90"]
            if found:
                page.click(found[0])
                return
            page.all(
                ("page_scroll", {"to": "bottom"}),
                ("page_wait", {"until": "idle", "timeout_ms": 3_000}),
            )
        raise LookupError("post 90 did not come")

    cases.play("endless", planner)
    assert cases.pages.did == ["like 90"]


def test_a_cookie_wall_over_the_content(cases: Cases) -> None:
    def planner(page: Page) -> None:
        with pytest.raises(Failed, match="covered"):
            page.press_button("Read on")
        page.press_button("Reject all")
        page.press_button("Read on")

    cases.play("cookie-wall", planner)
    assert cases.pages.did == ["rejected", "read"]


def test_a_date_field_that_rejects_typing(cases: Cases) -> None:
    """What was typed did not stay, and the answer does not claim it; the calendar does it."""

    def planner(page: Page) -> None:
        field = page.controls()[0]
        (typed,) = page.turn(("page_type", {"ref": field.ref, "text": "2030-05-17"}))
        assert "the field's value" not in typed
        page.click(field)
        page.press_button("17 May 2030")
        page.press_button("Search")

    cases.play("date-picker", planner)
    assert cases.pages.did == ["day 2030-05-17"]


def test_an_autocomplete_that_looks_at_keys(cases: Cases) -> None:
    def planner(page: Page) -> None:
        page.type(page.controls()[0], "lime")
        page.press_button("Limerick")

    cases.play("keys-only", planner)
    assert cases.pages.did == ["city Limerick"]


def test_a_menu_that_exists_on_hover_alone(cases: Cases) -> None:
    def planner(page: Page) -> None:
        page.click(page.find("Products", role="button"), gesture="hover")
        page.press_button("Lamps", role="link")

    cases.play("hover-menu", planner)
    assert cases.pages.did == ["lamps"]


def test_an_alert_on_load(cases: Cases) -> None:
    def planner(page: Page) -> None:
        page.press_button("See offer")

    cases.play("alert", planner)
    assert cases.pages.did == ["alert answered", "offer"]


def test_a_page_that_overrides_what_tools_lean_on(cases: Cases) -> None:
    def planner(page: Page) -> None:
        by_name = {one.name: one for one in page.controls()}
        page.type(by_name["Name"], "Ada")
        page.click(by_name["Press me"])

    cases.play("overrides", planner)
    assert cases.pages.did == ["name Ada", "pressed"]
