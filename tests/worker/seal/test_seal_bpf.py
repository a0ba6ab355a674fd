"""The assembler: every program is judged by what it decides, with an evaluator in place of the kernel."""

from __future__ import annotations

import random

import pytest
from browsercell.worker.seal.bpf import (
    ALLOW,
    ENOSYS,
    KILL_PROCESS,
    MAX_INSTRUCTIONS,
    Clause,
    Equals,
    Rule,
    always,
    assemble,
    encode,
    fail_with,
)

from .seal_bpf_machine import evaluate

NO = fail_with(1)


def test_default_and_single_rule() -> None:
    program = assemble([always(3, ALLOW)], default=NO, highest=10)
    assert evaluate(program, 3) == ALLOW
    assert {evaluate(program, n) for n in range(11) if n != 3} == {NO}


def test_numbers_above_the_table_get_enosys() -> None:
    program = assemble([], default=NO, highest=10)
    assert evaluate(program, 10) == NO
    assert evaluate(program, 11) == fail_with(ENOSYS)
    assert evaluate(program, 0x3FFF_FFFF) == fail_with(ENOSYS)


def test_other_architectures_and_x32_numbers_kill() -> None:
    program = assemble([always(3, ALLOW)], default=NO, highest=10)
    for arch in (0x4000_0003, 0xC000_00B7, 0):
        assert evaluate(program, 3, arch=arch) == KILL_PROCESS
    for number in (0x4000_0000, 0x4000_0003, -1):
        assert evaluate(program, number) == KILL_PROCESS


def test_first_clause_that_holds_decides() -> None:
    rule = Rule(5, (Clause((Equals(0, 1),), ALLOW), Clause((Equals(0, 2), Equals(3, 7)), fail_with(0))), NO)
    program = assemble([rule, always(6, ALLOW)], default=NO, highest=10)
    assert evaluate(program, 5, 1) == ALLOW
    assert evaluate(program, 5, 2, 0, 0, 7) == fail_with(0)
    assert evaluate(program, 5, 2, 0, 0, 8) == NO
    assert evaluate(program, 5, 3, 0, 0, 7) == NO
    assert evaluate(program, 6) == ALLOW


def test_a_clause_without_conditions_always_holds() -> None:
    program = assemble([Rule(5, (Clause((), ALLOW),), NO)], default=NO, highest=10)
    assert evaluate(program, 5, 99) == ALLOW


@pytest.mark.parametrize("wrong", [1 << 32 | 9, 1 << 63 | 9, 8, 9 << 32])
def test_all_64_bits_of_an_argument_count(wrong: int) -> None:
    program = assemble([Rule(5, (Clause((Equals(2, 9),), ALLOW),), NO)], default=NO, highest=10)
    assert evaluate(program, 5, 0, 0, 9) == ALLOW
    assert evaluate(program, 5, 0, 0, wrong) == NO


def test_a_mask_selects_bits_in_either_half() -> None:
    rule = Rule(5, (Clause((Equals(1, 0x5421, 0xFFFF_FFFF),), ALLOW),), NO)
    program = assemble([rule], default=NO, highest=10)
    assert evaluate(program, 5, 0, 0xDEAD_0000_5421) == ALLOW
    assert evaluate(program, 5, 0, 0x5422) == NO
    upper = Rule(5, (Clause((Equals(1, 1 << 40, 0xF << 40),), ALLOW),), NO)
    program = assemble([upper], default=NO, highest=10)
    assert evaluate(program, 5, 0, 1 << 40 | 0xFFFF) == ALLOW
    assert evaluate(program, 5, 0, 3 << 40) == NO
    partial = Rule(5, (Clause((Equals(0, 0x10, 0x10),), ALLOW),), NO)
    program = assemble([partial], default=NO, highest=10)
    assert evaluate(program, 5, 0x7F) == ALLOW
    assert evaluate(program, 5, 0x6F) == NO


def test_random_programs_decide_like_the_rules_say() -> None:
    chance = random.Random(7)
    for _ in range(200):
        rules = []
        for number in chance.sample(range(40), 12):
            clauses = tuple(
                Clause(
                    tuple(
                        Equals(chance.randrange(6), chance.randrange(3)) for _ in range(chance.randrange(3))
                    ),
                    fail_with(chance.randrange(100)),
                )
                for _ in range(chance.randrange(4))
            )
            rules.append(Rule(number, clauses, fail_with(chance.randrange(100, 200))))
        program = assemble(rules, default=NO, highest=39)
        table = {rule.number: rule for rule in rules}
        for _ in range(50):
            number, arguments = chance.randrange(40), [chance.randrange(3) for _ in range(6)]
            expected = NO
            if rule := table.get(number):
                expected = next(
                    (c.then for c in rule.clauses if all(arguments[e.argument] == e.value for e in c.when)),
                    rule.otherwise,
                )
            assert evaluate(program, number, *arguments) == expected


def test_what_can_not_be_right_is_refused() -> None:
    with pytest.raises(ValueError, match="two rules"):
        assemble([always(3, ALLOW), always(3, NO)], default=NO, highest=10)
    with pytest.raises(ValueError, match="unknown"):
        assemble([always(11, ALLOW)], default=NO, highest=10)
    with pytest.raises(ValueError, match="arguments 0 to 5"):
        assemble([Rule(3, (Clause((Equals(6, 0),), ALLOW),), NO)], default=NO, highest=10)
    with pytest.raises(ValueError, match="never match"):
        assemble([Rule(3, (Clause((Equals(0, 2, 1),), ALLOW),), NO)], default=NO, highest=10)
    with pytest.raises(ValueError, match="longer than a jump"):
        assemble([Rule(3, (Clause((Equals(0, 1),), ALLOW),) * 60, NO)], default=NO, highest=10)
    with pytest.raises(ValueError, match="longer than the kernel"):
        assemble([always(n, ALLOW) for n in range(MAX_INSTRUCTIONS)], default=NO, highest=MAX_INSTRUCTIONS)
    for code in (-1, 4096):
        with pytest.raises(ValueError, match="errno"):
            fail_with(code)


def test_encoding_is_eight_bytes_an_instruction() -> None:
    program = assemble([], default=NO, highest=10)
    blob = encode(program)
    assert len(blob) == 8 * len(program)
    assert blob[:8] == bytes.fromhex("2000000004000000")  # load the architecture
