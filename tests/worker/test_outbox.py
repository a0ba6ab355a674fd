"""Frames towards one bridge: in order, within the window, pongs free."""

from __future__ import annotations

import pytest
from browsercell.protocol.codec import encode
from browsercell.protocol.errors import FrameTooLarge, PeerViolation
from browsercell.protocol.frames import Hello, Pong, ToolCall
from browsercell.worker.outbox import MAX_WAITING, Outbox

BOUND = 1_000
CALL = ToolCall(call=1, tool="browser_status", args=b"x" * 300)
SIZE = len(encode(CALL, BOUND))


def outbox(window: int = SIZE + 10) -> Outbox:
    box = Outbox(window, BOUND)
    box.count()
    return box


def test_before_the_assignment_nothing_is_counted() -> None:
    box = Outbox(1, BOUND)
    hello = Hello(version=1)
    assert [box.put(hello) for _ in range(3)] == [[encode(hello, BOUND)]] * 3


def test_a_frame_without_credit_waits_and_leaves_in_order() -> None:
    box = outbox()
    second = ToolCall(call=2, tool="browser_status", args=b"")
    assert len(box.put(CALL)) == 1
    assert box.put(CALL) == []
    assert box.put(second) == []  # it would fit, but not before its turn
    assert box.granted(SIZE) == [encode(CALL, BOUND)]
    assert box.granted(SIZE) == [encode(second, BOUND)]


def test_pongs_need_no_credit() -> None:
    box = outbox()
    box.put(CALL)
    box.put(CALL)
    assert box.put(Pong(nonce=1)) == [encode(Pong(nonce=1), BOUND)]


def test_a_surplus_grant_widens_nothing() -> None:
    box = outbox()
    assert box.granted(1_000) == []
    box.put(CALL)
    assert box.put(CALL) == []
    assert len(box.granted(1_000_000)) == 1
    assert box.put(CALL) == []


def test_too_much_waiting_is_the_bridges_fault() -> None:
    box = outbox()
    box.put(CALL)
    for _ in range(MAX_WAITING):
        box.put(CALL)
    with pytest.raises(PeerViolation):
        box.put(CALL)


def test_an_oversize_frame_is_refused() -> None:
    with pytest.raises(FrameTooLarge):
        outbox().put(ToolCall(call=1, tool="browser_status", args=b"x" * BOUND))
