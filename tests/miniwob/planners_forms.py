"""Planners of the tasks about forms: buttons, boxes, fields, lists, small sums and small texts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from tests.support.planner import Call, Element, Page, Planner

from .basics import View, asked, begin, checks, fill_and_submit, in_turns, look, push, quoted


def click_first_button(page: Page) -> None:
    page.click(begin(page).all("button")[0])


def click_named_button(page: Page) -> None:
    view = begin(page)
    page.click(view.named(quoted(view)[0], "button"))


def click_button_in_capitals(page: Page) -> None:
    view = begin(page)
    page.click(view.named(asked(r"button ([A-Z]+)", view)[0], "button"))


def click_one_then_two(page: Page) -> None:
    view = begin(page)
    page.all(*(("page_click", {"ref": view.named(name, "button").ref}) for name in ("ONE", "TWO")))


def click_widget(page: Page) -> None:
    view = begin(page)
    wanted = quoted(view)[0]
    roles = {
        "textarea": "textbox",
        "text": "textbox",
        "checkbox": "checkbox",
        "radio": "radio",
        "button": "button",
    }
    found = view.all(roles[wanted])
    if wanted in ("text", "textarea"):  # told apart by what a line says of them
        multiline = [one for one in found if "multiline" in one.state]
        found = multiline if wanted == "textarea" else [one for one in found if one not in multiline]
    page.click(found[0])


def wanted_words(view: View, pattern: str = r"Select (.*) and click Submit") -> list[str]:
    words = asked(pattern, view)[0]
    return [] if words == "nothing" else [word.strip() for word in words.split(",")]


def click_checkboxes(page: Page) -> None:
    view = begin(page)
    boxes = [view.named(word, "checkbox") for word in wanted_words(view)]
    in_turns(page, [*checks(boxes), ("page_click", {"ref": view.named("Submit", "button").ref})])


# Everyday synonyms: what a model knows, and no page says.
_ALIKE: Final = (
    "big large huge enormous gigantic",
    "small tiny little mini petite",
    "red scarlet crimson vermillion",
    "happy cheerful joyful gleeful delighted",
    "sad unhappy sorrowful miserable tragic",
    "angry mad furious irritated",
    "evil wicked immoral sinful corrupt depraved",
    "wrong incorrect mistaken erroneous",
    "real genuine actual",
    "strange odd peculiar unusual weird",
    "stop cease halt end finish",
    "scared terrified panicked fearful frightened afraid",
    "quiet calm peaceful serene mild",
    "old aged archaic",
    "love like adore favor",
    "kill murder assassinate",
    "keep retain preserve sustain maintain",
    "hide conceal camouflage",
    "hate despise loathe detest dislike",
    "funny humorous amusing comical laughable",
    "fat fleshy plump chubby",
    "stupid dumb dull unwise",
    "delicious savory delectable appetizing",
    "cut slice carve chop",
    "brave courageous fearless",
    "begin start initiate launch",
    "answer reply response",
    "television televisions TV TVs",
    "house home houses homes",
    "fire flame fires flames",
    "pig pork swine",
    "rabbit rabbits bunny bunnies",
    "car cars automobile automobiles vehicle vehicles",
    "water",
)


def click_similar_words(page: Page) -> None:
    view = begin(page)
    wanted = wanted_words(view, r"similar to (.*) and click Submit")
    groups = [group.split() for group in _ALIKE]
    alike = {word for group in groups for word in group if set(group) & set(wanted)}
    boxes = [box for box in view.all("checkbox") if box.name in alike]
    in_turns(page, [*checks(boxes), ("page_click", {"ref": view.named("Submit", "button").ref})])


def click_option(page: Page) -> None:
    view = begin(page)
    page.all(
        ("page_click", {"ref": view.named(asked(r"Select (\S+) and click", view)[0], "radio").ref}),
        ("page_click", {"ref": view.named("Submit", "button").ref}),
    )


def choose_in_list(page: Page) -> None:
    view = begin(page)
    names = asked(r"Select (.*) from the (?:scroll )?list", view)[0].split(", ")
    page.all(
        ("page_select", {"ref": view.all("combobox", "listbox")[0].ref, "values": names}),
        ("page_click", {"ref": view.named("Submit", "button").ref}),
    )


def enter_quoted(page: Page) -> None:
    view = begin(page)
    fill_and_submit(page, view, quoted(view)[0])


def enter_in_case(page: Page) -> None:
    view = begin(page)
    text = quoted(view)[0]
    fill_and_submit(page, view, text.lower() if "lower" in view.query else text.upper())


def enter_date(page: Page) -> None:
    view = begin(page)
    month, day, year = asked(r"(\d+)/(\d+)/(\d+)", view)
    fill_and_submit(page, view, f"{year}-{int(month):02}-{int(day):02}")


def enter_time(page: Page) -> None:
    view = begin(page)
    hour, minute, half = asked(r"(\d+):(\d+)\W*([AP])M", view)
    fill_and_submit(page, view, f"{int(hour) % 12 + (12 if half == 'P' else 0):02}:{minute}")


def find_word(page: Page) -> None:
    view = begin(page)
    place = int(asked(r"the (\d+)(?:st|nd|rd|th) word", view)[0])
    words = view.lines[1].split()
    fill_and_submit(page, view, re.sub(r"[^A-Za-z]", "", words[place - 1]))


def focus_text(page: Page) -> None:
    view = begin(page)
    found = re.search(r"the (\d+)(?:st|nd|rd|th) input", view.query)
    page.click(view.fields()[int(found.group(1)) - 1 if found else 0])


def whole_value(page: Page, field: Element) -> str:
    """All that a field holds: the line says it when it is short, extract when it is not."""
    return page.extract("text", region_ref=field.ref)


def copy_text(page: Page) -> None:
    view = begin(page)
    fields = view.fields()
    found = re.search(r"the (\d+)(?:st|nd|rd|th) text area", view.query)
    full = [field for field in fields if '="' in field.state]
    source = full[int(found.group(1)) - 1 if found else 0]
    target = next(field for field in fields if '="' not in field.state)
    page.all(
        ("page_type", {"ref": target.ref, "text": whole_value(page, source)}),
        ("page_click", {"ref": view.named("Submit", "button").ref}),
    )


def last_word(page: Page) -> None:
    view = begin(page)
    text, answer = view.fields()
    word = whole_value(page, text).split()[-1]
    page.all(
        ("page_type", {"ref": answer.ref, "text": re.sub(r"[^A-Za-z0-9]", "", word)}),
        ("page_click", {"ref": view.named("Submit", "button").ref}),
    )


def guess_number(page: Page) -> None:
    view = begin(page)
    low, high = 0, 9
    for _ in range(5):
        guess = (low + high) // 2
        fill_and_submit(page, view, str(guess))
        view = look(page)
        if "is lower than" in view.text:
            high = guess - 1
        elif "is higher than" in view.text:
            low = guess + 1
        else:
            return


def arithmetic(page: Page) -> None:
    view = begin(page)
    found = re.search(r"(-?\d+) ([-+x*]) (-?\d+) =", view.text)
    if found is None:
        raise LookupError(view.text)
    left, sign, right = int(found[1]), found[2], int(found[3])
    value = left + right if sign == "+" else left - right if sign == "-" else left * right
    fill_and_submit(page, view, str(value))


def algebra(page: Page) -> None:
    view = begin(page)
    found = re.search(r"(x|\d+) ([-+]) (x|\d+) = (-?\d+)", view.text)
    if found is None:
        raise LookupError(view.text)
    left, sign, right, answer = found.groups()
    if left == "x":
        x = int(answer) - int(right) if sign == "+" else int(answer) + int(right)
    else:
        x = int(answer) - int(left) if sign == "+" else int(left) - int(answer)
    fill_and_submit(page, view, str(x))


def odd_or_even(page: Page) -> None:
    view = begin(page)
    numbers = [int(n) for n in re.findall(r"(?<![e\d\[])-?\d+(?!\])", "\n".join(view.lines[1:]))]
    odd = [one for one in view.all("button") if one.name == "Odd"]
    even = [one for one in view.all("button") if one.name == "Even"]
    calls: list[Call] = [
        ("page_click", {"ref": (odd if number % 2 else even)[i].ref}) for i, number in enumerate(numbers)
    ]
    in_turns(page, [*calls, ("page_click", {"ref": view.named("Submit", "button").ref})])


def read_table(page: Page) -> None:
    view = begin(page)
    fill_and_submit(page, view, pairs(view)[asked(r"the value of (.*) into", view)[0]])


def pairs(view: View) -> dict[str, str]:
    return {
        a.strip(): b.strip() for a, b in (line.split("|", 1) for line in view.lines if line.count("|") == 1)
    }


def read_table_twice(page: Page) -> None:
    view = begin(page)
    table = pairs(view)
    calls: list[Call] = []
    for line in view.lines[1:]:
        found = re.match(r"(.*?):?\s*\[(e\d+)\] textbox", line)
        if found and found[1].strip() in table:
            calls.append(("page_type", {"ref": found[2], "text": table[found[1].strip()]}))
    page.all(*calls, ("page_click", {"ref": view.named("Submit", "button").ref}))


# A digit as a person draws it on a grid of 4 by 7; the page shows the same as pictures.
_DIGITS: Final[Mapping[str, str]] = {
    "0": "0110 1001 1001 1001 1001 1001 0110",
    "1": "0010 0110 0010 0010 0010 0010 0010",
    "2": "0110 1001 1001 0010 0100 1000 1111",
    "3": "0110 1001 0001 0110 0001 1001 0110",
    "4": "1000 1010 1010 1111 0010 0010 0010",
    "5": "1111 1000 1000 1110 0001 1001 0110",
    "6": "0110 1001 1000 1110 1001 1001 0110",
    "7": "1111 1001 0001 0010 0010 0100 0100",
    "8": "0110 1001 1001 0110 1001 1001 0110",
    "9": "0110 1001 1001 0111 0001 1001 0110",
}


def draw_number(page: Page) -> None:
    view = begin(page)
    pattern = _DIGITS[quoted(view)[0]].replace(" ", "")
    calls: list[Call] = [
        ("page_select", {"ref": box.ref, "checked": dot == "1"})
        for box, dot in zip(view.all("checkbox"), pattern, strict=True)
        if ("checked" in box.state) != (dot == "1")
    ]
    in_turns(page, [*calls, ("page_click", {"ref": view.named("Submit", "button").ref})])


_KINDS: Final = {"genre": "Genre", "director": "Director", "year": "Year", "released": "Year"}


def search_movie(page: Page) -> None:
    """Fields whose labels are plain text, before or after them."""
    view = begin(page)
    genre, director, year = asked(r"for (\S+) movies directed by (\S+) from year (\d+)", view)
    values = {"Genre": genre, "Director": director, "Year": year}
    flat = [
        part for line in view.lines[1:] for part in re.split(r"(?=\[e\d+\])|(?<=\")\s", line) if part.strip()
    ]
    order: list[tuple[str, str]] = []
    for part in flat:
        found = re.match(r"\[(e\d+)\] textbox", part)
        word = next((kind for key, kind in _KINDS.items() if key in part.lower()), None)
        if found:
            order.append(("field", found[1]))
        elif word and not part.startswith("["):
            order.append(("label", word))
    labels = [what for kind, what in order if kind == "label"]
    fields = [what for kind, what in order if kind == "field"]
    calls: list[Call] = [
        ("page_type", {"ref": ref, "text": values[label]}) for label, ref in zip(labels, fields, strict=True)
    ]
    page.all(*calls, ("page_click", {"ref": view.all("button", "clickable")[-1].ref}))


def autocomplete(page: Page) -> None:
    view = begin(page)
    wanted = quoted(view)
    field = view.fields()[0]
    page.type(field, wanted[0])
    for _ in range(4):
        offered = [
            one
            for one in page.hits(wanted[0], limit=25)
            if one.ref != field.ref
            and one.name.startswith(wanted[0])
            and one.name.endswith(wanted[1] if len(wanted) > 1 else "")
        ]
        if offered:
            page.click(offered[0])
            break
        page.turn(("page_wait", {"until": "idle", "timeout_ms": 1_000}))
    else:
        raise LookupError("nothing is suggested")
    page.click(view.named("Submit", "button"))


def spinner(page: Page) -> None:
    """By arrow keys: such fields may refuse typed text."""
    view = begin(page)
    field = view.all("spinbutton")[0]
    held = re.search(r'="(-?\d+)"', field.state)
    missing = int(asked(r"Select (-?\d+) with", view)[0]) - (int(held[1]) if held else 0)
    key = "ArrowUp" if missing > 0 else "ArrowDown"
    in_turns(page, [("page_press", {"key": key, "ref": field.ref}) for _ in range(abs(missing))])
    push(view, page)


def generate_number(page: Page) -> None:
    view = begin(page)
    relation, limit = asked(r"number (greater|less|smaller) than (-?\d+)", view)
    for _ in range(12):
        page.click(view.named("Generate", "button"))
        for line in look(page).lines[1:]:
            if (
                re.fullmatch(r"-?\d+", line.strip())
                and (int(line) > int(limit)) == (relation == "greater")
                and int(line) != int(limit)
            ):
                push(view, page)
                return
    raise LookupError("no such number came")


def greatest_card(page: Page) -> None:
    view = begin(page)
    cards = [one for one in view.elements if one.name.isdigit()]
    page.all(
        ("page_click", {"ref": max(cards, key=lambda one: int(one.name)).ref}),
        ("page_click", {"ref": view.named("Submit", "button").ref}),
    )


def cheapest_ticket(page: Page) -> None:
    view = begin(page)
    buttons = view.all("button")
    if "duration" in view.query:
        lasting = re.findall(r"(\d+)h (\d+)m", view.text)
        sizes = [int(hours) * 60 + int(minutes) for hours, minutes in lasting]
    else:
        sizes = [int(re.sub(r"\D", "", one.name)) for one in buttons]
    best = min if re.search("cheapest|shortest", view.query) else max
    page.click(buttons[sizes.index(best(sizes))])


def sequence_radio_text(page: Page) -> None:
    view = begin(page)
    kind, number, text, where = (
        "radio",
        *asked(r"Check the (\d+)\w+ radio button and enter the number \"(-?\d+)\" into the (\d+)", view),
    )
    page.all(
        ("page_click", {"ref": view.all(kind)[int(number) - 1].ref}),
        ("page_type", {"ref": view.fields()[int(where) - 1].ref, "text": text}),
        ("page_click", {"ref": view.named("Submit", "button").ref}),
    )


def sequence_list_button(page: Page) -> None:
    view = begin(page)
    value, button = asked(r'Choose (.*) from the dropdown, then click the button labeled "(\w+)"', view)
    page.all(
        ("page_select", {"ref": view.all("combobox")[0].ref, "values": [value]}),
        ("page_click", {"ref": view.named(button, "button").ref}),
    )


FORMS: Final[Mapping[str, Planner]] = {
    "button-delay": click_one_then_two,
    "buy-ticket": cheapest_ticket,
    "choose-list": choose_in_list,
    "click-button": click_named_button,
    "click-button-sequence": click_one_then_two,
    "click-checkboxes": click_checkboxes,
    "click-checkboxes-large": click_checkboxes,
    "click-checkboxes-soft": click_similar_words,
    "click-checkboxes-transfer": click_checkboxes,
    "click-option": click_option,
    "click-scroll-list": choose_in_list,
    "click-test": click_first_button,
    "click-test-2": click_button_in_capitals,
    "click-test-transfer": click_button_in_capitals,
    "click-widget": click_widget,
    "copy-paste": copy_text,
    "copy-paste-2": copy_text,
    "enter-date": enter_date,
    "enter-text": enter_quoted,
    "enter-text-2": enter_in_case,
    "enter-text-dynamic": enter_quoted,
    "enter-time": enter_time,
    "find-greatest": greatest_card,
    "find-word": find_word,
    "focus-text": focus_text,
    "focus-text-2": focus_text,
    "form-sequence-2": sequence_radio_text,
    "form-sequence-3": sequence_list_button,
    "generate-number": generate_number,
    "guess-number": guess_number,
    "multi-layouts": search_movie,
    "multi-orderings": search_movie,
    "number-checkboxes": draw_number,
    "odd-or-even": odd_or_even,
    "read-table": read_table,
    "read-table-2": read_table_twice,
    "scroll-text": last_word,
    "simple-algebra": algebra,
    "simple-arithmetic": arithmetic,
    "unicode-test": click_named_button,
    "use-autocomplete": autocomplete,
    "use-autocomplete-nodelay": autocomplete,
    "use-spinner": spinner,
}
