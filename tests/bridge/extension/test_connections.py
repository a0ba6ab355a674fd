"""`connections`: who gives way, who replaces whom, who waits, and when a browser is lost (design 9)."""

from __future__ import annotations

import pytest
from browsercell.bridge.extension.connections import (
    FORGET_SECONDS,
    FREE_FAILURES,
    GRACE_SECONDS,
    MAX_BACK_OFF_SECONDS,
    MAX_REMEMBERED,
    MAX_SEATS,
    USER,
    Close,
    Identity,
    Registry,
    Seated,
    SeatLost,
)
from browsercell.protocol.errors import LocalMisuse
from browsercell.protocol.frames import ExtensionInfo, ExtRefusal
from browsercell.protocol.limits import MAX_UNAUTHENTICATED

TOKEN = "sixteen letters."
EXTENSION = "a" * 32
OTHER = "b" * 32


def identity(profile: str = "one", pairing: str = USER, extension: str = EXTENSION) -> Identity:
    return Identity(extension, "0.1.0", pairing, profile)


def join(registry: Registry, connection: int, who: Identity, now: float = 0.0) -> list[object]:
    registry.opened(connection)
    return list(registry.authenticated(connection, who, now))


# ---------------------------------------------------------------------- pairings


def test_the_user_token_is_for_any_extension() -> None:
    registry = Registry(TOKEN)
    assert registry.token_for(USER, EXTENSION) == TOKEN
    assert registry.token_for(USER, OTHER) == TOKEN
    assert registry.token_for("private-1", EXTENSION) is None


def test_without_a_token_nobody_pairs_as_user() -> None:
    assert Registry("").token_for(USER, EXTENSION) is None


def test_a_private_pairing_is_for_one_extension_and_ends() -> None:
    registry = Registry(TOKEN)
    registry.add_private("private-1", "p" * 16, EXTENSION)
    assert registry.token_for("private-1", EXTENSION) == "p" * 16
    assert registry.token_for("private-1", OTHER) is None
    with pytest.raises(LocalMisuse):
        registry.add_private("private-1", "q" * 16, EXTENSION)
    assert registry.remove_private("private-1") == []
    assert registry.token_for("private-1", EXTENSION) is None
    assert registry.remove_private("private-1") == []


def test_misuse() -> None:
    with pytest.raises(LocalMisuse):
        Registry("fifteen letters")
    with pytest.raises(LocalMisuse):
        Registry(TOKEN).remove_private(USER)


@pytest.mark.parametrize(
    ("allowed", "extension", "answer"),
    [
        ((), EXTENSION, True),
        ((EXTENSION,), EXTENSION, True),
        ((OTHER,), EXTENSION, False),
        ((), "a" * 31, False),
        ((), "a" * 33, False),
        ((), "q" * 32, False),
        ((), "A" * 32, False),
        ((), EXTENSION + "\n", False),
        ((), "", False),
    ],
)
def test_who_may_try(allowed: tuple[str, ...], extension: str, answer: bool) -> None:
    assert Registry(TOKEN, allowed).allows(extension) is answer


def test_a_private_browsers_own_extension_may_always_try() -> None:
    registry = Registry(TOKEN, (OTHER,))
    registry.add_private("private-1", "p" * 16, EXTENSION)
    assert registry.allows(EXTENSION)
    registry.remove_private("private-1")
    assert not registry.allows(EXTENSION)


def test_no_repr_shows_a_token() -> None:
    registry = Registry(TOKEN)
    assert TOKEN not in repr(registry._pairings)


# ---------------------------------------------------------------------- connections


def test_the_oldest_unauthenticated_gives_way() -> None:
    registry = Registry(TOKEN)
    for number in range(MAX_UNAUTHENTICATED):
        assert registry.opened(number) == []
    assert registry.opened(100) == [Close(0, None)]
    assert registry.opened(101) == [Close(1, None)]
    assert registry.refused == 2
    assert registry.authenticated(0, identity(), 0.0) == []  # its proof crossed the decision


def test_authenticated_and_closed_ones_do_not_count() -> None:
    registry = Registry(TOKEN)
    join(registry, 1, identity())
    registry.opened(2)
    assert registry.closed(2, 0.0) is None
    for number in range(10, 10 + MAX_UNAUTHENTICATED):
        assert registry.opened(number) == []


def test_a_newer_connection_of_the_same_browser_replaces_the_older() -> None:
    registry = Registry(TOKEN)
    assert join(registry, 1, identity()) == [Seated(1, 1, USER, new=True)]
    assert join(registry, 2, identity(), 5.0) == [
        Close(1, ExtRefusal.REPLACED),
        Seated(2, 1, USER, new=False),
    ]
    assert registry.closed(1, 6.0) is None  # the seat is the newer one's
    assert registry.closed(2, 7.0) == 1


def test_two_profiles_are_two_browsers_and_the_newest_is_used() -> None:
    registry = Registry(TOKEN)
    assert registry.user_seat() is None
    join(registry, 1, identity("one"))
    join(registry, 2, identity("two"))
    assert registry.user_seat() == 2
    join(registry, 3, identity("one"))
    assert registry.user_seat() == 1
    registry.closed(3, 0.0)
    assert registry.user_seat() == 2  # a connected one before one that may come back
    registry.closed(2, 0.0)
    assert registry.user_seat() == 1


def test_the_same_profile_name_of_another_extension_is_another_browser() -> None:
    registry = Registry(TOKEN)
    join(registry, 1, identity())
    assert join(registry, 2, identity(extension=OTHER)) == [Seated(2, 2, USER, new=True)]


def test_a_private_pairing_has_one_seat_whatever_the_profile() -> None:
    registry = Registry(TOKEN)
    registry.add_private("private-1", "p" * 16, EXTENSION)
    assert join(registry, 1, identity("one", "private-1")) == [Seated(1, 1, "private-1", new=True)]
    assert join(registry, 2, identity("two", "private-1")) == [
        Close(1, ExtRefusal.REPLACED),
        Seated(2, 1, "private-1", new=False),
    ]
    assert registry.user_seat() is None
    assert registry.remove_private("private-1") == [Close(2, None), SeatLost(1)]
    assert registry.expire(1e9) == []


def test_removing_a_private_pairing_without_a_connection_loses_its_seat_only() -> None:
    registry = Registry(TOKEN)
    registry.add_private("private-1", "p" * 16, EXTENSION)
    join(registry, 1, identity("one"))
    join(registry, 2, identity("one", "private-1"))
    registry.closed(2, 0.0)
    assert registry.remove_private("private-1") == [SeatLost(2)]
    assert registry.user_seat() == 1


def test_a_pairing_that_ended_during_the_handshake_gets_no_seat() -> None:
    registry = Registry(TOKEN)
    registry.add_private("private-1", "p" * 16, EXTENSION)
    registry.opened(1)
    registry.remove_private("private-1")
    assert registry.authenticated(1, identity("one", "private-1"), 0.0) == [Close(1, ExtRefusal.NOT_PAIRED)]


def test_seats_are_bounded() -> None:
    registry = Registry(TOKEN)
    for number in range(MAX_SEATS):
        join(registry, number, identity(f"profile-{number}"))
    assert join(registry, 900, identity("one-more")) == [Close(900, ExtRefusal.THROTTLED)]
    assert join(registry, 901, identity("profile-0"))[0] == Close(0, ExtRefusal.REPLACED)


def test_a_seat_is_lost_after_its_grace_and_never_comes_back() -> None:
    registry = Registry(TOKEN)
    join(registry, 1, identity(), 10.0)
    registry.closed(1, 20.0)
    assert registry.expire(20.0 + GRACE_SECONDS - 0.01) == []
    assert registry.expire(20.0 + GRACE_SECONDS) == [SeatLost(1)]
    assert registry.expire(1e9) == []
    assert join(registry, 2, identity(), 50.0) == [Seated(2, 2, USER, new=True)]


def test_a_reconnect_within_the_grace_keeps_the_seat() -> None:
    registry = Registry(TOKEN)
    join(registry, 1, identity(), 10.0)
    registry.closed(1, 20.0)
    assert join(registry, 2, identity(), 21.0) == [Seated(2, 1, USER, new=False)]
    assert registry.expire(1e9) == []


def test_infos_names_the_connected_newest_first() -> None:
    registry = Registry(TOKEN)
    registry.add_private("private-1", "p" * 16, EXTENSION)
    join(registry, 1, identity("one"), 1.0)
    join(registry, 2, identity("x", "private-1"), 2.0)
    join(registry, 3, identity("gone"), 2.5)
    registry.closed(3, 2.6)
    assert registry.infos(3.0) == (
        ExtensionInfo(extension_id=EXTENSION, version="0.1.0", private=True, connected_ms=1000),
        ExtensionInfo(extension_id=EXTENSION, version="0.1.0", private=False, connected_ms=2000),
    )
    assert registry.infos(0.0)[0].connected_ms == 0


# ---------------------------------------------------------------------- throttle


def fail(registry: Registry, times: int, pairing: str = USER, now: float = 0.0) -> None:
    for _ in range(times):
        registry.failed(EXTENSION, pairing, now)


def test_the_first_failures_are_free() -> None:
    registry = Registry(TOKEN)
    assert not registry.throttled(EXTENSION, USER, 0.0)
    fail(registry, FREE_FAILURES)
    assert not registry.throttled(EXTENSION, USER, 0.0)


@pytest.mark.parametrize(
    ("failures", "wait"),
    [(1, 1.0), (2, 2.0), (3, 4.0), (6, MAX_BACK_OFF_SECONDS), (5000, MAX_BACK_OFF_SECONDS)],
)
def test_then_the_wait_doubles_up_to_its_ceiling(failures: int, wait: float) -> None:
    registry = Registry(TOKEN)
    fail(registry, FREE_FAILURES + failures)
    assert registry.throttled(EXTENSION, USER, wait - 0.01)
    assert not registry.throttled(EXTENSION, USER, wait)


def test_success_and_time_forgive() -> None:
    registry = Registry(TOKEN)
    fail(registry, FREE_FAILURES + 1)
    join(registry, 1, identity(), 5.0)
    fail(registry, 1, now=5.0)
    assert not registry.throttled(EXTENSION, USER, 5.0)
    fail(registry, FREE_FAILURES + 1, now=6.0)
    assert registry.throttled(EXTENSION, USER, 6.0)
    registry.failed(EXTENSION, USER, 6.0 + FORGET_SECONDS)
    assert not registry.throttled(EXTENSION, USER, 6.0 + FORGET_SECONDS)


def test_a_users_old_token_does_not_lock_a_private_browser_out() -> None:
    registry = Registry(TOKEN)
    registry.add_private("private-1", "p" * 16, EXTENSION)
    fail(registry, 10)
    assert registry.throttled(EXTENSION, USER, 0.0)
    assert not registry.throttled(EXTENSION, "private-1", 0.0)
    assert not registry.throttled(OTHER, USER, 0.0)


def test_invented_pairings_share_one_count() -> None:
    registry = Registry(TOKEN)
    for number in range(FREE_FAILURES + 1):
        registry.failed(EXTENSION, f"invented-{number}", 0.0)
    assert registry.throttled(EXTENSION, "another", 0.0)
    assert registry.throttled(EXTENSION, "", 0.0)


def test_the_memory_of_failures_is_bounded() -> None:
    registry = Registry(TOKEN)
    fail(registry, FREE_FAILURES + 1)
    letters = "abcdefghijklmnop"
    for number in range(MAX_REMEMBERED):
        registry.failed(letters[number // 16] + letters[number % 16] + "c" * 30, USER, 0.0)
    assert len(registry._failures) == MAX_REMEMBERED
    assert not registry.throttled(EXTENSION, USER, 0.0)
