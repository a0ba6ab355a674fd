"""A Ray actor's creation, for comparison; run by an interpreter of an environment of its own, which has Ray.

Prints one JSON line `{"version": …, "warm": [ms, …]}` once Ray stands: creations while a prestarted worker is free. Then
answers every line on stdin with `{"cold": ms}`: a creation without one, from the call to the first reply of the actor's method.
Ends with its stdin. All actors are kept until then, so that none of their processes is there to be used again.

Imports nothing of ours: `bench_assign.py` starts it.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

PRESTARTED = 2  # processes that Ray starts at once: one a processor it is told of
IDLE_SECONDS = 30.0  # for those to stand ready


def idle() -> int:
    """Ray's processes that wait for work, by the title that they give themselves."""
    found = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                found += (entry / "cmdline").read_bytes().startswith(b"ray::IDLE")
            except OSError:
                continue  # it has just ended
    return found


def main(folder: str) -> None:
    # Without this Ray reports to its makers over the network.
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray: Any = importlib.import_module("ray")
    ray.init(
        address="local",
        num_cpus=PRESTARTED,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="ERROR",
        _node_ip_address="127.0.0.1",
        _temp_dir=folder,
    )

    class Actor:
        def answer(self) -> int:
            return 1

    remote = ray.remote(num_cpus=0)(Actor)
    actors: list[Any] = []

    def create() -> float:
        began = time.perf_counter()
        actors.append(remote.remote())
        ray.get(actors[-1].answer.remote())
        return (time.perf_counter() - began) * 1000

    until = time.monotonic() + IDLE_SECONDS
    while idle() < PRESTARTED and time.monotonic() < until:
        time.sleep(0.05)
    warm = [create() for _ in range(min(idle(), PRESTARTED))]
    print(json.dumps({"version": ray.__version__, "warm": warm}), flush=True)
    for _ in sys.stdin:
        print(json.dumps({"cold": create()}), flush=True)
    ray.shutdown()


if __name__ == "__main__":
    main(sys.argv[1])
