"""Shell of the private Chromiums: one process tree and one folder a task, started on the bridge's request (design 10).

Invariants: the debugging pipe's ends that we keep are closed as soon as the bridge has its own; every process of a browser is
gone before its folder is removed, its folder before its uid is given back; `ended` comes exactly once for each
browser that `spawned` was called for; ending twice is harmless.

It decides nothing: a task's machine asks for a start and an end.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass

from ..protocol.bundle import ExtensionMissing
from ..protocol.errors import ActorError, BrowsercellError
from ..protocol.new_id import new_id
from . import chromium, messages, procfs, spawn
from .places import Places, remove
from .settings import ChromiumSettings
from .uids import CHROMIUM_BASE, UidSlots
from .watch import Watcher

log = logging.getLogger(__name__)

_FAMILY_WAIT = 2.0  # seconds for the rest of a killed browser's processes to be gone: 0.05 is usual
_CLOSE_WAIT = 10.0  # seconds for all of them at the supervisor's end: a big profile on a slow disk takes some
_FAMILY_STEP = 0.02  # seconds between looks


@dataclass(slots=True)
class Browser:
    """One private browser. `child` None: not started yet."""

    task: str
    born: float
    child: spawn.Spawned | None = None
    lease: chromium.Lease | None = None
    wanted: bool = True


@dataclass(frozen=True, slots=True)
class BrowserHooks:
    """`spawned(task, pid, fds)`: hand the two descriptors on within the call. `failed`: it never ran. `ended`: it ran."""

    spawned: Callable[[str, int, tuple[int, int]], None]
    failed: Callable[[str, messages.Sentence], None]
    ended: Callable[[str, messages.Sentence], None]


class Browsers:
    """All private browsers of one supervisor."""

    def __init__(
        self, settings: ChromiumSettings, places: Places, watcher: Watcher, hooks: BrowserHooks
    ) -> None:
        self._settings = settings
        self._places = places
        self._watcher = watcher
        self._hooks = hooks
        self._loop = asyncio.get_running_loop()
        self._uids = UidSlots.for_this_process(CHROMIUM_BASE)
        self._jobs: set[asyncio.Task[None]] = set()
        self.browsers: dict[str, Browser] = {}  # by task

    def start(self, task: str) -> None:
        """Begin; `spawned` or `failed` follows, never from inside this call."""
        browser = Browser(task, time.monotonic())
        self.browsers[task] = browser
        self._job(self._start(browser))

    def end(self, task: str) -> None:
        """Kill it and remove everything of it; harmless if there is none."""
        browser = self.browsers.get(task)
        if browser is None or not browser.wanted:
            return
        browser.wanted = False
        if browser.child is not None:
            spawn.kill(browser.child.pidfd)

    def end_all(self) -> None:
        for task in tuple(self.browsers):
            self.end(task)

    async def close(self) -> None:
        """End all and wait until nothing is left of them, _CLOSE_WAIT seconds at most."""
        self.end_all()
        until = time.monotonic() + _CLOSE_WAIT
        # Not the jobs alone: that of a killed browser begins when its end is seen.
        while (self.browsers or self._jobs) and time.monotonic() < until:
            await asyncio.sleep(_FAMILY_STEP)

    # ------------------------------------------------------------------------------------------------

    async def _start(self, browser: Browser) -> None:
        uid = None
        try:
            executable = chromium.find_executable(self._settings)
            problem = chromium.sandbox_problem(self._settings)
            if executable is None or problem is not None:
                self._fail(browser, problem or messages.NO_CHROMIUM)
                return
            uid = self._uids.acquire()
            # In a thread, because copying blocks; the spawn itself comes back to the main thread.
            browser.lease = await self._loop.run_in_executor(
                None, chromium.prepare, self._places, new_id("b"), uid
            )
            if not browser.wanted:
                await self._discard(browser, uid)
                return
            self._spawn(browser, executable, browser.lease)
        except (BrowsercellError, ExtensionMissing, OSError) as error:
            log.error(
                "a private browser can't be started: %s",
                error.strerror if isinstance(error, OSError) else error,
            )
            if browser.lease is not None or uid is not None:
                await self._discard(browser, uid)
            self._fail(browser, _sentence(error))

    def _spawn(self, browser: Browser, executable: str, lease: chromium.Lease) -> None:
        ours: list[int] = []
        theirs: list[int] = []
        try:
            command_out, command_in = os.pipe()
            theirs.append(command_out)
            ours.append(command_in)
            reply_out, reply_in = os.pipe()
            ours.append(reply_out)
            theirs.append(reply_in)
            output = spawn.open_log(lease.log)
            theirs.append(output)
            browser.child = spawn.spawn(
                chromium.command_line(executable, lease, self._settings),
                environment=chromium.environment(lease, self._settings),
                output=output,
                inherit={3: command_out, 4: reply_in},
            )
            self._watcher.watch(browser.child.pidfd, lambda _status: self._job(self._ended(browser)))
            if browser.wanted:
                self._hooks.spawned(browser.task, browser.child.pid, (command_in, reply_out))
        finally:
            for descriptor in (*ours, *theirs):
                spawn.close(descriptor)

    async def _ended(self, browser: Browser) -> None:
        child, lease = browser.child, browser.lease
        assert child is not None and lease is not None  # noqa: PT018 - it ran
        log.info("private browser (pid %d, task %s) ended", child.pid, browser.task)
        if browser.wanted:
            browser.wanted = False
            self._hooks.ended(browser.task, chromium.start_failure(lease))
        await self._end_family(child.pid, lease.marker)
        self._watcher.reap(
            child.pidfd
        )  # only now: until here its pid, which names its session, can't be reused
        await self._discard(browser, lease.uid)
        self.browsers.pop(browser.task, None)

    async def _end_family(self, leader: int, marker: bytes) -> None:
        """Its processes die with it by themselves; what does not is killed."""
        until = time.monotonic() + _FAMILY_WAIT
        while members := procfs.family(leader, marker):
            if time.monotonic() > until - _FAMILY_WAIT / 2:
                for pid in members:
                    _kill_member(pid, leader, marker)
            if time.monotonic() > until:
                log.error("processes of a private browser can't be ended: %d left", len(members))
                return
            await asyncio.sleep(_FAMILY_STEP)

    async def _discard(self, browser: Browser, uid: int | None) -> None:
        if browser.lease is not None:
            await self._loop.run_in_executor(None, remove, browser.lease.folder)
        if uid is not None:
            self._uids.release(uid)
        if browser.child is None:
            self.browsers.pop(browser.task, None)

    def _fail(self, browser: Browser, sentence: messages.Sentence) -> None:
        self.browsers.pop(browser.task, None)
        if browser.wanted:
            browser.wanted = False
            self._hooks.failed(browser.task, sentence)

    def _job(self, work: Coroutine[None, None, None]) -> None:
        job = self._loop.create_task(work)
        self._jobs.add(job)
        job.add_done_callback(self._done)

    def _done(self, job: asyncio.Task[None]) -> None:
        self._jobs.discard(job)
        if not job.cancelled() and job.exception() is not None:
            log.error("ending a private browser failed: %s", type(job.exception()).__name__)


def _sentence(error: BaseException) -> messages.Sentence:
    if isinstance(error, ActorError) or not isinstance(error, BrowsercellError):
        return messages.BROWSER_NOT_STARTED
    return messages.Sentence(error.message[:1].upper() + error.message[1:], error.next_step)


def _kill_member(pid: int, leader: int, marker: bytes) -> None:
    """By pidfd, and checked again after it is open: a pid alone may mean somebody else by now."""
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return
    try:
        if procfs.in_family(pid, leader, marker):
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    except ProcessLookupError:
        return  # ended by itself
    finally:
        os.close(pidfd)
