"""Rows and text as bytes (bridge/render.py); CSV by RFC 4180."""

from __future__ import annotations

import csv
import io
import json

import pytest
from browsercell.bridge.render import (
    article_parts,
    preview_rows,
    preview_text,
    render_article,
    render_rows,
    render_text,
    unique_columns,
)
from browsercell.protocol.frames import Rows
from browsercell.protocol.tools import ArtifactFormat

ROWS = Rows(
    ("Title", "", "Title"),
    (('Ulysses, a "novel"', "12\n13", "x|y"), ("=1+1",), ("a", "b", "c", "d")),
    3,
)


def test_columns_get_names_of_their_own() -> None:
    assert unique_columns(ROWS) == ("Title", "column_2", "Title_2", "column_4")
    assert unique_columns(Rows((), (), 0)) == ()
    assert unique_columns(Rows(("a", "a_2", "a"), (), 0)) == ("a", "a_2", "a_3")


def test_csv_reads_back_as_it_was_but_for_formulas() -> None:
    data = render_rows(ROWS, ArtifactFormat.CSV)
    assert data.startswith(b"Title,column_2,Title_2,column_4\r\n")
    back = list(csv.reader(io.StringIO(data.decode(), newline="")))
    assert back[1:] == [
        ['Ulysses, a "novel"', "12\n13", "x|y", ""],
        ["'=1+1", "", "", ""],
        ["a", "b", "c", "d"],
    ]


@pytest.mark.parametrize(
    "cell", ["=1+1", "+cmd|' /C calc'!A0", "-1+1", "@SUM(A1)", "\t=1", "\r=1", "-", "+49 30 1234"]
)
def test_csv_holds_no_formula_of_a_page(cell: str) -> None:
    for data in (
        render_rows(Rows(("n", cell), (("a", cell),), 1), ArtifactFormat.CSV),
        render_text("first", ArtifactFormat.CSV)
        + render_rows(Rows((), ((cell, cell),), 1), ArtifactFormat.CSV),
    ):
        cells = [each for line in csv.reader(io.StringIO(data.decode(), newline="")) for each in line]
        assert not [each for each in cells if each[:1] in tuple("=+-@\t\r")]
        assert "'" + cell in cells


@pytest.mark.parametrize("cell", ["-5", "+1,234.50", "-.5", "-1.5e-3", "-3%", "5", "a=b", "", "'x"])
def test_csv_leaves_numbers_and_text_alone(cell: str) -> None:
    data = render_rows(Rows(("n",), ((cell,),), 1), ArtifactFormat.CSV)
    assert [*csv.reader(io.StringIO(data.decode(), newline=""))][1:] == [[cell]]


def test_only_csv_escapes_formulas() -> None:
    rows = Rows(("n",), (("=1+1",),), 1)
    assert json.loads(render_rows(rows, ArtifactFormat.JSON)) == [{"n": "=1+1"}]
    assert "| =1+1 |" in render_rows(rows, ArtifactFormat.MARKDOWN).decode()
    assert "| =1+1 |" in preview_rows(rows)
    assert render_text("=1", ArtifactFormat.CSV) == b"text\r\n'=1\r\n"
    assert render_text("=1", ArtifactFormat.MARKDOWN) == b"=1"


ARTICLE = Rows(
    ("kind", "text"),
    (
        ("title", "A  story"),
        ("byline", "Ann"),
        ("published", "2020-02-02"),
        ("heading 2", "Later\non"),
        ("paragraph", "One."),
        ("item", "first\nstill"),
        ("item", "second"),
        ("quote", "said\nshe"),
        ("code", "a  b"),
        ("row", "x | y"),
        ("title", "a second one is none"),
        (),
    ),
    12,
)


def test_an_article_reads_as_one() -> None:
    body = "## Later on\n\nOne.\n\n- first\n  still\n- second\n\n> said\n> she\n\n```\na  b\n```\n\nx | y\n\n"
    facts, text = article_parts(ARTICLE)
    assert facts == {"title": "A story", "byline": "Ann", "published": "2020-02-02"}
    assert text == body
    whole = render_article(ARTICLE, ArtifactFormat.MARKDOWN).decode()
    assert whole == f"# A story\n\nAnn · 2020-02-02\n\n{body}\n"
    assert json.loads(render_article(ARTICLE, ArtifactFormat.JSON)) == {**facts, "text": body}
    assert render_article(ARTICLE, ArtifactFormat.CSV).startswith(b"kind,text\r\ntitle,A  story\r\n")
    bare = Rows(("kind", "text"), (("paragraph", "One."),), 1)
    assert render_article(bare, ArtifactFormat.MARKDOWN) == b"One.\n"


def test_json_is_a_list_of_objects() -> None:
    back = json.loads(render_rows(ROWS, ArtifactFormat.JSON))
    assert back[2] == {"Title": "a", "column_2": "b", "Title_2": "c", "column_4": "d"}
    assert len(back) == 3


def test_markdown_is_a_table_of_whole_lines() -> None:
    lines = render_rows(ROWS, ArtifactFormat.MARKDOWN).decode().splitlines()
    assert lines[0] == "| Title | column_2 | Title_2 | column_4 |"
    assert lines[1] == "| --- | --- | --- | --- |"
    assert lines[2] == '| Ulysses, a "novel" | 12 13 | x\\|y |  |'
    assert render_rows(Rows((), (), 0), ArtifactFormat.MARKDOWN) == b"\n"


def test_text() -> None:
    assert render_text("a\nü", ArtifactFormat.MARKDOWN) == "a\nü".encode()
    assert json.loads(render_text("a\nü", ArtifactFormat.JSON)) == {"text": "a\nü"}
    assert render_text("a\nb,c", ArtifactFormat.CSV) == b'text\r\na\r\n"b,c"\r\n'


def test_previews_end_at_whole_lines_within_their_bound() -> None:
    rows = Rows(("n",), tuple((str(number),) for number in range(100)), 100)
    preview = preview_rows(rows, 60)
    assert len(preview) <= 60
    assert preview.splitlines()[-1] == "| 6 |"
    assert preview_rows(rows).splitlines()[-1] == "| 99 |"
    assert preview_text("short") == "short"
    assert preview_text("first\nsecond", 8) == "first"
    assert preview_text("abcdefgh", 4) == "abcd"
