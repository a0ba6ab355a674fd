"""From a claim to a result (bridge/customs.py; design 4 and 7)."""

from __future__ import annotations

import msgspec
import pytest
from browsercell.bridge.customs import MAX_CLAIM_BYTES, Declaration, encoded_size, pass_through
from browsercell.protocol import limits as L
from browsercell.protocol.frames import WantedDeliverable
from browsercell.protocol.results import (
    ArtifactClaim,
    ArtifactKind,
    ClaimStatus,
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
