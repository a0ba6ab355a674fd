"""The judgement from outside: what counts as sealed, and that everything unclear does not."""

from __future__ import annotations

import pytest
from browsercell.protocol.seal_check import (
    SealFault,
    SealVerdict,
    ThreadSeal,
    parse_thread_status,
    threads_sealed,
)

SEALED_TEXT = """Name:\tpython3
Umask:\t0022
Uid:\t60101\t60101\t60101\t60101
CapInh:\t0000000000000000
CapPrm:\t0000000000000000
CapEff:\t0000000000000000
NoNewPrivs:\t1
Seccomp:\t2
Seccomp_filters:\t1
"""
SEALED = ThreadSeal(seccomp=2, filters=1, no_new_privs=True, capabilities=0)
PLAIN = ThreadSeal(seccomp=0, filters=0, no_new_privs=False, capabilities=0)
IN_CONTAINER = ThreadSeal(seccomp=2, filters=1, no_new_privs=True, capabilities=0)


def test_parses_a_sealed_thread() -> None:
    assert parse_thread_status(SEALED_TEXT) == SEALED


def test_parses_held_capabilities_from_both_sets() -> None:
    text = SEALED_TEXT.replace("CapPrm:\t0000000000000000", "CapPrm:\t0000000000000021")
    assert parse_thread_status(text).capabilities == 0x21
    text = SEALED_TEXT.replace("CapEff:\t0000000000000000", "CapEff:\t000001ffffffffff")
    assert parse_thread_status(text).capabilities == 0x1FF_FFFF_FFFF


def test_an_old_kernel_does_not_count_filters() -> None:
    assert parse_thread_status(SEALED_TEXT.replace("Seccomp_filters:\t1\n", "")).filters is None


@pytest.mark.parametrize("text", ["", "\n\n", "Seccomp", "no colon here", "\0" * 50, "CapEff:\tzzz\nSeccomp:\ttwo\nNoNewPrivs:\tyes"])  # fmt: skip
def test_anything_unclear_is_unsealed(text: str) -> None:
    seal = parse_thread_status(text)
    assert seal == ThreadSeal(seccomp=0, filters=None, no_new_privs=False, capabilities=(1 << 64) - 1)
    assert not threads_sealed([seal], PLAIN).ok


def test_a_thread_name_can_not_forge_a_line() -> None:
    """The kernel escapes newlines in names; a name with a colon stays on its own line, and first lines win."""
    text = SEALED_TEXT.replace("python3", "Seccomp: 2\\nNoNewPrivs:\t1").replace("Seccomp:\t2", "Seccomp:\t0")
    assert parse_thread_status(text).seccomp == 0
    assert parse_thread_status("Seccomp:\t0\nSeccomp:\t2\n").seccomp == 0


def test_all_threads_sealed() -> None:
    assert threads_sealed([SEALED, SEALED, SEALED], PLAIN) == SealVerdict(True)


@pytest.mark.parametrize(
    ("thread", "fault"),
    [
        (ThreadSeal(0, 0, True, 0), SealFault.SECCOMP),
        (ThreadSeal(1, 0, True, 0), SealFault.SECCOMP),
        (ThreadSeal(2, 0, True, 0), SealFault.SECCOMP),
        (ThreadSeal(2, 1, False, 0), SealFault.NO_NEW_PRIVS),
        (ThreadSeal(2, 1, True, 1), SealFault.CAPABILITIES),
    ],
)
def test_one_thread_outside_is_enough(thread: ThreadSeal, fault: SealFault) -> None:
    assert threads_sealed([SEALED, thread, SEALED], PLAIN) == SealVerdict(False, fault)


def test_no_threads_is_not_sealed() -> None:
    assert threads_sealed([], PLAIN) == SealVerdict(False, SealFault.NO_THREADS)


def test_the_filter_of_a_container_is_not_ours() -> None:
    assert threads_sealed([SEALED], IN_CONTAINER) == SealVerdict(False, SealFault.SECCOMP)
    own = ThreadSeal(seccomp=2, filters=2, no_new_privs=True, capabilities=0)
    assert threads_sealed([own], IN_CONTAINER).ok


def test_without_a_count_the_mode_must_do() -> None:
    old = ThreadSeal(seccomp=2, filters=None, no_new_privs=True, capabilities=0)
    assert threads_sealed([old], PLAIN).ok
    assert threads_sealed([SEALED], ThreadSeal(2, None, False, 0)).ok
