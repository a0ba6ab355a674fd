"""calls: every call ends exactly once, and says honestly whether it may have run."""

from __future__ import annotations

import pytest
from browsercell.protocol.calls import (
    REMEMBERED,
    CallTable,
    Failed,
    FailReason,
    Settled,
    Stray,
    StrayKind,
)
from browsercell.protocol.errors import Backpressure, Execution, LocalMisuse
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule


def opened(*ids: str, sent: bool = True) -> CallTable:
    table = CallTable(8)
    for at, call_id in enumerate(ids):
        table.open(call_id, 10.0 + at, 0.0)
        if sent:
            table.sent(call_id)
    return table


def test_settle_delivers_once() -> None:
    table = opened("a")
    assert table.settle("a") == Settled("a")
    assert table.settle("a") == Stray("a", StrayKind.REPEATED)
    assert len(table) == 0


def test_unknown_id_is_never_delivered() -> None:
    assert opened("a").settle("b") == Stray("b", StrayKind.UNKNOWN)


def test_answer_to_a_call_that_was_not_sent_is_invented() -> None:
    table = opened("a", sent=False)
    assert table.settle("a") == Stray("a", StrayKind.UNKNOWN)
    assert "a" in table


@pytest.mark.parametrize(("sent", "execution"), [(False, Execution.NOT_STARTED), (True, Execution.UNKNOWN)])
def test_cancel_says_whether_it_may_have_run(sent: bool, execution: Execution) -> None:
    table = opened("a", sent=sent)
    assert table.cancel("a") == Failed("a", FailReason.CANCELLED, execution, notify_peer=sent)
    assert table.cancel("a") is None


def test_one_late_answer_is_a_race_a_second_is_not() -> None:
    table = opened("a")
    table.cancel("a")
    assert table.settle("a") == Stray("a", StrayKind.LATE)
    assert table.settle("a") == Stray("a", StrayKind.REPEATED)


def test_unusable_answer_ran_to_the_end() -> None:
    table = opened("a")
    assert table.spoil("a") == Failed("a", FailReason.BAD_ANSWER, Execution.FINISHED, notify_peer=False)
    assert table.spoil("a") == Stray("a", StrayKind.REPEATED)


def test_expire_takes_what_is_due_earliest_first() -> None:
    table = CallTable(8)
    table.open("late", 3.0, 0.0)
    table.open("soon", 1.0, 0.0)
    table.open("mid", 2.0, 0.0)
    table.sent("soon")
    assert table.next_deadline() == 1.0
    assert table.expire(0.9) == []
    assert table.expire(2.0) == [
        Failed("soon", FailReason.TIMEOUT, Execution.UNKNOWN, notify_peer=True),
        Failed("mid", FailReason.TIMEOUT, Execution.NOT_STARTED, notify_peer=False),
    ]
    assert table.next_deadline() == 3.0
    assert "late" in table


def test_fail_all_closes_everything_in_order_and_notifies_nobody() -> None:
    table = opened("b", "a")
    assert table.fail_all(FailReason.PEER_DIED) == [
        Failed("b", FailReason.PEER_DIED, Execution.UNKNOWN, notify_peer=False),
        Failed("a", FailReason.PEER_DIED, Execution.UNKNOWN, notify_peer=False),
    ]
    assert len(table) == 0
    assert table.next_deadline() is None
    assert table.fail_all(FailReason.LINK_LOST) == []


def test_capacity_is_a_bound() -> None:
    table = CallTable(1)
    table.open("a", 1.0, 0.0)
    with pytest.raises(Backpressure):
        table.open("b", 1.0, 0.0)
    table.cancel("a")
    table.open("b", 1.0, 0.0)


def test_our_own_mistakes_raise() -> None:
    table = opened("a")
    with pytest.raises(LocalMisuse):
        table.open("a", 1.0, 0.0)
    with pytest.raises(LocalMisuse):
        table.sent("a")
    with pytest.raises(LocalMisuse):
        table.sent("b")
    table.settle("a")
    with pytest.raises(LocalMisuse):
        table.open("a", 1.0, 0.0)
    with pytest.raises(LocalMisuse):
        table.open("c", 1.0, 1.0)
    with pytest.raises(LocalMisuse):
        CallTable(0)


def test_memory_of_finished_calls_is_bounded() -> None:
    table = CallTable(1)
    for number in range(REMEMBERED + 1):
        table.open(str(number), 1.0, 0.0)
        table.sent(str(number))
        table.settle(str(number))
    assert table.settle("0") == Stray("0", StrayKind.UNKNOWN)
    assert table.settle("1") == Stray("1", StrayKind.REPEATED)


class AnyOrder(RuleBasedStateMachine):
    """A model of plain sets beside the table: whatever happens, each call ends once and with the right word."""

    def __init__(self) -> None:
        super().__init__()
        self.table = CallTable(5)
        self.now = 0.0
        self.queued: dict[str, float] = {}
        self.sent: dict[str, float] = {}
        self.ended: set[str] = set()
        self.count = 0

    @rule(ttl=st.floats(0.1, 5))
    def open(self, ttl: float) -> None:
        call_id = f"c{self.count}"
        self.count += 1
        if len(self.queued) + len(self.sent) == 5:
            with pytest.raises(Backpressure):
                self.table.open(call_id, self.now + ttl, self.now)
            return
        self.table.open(call_id, self.now + ttl, self.now)
        self.queued[call_id] = self.now + ttl

    @rule(number=st.integers(0, 30))
    def send(self, number: int) -> None:
        call_id = f"c{number}"
        if call_id in self.queued:
            self.table.sent(call_id)
            self.sent[call_id] = self.queued.pop(call_id)

    @rule(number=st.integers(0, 30), usable=st.booleans())
    def answer(self, number: int, usable: bool) -> None:
        call_id = f"c{number}"
        outcome = self.table.settle(call_id) if usable else self.table.spoil(call_id)
        if call_id not in self.sent:
            assert isinstance(outcome, Stray)
            assert (outcome.kind is StrayKind.UNKNOWN) == (call_id not in self.ended)
            return
        del self.sent[call_id]
        self.ended.add(call_id)
        if usable:
            assert outcome == Settled(call_id)
        else:
            assert isinstance(outcome, Failed)
            assert outcome.execution is Execution.FINISHED

    @rule(number=st.integers(0, 30))
    def cancel(self, number: int) -> None:
        failed = self.table.cancel(f"c{number}")
        self.check([failed] if failed else [])

    @rule(gap=st.floats(0, 3))
    def time(self, gap: float) -> None:
        self.now += gap
        due = {c for c, d in (self.queued | self.sent).items() if d <= self.now}
        failed = self.table.expire(self.now)
        assert {f.call_id for f in failed} == due
        self.check(failed)

    @rule()
    def lose_link(self) -> None:
        failed = self.table.fail_all(FailReason.LINK_LOST)
        assert len(failed) == len(self.queued) + len(self.sent)
        self.check(failed)

    def check(self, failed: list[Failed]) -> None:
        for one in failed:
            if one.call_id in self.queued:
                del self.queued[one.call_id]
                assert one.execution is Execution.NOT_STARTED
                assert not one.notify_peer
            else:
                del self.sent[one.call_id]
                assert one.execution is Execution.UNKNOWN
            self.ended.add(one.call_id)

    @invariant()
    def same_size(self) -> None:
        assert len(self.table) == len(self.queued) + len(self.sent)
        deadlines = list((self.queued | self.sent).values())
        assert self.table.next_deadline() == (min(deadlines) if deadlines else None)


AnyOrder.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestAnyOrder = AnyOrder.TestCase
