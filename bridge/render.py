"""Rows and text into the bytes of an artifact, and into the short preview a worker gets.

CSV by RFC 4180 (CRLF, quotes where needed), JSON as an array of objects, Markdown as a pipe table; UTF-8, no byte
order mark. Values are kept as the page shows them, with one exception: a page must not get a formula into a
spreadsheet, so a CSV cell that one would run (it begins with `=`, `+`, `-`, `@`, tab or carriage return, and is no plain
number) gets a single quote in front. JSON and Markdown hold the cell unchanged.

Invariants: every row has as many cells as there are columns (short rows are filled, long ones get columns of their
own); column names in JSON are unique; a preview is at most `max_chars` characters and ends at a whole line.

Pure: bytes out, no file.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from typing import Final

import msgspec

from ..protocol.frames import Rows
from ..protocol.tools import ArtifactFormat

MEDIA_TYPES: Final = {
    ArtifactFormat.CSV: "text/csv",
    ArtifactFormat.JSON: "application/json",
    ArtifactFormat.MARKDOWN: "text/markdown",
}
PNG: Final = "image/png"
_FORMULA: Final = (
    "=",
    "+",
    "-",
    "@",
    "\t",
    "\r",
)  # what spreadsheets take for the beginning of one (OWASP, CSV injection)
_NUMBER: Final = re.compile(
    r"[+-](?:[0-9]+(?:[.,][0-9]+)*|[.,][0-9]+)(?:[eE][+-]?[0-9]+)?%?"
)  # -5, +1,234.50, -.5e3, -3%
ARTICLE_FACTS: Final = (
    "title",
    "byline",
    "site",
    "published",
    "language",
)  # kinds that are no part of the text
_TIGHT: Final = frozenset({"item", "row"})  # a run of these stands without empty lines
PREVIEW_CHARS: Final = 2_000  # what a worker sees of an artifact: enough to check columns and order


def unique_columns(rows: Rows) -> tuple[str, ...]:
    """A name for every cell: the page's, `column_3` for an empty one, `Name_2` for a repeated one."""
    width = max([len(rows.columns), *(len(row) for row in rows.rows)], default=0)
    names: list[str] = []
    taken: set[str] = set()
    for index in range(width):
        name = " ".join(rows.columns[index].split()) if index < len(rows.columns) else ""
        name = name or f"column_{index + 1}"
        candidate, number = name, 2
        while candidate in taken:
            candidate, number = f"{name}_{number}", number + 1
        taken.add(candidate)
        names.append(candidate)
    return tuple(names)


def render_rows(rows: Rows, form: ArtifactFormat) -> bytes:
    """The whole table, list or link list in `form`."""
    columns = unique_columns(rows)
    filled = [_fill(row, len(columns)) for row in rows.rows]
    if form is ArtifactFormat.JSON:
        return _json([dict(zip(columns, row, strict=True)) for row in filled])
    if form is ArtifactFormat.CSV:
        return _csv([columns, *filled])
    return ("\n".join(_markdown_lines(columns, filled)) + "\n").encode("utf-8", "replace")


def render_text(text: str, form: ArtifactFormat) -> bytes:
    """Plain text in `form`: as it is in Markdown, one object in JSON, one line a row in CSV."""
    if form is ArtifactFormat.JSON:
        return _json({"text": text})
    if form is ArtifactFormat.CSV:
        return _csv([("text",), *((line,) for line in text.splitlines())])
    return text.encode("utf-8", "replace")


def render_article(rows: Rows, form: ArtifactFormat) -> bytes:
    """An article in `form`: its rows are pairs of kind and text, facts about it first, then its blocks in order.

    Markdown is the article as one reads it; JSON an object of its facts and its text; CSV the pairs.
    """
    if form is ArtifactFormat.CSV:
        return render_rows(rows, form)
    facts, body = article_parts(rows)
    if form is ArtifactFormat.JSON:
        return _json({**facts, "text": body})
    head = [f"# {facts['title']}"] if "title" in facts else []
    about = " · ".join(facts[name] for name in ("byline", "site", "published") if name in facts)
    return ("\n\n".join([*head, *([about] if about else []), body]) + "\n").encode("utf-8", "replace")


def article_parts(rows: Rows) -> tuple[dict[str, str], str]:
    """The facts about an article by name, and its text in Markdown."""
    facts: dict[str, str] = {}
    text = ""
    before = ""
    for row in rows.rows:
        kind, said = (*row, "", "")[:2]
        if kind in ARTICLE_FACTS:
            facts.setdefault(kind, " ".join(said.split()))
            continue
        gap = "" if not text else "\n" if kind == before and kind in _TIGHT else "\n\n"
        text += gap + _block(kind, said)
        before = kind
    return facts, text


def _block(kind: str, said: str) -> str:
    name, _, level = kind.partition(" ")
    if name == "heading" and level in "123456":
        return f"{'#' * int(level or 1)} {' '.join(said.split())}"
    if kind == "code":
        return f"```\n{said}\n```"
    mark = {"item": "- ", "quote": "> "}.get(kind, "")
    return mark + said.replace("\n", "\n" + ("> " if mark == "> " else " " * len(mark)))


def preview_rows(rows: Rows, max_chars: int = PREVIEW_CHARS) -> str:
    """The first rows as a Markdown table, as many whole lines as fit."""
    columns = unique_columns(rows)
    taken: list[str] = []
    size = 0
    for line in _markdown_lines(columns, [_fill(row, len(columns)) for row in rows.rows]):
        size += len(line) + 1
        if size > max_chars:
            break
        taken.append(line)
    return "\n".join(taken)


def preview_text(text: str, max_chars: int = PREVIEW_CHARS) -> str:
    """The beginning of a text, cut at a line's end where there is one."""
    if len(text) <= max_chars:
        return text
    cut = text[:max_chars]
    return cut[: cut.rfind("\n")] if "\n" in cut else cut


def _fill(row: Sequence[str], width: int) -> tuple[str, ...]:
    return (*row, *([""] * (width - len(row))))


def _json(value: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n"


def _csv(lines: Sequence[Sequence[str]]) -> bytes:
    out = io.StringIO(newline="")
    csv.writer(out, lineterminator="\r\n").writerows([_harmless(cell) for cell in line] for line in lines)
    return out.getvalue().encode("utf-8", "replace")


def _harmless(cell: str) -> str:
    return f"'{cell}" if cell.startswith(_FORMULA) and _NUMBER.fullmatch(cell) is None else cell


def _markdown_lines(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    head = [_markdown_line(columns), "|" + " --- |" * len(columns)] if columns else []
    return [*head, *(_markdown_line(row) for row in rows)]


def _markdown_line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells) + " |"
