"""What every planner needs: the task's text, and short ways to say what a person would do with a small form."""

from __future__ import annotations

import re
from typing import Final

from tests.support.planner import Call, Element, Page, elements

_COVER: Final = 'clickable "START"'
# The benchmark's own display; menus, dialogs and calendars that a page appends to its body come after it.
_HUD: Final = re.compile(r"Last reward:.*|Last 10 average:.*|Time left:.*|Episodes done:.*|-")
TEXT_FIELDS: Final = ("textbox", "searchbox", "spinbutton", "combobox")


class View:
    """One observation in reading order. `lines`: without title and the reward display; `query`: the task's text."""

    def __init__(self, text: str) -> None:
        kept = [line for line in text.splitlines()[1:] if _HUD.fullmatch(line) is None]
        self.lines = kept
        self.text = "\n".join(kept)
        self.query = kept[0] if kept else ""
        self.elements = elements(self.text)

    def all(self, *roles: str) -> list[Element]:
        return [element for element in self.elements if not roles or element.role in roles]

    def named(self, name: str, *roles: str) -> Element:
        """The first element with that name. Raises LookupError."""
        for element in self.all(*roles):
            if element.name == name:
                return element
        raise LookupError(f"no {'/'.join(roles) or 'element'} named {name!r}: {self.elements[:20]}")

    def fields(self) -> list[Element]:
        return self.all(*TEXT_FIELDS)


def look(page: Page) -> View:
    return View(page.observe("document"))


def begin(page: Page) -> View:
    """The page once its episode has begun."""
    for _ in range(6):
        text = page.observe("document")
        if _COVER not in text:
            return View(text)
        page.turn(("page_wait", {"until": "idle", "timeout_ms": 1_000}))
    raise LookupError("the episode did not begin")


def asked(pattern: str, view: View) -> tuple[str, ...]:
    """The groups of `pattern` in the task's text."""
    found = re.search(pattern, view.query)
    if found is None:
        raise LookupError(f"the task says {view.query!r}")
    return found.groups()


def quoted(view: View) -> list[str]:
    return re.findall(r'"([^"]*)"', view.query)


def push(view: View, page: Page, name: str = "Submit") -> None:
    """Clicks the button (or what looks like one) of that name."""
    page.click(view.named(name, "button", "clickable"))


def checks(boxes: list[Element]) -> list[Call]:
    return [("page_select", {"ref": box.ref, "checked": True}) for box in boxes]


def in_turns(page: Page, calls: list[Call], size: int = 16) -> None:
    """Many calls, `size` a turn."""
    for start in range(0, len(calls), size):
        page.all(*calls[start : start + size])


def fill_and_submit(page: Page, view: View, text: str, button: str = "Submit") -> None:
    page.all(
        ("page_type", {"ref": view.fields()[-1].ref, "text": text}),
        ("page_click", {"ref": view.named(button, "button").ref}),
    )
