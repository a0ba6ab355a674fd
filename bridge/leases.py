"""Tab leases: which Chrome tabs belong to which task, and under which names its worker knows them.

Invariants: a Chrome tab of one browser is leased to one task at a time; a task's tab names (`t1`, `t2`, ...) count up
and are never reused within it, so a closed tab's name stays unknown for ever; a task holds at most
`limits.MAX_TABS_PER_TASK` tabs; the active tab, if any, is one of them. A Chrome tab id is never told to a worker.
A tab that the user shares is offered to every task of that browser and becomes the first one's that asks for its tabs;
it is offered again when that task ends. A name whose tab the user took back is remembered, so that the worker is told.

Pure: no tab is opened or closed here.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..protocol import limits as L
from ..protocol.errors import LocalMisuse


@dataclass(frozen=True, slots=True)
class Lease:
    """One leased tab. `opened`: the task opened it itself, so closing it at the end is the task's right."""

    name: str
    chrome: int
    opened: bool


class Leases:
    """All leases of one browser, by Chrome tab id: the ground of exclusivity."""

    __slots__ = ("_offered", "_owner")

    def __init__(self) -> None:
        self._owner: dict[int, str] = {}
        self._offered: dict[int, None] = {}  # in the order they were shared

    def owner(self, chrome: int) -> str:
        """The task that holds this Chrome tab, or ""."""
        return self._owner.get(chrome, "")

    def take(self, chrome: int, task: str) -> bool:
        """Lease `chrome` to `task`; False if another task has it."""
        return self._owner.setdefault(chrome, task) == task

    def offer(self, chrome: int) -> None:
        """The user shares this tab; at most `limits.MAX_SHARED_TABS` at once, more are not offered."""
        if len(self._offered) < L.MAX_SHARED_TABS:
            self._offered[chrome] = None

    def withdraw(self, chrome: int) -> None:
        """The user took it back, or it is closed. Harmless if it was not offered."""
        self._offered.pop(chrome, None)

    def withdraw_all(self) -> None:
        """The browser is gone."""
        self._offered.clear()

    def replace_offer(self, chrome: int, new_chrome: int) -> None:
        """An offered tab got another id. Harmless if it was not offered."""
        if chrome in self._offered:
            self.withdraw(chrome)
            self.offer(new_chrome)

    def free(self) -> tuple[int, ...]:
        """Offered tabs that no task holds, oldest offer first."""
        return tuple(chrome for chrome in self._offered if chrome not in self._owner)

    def give_back(self, chrome: int, task: str) -> None:
        """End the lease if it is this task's."""
        if self._owner.get(chrome) == task:
            del self._owner[chrome]


class TaskTabs:
    """The tabs of one task. `leases` are those of the browser it runs in."""

    __slots__ = ("_active", "_count", "_leases", "_tabs", "_task", "_withdrawn")

    def __init__(self, task: str, leases: Leases) -> None:
        self._task = task
        self._leases = leases
        self._tabs: dict[str, Lease] = {}
        self._count = 0
        self._active = ""
        self._withdrawn: set[str] = set()

    def __len__(self) -> int:
        return len(self._tabs)

    @property
    def active(self) -> Lease | None:
        """The tab that calls without a tab argument use."""
        return self._tabs.get(self._active)

    @property
    def full(self) -> bool:
        """Whether the task may open no further tab."""
        return len(self._tabs) >= L.MAX_TABS_PER_TASK

    def all(self) -> tuple[Lease, ...]:
        """Every lease, oldest first."""
        return tuple(self._tabs.values())

    def get(self, name: str) -> Lease | None:
        """The lease of that name, if it is this task's."""
        return self._tabs.get(name)

    def by_chrome(self, chrome: int) -> Lease | None:
        """The lease of that Chrome tab, if it is this task's."""
        return next((lease for lease in self._tabs.values() if lease.chrome == chrome), None)

    def add(self, chrome: int, *, opened: bool, activate: bool) -> Lease | None:
        """Lease a Chrome tab; the known lease if the task has it already, None if another task has it or the
        task is full. The first tab becomes active in any case."""
        known = self.by_chrome(chrome)
        if known is None:
            if self.full or not self._leases.take(chrome, self._task):
                return None
            self._count += 1
            known = Lease(f"t{self._count}", chrome, opened)
            self._tabs[known.name] = known
        if activate or self.active is None:
            self._active = known.name
        return known

    def take_offered(self) -> None:
        """Lease what the user shares and no other task holds, as long as there is room."""
        for chrome in self._leases.free():
            self.add(chrome, opened=False, activate=False)

    def withdraw(self, chrome: int) -> None:
        """The user took the tab back: its lease ends, its name says why. Harmless if it is not this task's."""
        lease = self.by_chrome(chrome)
        if lease is not None:
            self.remove(lease.name)
            self._withdrawn.add(lease.name)

    def withdrawn(self, name: str) -> bool:
        """Whether the user took back the tab of that name."""
        return name in self._withdrawn

    def activate(self, name: str) -> None:
        """Make it the active tab. LocalMisuse if it is not this task's."""
        if name not in self._tabs:
            raise LocalMisuse("only a leased tab can be made active")
        self._active = name

    def remove(self, name: str) -> None:
        """The tab is closed: its lease ends; the newest other tab becomes active. Harmless if unknown."""
        lease = self._tabs.pop(name, None)
        if lease is None:
            return
        self._leases.give_back(lease.chrome, self._task)
        if self._active == name:
            self._active = next(reversed(self._tabs), "")

    def replace(self, chrome: int, new_chrome: int) -> None:
        """Chrome gave the tab another id (a discarded tab does that). Harmless if it is not this task's, or if the
        new id is another task's: then the tab's lease ends."""
        lease = self.by_chrome(chrome)
        if lease is None:
            return
        self._leases.give_back(chrome, self._task)
        if self._leases.take(new_chrome, self._task):
            self._tabs[lease.name] = Lease(lease.name, new_chrome, lease.opened)
        else:
            self.remove(lease.name)

    def clear(self) -> tuple[Lease, ...]:
        """End every lease; returns what was leased."""
        gone = self.all()
        for lease in gone:
            self.remove(lease.name)
        return gone
