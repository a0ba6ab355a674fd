"""The pool: how many spares are made, who gets them, what failures do."""

from __future__ import annotations

from browsercell.supervisor.pool import FIRST_DELAY, GIVE_UP, MAX_DELAY, Give, NoWorker, Pool, StartSpare
from hypothesis import given
from hypothesis import strategies as st


def filled(size: int = 2) -> Pool:
    pool = Pool(size)
    assert pool.resume(0.0) == [StartSpare()] * size
    for number in range(size):
        assert pool.made(f"w{number}", 0.0) == []
    return pool


def test_nothing_is_made_before_both_bridges_are_ready() -> None:
    pool = Pool(2)
    assert pool.tick(0.0) == []
    assert pool.want("t", 0.0) == []
    assert pool.resume(0.0) == [StartSpare()] * 3


def test_a_ready_spare_is_given_at_once_and_replaced() -> None:
    pool = filled()
    assert pool.want("t", 0.0) == [Give("w0", "t"), StartSpare()]
    assert (pool.ready, pool.starting, pool.waiting) == (1, 1, 0)


def test_tasks_are_served_in_the_order_they_asked() -> None:
    pool = filled(1)
    assert pool.want("a", 0.0) == [Give("w0", "a"), StartSpare()]
    assert pool.want("b", 0.0) == [StartSpare()]
    assert pool.want("c", 0.0) == [StartSpare()]
    assert pool.made("w1", 0.0) == [Give("w1", "b")]
    pool.unwant("c")
    pool.unwant("never-asked")
    assert pool.made("w2", 0.0) == []
    assert pool.ready == 1


def test_a_dead_spare_is_replaced() -> None:
    pool = filled()
    assert pool.lost("w1", 0.0, young=False) == [StartSpare()]


def test_failures_back_off_one_at_a_time_and_success_ends_it() -> None:
    pool = Pool(2)
    pool.resume(0.0)
    assert pool.failed(0.0, count=True) == []
    assert pool.next_due() == FIRST_DELAY
    assert pool.failed(0.0, count=True) == []
    assert pool.tick(FIRST_DELAY) == []
    assert pool.tick(2 * FIRST_DELAY) == [StartSpare()]  # two are missing, one is tried
    assert pool.tick(2 * FIRST_DELAY) == []
    assert pool.made("w", 1.0) == [StartSpare()]
    assert pool.made("v", 1.0) == []
    assert (pool.failures, pool.next_due()) == (0, None)


def test_spares_that_die_young_are_not_replaced_in_a_loop() -> None:
    pool = Pool(1)
    pool.resume(0.0)
    pool.made("a", 0.0)
    assert pool.lost("a", 0.0, young=True) == []
    assert pool.tick(FIRST_DELAY) == [StartSpare()]


def test_the_back_off_has_a_ceiling() -> None:
    pool = Pool(1)
    pool.resume(0.0)
    for _ in range(20):
        pool.failed(0.0, count=True)
        pool.tick(1e9)
    assert pool.failed(0.0, count=True) == []
    assert pool.next_due() == MAX_DELAY


def test_a_failure_that_is_not_its_own_is_not_counted() -> None:
    pool = Pool(1)
    pool.resume(0.0)
    assert pool.failed(0.0, count=False) == [StartSpare()]
    pool.pause()
    assert pool.failed(0.0, count=False) == []
    assert pool.next_due() is None


def test_waiting_tasks_are_told_when_making_workers_keeps_failing() -> None:
    pool = Pool(1)
    pool.resume(0.0)
    pool.want("t", 0.0)
    for _ in range(GIVE_UP - 1):
        assert NoWorker("t") not in pool.failed(0.0, count=True)
        pool.tick(100.0)
    assert pool.failed(0.0, count=True) == [NoWorker("t")]
    assert pool.waiting == 0


@given(
    st.lists(
        st.sampled_from(["want", "unwant", "made", "failed", "innocent", "lost", "tick", "pause", "resume"]),
        max_size=80,
    )
)
def test_never_more_workers_than_size_and_waiting_tasks_ask_for(moves: list[str]) -> None:
    pool, now, number, given_away, asked = Pool(2), 0.0, 0, set(), 0
    ready: list[str] = []
    for move in moves:
        now += 0.3
        effects: list[object] = []
        if move == "want":
            asked += 1
            effects += pool.want(f"t{asked}", now)
        elif move == "unwant":
            pool.unwant(f"t{asked}")
        elif move in ("made", "failed", "innocent") and pool.starting:
            if move == "made":
                number += 1
                ready.append(f"w{number}")
                effects += pool.made(f"w{number}", now)
            else:
                effects += pool.failed(now, count=move == "failed")
        elif move == "lost" and ready:
            gone = ready.pop()
            effects += pool.lost(gone, now, young=number % 2 == 0) if gone not in given_away else []
        elif move == "tick":
            effects += pool.tick(now)
        elif move == "pause":
            pool.pause()
        elif move == "resume":
            effects += pool.resume(now)
        for effect in effects:
            if isinstance(effect, Give):
                assert effect.worker not in given_away
                given_away.add(effect.worker)
        started = effects.count(StartSpare())
        assert not (started and pool.paused)
        if started:  # (a task that gives up may leave one more than needed; nothing is ended for that)
            assert pool.starting + pool.ready <= 2 + pool.waiting
        assert not (pool.ready and pool.waiting)
