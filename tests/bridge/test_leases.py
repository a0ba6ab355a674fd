"""Tab leases: exclusive, named, never reused (bridge/leases.py)."""

from __future__ import annotations

import pytest
from browsercell.bridge.leases import Lease, Leases, TaskTabs
from browsercell.protocol import limits as L
from browsercell.protocol.errors import LocalMisuse


def test_the_first_tab_is_active_and_names_count_up() -> None:
    tabs = TaskTabs("a", Leases())
    first = tabs.add(11, opened=True, activate=False)
    second = tabs.add(12, opened=False, activate=False)
    assert (first, second) == (Lease("t1", 11, True), Lease("t2", 12, False))
    assert tabs.active == first
    assert tabs.add(12, opened=True, activate=True) == second  # known: only made active
    assert tabs.active == second
    assert len(tabs) == 2
    assert tabs.all() == (first, second)
    assert (tabs.get("t1"), tabs.get("t3")) == (first, None)
    assert tabs.by_chrome(12) == second
    assert tabs.by_chrome(13) is None


def test_a_closed_tab_s_name_is_never_used_again() -> None:
    tabs = TaskTabs("a", Leases())
    tabs.add(11, opened=True, activate=True)
    tabs.add(12, opened=True, activate=True)
    tabs.remove("t2")
    assert tabs.active == Lease("t1", 11, True)
    tabs.remove("t1")
    tabs.remove("t1")
    assert tabs.active is None
    again = tabs.add(11, opened=True, activate=True)
    assert again is not None
    assert again.name == "t3"


def test_removing_another_tab_leaves_the_active_one() -> None:
    tabs = TaskTabs("a", Leases())
    tabs.add(11, opened=True, activate=True)
    tabs.add(12, opened=True, activate=True)
    tabs.remove("t1")
    assert tabs.active == Lease("t2", 12, True)


def test_one_task_a_tab() -> None:
    leases = Leases()
    one, two = TaskTabs("one", leases), TaskTabs("two", leases)
    assert one.add(11, opened=False, activate=True)
    assert two.add(11, opened=False, activate=True) is None
    assert leases.owner(11) == "one"
    leases.give_back(11, "two")  # not its own: nothing happens
    assert leases.owner(11) == "one"
    assert one.clear() == (Lease("t1", 11, False),)
    assert leases.owner(11) == ""
    assert two.add(11, opened=False, activate=True)


def test_a_task_has_a_bound_of_tabs() -> None:
    tabs = TaskTabs("a", Leases())
    for chrome in range(L.MAX_TABS_PER_TASK):
        assert tabs.add(chrome, opened=True, activate=True)
    assert tabs.full
    assert tabs.add(99, opened=True, activate=True) is None


def test_only_a_leased_tab_becomes_active() -> None:
    tabs = TaskTabs("a", Leases())
    tabs.add(11, opened=True, activate=True)
    tabs.add(12, opened=True, activate=False)
    tabs.activate("t2")
    assert tabs.active == Lease("t2", 12, True)
    with pytest.raises(LocalMisuse):
        tabs.activate("t9")


def test_a_tab_that_chrome_renamed_keeps_its_lease() -> None:
    leases = Leases()
    tabs, other = TaskTabs("a", leases), TaskTabs("b", leases)
    tabs.add(11, opened=True, activate=True)
    other.add(50, opened=True, activate=True)
    tabs.replace(99, 100)  # not this task's
    tabs.replace(11, 21)
    assert tabs.get("t1") == Lease("t1", 21, True)
    assert (leases.owner(11), leases.owner(21)) == ("", "a")
    tabs.replace(21, 50)  # another task has it
    assert tabs.get("t1") is None
    assert leases.owner(50) == "b"


def test_what_the_user_shares_becomes_the_first_asking_tasks_and_is_offered_again() -> None:
    leases = Leases()
    one, two = TaskTabs("one", leases), TaskTabs("two", leases)
    leases.offer(11)
    leases.offer(12)
    leases.offer(11)  # told again after a reconnection
    assert leases.free() == (11, 12)
    one.take_offered()
    two.take_offered()
    assert one.all() == (Lease("t1", 11, False), Lease("t2", 12, False))
    assert two.all() == ()
    one.clear()
    two.take_offered()
    assert [lease.chrome for lease in two.all()] == [11, 12]
    leases.replace_offer(12, 22)
    leases.replace_offer(99, 100)  # never offered
    leases.withdraw(11)
    leases.withdraw(99)
    two.clear()
    assert leases.free() == (22,)
    leases.withdraw_all()
    assert leases.free() == ()


def test_offers_are_bounded_and_taken_while_there_is_room() -> None:
    leases = Leases()
    for chrome in range(L.MAX_SHARED_TABS + 5):
        leases.offer(chrome)
    assert len(leases.free()) == L.MAX_SHARED_TABS
    tabs = TaskTabs("a", leases)
    tabs.take_offered()
    assert tabs.full
    assert len(leases.free()) == L.MAX_SHARED_TABS - L.MAX_TABS_PER_TASK


def test_a_tab_that_the_user_took_back_is_named_so() -> None:
    tabs = TaskTabs("a", Leases())
    tabs.add(11, opened=True, activate=True)
    tabs.withdraw(99)  # not this task's
    tabs.withdraw(11)
    assert tabs.active is None
    assert tabs.withdrawn("t1")
    assert not tabs.withdrawn("t2")
