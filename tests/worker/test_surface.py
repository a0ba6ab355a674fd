"""The surface: constant prefix, one step's page data, always within its frame."""

from __future__ import annotations

import msgspec
from browsercell.protocol import limits as L
from browsercell.protocol.codec import encode
from browsercell.protocol.errors import ToolErrorCode
from browsercell.protocol.frames import (
    Assignment,
    ChatMessage,
    ChatRole,
    Infer,
    LedgerEntry,
    ToolResult,
    WantedDeliverable,
)
from browsercell.protocol.results import Actions, ArtifactKind, FreeText, Policy
from browsercell.worker.envelope import CLOSE, OPEN
from browsercell.worker.ledger import EXPIRED, SHOWN, Ledger
from browsercell.worker.surface import (
    MAX_ANSWERS_BYTES,
    MAX_NOTES_CHARS,
    NOT_RUN,
    SYSTEM,
    LastStep,
    build,
    task_text,
)

from tests.worker.builders import BOUNDARY, assignment, bad, chat_call, ok


def surface(
    last: LastStep | None = None,
    ledger: Ledger | None = None,
    *,
    steps: int = 5,
    calls: int = 9,
    task: Assignment | None = None,
) -> tuple[ChatMessage, ...]:
    """A surface of a usual task."""
    return build(
        task or assignment(),
        ledger or Ledger(),
        last,
        steps_left=steps,
        calls_left=calls,
        boundary=BOUNDARY,
    )


def test_the_first_surface_is_system_and_task() -> None:
    system, user = surface()
    assert system.role is ChatRole.SYSTEM
    assert system.content == SYSTEM
    assert user.role is ChatRole.USER
    assert user.content == (
        "Goal:\nFind the price of tea\n\nConstraints:\n- Buy nothing\n\n"
        "Deliverables (claim each artifact by its id under exactly this purpose):\n"
        "- prices: table, required\n- picture: screenshot, optional\n\n"
        "Start URL: https://shop.example/\n\n"
        "Budget left: 5 turns (this one included), 9 tool calls.\n\nLedger of calls so far:\n(none)"
    )


def test_a_bare_task_has_only_a_goal() -> None:
    assert (
        task_text(assignment(constraints=(), deliverables=(), start_url=None))
        == "Goal:\nFind the price of tea"
    )


def test_the_last_turn_and_the_last_call_say_so() -> None:
    assert "This is the last turn: call structured_output now." in surface(steps=1)[1].content
    assert "No tool call is left: call structured_output now." in surface(calls=0)[1].content


def test_results_of_the_last_step_are_wrapped_and_facts_stand_outside() -> None:
    calls = (
        chat_call("browser_page_observe", call_id="a"),
        chat_call("browser_page_click", {"ref": "e1"}, "b"),
    )
    failure = bad(
        ToolErrorCode.STALE_REF,
        "words of the bridge",
        retryable=True,
        may_have_effect=True,
        refs_valid=False,
        next_tool="browser_page_observe",
    )
    ledger = Ledger()
    ledger.add("browser_status", ok())
    ledger.add("browser_page_observe", ok("page"))
    ledger.add("browser_page_click", failure)
    messages = surface(LastStep("notes", calls, (ok("page", artifact="art-aaaa"), failure)), ledger)
    assistant, first, second = messages[2:]
    assert (assistant.role, assistant.content, assistant.tool_calls) == (ChatRole.ASSISTANT, "notes", calls)
    assert (first.role, first.tool_call_id, second.tool_call_id) == (ChatRole.TOOL, "a", "b")
    opening, closing = (
        f"{OPEN}untrusted page data {BOUNDARY}{CLOSE}",
        f"{OPEN}end of untrusted page data {BOUNDARY}{CLOSE}",
    )
    assert first.content == f"ok. Artifact: art-aaaa.\n{opening}\npage\n{closing}"
    assert second.content == (
        "failed: stale-ref. It may have had an effect. Trying again may help. Refs are no longer valid. "
        f"Recommended next: browser_page_observe.\n{opening}\nwords of the bridge\n{closing}"
    )
    lines = messages[1].content.splitlines()[-3:]
    assert [line.rsplit("; ")[-1] for line in lines] == [EXPIRED, SHOWN, SHOWN]


def test_empty_results_and_calls_that_were_not_run() -> None:
    calls = (chat_call("browser_page_click", call_id="a"), chat_call("browser_page_click", call_id="b"))
    last = LastStep("", calls, (bad(None, next_tool="rm -rf"), None))
    first, second = surface(last)[3:]
    assert first.content == "failed: no code."  # and a recommendation that is no tool of ours is left out
    assert second.content == NOT_RUN


def test_notes_are_cut() -> None:
    last = LastStep("n" * (MAX_NOTES_CHARS + 1), (chat_call("browser_status"),), (ok(),))
    assert surface(last)[2].content == "n" * MAX_NOTES_CHARS


def test_answers_share_a_bound_and_the_newest_are_served_first() -> None:
    calls = tuple(chat_call("browser_page_observe", call_id=f"c{number}") for number in range(3))
    big = "ä" * (MAX_ANSWERS_BYTES // 2 - 1)  # two bytes less than the bound each
    answers = surface(LastStep("", calls, (ok("old"), ok(big), ok("n" * 3))))[3:]
    assert "nnn" in answers[2].content
    assert "cut here" in answers[1].content
    assert "ä" * 100 in answers[1].content
    assert "cut here" in answers[0].content
    assert "old" not in answers[0].content


def test_the_largest_surface_fits_its_frame() -> None:
    calls = tuple(
        chat_call("browser_page_type", {"ref": "e1", "text": "x" * 7_900}, f"{number:080d}")
        for number in range(16)
    )
    results: tuple[ToolResult, ...] = tuple(ok("\U0001f375" * L.MAX_EXTRACT_CHARS) for _ in calls)
    ledger = Ledger(
        LedgerEntry(tool="browser_page_screenshot", ok=False, code=ToolErrorCode.BLOCKED_BY_DIALOG)
        for _ in range(L.MAX_LEDGER)
    )
    messages = surface(
        LastStep("\U0001f375" * MAX_NOTES_CHARS, calls, results),
        ledger,
        task=assignment(
            goal="\U0001f375" * L.MAX_GOAL_CHARS,
            constraints=("\U0001f375" * L.MAX_CONSTRAINT_CHARS,) * L.MAX_CONSTRAINTS,
            start_url="\U0001f375" * L.MAX_URL_CHARS,
            deliverables=(WantedDeliverable("p" * 64, ArtifactKind.SCREENSHOT),) * 10,
        ),
    )
    data = encode(Infer(call=1, messages=messages), L.MAX_WORKER_TO_MODEL)
    assert len(data) > MAX_ANSWERS_BYTES


def test_size_depends_on_one_step_not_on_the_number_of_steps() -> None:
    step = LastStep("", (chat_call("browser_page_observe"),), (ok("p" * 5_000),))
    few, many = Ledger(), Ledger()
    few.add("browser_page_observe", ok("p" * 5_000))
    for _ in range(30):
        many.add("browser_page_observe", ok("p" * 5_000))
    sizes = [sum(len(message.content) for message in surface(step, ledger)) for ledger in (few, many)]
    assert sizes[1] - sizes[0] < 30 * 160  # a ledger line each


def test_what_the_bridge_will_refuse_and_the_wanted_answer_are_said() -> None:
    policy = Policy(origins=("https://shop.example",), actions=Actions.READ, free_text=FreeText.NONE)
    text = task_text(msgspec.structs.replace(assignment(), answer=b"{}", policy=policy))
    for words in (
        "only read",
        "https://shop.example",
        "do not reach the user",
        "`answer` of structured_output",
    ):
        assert words in text
    assert "only read" not in task_text(assignment())
