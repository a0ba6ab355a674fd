"""Judges the frames of the bridges about tasks: an event for the task's machine, or a violation (design 2, rule 6).

Invariants: a code, tool or artifact that an honest bridge never sends ends the bridge; what passes here is bounded and of
closed vocabularies but for the result, which `verdict.accept` judges.
Pure: frames in, events out.
"""

from __future__ import annotations

from typing import Final

from ..protocol import frames as f
from ..protocol.errors import BlockerCode, PeerViolation
from ..protocol.tools import WORKER_TOOLS
from . import task_events as c
from .verdict import accept, check_artifact

REFUSALS: Final = frozenset(
    {BlockerCode.BROWSER_UNAVAILABLE, BlockerCode.POLICY_DENIED, BlockerCode.OVERLOADED}
)
MODEL_CODES: Final = frozenset(
    {
        BlockerCode.STEP_LIMIT, BlockerCode.INVALID_TOOL, BlockerCode.NO_STRUCTURED_OUTPUT,
        BlockerCode.ROLLOVER_EXHAUSTED, BlockerCode.MODEL_UNAVAILABLE, BlockerCode.MODEL_UNCONFIGURED,
    }
)  # fmt: skip


def of_bridge(frame: f.Frame) -> tuple[str, int | None, c.Event]:
    """(task, generation or None, event) of a bridge's frame about a task. Raises PeerViolation."""
    match frame:
        case f.BrowserWanted(task=task):
            return task, None, c.BrowserWanted()
        case f.BrowserDone(task=task):
            return task, None, c.BrowserDone()
        case f.TaskOpened(task=task):
            return task, None, c.Opened()
        case f.TaskRefused(task=task, code=code):
            if code not in REFUSALS:
                raise PeerViolation("a task is refused with a code that is not the bridge's to give")
            return task, None, c.Refused(code)
        case f.TaskProgress(task=task, generation=generation, tool_calls=calls, entry=entry):
            if entry.tool not in WORKER_TOOLS:
                raise PeerViolation("progress names a tool that does not exist")
            return task, generation, c.Progress(calls, entry.tool, entry.ok, entry.code)
        case f.TaskGuard(task=task, generation=generation, reason=reason):
            return task, generation, c.Guard(reason)
        case f.TaskFinished(task=task, generation=generation):
            return task, generation, c.Finished(accept(frame, task))
        case f.TaskClosed(task=task):
            for artifact in frame.artifacts:
                check_artifact(artifact)
            closed = c.Closed(frame.side_effects, frame.unsettled, frame.tool_calls, frame.artifacts)
            return task, None, closed
        case _:
            raise PeerViolation(f"{type(frame).__name__} has no use here")


def of_model(frame: f.Frame) -> tuple[str, int | None, c.Event]:
    """The same for the model bridge."""
    match frame:
        case f.ModelProgress(task=task, generation=generation):
            return task, generation, c.ModelProgress(frame.steps, frame.tokens, frame.occupancy)
        case f.ModelFault(task=task, generation=generation, code=code):
            if code not in MODEL_CODES:
                raise PeerViolation("a task is faulted with a code that is not the model bridge's to give")
            return task, generation, c.ModelFault(code, frame.problem)
        case _:
            raise PeerViolation(f"{type(frame).__name__} has no use here")
