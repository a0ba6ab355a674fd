"""Memory of a sealed worker, and what a spare saves: its start against an assignment.

The memory goal is absolute (17 MB of PSS, read by the worker itself just before the allow-list, see `bench_worker.py`). PSS
divides shared pages by the number of processes that map them, so it is taken alone, which is the worst case and what is
judged, and beside others.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
from pathlib import Path

from browsercell.protocol.frames import Sealed, ToolCall
from browsercell.protocol.results import PlannerKind

from tests.bench.harness import Ratio, main
from tests.worker.builders import assignment
from tests.worker.fake_bridges import FakeBridges

GOAL_PSS = 17_000_000  # bytes
GOAL_SPARE = 0.1  # of a start; what the pool of spares is for
ROUNDS = 5
BESIDE = 4  # sealed workers that run while the last one is measured
SCRIPT = str(Path(__file__).with_name("bench_worker.py"))
PLAYBOOK = [
    {"tool": "browser_status", "args": {}},
    {"finish": {"status": "completed", "summary": "Done"}},
]


def run() -> list[Ratio]:
    """All ratios of this module; about ten seconds."""
    return asyncio.run(_measure())


async def _measure() -> list[Ratio]:
    alone = [(await _measured())["pss"] for _ in range(ROUNDS)]
    others = [FakeBridges(same_uid=True) for _ in range(BESIDE)]
    try:
        for bridges in others:
            await bridges.__aenter__()
            await bridges.sealed()
        beside = (await _measured())["pss"]
    finally:
        for bridges in others:
            await bridges.__aexit__(None, None, None)
    rounds = [await _started() for _ in range(ROUNDS)]
    start = statistics.median(first for first, _ in rounds)
    work = statistics.median(second for _, second in rounds)
    return [
        Ratio("worker: PSS before the seal / 17 MB", max(alone) / GOAL_PSS, 1.0, "<=",
              f"{max(alone) / 1e6:.1f} MB, the largest of {ROUNDS}; {beside / 1e6:.1f} MB beside {BESIDE} others"),
        Ratio("worker: a spare's first call / a start", work / start, GOAL_SPARE, "<=",
              f"{work * 1e3:.2f} ms / {start * 1e3:.0f} ms, p50 of {ROUNDS}"),
    ]  # fmt: skip


async def _measured() -> dict[str, int]:
    """One worker's own figures, in bytes."""
    async with FakeBridges(same_uid=True) as bridges:
        process = bridges.spawn([sys.executable, "-I", "-B", SCRIPT], pipe=True)
        await bridges.until(Sealed)
        assert process.stderr is not None
        figures: dict[str, int] = json.loads(process.stderr.readline())
        return figures


async def _started() -> tuple[float, float]:
    """Seconds from spawn to sealed, and from the assignment of that spare to its first call."""
    async with FakeBridges() as bridges:
        began = time.perf_counter()
        await bridges.sealed()
        sealed = time.perf_counter()
        bridges.assign(assignment(PlannerKind.PLAYBOOK, playbook=PLAYBOOK))
        await bridges.until(ToolCall)
        return sealed - began, time.perf_counter() - sealed


if __name__ == "__main__":
    sys.exit(main(run))
