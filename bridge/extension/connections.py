"""Who is connected, who may be, and who has to go: the registry of the extension's listener (design 9).

A *connection* is one socket, a number given by the shell. A *seat* is one browser as the rest of the bridge knows it:
a user's profile, or a private Chromium. A seat outlives its connection for GRACE_SECONDS, because a service worker
that is stopped and started again, or a short loss, must not cost a task its browser.

Invariants: at most MAX_UNAUTHENTICATED connections are in their handshake, the oldest gives way; a seat has at most
one connection, the newest wins; a seat is lost once, and a lost one never comes back (a later connection gets another
seat); a private pairing has one seat, counts only for the one extension it was made for, and ends all it has with it.
Failed guesses are counted per extension and pairing, so that a user's browser with an old token does not lock out a
private one with the same extension.

Pure: numbers, names and times in, effects out. It holds tokens and puts none into an effect or a repr.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

from ...protocol.errors import LocalMisuse
from ...protocol.frames import ExtensionInfo, ExtRefusal
from ...protocol.limits import MAX_UNAUTHENTICATED, MIN_TOKEN_CHARS

USER: Final = "user"  # the pairing of every browser a person paired
GRACE_SECONDS: Final = 6.0  # a reconnect after a loss takes up to 5 s (facts/chromium.md 3)
MAX_SEATS: Final = 32  # user profiles at once: half of what an ExtensionState frame holds
FREE_FAILURES: Final = 3  # typing mistakes
BACK_OFF_SECONDS: Final = 1.0  # after the first failure that counts, then doubled
MAX_BACK_OFF_SECONDS: Final = 30.0  # a corrected token has to wait no longer than that
FORGET_SECONDS: Final = 600.0  # failures older than this are forgiven
MAX_REMEMBERED: Final = 256  # throttle entries; the oldest goes first

_EXTENSION_ID: Final = re.compile(r"[a-p]{32}")


@dataclass(frozen=True, slots=True)
class Close:
    """Close this connection; `code`: say so first, None: cut it off."""

    connection: int
    code: ExtRefusal | None


@dataclass(frozen=True, slots=True)
class Seated:
    """This connection is seat `seat`'s from now on; `new`: the seat did not exist before."""

    connection: int
    seat: int
    pairing: str
    new: bool


@dataclass(frozen=True, slots=True)
class SeatLost:
    """This browser is gone for good."""

    seat: int


Effect = Close | Seated | SeatLost


@dataclass(frozen=True, slots=True)
class Identity:
    """What an authenticated extension is; `extension_id` from the Origin header, the rest from its hello."""

    extension_id: str
    version: str
    pairing: str
    profile: str


@dataclass(frozen=True, slots=True)
class _Pairing:
    token: str = field(repr=False)
    extension_id: str | None  # None: any that is allowed


@dataclass(slots=True)
class _Seat:
    identity: Identity
    connection: int | None
    since: float  # connected, or lost, at
    order: int  # rises with every connection


@dataclass(slots=True)
class _Failures:
    count: int
    latest: float


class Registry:
    """All connections, seats and pairings of one listener.

    `token`: the user pairing's ("" : nobody can pair as user). `allowed`: extension ids; empty: any.
    """

    def __init__(self, token: str, allowed: tuple[str, ...] = ()) -> None:
        self._allowed = frozenset(allowed)
        self._pairings: dict[str, _Pairing] = {}
        if token:
            self._add_pairing(USER, token, None)
        self._pending: OrderedDict[int, None] = OrderedDict()
        self._seats: dict[int, _Seat] = {}
        self._failures: OrderedDict[tuple[str, str], _Failures] = OrderedDict()
        self._numbers = 0
        self.refused = 0  # handshakes refused since start

    # ------------------------------------------------------------------ pairings

    def add_private(self, pairing: str, token: str, extension_id: str) -> None:
        """A private Chromium is going to connect as `pairing`, with this token and from this extension only."""
        if pairing in self._pairings:
            raise LocalMisuse("a pairing name is used once")
        self._add_pairing(pairing, token, extension_id)

    def remove_private(self, pairing: str) -> list[Effect]:
        """That Chromium is gone: its token is worth nothing and its seat is lost. Harmless if unknown."""
        if pairing == USER:
            raise LocalMisuse("the user's pairing is not a private one")
        self._pairings.pop(pairing, None)
        effects: list[Effect] = []
        for number, seat in list(self._seats.items()):
            if seat.identity.pairing == pairing:
                del self._seats[number]
                if seat.connection is not None:
                    effects.append(Close(seat.connection, None))
                effects.append(SeatLost(number))
        return effects

    def token_for(self, pairing: str, extension_id: str) -> str | None:
        """The token that a connection from `extension_id` has to prove for `pairing`; None: there is none."""
        known = self._pairings.get(pairing)
        if known is None or known.extension_id not in (None, extension_id):
            return None
        return known.token

    def allows(self, extension_id: str) -> bool:
        """Whether this extension may try at all: a well-formed id, on the allow-list if there is one.

        A private pairing's own extension may always: the list is about the user's browser.
        """
        if _EXTENSION_ID.fullmatch(extension_id) is None:
            return False
        private = any(pairing.extension_id == extension_id for pairing in self._pairings.values())
        return not self._allowed or extension_id in self._allowed or private

    # ------------------------------------------------------------------ connections

    def opened(self, connection: int) -> list[Effect]:
        """A connection was accepted; it is in its handshake."""
        self._pending[connection] = None
        if len(self._pending) <= MAX_UNAUTHENTICATED:
            return []
        oldest, _ = self._pending.popitem(last=False)
        self.refused += 1
        return [Close(oldest, None)]

    def throttled(self, extension_id: str, pairing: str, now: float) -> bool:
        """Whether this extension has guessed wrongly so often that it has to wait."""
        failures = self._failures.get(self._key(extension_id, pairing))
        if failures is None or failures.count <= FREE_FAILURES:
            return False
        # The exponent is bounded before the power: a count of thousands must not become a huge float.
        doubled = min(failures.count - FREE_FAILURES - 1, 10)
        return now - failures.latest < min(BACK_OFF_SECONDS * 2.0**doubled, MAX_BACK_OFF_SECONDS)

    def failed(self, extension_id: str, pairing: str, now: float) -> None:
        """A guess failed. `pairing` "" if the connection named none."""
        key = self._key(extension_id, pairing)
        known = self._failures.pop(key, None)
        count = known.count if known is not None and now - known.latest < FORGET_SECONDS else 0
        self._failures[key] = _Failures(count + 1, now)
        if len(self._failures) > MAX_REMEMBERED:
            self._failures.popitem(last=False)

    def authenticated(self, connection: int, identity: Identity, now: float) -> list[Effect]:
        """The connection has proved its token.

        It takes the seat of its browser, whose older connection has to go, or a new one. With MAX_SEATS profiles seated
        it is closed: THROTTLED, it may try again later. A connection that was told to go meanwhile gets nothing, as does
        one whose private pairing has ended since its hello.
        """
        if connection not in self._pending:
            return []
        if identity.pairing not in self._pairings:
            return [Close(connection, ExtRefusal.NOT_PAIRED)]
        seat_number = self._find(identity)
        if seat_number is None and len(self._seats) >= MAX_SEATS:
            return [Close(connection, ExtRefusal.THROTTLED)]
        del self._pending[connection]
        self._failures.pop(self._key(identity.extension_id, identity.pairing), None)
        self._numbers += 1
        if seat_number is None:
            self._seats[self._numbers] = _Seat(identity, connection, now, self._numbers)
            return [Seated(connection, self._numbers, identity.pairing, new=True)]
        older = self._seats[seat_number].connection
        self._seats[seat_number] = _Seat(identity, connection, now, self._numbers)
        replaced: list[Effect] = [] if older is None else [Close(older, ExtRefusal.REPLACED)]
        return [*replaced, Seated(connection, seat_number, identity.pairing, new=False)]

    def closed(self, connection: int, now: float) -> int | None:
        """A connection has ended. The seat that is without one now, if it was that seat's newest."""
        self._pending.pop(connection, None)
        for number, seat in self._seats.items():
            if seat.connection == connection:
                seat.connection = None
                seat.since = now
                return number
        return None

    def expire(self, now: float) -> list[Effect]:
        """Seats whose grace is over."""
        gone = [
            number
            for number, seat in self._seats.items()
            if seat.connection is None and now - seat.since >= GRACE_SECONDS
        ]
        for number in gone:
            del self._seats[number]
        return [SeatLost(number) for number in gone]

    # ------------------------------------------------------------------ views

    def user_seat(self) -> int | None:
        """The user's most recently connected browser; one that is being waited for only if no other is there."""
        mine = [(seat.connection is not None, seat.order, number) for number, seat in self._seats.items()
                if seat.identity.pairing == USER]  # fmt: skip
        return max(mine)[2] if mine else None

    def infos(self, now: float) -> tuple[ExtensionInfo, ...]:
        """Every connected extension, the newest first. `now` in monotonic seconds."""
        connected = [seat for seat in self._seats.values() if seat.connection is not None]
        connected.sort(key=lambda seat: -seat.order)
        return tuple(
            ExtensionInfo(
                extension_id=seat.identity.extension_id,
                version=seat.identity.version,
                private=seat.identity.pairing != USER,
                connected_ms=max(0, round((now - seat.since) * 1000)),
            )
            for seat in connected
        )

    # ------------------------------------------------------------------ parts

    def _add_pairing(self, name: str, token: str, extension_id: str | None) -> None:
        if len(token) < MIN_TOKEN_CHARS:
            raise LocalMisuse(f"a token has {MIN_TOKEN_CHARS} characters at least")
        self._pairings[name] = _Pairing(token, extension_id)

    def _key(self, extension_id: str, pairing: str) -> tuple[str, str]:
        # Unknown names share one entry, or each invented name would be a fresh start.
        return extension_id, pairing if pairing in self._pairings else ""

    def _find(self, identity: Identity) -> int | None:
        for number, seat in self._seats.items():
            same = seat.identity.pairing == identity.pairing
            # A private Chromium has one seat; of the user's browsers each installation has its own.
            if same and (
                identity.pairing != USER
                or (seat.identity.profile, seat.identity.extension_id)
                == (identity.profile, identity.extension_id)
            ):
                return number
        return None
