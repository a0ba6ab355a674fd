"""What `browser_status`, `browser_extension_status` and `supervisor status` say, from the supervisor's own tables.

Invariants: no path, no token, no URL, no tab list (design 3); ages in milliseconds; JSON types only.
Pure: plain values in, plain values out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..protocol.frames import BridgeReady, ExtensionState, ModelProblem, ModelReady, PortProblem, SealReport
from . import messages


@dataclass(frozen=True, slots=True)
class Part:
    """A process of ours. `state`: word of its life table; `age_ms`: since it entered that state."""

    state: str
    age_ms: int
    restarts: int
    reason: str


@dataclass(frozen=True, slots=True)
class Bundle:
    """The built extension: its version, SHA-256 over its files (protocol/bundle.py)."""

    version: str
    digest: str


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything a report is made of."""

    age_ms: int
    bridge: Part
    model: Part
    bridge_ready: BridgeReady | None
    model_ready: ModelReady | None
    extension: ExtensionState | None
    extension_age_ms: int
    chromium: bool
    chromium_sandbox: bool
    browsers: int
    running: int
    max_tasks: int
    queued: int
    max_queue: int
    spares: int
    pool_size: int
    seal: SealReport | None
    minimum: str
    refusal: str
    incidents: int
    inspection: bool
    problem: messages.Sentence | None  # why a child was given up


def status(facts: Facts) -> dict[str, Any]:
    """Content of `browser_status`."""
    connected = 0 if facts.extension is None else sum(not one.private for one in facts.extension.extensions)
    return {
        "supervisor": {
            "state": "running",
            "ageMs": facts.age_ms,
            "inspection": facts.inspection,
            **_problem(facts),
        },
        "bridge": {**_part(facts.bridge), "listener": _listener(facts.bridge_ready)},
        "modelBridge": {**_part(facts.model), "model": _model(facts.model_ready)},
        "extension": {"connected": connected, "ageMs": facts.extension_age_ms},
        "privateBrowser": {
            "available": facts.chromium,
            "running": facts.browsers,
            "chromiumSandbox": "on" if facts.chromium_sandbox else "OFF by chromium_no_sandbox",
        },
        "capacity": {
            "running": facts.running,
            "maxTasks": facts.max_tasks,
            "queued": facts.queued,
            "maxQueue": facts.max_queue,
            "spares": facts.spares,
            "poolSize": facts.pool_size,
        },
        "sandbox": _sandbox(facts),
    }


def extension_status(facts: Facts, bundle: Bundle | None) -> dict[str, Any]:
    """Content of `browser_extension_status`. `bundle`: the built extension at hand."""
    users = [] if facts.extension is None else [one for one in facts.extension.extensions if not one.private]
    refused = 0 if facts.extension is None else facts.extension.refused
    if users:
        next_step = ""
    elif bundle is None:
        next_step = "Build the extension: make setup (in a checkout), or install a complete wheel."
    elif facts.bridge_ready is not None and facts.bridge_ready.problem is not PortProblem.NONE:
        next_step = messages.PORTS[facts.bridge_ready.problem].next_step
    else:
        next_step = (
            "Load the folder extension/dist in Chrome (chrome://extensions) and pair it in its popup with the token from "
            "the state folder's file pairing-token."
        )
    return {
        "prepared": bundle is not None,
        "version": "" if bundle is None else bundle.version,
        "digest": "" if bundle is None else bundle.digest,
        "connected": [
            {"id": one.extension_id, "version": one.version, "connectedMs": one.connected_ms} for one in users
        ],
        "refused": refused,
        "listener": _listener(facts.bridge_ready),
        "nextStep": next_step,
    }


def _part(part: Part) -> dict[str, Any]:
    made: dict[str, Any] = {"state": part.state, "ageMs": part.age_ms, "restarts": part.restarts}
    return made | ({"reason": part.reason} if part.reason else {})


def _problem(facts: Facts) -> dict[str, Any]:
    if facts.problem is None:
        return {}
    return {"problem": facts.problem.happened, "nextStep": facts.problem.next_step}


def _listener(ready: BridgeReady | None) -> dict[str, Any]:
    if ready is None:
        return {"state": "unknown"}
    if ready.problem is PortProblem.NONE:
        return {"state": "on", "port": ready.port}
    sentence = messages.PORTS[ready.problem]
    made = {"state": ready.problem.value, "problem": sentence.happened, "nextStep": sentence.next_step}
    return made | ({"ownerPid": ready.port_owner} if ready.port_owner else {})


def _model(ready: ModelReady | None) -> dict[str, Any]:
    if ready is None:
        return {"state": "unknown"}
    if ready.problem is ModelProblem.NONE:
        return {"state": "configured"}
    sentence = messages.MODEL[ready.problem]
    return {"state": ready.problem.value, "problem": sentence.happened, "nextStep": sentence.next_step}


def _sandbox(facts: Facts) -> dict[str, Any]:
    made: dict[str, Any] = {
        "level": facts.seal.level.value if facts.seal else "",
        "minimum": facts.minimum,
        "incidents": facts.incidents,
    }
    if facts.refusal:
        made["refusal"] = facts.refusal
    if facts.seal is not None:
        made["landlockAbi"] = facts.seal.landlock_abi
        made["layers"] = [
            {"name": layer.name.value, "on": layer.on, "reason": layer.reason} for layer in facts.seal.layers
        ]
    return made
