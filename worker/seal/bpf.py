"""Assembles a seccomp filter from rules.

Pure: data in, instructions out; no kernel, no ctypes, no policy.

A filter is a list of `Rule`s, at most one per call number. The program it becomes:

1. another architecture than x86-64, or an x32 number: kill the process (both would bypass the table);
2. a number above the table: ENOSYS, so that the C library falls back to the older call;
3. per rule: the first clause whose conditions all hold decides, else the rule's `otherwise`;
4. no rule: the default.

Conditions compare all 64 bits of an argument (or those under a mask): the kernel ignores the upper half of an `int`
argument, so comparing strictly refuses a few odd callers and never lets one through.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

ALLOW = 0x7FFF_0000
KILL_PROCESS = 0x8000_0000
_ERRNO = 0x0005_0000

ARCH_X86_64 = 0xC000_003E
X32_BIT = 0x4000_0000
ENOSYS = 38
ALL_BITS = 0xFFFF_FFFF_FFFF_FFFF
LOW_BITS = 0xFFFF_FFFF

MAX_INSTRUCTIONS = 4096
"""The kernel's limit on one program (BPF_MAXINSNS)."""

# Instruction codes: load word absolute, and with constant, jump if equal / greater or equal, return constant.
LOAD, AND, JEQ, JGE, RETURN = 0x20, 0x54, 0x15, 0x35, 0x06

# Offsets into `struct seccomp_data`: number, architecture, first argument (8 bytes each, little endian).
OFFSET_NUMBER, OFFSET_ARCH, OFFSET_ARGUMENTS = 0, 4, 16


class Instruction(NamedTuple):
    """One `struct sock_filter`: code, jump lengths if true and false (0..255), constant (32 bits)."""

    code: int
    if_true: int
    if_false: int
    constant: int


class Equals(NamedTuple):
    """Holds when `argument` (0..5) under `mask` equals `value` (both 64 bits)."""

    argument: int
    value: int
    mask: int = ALL_BITS


class Clause(NamedTuple):
    """`then` (an action) if every condition in `when` holds; an empty `when` always holds."""

    when: tuple[Equals, ...]
    then: int


class Rule(NamedTuple):
    """What happens to one call number: the first clause that holds, else `otherwise`."""

    number: int
    clauses: tuple[Clause, ...]
    otherwise: int


def fail_with(code: int) -> int:
    """The action "do not run the call, return this errno" (0..4095); 0 makes the call appear to succeed."""
    if not 0 <= code <= 4095:
        raise ValueError("an errno is between 0 and 4095")
    return _ERRNO | code


def always(number: int, action: int) -> Rule:
    """A rule without conditions."""
    return Rule(number, (), action)


def _statement(code: int, constant: int) -> Instruction:
    return Instruction(code, 0, 0, constant)


def _clause(clause: Clause) -> list[Instruction]:
    """Instructions of one clause; a failed comparison jumps behind its return."""
    code: list[Instruction] = []
    for condition in clause.when:
        if not 0 <= condition.argument <= 5:
            raise ValueError("a call has arguments 0 to 5")
        if condition.value & ~condition.mask:
            raise ValueError("a value outside its mask can never match")
        low = OFFSET_ARGUMENTS + 8 * condition.argument
        for offset, shift in ((low, 0), (low + 4, 32)):
            mask = condition.mask >> shift & LOW_BITS
            if not mask:
                continue
            code.append(_statement(LOAD, offset))
            if mask != LOW_BITS:
                code.append(_statement(AND, mask))
            code.append(Instruction(JEQ, 0, 0, condition.value >> shift & LOW_BITS))
    code.append(_statement(RETURN, clause.then))
    length = len(code)
    return [i._replace(if_false=length - place - 1) if i.code == JEQ else i for place, i in enumerate(code)]


def _rule(rule: Rule) -> list[Instruction]:
    """Instructions of one rule; the accumulator holds the number before and, when the rule does not apply, after it."""
    body = [i for clause in rule.clauses for i in _clause(clause)]
    body.append(_statement(RETURN, rule.otherwise))
    if len(body) > 255:
        raise ValueError(f"the rule for call {rule.number} is longer than a jump")
    return [Instruction(JEQ, 0, len(body), rule.number), *body]


def assemble(rules: Iterable[Rule], *, default: int, highest: int) -> tuple[Instruction, ...]:
    """The program for these rules, in their order (put frequent calls first).

    `default` is the action for a number up to `highest` without a rule. Raises `ValueError` for a number above `highest`
    or given twice, a condition that can never hold, or a program the kernel would refuse for its length.
    """
    program = [
        _statement(LOAD, OFFSET_ARCH),
        Instruction(JEQ, 1, 0, ARCH_X86_64),
        _statement(RETURN, KILL_PROCESS),
        _statement(LOAD, OFFSET_NUMBER),
        Instruction(JGE, 0, 1, X32_BIT),
        _statement(RETURN, KILL_PROCESS),
        Instruction(JGE, 0, 1, highest + 1),
        _statement(RETURN, fail_with(ENOSYS)),
    ]
    seen: set[int] = set()
    for rule in rules:
        if rule.number in seen or not 0 <= rule.number <= highest:
            raise ValueError(f"call {rule.number} is unknown or has two rules")
        seen.add(rule.number)
        program += _rule(rule)
    program.append(_statement(RETURN, default))
    if len(program) > MAX_INSTRUCTIONS:
        raise ValueError("the program is longer than the kernel accepts")
    return tuple(program)


def encode(program: Iterable[Instruction]) -> bytes:
    """The program as the kernel reads it: 8 bytes per instruction."""
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)
