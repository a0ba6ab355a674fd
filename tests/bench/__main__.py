"""`make bench`: every benchmark, one table of ratios with goal and verdict. Exit status 1 when a goal is missed.

The load is printed before and after: ratios are taken within one run and bear some of it, the absolute times beside them do not.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Final

from tests.bench import bench_articles, bench_assign, bench_browser, bench_ipc, bench_sealed, bench_size
from tests.bench.harness import FloorUnavailable, Ratio, load, missing, table

SUITES: Final[tuple[tuple[str, Callable[[], list[Ratio]]], ...]] = (
    ("ipc", bench_ipc.run),
    ("worker", bench_sealed.run),
    ("assign", bench_assign.run),
    ("browser", bench_browser.run),
    ("size", bench_size.run),
    ("articles", bench_articles.run),
)


def main() -> int:
    """Run them all; one that can't run counts as missed and does not keep the others from running."""
    ratios: list[Ratio] = []
    began = time.monotonic()
    before = load()
    for name, run in SUITES:
        print(f"bench: {name} …", file=sys.stderr, flush=True)
        try:
            ratios += run()
        except FloorUnavailable as error:
            ratios.append(missing(f"{name}: all", 0, "<=", f"floor unavailable: {error}"))
        except Exception as error:  # noqa: BLE001 - its table row says so, and the run fails
            ratios.append(
                missing(f"{name}: all", 0, "<=", f"could not be measured: {type(error).__name__}: {error}")
            )
    print(table(ratios))
    missed = [ratio.name for ratio in ratios if not ratio.met]
    print(f"\n{before} before, {load()} after; {time.monotonic() - began:.0f} s")
    print(f"missed: {'; '.join(missed)}" if missed else "all goals met")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
