"""credit: bytes in flight never exceed the window, whatever the order of events."""

from __future__ import annotations

import pytest
from browsercell.protocol.credit import ReceiverCredit, SenderCredit
from browsercell.protocol.errors import Backpressure, FrameTooLarge, LocalMisuse, PeerViolation
from hypothesis import given
from hypothesis import strategies as st


def test_sender_takes_until_the_window_is_used() -> None:
    credit = SenderCredit(100)
    credit.take(60)
    with pytest.raises(Backpressure):
        credit.take(41)
    credit.take(40)
    assert (credit.in_flight, credit.available) == (100, 0)
    credit.granted(60)
    assert credit.available == 60


def test_a_frame_that_never_fits_is_too_large_not_backpressure() -> None:
    credit = SenderCredit(100)
    with pytest.raises(FrameTooLarge):
        credit.take(101)
    assert credit.in_flight == 0


def test_untake_undoes_take_only() -> None:
    credit = SenderCredit(100)
    credit.take(10)
    credit.untake(10)
    assert credit.available == 100
    with pytest.raises(LocalMisuse):
        credit.untake(1)


@pytest.mark.parametrize("size", [0, -1, 11])
def test_grant_of_what_was_never_sent_is_a_violation(size: int) -> None:
    credit = SenderCredit(100)
    credit.take(10)
    with pytest.raises(PeerViolation):
        credit.granted(size)
    assert credit.in_flight == 10


def test_overdraft_is_the_peers_violation() -> None:
    credit = ReceiverCredit(100)
    credit.received(100)
    with pytest.raises(PeerViolation):
        credit.received(1)


def test_consumed_and_not_yet_granted_bytes_still_count() -> None:
    credit = ReceiverCredit(100)
    credit.received(49)
    assert credit.consumed(49) == 0
    assert credit.outstanding == 49
    with pytest.raises(PeerViolation):
        credit.received(52)


def test_grant_is_due_at_half_the_window() -> None:
    credit = ReceiverCredit(100)
    credit.received(80)
    assert credit.consumed(30) == 0
    assert credit.consumed(20) == 50
    assert credit.consumed(30) == 0
    assert credit.flush() == 30
    assert credit.flush() == 0
    assert credit.outstanding == 0


def test_consuming_more_than_received_is_our_bug() -> None:
    credit = ReceiverCredit(100)
    credit.received(10)
    with pytest.raises(LocalMisuse):
        credit.consumed(11)


@pytest.mark.parametrize("value", [0, -5])
def test_sizes_are_positive(value: int) -> None:
    for make in (SenderCredit, ReceiverCredit):
        with pytest.raises(LocalMisuse):
            make(value)
    with pytest.raises(LocalMisuse):
        SenderCredit(10).take(value)
    with pytest.raises(LocalMisuse):
        ReceiverCredit(10).received(value)


@given(
    st.integers(1, 1000),
    st.lists(
        st.tuples(st.sampled_from(["send", "deliver", "consume", "grant"]), st.integers(1, 1200)),
        max_size=200,
    ),
)
def test_two_honest_sides_never_disagree(window: int, steps: list[tuple[str, int]]) -> None:
    """Sender and receiver joined by two queues: no violation, no byte lost, no stall once all is consumed."""
    sender, receiver = SenderCredit(window), ReceiverCredit(window)
    wire: list[int] = []
    unread: list[int] = []
    grants: list[int] = []
    for step, size in steps:
        if step == "send":
            try:
                sender.take(size)
            except (Backpressure, FrameTooLarge):
                assert size > sender.available
                continue
            wire.append(size)
        elif step == "deliver" and wire:
            receiver.received(wire[0])
            unread.append(wire.pop(0))
        elif step == "consume" and unread:
            grant = receiver.consumed(unread.pop(0))
            if grant:
                grants.append(grant)
        elif step == "grant" and grants:
            sender.granted(grants.pop(0))
        assert 0 <= receiver.outstanding <= sender.in_flight <= window
    for size in wire:
        receiver.received(size)
    for size in unread + wire:
        grants.append(receiver.consumed(size))
    grants.append(receiver.flush())
    for grant in filter(None, grants):
        sender.granted(grant)
    assert sender.in_flight == receiver.outstanding == 0
