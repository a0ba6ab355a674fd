"""Planners of the tasks about things without role or text: colours, icons, shapes, a board; and of menus on hover, drags and sliders."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final

from tests.support.planner import Element, Page, Planner

from .basics import View, asked, begin, look, push, quoted
from .planners_pages import after_settling, exact_text


def words(element: Element) -> list[str]:
    """The hint of an element without a name: `(circle red 10x10)` in words."""
    found = re.search(r"\(([^)]*)\)", element.state)
    return found.group(1).split() if found else []


# ------------------------------------------------------------ colours and shapes


def click_color(page: Page) -> None:
    """The colour is said in a word, or shown as a small box inside the sentence."""
    view = begin(page)
    boxes = view.all("clickable")
    said = re.search(r"the (\w+) colored box", view.query)
    if said:
        page.click(next(box for box in boxes if said[1].replace("grey", "gray") in words(box)))
        return
    sample = words(boxes[0])[-1]
    page.click(next(box for box in boxes[1:] if words(box)[-1] == sample))


_SHAPES: Final = {"rectangle": "rect", "triangle": "polygon", "circle": "circle"}
_COLOURS: Final = ("red", "green", "blue", "aqua", "black", "magenta", "yellow")
_LARGE: Final = 16  # pixels of height: shapes are 10 or 20, letters 11 or 24


def click_shape(page: Page) -> None:
    view = begin(page)
    *told, kind = asked(r"Click on an? (.*)$", view)[0].split()
    page.click(next(one for one in view.all("clickable") if _is_shape(one, told, kind)))


def _is_shape(element: Element, told: list[str], kind: str) -> bool:
    shape, *rest = words(element)
    large = int(rest[-1].partition("×")[2]) > _LARGE
    for word in told:
        if word in ("large", "small"):
            if large != (word == "large"):
                return False
        elif (word in _COLOURS) and word.replace("aqua", "cyan") not in rest:
            return False
    letter = shape == "text"
    kinds = {
        "item": True,
        "shape": not letter,
        "letter": letter and element.name.isalpha(),
        "digit": letter and element.name.isdigit(),
    }
    return kinds.get(kind, shape == _SHAPES.get(kind) or (letter and element.name == kind))


def click_pie(page: Page) -> None:
    view = begin(page)
    wanted = quoted(view)[0]
    page.click(view.named("+", "clickable"))
    for _ in range(4):
        view = after_settling(page)
        found = [one for one in view.all("clickable") if one.name == wanted]
        if found:
            page.click(found[-1])
            return
    raise LookupError(f"no slice {wanted!r}: {view.text}")


# ------------------------------------------------------------ icons


def with_word(view: View, word: str, after: int = 0) -> Element:
    """The first icon with that word in its hint that is written after that place."""
    for element in view.all("clickable"):
        if element.at >= after and element.name == "" and word in words(element):
            return element
    raise LookupError(f"no icon {word!r}: {view.text}")


def drawn(page: Page, word: str) -> View:
    """The page once an icon of that word is there: pictures come a moment after the text."""
    view = begin(page)
    for _ in range(4):
        if any(word in words(one) for one in view.all("clickable")):
            break
        view = after_settling(page)
    return view


def handle_email(page: Page) -> None:
    view = drawn(page, "trash")
    who = asked(r"email by (\S+) and", view)[0]
    mail = next(one for one in view.all("clickable") if one.name.startswith(f"{who} "))
    for icon in ("trash", "star"):
        if f"{icon} icon" in view.query:
            page.click(with_word(view, icon, mail.at))
            return
    page.click(mail)
    if "forward" in view.query:
        receiver = asked(r"forward that email to ([^.]+)\.", view)[0]
        page.click(look(page).named("Forward", "clickable"))
        opened = look(page)
        page.type(opened.fields()[0], receiver)
        page.click(with_word(opened, "send-forward"))
    else:
        page.click(look(page).named("Reply", "clickable"))
        opened = look(page)
        page.type(opened.fields()[0], quoted(view)[0])
        page.click(with_word(opened, "send-reply"))


def act_on_post(page: Page) -> None:
    view = drawn(page, "like")
    user, action = asked(r'user (@\w+), click on the "([^"]+)"', view)
    start = len(view.query)
    post = re.search(rf"{user}\b", view.text[start:])
    if post is None:
        raise LookupError(f"no post by {user}")
    at = start + post.start()
    if action.lower() in ("reply", "retweet", "like"):
        page.click(with_word(view, action.lower(), at))
        return
    page.click(with_word(view, "more", at))
    for hit in page.hits(action):
        if hit.name == action or hit.name == f"{action} {user}":
            page.click(hit)
            return
    raise LookupError(f"the menu has no {action!r}")


def open_tree(page: Page) -> None:
    """Opens folder after folder until the name comes up."""
    view = begin(page)
    wanted = quoted(view)[0]
    for _ in range(10):
        if wanted in view.lines[1:]:
            page.click(exact_text(page, wanted))
            return
        page.click(with_word(view, "expandable-hitarea"))
        view = after_settling(page)
    raise LookupError(f"{wanted!r} is in no folder")


# ------------------------------------------------------------ a game

_ROWS: Final = ("012", "345", "678", "036", "147", "258", "048", "246")
_RANDOM: Final = 0.55  # how often the other player moves at random; else it wins or blocks where it can


def play_board(page: Page) -> None:
    """The best chance of a win at every move. The other player moves partly at random: no play wins every game."""
    view = begin(page)
    for _ in range(5):
        board = board_of(view)
        if len(board) != 9 or won(board, "x") or won(board, "o") or "." not in board:
            return
        cells = view.all("clickable")
        free = [place for place, mark in enumerate(board) if mark == "."]
        best = max(free, key=lambda place: chance(put(board, place, "x"), mine=False))
        page.click(cells[best])
        view = look(page)


def board_of(view: View) -> str:
    marks = ""
    for cell in view.all("clickable"):
        said = words(cell)
        marks += "x" if "mark-x" in said else "o" if "mark-o" in said else "."
    return marks


def put(board: str, place: int, mark: str) -> str:
    return board[:place] + mark + board[place + 1 :]


def won(board: str, mark: str) -> bool:
    return any(all(board[int(place)] == mark for place in row) for row in _ROWS)


@cache
def chance(board: str, *, mine: bool) -> float:
    """How probable a win is from here."""
    if won(board, "x"):
        return 1.0
    free = [place for place, mark in enumerate(board) if mark == "."]
    if not free or won(board, "o"):
        return 0.0
    if mine:
        return max(chance(put(board, place, "x"), mine=False) for place in free)
    at_random = sum(chance(put(board, place, "o"), mine=True) for place in free) / len(free)
    clever = next(_clever(board, free), None)
    if clever is None:
        return at_random
    return _RANDOM * at_random + (1 - _RANDOM) * chance(put(board, clever, "o"), mine=True)


def _clever(board: str, free: list[int]) -> Iterator[int]:
    """Places where the other player wins, then places where it blocks."""
    for mark in ("o", "x"):
        yield from (place for place in free if won(put(board, place, mark), mark))


# ------------------------------------------------------------ menus on hover, drags, sliders


def hover_menu(page: Page) -> None:
    view = begin(page)
    *path, last = (part.strip() for part in re.split(r">|&gt;", asked(r"Select (.*)$", view)[0]))
    for part in path:
        page.click(appearing(page, part), gesture="hover")
    page.click(appearing(page, last))


def appearing(page: Page, name: str) -> Element:
    for _ in range(5):
        found = [one for one in look(page).elements if one.name == name]
        if found:
            return found[0]
        page.turn(("page_wait", {"until": "idle", "timeout_ms": 1_000}))
    raise LookupError(f"{name!r} does not come up")


def drag_box(page: Page) -> None:
    view = begin(page)
    page.click(view.named("s"), gesture="drag", to_ref=view.named("L").ref)
    push(look(page), page)


def rows(view: View) -> tuple[list[Element], list[str]]:
    """Handles and texts of a list to be sorted, from above."""
    handles = [one for one in view.all("clickable") if "ui-icon" in words(one)]
    return handles, [line for line in view.lines[1:] if "[" not in line][: len(handles)]


def drag_item(page: Page) -> None:
    view = begin(page)
    handles, names = rows(view)
    name, where = asked(r"Drag (\S+) (?:to the )?(.*?)(?: by one)?(?: position)?\.", view)
    at = names.index(name)
    places = {"top": 0, "bottom": len(names) - 1, "up": at - 1, "down": at + 1}
    to = places[where] if where in places else int(re.sub(r"\D", "", where)) - 1
    page.click(handles[at], gesture="drag", to_ref=exact_text(page, names[to]).ref)


def drag_to_order(page: Page) -> None:
    view = begin(page)
    for place in range(len(rows(view)[0]) - 1):
        handles, texts = rows(view)
        numbers = [int(text) for text in texts]
        least = min(range(place, len(numbers)), key=lambda at: numbers[at])
        if least != place:
            page.click(handles[least], gesture="drag", to_ref=exact_text(page, texts[place]).ref)
            view = look(page)
    push(view, page)


def set_slider(page: Page) -> None:
    """By keys: a page of the slider first, to learn how long it is, then in steps."""
    view = begin(page)
    wanted = int(asked(r"Select (-?\d+) with", view)[0])

    def value(seen: View) -> int:
        return int(next(line for line in seen.lines[1:] if re.fullmatch(r"-?\d+", line)))

    handle = view.all("clickable", "slider")[0].ref
    for key in ("Page", "Page", "Arrow"):
        missing = wanted - value(view)
        pressed = f"{key}{('Up' if missing > 0 else 'Down')}"
        if missing == 0:
            break
        times = abs(missing)
        if key == "Page":
            before = value(view)
            page.call("page_press", key=pressed, ref=handle)
            view = look(page)
            step = abs(value(view) - before)
            missing = wanted - value(view)
            times = abs(missing) // step if step else 0
            pressed = f"Page{('Up' if missing > 0 else 'Down')}"
        if times:
            page.all(*(("page_press", {"key": pressed, "ref": handle}) for _ in range(times)))
        view = look(page)
    push(view, page)


MARKS: Final[Mapping[str, Planner]] = {
    "click-color": click_color,
    "click-menu": hover_menu,
    "click-pie": click_pie,
    "click-pie-nodelay": click_pie,
    "click-shape": click_shape,
    "drag-box": drag_box,
    "drag-items": drag_item,
    "drag-sort-numbers": drag_to_order,
    "email-inbox": handle_email,
    "email-inbox-delete": handle_email,
    "email-inbox-forward": handle_email,
    "email-inbox-important": handle_email,
    "email-inbox-noscroll": handle_email,
    "email-inbox-reply": handle_email,
    "email-inbox-star-reply": handle_email,
    "navigate-tree": open_tree,
    "social-media": act_on_post,
    "tic-tac-toe": play_board,
    "use-slider": set_slider,
}
