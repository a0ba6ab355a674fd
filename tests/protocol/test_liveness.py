"""liveness: the table is total and a hang is reported once, after the stated time."""

from __future__ import annotations

import pytest
from browsercell.protocol.errors import LocalMisuse
from browsercell.protocol.liveness import (
    TABLE,
    Event,
    Liveness,
    PeerSilent,
    SendPing,
    State,
    UnexpectedPong,
)
from hypothesis import given
from hypothesis import strategies as st


def test_table_is_total() -> None:
    assert len(TABLE) == len(State) * len(Event)
    assert set(TABLE) == {(state, event) for state in State for event in Event}


def test_start_pings_at_once_and_then_every_interval() -> None:
    live = Liveness(2.0, 3)
    assert live.next_due() is None
    assert live.start(10.0) == [SendPing(1)]
    assert live.next_due() == 12.0
    assert live.tick(11.9) == []
    assert live.pong(1, 11.9) == []
    assert live.tick(12.0) == [SendPing(2)]


def test_silent_after_misses_and_only_once() -> None:
    live = Liveness(2.0, 3)
    live.start(0.0)
    assert live.tick(2.0) == [SendPing(2)]
    assert live.tick(4.0) == [SendPing(3)]
    assert live.tick(6.0) == [PeerSilent(3)]
    assert live.state is State.SILENT
    assert live.next_due() is None
    assert live.tick(8.0) == []
    assert live.pong(3, 8.0) == []
    assert live.state is State.SILENT


def test_slow_answers_keep_a_peer_alive() -> None:
    live = Liveness(1.0, 3)
    live.start(0.0)
    live.tick(1.0)
    live.tick(2.0)
    assert live.unanswered == 3
    assert live.pong(1, 2.5) == []
    assert live.unanswered == 2
    assert live.tick(3.0) == [SendPing(4)]
    assert live.pong(4, 3.1) == []
    assert live.unanswered == 0


@pytest.mark.parametrize("sequence", [0, -1, 2, 1])
def test_pong_that_answers_nothing_is_reported(sequence: int) -> None:
    live = Liveness(1.0, 3)
    live.start(0.0)
    assert live.pong(1, 0.1) == []
    assert live.pong(sequence, 0.2) == [UnexpectedPong()]
    assert live.state is State.ALIVE


def test_a_suspended_owner_does_not_call_the_peer_silent() -> None:
    """After a long gap the peer gets its full time again."""
    live = Liveness(1.0, 2)
    live.start(0.0)
    live.pong(1, 0.1)
    assert live.tick(1000.0) == [SendPing(2)]
    assert live.tick(1000.5) == []
    assert live.tick(1001.0) == [SendPing(3)]
    assert live.tick(1002.0) == [PeerSilent(2)]


def test_stop_and_restart_forget_open_pings() -> None:
    live = Liveness(1.0, 1)
    live.start(0.0)
    assert live.stop(0.5) == []
    assert live.state is State.STOPPED
    assert live.tick(5.0) == []
    assert live.pong(1, 5.0) == []
    assert live.stop(5.0) == []
    assert live.start(6.0) == [SendPing(2)]
    assert live.pong(1, 6.1) == [UnexpectedPong()]
    assert live.tick(7.0) == [PeerSilent(1)]
    assert live.stop(7.5) == []
    live.start(8.0)
    assert live.start(8.5) == [SendPing(4)]
    assert live.tick(9.5) == [PeerSilent(1)]
    assert live.start(10.0) == [SendPing(5)]


@pytest.mark.parametrize(("interval", "misses"), [(0.0, 1), (-1.0, 1), (1.0, 0)])
def test_parameters_are_checked(interval: float, misses: int) -> None:
    with pytest.raises(LocalMisuse):
        Liveness(interval, misses)


@given(
    st.integers(1, 4),
    st.lists(
        st.tuples(st.sampled_from(["tick", "pong", "stop", "start"]), st.floats(0, 3), st.integers(0, 9))
    ),
)
def test_any_sequence_keeps_the_invariants(misses: int, steps: list[tuple[str, float, int]]) -> None:
    live = Liveness(1.0, misses)
    now, last_ping, reported = 0.0, 0, False
    for step, gap, sequence in steps:
        now += gap
        if step == "tick":
            effects = live.tick(now)
        elif step == "pong":
            effects = live.pong(sequence, now)
        elif step == "stop":
            effects = live.stop(now)
        else:
            effects = live.start(now)
            reported = False
        assert len(effects) <= 1
        for effect in effects:
            if isinstance(effect, SendPing):
                assert effect.sequence == last_ping + 1
                last_ping = effect.sequence
            elif isinstance(effect, PeerSilent):
                assert not reported
                reported = True
                assert effect.missed == misses
        assert 0 <= live.unanswered <= misses
