"""The coverage gate fails where it should."""

from __future__ import annotations

from typing import Any

from tests import coverage_gate as gate


def entry(lines: int, covered: int, branches: int = 0, covered_branches: int = 0) -> dict[str, Any]:
    """One file of coverage's JSON report."""
    return {
        "summary": {
            "num_statements": lines,
            "covered_lines": covered,
            "num_branches": branches,
            "covered_branches": covered_branches,
        },
        "missing_lines": list(range(covered, lines)),
        "missing_branches": [[n, n + 1] for n in range(covered_branches, branches)],
    }


def report(**files: dict[str, Any]) -> dict[str, Any]:
    """A report with the given modules of the bridge."""
    return {"files": {f"bridge/{name}.py": value for name, value in files.items()}}


def test_a_pure_module_with_one_missing_branch_fails() -> None:
    complaints, _ = gate.judge(report(a=entry(10, 10, 4, 3)), frozenset({"bridge/a.py"}), {})
    assert complaints == ["bridge/a.py: pure, 92.9 %; lines [], branches [3->4]"]


def test_a_pure_module_covered_whole_passes() -> None:
    assert gate.judge(report(a=entry(10, 10, 4, 4)), frozenset({"bridge/a.py"}), {}) == ([], 100.0)


def test_a_pure_module_that_nothing_imports_fails() -> None:
    assert gate.judge(report(), frozenset({"bridge/a.py"}), {})[0] == [
        "bridge/a.py: pure, but not in the report"
    ]


def test_shells_are_judged_together_and_alone() -> None:
    assert gate.judge(report(a=entry(90, 90), b=entry(10, 5)), frozenset(), {}) == ([], 95.0)
    complaints, together = gate.judge(report(a=entry(100, 100), b=entry(10, 4)), frozenset(), {})
    assert complaints == ["bridge/b.py: 40.0 %, below 50 %"]
    assert together > gate.SHELLS_TOGETHER
    assert gate.judge(report(a=entry(100, 89)), frozenset(), {})[0] == [
        "all shells together: 89.0 %, below 90 %"
    ]


def test_exempted_shells_are_not_counted_but_must_exist() -> None:
    where = {"bridge/a.py": "live"}
    assert gate.judge(report(a=entry(100, 0), b=entry(10, 10)), frozenset(), where) == ([], 100.0)
    assert gate.judge(report(b=entry(10, 10)), frozenset(), where)[0] == [
        "bridge/a.py: exempted, but not in the report"
    ]


def test_files_of_others_are_ignored() -> None:
    assert gate.judge({"files": {"tests/a.py": entry(10, 0)}}, frozenset(), {}) == ([], 100.0)


def test_an_exempted_module_names_the_suite_that_runs_it() -> None:
    assert [name for name, suite in gate.ELSEWHERE.items() if not (gate.TOP / suite).exists()] == []
