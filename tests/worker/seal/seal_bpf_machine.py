"""Evaluates a seccomp program as the kernel would, for the instructions our assembler emits. Anything else is an error."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from browsercell.worker.seal import bpf
from browsercell.worker.seal.bpf import Instruction


def evaluate(
    program: Sequence[Instruction], number: int, *arguments: int, arch: int = bpf.ARCH_X86_64
) -> int:
    """The action for one call; arguments are taken modulo 2**64, missing ones are 0."""
    padded = [value % (1 << 64) for value in (*arguments, *(0,) * 6)][:6]
    data = struct.pack("<IIQ6Q", number % (1 << 32), arch, 0x7F00_0000_0000, *padded)
    accumulator, place = 0, 0
    while True:
        code, if_true, if_false, constant = program[place]  # an IndexError is a program that runs off its end
        place += 1
        if code == bpf.LOAD:
            assert constant % 4 == 0
            accumulator = int(struct.unpack_from("<I", data, constant)[0])
        elif code == bpf.AND:
            accumulator &= constant
        elif code == bpf.JEQ:
            place += if_true if accumulator == constant else if_false
        elif code == bpf.JGE:
            place += if_true if accumulator >= constant else if_false
        elif code == bpf.RETURN:
            return constant
        else:
            raise AssertionError(f"instruction {code:#x}")
