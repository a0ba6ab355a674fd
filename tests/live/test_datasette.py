"""Datasette, a page nobody here wrote: export 50 rows, sort by a heading, page on; compared with its database."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import pytest
from browsercell.protocol.client import Client
from browsercell.protocol.results import DeliveryStatus, SideEffects, Status

from tests.support.apps.datasette_app import COLUMNS, PAGE, ROWS, Datasette, datasette
from tests.support.live import click, done, expect, navigate, observe, said, table_to, wanted


@pytest.fixture(scope="module")
def stations(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Datasette]:
    with datasette(tmp_path_factory.mktemp("datasette")) as running:
        yield running


def rows_of(path: Path) -> tuple[list[str], list[list[str]]]:
    """Headings without the sort mark, and the rows."""
    with path.open(newline="", encoding="utf-8") as stream:
        head, *rows = csv.reader(stream)
    return [name.split()[0] for name in head], rows


def test_a_page_of_the_table_is_exported_whole(host: Client, stations: Datasette, outbox: Path) -> None:
    result = host.delegate(
        "Export the first page of stations",
        browser="private",
        deliverables=[wanted("stations", "stations.csv")],
        playbook=[
            navigate("${table}"),
            observe(),
            expect(text=f"{ROWS:,} rows"),
            table_to("stations"),
            done(),
        ],
        variables={"table": stations.url},
    )
    assert result.status is Status.COMPLETED, said(result)
    assert result.delivery_status is DeliveryStatus.COMPLETED
    head, rows = rows_of(outbox / "stations.csv")
    assert head == list(COLUMNS)
    assert len(rows) == PAGE
    assert rows == stations.stations("id")


def test_sorting_by_a_heading_and_paging_on(host: Client, stations: Datasette, outbox: Path) -> None:
    result = host.delegate(
        "Sort by height, highest first, and export the first two pages",
        browser="private",
        deliverables=[wanted("first", "first.csv"), wanted("second", "second.csv")],
        playbook=[
            navigate("${table}"),
            click("link", "height"),
            expect(url="_sort=height"),
            click("link", "height ▼"),
            expect(url="_sort_desc=height"),
            table_to("first"),
            click("link", "Next page"),
            expect(url="_next="),
            table_to("second"),
            done(),
        ],
        variables={"table": stations.url},
    )
    assert result.status is Status.COMPLETED, said(result)
    assert rows_of(outbox / "first.csv")[1] == stations.stations("height desc")
    assert rows_of(outbox / "second.csv")[1] == stations.stations("height desc", offset=PAGE)
    assert result.side_effects is not SideEffects.NONE


def test_a_missing_heading_ends_blocked_and_says_which_step(host: Client, stations: Datasette) -> None:
    result = host.delegate(
        "Sort by a column that is not there",
        browser="private",
        playbook=[navigate("${table}"), click("link", "depth"), done()],
        variables={"table": stations.url},
    )
    assert result.status is Status.BLOCKED, said(result)
    assert "Step 2" in result.summary
    assert "not-found" in result.summary
