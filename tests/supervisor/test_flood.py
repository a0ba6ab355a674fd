"""The flood guard: a victim only when a bridge swells and a worker burns a core."""

from __future__ import annotations

from browsercell.supervisor.flood import COOLDOWN, SAMPLE, FloodGuard

CAP = 1000
HALF = 500


def test_a_flooding_worker_is_found_once_the_bridge_is_at_half_its_cap() -> None:
    guard = FloodGuard(CAP)
    victims = [guard.sample(i * SAMPLE, 100 * i, {"quiet": 0.0, "loud": 0.08 * i}) for i in range(7)]
    assert victims == [None] * 5 + ["loud", None]


def test_no_victim_below_half_the_cap() -> None:
    guard = FloodGuard(CAP)
    assert all(guard.sample(i * SAMPLE, HALF - 1, {"loud": float(i)}) is None for i in range(20))


def test_no_victim_among_workers_that_hardly_run() -> None:
    guard = FloodGuard(CAP)
    assert all(guard.sample(i * SAMPLE, CAP, {"a": 0.001 * i}) is None for i in range(20))
    assert guard.sample(2.0, CAP, {"a": 1.0}) == "a"


def test_at_three_quarters_a_little_is_enough() -> None:
    guard = FloodGuard(CAP)
    samples = [(i * SAMPLE, {"a": 0.001 * i, "cheap": 0.005 * i}) for i in range(20)]
    assert all(guard.sample(now, CAP * 3 // 4 - 1, cpu) is None for now, cpu in samples[:10])
    assert guard.sample(samples[10][0], CAP * 3 // 4, samples[10][1]) == "cheap"


def test_in_a_swelling_bridge_a_little_is_enough_at_half() -> None:
    guard = FloodGuard(CAP)
    samples = [(i * SAMPLE, HALF - 210 + 30 * i, {"a": 0.001 * i, "cheap": 0.005 * i}) for i in range(8)]
    assert [guard.sample(*sample) for sample in samples] == [None] * 7 + ["cheap"]


def test_a_bridge_that_stands_at_half_is_not_swelling() -> None:
    guard = FloodGuard(CAP)
    assert all(guard.sample(i * SAMPLE, HALF + i, {"a": 0.005 * i}) is None for i in range(20))


def test_no_victim_without_workers() -> None:
    assert FloodGuard(CAP).sample(0.0, CAP, {}) is None


def test_what_a_newcomer_used_before_it_was_first_seen_does_not_count() -> None:
    guard = FloodGuard(CAP)
    guard.sample(0.0, 0, {"old": 50.0})
    assert guard.sample(SAMPLE, HALF, {"old": 50.0, "new": 0.09}) is None
    assert guard.sample(2 * SAMPLE, HALF, {"old": 50.0, "new": 0.18}) == "new"


def test_after_a_victim_the_bridge_gets_time_to_free_its_memory() -> None:
    guard = FloodGuard(CAP)
    guard.sample(0.0, 0, {"a": 0.0, "b": 0.0})
    assert guard.sample(0.5, HALF, {"a": 0.5, "b": 0.4}) == "a"
    assert guard.sample(0.6, HALF, {"b": 0.5}) is None
    assert guard.sample(0.5 + COOLDOWN, HALF, {"b": 1.3}) == "b"


def test_only_the_last_second_counts() -> None:
    guard = FloodGuard(CAP)
    guard.sample(0.0, 0, {"once-busy": 0.0})
    for i in range(1, 30):
        assert guard.sample(1.0 + i * SAMPLE, CAP if i > 15 else 0, {"once-busy": 1.0}) is None
