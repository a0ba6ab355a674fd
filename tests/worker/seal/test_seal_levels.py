"""Levels for every combination of layers, the rule of degradation, and the shape of the Landlock ruleset."""

from __future__ import annotations

import errno
import itertools
import struct

import pytest
from browsercell.protocol.errors import SandboxError
from browsercell.protocol.frames import SandboxLevel, SealLayer, SealLayerName
from browsercell.worker.seal import canaries
from browsercell.worker.seal.landlock import ruleset_attributes
from browsercell.worker.seal.levels import LACKING, is_lack, judge
from browsercell.worker.seal.steps import PRETENDED, first_call, must
from browsercell.worker.seal.syscalls import errno_name

N = SealLayerName
ALL = tuple(SealLayerName)


def level_of(on: set[SealLayerName]) -> SandboxLevel:
    return judge(SealLayer(name, name in on, "" if name in on else "EPERM") for name in ALL)


def test_every_combination_of_layers() -> None:
    for size in range(len(ALL) + 1):
        for chosen in itertools.combinations(ALL, size):
            on = set(chosen)
            level = level_of(on)
            if not (N.SECCOMP in on and N.CANARIES in on):
                expected = SandboxLevel.UNSANDBOXED
            elif N.LANDLOCK in on and N.EMPTY_ROOT in on and N.NAMESPACES in on:
                expected = SandboxLevel.CONTAINED
            elif N.LANDLOCK in on or N.EMPTY_ROOT in on:
                expected = SandboxLevel.SEALED
            else:
                expected = SandboxLevel.FILTERED
            assert level is expected, on


def test_a_layer_that_is_not_listed_is_off() -> None:
    assert judge(()) is SandboxLevel.UNSANDBOXED
    assert judge([SealLayer(N.SECCOMP, True), SealLayer(N.CANARIES, True)]) is SandboxLevel.FILTERED


def test_what_counts_as_a_lack_of_the_host() -> None:
    assert {errno.errorcode[code] for code in LACKING} <= {
        *("EPERM", "EACCES", "ENOSYS", "EOPNOTSUPP", "ENOTSUP", "EINVAL", "ENOSPC"),
    }
    assert is_lack(errno.EPERM)
    assert not is_lack(errno.EIO)
    assert not is_lack(None)


def failing(code: int) -> None:
    raise OSError(code, "made up")


def test_first_call_on_off_and_fault() -> None:
    nothing: frozenset[str] = frozenset()
    assert first_call(N.LANDLOCK, lambda: 7, nothing) == SealLayer(N.LANDLOCK, True)
    assert first_call(N.LANDLOCK, lambda: failing(errno.ENOSYS), nothing) == SealLayer(
        N.LANDLOCK, False, "ENOSYS"
    )
    with pytest.raises(SandboxError) as caught:
        first_call(N.LANDLOCK, lambda: failing(errno.EIO), nothing)
    assert (caught.value.step, caught.value.errno_name) == ("landlock", "EIO")


def test_a_layer_switched_off_is_not_tried() -> None:
    layer = first_call(N.LANDLOCK, lambda: failing(errno.EIO), frozenset({"landlock"}))
    assert layer == SealLayer(N.LANDLOCK, False, PRETENDED)


def test_must_names_the_step() -> None:
    with pytest.raises(SandboxError) as caught, must("capabilities"):
        failing(errno.EPERM)
    assert (caught.value.step, caught.value.errno_name) == ("capabilities", "EPERM")


def test_errno_names_are_a_closed_vocabulary() -> None:
    assert errno_name(errno.EPERM) == "EPERM"
    assert errno_name(errno.ENOTSUP) == "EOPNOTSUPP"
    assert errno_name(None) == errno_name(4000) == "EUNKNOWN"


@pytest.mark.parametrize(
    ("abi", "fields"),
    [
        (1, (0x1FFF,)),
        (2, (0x3FFF,)),
        (3, (0x7FFF,)),
        (4, (0x7FFF, 3)),
        (5, (0xFFFF, 3)),
        (6, (0xFFFF, 3, 3)),
        (7, (0xFFFF, 3, 3)),
    ],
)
def test_landlock_handles_everything_its_abi_knows(abi: int, fields: tuple[int, ...]) -> None:
    assert ruleset_attributes(abi) == struct.pack(f"={len(fields)}Q", *fields)


def test_a_canary_that_sings_is_a_fault() -> None:
    """In this unsealed process the first canary gets through."""
    with pytest.raises(SandboxError) as caught:
        canaries.prove()
    assert caught.value.step == "canary-open"


def test_a_canary_must_be_refused_not_merely_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(canaries, "CANARIES", (("socket", lambda: failing(errno.EMFILE)),))
    with pytest.raises(SandboxError) as caught:
        canaries.prove()
    assert (caught.value.step, caught.value.errno_name) == ("canary-socket", "EMFILE")


@pytest.mark.parametrize("name", [name for name, _ in canaries.CANARIES])
def test_each_canary_gets_through_without_a_seal(name: str) -> None:
    dict(canaries.CANARIES)[name]()
