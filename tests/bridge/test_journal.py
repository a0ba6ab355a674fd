"""The log holds no content, whatever is handed to it (bridge/journal.py)."""

from __future__ import annotations

import io
import json
import logging
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from browsercell.bridge.journal import note, setup, where

OURS = logging.getLogger("browsercell.bridge.test")


@pytest.fixture
def stream(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    root, ours = logging.getLogger(), logging.getLogger("browsercell")
    before = (root.handlers[:], root.level, ours.level)
    made = io.StringIO()
    monkeypatch.setattr(sys, "stderr", made)
    setup()
    yield made
    root.handlers[:], level, ours_level = before
    root.setLevel(level)
    ours.setLevel(ours_level)


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_one_structured_line_an_effect(stream: io.StringIO) -> None:
    note(OURS, "call-settled", task="task_aaaa", generation=2, ok=True, code=None, seconds=0.5)
    note(OURS, "too-fine", logging.DEBUG)
    (line,) = lines(stream)
    assert line.pop("at").endswith("Z")
    assert line == {
        "level": "info",
        "actor": "bridge.test",
        "event": "call-settled",
        "task": "task_aaaa",
        "generation": 2,
        "ok": True,
        "code": None,
        "seconds": 0.5,
    }


@pytest.mark.parametrize("value", ["two words", "x" * 81, "<b>", "line\n", b"bytes", ["list"], {"a": 1}])
def test_what_is_no_id_code_or_number_is_left_out(stream: io.StringIO, value: object) -> None:
    note(OURS, "event", field=value)
    assert lines(stream)[0]["field"] == f"<{type(value).__name__}>"


def test_other_libraries_messages_and_all_exception_texts_are_left_out(stream: io.StringIO) -> None:
    with pytest.raises(ValueError, match="page text") as caught:
        raise ValueError("page text")
    error = caught.value
    logging.getLogger("websockets").error("page text %s", error, exc_info=error)
    OURS.error("event", exc_info=error)
    OURS.error(error)
    assert where(error).startswith("ValueError:test_journal.py:")
    logging.getLogger("websockets").info("page text")
    logging.getLogger("asyncio").warning("page text")
    assert "page text" not in stream.getvalue()
    assert [line["actor"] for line in lines(stream)] == [
        "websockets",
        "bridge.test",
        "bridge.test",
        "asyncio",
    ]
    assert lines(stream)[0]["error"].startswith("ValueError:")
    assert lines(stream)[2]["event"] == "ValueError"
    assert where(ValueError("never raised")) == "ValueError"
