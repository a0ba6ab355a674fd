"""Memory of a sealed worker, and from its start to its first call (`make bench`).

The memory goal is absolute (17 MB of PSS, read by the worker itself just before the allow-list). PSS divides shared pages
by the number of processes that map them, so it is taken twice: alone, which is the worst case, and beside others.
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

from tests.worker.builders import assignment
from tests.worker.fake_bridges import FakeBridges

GOAL_PSS = 17_000_000  # bytes
ROUNDS = 5
BESIDE = 4  # sealed workers that run while the last one is measured
SCRIPT = str(Path(__file__).with_name("bench_worker.py"))
PLAYBOOK = [
    {"tool": "browser_status", "args": {}},
    {"finish": {"status": "completed", "summary": "Done"}},
]


async def measured() -> dict[str, int]:
    """One worker's own figures, in bytes."""
    async with FakeBridges(same_uid=True) as bridges:
        process = bridges.spawn([sys.executable, "-I", "-B", SCRIPT], pipe=True)
        await bridges.until(Sealed)
        assert process.stderr is not None
        figures: dict[str, int] = json.loads(process.stderr.readline())
        return figures


async def started() -> tuple[float, float]:
    """Seconds from spawn to sealed, and from the assignment of that spare to its first call."""
    async with FakeBridges() as bridges:
        began = time.perf_counter()
        await bridges.sealed()
        sealed = time.perf_counter()
        bridges.assign(assignment(PlannerKind.PLAYBOOK, playbook=PLAYBOOK))
        await bridges.until(ToolCall)
        return sealed - began, time.perf_counter() - sealed


def test_a_sealed_worker_stays_within_its_memory() -> None:
    async def body() -> None:
        alone = [(await measured())["pss"] for _ in range(ROUNDS)]
        others = [FakeBridges(same_uid=True) for _ in range(BESIDE)]
        try:
            for bridges in others:
                await bridges.__aenter__()
                await bridges.sealed()
            beside = (await measured())["pss"]
        finally:
            for bridges in others:
                await bridges.__aexit__(None, None, None)
        worst = max(alone)
        print(
            f"\nworker PSS before the seal: {worst / 1e6:.1f} MB (goal {GOAL_PSS / 1e6:.0f} MB, {worst / GOAL_PSS:.2f})"
        )
        print(f"the same beside {BESIDE} others: {beside / 1e6:.1f} MB")
        assert worst <= GOAL_PSS

    asyncio.run(body())


def test_a_spare_takes_its_work_at_once() -> None:
    async def body() -> None:
        rounds = [await started() for _ in range(ROUNDS)]
        start = statistics.median(first for first, _ in rounds)
        work = statistics.median(second for _, second in rounds)
        print(
            f"\nworker start to sealed {start * 1e3:.0f} ms, assignment to first call {work * 1e3:.2f} ms ({start / work:.0f} : 1)"
        )
        assert work * 10 < start  # what the pool of spares is for

    asyncio.run(body())
