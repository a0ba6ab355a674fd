"""Budgets of one task and admission of tasks (design 8): a request lowers the configured numbers, never raises them.

Pure: numbers in, numbers out. Who counts: steps and tokens the model bridge, tool calls the bridge (design 2, rule 2).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from ..protocol.results import TaskLimits, Usage
from .settings import LimitSettings


@dataclass(frozen=True, slots=True)
class Budget:
    """Of one task, all generations together. `steps` 0: a playbook makes no inferences."""

    steps: int
    tool_calls: int
    seconds: float


def effective(asked: TaskLimits, configured: LimitSettings, *, playbook: bool) -> Budget:
    """The smaller of each pair."""
    steps = min(asked.steps or configured.steps, configured.steps)
    return Budget(
        steps=0 if playbook else steps,
        tool_calls=min(asked.tool_calls or configured.tool_calls, configured.tool_calls),
        seconds=float(min(asked.seconds or configured.seconds, configured.seconds)),
    )


@dataclass(slots=True)
class Counters:
    """What the bridges have counted so far; counts only grow."""

    steps: int = 0
    tool_calls: int = 0
    tokens: int = 0
    occupancy: int = 0
    generations: int = 0

    def calls(self, total: int) -> None:
        self.tool_calls = max(self.tool_calls, total)

    def inference(self, steps: int, tokens: int, occupancy: int) -> None:
        self.steps = max(self.steps, steps)
        self.tokens = max(self.tokens, tokens)
        self.occupancy = occupancy

    def usage(self, seconds: float) -> Usage:
        return Usage(self.steps, self.tool_calls, self.tokens, self.generations, round(max(seconds, 0.0), 3))


class Admission:
    """At most `running` tasks at once and `queue` behind them, first come first served."""

    __slots__ = ("_limit", "_queue", "_queue_bound", "_running")

    def __init__(self, running: int, queue: int) -> None:
        self._limit = running
        self._queue_bound = queue
        self._running: set[str] = set()
        self._queue: deque[str] = deque()

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def queued(self) -> int:
        return len(self._queue)

    def full(self) -> bool:
        return len(self._running) >= self._limit and len(self._queue) >= self._queue_bound

    def enter(self, task: str) -> bool:
        """True: start it now; False: it is queued. Ask `full` before."""
        if len(self._running) < self._limit:
            self._running.add(task)
            return True
        self._queue.append(task)
        return False

    def leave(self, task: str) -> str | None:
        """`task` is over (or gives its place in the queue up). The task that may start now, or None."""
        if task in self._queue:
            self._queue.remove(task)
            return None
        self._running.discard(task)
        if not self._queue or len(self._running) >= self._limit:
            return None
        following = self._queue.popleft()
        self._running.add(following)
        return following
