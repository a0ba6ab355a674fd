"""The bookshop through every process: search and paging, sign-in, a list that never stands still, a hostile page."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from browsercell.protocol.client import Client
from browsercell.protocol.results import DeliveryStatus, SideEffects, Status
from browsercell.supervisor.demo import catalogue
from browsercell.supervisor.demo.server import TABLE_ROWS, Bookshop

from tests.support.live import (
    Live,
    click,
    done,
    expect,
    navigate,
    observe,
    said,
    table_to,
    target,
    tool,
    type_in,
    wanted,
)


def rows_of(path: Path) -> list[list[str]]:
    with path.open(newline="", encoding="utf-8") as stream:
        return list(csv.reader(stream))


def test_search_and_paging_reach_the_page_that_was_asked_for(host: Client, bookshop: Bookshop) -> None:
    result = host.delegate(
        "Search and page",
        browser="private",
        playbook=[
            navigate("${site}/"),
            type_in("searchbox", "Search", "the", submit=True),
            expect(text="page 1 of"),
            click("link", "Next"),
            expect(text="page 2 of"),
            click("link", "Page 3"),
            expect(text="page 3 of"),
            done("Third page reached"),
        ],
        variables={"site": bookshop.url},
    )
    assert result.status is Status.COMPLETED, said(result)
    assert result.current_url == f"{bookshop.url}/search?q=the&page=3"
    assert bookshop.counts.searches == 3
    assert result.side_effects is not SideEffects.NONE  # something was typed and clicked


def test_a_repeated_idempotency_key_is_no_second_run(host: Client, bookshop: Bookshop, live: Live) -> None:
    playbook = [
        navigate("${site}/"),
        type_in("searchbox", "Search", "the", submit=True),
        expect(text="page 1 of"),
        done(),
    ]
    asked: dict[str, Any] = {
        "browser": "private",
        "playbook": playbook,
        "variables": {"site": bookshop.url},
        "idempotency_key": "once",
    }
    before = bookshop.counts.searches
    first = host.delegate("Search", **asked)
    assert first.status is Status.COMPLETED, said(first)
    with live.client() as other:  # the host after it lost its connection: another session
        assert other.delegate("Search", **asked) == first
    assert bookshop.counts.searches == before + 1


def test_a_sorted_table_is_delivered_row_by_row(host: Client, bookshop: Bookshop, outbox: Path) -> None:
    result = host.delegate(
        "Export the prices, dearest last",
        browser="private",
        deliverables=[wanted("prices", "prices.csv")],
        playbook=[
            navigate("${site}/prices"),
            click("link", "Price"),
            expect(url="sort=price"),
            table_to("prices", "Prices"),
            done(),
        ],
        variables={"site": bookshop.url},
    )
    assert result.status is Status.COMPLETED, said(result)
    assert result.delivery_status is DeliveryStatus.COMPLETED
    head, *rows = rows_of(outbox / "prices.csv")
    assert [name.lower() for name in head] == [str(column) for column in catalogue.Column]
    books = catalogue.ordered(catalogue.BOOKS[:TABLE_ROWS], catalogue.Column.PRICE, descending=False)
    assert [(row[0], row[1], row[4]) for row in rows] == [
        (book.title, book.author, book.price) for book in books
    ]


def test_reading_alone_is_no_side_effect(host: Client, bookshop: Bookshop) -> None:
    result = host.delegate(
        "Look at the shop",
        url=f"{bookshop.url}/prices",
        browser="private",
        playbook=[observe(), observe("document"), tool("page_extract", kind="links"), done()],
    )
    assert result.status is Status.COMPLETED, said(result)
    assert result.side_effects is SideEffects.NONE


def test_sign_in_with_a_password_that_the_page_has_filled(host: Client, bookshop: Bookshop) -> None:
    result = host.delegate(
        "Sign in and read the orders",
        browser="private",
        playbook=[
            navigate("${site}/signin"),
            observe("interactive"),
            type_in("textbox", "Username", "robin"),
            click("button", "Sign in"),
            expect(text="Signed in as"),
            tool("page_extract", kind="table", target=target("table", "Orders")),
            done(),
        ],
        variables={"site": bookshop.url},
    )
    assert result.status is Status.COMPLETED, said(result)
    assert (bookshop.counts.sign_ins, bookshop.counts.refused_sign_ins) == (1, 0)


def test_a_password_field_refuses_to_be_typed_into(host: Client, bookshop: Bookshop, live: Live) -> None:
    result = host.delegate(
        "Overwrite the password",
        browser="private",
        playbook=[
            navigate("${site}/signin"),
            observe("document"),
            type_in("textbox", "Password", "something else"),
            done(),
        ],
        variables={"site": bookshop.url},
    )
    assert result.status is Status.BLOCKED, said(result)
    assert "sensitive-field" in result.summary
    assert bookshop.counts.sign_ins == bookshop.counts.refused_sign_ins == 0
    for path in (live.state / "logs").iterdir():
        assert bookshop.password.encode() not in path.read_bytes(), path.name


def test_exactly_the_named_item_of_a_moving_list_is_taken(host: Client, bookshop: Bookshop) -> None:
    book = catalogue.BOOKS[4]
    for mode in ("keyed", "replace"):
        result = host.delegate(
            "Reserve one book",
            browser="private",
            playbook=[
                navigate("${site}/live?mode=${mode}"),
                click("button", f"Reserve {book.title}"),
                expect(text=f"Reserved: {book.title}"),
                done(),
            ],
            variables={"site": bookshop.url, "mode": mode},
        )
        # In replace mode every element is made anew each 300 ms: a refusal is honest there, another book never.
        if mode == "keyed":
            assert result.status is Status.COMPLETED, said(result)
            assert bookshop.reservations() == {book.number: 1}
        assert set(bookshop.reservations()) == {book.number}
    assert bookshop.reservations()[book.number] <= 2


def test_a_reader_of_the_hostile_page_walks_into_no_trap(host: Client, bookshop: Bookshop) -> None:
    result = host.delegate(
        "Read the story",
        browser="private",
        playbook=[
            navigate("${site}/hostile"),
            observe("document"),
            observe("interactive"),
            tool("page_extract", kind="text"),
            tool("page_extract", kind="links"),
            tool("page_screenshot"),
            done("Read"),
        ],
        variables={"site": bookshop.url},
    )
    assert result.status is Status.COMPLETED, said(result)
    counts = bookshop.counts
    assert (counts.traps, counts.orders, counts.sign_ins, counts.basket_additions) == (0, 0, 0, 0)
    assert "carrier" not in result.summary + "".join(result.completed_actions)
