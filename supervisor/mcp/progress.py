"""Progress of a delegation as MCP wants it: a number that only grows, its end, and a sentence without page data.

Pure: frames in, numbers and text out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ...protocol import frames as f
from ...protocol import limits as L
from ...protocol.tools import WORKER_TOOLS

_PHASES: Final = {
    f.TaskPhase.QUEUED: "waiting in the queue",
    f.TaskPhase.OPENING_BROWSER: "opening the browser",
    f.TaskPhase.ASSIGNING: "assigning a worker",
    f.TaskPhase.RUNNING: "running",
    f.TaskPhase.CLOSING: "closing",
    f.TaskPhase.DELIVERING: "delivering files",
}
_NUDGE: Final = 1 / 1024  # what a report without a further tool call adds: the number has to grow each time


@dataclass(frozen=True, slots=True)
class Report:
    """One `notifications/progress`."""

    progress: float
    total: float
    message: str


class Progress:
    """Of one delegation. `steps`: the most model steps it may take."""

    __slots__ = ("_last", "_steps")

    def __init__(self, steps: int = L.MAX_STEPS) -> None:
        self._steps = steps
        self._last = 0.0

    def report(self, frame: f.HostProgress) -> Report:
        """The next report. `progress` counts tool calls and never reaches `total` before the result does."""
        total = float(frame.max_tool_calls + 1)
        self._last = min(max(float(frame.tool_calls), self._last + _NUDGE), total)
        return Report(self._last, total, self._sentence(frame))

    def _sentence(self, frame: f.HostProgress) -> str:
        parts = [_PHASES[frame.phase]]
        if frame.phase is f.TaskPhase.RUNNING:
            parts = []
            if frame.steps:
                parts.append(f"step {frame.steps} of {self._steps}")
            else:  # a playbook makes no model steps
                parts.append(f"call {frame.tool_calls} of {frame.max_tool_calls}")
            if frame.tool in WORKER_TOOLS:  # a name from our own catalogue, nothing a page could have chosen
                parts.append(frame.tool if frame.ok else f"{frame.tool} failed")
        return ", ".join([*parts, f"{frame.elapsed_ms // 1000} s"])
