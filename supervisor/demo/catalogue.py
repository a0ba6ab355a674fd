"""The bookshop's catalogue: 240 invented books, the same in every run.

Pure: titles, authors, prices, stock and years come from word lists and arithmetic on the book's number, so that a test
knows each row without asking the server. Titles are unique. No title or author is meant to be a real one.

It keeps no baskets and no orders; stock never changes.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

BOOK_COUNT: Final = 240  # 24 pages of results: enough to page through, small enough to read in a failing test

_ADJECTIVES: Final = (
    "Amber", "Borrowed", "Crooked", "Distant", "Early", "Folded", "Gentle", "Hidden", "Idle", "Jagged",
    "Kindled", "Little", "Mended", "Narrow", "Open", "Patient", "Quiet", "Restless", "Salted", "Tidal",
)  # fmt: skip
_NOUNS: Final = (
    "Lantern", "Harbour", "Orchard", "Compass", "Teapot", "Meadow", "Staircase", "Ledger", "Lighthouse", "Garden",
    "Kettle", "Archive",
)  # fmt: skip
_ENDINGS: Final = ("", " Road", " Almanac", " and Other Stories", " at Dusk")
_FIRST_NAMES: Final = (
    "Ada", "Bruno", "Celia", "Dario", "Edda", "Farid", "Greta", "Hanno", "Ines", "Jonas", "Kaia", "Lior", "Mira",
)  # fmt: skip
_LAST_NAMES: Final = (
    "Ashdown", "Birkfeld", "Calloway", "Dunmere", "Eastlake", "Fenwright", "Goldhurst", "Hollis", "Ivarsen",
    "Jessop", "Kestrel",
)  # fmt: skip

# Steps through a range that share no factor with it visit every value: columns look unsorted and stay reproducible.
_PRICE_STEP, _PRICE_SPAN, _PRICE_FLOOR = 377, 3499, 499  # cents: 4.99 to 39.97
_YEAR_STEP, _YEAR_SPAN, _YEAR_FLOOR = 17, 71, 1954
_STOCK_STEP, _STOCK_SPAN, _STOCK_FIRST = 7, 23, 5  # ten or so are out of stock, the first is not


class Column(enum.StrEnum):
    """What the catalogue can be sorted by."""

    TITLE = "title"
    AUTHOR = "author"
    YEAR = "year"
    STOCK = "stock"
    PRICE = "price"


@dataclass(frozen=True, slots=True)
class Book:
    """One book. `number` is 1 to 240 and its address is `/book/<number>`; `cents` is the price, `stock` in copies."""

    number: int
    title: str
    author: str
    year: int
    stock: int
    cents: int

    @property
    def price(self) -> str:
        """The price as it is shown, without a currency sign: `12.95`."""
        return f"{self.cents // 100}.{self.cents % 100:02d}"


def _book(index: int) -> Book:
    adjective = _ADJECTIVES[index % len(_ADJECTIVES)]
    noun = _NOUNS[(index // len(_ADJECTIVES)) % len(_NOUNS)]
    ending = _ENDINGS[(index * 3 + index // len(_ADJECTIVES)) % len(_ENDINGS)]
    first = _FIRST_NAMES[index % len(_FIRST_NAMES)]
    last = _LAST_NAMES[(index * 4) % len(_LAST_NAMES)]
    return Book(
        number=index + 1,
        title=f"The {adjective} {noun}{ending}",
        author=f"{first} {last}",
        year=_YEAR_FLOOR + (index * _YEAR_STEP) % _YEAR_SPAN,
        stock=(_STOCK_FIRST + index * _STOCK_STEP) % _STOCK_SPAN,
        cents=_PRICE_FLOOR + (index * _PRICE_STEP) % _PRICE_SPAN,
    )


BOOKS: Final = tuple(_book(index) for index in range(BOOK_COUNT))


def book(number: int) -> Book | None:
    """Return the book with this number, or None."""
    return BOOKS[number - 1] if 1 <= number <= BOOK_COUNT else None


def search(query: str) -> tuple[Book, ...]:
    """Return the books whose title or author holds every word of `query`, in catalogue order; all for no words."""
    words = query.casefold().split()
    return tuple(
        one for one in BOOKS if all(word in f"{one.title} {one.author}".casefold() for word in words)
    )


def ordered(books: tuple[Book, ...], column: Column, *, descending: bool) -> tuple[Book, ...]:
    """Return `books` sorted by `column`; books that are equal in it stay in catalogue order, either way."""
    keys = {
        Column.TITLE: lambda one: one.title,
        Column.AUTHOR: lambda one: one.author,
        Column.YEAR: lambda one: one.year,
        Column.STOCK: lambda one: one.stock,
        Column.PRICE: lambda one: one.cents,
    }
    return tuple(sorted(books, key=keys[column], reverse=descending))
