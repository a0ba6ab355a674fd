"""Refs under change: seeded pages, changed between look and click (`extension/test/refs_fuzz.ts` makes them).

300 cases here; all 10,000 by `BROWSERCELL_FUZZ_CASES=10000 .venv/bin/python -m pytest -s tests/extension/test_refs_fuzz.py`.
"""

from __future__ import annotations

import os
from typing import Any

import pytest

from .conftest import World
from .probe import probed

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

CASES = int(os.environ.get("BROWSERCELL_FUZZ_CASES", "300"))
FIRST = int(os.environ.get("BROWSERCELL_FUZZ_SEED", "1"))
_ROUND = 250  # cases in one call into the page


def test_no_click_hits_another_element_and_what_is_provable_is_hit(world: World) -> None:
    total: dict[str, Any] = {"cases": 0, "clicked": 0, "provable": 0, "hit": 0, "stale": 0, "untellable": 0}
    wrong: list[str] = []
    missed: list[str] = []
    by: dict[str, list[int]] = {}
    with probed(world.chromium, f"{world.site.base}/empty") as probe:
        for seed in range(FIRST, FIRST + CASES, _ROUND):
            report = probe.ask(f"fuzzRefs({seed}, {min(_ROUND, FIRST + CASES - seed)})")
            for name in total:
                total[name] += report[name]
            wrong += report["wrong"]
            missed += report["missed"]
            for change, (provable, hit) in report["by"].items():
                counts = by.setdefault(change, [0, 0])
                counts[0] += provable
                counts[1] += hit
    print(f"\n{total}, wrong {len(wrong)}")
    for change, (provable, hit) in sorted(by.items()):
        print(f"  {change}: {hit} of {provable} provable targets hit")
    print("\n".join([*wrong[:20], "missed:", *missed[:20]]))
    assert wrong == []
    assert total["cases"] == CASES
    assert total["hit"] >= 0.95 * total["provable"] > 0.2 * CASES
