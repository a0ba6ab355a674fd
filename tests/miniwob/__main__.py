"""`python -m tests.miniwob [--seeds N] [--parallel N] [--seed TEXT] [--log] [TASK ...]`: plays tasks and prints a table.

Without names: the working set. `all`: every task that has a planner. A name without a planner is told as such. Seeds are drawn when the
run starts; `--seed` repeats a run. The exit status is 1 when a task that must be solved is not.
"""

from __future__ import annotations

import argparse
import secrets
import sys

from .oracles import CHANCE, ORACLES, REFUSED, WORKING_SET
from .runner import Played, running, table
from .site import Site, Unobtainable, pages_folder, task_names


def main() -> int:
    """Play, print, judge."""
    parser = argparse.ArgumentParser(prog="python -m tests.miniwob", description=__doc__)
    parser.add_argument("tasks", nargs="*")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--parallel", type=int, default=2)
    parser.add_argument("--seed", default=secrets.token_hex(4), help="the run's seed")
    parser.add_argument("--log", action="store_true", help="print calls and answers of what is not solved")
    options = parser.parse_args()
    try:
        pages = pages_folder()
    except Unobtainable as error:
        print(f"skipped: {error}")
        return 0
    known = task_names(pages)
    names = sorted(ORACLES) if options.tasks == ["all"] else options.tasks or list(WORKING_SET)
    for name in names:
        if name not in known:
            print(f"{name}: no such task in these pages")
        elif name not in ORACLES:
            print(f"{name}: {REFUSED.get(name) or 'no planner is written for it'}")
    names = [name for name in names if name in ORACLES and name in known]
    wanted = [(name, f"{options.seed}-{n}", ORACLES[name]) for name in names for n in range(options.seeds)]

    def done(played: Played) -> None:
        print(
            ".",
            "" if played.episode.solved else f"{played.episode.task} {played.problem}\n",
            end="",
            flush=True,
        )
        if options.log and not played.episode.solved:
            print(f"{played.episode.utterance}")
            for call, answer in played.running.page.log:
                print(">", *call)
                print(answer)

    print(f"seed {options.seed}")
    with Site(pages) as site, running(site) as runner:
        played = runner.play_all(wanted, options.parallel, done)
    print("\n" + table(played))
    must = [one for one in played if one.episode.task in WORKING_SET and one.episode.task not in CHANCE]
    return 0 if all(one.episode.solved for one in must) else 1


if __name__ == "__main__":
    sys.exit(main())
