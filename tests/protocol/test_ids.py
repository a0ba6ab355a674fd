"""ids: one spelling per value, bounds, blame."""

from __future__ import annotations

import pytest
from browsercell.protocol.errors import LocalMisuse, PeerViolation
from browsercell.protocol.ids import MAX_ID_CHARS, is_id, make_id, parse_id
from browsercell.protocol.new_id import new_id
from hypothesis import given
from hypothesis import strategies as st


def test_known_value() -> None:
    assert make_id("task", bytes(range(16))) == "task_aaaqeayeaudaocajbifqydiob4"


@given(st.binary(min_size=16, max_size=16), st.from_regex(r"[a-z]{1,8}", fullmatch=True))
def test_round_trip(random: bytes, prefix: str) -> None:
    text = make_id(prefix, random)
    assert len(text) <= MAX_ID_CHARS
    assert parse_id(text, prefix) == text


@given(st.text(max_size=40))
def test_anything_else_is_refused_or_canonical(text: str) -> None:
    if is_id(text, "task"):
        assert text.startswith("task_")
        assert len(text) == 31
    else:
        with pytest.raises(PeerViolation) as caught:
            parse_id(text, "task")
        assert str(caught.value) == "malformed task id"


@pytest.mark.parametrize(
    "text",
    [
        "task",
        "task_",
        "other_aaaqeayeaudaocajbifqydiob4",
        "task_AAAQEAYEAUDAOCAJBIFQYDIOB4",
        "task_aaaqeayeaudaocajbifqydiob5",  # same 128 bits, spare bits set: a second spelling
        "task_aaaqeayeaudaocajbifqydiob",
        "task_aaaqeayeaudaocajbifqydiob4\n",
        "task_aaaqeayeaudaocajbifqydiob1",
    ],
)
def test_refused_spellings(text: str) -> None:
    assert not is_id(text, "task")


def test_an_invalid_prefix_never_matches() -> None:
    assert not is_id("Task_aaaqeayeaudaocajbifqydiob4", "Task")


@pytest.mark.parametrize("prefix", ["", "Task", "toolonggg", "a_b", "a1"])
def test_prefix_is_ours_to_get_right(prefix: str) -> None:
    with pytest.raises(LocalMisuse):
        make_id(prefix, bytes(16))


def test_byte_count_is_ours_to_get_right() -> None:
    with pytest.raises(LocalMisuse):
        make_id("task", bytes(15))


def test_new_ids_differ() -> None:
    ids = {new_id("call") for _ in range(1000)}
    assert len(ids) == 1000
    assert all(is_id(text, "call") for text in ids)
