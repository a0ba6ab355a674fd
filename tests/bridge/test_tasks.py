"""The machine of one task: life, calls and settlement, guards, verdict, page versions (bridge/tasks.py; design 4, 8)."""

from __future__ import annotations

import pytest
from browsercell.bridge.tasks import (
    TABLE,
    Answer,
    Effect,
    Event,
    Forgotten,
    Kept,
    Outcome,
    Release,
    Report,
    Run,
    State,
    Task,
    Withdraw,
)
from browsercell.protocol import limits as L
from browsercell.protocol.errors import BlockerCode, LocalMisuse, ToolErrorCode
from browsercell.protocol.frames import (
    Changes,
    EndReason,
    LedgerEntry,
    OpenTask,
    TaskClosed,
    TaskFinished,
    TaskGuard,
    TaskOpened,
    TaskProgress,
    TaskRefused,
    WantedDeliverable,
)
from browsercell.protocol.results import (
    ArtifactClaim,
    ArtifactKind,
    Browser,
    ClaimStatus,
    ResultClaim,
    SideEffects,
)

NAME = "task_aaaa"
SPEC = OpenTask(NAME, Browser.CHROME, None, (WantedDeliverable("list", ArtifactKind.TABLE),), 40)
OBSERVE, CLICK, SHOT = "browser_page_observe", "browser_page_click", "browser_page_screenshot"
KEPT = Kept("art_aaaa", ArtifactKind.TABLE, 10, "0" * 64, "text/csv")
DONE = ResultClaim(status=ClaimStatus.COMPLETED, summary="", artifacts=(ArtifactClaim("art_aaaa", "list"),))


def at(state: State, spec: OpenTask = SPEC) -> Task:
    task = Task(spec)
    if state in (State.READY, State.RUNNING, State.CLOSING):
        assert task.opened() == [Report(TaskOpened(NAME))]
    if state in (State.RUNNING, State.CLOSING):
        assert task.assign("w_aaaa", 1) == []
    if state is State.CLOSING:
        task.call(1, CLICK)
        assert task.close() == [Withdraw(effect=True)]
    if state is State.CLOSED:
        task.close()
    assert task.state is state
    return task


def settle(task: Task, tool: str, outcome: Outcome) -> list[Effect]:
    assert task.call(1, tool) == [Run(task.worker, 1, tool)]
    return task.settle(outcome)


def guards(effects: list[Effect]) -> list[EndReason]:
    return [
        effect.frame.reason
        for effect in effects
        if isinstance(effect, Report) and isinstance(effect.frame, TaskGuard)
    ]


def page(version: str, url: str = "https://shop.example/") -> Outcome:
    return Outcome(True, chars=5, dispatched=True, page=(url, version), url=url)


def test_the_table_is_total() -> None:
    assert len(TABLE) == len(State) * len(Event)
    assert set(TABLE) == {(state, event) for state in State for event in Event}


def test_opened_or_refused() -> None:
    task = Task(SPEC)
    assert task.refused(BlockerCode.POLICY_DENIED) == [
        Report(TaskRefused(NAME, BlockerCode.POLICY_DENIED)),
        Release(keep_tabs=False),
    ]
    assert task.opened() == task.refused(BlockerCode.POLICY_DENIED) == task.lost(EndReason.BROWSER_LOST) == []
    assert task.close() == [Report(TaskClosed(NAME, SideEffects.NONE, 0, 0, ()))]
    lost = Task(SPEC)
    assert lost.lost(EndReason.EXTENSION_LOST)[0] == Report(
        TaskRefused(NAME, BlockerCode.BROWSER_UNAVAILABLE)
    )


def test_a_settled_call_is_counted_reported_and_answered() -> None:
    task = at(State.RUNNING)
    assert task.call(1, OBSERVE) == [Run("w_aaaa", 1, OBSERVE)]
    assert task.in_flight
    assert task.calls_left == 40
    effects = task.settle(page("v1"))
    entry = LedgerEntry(OBSERVE, True, None, 1, 5)
    assert effects == [Answer("w_aaaa", 1, 39), Report(TaskProgress(NAME, 1, 1, entry))]
    assert task.url == "https://shop.example/"
    assert not task.in_flight


def test_page_versions_count_up_and_are_recognised() -> None:
    task = at(State.RUNNING)
    seen = []
    for version in ("a", "b", "a"):
        answer = settle(task, OBSERVE, page(version))[0]
        assert isinstance(answer, Answer)
        seen.append(answer.page_version)
    assert seen == [1, 2, 1]


def test_one_call_at_a_time_and_none_unasked() -> None:
    task = at(State.RUNNING)
    with pytest.raises(LocalMisuse):
        task.settle(page("a"))
    task.call(1, OBSERVE)
    with pytest.raises(LocalMisuse):
        task.call(2, OBSERVE)


def test_the_call_limit_trips_on_the_call_after_the_last() -> None:
    task = Task(OpenTask(NAME, Browser.CHROME, None, (), 1))
    task.opened()
    task.assign("w_aaaa", 1)
    assert guards(settle(task, OBSERVE, page("a"))) == []
    assert guards(task.call(2, OBSERVE)) == [EndReason.TOOL_CALL_LIMIT]
    assert task.call(3, OBSERVE) == []  # once is enough
    assert task.finish(DONE) == []


def test_the_same_error_three_times() -> None:
    """The signature is tool and code, over the whole task (design 8)."""
    task = at(State.RUNNING)
    stale = Outcome(False, ToolErrorCode.STALE_REF)
    covered = Outcome(False, ToolErrorCode.COVERED)
    for outcome in (stale, covered, stale):
        effects = settle(task, CLICK, outcome)
        assert guards(effects) == []
        assert isinstance(effects[0], Answer)
    settle(task, OBSERVE, stale)
    effects = settle(task, CLICK, stale)
    assert guards(effects) == [EndReason.REPEATED_ERROR]
    assert not any(isinstance(effect, Answer) for effect in effects)


def test_eight_actions_without_progress() -> None:
    task = at(State.RUNNING)
    settle(task, OBSERVE, page("a"))
    for _ in range(L.MAX_WITHOUT_PROGRESS - 1):
        assert guards(settle(task, OBSERVE, page("a"))) == []
    assert guards(settle(task, OBSERVE, page("a"))) == [EndReason.NO_PROGRESS]


def test_what_counts_as_progress() -> None:
    """A new page version, a new artifact, an accepted field change; a repeated picture of one version does not."""

    def idle_after(outcome: Outcome, tool: str) -> int:
        task = at(State.RUNNING)
        settle(task, OBSERVE, page("a"))
        settle(task, SHOT, Outcome(True, page=("https://shop.example/", "a"), kept=KEPT))
        settle(task, OBSERVE, page("a"))
        settle(task, tool, outcome)
        return task._idle

    assert idle_after(page("b"), OBSERVE) == 0
    assert idle_after(Outcome(True, kept=KEPT), "browser_page_extract") == 0
    assert idle_after(Outcome(True, changes=Changes(value=True)), "browser_page_type") == 0
    assert idle_after(Outcome(True, changes=Changes(checked=False)), "browser_page_select") == 0
    assert idle_after(Outcome(True, changes=Changes(focus=True)), CLICK) == 2
    assert idle_after(Outcome(False, ToolErrorCode.INTERNAL, changes=Changes(value=True)), CLICK) == 2
    assert idle_after(Outcome(True, page=("https://shop.example/", "a"), kept=KEPT), SHOT) == 2
    assert idle_after(Outcome(True, page=("https://shop.example/", "b"), kept=KEPT), SHOT) == 0


@pytest.mark.parametrize(
    ("tool", "outcome", "verdict"),
    [
        (OBSERVE, Outcome(True, dispatched=True), SideEffects.NONE),
        (
            "browser_page_navigate",
            Outcome(True, dispatched=True, changes=Changes(url=True)),
            SideEffects.NONE,
        ),
        ("browser_tabs_open", Outcome(False, dispatched=True, may_have_effect=True), SideEffects.NONE),
        (CLICK, Outcome(False, ToolErrorCode.INVALID_ARGUMENTS), SideEffects.NONE),
        (CLICK, Outcome(False, ToolErrorCode.COVERED, dispatched=True), SideEffects.NONE),
        (
            CLICK,
            Outcome(False, ToolErrorCode.TIMEOUT, dispatched=True, may_have_effect=True),
            SideEffects.POSSIBLE,
        ),
        (CLICK, Outcome(True, dispatched=True), SideEffects.POSSIBLE),
        (CLICK, Outcome(True, dispatched=True, changes=Changes(focus=True)), SideEffects.POSSIBLE),
        (CLICK, Outcome(False, dispatched=True, answered=False), SideEffects.POSSIBLE),
        (CLICK, Outcome(True, dispatched=True, changes=Changes(url=True)), SideEffects.CONFIRMED),
        (CLICK, Outcome(True, dispatched=True, changes=Changes(page=True)), SideEffects.CONFIRMED),
        (CLICK, Outcome(True, dispatched=True, changes=Changes(new_tab=4)), SideEffects.CONFIRMED),
        (
            "browser_page_type",
            Outcome(True, dispatched=True, changes=Changes(value=True)),
            SideEffects.CONFIRMED,
        ),
        (
            "browser_page_select",
            Outcome(True, dispatched=True, changes=Changes(checked=True)),
            SideEffects.CONFIRMED,
        ),
        ("browser_page_press", Outcome(True, dispatched=True), SideEffects.POSSIBLE),
    ],
)
def test_the_verdict_on_side_effects(tool: str, outcome: Outcome, verdict: SideEffects) -> None:
    task = at(State.RUNNING)
    settle(task, tool, outcome)
    assert task.side_effects is verdict


def test_a_verdict_never_gets_weaker() -> None:
    task = at(State.RUNNING)
    settle(task, CLICK, Outcome(True, dispatched=True, changes=Changes(page=True)))
    settle(task, CLICK, Outcome(True, dispatched=True))
    assert task.side_effects is SideEffects.CONFIRMED


def test_a_worker_that_goes_settles_first() -> None:
    task = at(State.RUNNING)
    task.call(1, CLICK)
    assert task.worker_gone("w_other") == [Forgotten("w_other", 0)]
    assert task.worker_gone("w_aaaa") == [Withdraw(effect=True)]
    effects = task.settle(Outcome(False, ToolErrorCode.CANCELLED, dispatched=True, answered=False))
    assert effects[1:] == [Forgotten("w_aaaa", 1)]
    assert task.assign("w_bbbb", 2) == []
    task.call(1, OBSERVE)
    assert task.worker_gone("w_bbbb") == [Withdraw(effect=False)]
    assert task.settle(Outcome(False, ToolErrorCode.CANCELLED))[1:] == [Forgotten("w_bbbb", 0)]
    assert task.worker_gone("w_bbbb") == [Forgotten("w_bbbb", 0)]
    closed = task.close()
    assert closed == [Report(TaskClosed(NAME, SideEffects.POSSIBLE, 1, 2, ())), Release(keep_tabs=False)]


def test_an_idle_worker_goes_at_once() -> None:
    assert at(State.RUNNING).worker_gone("w_aaaa") == [Forgotten("w_aaaa", 0)]


def test_one_worker_at_a_time_and_generations_count_up() -> None:
    task = at(State.RUNNING)
    with pytest.raises(LocalMisuse):
        task.assign("w_bbbb", 2)
    task.worker_gone("w_aaaa")
    with pytest.raises(LocalMisuse):
        task.assign("w_bbbb", 1)
    with pytest.raises(LocalMisuse, match="opening"):
        Task(SPEC).assign("w_aaaa", 1)


def test_closing_waits_for_the_call_in_flight() -> None:
    task = at(State.CLOSING)
    assert task.close() == task.call(2, CLICK) == task.assign("w_bbbb", 2) == task.finish(DONE) == []
    assert task.lost(EndReason.BROWSER_LOST) == []
    assert task.worker_gone("w_aaaa") == [Withdraw(effect=True)]
    effects = task.settle(Outcome(False, ToolErrorCode.CANCELLED, dispatched=True, answered=False))
    assert effects[1:] == [
        Forgotten("w_aaaa", 1),
        Report(TaskClosed(NAME, SideEffects.POSSIBLE, 1, 1, ())),
        Release(keep_tabs=False),
    ]


def test_a_worker_forgotten_after_the_close_still_tells_what_it_left() -> None:
    task = at(State.CLOSING)
    effects = task.settle(Outcome(False, ToolErrorCode.CANCELLED, dispatched=True, answered=False))
    assert not any(isinstance(effect, Answer | Forgotten) for effect in effects)
    assert task.worker_gone("w_aaaa") == [Forgotten("w_aaaa", 1)]
    assert task.worker_gone("w_zzzz") == [Forgotten("w_zzzz", 0)]
    assert task.assign("w_bbbb", 2) == task.call(1, CLICK) == task.finish(DONE) == []


def test_a_lost_browser_is_one_guard() -> None:
    task = at(State.RUNNING)
    assert guards(task.lost(EndReason.BROWSER_LOST)) == [EndReason.BROWSER_LOST]
    assert task.lost(EndReason.BROWSER_LOST) == []
    ready = at(State.READY)
    assert ready.lost(EndReason.EXTENSION_LOST) == [Report(TaskGuard(NAME, 0, EndReason.EXTENSION_LOST))]


def test_a_guard_while_a_call_is_in_flight_leaves_it_unanswered() -> None:
    task = at(State.RUNNING)
    task.call(1, CLICK)
    assert guards(task.lost(EndReason.BROWSER_LOST)) == [EndReason.BROWSER_LOST]
    effects = task.settle(Outcome(False, ToolErrorCode.BROWSER_LOST, dispatched=True, may_have_effect=True))
    assert [type(effect) for effect in effects] == [Report]


def test_guards_end_a_generation_not_the_count() -> None:
    task = at(State.RUNNING)
    task.lost(EndReason.EXTENSION_LOST)
    task.worker_gone("w_aaaa")
    task.assign("w_bbbb", 2)
    assert task.call(1, OBSERVE) == [Run("w_bbbb", 1, OBSERVE)]


def test_a_second_guard_is_not_reported() -> None:
    task = at(State.RUNNING)
    for _ in range(2):
        settle(task, CLICK, Outcome(False, ToolErrorCode.COVERED))
    task.call(1, CLICK)
    task.lost(EndReason.BROWSER_LOST)
    assert guards(task.settle(Outcome(False, ToolErrorCode.COVERED))) == []


def test_the_claim_goes_through_customs() -> None:
    task = at(State.RUNNING)
    settle(task, "browser_page_extract", Outcome(True, kept=KEPT))
    other = Kept("art_bbbb", ArtifactKind.SCREENSHOT, 5, "1" * 64, "image/png")
    settle(task, SHOT, Outcome(True, kept=other))
    (effect,) = task.finish(DONE)
    assert isinstance(effect, Report)
    assert isinstance(effect.frame, TaskFinished)
    assert effect.frame.generation == 1
    assert [one.purpose for one in effect.frame.result.artifacts] == ["list"]
    assert task.lost(EndReason.EXTENSION_LOST) == []  # too late to matter
    assert [(one.artifact_id, one.purpose) for one in task.artifacts()] == [
        ("art_aaaa", "list"),
        ("art_bbbb", ""),
    ]
    assert task.dropped_claims == 0


def test_a_task_that_needs_a_person_keeps_its_tabs() -> None:
    task = at(State.RUNNING)
    task.finish(ResultClaim(status=ClaimStatus.NEEDS_USER_INPUT, summary=""))
    assert task.close()[-1] == Release(keep_tabs=True)


@pytest.mark.parametrize("state", [State.READY, State.RUNNING, State.CLOSING])
def test_it_is_opened_once(state: State) -> None:
    with pytest.raises(LocalMisuse, match=state.value):
        at(state).opened()
    with pytest.raises(LocalMisuse, match=state.value):
        at(state).refused(BlockerCode.OVERLOADED)
