"""From a claim to a result (bridge/customs.py; design 4 and 7)."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from browsercell.bridge.customs import MAX_CLAIM_BYTES, Declaration, encoded_size, pass_through
from browsercell.protocol import limits as L
from browsercell.protocol.answers import parse
from browsercell.protocol.frames import WantedDeliverable
from browsercell.protocol.results import (
    ArtifactClaim,
    ArtifactKind,
    ClaimStatus,
    FreeText,
    Policy,
    ResolvedArtifact,
    ResultClaim,
    SideEffects,
    Status,
)
from hypothesis import given, settings
from hypothesis import strategies as st

TABLE = ResolvedArtifact("art_aaaa", "", ArtifactKind.TABLE, 10, "0" * 64, "text/csv")
SHOT = ResolvedArtifact("art_bbbb", "", ArtifactKind.SCREENSHOT, 20, "1" * 64, "image/png")
DECLARED = Declaration(
    task="task_aaaa",
    deliverables=(
        WantedDeliverable("prices", ArtifactKind.TABLE),
        WantedDeliverable("view", ArtifactKind.SCREENSHOT, required=False),
    ),
    kept={"art_aaaa": TABLE, "art_bbbb": SHOT},
    url="https://shop.example/?q=tea&token=abc",
    side_effects=SideEffects.POSSIBLE,
    tool_calls=7,
)
MANY = tuple(
    WantedDeliverable(f"purpose {number:02} " + "p" * 50, ArtifactKind.TABLE) for number in range(10)
)


def claim(status: ClaimStatus = ClaimStatus.COMPLETED, **fields: object) -> ResultClaim:
    return msgspec.convert({"status": status, "summary": "Done"} | fields, ResultClaim)


def claims(*pairs: tuple[str, str]) -> list[dict[str, str]]:
    return [{"artifact_id": artifact, "purpose": purpose} for artifact, purpose in pairs]


def test_everything_but_words_comes_from_the_bridge() -> None:
    passed = pass_through(
        claim(
            artifacts=claims(("art_aaaa", "prices"), ("art_bbbb", "view")),
            completed_actions=["Searched", " "],
        ),
        DECLARED,
    )
    result = passed.result
    assert (result.status, result.execution_status, passed.dropped) == (Status.COMPLETED, Status.COMPLETED, 0)
    assert result.task_id == "task_aaaa"
    assert result.artifacts == (
        msgspec.structs.replace(TABLE, purpose="prices"),
        msgspec.structs.replace(SHOT, purpose="view"),
    )
    assert result.current_url == "https://shop.example/?q=tea&token=[secret]"
    assert (result.side_effects, result.usage.tool_calls) == (SideEffects.POSSIBLE, 7)
    assert (result.completed_actions, result.unmet_requirements) == (("Searched",), ())
    assert result.untrusted


@pytest.mark.parametrize(
    "pair",
    [
        ("art_zzzz", "prices"),  # invented, or another task's
        ("art_bbbb", "prices"),  # of another kind than wanted
        ("art_aaaa", "anything"),  # for nothing the host wanted
    ],
)
def test_a_false_claim_is_dropped_and_the_deliverable_is_missing(pair: tuple[str, str]) -> None:
    passed = pass_through(claim(artifacts=claims(pair)), DECLARED)
    assert (passed.dropped, passed.result.artifacts) == (1, ())
    assert passed.result.status is Status.PARTIAL
    assert passed.result.execution_status is Status.COMPLETED
    assert passed.result.unmet_requirements == ("deliverable prices (table) is missing",)


def test_the_first_artifact_for_a_purpose_counts() -> None:
    passed = pass_through(claim(artifacts=claims(("art_aaaa", "prices"), ("art_aaaa", "prices"))), DECLARED)
    assert (passed.dropped, len(passed.result.artifacts)) == (1, 1)


@pytest.mark.parametrize("status", [ClaimStatus.BLOCKED, ClaimStatus.FAILED, ClaimStatus.NEEDS_USER_INPUT])
def test_only_completed_becomes_partial(status: ClaimStatus) -> None:
    result = pass_through(claim(status, question="Which?", next_step="Ask"), DECLARED).result
    assert result.status.value == result.execution_status.value == status.value
    assert result.needs_user_decision == (status is ClaimStatus.NEEDS_USER_INPUT)
    assert (result.question, result.next_step) == ("Which?", "Ask")


def test_words_are_redacted_and_cut() -> None:
    result = pass_through(
        claim(
            summary="<b>Password: hunter2</b> " + "x" * 5_000,
            completed_actions=["a" * 300] * 40,
            unmet_requirements=["mail a@b.example"] * 40,
            question="q" * 2_000,
        ),
        DECLARED,
    ).result
    assert result.summary.startswith("[markup]Password: [secret]")
    assert len(result.summary) == L.MAX_SUMMARY_CHARS
    assert len(result.completed_actions) == L.MAX_ACTIONS
    assert {len(action) for action in result.completed_actions} == {L.MAX_ACTION_CHARS}
    assert len(result.question or "") == L.MAX_QUESTION_CHARS
    assert len(result.unmet_requirements) == L.MAX_UNMET
    assert result.unmet_requirements[-1] == "mail [e-mail]"
    assert result.next_step is None


def test_nothing_said_is_nothing_untrusted() -> None:
    declared = Declaration("task_aaaa", (), {}, "", SideEffects.NONE, 0)
    result = pass_through(claim(summary=""), declared).result
    assert not result.untrusted
    assert result.current_url is None
    missing = pass_through(claim(summary=""), DECLARED).result
    assert not missing.untrusted  # the bridge's own words


def test_the_largest_claim_fits_and_keeps_the_start_of_everything() -> None:
    wide = "\U0001f600"
    kept = {
        f"art_{letter}aaa": msgspec.structs.replace(TABLE, artifact_id=f"art_{letter}aaa")
        for letter in "abcdefghij"
    }
    declared = Declaration(
        "task_aaaa", MANY, kept, "https://shop.example/" + "p" * 4_000, SideEffects.CONFIRMED, 40
    )
    result = pass_through(
        claim(
            summary=wide * 20_000,
            completed_actions=[wide * 300] * 40,
            question=wide * 2_000,
            next_step=wide * 2_000,
            unmet_requirements=[wide * 300] * 40,
            artifacts=claims(*((name, item.purpose) for name, item in zip(kept, MANY, strict=True))),
        ),
        declared,
    ).result
    assert encoded_size(result) <= MAX_CLAIM_BYTES
    assert len(result.artifacts) == 10
    assert len(result.summary) == 200
    assert result.summary.startswith(wide)
    assert result.status is Status.COMPLETED
    assert (result.current_url, result.completed_actions) == (None, ())
    assert 0 < len(result.unmet_requirements) < L.MAX_UNMET


def test_a_long_summary_alone_is_hardly_cut() -> None:
    result = pass_through(claim(summary="\U0001f600" * 4_000), DECLARED).result
    assert encoded_size(result) <= MAX_CLAIM_BYTES
    assert len(result.summary) > 2_000


@settings(max_examples=50)
@given(
    st.builds(
        ResultClaim,
        status=st.sampled_from(ClaimStatus),
        summary=st.text(max_size=3_000),
        completed_actions=st.lists(st.text(max_size=300), max_size=40).map(tuple),
        question=st.none() | st.text(max_size=1_500),
        next_step=st.none() | st.text(max_size=1_500),
        artifacts=st.lists(
            st.builds(
                ArtifactClaim, st.sampled_from(["art_aaaa", "art_zzzz"]), st.sampled_from(["prices", "x"])
            ),
            max_size=20,
        ).map(tuple),
        unmet_requirements=st.lists(st.text(max_size=300), max_size=20).map(tuple),
    )
)
def test_no_claim_is_lost_or_too_large(made: ResultClaim) -> None:
    result = pass_through(made, DECLARED).result
    assert encoded_size(result) <= MAX_CLAIM_BYTES
    assert msgspec.json.decode(msgspec.json.encode(result), type=type(result)) == result


SCHEMA = parse(
    {
        "type": "object",
        "properties": {
            "found": {"type": "boolean"},
            "price": {"type": "number", "maximum": 100},
            "count": {"type": "integer"},
            "state": {"enum": ["in stock", "sold out"]},
            "day": {"type": "string", "format": "date"},
            "note": {"type": "string", "maxLength": 40},
        },
        "required": ["found", "price"],
    }
)
TYPED = replace(DECLARED, answer=SCHEMA, deliverables=())
PLAIN = replace(
    DECLARED,
    answer=parse({"type": "object", "properties": {"found": {"type": "boolean"}}, "required": ["found"]}),
    policy=Policy(free_text=FreeText.NONE),
)


def test_a_typed_answer_is_taken_as_asked_for() -> None:
    given = {
        "found": True,
        "price": 9.5,
        "count": 3.0,
        "state": "sold out",
        "day": "2026-02-01",
        "note": "fine",
    }
    result = pass_through(claim(answer=given), TYPED).result
    assert (result.status, result.untrusted) == (Status.COMPLETED, True)
    assert result.answer == given | {"count": 3}
    assert isinstance((result.answer or {})["count"], int)


def test_a_wrong_field_costs_only_itself_and_makes_the_result_partial_if_it_was_required() -> None:
    given = {"found": True, "price": 900, "state": "gone", "other": 1, "day": None}
    result = pass_through(claim(answer=given), TYPED).result
    assert (result.status, result.execution_status) == (Status.PARTIAL, Status.COMPLETED)
    assert result.answer == {"found": True}
    assert result.unmet_requirements == ("answer.price does not hold", "answer.state does not hold")
    optional = pass_through(claim(answer={"found": True, "price": 1, "state": "gone"}), TYPED).result
    assert optional.status is Status.COMPLETED
    missing = pass_through(claim(), TYPED).result
    assert (missing.answer, missing.status) == (None, Status.PARTIAL)
    assert "answer.found is missing" in missing.unmet_requirements


def test_a_task_that_failed_owes_no_answer() -> None:
    result = pass_through(claim(ClaimStatus.FAILED, answer={"price": 900}), TYPED).result
    assert (result.status, result.unmet_requirements) == (Status.FAILED, ("answer.price does not hold",))


def test_an_answer_nobody_asked_for_is_dropped() -> None:
    assert pass_through(claim(answer={"found": True}), DECLARED).result.answer is None


def test_the_texts_of_an_answer_are_redacted_and_cut() -> None:
    note = "<b>write to ann@example.com</b> password: hunter2 " + "x" * 99
    answer = pass_through(claim(answer={"found": True, "price": 1, "note": note}), TYPED).result.answer or {}
    text = answer["note"]
    assert isinstance(text, str)
    assert len(text) <= 40
    assert "ann@" not in text
    assert "<b>" not in text


def test_without_free_text_every_word_is_ours_or_the_hosts() -> None:
    passed = pass_through(
        claim(
            ClaimStatus.NEEDS_USER_INPUT,
            summary="PAGE",
            completed_actions=["PAGE"],
            question="PAGE",
            next_step="PAGE",
            unmet_requirements=["PAGE"],
            artifacts=claims(("art_aaaa", "prices"), ("art_cccc", "PAGE")),
            answer={"found": "PAGE", "PAGE": "PAGE"},
        ),
        replace(PLAIN, url="https://PAGE.example/PAGE"),
    )
    text = msgspec.json.encode(passed.result).decode()
    assert "page" not in text.lower().replace("look at the page", "")
    assert passed.result.question
    assert passed.result.current_url is None
    assert passed.result.artifacts[0].purpose == "prices"
    assert not passed.result.untrusted
    named = pass_through(
        claim(answer={"found": True}), replace(PLAIN, start_url="https://shop.example/x")
    ).result
    assert named.current_url == "https://shop.example"
    assert named.answer == {"found": True}
    assert named.status is Status.PARTIAL  # the table is missing
    assert named.unmet_requirements == ("deliverable prices (table) is missing",)


def test_long_answers_are_cut_before_a_result_is_lost() -> None:
    texts = {f"text{number}": {"type": "string", "maxLength": 1_000} for number in range(4)}
    schema = parse({"type": "object", "properties": texts | {"sure": {"type": "boolean"}}})
    declared = replace(TYPED, answer=schema)
    result = pass_through(
        claim(summary="漢" * 4_000, answer=dict.fromkeys(texts, "漢" * 1_000) | {"sure": True}), declared
    ).result
    assert encoded_size(result) <= MAX_CLAIM_BYTES
    assert result.answer is not None
    assert result.answer["sure"] is True
    assert set(result.answer) == {*texts, "sure"}
    assert not schema.problems(result.answer)


@given(
    st.dictionaries(
        st.sampled_from([*(field.name for field in SCHEMA.fields), "other"]),
        st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=80)),
    ),
    st.sampled_from(ClaimStatus),
)
def test_whatever_a_worker_answers_only_what_holds_passes(
    answer: dict[str, object], status: ClaimStatus
) -> None:
    claimed = ResultClaim(status=status, summary="Done", answer=answer)  # type: ignore[arg-type] # a worker may lie
    result = pass_through(claimed, TYPED).result
    fields = {field.name: field for field in SCHEMA.fields}
    passed = result.answer or {}
    assert all(fields[name].holds(value) for name, value in passed.items())
    assert (result.status is Status.COMPLETED) <= ({"found", "price"} <= set(passed))
    assert encoded_size(result) <= MAX_CLAIM_BYTES
