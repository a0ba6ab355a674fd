"""Budgets only go down; admission is first come, first served."""

from __future__ import annotations

from browsercell.protocol.results import TaskLimits, Usage
from browsercell.supervisor.budgets import Admission, Budget, Counters, effective
from browsercell.supervisor.settings import LimitSettings
from hypothesis import given
from hypothesis import strategies as st

CONFIGURED = LimitSettings(steps=10, tool_calls=20, seconds=60)


def test_a_request_lowers_but_never_raises_a_budget() -> None:
    assert effective(TaskLimits(steps=5, tool_calls=40, seconds=180), CONFIGURED, playbook=False) == Budget(
        5, 20, 60.0
    )
    assert effective(TaskLimits(), CONFIGURED, playbook=False) == Budget(10, 20, 60.0)


def test_a_playbook_has_no_steps() -> None:
    assert effective(TaskLimits(), CONFIGURED, playbook=True).steps == 0


def test_counters_only_grow() -> None:
    counters = Counters()
    counters.calls(3)
    counters.calls(2)
    counters.inference(2, 900, 500)
    counters.inference(1, 100, 700)
    counters.generations = 1
    assert counters.occupancy == 700
    assert counters.usage(1.23456) == Usage(2, 3, 900, 1, 1.235)


def test_tasks_run_up_to_the_limit_and_wait_in_order() -> None:
    admission = Admission(1, 2)
    assert [admission.enter(task) for task in "abc"] == [True, False, False]
    assert admission.full()
    assert admission.leave("b") is None  # gives its place in the queue up
    assert (admission.running, admission.queued, admission.full()) == (1, 1, False)
    assert admission.leave("a") == "c"
    assert admission.leave("c") is None
    assert admission.running == 0


@given(st.lists(st.tuples(st.sampled_from(["enter", "leave"]), st.integers(0, 9)), max_size=60))
def test_every_task_that_entered_starts_exactly_once_or_leaves(moves: list[tuple[str, int]]) -> None:
    admission, inside, started = Admission(2, 3), set(), set()
    for move, number in moves:
        task = f"t{number}"
        if move == "enter" and task not in inside and not admission.full():
            inside.add(task)
            if admission.enter(task):
                started.add(task)
        elif move == "leave" and task in inside:
            inside.discard(task)
            started.discard(task)
            following = admission.leave(task)
            if following is not None:
                assert following in inside
                assert following not in started
                started.add(following)
        assert admission.running == len(started) <= 2
        assert admission.queued == len(inside - started) <= 3
        assert not (admission.queued and admission.running < 2)
