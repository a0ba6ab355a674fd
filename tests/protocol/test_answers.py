"""Which answer schemas a host may ask for, and which values hold (protocol/answers.py)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from browsercell.protocol import limits as L
from browsercell.protocol.answers import MAX_EXACT, decode, describe, encode_schema, is_date, parse
from browsercell.protocol.errors import UsageError
from hypothesis import given
from hypothesis import strategies as st

FIELDS: dict[str, Any] = {
    "found": {"type": "boolean", "description": "Is it there?"},
    "count": {"type": "integer", "minimum": 0, "maximum": 10},
    "price": {"type": "number", "minimum": 0.5},
    "state": {"enum": ["in stock", "sold out"]},
    "size": {"type": "string", "enum": ["s", "m"]},
    "day": {"type": "string", "format": "date", "title": "Day"},
    "note": {"type": "string", "maxLength": 5},
}
GOOD: dict[str, Any] = {
    "found": True, "count": 3, "price": 0.5, "state": "sold out", "size": "m", "day": "2024-02-29", "note": "abcde",
}  # fmt: skip


def schema(properties: object = None, **more: object) -> dict[str, Any]:
    return {"type": "object", "properties": FIELDS if properties is None else properties, **more}


def one(spec: object) -> dict[str, Any]:
    return schema({"x": spec})


def test_every_kind_is_read_and_a_good_answer_holds() -> None:
    made = parse(schema(required=["found"], additionalProperties=False))
    assert made.problems(GOOD) == []
    assert made.problems({"found": False}) == []
    assert made.free_text
    assert not parse(one({"enum": ["a"]})).free_text


def test_a_schema_survives_its_frame() -> None:
    made = parse(schema({"$": {}} and FIELDS, title="T"))
    assert decode(encode_schema(made)) == made
    assert decode(encode_schema(None)) is None


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("found", 1, "true or false"),
        ("count", True, "an integer from 0 to 10"),
        ("count", 11, "an integer from 0 to 10"),
        ("count", 2.5, "an integer from 0 to 10"),
        ("count", 10**400, "an integer from 0 to 10"),
        ("price", 0.25, f"a number from 0.5 to {MAX_EXACT}"),
        ("price", float("nan"), "a number"),
        ("price", float("inf"), "a number"),
        ("price", True, "a number"),
        ("state", "In stock", "one of its enum values"),
        ("state", 3, "one of its enum values"),
        ("day", "2023-02-29", "a date"),
        ("note", "abcdef", "text of at most 5 characters"),
        ("note", None, "text of at most 5 characters"),
    ],
)
def test_a_wrong_value_is_named_and_never_quoted(name: str, value: object, words: str) -> None:
    (problem,) = parse(schema()).problems({name: value})
    assert problem.startswith(f"answer.{name} is not ")
    assert words in problem
    assert "stock" not in problem


def test_what_is_missing_and_what_nobody_asked_for_is_told() -> None:
    made = parse(schema(required=["day"]))
    assert made.problems({"other": 1}) == [
        "answer.day is missing",
        "answer: there is a field that was not asked for",
    ]


def test_a_whole_number_is_an_integer_however_it_is_written() -> None:
    (field,) = parse(one({"type": "integer"})).fields
    assert (field.read(3.0), field.read(3.5), field.read("3")) == (3, 3.5, "3")
    assert isinstance(field.read(3.0), int)
    assert describe(field) == f"an integer from {-MAX_EXACT} to {MAX_EXACT}"


@pytest.mark.parametrize(
    "raw",
    [
        None,
        [],
        {"type": "array", "items": {}},
        {"type": "object"},
        schema(additionalProperties=True),
        schema(patternProperties={}),
        schema({}),
        schema({f"f{number}": {"type": "boolean"} for number in range(L.MAX_ANSWER_FIELDS + 1)}),
        schema(required="found"),
        schema(required=["nobody"]),
        schema(required=[3]),
        schema(description="x" * 501),
        schema({"two words": {"type": "boolean"}}),
        one(True),
        one({}),
        one({"type": "object", "properties": {}}),
        one({"type": ["string", "null"], "maxLength": 3}),
        one({"type": "array"}),
        one({"type": "boolean", "default": True}),
        one({"type": "boolean", "x-own": 1}),
        one({"type": "boolean", "title": 3}),
        one({"type": "string"}),
        one({"type": "string", "maxLength": True}),
        one({"type": "string", "maxLength": 0}),
        one({"type": "string", "maxLength": 5, "pattern": "a"}),
        one({"type": "string", "format": "email"}),
        one({"type": "integer", "minimum": 3, "maximum": 2}),
        one({"type": "integer", "minimum": True}),
        one({"type": "number", "maximum": "9"}),
        one({"type": "number", "maximum": 2**60}),
        one({"enum": []}),
        one({"enum": "abc"}),
        one({"enum": ["a", "a"]}),
        one({"enum": [1]}),
        one({"enum": ["x" * 101]}),
        schema({f"f{number}": {"type": "string", "maxLength": 2_001} for number in range(2)}),
        schema({f"f{number}": {"type": "boolean", "description": "x" * 400} for number in range(25)}),
    ],
)  # fmt: skip
def test_what_is_not_in_the_subset_is_refused_with_a_sentence(raw: object) -> None:
    with pytest.raises(UsageError) as caught:
        parse(raw)
    assert str(caught.value).startswith("the answer schema ")
    assert caught.value.next_step


@pytest.mark.parametrize("text", ["2026-01-31", "2000-02-29", "0001-01-01", "9999-12-31"])
def test_days_that_exist(text: str) -> None:
    assert is_date(text)


@pytest.mark.parametrize(
    "text",
    ["2026-13-01", "2026-00-01", "2026-04-31", "1900-02-29", "0000-01-01", "26-1-1", "2026-01-31T00", "٢٠٢٦-٠١-٣١", "", None, 20260131],
)  # fmt: skip
def test_days_that_do_not(text: object) -> None:
    assert not is_date(text)


@given(
    st.dictionaries(
        st.sampled_from([*FIELDS, "other"]),
        st.one_of(st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.none()),
    )
)
def test_what_has_no_problem_is_made_of_the_asked_kinds(answer: dict[str, Any]) -> None:
    made = parse(schema())
    if made.problems(answer):
        return
    fields = {field.name: field for field in made.fields}
    assert all(fields[name].holds(fields[name].read(value)) for name, value in answer.items())
    assert len(msgspec.json.encode(answer)) < 4_096
