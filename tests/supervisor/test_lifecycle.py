"""The life table of a bridge: total, loses nothing, always stoppable."""

from __future__ import annotations

import pytest
from browsercell.supervisor.lifecycle import TABLE, Action, Event, Lifecycle, State
from hypothesis import given
from hypothesis import strategies as st

RUNNING = {State.STARTING, State.READY, State.KILLING, State.STOPPING, State.FAILING}


def test_the_table_is_total() -> None:
    assert len(TABLE) == len(State) * len(Event)
    assert {state for state, _ in TABLE} == set(State)


def drive(*events: Event) -> tuple[State, list[Action]]:
    life = Lifecycle()
    actions: list[Action] = []
    for event in events:
        actions += life.handle(event)
    return life.state, actions


def test_an_ordinary_life() -> None:
    assert drive(Event.START, Event.READY, Event.STOP, Event.EXITED) == (
        State.STOPPED,
        [Action.SPAWN, Action.ANNOUNCE, Action.ASK_STOP, Action.REPORT_STOPPED],
    )


@pytest.mark.parametrize("fall", [Event.LINK_LOST, Event.VIOLATION, Event.SILENT])
@pytest.mark.parametrize("before", [(Event.START,), (Event.START, Event.READY)])
def test_every_fall_kills_tells_and_restarts(before: tuple[Event, ...], fall: Event) -> None:
    state, actions = drive(*before, fall, Event.EXITED, Event.RETRY)
    assert state is State.STARTING
    assert actions[-4:] == [Action.LOST, Action.KILL, Action.PLAN, Action.SPAWN]


def test_a_child_that_is_late_is_killed_but_only_while_it_starts() -> None:
    assert drive(Event.START, Event.LATE)[0] is State.KILLING
    assert drive(Event.START, Event.READY, Event.LATE)[0] is State.READY


def test_a_child_that_can_not_take_its_settings_is_not_started_again() -> None:
    state, actions = drive(Event.START, Event.SETUP_FAILED, Event.EXITED)
    assert state is State.FAILED
    assert actions == [Action.SPAWN, Action.LOST, Action.KILL, Action.REPORT_FAILED]


def test_a_stop_gets_in_during_back_off_and_during_a_kill() -> None:
    assert drive(Event.START, Event.EXITED, Event.STOP)[0] is State.STOPPED
    assert drive(Event.START, Event.READY, Event.SILENT, Event.STOP, Event.EXITED)[0] is State.STOPPED
    assert drive(Event.START, Event.SPAWN_FAILED, Event.EXHAUSTED)[0] is State.FAILED


def test_a_child_that_ignores_a_polite_stop_is_killed() -> None:
    assert drive(Event.START, Event.READY, Event.STOP, Event.GRACE_OVER)[1][-1] is Action.KILL


@given(st.lists(st.sampled_from(list(Event)), max_size=60))
def test_spawns_and_exits_alternate_and_each_loss_is_told_once(events: list[Event]) -> None:
    """A process exists between SPAWN and EXITED (or SPAWN_FAILED); the shell feeds those two only while it does."""
    life, alive, told = Lifecycle(), False, True
    for event in events:
        if event in (Event.EXITED, Event.SPAWN_FAILED) and not alive:
            continue
        if event is Event.SPAWN_FAILED and life.state is not State.STARTING:
            continue
        actions = life.handle(event)
        if event in (Event.EXITED, Event.SPAWN_FAILED):
            alive = False
        for action in actions:
            if action is Action.SPAWN:
                assert not alive
                alive, told = True, False
            if action is Action.LOST:
                assert not told
                told = True
        assert alive == (life.state in RUNNING)


@given(st.lists(st.sampled_from(list(Event)), max_size=30))
def test_after_stop_and_exit_it_is_stopped_whatever_came_before(events: list[Event]) -> None:
    life = Lifecycle()
    for event in (*events, Event.STOP, Event.EXITED):
        life.handle(event)
    assert life.state is State.STOPPED
