"""Watching children by pidfd: the exit is seen at once, the zombie is kept until its owner says so (design 2, rule 2).

Invariants: `on_exit(status)` comes exactly once for each watched child, from the loop; the status is read without
reaping, so the pid can't be reused before `reap`; after `reap` the pidfd is closed.

It kills nothing and restarts nothing.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

OnExit = Callable[[int], None]


class Watcher:
    """The pidfds of one process. Needs a running loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._watched: set[int] = set()

    def watch(self, pidfd: int, on_exit: OnExit) -> None:
        """Call `on_exit(status)` once the process has ended; status: exit code, or minus the signal."""
        self._watched.add(pidfd)
        self._loop.add_reader(pidfd, self._ended, pidfd, on_exit)

    def _ended(self, pidfd: int, on_exit: OnExit) -> None:
        status = exit_status(pidfd)
        if status is None:
            return
        self._loop.remove_reader(pidfd)
        self._watched.discard(pidfd)
        on_exit(status)

    def reap(self, pidfd: int) -> None:
        """Collect the zombie and close the pidfd; its pid may be reused from now on. Waits if it still runs: kill it before."""
        if pidfd in self._watched:
            self._loop.remove_reader(pidfd)
            self._watched.discard(pidfd)
        os.waitid(os.P_PIDFD, pidfd, os.WEXITED)
        os.close(pidfd)


def exit_status(pidfd: int) -> int | None:
    """Exit code, minus the signal, or None while it runs. Does not reap."""
    ended = os.waitid(os.P_PIDFD, pidfd, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    if ended is None:
        return None
    return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
