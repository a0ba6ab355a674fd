"""Frames of the bridges about tasks: events, or violations."""

from __future__ import annotations

import msgspec
import pytest
from browsercell.protocol import frames as f
from browsercell.protocol.errors import BlockerCode, PeerViolation
from browsercell.protocol.results import (
    ArtifactKind,
    BrowserDelegateResult,
    ResolvedArtifact,
    SideEffects,
    Status,
)
from browsercell.supervisor import judge
from browsercell.supervisor import task_events as c

TASK = "t-" + "a" * 26
RESULT = BrowserDelegateResult(task_id=TASK, status=Status.COMPLETED, execution_status=Status.COMPLETED)
ARTIFACT = ResolvedArtifact("a-" + "b" * 26, "p", ArtifactKind.TEXT, 1, "0" * 64, "text/plain")
ENTRY = f.LedgerEntry("browser_page_click", True)


@pytest.mark.parametrize(
    ("frame", "expected"),
    [
        (f.BrowserWanted(TASK), (TASK, None, c.BrowserWanted())),
        (f.BrowserDone(TASK), (TASK, None, c.BrowserDone())),
        (f.TaskOpened(TASK), (TASK, None, c.Opened())),
        (f.TaskRefused(TASK, BlockerCode.POLICY_DENIED), (TASK, None, c.Refused(BlockerCode.POLICY_DENIED))),
        (f.TaskProgress(TASK, 1, 3, ENTRY), (TASK, 1, c.Progress(3, "browser_page_click", True))),
        (f.TaskGuard(TASK, 1, f.EndReason.NO_PROGRESS), (TASK, 1, c.Guard(f.EndReason.NO_PROGRESS))),
        (f.TaskFinished(TASK, 1, RESULT), (TASK, 1, c.Finished(RESULT))),
        (
            f.TaskClosed(TASK, SideEffects.NONE, 1, 2, (ARTIFACT,)),
            (TASK, None, c.Closed(SideEffects.NONE, 1, 2, (ARTIFACT,))),
        ),
    ],
)
def test_a_good_frame_of_the_bridge_is_its_event(frame: f.Frame, expected: object) -> None:
    assert judge.of_bridge(frame) == expected


@pytest.mark.parametrize(
    "frame",
    [
        f.TaskRefused(TASK, BlockerCode.CANCELLED),
        f.TaskProgress(TASK, 1, 1, f.LedgerEntry("what a page said", True)),
        f.TaskFinished(TASK, 1, msgspec.structs.replace(RESULT, task_id="other")),
        f.TaskClosed(TASK, SideEffects.NONE, 0, 0, (msgspec.structs.replace(ARTIFACT, sha256="x"),)),
        f.Pong(1),
    ],
)
def test_what_no_honest_bridge_sends_is_a_violation(frame: f.Frame) -> None:
    with pytest.raises(PeerViolation):
        judge.of_bridge(frame)


def test_the_model_bridges_frames() -> None:
    assert judge.of_model(f.ModelProgress(TASK, 1, 2, 3, 4)) == (TASK, 1, c.ModelProgress(2, 3, 4))
    fault = f.ModelFault(TASK, 1, BlockerCode.STEP_LIMIT, f.ModelProblem.TIMEOUT)
    assert judge.of_model(fault) == (TASK, 1, c.ModelFault(BlockerCode.STEP_LIMIT, f.ModelProblem.TIMEOUT))


@pytest.mark.parametrize("frame", [f.ModelFault(TASK, 1, BlockerCode.BRIDGE_LOST), f.Pong(1)])
def test_what_no_honest_model_bridge_sends_is_a_violation(frame: f.Frame) -> None:
    with pytest.raises(PeerViolation):
        judge.of_model(frame)
