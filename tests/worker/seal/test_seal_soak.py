"""Many boots: libzmq's threads start when they like, and the filter may land before, between or after their first calls.

40 boots by default; SEAL_SOAK_BOOTS asks for more. Two hosts boot side by side, so that the cores are contended.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

from .seal_lab import ACCOUNTS, Place, Run, conduct

BOOTS = int(os.environ.get("SEAL_SOAK_BOOTS", "40"))
HOSTS = 2
ORDERS = ({"do": "echo", "body": "x"}, {"do": "exit"})


def test_every_boot_succeeds(seal_places: dict[str, Place]) -> None:
    each = max(1, BOOTS // HOSTS)
    runs = [Run(name=f"boot-{n}", attack="kill", threads=n % 2 == 0, orders=ORDERS) for n in range(each)]
    accounts = [ACCOUNTS[n % len(ACCOUNTS)] for n in range(HOSTS)]
    with ThreadPoolExecutor(HOSTS) as pool:
        jobs = [pool.submit(conduct, account, seal_places[account], runs) for account in accounts]
    results = [run for finished in jobs for run in finished.result().runs.values()]
    assert len(results) == each * HOSTS
    assert [(r["exit"], r["answers"], r["output"]) for r in results] == [(0, ["x"], "")] * len(results)
    assert len({r["report"]["level"] for r in results}) == 1 or len(set(accounts)) > 1
