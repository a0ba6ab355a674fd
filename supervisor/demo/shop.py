"""The bookshop's state: sessions, baskets, orders, the marker's tokens, and a count of every side effect.

Invariants: one lock guards all of it, so every method may be called from any thread; sessions are bounded; the password
and the marker tokens are new in every shop and never part of an address; nothing that was typed is kept beyond the
session it belongs to.

It knows no HTTP and renders nothing.
"""

from __future__ import annotations

import os
import secrets
import threading
from dataclasses import asdict, dataclass, field, replace
from typing import Final

from . import catalogue, pages

_MAX_SESSIONS: Final = 1000  # a demo sees a handful; a loop of cookie-less requests can't fill memory
MAX_BASKET: Final = 50  # books in one basket

TOKEN_BYTES: Final = 24  # length of one marker token; 124 bits: none occurs anywhere by accident
_ALPHABET: Final = "abcdefghijklmnopqrstuvwxyz0123456789"
MARKER_CHARS: Final = 100_000  # default size of the marker page
MAX_MARKER_CHARS: Final = 1_000_000  # 40,000 tokens, made in a tenth of a second


@dataclass(frozen=True, slots=True)
class Counts:
    """Every side effect the server saw since it started."""

    searches: int = 0
    basket_additions: int = 0
    orders: int = 0
    books_ordered: int = 0
    sign_ins: int = 0
    refused_sign_ins: int = 0
    sign_outs: int = 0
    reservations: int = 0
    traps: int = 0  # visits to the address that only the hostile page's hidden text names
    marker_pages: int = 0


@dataclass(slots=True)
class Session:
    """One browser's state, found by its cookie."""

    name: str | None = None
    basket: list[catalogue.Book] = field(default_factory=list)
    orders: list[pages.Order] = field(default_factory=list)


# What every account begins with, so that its page has something to read.
EARLIER_ORDERS: Final = (
    pages.Order(1001, "4 March", (catalogue.BOOKS[11], catalogue.BOOKS[40])),
    pages.Order(1002, "19 April", (catalogue.BOOKS[77],)),
    pages.Order(1003, "2 June", (catalogue.BOOKS[120], catalogue.BOOKS[3], catalogue.BOOKS[205])),
)


class Shop:
    """One shop's state, and what can happen to it."""

    def __init__(self) -> None:
        # Made at once, so that a test can plant and look for it before the first request.
        self.password: Final = secrets.token_urlsafe(18)
        self._lock = threading.Lock()
        self._counts = Counts()
        self._reservations: dict[int, int] = {}
        self._sessions: dict[str, Session] = {}
        self._tokens: list[str] = []
        self._released = threading.Event()

    # ------------------------------------------------------------ truth

    @property
    def counts(self) -> Counts:
        """What was counted so far."""
        with self._lock:
            return self._counts

    def reservations(self) -> dict[int, int]:
        """How often each book of the live list was reserved: {number: times}, without zeros."""
        with self._lock:
            return dict(self._reservations)

    def marker_tokens(self, chars: int = MARKER_CHARS) -> tuple[str, ...]:
        """Return the tokens of `/marker?n=<chars>`: first the one in the title, then those of the text in order.

        The text is as many whole tokens, with one space between two, as fit into `chars` characters.
        """
        count = (chars + 1) // (TOKEN_BYTES + 1)
        with self._lock:
            while len(self._tokens) < count + 1:
                self._tokens.extend(_fresh_tokens(count + 1 - len(self._tokens)))
            return tuple(self._tokens[: count + 1])

    def release(self) -> None:
        """Let every page that is held (`/marker?hold=1`) say so: its visitor waits for the text "Released"."""
        self._released.set()

    def wait_for_release(self, seconds: float) -> bool:
        """Block until `release` or for `seconds`; whether it was released."""
        return self._released.wait(seconds)

    # ------------------------------------------------------------ changes

    def count(self, **more: int) -> None:
        with self._lock:
            now = asdict(self._counts)
            self._counts = replace(self._counts, **{name: now[name] + by for name, by in more.items()})

    def session(self, key: str | None) -> tuple[str, Session]:
        with self._lock:
            if key is not None and key in self._sessions:
                return key, self._sessions[key]
            if len(self._sessions) >= _MAX_SESSIONS:
                # The oldest goes: dictionaries keep the order of insertion.
                del self._sessions[next(iter(self._sessions))]
            fresh = secrets.token_urlsafe(18)
            self._sessions[fresh] = Session()
            return fresh, self._sessions[fresh]

    def reserve(self, number: int) -> int:
        with self._lock:
            self._reservations[number] = self._reservations.get(number, 0) + 1
            times = self._reservations[number]
        self.count(reservations=1)
        return times

    def order(self, session: Session) -> bool:
        """Turn the basket into an order; False if it is empty. The lock makes a double click one order."""
        with self._lock:
            books = tuple(session.basket)
            session.basket.clear()
            if books:
                session.orders.append(
                    pages.Order(EARLIER_ORDERS[-1].number + 1 + len(session.orders), "today", books)
                )
        if books:
            self.count(orders=1, books_ordered=len(books))
        return bool(books)


def _fresh_tokens(count: int) -> list[str]:
    """Return `count` random tokens. Two equal ones are less likely than a broken kernel."""
    # Bytes of 252 and more would favour the first letters: 252 is the largest multiple of 36 in a byte.
    letters: list[str] = []
    while len(letters) < count * TOKEN_BYTES:
        letters.extend(
            _ALPHABET[value % len(_ALPHABET)] for value in os.urandom(count * TOKEN_BYTES) if value < 252
        )
    text = "".join(letters)
    return [text[at : at + TOKEN_BYTES] for at in range(0, count * TOKEN_BYTES, TOKEN_BYTES)]
