"""What `browser_page_extract` reads, in a real Chromium: tables of every kind, articles, text without what surrounds it."""

from __future__ import annotations

from typing import Final

import pytest
from browsercell.protocol.errors import ToolErrorCode as Code

from tests.support.articles import scores
from tests.support.material import needed

from .answers import Open, table

pytestmark = [pytest.mark.live, pytest.mark.timeout(120)]

GOAL_F1: Final = 0.94
# A sample of the material: one of each kind of page. All of them: `make bench`.
SAMPLE: Final = ("001", "nytimes-1", "replace-brs", "rtl-1", "seattletimes-1", "v8-blog")


def test_headers_across_a_table_name_the_rows_below(open_tab: Open) -> None:
    rows = table(open_tab("/grouped").run("page_extract", kind="table"))
    assert rows.columns == ("group", "From", "To", "Takes")
    assert rows.rows == (
        ("Morning", "A", "B", "1 h"),
        ("Morning", "A", "C", "2 h"),
        ("Evening", "D", "E", "3 h"),
        ("Evening", "F", "E", "4 h"),
        ("Evening", "G", "H", "5 h"),
    )


def test_plain_cells_in_a_head_name_columns_and_empty_columns_go(open_tab: Open) -> None:
    rows = table(open_tab("/thead").run("page_extract", kind="table"))
    assert rows.columns == ("Name", "Age")
    assert rows.rows == (("Ann", "7"), ("Ben", "9"))


def test_cells_that_name_their_headers(open_tab: Open) -> None:
    rows = table(open_tab("/headers").run("page_extract", kind="table"))
    assert rows.columns == ("column 1", "Q1", "Q2")
    assert rows.rows == (("North", "1", "2"), ("South", "3", "4"))


def test_a_column_is_called_what_one_sees(open_tab: Open) -> None:
    rows = table(open_tab("/sorted").run("page_extract", kind="table"))
    assert rows.columns == ("Name", "Age", "City", "Paid")
    assert rows.rows == (("Ann", "7", "Ulm", ""), ("Ben", "9", "Bonn", "yes"))


def test_tables_that_only_place_things_are_no_part_of_a_grid(open_tab: Open) -> None:
    rows = table(open_tab("/nested").run("page_extract", kind="table"))
    assert rows.columns == ("Mon", "Tue")
    assert rows.rows == (("1", "2"), ("3", "4"))


def test_a_list_is_of_records_that_show(open_tab: Open) -> None:
    rows = table(open_tab("/panels").run("page_extract", kind="list"))
    assert rows.rows == (("Ulm",), ("Bonn",), ("Kiel",))


def test_a_table_that_draws_only_what_is_in_view_is_read_whole(open_tab: Open) -> None:
    tab = open_tab("/drawn")
    tab.js("box.scrollTop = 500")
    rows = table(tab.run("page_extract", kind="table"))
    assert rows.columns == ("No", "Name")
    assert rows.rows == tuple((str(i + 1), f"Name {i % 3}") for i in range(400))
    assert tab.js("box.scrollTop") == 500
    some = table(tab.run("page_extract", kind="table", limit=50))
    assert len(some.rows) == 50
    assert some.rows[49][0] == "50"


def test_a_virtual_grid_with_parts_and_numbers(open_tab: Open) -> None:
    tab = open_tab("/virtual-grid")
    rows = table(tab.run("page_extract", kind="table", target={"role": "gridcell", "name": "City 3"}))
    assert rows.columns == ("Id", "City", "Sum")
    assert rows.rows == tuple((f"#{i + 1}", f"City {i + 1}", str(i * 2)) for i in range(300))
    cut = table(tab.run("page_extract", kind="table", limit=20))
    assert (len(cut.rows), cut.total) == (20, 300)


def test_an_article_is_text_without_what_surrounds_it(open_tab: Open) -> None:
    reply = open_tab("/story").run("page_extract", kind="article")
    kinds = [row[0] for row in table(reply).rows]
    assert table(reply).columns == ("kind", "text")
    assert kinds.count("paragraph") == 24
    assert "heading 2" in kinds
    assert ("code", "keep   these\n  spaces") in table(reply).rows
    assert "- First thing" in reply.text
    for left_out in ("Buy our tea", "Imprint", "Nobody sees", "News"):
        assert left_out not in reply.text


def test_an_article_in_a_closed_shadow_root(open_tab: Open) -> None:
    reply = open_tab("/shadow-story").run("page_extract", kind="article")
    assert "Paragraph 12 of the story" in reply.text


def test_a_page_without_an_article_says_so(open_tab: Open) -> None:
    open_tab("/no-article").fails("page_extract", Code.NOT_FOUND, kind="article")


def test_main_only_leaves_out_what_surrounds(open_tab: Open) -> None:
    tab = open_tab("/around")
    whole = tab.run("page_extract", kind="text").text
    text = tab.run("page_extract", kind="text", main_only=True).text
    for part in ("We use cookies", "A page", "Imprint", "Logo", "Ads"):
        assert part in whole
        assert part not in text
    for part in ("# Opening", "The museum opens", "Of the holders", "Every holder"):
        assert part in text
    links = table(tab.run("page_extract", kind="links", main_only=True))
    assert [row[0] for row in links.rows] == ["plan"]
    text = open_tab("/around-main").run("page_extract", kind="text", main_only=True).text
    assert text.splitlines() == ["The content itself.", "One", "Two", "Three", "Four"]


def test_articles_are_what_their_readers_marked() -> None:
    found = scores(needed("readability"), SAMPLE)
    assert sum(found.values()) / len(found) >= GOAL_F1, found


def test_what_a_field_holds_is_given_to_the_letter_and_never_of_a_sensitive_one(open_tab: Open) -> None:
    tab = open_tab("/form")
    tab.js("document.querySelector('textarea').value = '  two\\n lines, and a blank: '")
    notes = {"role": "textbox", "name": "Notes"}
    reply = tab.run("page_extract", kind="text", target=notes)
    assert reply.text == "  two\n lines, and a blank: "
    assert table(reply).rows == (("  two\n lines, and a blank: ",),)
    tab.js("document.querySelector('textarea').value = ''")
    assert tab.run("page_extract", kind="text", target=notes).text == ""
    for name in ("Password", "Card number", "验证码"):
        error = tab.fails(
            "page_extract", Code.SENSITIVE_FIELD, kind="text", target={"role": "textbox", "name": name}
        )
        assert "4111" not in error.message
