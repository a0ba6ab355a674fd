"""Planners of the tasks about moving through a page: tabs, sections, dialogs, menus, calendars, result lists, contacts, trees."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from tests.support.planner import Element, Page, Planner

from .basics import View, asked, begin, look, push, quoted

_MONTHS: Final = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]


def close_dialog(page: Page) -> None:
    view = begin(page)
    page.click(view.named("Close", "button"))


def click_in_dialog(page: Page) -> None:
    view = begin(page)
    name = quoted(view)[0]
    page.click(view.named("Close" if name == "x" else name, "button"))


def click_link(page: Page) -> None:
    view = begin(page)
    page.click(view.named(quoted(view)[0], "clickable", "link"))


def expand_and_submit(page: Page) -> None:
    view = begin(page)
    sections = [tab for tab in view.all("tab") if tab.name.startswith("Section")]
    page.click(sections[0])
    push(after_settling(page), page)


def after_settling(page: Page) -> View:
    page.turn(
        ("page_wait", {"until": "idle", "timeout_ms": 2_000})
    )  # a page that never rests is read as it is
    return look(page)


def search_sections(page: Page) -> None:
    """Opens section after section (or tab after tab) until the link is there."""
    view = begin(page)
    wanted = quoted(view)[0]
    tabs = len(view.all("tab"))
    for number in range(tabs + 1):
        links = [one for one in view.all("clickable", "link") if one.name == wanted]
        if links:
            page.click(links[0])
            return
        if number < tabs and "expanded" not in view.all("tab")[number].state:
            page.click(view.all("tab")[number])
            view = after_settling(page)
    raise LookupError(f"{wanted!r} is in no section")


def click_tab(page: Page) -> None:
    view = begin(page)
    page.click(view.named(asked(r"Click on (Tab #\d+)", view)[0], "tab", "link"))


def click_menu_button(page: Page) -> None:
    view = begin(page)
    page.click(view.named("Menu", "button"))
    view = after_settling(page)
    named = re.search(r'labeled "([^"]+)"', view.query)
    if named is None:
        raise LookupError(view.query)
    page.click([one for one in view.elements if one.name == named[1]][-1])


def choose_date(page: Page) -> None:
    view = begin(page)
    month, day, year = (int(part) for part in asked(r"Select (\d+)/(\d+)/(\d+)", view))
    page.click(view.fields()[0])
    view = after_settling(page)
    for _ in range(12):
        shown = re.search(rf"({'|'.join(_MONTHS)})\W+(\d{{4}})", view.text)
        if shown is None:
            raise LookupError("no calendar is shown")
        ahead = (year - int(shown[2])) * 12 + month - 1 - _MONTHS.index(shown[1])
        if ahead == 0:
            break
        page.click(view.named("Next" if ahead > 0 else "Prev", "link", "clickable", "button"))
        view = look(page)
    page.click(view.named(str(day), "link", "clickable", "button"))
    push(look(page), page)


def search_engine(page: Page) -> None:
    view = begin(page)
    place = int(asked(r"click the (\d+)", view)[0])
    page.all(
        ("page_type", {"ref": view.fields()[0].ref, "text": quoted(view)[0]}),
        ("page_click", {"ref": view.named("Search", "button").ref}),
    )
    seen = 0
    for _ in range(8):
        view = look(page)
        results = [link for link in view.all("link") if re.fullmatch(r"[^\d<>]+", link.name)]
        if seen + len(results) >= place:
            page.click(results[place - seen - 1])
            return
        seen += len(results)
        page.click(view.named(">", "link", "button"))
    raise LookupError("the results end before that")


def phone_book(page: Page) -> None:
    view = begin(page)
    name, kind = asked(r"Find (.*) in the contact book and click on their (phone|email|address)", view)
    for _ in range(8):
        if any(line.lstrip("# ").strip() == name for line in view.lines[1:]):
            break
        page.click(view.named(">", "link", "button"))
        view = look(page)
    line = next(line for line in view.lines if line.lower().startswith(kind))
    value = re.sub(r'\[e\d+\] \w+ "([^"]*)".*', r"\1", line.split(":", 1)[1]).strip()
    shown = [one for one in view.elements if one.name == value]
    page.click(shown[0] if shown else exact_text(page, value))


def exact_text(page: Page, text: str) -> Element:
    """The hit whose text is exactly that."""
    for hit in page.hits(text):
        if hit.name == text:
            return hit
    raise LookupError(f"no text {text!r}")


def terminal_file(page: Page) -> None:
    view = begin(page)
    found = re.search(r"extension (\.\w+)", view.query)
    field = view.fields()[0]
    page.type(field, "ls", submit=True, clear=False)
    view = look(page)
    names = re.findall(r"[\w-]+\.?\w*", view.text.split("ls", 1)[-1])
    wanted = [
        name
        for name in names
        if (name.endswith(found[1]) if found else "." not in name) and name not in ("user",)
    ]
    page.type(view.fields()[0], f"rm {wanted[0]}", submit=True)


def scroll_to_end(page: Page) -> None:
    view = begin(page)
    field = view.fields()[0]
    page.click(field)
    for _ in range(3):
        page.all(*(("page_press", {"key": "PageDown", "ref": field.ref}) for _ in range(8)))
    page.click(view.named("Submit", "button"))


PAGES: Final[Mapping[str, Planner]] = {
    "choose-date": choose_date,
    "choose-date-easy": choose_date,
    "choose-date-medium": choose_date,
    "choose-date-nodelay": choose_date,
    "click-collapsible": expand_and_submit,
    "click-collapsible-nodelay": expand_and_submit,
    "click-collapsible-2": search_sections,
    "click-collapsible-2-nodelay": search_sections,
    "click-dialog": close_dialog,
    "click-dialog-2": click_in_dialog,
    "click-link": click_link,
    "click-menu-2": click_menu_button,
    "click-tab": click_tab,
    "click-tab-2": search_sections,
    "click-tab-2-easy": search_sections,
    "click-tab-2-hard": search_sections,
    "click-tab-2-medium": search_sections,
    "phone-book": phone_book,
    "scroll-text-2": scroll_to_end,
    "search-engine": search_engine,
    "terminal": terminal_file,
}
