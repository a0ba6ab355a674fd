"""The judge: names, arguments, corrections."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from browsercell.bridge.model.judge import (
    MAX_ARGUMENT_BYTES,
    MAX_NOTES_CHARS,
    NO_CALL,
    Accepted,
    Completion,
    Malformed,
    RawCall,
    Silent,
    Unknown,
    Verdict,
    as_object,
    judge,
)
from browsercell.protocol import limits as L
from browsercell.protocol.answers import AnswerSchema, parse
from browsercell.protocol.codec import encode
from browsercell.protocol.frames import Inference
from hypothesis import given
from hypothesis import strategies as st

CLAIM = {"status": "completed", "summary": "Done"}


def answer(*calls: RawCall, content: str = "", cut_off: bool = False) -> Completion:
    return Completion(content, calls, cut_off, prompt_tokens=10, completion_tokens=5, estimated=False)


def raw(name: str = "browser_page_observe", arguments: object = "{}", call_id: str = "c1") -> RawCall:
    return RawCall(call_id, name, arguments)


def accepted(*calls: RawCall, content: str = "") -> Accepted:
    verdict = judge(answer(*calls, content=content))
    assert isinstance(verdict, Accepted)
    return verdict


def test_tokens_are_prompt_and_completion() -> None:
    assert answer().tokens == 15


def test_valid_calls_are_accepted_in_order_and_in_canonical_form() -> None:
    verdict = accepted(
        raw(arguments='{ "mode": "summary", "max_chars": 500 }'),
        raw("browser_page_click", '{"ref":"e1","name":null}', "c2"),
        content="plan",
    )
    assert [(call.id, call.name, call.arguments) for call in verdict.calls] == [
        ("c1", "browser_page_observe", '{"max_chars":500}'),
        ("c2", "browser_page_click", '{"ref":"e1"}'),
    ]
    assert (verdict.content, verdict.concludes) == ("plan", False)


def test_the_final_claim_is_accepted_and_marked() -> None:
    verdict = accepted(raw("structured_output", json.dumps(CLAIM)))
    assert verdict.concludes
    assert json.loads(verdict.calls[0].arguments) == CLAIM


@pytest.mark.parametrize(
    "name", ["browser_page_evaluate", "functions.browser_page_click", "", "Browser_Page_Click"]
)
def test_a_tool_that_was_not_offered_is_unknown_even_among_good_ones(name: str) -> None:
    assert judge(answer(raw(), raw(name))) == Unknown()
    assert judge(answer(*[raw(call_id=str(number)) for number in range(20)], raw(name))) == Unknown()


@pytest.mark.parametrize(
    ("arguments", "value"),
    [
        ("{}", {}),
        ("", {}),
        ("  ", {}),
        (None, {}),
        ("null", {}),
        ({}, {}),
        ({"mode": "summary"}, {"mode": "summary"}),
        ('"{\\"mode\\": \\"summary\\"}"', {"mode": "summary"}),
        ('""', {}),
        ('"\\"{}\\""', None),
        ("[]", None),
        ("1", None),
        ("{", None),
        ('{"mode": "\\ud800"}', None),
        ("\ud800", None),
        ("[" * 100_000, None),
    ],
)
def test_arguments_come_in_many_forms(arguments: object, value: Any) -> None:
    assert as_object(arguments) == value


@given(
    st.one_of(
        st.text(), st.none(), st.integers(), st.lists(st.text()), st.dictionaries(st.text(), st.integers())
    )
)
def test_no_arguments_raise(arguments: object) -> None:
    assert isinstance(judge(answer(raw("browser_page_navigate", arguments))), Accepted | Malformed)
    assert isinstance(judge(answer(raw("structured_output", arguments))), Accepted | Malformed)


@pytest.mark.parametrize(
    ("name", "arguments", "reason"),
    [
        ("browser_page_observe", '{"mode":"everything"}', "Not one of the allowed values"),
        ("browser_page_observe", '{"depth":3}', "unknown field `depth`"),
        ("browser_page_observe", "{oops", "not a JSON object"),
        ("browser_page_click", "{}", "give exactly one of ref, name, target"),
        ("browser_page_click", '{"target":{"role":"button"}}', "unknown field `target`"),
        ("browser_page_observe", {"mode": "\ud800"}, "can't be read"),
        ("structured_output", '{"status":"completed"}', "missing required field `summary`"),
    ],
)
def test_malformed_arguments_get_a_correction_that_names_the_fault(
    name: str, arguments: object, reason: str
) -> None:
    verdict = judge(answer(raw(name, arguments, "bad"), raw("browser_status", "{}", "good"), content="words"))
    assert isinstance(verdict, Malformed)
    asked, bad, good = verdict.correction
    assert (asked["role"], asked["content"]) == ("assistant", "words")
    assert [call["id"] for call in asked["tool_calls"]] == ["bad", "good"]
    for call in asked["tool_calls"]:
        assert isinstance(json.loads(call["function"]["arguments"]), dict)
    assert (bad["role"], bad["tool_call_id"]) == ("tool", "bad")
    assert reason in bad["content"]
    assert "another call of this answer was malformed" in good["content"]


def test_an_answer_cut_off_at_its_limit_is_told_to_be_shorter() -> None:
    verdict = judge(answer(raw(arguments='{"mode":"summ'), cut_off=True))
    assert isinstance(verdict, Malformed)
    assert "make it shorter" in verdict.correction[1]["content"]


def test_arguments_too_long_together_are_malformed() -> None:
    text = "x" * (MAX_ARGUMENT_BYTES // 10)
    calls = [
        raw("structured_output", {"status": "failed", "summary": text}, str(number)) for number in range(10)
    ]
    verdict = judge(answer(*calls))
    assert isinstance(verdict, Malformed)
    assert len(msgspec.json.encode(verdict.correction)) < 2 * MAX_ARGUMENT_BYTES
    one = judge(answer(raw("structured_output", {"status": "failed", "summary": "x" * MAX_ARGUMENT_BYTES})))
    assert isinstance(one, Malformed)
    assert one.correction[0]["tool_calls"][0]["function"]["arguments"] == "{}"


def test_the_largest_accepted_answer_fits_its_frame() -> None:
    text = "\U0001f375" * (MAX_ARGUMENT_BYTES // 16 // 4 - 50)
    calls = [
        raw("structured_output", {"status": "failed", "summary": text}, f"{number:080d}")
        for number in range(L.MAX_TOOL_CALLS_PER_STEP)
    ]
    verdict = accepted(*calls, content="\U0001f375" * MAX_NOTES_CHARS)
    frame = Inference(call=1, tool_calls=verdict.calls, content=verdict.content)
    assert len(encode(frame, L.MAX_MODEL_TO_WORKER)) > MAX_ARGUMENT_BYTES - 4_000


def test_no_call_gets_a_correction() -> None:
    assert judge(answer(content="The price is 3")) == Silent(
        ({"role": "assistant", "content": "The price is 3"}, {"role": "user", "content": NO_CALL})
    )
    verdict = judge(answer())
    assert isinstance(verdict, Silent)
    assert verdict.correction[0]["content"] == "(no answer)"


def test_only_the_first_sixteen_calls_are_kept() -> None:
    calls = [raw(call_id=str(number)) for number in range(L.MAX_TOOL_CALLS_PER_STEP + 4)]
    assert len(accepted(*calls).calls) == L.MAX_TOOL_CALLS_PER_STEP


def test_ids_are_unique_and_bounded_whatever_the_server_sent() -> None:
    ids = [
        call.id
        for call in accepted(raw(call_id=""), raw(call_id="a"), raw(call_id="a"), raw(call_id="x" * 81)).calls
    ]
    assert len(set(ids)) == 4
    assert ids[1] == "a"
    assert all(0 < len(call_id) <= 80 for call_id in ids)


def test_notes_are_cut() -> None:
    assert len(accepted(raw(), content="n" * 10_000).content) == MAX_NOTES_CHARS


SCHEMA = parse(
    {
        "type": "object",
        "properties": {
            "found": {"type": "boolean"},
            "note": {"type": "string", "maxLength": 5},
            "n": {"type": "integer"},
        },
        "required": ["found"],
    }
)


def claimed(lenient: bool = False, schema: AnswerSchema | None = SCHEMA, **fields: object) -> Verdict:
    return judge(answer(raw("structured_output", CLAIM | fields)), schema, lenient=lenient)


def arguments_of(verdict: Verdict) -> dict[str, object]:
    assert isinstance(verdict, Accepted)
    made: dict[str, object] = json.loads(verdict.calls[0].arguments)
    return made


def test_a_typed_answer_that_holds_is_passed_on() -> None:
    given = {"found": True, "note": "abc", "n": None}
    assert arguments_of(claimed(answer=given))["answer"] == {"found": True, "note": "abc"}


def test_a_wrong_answer_is_corrected_once_and_then_left_to_customs() -> None:
    wrong = {"found": "yes", "note": 3, "n": 2**70}
    verdict = claimed(answer=wrong)
    assert isinstance(verdict, Malformed)
    told = verdict.correction[1]["content"]
    assert "answer.found is not true or false" in told
    assert "yes" not in told
    assert "answer" not in arguments_of(claimed(lenient=True, answer=wrong))
    assert arguments_of(claimed(lenient=True, answer=wrong | {"found": True, "note": "too long"}))[
        "answer"
    ] == {
        "found": True,
        "note": "too long",
    }


def test_a_task_that_is_not_completed_owes_no_answer() -> None:
    assert "answer" not in arguments_of(claimed(status="blocked", answer={"found": 1}))


def test_an_answer_nobody_asked_for_is_dropped() -> None:
    assert "answer" not in arguments_of(claimed(schema=None, answer={"found": True}))
