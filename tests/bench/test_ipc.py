"""The goals of the links' benchmarks, as one test a run (`make bench`)."""

from __future__ import annotations

from tests.bench import bench_ipc, harness


def test_ipc_goals() -> None:
    assert harness.main(bench_ipc.run) == 0
