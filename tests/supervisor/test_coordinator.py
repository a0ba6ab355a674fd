"""One task from queue to result: every end, every order."""

from __future__ import annotations

from typing import Any

import pytest
from browsercell.protocol.errors import BlockerCode as B
from browsercell.protocol.frames import EndReason, ModelProblem, TaskPhase
from browsercell.protocol.results import (
    ArtifactKind,
    Browser,
    BrowserDelegateResult,
    Deliverable,
    Delivery,
    DeliveryStatus,
    PlannerKind,
    ResolvedArtifact,
    SideEffects,
    Status,
)
from browsercell.supervisor import coordinator as co
from browsercell.supervisor import messages
from browsercell.supervisor import task_events as c
from browsercell.supervisor.budgets import Budget
from browsercell.supervisor.coordinator import MAX_REASONS, PHASES, TABLE, State, TaskMachine
from browsercell.supervisor.verdict import match
from hypothesis import given
from hypothesis import strategies as st

TASK = "t-" + "a" * 26
ARTIFACT = ResolvedArtifact("a-" + "b" * 26, "prices", ArtifactKind.TABLE, 17, "0" * 64, "text/csv")
RESULT = BrowserDelegateResult(
    task_id=TASK,
    status=Status.COMPLETED,
    execution_status=Status.COMPLETED,
    summary="Done",
    artifacts=(ARTIFACT,),
)
BARE = BrowserDelegateResult(
    task_id=TASK, status=Status.COMPLETED, execution_status=Status.COMPLETED, summary="Done"
)
DELIVERED = Delivery(ARTIFACT.artifact_id, "prices", "out.csv", True)
SECONDS = 100.0


def machine(planner: PlannerKind = PlannerKind.PLAYBOOK, browser: Browser = Browser.PRIVATE) -> TaskMachine:
    plan = c.TaskPlan(
        TASK, "s-aaaa", planner, browser, "goal", (), None,
        (Deliverable("prices", ArtifactKind.TABLE, True, "out.csv"),), Budget(0, 10, SECONDS),
    )  # fmt: skip
    return TaskMachine(plan, 0.0)


TO: dict[State, tuple[object, ...]] = {State.QUEUED: ()}
TO[State.OPENING] = (c.Start(),)
TO[State.WAITING] = (*TO[State.OPENING], c.Opened())
TO[State.BINDING] = (*TO[State.WAITING], c.GotWorker("w1"))
TO[State.RUNNING] = (*TO[State.BINDING], c.Bound())
TO[State.ENDING] = (*TO[State.RUNNING], c.Finished(RESULT))
TO[State.CLOSING] = (*TO[State.ENDING], c.WorkerGone(0))
CLOSED = c.Closed(SideEffects.CONFIRMED, 0, 7)
TO[State.DELIVERING] = (*TO[State.CLOSING], CLOSED)
TO[State.DONE] = (*TO[State.DELIVERING], c.Deliveries((DELIVERED,)))


def drive(task: TaskMachine, *events: object, now: float = 1.0) -> list[Any]:
    effects: list[Any] = []
    for event in events:
        effects += task.handle(event, now)
    return [effect for effect in effects if not isinstance(effect, c.Report)]


def at(state: State, **kinds: Any) -> TaskMachine:
    task = machine(**kinds)
    drive(task, *TO[state])
    assert task.state is state
    return task


def result_of(effects: list[Any]) -> BrowserDelegateResult:
    [finish] = [effect for effect in effects if isinstance(effect, c.Finish)]
    return finish.result


def test_the_table_is_total_and_every_state_has_a_phase() -> None:
    assert len(TABLE) == len(State) * len(c.EVENTS)
    assert set(PHASES) == set(State)


def test_an_ordinary_task() -> None:
    task = machine()
    effects = drive(task, *TO[State.DONE])
    assert effects[:-1] == [
        c.SendOpen(), c.WantWorker(), c.SendAssignModel("w1"), c.SendAssign("w1"), c.LetWorkerExit("w1"), c.SendClose(),
        c.EndBrowser(), c.Deliver(match(task.plan.deliverables, (ARTIFACT,))), c.EndBrowser(),
    ]  # fmt: skip
    result = result_of(effects)
    assert (result.status, result.delivery_status) == (Status.COMPLETED, DeliveryStatus.COMPLETED)
    assert (result.side_effects, result.usage.tool_calls, result.usage.generations) == (
        SideEffects.CONFIRMED,
        7,
        1,
    )
    assert task.due() is None


def test_each_change_of_state_is_reported_with_its_phase() -> None:
    task, phases = machine(), []
    for event in TO[State.DONE]:
        phases += [e.phase for e in task.handle(event, 1.0) if isinstance(e, c.Report)]
    assert list(dict.fromkeys(phases)) == [phase for phase in TaskPhase if phase is not TaskPhase.QUEUED]


def test_progress_is_counted_and_reported() -> None:
    task = at(State.RUNNING)
    assert task.handle(c.Progress(2, "browser_page_click", False), 1.0) == [
        c.Report(TaskPhase.RUNNING, 0, 2, "browser_page_click", False)
    ]
    assert task.handle(c.ModelProgress(3, 900, 500), 1.0) == [c.Report(TaskPhase.RUNNING, 3, 2)]


def test_a_private_browser_is_started_once_and_ended_when_the_bridge_is_done() -> None:
    task = at(State.OPENING)
    assert drive(task, c.BrowserWanted(), c.BrowserWanted()) == [c.SpawnBrowser()]
    assert drive(task, c.Opened(), c.BrowserDone()) == [c.WantWorker(), c.EndBrowser()]


def test_no_browser_is_started_for_a_task_in_the_users_chrome() -> None:
    assert drive(at(State.OPENING, browser=Browser.CHROME), c.BrowserWanted()) == []


def finish(task: TaskMachine, *events: object) -> BrowserDelegateResult:
    return result_of(drive(task, *events))


UNTOUCHED = c.Closed(SideEffects.NONE, 0, 0)
GONE = (c.WorkerGone(-9), UNTOUCHED)


@pytest.mark.parametrize(
    ("state", "events", "code"),
    [
        (State.QUEUED, (c.Cancel(),), B.CANCELLED),
        (State.OPENING, (c.Refused(B.POLICY_DENIED),), B.POLICY_DENIED),
        (State.OPENING, (c.BrowserFailed(messages.NO_CHROMIUM), UNTOUCHED), B.BROWSER_UNAVAILABLE),
        (State.OPENING, (c.Cancel(), c.Refused(B.POLICY_DENIED)), B.CANCELLED),
        (State.OPENING, (c.Cancel(), UNTOUCHED), B.CANCELLED),
        (State.OPENING, (c.BridgeLost(),), B.BRIDGE_LOST),
        (State.WAITING, (c.NoWorker(), UNTOUCHED), B.WORKER_CRASHED),
        (State.WAITING, (c.Cancel(), UNTOUCHED), B.CANCELLED),
        (State.WAITING, (c.Guard(EndReason.BROWSER_LOST), UNTOUCHED), B.BROWSER_UNAVAILABLE),
        (State.WAITING, (c.BridgeLost(),), B.BRIDGE_LOST),
        (State.BINDING, (c.Cancel(), *GONE), B.CANCELLED),
        (State.BINDING, (c.WorkerGone(1), UNTOUCHED), B.WORKER_CRASHED),
        (State.BINDING, (c.Fault(), *GONE), B.WORKER_CRASHED),
        (State.BINDING, (c.BridgeLost(), c.WorkerGone(-9)), B.BRIDGE_LOST),
        (State.BINDING, (c.ModelFault(B.MODEL_UNCONFIGURED, ModelProblem.NONE), *GONE), B.MODEL_UNCONFIGURED),
        (State.RUNNING, (c.WorkerGone(1), UNTOUCHED), B.WORKER_CRASHED),
        (State.RUNNING, (c.WorkerGone(0), UNTOUCHED), B.WORKER_CRASHED),
        (State.RUNNING, (c.WorkerGone(-31), UNTOUCHED), B.SANDBOX_VIOLATION),
        (State.RUNNING, (c.Fault(messages.WORKER_FAULT), c.WorkerGone(-31), UNTOUCHED), B.SANDBOX_VIOLATION),
        (State.RUNNING, (c.Finished(RESULT), c.WorkerGone(-31), UNTOUCHED), B.SANDBOX_VIOLATION),
        (State.RUNNING, (c.Guard(EndReason.NO_PROGRESS), *GONE), B.NO_PROGRESS),
        (State.RUNNING, (c.Guard(EndReason.TOOL_CALL_LIMIT), *GONE), B.TOOL_CALL_LIMIT),
        (State.RUNNING, (c.Guard(EndReason.REPEATED_ERROR), *GONE), B.REPEATED_ERROR),
        (State.RUNNING, (c.Guard(EndReason.EXTENSION_LOST), *GONE), B.BROWSER_UNAVAILABLE),
        (State.RUNNING, (c.ModelFault(B.STEP_LIMIT, ModelProblem.NONE), *GONE), B.STEP_LIMIT),
        (
            State.RUNNING,
            (c.ModelFault(B.MODEL_UNAVAILABLE, ModelProblem.TIMEOUT), *GONE),
            B.MODEL_UNAVAILABLE,
        ),
        (State.RUNNING, (c.Cancel(), c.Finished(RESULT), *GONE), B.CANCELLED),
        (State.RUNNING, (c.BridgeLost(), c.WorkerGone(-9)), B.BRIDGE_LOST),
        (State.RUNNING, (c.Cancel(), c.BridgeLost(), c.WorkerGone(-9)), B.CANCELLED),
        (State.RUNNING, (c.WorkerGone(1), c.BridgeLost()), B.BRIDGE_LOST),
    ],
)
def test_ends_without_a_result(state: State, events: tuple[object, ...], code: B) -> None:
    task = at(state)
    result = finish(task, *events)
    assert result.blocker_code is code
    assert task.state is State.DONE


def test_the_endpoints_own_problem_makes_the_sentence() -> None:
    result = finish(at(State.RUNNING), c.ModelFault(B.MODEL_UNAVAILABLE, ModelProblem.TIMEOUT), *GONE)
    assert result.summary == messages.MODEL[ModelProblem.TIMEOUT].happened + "."


def test_the_first_cause_stays() -> None:
    task = at(State.RUNNING)
    assert (
        finish(task, c.Guard(EndReason.NO_PROGRESS), c.Cancel(), c.Fault(), *GONE).blocker_code
        is B.NO_PROGRESS
    )


@pytest.mark.parametrize("crash", [(c.Fault(),), (c.WorkerGone(6),), (c.Fault(), c.WorkerGone(6))])
def test_a_bridges_end_explains_a_crash_that_was_seen_before_it(crash: tuple[object, ...]) -> None:
    lost = finish(at(State.RUNNING, planner=PlannerKind.LLM), *crash, c.ModelLost(), *GONE)
    assert lost.blocker_code is B.MODEL_UNAVAILABLE
    assert lost.summary == messages.BLOCKERS[B.MODEL_UNAVAILABLE].happened + "."
    assert finish(at(State.RUNNING), *crash, c.ModelLost(), *GONE).blocker_code is B.WORKER_CRASHED
    assert finish(at(State.RUNNING), *crash, c.BridgeLost(), *GONE).blocker_code is B.BRIDGE_LOST
    told = finish(at(State.RUNNING), c.Fault(messages.WORKER_FAULT), *crash, c.BridgeLost(), *GONE)
    assert told.blocker_code is B.WORKER_CRASHED


def test_an_end_kills_the_worker_before_anything_is_closed() -> None:
    task = at(State.RUNNING)
    assert drive(task, c.Cancel()) == [c.KillWorker("w1")]
    assert drive(task, c.WorkerGone(-9)) == [c.SendClose()]


def test_a_result_whose_workers_exit_was_seen_first_still_counts() -> None:
    """The bridge sent it before it forgot the worker, so it comes before WorkerGone."""
    task = at(State.RUNNING)
    assert finish(task, c.Finished(BARE), c.Finished(BARE), c.WorkerGone(0), CLOSED).blocker_code is None


def test_a_result_that_comes_after_a_cause_is_dropped_and_before_one_kept() -> None:
    task = at(State.CLOSING)
    assert drive(task, c.Finished(BARE)) == []
    assert finish(task, c.BridgeLost()).execution_status is Status.COMPLETED


def test_with_the_bridge_lost_side_effects_are_possible_as_soon_as_a_worker_was_assigned() -> None:
    assert finish(at(State.WAITING), c.BridgeLost()).side_effects is SideEffects.NONE
    assert finish(at(State.RUNNING), c.BridgeLost(), c.WorkerGone(-9)).side_effects is SideEffects.POSSIBLE


def test_a_result_outlives_the_bridge_but_its_files_do_not() -> None:
    result = finish(at(State.ENDING), c.BridgeLost(), c.WorkerGone(0))
    assert (result.execution_status, result.status) == (Status.COMPLETED, Status.PARTIAL)
    assert result.delivery_status is DeliveryStatus.FAILED


def test_unsettled_commands_make_effects_possible() -> None:
    assert (
        finish(
            at(
                State.CLOSING,
            ),
            c.Closed(SideEffects.NONE, 1, 0),
            c.Deliveries(()),
        ).side_effects
        is SideEffects.POSSIBLE
    )
    assert (
        finish(at(State.CLOSING), c.Closed(SideEffects.CONFIRMED, 1, 0), c.Deliveries(())).side_effects
        is SideEffects.CONFIRMED
    )


def test_a_result_without_artifacts_needs_no_delivery() -> None:
    task = at(State.RUNNING)
    assert (
        finish(task, c.Finished(BARE), c.WorkerGone(0), CLOSED).status is Status.PARTIAL
    )  # one was required


@pytest.mark.parametrize("state", [State.OPENING, State.WAITING, State.RUNNING])
def test_a_lost_model_bridge_ends_a_task_that_needs_it(state: State) -> None:
    task = at(state, planner=PlannerKind.LLM)
    gone = (c.WorkerGone(-9),) if state is State.RUNNING else ()
    assert finish(task, c.ModelLost(), *gone, UNTOUCHED).blocker_code is B.MODEL_UNAVAILABLE


@pytest.mark.parametrize("state", [State.OPENING, State.WAITING, State.RUNNING])
def test_a_lost_model_bridge_leaves_a_playbook_alone(state: State) -> None:
    task = at(state)
    assert drive(task, c.ModelLost()) == []
    assert task.state is state


def test_a_playbook_that_was_just_being_bound_takes_a_fresh_worker() -> None:
    task = at(State.BINDING)
    assert drive(task, c.ModelLost()) == [c.ReturnWorker("w1"), c.WantWorker()]
    assert (task.state, task.worker) == (State.WAITING, None)


@pytest.mark.parametrize("state", [s for s in State if s is not State.WAITING])
def test_a_worker_that_comes_too_late_is_returned(state: State) -> None:
    assert drive(at(state), c.GotWorker("w2")) == [c.ReturnWorker("w2")]


@pytest.mark.parametrize(
    ("state", "after", "code"),
    [
        (State.QUEUED, co.QUEUE, B.OVERLOADED),
        (State.OPENING, 1 + co.OPEN, B.BROWSER_UNAVAILABLE),
        (State.WAITING, 1 + co.WAIT, B.OVERLOADED),
        (State.BINDING, 1 + co.BIND, B.MODEL_UNAVAILABLE),
        (State.RUNNING, 1 + SECONDS, B.TIME_LIMIT),
    ],
)
def test_every_wait_has_a_deadline(state: State, after: float, code: B) -> None:
    task = at(state)
    assert task.due() == after
    assert drive(task, c.Tick(), now=after - 0.1) == []
    assert task.state is state
    effects = drive(task, c.Tick(), c.WorkerGone(-9), UNTOUCHED, now=after)
    assert result_of(effects).blocker_code is code


def test_the_tasks_own_deadline_counts_from_its_start_and_in_every_state_before_the_end() -> None:
    task = machine()
    task.handle(c.Start(), 50.0)
    task.handle(c.Opened(), 149.0)
    assert task.due() == 150.0
    assert result_of(drive(task, c.Tick(), UNTOUCHED, now=150.0)).blocker_code is B.TIME_LIMIT


def test_a_worker_that_never_goes_does_not_keep_the_host_waiting() -> None:
    task = at(State.ENDING)
    assert drive(task, c.Tick(), now=1 + co.END) == [c.KillWorker("w1"), c.SendClose()]
    task = at(State.RUNNING)
    drive(task, c.Cancel())
    assert drive(task, c.Tick(), now=1 + co.END) == [c.KillWorker("w1"), c.SendClose()]


@pytest.mark.parametrize(("state", "wait"), [(State.CLOSING, co.CLOSE), (State.DELIVERING, co.DELIVER)])
def test_a_bridge_that_does_not_close_or_deliver_does_not_keep_the_host_waiting(
    state: State, wait: float
) -> None:
    task = at(state)
    assert result_of(drive(task, c.Tick(), now=1 + wait)).execution_status is Status.COMPLETED
    assert drive(task, c.Tick(), now=1e9) == []


def test_the_story_is_bounded() -> None:
    task = at(State.BINDING)
    for _ in range(MAX_REASONS):
        drive(task, c.ModelLost(), c.GotWorker("w"))
    assert len(task.story) == MAX_REASONS


EVENTS = st.one_of(
    st.sampled_from(
        [
            c.Start(), c.Opened(), c.Refused(B.OVERLOADED), c.BrowserWanted(), c.BrowserFailed(messages.NO_CHROMIUM),
            c.BrowserDone(), c.NoWorker(), c.Bound(), c.Progress(1, "browser_page_find", True),
            c.ModelProgress(1, 2, 3), c.Guard(EndReason.NO_PROGRESS), c.ModelFault(B.STEP_LIMIT, ModelProblem.NONE),
            c.Finished(RESULT), c.Fault(), c.WorkerGone(0), c.WorkerGone(-31, 1), c.BridgeLost(), c.ModelLost(),
            c.Cancel(), c.Tick(), CLOSED, c.Deliveries(()),
        ]
    ),
    st.integers(1, 9).map(lambda number: c.GotWorker(f"w{number}")),
)  # fmt: skip


@given(st.lists(st.tuples(EVENTS, st.floats(0, 40)), max_size=60), st.sampled_from(list(PlannerKind)))
def test_any_order_of_events_gives_one_result_and_no_assignment_after_a_cause(
    events: list[tuple[object, float]], planner: PlannerKind
) -> None:
    task, now, effects = machine(planner), 0.0, []
    for event, gap in events:
        now += gap
        if isinstance(event, c.WorkerGone) and task.worker is None:
            continue  # the shell drops it: not this task's worker
        done = task.state is State.DONE
        made = task.handle(event, now)
        assert not done or all(isinstance(effect, c.ReturnWorker) for effect in made)
        effects += made
        assert (task.due() is None) == (task.state is State.DONE)
    while task.state is not State.DONE:  # time alone ends every task
        now = task.due() or now
        effects += task.handle(c.Tick(), now)
    finishes = [index for index, effect in enumerate(effects) if isinstance(effect, c.Finish)]
    assert len(finishes) == 1
    kinds = [type(effect) for effect in effects]
    if c.SendAssign in kinds:
        kill = kinds.index(c.KillWorker) if c.KillWorker in kinds else len(kinds)
        assert kinds.index(c.SendAssign) < kill
        assert kinds.count(c.SendAssign) == 1
    if c.SpawnBrowser in kinds:
        assert c.EndBrowser in kinds[kinds.index(c.SpawnBrowser) :]
