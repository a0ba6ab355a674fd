"""Which worker floods a bridge: the bridge's memory at half its cap, and who burns processor time (design 2, rule 1).

A worker can make a ZeroMQ reader hold any amount of memory in spite of its high-water mark (facts/ipc.md 1.4); the
reader is a bridge with a cap. Well before the cap the supervisor ends the worker that has used most processor time
since the last WINDOW. Small parts cost their sender a core; large ones are cheap (tried: 300 MB/s for a twentieth of
a core on a busy machine), so hardly any use is enough where the bridge swells by SWELL of its cap in a WINDOW, which
no work makes it do, or is at three quarters of it: what comes next is the loss of the bridge and of every task.

Invariants: no victim while the bridge is below half its cap; no victim that used less than MIN_SHARE of a core, in a
swelling bridge or one at three quarters less than URGENT_SHARE; after a victim, none for COOLDOWN (the bridge needs
time to free what it held). A flood slower than that is found at three quarters, one that uses no time ends at the cap.

Pure: samples with monotonic seconds in, an id out. Reads nothing, kills nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Final

SAMPLE: Final = 0.1  # seconds between samples while workers exist
WINDOW: Final = 1.0  # seconds over which processor time is compared
MIN_SHARE: Final = 0.2  # of one core; a worker at work waits for its model and its page nearly all the time
URGENT_SHARE: Final = (
    0.02  # of one core: two ticks of the kernel's clock in a WINDOW; a waiting worker uses none
)
SWELL: Final = 1 / 5  # of the cap in a WINDOW; the largest screenshot makes a tenth for a moment
COOLDOWN: Final = 1.0  # seconds


class FloodGuard:
    """Watches one bridge. `cap`: bytes of its memory limit."""

    __slots__ = ("_cap", "_quiet_until", "_samples")

    def __init__(self, cap: int) -> None:
        self._cap = cap
        self._samples: deque[tuple[float, int, dict[str, float]]] = deque()
        self._quiet_until = 0.0

    def sample(self, now: float, memory: int, cpu: Mapping[str, float]) -> str | None:
        """`memory`: bytes resident of the bridge; `cpu`: seconds used so far by each living worker. The victim's id or None."""
        while self._samples and self._samples[0][0] < now - WINDOW:
            self._samples.popleft()
        self._samples.append((now, memory, dict(cpu)))
        if memory * 2 < self._cap or now < self._quiet_until:
            return None
        growth = {worker: used - self._first(worker) for worker, used in cpu.items()}
        victim = max(growth, key=lambda worker: (growth[worker], worker), default=None)
        seconds = max(now - self._samples[0][0], SAMPLE)
        swelling = memory - min(held for _, held, _ in self._samples) >= self._cap * SWELL
        share = URGENT_SHARE if swelling or memory * 4 >= self._cap * 3 else MIN_SHARE
        if victim is None or growth[victim] < share * seconds:
            return None
        self._quiet_until = now + COOLDOWN
        return victim

    def _first(self, worker: str) -> float:
        """Seconds it had used at its oldest sample in the window: what a newcomer used for its imports does not count."""
        return next(cpu[worker] for _, _, cpu in self._samples if worker in cpu)
