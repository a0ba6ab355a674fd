"""Status reports hold what helps and nothing private."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from browsercell.protocol import frames as f
from browsercell.supervisor.messages import PORTS, Sentence
from browsercell.supervisor.report import Bundle, Facts, Part, extension_status, status

PART = Part("ready", 5, 0, "")
MINE = f.ExtensionInfo("a" * 32, "1.0", False, 7)
PRIVATE = f.ExtensionInfo("b" * 32, "1.0", True, 7)
SEAL = f.SealReport(f.SandboxLevel.SEALED, (f.SealLayer(f.SealLayerName.NAMESPACES, False, "EPERM"),), 7, 99)
BARE = Facts(
    age_ms=1, bridge=PART, model=PART, bridge_ready=None, model_ready=None, extension=None, extension_age_ms=2,
    chromium=True, chromium_sandbox=True, browsers=0, running=0, max_tasks=4, queued=0, max_queue=8, spares=1,
    pool_size=2, seal=None, minimum="filtered", refusal="", incidents=0, inspection=False, problem=None,
)  # fmt: skip
FULL = replace(
    BARE,
    bridge=Part("backoff", 5, 2, "exit -9"),
    bridge_ready=f.BridgeReady(17321),
    model_ready=f.ModelReady(),
    extension=f.ExtensionState((MINE, PRIVATE), 3),
    seal=SEAL,
    refusal="outside-check:seccomp",
    chromium_sandbox=False,
    problem=Sentence("A thing", "Do it"),
)


def test_a_young_supervisor_says_what_it_does_not_know() -> None:
    made = status(BARE)
    assert made["bridge"]["listener"] == {"state": "unknown"}
    assert made["modelBridge"]["model"] == {"state": "unknown"}
    assert made["sandbox"] == {"level": "", "minimum": "filtered", "incidents": 0}
    assert made["extension"] == {"connected": 0, "ageMs": 2}
    assert "problem" not in made["supervisor"]


def test_a_full_report() -> None:
    made = status(FULL)
    assert made["bridge"] == {
        "state": "backoff", "ageMs": 5, "restarts": 2, "reason": "exit -9", "listener": {"state": "on", "port": 17321},
    }  # fmt: skip
    assert made["modelBridge"]["model"] == {"state": "configured"}
    assert made["extension"]["connected"] == 1
    assert made["sandbox"]["layers"] == [{"name": "namespaces", "on": False, "reason": "EPERM"}]
    assert made["sandbox"]["refusal"] == "outside-check:seccomp"
    assert made["privateBrowser"]["chromiumSandbox"].startswith("OFF")
    assert made["supervisor"]["nextStep"] == "Do it"
    assert msgspec.json.encode(made)


@pytest.mark.parametrize("owner", [0, 4711])
def test_a_taken_port_is_told_with_its_owner_if_known(owner: int) -> None:
    facts = replace(BARE, bridge_ready=f.BridgeReady(0, f.PortProblem.TAKEN, owner))
    listener = status(facts)["bridge"]["listener"]
    assert listener["state"] == "taken"
    assert listener["nextStep"] == PORTS[f.PortProblem.TAKEN].next_step
    assert listener.get("ownerPid", 0) == owner


def test_an_unusable_model_is_told_with_what_to_do() -> None:
    facts = replace(BARE, model_ready=f.ModelReady(f.ModelProblem.KEY_EXPOSED))
    assert status(facts)["modelBridge"]["model"]["nextStep"] == "Run chmod 600 on it."


@pytest.mark.parametrize(
    ("facts", "prepared", "word"),
    [
        (FULL, True, ""),
        (BARE, False, "make setup"),
        (
            replace(BARE, bridge_ready=f.BridgeReady(0, f.PortProblem.NO_TOKEN)),
            True,
            "Remove the file pairing-token",
        ),
        (replace(BARE, bridge_ready=f.BridgeReady(17321)), True, "chrome://extensions"),
        (BARE, True, "chrome://extensions"),
    ],
)
def test_the_extensions_next_step(facts: Facts, prepared: bool, word: str) -> None:
    made = extension_status(facts, Bundle("1.2", "d" * 64) if prepared else None)
    assert word in made["nextStep"]
    assert bool(made["nextStep"]) == bool(word)
    assert (made["prepared"], bool(made["version"]), bool(made["digest"])) == (prepared,) * 3
    assert [one["id"] for one in made["connected"]] == (
        [] if facts.extension is None else [MINE.extension_id]
    )
