"""The llm planner: one inference a step, calls in order, stop at the first failure."""

from __future__ import annotations

from typing import Any

import pytest
from browsercell.protocol.errors import LocalMisuse, PeerViolation, ToolErrorCode
from browsercell.protocol.results import ClaimStatus
from browsercell.worker.planners import make
from browsercell.worker.planners.base import Action, Begin, CallTool, Conclude, Settled, Think, Thought
from browsercell.worker.planners.llm import LlmPlanner
from browsercell.worker.surface import NOT_RUN

from tests.worker.builders import BOUNDARY, assignment, bad, chat_call, inference, ok


class Run:
    """Feeds one planner."""

    def __init__(self, **fields: Any) -> None:
        self.planner = make(assignment(**fields))
        assert isinstance(self.planner, LlmPlanner)

    def begin(self) -> Think:
        return think(self.planner.handle(Begin(), BOUNDARY))

    def thought(self, *calls: Any, content: str = "") -> Action:
        return self.planner.handle(Thought(inference(*calls, content=content)), BOUNDARY)

    def settled(self, result: Any) -> Action:
        return self.planner.handle(Settled(result), BOUNDARY)


def think(action: Action) -> Think:
    assert isinstance(action, Think)
    return action


def text(action: Action) -> str:
    return "\n".join(message.content for message in think(action).messages)


def test_calls_of_one_inference_run_in_order_and_their_results_are_the_next_surface() -> None:
    run = Run()
    assert "8 turns" in text(run.begin())
    first = run.thought(
        chat_call("browser_page_observe"),
        chat_call("browser_page_click", {"ref": "e1"}, "c2"),
        content="plan",
    )
    assert first == CallTool("browser_page_observe", b"{}")
    assert run.settled(ok("page one", left=19)) == CallTool("browser_page_click", b'{"ref": "e1"}')
    surface = text(run.settled(ok("clicked", left=18)))
    assert "page one" in surface
    assert "clicked" in surface
    assert "plan" in surface
    assert "7 turns (this one included), 18 tool calls" in surface


def test_only_the_last_steps_page_data_is_in_a_surface() -> None:
    run = Run()
    run.begin()
    run.thought(chat_call("browser_page_observe"))
    assert "page one" in text(run.settled(ok("page one")))
    run.thought(chat_call("browser_page_type", {"ref": "e1", "text": "typed words"}), content="notes one")
    second = text(run.settled(ok("page two")))
    assert "page two" in second
    assert "page one" not in second
    run.thought(chat_call("browser_page_observe"))
    third = think(run.settled(ok("page three")))
    sent = repr(third)
    assert "page two" not in sent
    assert "typed words" not in sent
    assert "notes one" not in sent


def test_after_a_failure_the_rest_of_the_step_is_not_run() -> None:
    run = Run()
    run.begin()
    run.thought(
        chat_call("browser_page_click", {"ref": "e1"}, "a"),
        chat_call("browser_page_click", {"ref": "e2"}, "b"),
        chat_call("structured_output", {"status": "completed", "summary": "done"}, "c"),
    )
    messages = think(run.settled(bad(ToolErrorCode.STALE_REF))).messages
    assert [message.tool_call_id for message in messages[3:]] == ["a", "b", "c"]
    assert [message.content for message in messages[4:]] == [NOT_RUN, NOT_RUN]


def test_structured_output_ends_the_task_where_it_stands() -> None:
    run = Run()
    run.begin()
    claim = {
        "status": "completed",
        "summary": "done",
        "artifacts": [{"artifact_id": "art-aaaa", "purpose": "prices"}],
    }
    assert run.thought(
        chat_call("browser_page_observe"),
        chat_call("structured_output", claim),
        chat_call("browser_page_observe"),
    ) == CallTool("browser_page_observe", b"{}")
    end = run.settled(ok("page"))
    assert isinstance(end, Conclude)
    assert end.claim.status is ClaimStatus.COMPLETED
    assert end.claim.artifacts[0].artifact_id == "art-aaaa"


def test_the_budget_never_reads_below_zero() -> None:
    run = Run(steps=0)
    assert "0 turns" in text(run.begin())
    run.thought(chat_call("browser_page_observe"))
    assert "0 turns" in text(run.settled(ok()))


@pytest.mark.parametrize(
    "call",
    [
        chat_call("browser_page_evaluate"),
        chat_call("structured_output", {"status": "perfect", "summary": ""}),
        chat_call("structured_output", "{"),
    ],
)
def test_what_the_model_bridge_should_have_refused_is_its_violation(call: Any) -> None:
    run = Run()
    run.begin()
    with pytest.raises(PeerViolation):
        run.thought(call)


def test_a_result_that_nobody_asked_for_is_our_own_bug() -> None:
    run = Run()
    run.begin()
    with pytest.raises(LocalMisuse):
        run.settled(ok())
