"""Roles, names and states on real pages, element by element against Chromium's own accessibility tree.

What may differ is written down here, each with its reason, and nothing else may.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.real_pages import NAMES, RealPages, real_pages

from .ax import Pair, both, flat
from .conftest import World
from .peer import until
from .probe import Probe, probed

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

# Roles that nobody calls an element by: Chromium names the element, browsercell reads its text.
_TEXT_ONLY = {
    "generic",
    "none",
    "RootWebArea",
    "LabelText",
    "Legend",
    "LineBreak",
    "DescriptionList",
    "Ruby",
    "Pre",
}
_PARTS_OF_A_LIST = {"option", "optgroup"}  # of a closed native list: told with the list


def role_may_differ(pair: Pair) -> bool:
    """Whether a difference in role is one of those browsercell wants."""
    assert pair.chromium is not None
    ours, theirs = pair.ours.role, pair.chromium.role
    if ours == "" and theirs in _TEXT_ONLY:
        return True
    if theirs == "img" and ours == "" and pair.chromium.name == "":
        return True  # a picture nobody has named
    # Anchors without an address: Chromium sees the listener, browsercell the cursor and the tab order.
    return pair.tag == "a" and {ours, theirs} <= {"link", "generic", ""}


def name_may_differ(pair: Pair) -> bool:
    """The same for a name."""
    assert pair.chromium is not None
    ours, theirs = pair.ours.name, pair.chromium.name
    # Chromium gives text as `text-transform` draws it; the DOM's own text is what a task's author reads in a manual.
    if ours.casefold() == theirs.casefold():
        return True
    if ours.endswith("…") and theirs.casefold().startswith(ours[:-1].casefold()):
        return True  # cut at the bound of names
    # A row is named by its cells (ARIA); Chromium does that in grids only. A term is not (ARIA); Chromium does it.
    if (pair.ours.role == "row" and theirs == "") or (pair.ours.role == "term" and ours == ""):
        return True
    # Where Chromium has no name, a title is better than none: the element's own, or that of what is inside it.
    return theirs == "" and (f"title={ours[:40]!r}" in pair.html or pair.ours.role in ("link", "button"))


# What the page says in ways that Chromium's tree has no word for, or says otherwise.
_ONLY_OURS = {"current"}


def states_differ(pair: Pair) -> set[str]:
    """The words that one side has and the other should have."""
    assert pair.chromium is not None
    ours, theirs = set(pair.ours.states) - _ONLY_OURS, set(pair.chromium.states)
    theirs = {word for word in theirs if not word.startswith("level")}
    if pair.tag == "select":
        theirs -= {"collapsed", "expanded"}  # a native list is chosen from, never opened
    if pair.ours.role in ("navigation", "img"):
        ours -= {"collapsed", "expanded"}  # said of an element that can't have it
    if "required" in ours:
        theirs -= {"invalid"}  # empty and not yet touched: no user would call it wrong
    if pair.tag == "select":
        ours -= {"required"}  # Chromium leaves it out for lists
    if pair.ours.role in ("option", "listitem"):
        return set()  # told with their list
    return ours ^ theirs


def differences(pairs: list[Pair]) -> tuple[list[str], int]:
    """What differs without a reason, and how many elements both sides know."""
    wrong: list[str] = []
    compared = 0
    for pair in pairs:
        if pair.chromium is None or pair.tag in _PARTS_OF_A_LIST:
            continue
        if pair.seen != "shown" and pair.ours.role == "":
            continue
        compared += 1
        said = f"{pair.html}: {pair.ours.role} {pair.ours.name[:80]!r} {pair.ours.line[:60]}, Chromium {pair.chromium}"
        if pair.seen not in ("shown", "unseen"):
            wrong.append(f"{pair.seen}: {said}")
        elif pair.ours.role != pair.chromium.role:
            if not role_may_differ(pair):
                wrong.append(f"role: {said}")
        elif pair.ours.role != "":
            if flat(pair.ours.name) != pair.chromium.name and not name_may_differ(pair):
                wrong.append(f"name: {said}")
            if states_differ(pair):
                wrong.append(f"states {states_differ(pair)}: {said}")
    return wrong, compared


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealPages]:
    with real_pages(tmp_path_factory.mktemp("real")) as found:
        yield found


@pytest.mark.parametrize("name", NAMES)
def test_every_element_is_what_chromium_says(world: World, served: RealPages, name: str) -> None:
    if name in served.missing:
        pytest.skip(served.missing[name])
    page = served[name]
    with probed(world.chromium, page.url) as probe:
        until(lambda: _whole(probe, page.needed), 40, f"the controls of {name}")
        pairs = both(probe)
    wrong, compared = differences(pairs)
    assert compared >= 15
    assert wrong == []


def _whole(probe: Probe, needed: tuple[tuple[str, str], ...]) -> bool:
    said = {
        (entry["role"], flat(entry["name"]))
        for entry in probe.ask("everything()")
        if entry["seen"] == "shown"
    }
    return said.issuperset(needed)
