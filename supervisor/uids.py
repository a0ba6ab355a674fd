"""Uids for children: a slot of its own for each worker and each Chromium when we are root (design 6 and 10).

Ranges: workers 60100+n, Chromiums 60300+n, both above systemd's dynamic users and below `nobody`. An ordinary user has no
slots: its children keep its own uid.

Invariants: a slot is held by one child at a time; a uid that any process of the machine already has is not given out, so a
second supervisor's children, or a stranger's, are never beside ours under one uid.
"""

from __future__ import annotations

import os
from typing import Final

from ..protocol.errors import SpawnError

WORKER_BASE: Final = 60_100
CHROMIUM_BASE: Final = 60_300
SLOTS: Final = 128  # of each: 16 spares, 16 tasks, and those of other supervisors


class UidSlots:
    """One range. `base` None: no slots (ordinary user)."""

    def __init__(self, base: int | None) -> None:
        self._base = base
        self._held: set[int] = set()

    @classmethod
    def for_this_process(cls, base: int) -> UidSlots:
        """Slots when root, else none."""
        return cls(base if os.geteuid() == 0 else None)

    @property
    def switching(self) -> bool:
        """Whether children get a uid of their own."""
        return self._base is not None

    def acquire(self) -> int:
        """A uid: a free slot, or our own. Raises SpawnError when all slots are taken."""
        if self._base is None:
            return os.getuid()
        taken = self._held | _living_uids()
        for uid in range(self._base, self._base + SLOTS):
            if uid not in taken:
                self._held.add(uid)
                return uid
        raise SpawnError(
            "every uid set aside for children is in use", next_step="End other supervisors of this machine."
        )

    def release(self, uid: int) -> None:
        """The child is reaped and its folder gone. Harmless for our own uid."""
        self._held.discard(uid)


def _living_uids() -> set[int]:
    """Owners of all processes in /proc; those that end while we look are left out."""
    found: set[int] = set()
    with os.scandir("/proc") as entries:
        for entry in entries:
            if entry.name.isdigit():
                try:
                    found.add(entry.stat().st_uid)
                except OSError:  # ended while we looked
                    continue
    return found
