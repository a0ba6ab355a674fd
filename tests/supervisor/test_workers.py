"""The life table of a worker: nobody is reaped too early, nobody stays for ever."""

from __future__ import annotations

import pytest
from browsercell.supervisor.workers import (
    EXIT,
    FORGET,
    STAGE,
    TABLE,
    Do,
    Event,
    Input,
    Reason,
    Side,
    State,
    WorkerMachine,
)
from hypothesis import given
from hypothesis import strategies as st

PAGE, MODEL = Side.PAGE, Side.MODEL
BIRTH = (
    Input(Event.PREPARED, side=PAGE),
    Input(Event.PREPARED, side=MODEL),
    Input(Event.SPAWNED),
    Input(Event.SEALED),
    Input(Event.GREETED),
    Input(Event.CHECKED),
)


def drive(*inputs: Input, now: float = 0.0) -> tuple[WorkerMachine, list[Do]]:
    machine = WorkerMachine()
    effects = machine.begin(now)
    for one in inputs:
        effects += machine.handle(one, now)
    return machine, effects


def test_the_table_is_total() -> None:
    assert len(TABLE) == len(State) * len(Event)


def test_a_spare_is_born_checked_and_ready() -> None:
    machine, effects = drive(*BIRTH)
    assert machine.state is State.READY
    assert effects == [Do.PREPARE, Do.SPAWN, Do.ANNOUNCE, Do.CHECK, Do.READY]


def test_sealed_and_greeted_may_come_in_either_order_and_both_are_needed() -> None:
    machine, effects = drive(*BIRTH[:3], Input(Event.GREETED))
    assert (machine.state, Do.CHECK in effects) == (State.SEALING, False)
    assert machine.handle(Input(Event.SEALED), 0.0) == [Do.CHECK]


def test_a_finished_worker_exits_by_itself_and_is_forgotten_before_it_is_gone() -> None:
    machine, effects = drive(*BIRTH, Input(Event.TAKEN), Input(Event.FINISHED), Input(Event.EXITED, status=0))
    assert effects[-1] is Do.FORGET
    assert machine.handle(Input(Event.FORGOTTEN, side=PAGE, unsettled=2), 0.0) == []
    assert machine.handle(Input(Event.FORGOTTEN, side=PAGE, unsettled=2), 0.0) == []  # said twice counts once
    assert machine.handle(Input(Event.FORGOTTEN, side=MODEL), 0.0) == [Do.GONE]
    assert (machine.state, machine.reason, machine.exit_status, machine.unsettled) == (
        State.GONE,
        Reason.DONE,
        0,
        2,
    )


def test_a_finished_worker_that_stays_is_killed() -> None:
    machine, _ = drive(*BIRTH, Input(Event.TAKEN), Input(Event.FINISHED))
    assert machine.handle(Input(Event.TICK), EXIT - 0.1) == []
    assert machine.handle(Input(Event.TICK), EXIT) == [Do.KILL]
    assert machine.due == 2 * EXIT


def test_a_refused_spare_is_killed_and_its_first_reason_stays() -> None:
    machine, effects = drive(
        *BIRTH[:5], Input(Event.END, reason=Reason.REFUSED), Input(Event.END, reason=Reason.ORDERED)
    )
    assert effects[-2:] == [Do.KILL, Do.KILL]
    assert machine.reason is Reason.REFUSED


def test_a_spawn_that_failed_is_forgotten_without_a_kill() -> None:
    machine, effects = drive(*BIRTH[:2], Input(Event.SPAWN_FAILED))
    assert effects[-1] is Do.FORGET
    assert machine.reason is Reason.SPAWN_FAILED


@pytest.mark.parametrize("count", [0, 1, 2])
def test_an_end_before_the_spawn_only_forgets(count: int) -> None:
    machine, effects = drive(*BIRTH[:count], Input(Event.END, reason=Reason.ORDERED))
    assert effects[-1] is Do.FORGET
    assert machine.state is State.FORGETTING


@pytest.mark.parametrize("count", [0, 1])
def test_preparing_too_long_is_given_up(count: int) -> None:
    machine, _ = drive(*BIRTH[:count])
    assert machine.handle(Input(Event.TICK), STAGE - 0.1) == []
    assert machine.handle(Input(Event.TICK), STAGE) == [Do.FORGET]
    assert machine.reason is Reason.PREPARE_LATE


@pytest.mark.parametrize("count", [3, 4, 5])
def test_sealing_too_long_is_killed(count: int) -> None:
    machine, _ = drive(*BIRTH[:count])
    assert machine.handle(Input(Event.TICK), STAGE - 0.1) == []
    assert machine.handle(Input(Event.TICK), STAGE) == [Do.KILL]
    assert machine.reason is Reason.SEAL_LATE


def test_a_bridge_that_does_not_forget_is_reported_stuck_and_its_loss_frees_the_worker() -> None:
    machine, _ = drive(*BIRTH, Input(Event.EXITED, status=-9), Input(Event.FORGOTTEN, side=MODEL))
    assert machine.handle(Input(Event.TICK), FORGET - 0.1) == []
    assert machine.handle(Input(Event.TICK), FORGET) == [Do.STUCK]
    assert machine.pending == {PAGE}
    assert machine.handle(Input(Event.LOST, side=PAGE), FORGET) == [Do.GONE]


def test_losing_one_bridge_while_the_other_has_yet_to_forget_keeps_the_zombie() -> None:
    machine, _ = drive(*BIRTH, Input(Event.EXITED, status=-9))
    assert machine.handle(Input(Event.LOST, side=MODEL), 0.0) == []
    assert machine.state is State.FORGETTING


def test_a_lost_bridge_ends_what_is_being_prepared() -> None:
    machine, effects = drive(Input(Event.LOST, side=PAGE))
    assert (effects[-1], machine.pending) == (Do.FORGET, {MODEL})
    assert machine.handle(Input(Event.LOST, side=MODEL), 0.0) == [Do.GONE]
    assert machine.reason is Reason.BRIDGE_LOST


def test_with_both_bridges_lost_a_dead_worker_is_gone_at_once() -> None:
    machine, effects = drive(*BIRTH, Input(Event.LOST, side=PAGE), Input(Event.LOST, side=MODEL))
    assert effects[-1] is Do.KILL
    assert machine.handle(Input(Event.EXITED, status=-9), 0.0) == [Do.GONE]


def test_a_working_worker_outlives_the_model_bridge_but_not_the_bridge() -> None:
    machine, effects = drive(*BIRTH, Input(Event.TAKEN), Input(Event.LOST, side=MODEL))
    assert (machine.state, effects[-1]) == (State.WORKING, Do.READY)
    assert machine.handle(Input(Event.LOST, side=PAGE), 0.0) == [Do.KILL]


INPUTS = st.builds(
    Input,
    event=st.sampled_from([event for event in Event if event is not Event.TICK]),
    side=st.sampled_from(list(Side)),
    reason=st.sampled_from(list(Reason)),
    status=st.sampled_from([0, -9, -31]),
)


@given(st.lists(INPUTS, max_size=50))
def test_random_lives_reap_once_and_only_what_is_dead_and_forgotten(inputs: list[Input]) -> None:
    machine, alive, gone = WorkerMachine(), False, 0
    machine.begin(0.0)
    for one in inputs:
        if one.event is Event.EXITED and not alive:
            continue
        if one.event in (Event.SPAWNED, Event.SPAWN_FAILED) and machine.state is not State.SPAWNING:
            continue
        alive = (alive or one.event is Event.SPAWNED) and one.event is not Event.EXITED
        effects = machine.handle(one, 0.0)
        gone += effects.count(Do.GONE)
        assert not (alive and Do.GONE in effects)
        assert not (Do.GONE in effects and machine.pending)
    assert gone == (machine.state is State.GONE)
    # From anywhere: it is told to end, dies, and both bridges forget it.
    finale = [Input(Event.END, reason=Reason.ORDERED)]
    finale += [Input(Event.EXITED, status=-9)] if alive else []
    finale += [Input(Event.FORGOTTEN, side=side) for side in Side]
    for one in finale:
        gone += machine.handle(one, 0.0).count(Do.GONE)
    assert (machine.state, gone, machine.due) == (State.GONE, 1, None)
