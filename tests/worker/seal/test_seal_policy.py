"""The allow-list by what it decides: allowed, refused with which errno, killed; and the tables it is built from."""

from __future__ import annotations

import errno
import signal

import pytest
from browsercell.protocol.errors import SandboxError
from browsercell.worker.seal import policy
from browsercell.worker.seal.bpf import ALLOW, KILL_PROCESS, fail_with
from browsercell.worker.seal.numbers import CALLS, HIGHEST_KNOWN, require_x86_64
from browsercell.worker.seal.policy import Attack

from .seal_bpf_machine import evaluate

PID = 4321
EPERM, EACCES = fail_with(errno.EPERM), fail_with(errno.EACCES)
PTHREAD = 0x3D_0F00


def decide(name: str, *arguments: int, attack: Attack = "kill", threads: bool = True) -> int:
    return evaluate(policy.program(PID, attack=attack, threads=threads), CALLS[name], *arguments)


@pytest.mark.parametrize("name", policy.ALLOWED)
def test_allowed_whatever_the_arguments(name: str) -> None:
    assert decide(name) == decide(name, *[(1 << 64) - 1] * 6) == ALLOW


@pytest.mark.parametrize("name", policy.BY_NAME)
def test_names_of_files_are_denied_like_files(name: str) -> None:
    assert decide(name) == EACCES


@pytest.mark.parametrize("name", policy.ATTACKS)
def test_attacks_kill_or_in_tests_fail(name: str) -> None:
    assert decide(name) == KILL_PROCESS
    assert decide(name, attack="errno") == EPERM


def test_each_call_has_one_place() -> None:
    names = [*policy.ALLOWED, *policy.BY_NAME, *policy.ATTACKS]
    assert len(names) == len(set(names))


def test_every_number_without_a_rule_is_refused() -> None:
    program = policy.program(PID, attack="kill", threads=True)
    ruled = {rule.number for rule in policy.allow_list(PID, attack="kill", threads=True)}
    others = [number for number in range(HIGHEST_KNOWN + 1) if number not in ruled]
    assert len(others) > 300
    assert {evaluate(program, number) for number in others} == {EPERM}
    assert evaluate(program, HIGHEST_KNOWN + 1) == fail_with(errno.ENOSYS)
    assert evaluate(program, 0x4000_0000 | CALLS["read"]) == KILL_PROCESS


@pytest.mark.parametrize("name", ["mmap", "mprotect"])
def test_no_mapping_becomes_code(name: str) -> None:
    for protection in range(16):
        assert decide(name, 0, 4096, protection) == (ALLOW if protection < 4 else EPERM)
    assert decide(name, 0, 4096, 1 << 32) == EPERM


def test_sendto_only_without_destination() -> None:
    assert decide("sendto", 3, 1, 1, 0, 0) == ALLOW
    assert decide("sendto", 3, 1, 1, 0, 0x7FFF_0000_0000) == EPERM
    assert decide("sendto", 3, 1, 1, 0, 1) == EPERM


def test_descriptor_flags_but_no_owner_and_no_copy() -> None:
    allowed = [command for command in range(2000) if decide("fcntl", 3, command) == ALLOW]
    assert allowed == [1, 2, 3, 4]
    assert decide("ioctl", 3, 0x5421) == ALLOW
    for request in (0x5412, 0x5401, 0x8905):  # TIOCSTI, TCGETS, SIOCATMARK
        assert decide("ioctl", 3, request) == fail_with(errno.ENOTTY)


def test_futexes_without_priority_inheritance() -> None:
    plain = {operation for operation in range(64) if decide("futex", 0, operation) == ALLOW}
    assert plain == {0, 1, 3, 4, 5, 9, 10}
    for flags in (0x80, 0x100, 0x180):
        assert decide("futex", 0, 9 | flags) == ALLOW
        assert decide("futex", 0, 6 | flags) == EPERM
    assert decide("futex", 0, 0x200) == EPERM


@pytest.mark.parametrize("name", ["kill", "tgkill"])
def test_signals_reach_nobody_else(name: str) -> None:
    assert decide(name, PID, PID) == ALLOW
    for target in (1, 0, -1, -PID, PID + 1, PID | 1 << 32):
        assert decide(name, target, PID) == EPERM


def test_limits_can_be_read_only() -> None:
    assert decide("prlimit64", 0, 7, 0, 1) == ALLOW
    assert decide("prlimit64", 0, 7, 1, 0) == EPERM
    assert decide("prlimit64", PID + 1, 7, 0, 1) == EPERM


def test_prctl_names_only() -> None:
    assert [option for option in range(100) if decide("prctl", option) == ALLOW] == [15]
    assert decide("prctl", 0x53564D41) == ALLOW


def test_clone_makes_threads_and_nothing_else() -> None:
    assert decide("clone", PTHREAD) == ALLOW
    assert decide("clone", PTHREAD, threads=False) == EPERM
    for bit in range(64):
        changed = PTHREAD ^ 1 << bit
        expected = ALLOW if changed == 0x7D_0F00 else EPERM  # musl's own bit
        assert decide("clone", changed) == expected
    assert decide("clone", int(signal.SIGCHLD)) == EPERM
    assert decide("clone3") == fail_with(errno.ENOSYS)


def test_late_threads_of_libzmq_hear_that_all_is_well() -> None:
    assert decide("sched_getparam") == decide("sched_getscheduler") == fail_with(0)
    assert decide("sched_setscheduler", 0, 0) == fail_with(0)
    assert decide("sched_setscheduler", 0, 1) == EPERM


def test_other_architectures_are_an_error_not_a_guess() -> None:
    require_x86_64("linux", "x86_64", 8)
    for system, machine, size in (("linux", "aarch64", 8), ("linux", "x86_64", 4), ("darwin", "x86_64", 8)):
        with pytest.raises(SandboxError) as caught:
            require_x86_64(system, machine, size)
        assert (caught.value.step, caught.value.errno_name) == ("architecture", "ENOSYS")


def test_numbers_are_distinct_and_in_range() -> None:
    assert len(set(CALLS.values())) == len(CALLS)
    assert max(CALLS.values()) <= HIGHEST_KNOWN
