"""Every code a host can see has a sentence and, where there is one, a next step."""

from __future__ import annotations

import errno
import re

import pytest
from browsercell.protocol.errors import BlockerCode, ToolErrorCode
from browsercell.protocol.frames import DeliveryProblem, ModelProblem, PortProblem, StateProblem
from browsercell.protocol.results import Status
from browsercell.supervisor import delivery, messages

COMMANDS = {"run", "status", "doctor", "demo", "delegate", "config show", "config schema", "config check"}


def test_every_code_has_a_sentence() -> None:
    assert set(messages.BLOCKERS) == set(messages.VERDICTS) == set(BlockerCode)
    assert set(messages.MODEL) == set(ModelProblem)
    assert set(messages.PORTS) == set(PortProblem)
    assert set(messages.SETUPS) == set(StateProblem)
    assert {problem.value for problem in DeliveryProblem} <= set(messages.DELIVERIES)


def test_every_code_that_opening_a_destination_can_give_has_a_sentence() -> None:
    assert set(delivery._CODES.values()) <= set(messages.DELIVERIES)
    assert errno.EEXIST in delivery._CODES


def test_every_tool_error_and_every_refusal_of_a_path_says_what_to_do() -> None:
    assert set(messages.TOOLS) == set(ToolErrorCode)
    assert all(messages.TOOLS.values())
    assert set(messages.TARGETS) <= set(messages.DELIVERIES)
    for code in messages.DELIVERIES:
        sentence = messages.target("prices", code)
        assert "prices" in sentence.happened
        assert sentence.next_step
        assert "then deliver again" not in sentence.next_step or code not in delivery._CODES.values()


def test_no_next_step_names_a_command_that_does_not_exist() -> None:
    steps = [sentence.next_step for sentence in all_sentences()] + list(messages.TOOLS.values())
    named = {
        match
        for step in steps
        for match in re.findall(r"[Rr]un: supervisor (\w+(?: check| show| schema)?)", step)
    }
    assert named <= COMMANDS
    loose = [step for step in steps if re.search(r"supervisor extension|see supervisor", step)]
    assert not loose


def test_a_policy_refusal_names_the_mode_in_which_the_lists_count() -> None:
    step = messages.BLOCKERS[BlockerCode.POLICY_DENIED].next_step
    assert 'network.mode = "allowlist"' in step
    assert "network.allow_hosts or network.allow_cidrs" in step


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
