"""Shell of the delegations under way: feeds their machines, executes what those order (protocol/README "A task").

Invariants: a machine is never re-entered: events that effects cause wait for their turn; every machine has a timer at
its next deadline; a task leaves the table when its one result is set; a late worker for a task that is over is ended; frames
of an older generation are counted and dropped in one place (`from_frame`).

It decides nothing, and holds nothing of a page but the result that customs let through.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from ..protocol import frames as f
from ..protocol.answers import encode_schema
from ..protocol.results import BrowserDelegateResult, SideEffects
from . import requests
from . import task_events as c
from .browsers import Browsers
from .budgets import Admission
from .child import Service
from .coordinator import TaskMachine
from .deliveries import Deliveries
from .delivery import DirectoryGrant
from .grants import Grants
from .keeper import Keeper
from .recorded import Recorded
from .verdict import Wanted, check_promises

log = logging.getLogger(__name__)

OnProgress = Callable[[f.TaskPhase, int, int, str, bool, int], None]
GENERATION: Final = 1  # one generation a task


class TaskHandle:
    """A delegation under way, or one that was refused at once."""

    def __init__(
        self, task: str, result: asyncio.Future[BrowserDelegateResult], cancel: Callable[[], None]
    ) -> None:
        self.task = task
        self._result = result
        self._cancel = cancel

    def cancel(self) -> None:
        """Give it up; its one result follows. Harmless when it is over."""
        self._cancel()

    async def result(self) -> BrowserDelegateResult:
        """The one result; may be awaited by several, and again."""
        return await asyncio.shield(self._result)


@dataclass(slots=True)
class _Task:
    machine: TaskMachine
    result: asyncio.Future[BrowserDelegateResult]
    directory: DirectoryGrant | None
    on_progress: OnProgress
    asked: float
    timer: asyncio.TimerHandle | None = None


@dataclass(frozen=True, slots=True)
class Parts:
    """What effects are executed with. `want` and `unwant` speak to the pool."""

    bridge: Service
    model: Service
    keeper: Keeper
    browsers: Browsers
    deliveries: Deliveries
    grants: Grants
    admission: Admission
    recorded: Recorded
    want: Callable[[str], None]
    unwant: Callable[[str], None]


class Tasks:
    """All delegations of one supervisor."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._loop = asyncio.get_running_loop()
        self._tasks: dict[str, _Task] = {}
        self._events: deque[tuple[str, c.Event]] = deque()
        self._draining = False
        self._to_open: dict[str, None] = {}  # tasks whose OpenTask waits for the bridge, in order
        self._jobs: set[asyncio.Task[None]] = set()
        self.dropped = 0  # frames about tasks or generations that are over

    # ---------------------------------------------------------------- for the owner

    def add(self, plan: c.TaskPlan, directory: DirectoryGrant | None, on_progress: OnProgress) -> TaskHandle:
        """Start it, or queue it."""
        task, now = plan.task, time.monotonic()
        result: asyncio.Future[BrowserDelegateResult] = self._loop.create_future()
        self._tasks[task] = _Task(TaskMachine(plan, now), result, directory, on_progress, now)
        with _logged("a task can't be recorded"):
            self._parts.grants.task_started(task, plan.session, int(time.time()))
        if self._parts.admission.enter(task):
            self.post(task, c.Start())
        else:
            self._report(self._tasks[task], c.Report(f.TaskPhase.QUEUED, 0, 0))
            self._arm(self._tasks[task])
        return TaskHandle(task, result, lambda: self.post(task, c.Cancel()))

    def handle(self, task: str) -> TaskHandle | None:
        """Another handle of a task that has not ended."""
        entry = self._tasks.get(task)
        if entry is None:
            return None
        return TaskHandle(task, entry.result, lambda: self.post(task, c.Cancel()))

    def post_all(self, event: c.Event) -> None:
        for task in tuple(self._tasks):
            self.post(task, event)

    def bridge_lost(self) -> None:
        """Every task that the lost bridge knew; the others wait for its successor."""
        for task in tuple(self._tasks):
            if task not in self._to_open:
                self.post(task, c.BridgeLost())

    def given_up(self) -> None:
        """There will be no successor."""
        self._to_open.clear()
        self.post_all(c.BridgeLost())

    def worker_gone(self, worker: str, task: str, status: int | None, unsettled: int) -> None:
        entry = self._tasks.get(task)
        if entry is not None and entry.machine.worker == worker:
            self.post(task, c.WorkerGone(status, unsettled))

    def from_frame(self, task: str, generation: int | None, event: c.Event) -> None:
        """An event that a bridge's frame made. Raises PeerViolation for a result that breaks its task's promises. Of another task or generation: it has crossed an end on its way."""
        if task not in self._tasks or generation not in (None, GENERATION):
            self.dropped += 1
            return
        if isinstance(event, c.Finished):
            check_promises(event.result, self._tasks[task].machine.plan)
        self.post(task, event)

    async def settle(self, grace: float) -> None:
        """Wait until every task has its result, `grace` seconds at most."""
        results = [entry.result for entry in self._tasks.values()]
        if results:
            await asyncio.wait(results, timeout=grace)

    async def close(self) -> None:
        """Wait for deliveries under way; the bridge is gone, so they have failed."""
        if self._jobs:
            await asyncio.wait(tuple(self._jobs), timeout=1.0)

    def open_waiting(self) -> None:
        """Send every OpenTask that waits, if the bridge is ready."""
        for task in tuple(self._to_open):
            plan = self._tasks[task].machine.plan
            frame = f.OpenTask(
                task,
                plan.browser,
                plan.start_url,
                requests.wanted(plan),
                plan.budget.tool_calls,
                encode_schema(plan.answer),
                plan.policy,
            )
            if not self._parts.bridge.send(frame):
                return
            del self._to_open[task]

    # ---------------------------------------------------------------- events in, effects out

    def post(self, task: str, event: c.Event) -> None:
        """Give `event` to the task's machine; one for a task that is over is dropped."""
        self._events.append((task, event))
        if self._draining:
            return
        self._draining = True
        try:
            while self._events:
                self._handle(*self._events.popleft())
        finally:
            self._draining = False

    def _handle(self, task: str, event: c.Event) -> None:
        entry = self._tasks.get(task)
        if entry is None:
            if isinstance(event, c.GotWorker):
                self._parts.keeper.kill(event.worker)
            return
        for effect in entry.machine.handle(event, time.monotonic()):
            self._do(task, entry, effect)
        self._arm(entry)

    def _do(self, task: str, entry: _Task, effect: c.Effect) -> None:
        parts = self._parts
        match effect:
            case c.SendOpen():
                self._to_open[task] = None
                self.open_waiting()
            case c.SpawnBrowser():
                parts.browsers.start(task)
            case c.EndBrowser():
                parts.browsers.end(task)
            case c.WantWorker():
                parts.want(task)
            case c.UnwantWorker():
                parts.unwant(task)
            case c.ReturnWorker(worker) | c.KillWorker(worker):
                parts.keeper.kill(worker)
            case c.LetWorkerExit(worker):
                parts.keeper.let_exit(worker)
            case c.SendAssignModel(worker):
                plan = entry.machine.plan
                answer = encode_schema(plan.answer)
                parts.model.send(f.AssignModel(worker, task, GENERATION, plan.budget.steps, answer))
            case c.SendAssign(worker):
                with _logged("an assignment can't be recorded"):
                    parts.recorded.assigned(task)
                parts.bridge.send(f.Assign(worker, requests.assignment(entry.machine.plan)))
            case c.SendClose():
                self._close(task)
            case c.Deliver(items):
                self._deliver_later(task, entry, items)
            case c.Report():
                self._report(entry, effect)
            case c.Finish(result):
                self._finish(task, entry, result)

    def _close(self, task: str) -> None:
        if task in self._to_open:
            del self._to_open[task]
            self.post(task, c.Closed(SideEffects.NONE, 0, 0))  # the bridge has never heard of it
        elif not self._parts.bridge.send(f.CloseTask(task)):
            self.post(task, c.BridgeLost())

    def _deliver_later(self, task: str, entry: _Task, items: tuple[Wanted, ...]) -> None:
        job = self._loop.create_task(self._deliver(task, entry, items))
        self._jobs.add(job)
        job.add_done_callback(self._jobs.discard)

    async def _deliver(self, task: str, entry: _Task, items: tuple[Wanted, ...]) -> None:
        done = await self._parts.deliveries.after_task(
            task, entry.machine.plan.session, items, entry.directory
        )
        self.post(task, c.Deliveries(done))

    def _report(self, entry: _Task, effect: c.Report) -> None:
        elapsed = int((time.monotonic() - entry.asked) * 1000)
        try:
            entry.on_progress(effect.phase, effect.steps, effect.tool_calls, effect.tool, effect.ok, elapsed)
        except Exception as error:  # noqa: BLE001 - a listener's fault must not stop the task
            log.error("a progress listener failed: %s", type(error).__name__)

    def _finish(self, task: str, entry: _Task, result: BrowserDelegateResult) -> None:
        del self._tasks[task]
        self._to_open.pop(task, None)
        with _logged("a task's end can't be recorded"):
            self._parts.grants.task_ended(task, result.status.value)
        with _logged("a result can't be recorded"):
            self._parts.recorded.ended(task, result)
        log.info("task %s ended: %s %s", task, result.status.value, result.blocker_code or "")
        for when, step in entry.machine.story:
            log.debug("task %s: +%.3f s %s", task, when - entry.asked, step)
        if not entry.result.done():
            entry.result.set_result(result)
        following = self._parts.admission.leave(task)
        if following is not None:
            self.post(following, c.Start())

    def _arm(self, entry: _Task) -> None:
        if entry.timer is not None:
            entry.timer.cancel()
            entry.timer = None
        due = entry.machine.due()
        if due is not None:
            delay = max(due - time.monotonic(), 0.0)
            entry.timer = self._loop.call_later(delay, self.post, entry.machine.plan.task, c.Tick())


@contextlib.contextmanager
def _logged(what: str) -> Iterator[None]:
    """Bookkeeping that must not cost a host its task: a broken disk is written to the log."""
    try:
        yield
    except sqlite3.Error as error:
        log.error("%s: %s", what, type(error).__name__)
