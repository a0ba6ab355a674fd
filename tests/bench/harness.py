"""Shared by all benchmarks: ratios against a floor of the same run, the C floor itself, the printed table.

A benchmark module has `run() -> list[Ratio]`. Only ratios have goals: absolute times move by 40 % between minutes
on shared virtual cores, the ratio to a floor interleaved with them does not. `python -m tests.bench.<module>`
prints one module's table and exits 1 when a goal is missed or the floor can't be measured.
"""

from __future__ import annotations

import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal


@dataclass(frozen=True, slots=True)
class Ratio:
    """One measured ratio. `goal` None: printed for information only. `unit_note`: the absolute values behind it."""

    name: str
    value: float
    goal: float | None
    op: Literal["<=", ">="]
    unit_note: str

    @property
    def met(self) -> bool:
        if self.goal is None:
            return True
        return self.value <= self.goal if self.op == "<=" else self.value >= self.goal


def missing(name: str, goal: float, op: Literal["<=", ">="], why: str) -> Ratio:
    """A ratio that could not be taken: a missing baseline is no pass."""
    return Ratio(name, math.inf if op == "<=" else -math.inf, goal, op, why)


def load() -> str:
    """The machine's load, to be printed beside figures: absolute times mean little without it."""
    return f"load {os.getloadavg()[0]:.1f} on {len(os.sched_getaffinity(0))} cores"


class FloorUnavailable(RuntimeError):
    """The floor can't be measured here; without it no ratio means anything."""


def cores() -> tuple[int, int]:
    """Two different cores of those we may use. Raises FloorUnavailable on a machine with one."""
    usable = sorted(os.sched_getaffinity(0))
    if len(usable) < 2:
        raise FloorUnavailable("the two-core floor needs two cores")
    return usable[0], usable[1]


class Floor:
    """The compiled floor.c."""

    def __init__(self, binary: Path) -> None:
        self._binary = binary
        self.client_core, self.server_core = cores()

    def trip_us(self, size: int, seconds: float, *, same_core: bool = False) -> float:
        """Median round trip of `size` bytes in microseconds."""
        return self._run(size, seconds, 1, same_core) / 1000

    def trips_per_s(self, size: int, seconds: float, window: int) -> float:
        """Pipelined round trips a second with `window` under way, on two cores."""
        return self._run(size, seconds, window, False)

    def _run(self, size: int, seconds: float, window: int, same_core: bool) -> float:
        server_core = self.client_core if same_core else self.server_core
        arguments = [size, seconds, window, self.client_core, server_core]
        done = subprocess.run(
            [str(self._binary), *map(str, arguments)], capture_output=True, text=True, timeout=60, check=True
        )
        return float(done.stdout)


@contextmanager
def floor() -> Iterator[Floor]:
    """Compile floor.c with gcc (or $CC) into a temporary folder. Raises FloorUnavailable without a compiler."""
    compiler = shutil.which(os.environ.get("CC", "gcc"))
    if compiler is None:
        raise FloorUnavailable("no C compiler (gcc) found, so the floor can't be built")
    with tempfile.TemporaryDirectory(prefix="bcb-") as folder:
        binary = Path(folder) / "floor"
        source = Path(__file__).with_name("floor.c")
        built = subprocess.run(
            [compiler, "-O2", "-Wall", "-Werror", "-o", str(binary), str(source)],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if built.returncode:
            raise FloorUnavailable(f"floor.c did not compile: {built.stderr.strip()[:500]}")
        yield Floor(binary)


def median_ratio(values: Sequence[float], floors: Sequence[float]) -> float:
    """Median of the ratios taken round by round: value and floor of one round saw the same machine."""
    return statistics.median(value / base for value, base in zip(values, floors, strict=True))


def table(ratios: Sequence[Ratio]) -> str:
    """The printed table."""
    width = max((len(ratio.name) for ratio in ratios), default=0)
    lines = []
    for ratio in ratios:
        goal = "-" if ratio.goal is None else f"{ratio.op} {ratio.goal:g}"
        verdict = "" if ratio.goal is None else ("ok" if ratio.met else "MISSED")
        lines.append(f"{ratio.name:<{width}}  {ratio.value:8.3f}  {goal:>9}  {verdict:<6}  {ratio.unit_note}")
    return "\n".join(lines)


def main(run: Callable[[], list[Ratio]]) -> int:
    """Run one module's benchmarks and print them. 0: all goals met."""
    try:
        ratios = run()
    except FloorUnavailable as error:
        print(f"floor unavailable: {error}", file=sys.stderr)
        return 1
    print(table(ratios))
    return 0 if all(ratio.met for ratio in ratios) else 1
