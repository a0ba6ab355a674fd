"""The coverage gate of `make test`: pure modules are covered whole, the rest to nine tenths.

Purpose: reads coverage's JSON report of the quick suites and fails with one line for each module below its floor.
A module that declares itself pure (tests/layout/rules.py) has every line and branch executed; the others, which are
shells around the loop, sockets and clock, reach 90 % over all, and each of them at least half.

It measures nothing itself: only what ran inside the test process was measured. Code that runs in workers, bridges and
supervisors of the live suites is not counted, so shells that only live there are named in `ELSEWHERE` with the path of
the suite that runs them.

Run: python -m tests.coverage_gate build/coverage/report.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

from tests.layout import rules

TOP: Final = Path(__file__).resolve().parent.parent
# What all shells reach together, in percent of lines and branches: the missing tenth is what only a kernel can refuse.
SHELLS_TOGETHER: Final = 90.0
# What one shell reaches at least, so that a big tested module can't carry a small untested one.
ONE_SHELL: Final = 50.0
# Shells that run only inside processes of their own. Value: the path of the suite that does.
ELSEWHERE: Final[dict[str, str]] = {
    "supervisor/__main__.py": "tests/live/test_cli.py",
    "supervisor/cli/demo.py": "tests/live/test_memory_proof.py",
    "supervisor/cli/mcp.py": "tests/supervisor/mcp/test_mcp_stdio.py",
    "supervisor/cli/run.py": "tests/live/test_cli.py",
    "supervisor/mcp/stdio.py": "tests/supervisor/mcp/test_mcp_stdio.py",
    "supervisor/service.py": "tests/live/test_cli_faults.py",
    # What seals a process can't be run in the one that measures: it would be sealed.
    "worker/seal/__init__.py": "tests/worker/seal/test_seal_life.py",
    "worker/seal/privileges.py": "tests/worker/seal/test_seal_escape.py",
    "worker/seal/rlimits.py": "tests/worker/seal/test_seal_escape.py",
    "worker/seal/warm.py": "tests/worker/seal/test_seal_life.py",
}


def percent(summary: dict[str, Any]) -> float:
    """Lines and branches executed, in percent of both; 100 where there is nothing to execute."""
    whole = summary["num_statements"] + summary.get("num_branches", 0)
    done = summary["covered_lines"] + summary.get("covered_branches", 0)
    return 100.0 * done / whole if whole else 100.0


def judge(report: dict[str, Any], pure: frozenset[str], elsewhere: dict[str, str]) -> tuple[list[str], float]:
    """Return (complaints, percent of the shells together) for coverage's JSON report."""
    complaints: list[str] = []
    seen: set[str] = set()
    done = whole = 0
    for name, entry in sorted(report["files"].items()):
        if name.partition("/")[0] not in rules.PACKAGES:
            continue
        seen.add(name)
        summary = entry["summary"]
        reached = percent(summary)
        if name in pure:
            if reached < 100.0:
                lines = ", ".join(str(line) for line in entry["missing_lines"][:10])
                branches = ", ".join(f"{a}->{b}" for a, b in entry.get("missing_branches", [])[:10])
                complaints.append(f"{name}: pure, {reached:.1f} %; lines [{lines}], branches [{branches}]")
        elif name in elsewhere:
            continue
        else:
            whole += summary["num_statements"] + summary.get("num_branches", 0)
            done += summary["covered_lines"] + summary.get("covered_branches", 0)
            if reached < ONE_SHELL:
                complaints.append(f"{name}: {reached:.1f} %, below {ONE_SHELL:.0f} %")
    complaints += [f"{name}: pure, but not in the report" for name in sorted(pure - seen)]
    complaints += [f"{name}: exempted, but not in the report" for name in sorted(set(elsewhere) - seen)]
    together = 100.0 * done / whole if whole else 100.0
    if together < SHELLS_TOGETHER:
        complaints.append(f"all shells together: {together:.1f} %, below {SHELLS_TOGETHER:.0f} %")
    return complaints, together


def pure_modules(top: Path) -> frozenset[str]:
    """The modules of a checkout that declare themselves pure, as paths from the top."""
    return frozenset(
        path.relative_to(top).as_posix()
        for package in rules.PACKAGES
        for path in (top / package).rglob("*.py")
        if rules.says_pure(path.read_text("utf-8"))
    )


def main(arguments: list[str]) -> int:
    """Judge the report named by the one argument; print complaints; return the exit status."""
    (path,) = arguments
    pure = pure_modules(TOP)
    complaints, together = judge(json.loads(Path(path).read_text("utf-8")), pure, ELSEWHERE)
    for complaint in complaints:
        print(f"coverage: {complaint}")
    print(f"coverage: {len(pure)} pure modules to be covered whole, shells together {together:.1f} %")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
