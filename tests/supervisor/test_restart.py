"""Restart policy: OTP's intensity window with back-off and escalation."""

from __future__ import annotations

from browsercell.supervisor.restart import (
    FIRST_DELAY,
    MAX_DELAY,
    GiveUp,
    LeaveEnded,
    RestartAt,
    RestartPolicy,
)
from browsercell.supervisor.tree import ChildSpec, Restart, Role
from hypothesis import given
from hypothesis import strategies as st


def spec(restart: Restart, intensity: int = 3, period: float = 60.0) -> ChildSpec:
    return ChildSpec("bridge", Role.BRIDGE, restart, intensity, period)


def test_temporary_children_are_left_ended_whatever_their_status() -> None:
    policy = RestartPolicy(spec(Restart.TEMPORARY, 0))
    assert [policy.ended(0.0, status) for status in (0, 1, -9)] == [[LeaveEnded("bridge")]] * 3


def test_a_transient_child_is_restarted_only_after_a_failure() -> None:
    policy = RestartPolicy(spec(Restart.TRANSIENT))
    assert policy.ended(0.0, 0) == [LeaveEnded("bridge")]
    assert policy.ended(0.0, 1) == [RestartAt("bridge", FIRST_DELAY)]


def test_the_back_off_doubles_inside_the_window_up_to_its_ceiling() -> None:
    policy = RestartPolicy(spec(Restart.PERMANENT, intensity=12))
    delays = [
        effect.due for _ in range(12) for effect in policy.ended(0.0, 1) if isinstance(effect, RestartAt)
    ]
    assert delays[:3] == [FIRST_DELAY, FIRST_DELAY * 2, FIRST_DELAY * 4]
    assert delays[-1] == MAX_DELAY
    assert policy.total == 12


def test_over_intensity_it_gives_up_and_stays_so_until_reset() -> None:
    policy = RestartPolicy(spec(Restart.PERMANENT))
    for _ in range(3):
        assert isinstance(policy.ended(0.0, -9)[0], RestartAt)
    assert policy.ended(1.0, -9) == [GiveUp("bridge", 3, 60.0)]
    assert policy.ended(1000.0, -9) == [GiveUp("bridge", 3, 60.0)]
    policy.reset()
    assert policy.ended(1000.0, -9) == [RestartAt("bridge", 1000.0 + FIRST_DELAY)]


def test_restarts_older_than_the_period_do_not_count() -> None:
    policy = RestartPolicy(spec(Restart.PERMANENT))
    for second in (0.0, 61.0, 122.0, 183.0):
        assert policy.ended(second, 1) == [RestartAt("bridge", second + FIRST_DELAY)]


@given(st.lists(st.floats(0.0, 30.0), max_size=40))
def test_never_more_restarts_than_intensity_in_any_period(gaps: list[float]) -> None:
    policy, now, restarts = RestartPolicy(spec(Restart.PERMANENT)), 0.0, []
    for gap in gaps:
        now += gap
        if isinstance(policy.ended(now, 1)[0], RestartAt):
            restarts.append(now)
    for first, fourth in zip(restarts, restarts[3:], strict=False):
        assert fourth - first >= 60.0
