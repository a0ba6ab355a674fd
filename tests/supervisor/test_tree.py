"""The process tree as data is checked before anything starts."""

from __future__ import annotations

from dataclasses import replace

import pytest
from browsercell.protocol.errors import LocalMisuse
from browsercell.supervisor.settings import MemorySettings
from browsercell.supervisor.tree import ChildSpec, Restart, Role, check_specs, process_tree

GOOD = ChildSpec("bridge", Role.BRIDGE, Restart.PERMANENT, 5, 60.0, 5.0, 256 * 1024 * 1024)


def test_our_own_tree_is_valid_and_has_every_role_once() -> None:
    tree = process_tree(MemorySettings())
    check_specs(tree)
    assert [spec.role for spec in tree] == list(Role)


def test_the_configured_memory_reaches_the_specifications() -> None:
    memory = MemorySettings(bridge=300 << 20, model_bridge=200 << 20, worker=400 << 20)
    assert {spec.role: spec.memory for spec in process_tree(memory)} == {
        Role.BRIDGE: 300 << 20,
        Role.MODEL: 200 << 20,
        Role.WORKER: 400 << 20,
        Role.CHROMIUM: 0,
    }


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        (replace(GOOD, id=""), "needs an id"),
        (replace(GOOD, intensity=-1), "positive period"),
        (replace(GOOD, period=0.0), "positive period"),
        (replace(GOOD, restart=Restart.TEMPORARY), "never restarted"),
        (replace(GOOD, intensity=0), "one crash ends the supervisor"),
        (replace(GOOD, restart=Restart.TRANSIENT, intensity=0), "one crash ends the supervisor"),
        (replace(GOOD, shutdown=-1.0), "negative"),
        (replace(GOOD, memory=1024), "interpreter"),
    ],
)
def test_a_senseless_specification_is_refused_by_its_fault(spec: ChildSpec, fault: str) -> None:
    with pytest.raises(LocalMisuse, match=fault):
        check_specs([spec])


def test_two_children_of_one_id_are_refused() -> None:
    with pytest.raises(LocalMisuse, match="taken"):
        check_specs([GOOD, GOOD])
