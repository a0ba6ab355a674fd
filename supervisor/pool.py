"""The pool of sealed spares: how many to make, who gets the next one, when to pause after failures (design 6).

Invariants: spares being made plus spares ready never exceed `size` plus the tasks waiting; tasks are served in the order
they asked; a spare is given away once; after a failure nothing is started before the back-off is over; a task waits
for a worker only while making one has not failed `GIVE_UP` times in a row (then `NoWorker`); nothing is started while
`paused` (a bridge is down).

Pure: ids and monotonic seconds come in, effects go out. Makes no process.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

FIRST_DELAY: Final = 0.25  # seconds after the first failure; doubles
MAX_DELAY: Final = 30.0  # seconds: a machine that can't seal is asked twice a minute
GIVE_UP: Final = 3  # failures in a row after which waiting tasks are told


@dataclass(frozen=True, slots=True)
class StartSpare:
    """Begin making one."""


@dataclass(frozen=True, slots=True)
class Give:
    """`worker` belongs to `task` now."""

    worker: str
    task: str


@dataclass(frozen=True, slots=True)
class NoWorker:
    """`task` gets none: making workers keeps failing."""

    task: str


Effect = StartSpare | Give | NoWorker


class Pool:
    """`size` spares kept ready (>= 1). Starts paused."""

    __slots__ = ("_not_before", "_ready", "_size", "_starting", "_waiting", "failures", "paused")

    def __init__(self, size: int) -> None:
        self._size = size
        self._starting = 0
        self._ready: deque[str] = deque()
        self._waiting: deque[str] = deque()
        self._not_before = 0.0
        self.failures = 0  # in a row
        self.paused = True

    @property
    def ready(self) -> int:
        return len(self._ready)

    @property
    def starting(self) -> int:
        return self._starting

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def next_due(self) -> float | None:
        """When `tick` has something to do; None if nothing is held back."""
        return self._not_before if self._short() and not self.paused and self.failures else None

    def resume(self, now: float) -> list[Effect]:
        """Both bridges are ready."""
        self.paused = False
        return self._fill(now)

    def pause(self) -> None:
        """A bridge is gone; what is being made will be reported as failed."""
        self.paused = True

    def tick(self, now: float) -> list[Effect]:
        return self._fill(now)

    def want(self, task: str, now: float) -> list[Effect]:
        """`task` needs a worker: one ready at once, or it waits."""
        self._waiting.append(task)
        return self._serve(now)

    def unwant(self, task: str) -> None:
        """`task` needs none any more."""
        if task in self._waiting:
            self._waiting.remove(task)

    def made(self, worker: str, now: float) -> list[Effect]:
        """A spare stands ready."""
        self._starting -= 1
        self.failures = max(self.failures - 1, 0)  # one by one: it may yet die young like its predecessors
        self._ready.append(worker)
        return self._serve(now)

    def failed(self, now: float, *, count: bool) -> list[Effect]:
        """One could not be made. `count`: its own fault, not that of a lost bridge or a shutdown."""
        self._starting -= 1
        effects: list[Effect] = []
        if count:
            self._fail(now)
            if self.failures >= GIVE_UP:
                effects.extend(NoWorker(task) for task in self._waiting)
                self._waiting.clear()
        return effects + self._fill(now)

    def lost(self, worker: str, now: float, *, young: bool) -> list[Effect]:
        """A ready spare died or was ended. `young`: by itself and soon, so that replacing it at once would be a loop."""
        self._ready.remove(worker)
        if young:
            self._fail(now)
        return self._fill(now)

    def _fail(self, now: float) -> None:
        self._not_before = now + min(FIRST_DELAY * 2.0**self.failures, MAX_DELAY)
        self.failures += 1

    def _short(self) -> int:
        return self._size + len(self._waiting) - self._starting - len(self._ready)

    def _serve(self, now: float) -> list[Effect]:
        effects: list[Effect] = []
        while self._ready and self._waiting:
            effects.append(Give(self._ready.popleft(), self._waiting.popleft()))
        return effects + self._fill(now)

    def _fill(self, now: float) -> list[Effect]:
        if self.paused or (self.failures and now < self._not_before):
            return []
        # While failing, one at a time: the next one shows whether the fault is over.
        count = self._short() if not self.failures else min(self._short(), 1 - self._starting)
        if count <= 0:
            return []
        self._starting += count
        return [StartSpare()] * count
