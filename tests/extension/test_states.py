"""States as Chromium's own accessibility tree has them, one small widget each."""

from __future__ import annotations

from typing import Final

import pytest

from .ax import both
from .conftest import World
from .probe import probed

pytestmark = [pytest.mark.live, pytest.mark.timeout(120)]

# Each holds one element with the class `case`. No expectation is written down: the browser is asked.
CASES: Final = (
    "<input type=checkbox class=case aria-label=a>",
    "<input type=checkbox class=case aria-label=a checked>",
    "<input type=checkbox class='case half' aria-label=a>",
    "<input type=checkbox class=case aria-label=a disabled checked>",
    "<input type=checkbox class=case aria-label=a required>",
    "<input type=checkbox class=case switch aria-label=a checked>",
    "<input type=radio class=case aria-label=a checked name=r1>",
    "<input type=radio class=case aria-label=a name=r1>",
    "<div role=checkbox class=case aria-checked=true tabindex=0>a</div>",
    "<div role=checkbox class=case aria-checked=mixed tabindex=0>a</div>",
    "<div role=checkbox class=case aria-checked=false tabindex=0>a</div>",
    "<div role=switch class=case aria-checked=true tabindex=0>a</div>",
    "<div role=menu><div role=menuitemcheckbox class=case aria-checked=true tabindex=0>a</div></div>",
    "<div role=radio class=case aria-checked=true tabindex=0>a</div>",
    "<div role=tablist><div role=tab class=case aria-selected=true tabindex=0>a</div></div>",
    "<div role=tablist><div role=tab class=case aria-selected=false tabindex=0>a</div></div>",
    "<table role=grid><tr><td class=case aria-selected=true tabindex=0>a</td></tr></table>",
    "<div role=tree><div role=treeitem class=case aria-selected=true tabindex=0>a</div></div>",
    "<button class=case aria-expanded=true>a</button>",
    "<button class=case aria-expanded=false>a</button>",
    "<button class=case aria-expanded=undefined>a</button>",
    "<details open><summary class=case>a</summary>b</details>",
    "<details><summary class=case>a</summary>b</details>",
    "<button class=case popovertarget=pop1>a</button><div popover id=pop1>b</div>",
    "<button class=case popovertarget=nothing>a</button>",
    "<div role=tree><div role=treeitem class=case aria-expanded=true tabindex=0>a</div></div>",
    "<div role=combobox class=case aria-expanded=false tabindex=0 aria-label=a>b</div>",
    "<input class=case role=combobox aria-expanded=true aria-label=a aria-controls=x1><ul id=x1 role=listbox></ul>",
    "<button class=case aria-pressed=true>a</button>",
    "<button class=case aria-pressed=false>a</button>",
    "<button class=case aria-pressed=mixed>a</button>",
    "<button class=case disabled>a</button>",
    "<button class=case aria-disabled=true>a</button>",
    "<fieldset disabled><input class=case aria-label=a></fieldset>",
    "<fieldset disabled><legend><input class=case aria-label=a></legend></fieldset>",
    "<div role=group aria-disabled=true><div role=button class=case tabindex=0>a</div></div>",
    "<select class=case disabled aria-label=a><option>b</select>",
    "<input class=case aria-label=a aria-invalid=true>",
    "<input class=case aria-label=a aria-invalid=spelling>",
    "<input class=case aria-label=a aria-invalid=false>",
    "<div role=textbox contenteditable=true class=case aria-label=a aria-invalid=true></div>",
    "<input class=case aria-label=a required value=b>",
    "<input class=case aria-label=a aria-required=true value=b>",
    "<textarea class=case aria-label=a required>b</textarea>",
    "<div role=radiogroup class=case aria-required=true aria-label=a></div>",
    "<input class=case aria-label=a readonly value=b>",
    "<input class=case aria-label=a aria-readonly=true value=b>",
    "<textarea class=case aria-label=a readonly>b</textarea>",
)
VALUES: Final = (
    "<input class=case aria-label=a value='some text'>",
    "<textarea class=case aria-label=a>some text</textarea>",
    "<input type=number class=case aria-label=a value=7>",
    "<input type=range class=case aria-label=a min=0 max=10 value=7>",
    "<input type=date class=case aria-label=a value=2031-05-14>",
    "<select class=case aria-label=a><option>one<option selected>two</select>",
    "<div role=slider class=case aria-label=a aria-valuenow=7 aria-valuemax=10 tabindex=0></div>",
    "<div role=spinbutton class=case aria-label=a aria-valuenow=7 tabindex=0></div>",
    "<div role=progressbar class=case aria-label=a aria-valuenow=7></div>",
    "<progress class=case aria-label=a value=7 max=10></progress>",
    "<meter class=case aria-label=a value=7 max=10></meter>",
    "<div role=textbox contenteditable=true class=case aria-label=a>some text</div>",
    "<div role=combobox class=case aria-label=a aria-expanded=false tabindex=0>some text</div>",
    "<div role=searchbox contenteditable=true class=case aria-label=a>some text</div>",
)
LEVELS: Final = (
    "<h3 class=case>a</h3>",
    "<div role=heading class=case aria-level=5>a</div>",
    "<div role=heading class=case>a</div>",
    "<div role=tree><div role=treeitem class=case tabindex=0>a</div></div>",
    "<ul role=tree><li role=treeitem tabindex=0>b<ul role=group><li role=treeitem class=case tabindex=0>a</li></ul></li></ul>",
    "<ul role=tree><li role=none><a role=treeitem href=#>b</a><ul role=group><li role=none><a class=case role=treeitem href=#>a</a></li></ul></li></ul>",
    "<div role=tree><div role=treeitem class=case aria-level=4 tabindex=0>a</div></div>",
)
_SCRIPT: Final = "<script>document.querySelector('.half').indeterminate = true</script>"


def _page(cases: tuple[str, ...], more: str = "") -> str:
    body = "".join(f"<div>{case}</div>" for case in cases)
    return f"data:text/html,<!doctype html><meta charset=utf-8><title>States</title>{body}{more}".replace(
        "#", "%23"
    )


def test_states_are_chromiums(world: World) -> None:
    with probed(world.chromium, _page(CASES, _SCRIPT)) as probe:
        pairs = [pair for pair in both(probe) if "case" in pair.html]
    assert len(pairs) == len(CASES)
    wrong = []
    for case, pair in zip(CASES, pairs, strict=True):
        assert pair.chromium is not None, case
        theirs = {word for word in pair.chromium.states if not word.startswith("level")}
        if "<select" in case:
            theirs -= {"collapsed"}  # a native list is chosen from, never opened
        if "required" in case:
            theirs -= {"invalid"}  # empty and not yet touched: no user would call it wrong
        if "checkbox" in case and "required" in case:
            theirs.add("required")  # Chromium leaves it out there
        if pair.ours.states != theirs:
            wrong.append((case, sorted(pair.ours.states), sorted(theirs)))
    assert wrong == []


def test_values_are_chromiums(world: World) -> None:
    with probed(world.chromium, _page(VALUES)) as probe:
        pairs = [pair for pair in both(probe) if "case" in pair.html]
    assert len(pairs) == len(VALUES)
    wrong = [
        (case, pair.ours.line, pair.chromium)
        for case, pair in zip(VALUES, pairs, strict=True)
        if pair.chromium is None or f'="{pair.chromium.line}"' not in pair.ours.line
    ]
    assert wrong == []


def test_levels_are_chromiums(world: World) -> None:
    with probed(world.chromium, _page(LEVELS)) as probe:
        levels = probe.ask("levels()")
        pairs = [pair for pair in both(probe) if "case" in pair.html]
    assert len(pairs) == len(LEVELS) == len(levels)
    theirs = [
        next((word for word in pair.chromium.states if word.startswith("level")), "")
        for pair in pairs
        if pair.chromium
    ]
    assert [f"level {level}" for level in levels] == theirs
