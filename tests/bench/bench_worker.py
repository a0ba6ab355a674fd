"""Runs a real worker that measures itself just before the allow-list; started by `bench_sealed.py`.

Everything is as in the product up to that moment: the same imports, warmed up, fences, both links greeted. The figures
go to stderr, a pipe here, as one line of JSON.
"""

from __future__ import annotations

import json
import os
import sys

from browsercell.worker import app

_SMAPS = os.open("/proc/self/smaps_rollup", os.O_RDONLY)  # after the fences nothing can be opened by name


def measure() -> None:
    """Write {"pss": bytes, "rss": bytes, "private": bytes}."""
    text = os.pread(_SMAPS, 8_192, 0).decode()
    kib = {
        line.split(":")[0]: int(line.split()[1])
        for line in text.splitlines()
        if line.endswith(" kB") and line.split()[1].isdigit()
    }
    private = kib["Private_Clean"] + kib["Private_Dirty"]
    figures = {"pss": kib["Pss"] * 1024, "rss": kib["Rss"] * 1024, "private": private * 1024}
    print(json.dumps(figures), file=sys.stderr, flush=True)


if __name__ == "__main__":
    os._exit(app.run(app.parse_arguments(sys.argv[1:]), before_seal=measure))
