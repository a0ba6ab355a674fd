"""Locators: captured and tried again, in shadow roots and frames; on real pages beside @medv/finder.

The figures of the real pages are printed: `.venv/bin/python -m pytest -s tests/extension/test_locators.py`.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from browsercell.protocol.errors import ToolErrorCode as Code
from browsercell.protocol.frames import Locator, LocatorBy

from tests.support.real_pages import Needed, RealPages, real_pages

from .conftest import Tab, World
from .peer import ToolFailed
from .probe import probed

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

Open = Callable[[str], Tab]
PAGES = ("django-list", "django-form", "datasette", "govuk", "jupyterlab")


def keep(tab: Tab, **args: Any) -> Locator:
    locator = tab.run("page_locator", **args).locator
    assert locator is not None
    return locator


def locate(tab: Tab, locator: Locator) -> str:
    return tab.world.peer.run("locate", tab.id, **msgspec.to_builtins(locator)).text


def refused(tab: Tab, bundle: dict[str, Any]) -> Code:
    with pytest.raises(ToolFailed) as caught:
        tab.world.peer.run("locate", tab.id, **bundle)
    return caught.value.error.code


def test_durable_marks_come_first(open_tab: Open) -> None:
    tab = open_tab("/form")
    name = keep(tab, ref=tab.ref('"Full name"'))
    assert name.candidates[0].by is LocatorBy.ID
    assert name.candidates[0].css == "#name"
    notes = keep(tab, target={"role": "textbox", "name": "Notes"})
    assert notes.candidates[0].by is LocatorBy.NAME
    small = keep(tab, target={"role": "radio", "name": "Small"})
    assert small.candidates[0].css == "[name=size][value=s]"
    assert [one.by for one in small.candidates][-1] is LocatorBy.STRUCTURE


def test_a_locator_finds_its_element_after_a_reload_and_gives_a_ref(open_tab: Open) -> None:
    tab = open_tab("/shop")
    locator = keep(tab, ref=tab.ref('"Author 7"'))
    tab.run("page_navigate", history="reload")
    text = locate(tab, locator)
    assert "Author 7" in text
    assert text[1 : text.index("]")] == tab.ref('"Author 7"')


def test_a_look_alike_is_never_given_instead(open_tab: Open) -> None:
    tab = open_tab("/refs")
    locator = keep(tab, ref=tab.ref('"Buy"'))
    tab.js("before()")
    tab.js("list.querySelector('.b:last-child').remove()")
    tab.js("list.firstChild.textContent = 'Rent'")
    assert refused(tab, msgspec.to_builtins(locator)) is Code.NOT_FOUND


def test_the_value_of_a_sensitive_field_is_in_no_locator(open_tab: Open) -> None:
    tab = open_tab("/form")
    for name in ("Password", "Card number", "验证码"):
        text = json.dumps(msgspec.to_builtins(keep(tab, target={"role": "textbox", "name": name})))
        assert not any(secret in text for secret in ("hunter2", "41111", "123456"))


def test_open_roots_have_a_chain_and_closed_ones_are_refused(open_tab: Open) -> None:
    tab = open_tab("/shadow")
    refs = [line for line in tab.observe("interactive").splitlines() if line.startswith("[")]
    opened = tab.js("document.querySelector('open-box').shadowRoot.querySelector('button').textContent")
    locator = keep(tab, ref=next(line[1 : line.index("]")] for line in refs if opened in line))
    assert locator.hosts == ("open-box",)
    assert opened in locate(tab, locator)
    closed = next(line[1 : line.index("]")] for line in refs if "losed" in line)
    assert "closed" in tab.fails("page_locator", Code.INVALID_ARGUMENTS, ref=closed).message


def test_a_locator_is_local_to_its_frame(open_tab: Open) -> None:
    tab = open_tab("/frames")
    line = next(line for line in tab.observe("interactive").splitlines() if line.startswith("[f"))
    ref = line[1 : line.index("]")]
    locator = keep(tab, ref=ref)
    assert locator.frame is not None
    assert locate(tab, locator).startswith(f"[{ref}]")
    other = msgspec.structs.replace(
        locator, frame=msgspec.structs.replace(locator.frame, url="http://127.0.0.1/none")
    )
    assert refused(tab, msgspec.to_builtins(other)) is Code.NOT_FOUND


def test_bad_bundles_are_refused(open_tab: Open) -> None:
    tab = open_tab("/shop")
    for bad in (
        {},
        {"candidates": [], "role": "", "name": ""},
        {"candidates": [{"by": "script"}], "role": "", "name": ""},
    ):
        assert refused(tab, bad) is Code.INVALID_ARGUMENTS


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealPages]:
    with real_pages(tmp_path_factory.mktemp("pages"), PAGES) as found:
        yield found


def _settled(probe: Any, needed: Needed) -> None:
    """Until what the page's task needs is there, and all elements have been called the same for a second and a half: what is
    still connecting says so in a button's name."""
    deadline = time.monotonic() + 60
    while not {(said["role"], said["name"]) for said in probe.ask("everything()")} >= set(needed):
        assert time.monotonic() < deadline, "the page does not become whole"
        time.sleep(0.2)
    last: list[Any] = []
    since = time.monotonic()
    while time.monotonic() - since < 1.5:
        assert time.monotonic() < deadline, "the page does not come to rest"
        seen = [(said["role"], said["name"]) for said in probe.ask("everything()")]
        if seen != last:
            last, since = seen, time.monotonic()
        time.sleep(0.1)


@pytest.mark.parametrize("name", PAGES)
def test_every_element_of_a_real_page(world: World, pages: RealPages, name: str) -> None:
    if name in pages.missing:
        pytest.skip(pages.missing[name])
    url = pages[name].url
    with probed(world.chromium, url) as probe:
        _settled(probe, pages[name].needed)
        tried = probe.ask("captureAll(true)")
    with probed(world.chromium, url) as probe:
        _settled(probe, pages[name].needed)
        kept = [{"said": one["said"], "locator": one["locator"]} for one in tried if one["locator"]]
        after = probe.ask(f"locateAll({json.dumps(kept)})")
    there = [word for word in after if word != "-"]
    hits = there.count("hit")
    compared = [one for one in tried if one["finder"]]
    ours = statistics.median([one["css"] for one in compared] or [0])
    theirs = statistics.median([one["finder"] for one in compared] or [0])
    print(
        f"\n{name}: {len(tried)} elements, {sum(one['unique'] for one in tried)} unique, {hits} of {len(there)} hit after a reload"
        f" ({len(after) - len(there)} not there), median length {ours:g} (first candidate "
        f"{statistics.median(one['first'] for one in tried):g}), finder {theirs:g}"
    )
    assert len(tried) > 5
    assert all(one["unique"] for one in tried)
    assert len(there) >= 0.9 * len(tried)
    assert hits >= 0.98 * len(there)
    assert ours <= theirs
