"""Every code a host can see has a sentence and, where there is one, a next step."""

from __future__ import annotations

import errno
import re

import pytest
from browsercell.protocol.errors import BlockerCode
from browsercell.protocol.frames import DeliveryProblem, ModelProblem, PortProblem, StateProblem
from browsercell.protocol.results import Status
from browsercell.supervisor import delivery, messages


def test_every_code_has_a_sentence() -> None:
    assert set(messages.BLOCKERS) == set(messages.VERDICTS) == set(BlockerCode)
    assert set(messages.MODEL) == set(ModelProblem)
    assert set(messages.PORTS) == set(PortProblem)
    assert set(messages.SETUPS) == set(StateProblem)
    assert {problem.value for problem in DeliveryProblem} <= set(messages.DELIVERIES)


def test_every_code_that_opening_a_destination_can_give_has_a_sentence() -> None:
    assert set(delivery._CODES.values()) <= set(messages.DELIVERIES)
    assert errno.EEXIST in delivery._CODES


def all_sentences() -> list[messages.Sentence]:
    tables = (messages.BLOCKERS, messages.MODEL, messages.PORTS, messages.SETUPS, messages.DELIVERIES)
    lone = [value for value in vars(messages).values() if isinstance(value, messages.Sentence)]
    return [sentence for table in tables for sentence in table.values() if sentence.happened] + lone


@pytest.mark.parametrize("sentence", all_sentences(), ids=lambda s: s.happened[:40])
def test_sentences_read_as_sentences(sentence: messages.Sentence) -> None:
    assert re.match(r"[A-Z]", sentence.happened)
    assert not sentence.happened.endswith(".")
    assert len(sentence.happened) + len(sentence.next_step) < 300


@pytest.mark.parametrize("code", list(BlockerCode))
def test_only_a_cancelled_task_leaves_nothing_to_do(code: BlockerCode) -> None:
    assert bool(messages.BLOCKERS[code].next_step) == (code is not BlockerCode.CANCELLED)
    assert messages.VERDICTS[code].status in (Status.BLOCKED, Status.FAILED)
