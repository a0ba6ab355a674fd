"""The supervisor's shell: joins the process tree, the pool, the tasks and the deliveries on one loop (design 2).

Decisions are the pure modules' (`lifecycle`, `workers`, `pool`, `coordinator`, `requests`, `flood`); here readiness becomes
events and effects become calls. Invariants: every delegation ends with exactly one result; `delegate` never raises for what a
host asked; frames of the bridges are judged before they reach a task; an older generation's frames are counted and dropped in
one place (`_task_of`); after `stop` no process, folder or lock of this run is left.

It holds no page data: of a task only ids, counters and the result that customs let through pass here.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ..protocol import frames as f
from ..protocol.bundle import ExtensionMissing, extension_folder
from ..protocol.errors import BlockerCode, PeerViolation, RestartsExhausted, Unavailable
from ..protocol.links import Link
from ..protocol.new_id import new_id
from ..protocol.results import BrowserDelegateResult, DelegateRequest, Delivery, SideEffects
from ..protocol.tools import WORKER_TOOLS, DeliverRequest
from . import chromium, messages, procfs, report, requests, spawn
from . import task_events as c
from .browsers import BrowserHooks, Browsers
from .budgets import Admission
from .child import Service, ServiceHooks
from .coordinator import TaskMachine
from .deliveries import Deliveries
from .delivery import DirectoryGrant, Refusal, check_path
from .flood import SAMPLE, FloodGuard
from .grants import Grants
from .harden import harden
from .keeper import Keeper, KeeperHooks
from .lifecycle import State as ChildState
from .places import Places
from .pool import Give, NoWorker, Pool, StartSpare
from .settings import SupervisorSettings
from .tree import Role, check_specs, process_tree
from .verdict import Cause, accept, check_artifact, refused
from .watch import Watcher
from .workers import Reason, Side
from .workers import State as WorkerState

log = logging.getLogger(__name__)

OnProgress = Callable[[f.TaskPhase, int, int, str, bool, int], None]
START: Final = 40.0  # seconds for both bridges and the first spare; 0.6 is usual
GENERATION: Final = 1  # one generation a task
_REFUSALS: Final = frozenset(
    {BlockerCode.BROWSER_UNAVAILABLE, BlockerCode.POLICY_DENIED, BlockerCode.OVERLOADED}
)
_MODEL_CODES: Final = frozenset(
    {
        BlockerCode.STEP_LIMIT, BlockerCode.INVALID_TOOL, BlockerCode.NO_STRUCTURED_OUTPUT,
        BlockerCode.ROLLOVER_EXHAUSTED, BlockerCode.MODEL_UNAVAILABLE, BlockerCode.MODEL_UNCONFIGURED,
    }
)  # fmt: skip
_TASK_FRAMES: Final = (
    f.BrowserWanted
    | f.BrowserDone
    | f.TaskOpened
    | f.TaskRefused
    | f.TaskProgress
    | f.TaskGuard
    | f.TaskFinished
    | f.TaskClosed
)


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
    job: asyncio.Task[None] | None = None


class Supervisor:
    """One supervisor. `start` and `stop` once each, on one running loop in the main thread."""

    def __init__(self, settings: SupervisorSettings, programs: spawn.Programs | None = None) -> None:
        self._settings = settings
        self._programs = programs or spawn.Programs()
        self._places = Places(Path(settings.runtime_folder), Path(settings.state_folder))
        self._grants = Grants(self._places.grants)
        self._pool = Pool(settings.pool_size)
        self._admission = Admission(settings.max_tasks, settings.max_queue)
        self._floods = {
            Side.PAGE: FloodGuard(settings.memory.bridge),
            Side.MODEL: FloodGuard(settings.memory.model_bridge),
        }
        self._tasks: dict[str, _Task] = {}
        self._events: deque[tuple[str, object]] = deque()
        self._draining = False
        self._to_open: dict[str, None] = {}  # tasks whose OpenTask waits for the bridge, in order
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._bridge_ready: f.BridgeReady | None = None
        self._model_ready: f.ModelReady | None = None
        self._extension: f.ExtensionState | None = None
        self._extension_since = self._born = time.monotonic()
        self._problem: messages.Sentence | None = None
        self._stopping = False
        self._started = False
        self.dropped = 0  # frames of the bridges about tasks or generations that are over

    # ---------------------------------------------------------------- start and stop

    async def start(self) -> None:
        """Lock, sweep, start both bridges, fill the pool. Returns once a spare stands ready.

        Raises Unavailable with the next step; then everything is undone.
        """
        harden(inspection=self._settings.inspection)
        self._places.prepare()
        self._places.lock()
        try:
            swept = self._places.sweep()
            interrupted = self._grants.open(int(time.time()))
            if swept or interrupted:
                log.info("swept %d entries, %d tasks were interrupted", swept, interrupted)
            self._build()
            self._bridge.start()
            self._model.start()
            await self._first_spare()
        except BaseException:
            await self.stop(0.0)
            raise

    def _build(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._gave_up: asyncio.Future[messages.Sentence] = self._loop.create_future()
        self._spare_seen: asyncio.Future[str] = self._loop.create_future()
        self._watcher = Watcher()
        tree = process_tree(self._settings.memory)
        check_specs(tree)
        specs = {spec.role: spec for spec in tree}
        bridge, model = self._settings.bridge, self._settings.model
        self._bridge = Service(
            specs[Role.BRIDGE],
            (*self._programs.bridge, "--control-fd", "3"),
            self._places.logs / "bridge.log",
            lambda: f.ConfigureBridge(bridge),
            Link.BRIDGE_TO_SUPERVISOR,
            self._watcher,
            ServiceHooks(self._bridge_is_ready, self._from_bridge, self._bridge_lost, self._given_up),
        )
        self._model = Service(
            specs[Role.MODEL],
            (*self._programs.model, "--control-fd", "3"),
            self._places.logs / "model-bridge.log",
            lambda: f.ConfigureModel(model),
            Link.MODEL_TO_SUPERVISOR,
            self._watcher,
            ServiceHooks(self._model_is_ready, self._from_model, self._model_lost, self._given_up),
        )
        self._sides = {Side.PAGE: self._bridge, Side.MODEL: self._model}
        self._keeper = Keeper(
            self._settings,
            self._places,
            self._watcher,
            KeeperHooks(
                send=lambda side, frame: self._sides[side].send(frame),
                ready=self._spare_ready,
                failed=self._spare_failed,
                spare_lost=lambda worker: self._pool_does(self._pool.lost(worker, time.monotonic())),
                gone=self._worker_gone,
                stuck=lambda side: self._sides[side].punish("it does not forget a dead worker"),
                fault=self._worker_fault,
            ),
            self._programs.worker,
        )
        self._browsers = Browsers(
            self._settings.chromium,
            self._places,
            self._watcher,
            BrowserHooks(self._browser_spawned, self._browser_failed, self._browser_ended),
        )
        self._deliveries = Deliveries(self._grants, self._bridge.send, bridge.artifact_ttl)
        self._started = True
        self._sample()

    async def _first_spare(self) -> None:
        wait: set[asyncio.Future[Any]] = {self._gave_up, self._spare_seen}
        await asyncio.wait(wait, timeout=START, return_when=asyncio.FIRST_COMPLETED)
        if self._gave_up.done():
            sentence = self._gave_up.result()
            raise Unavailable(_lower(sentence.happened), next_step=sentence.next_step)
        reason = self._spare_seen.result() if self._spare_seen.done() else "too slow"
        if reason:
            raise Unavailable(
                f"no sealed browser worker could be made ({reason})",
                next_step="Run: supervisor doctor, or lower min_sandbox.",
            )

    async def gave_up(self) -> None:
        """Returns never; raises RestartsExhausted when a bridge has been given up."""
        sentence = await asyncio.shield(self._gave_up)
        raise RestartsExhausted(_lower(sentence.happened), next_step=sentence.next_step)

    async def stop(self, grace: float) -> None:
        """End all tasks (they get their results), then every process. `grace`: seconds to settle. Harmless when repeated."""
        self._stopping = True
        if self._started:
            self._started = False
            self._pool.pause()
            for task in tuple(self._tasks):
                self._post(task, c.Cancel(BlockerCode.SUPERVISOR_RESTARTED, messages.STOPPING))
            results = [entry.result for entry in self._tasks.values()]
            if results:
                await asyncio.wait(results, timeout=grace)
            self._keeper.kill_all()
            await self._until(lambda: not self._keeper.workers, grace)
            await asyncio.gather(self._bridge.stop(grace), self._model.stop(grace))
            self._bridge_lost()
            self._keeper.bridge_lost(Side.MODEL)
            await self._until(lambda: not self._keeper.workers, grace + 5.0)
            await self._browsers.close()
            jobs = [entry.job for entry in self._tasks.values() if entry.job is not None]
            if jobs:
                await asyncio.wait(jobs, timeout=1.0)
            for timer in self._timers.values():
                timer.cancel()
        self._grants.close()
        self._places.unlock()

    async def _until(self, done: Callable[[], bool], seconds: float) -> None:
        until = time.monotonic() + seconds
        while not done() and time.monotonic() < until:
            await asyncio.sleep(0.01)

    # ---------------------------------------------------------------- what hosts ask

    def delegate(
        self,
        request: DelegateRequest,
        *,
        directory: DirectoryGrant | None,
        session: str,
        on_progress: OnProgress,
    ) -> TaskHandle:
        """Run one task. Refusals are results too; nothing is raised for what a host may have asked."""
        task = new_id("t")
        result: asyncio.Future[BrowserDelegateResult] = self._loop.create_future()
        planned = self._plan(request, task, session, directory)
        if isinstance(planned, Cause):
            log.info("task %s is refused: %s", task, planned.code.value)
            result.set_result(refused(task, planned))
            return TaskHandle(task, result, lambda: None)
        now = time.monotonic()
        self._tasks[task] = _Task(TaskMachine(planned, now), result, directory, on_progress, now)
        with self._logged("a task can't be recorded"):
            self._grants.task_started(task, session, int(time.time()))
        if self._admission.enter(task):
            self._post(task, c.Start())
        else:
            self._report(task, c.Report(f.TaskPhase.QUEUED, 0, 0))
            self._arm(task)
        return TaskHandle(task, result, lambda: self._post(task, c.Cancel()))

    async def deliver(
        self, request: DeliverRequest, *, session: str, directory: DirectoryGrant | None
    ) -> tuple[Delivery, ...]:
        """Retry deliveries of granted artifacts; one `Delivery` for each item."""
        return await self._deliveries.again(request, session, directory)

    def status(self) -> dict[str, Any]:
        """Content of `browser_status`."""
        return report.status(self._facts())

    def extension_status(self) -> dict[str, Any]:
        """Content of `browser_extension_status`."""
        prepared = True
        try:
            extension_folder()
        except ExtensionMissing:
            prepared = False
        return report.extension_status(self._facts(), prepared=prepared, version="")

    def processes(self) -> tuple[f.ProcessInfo, ...]:
        """Every process of ours; a private browser's tree as one row with its memory summed."""
        now = time.monotonic()
        rows = [_row("supervisor", os.getpid(), "running", self._born, now)]
        for service in (self._bridge, self._model):
            if service.pid:
                rows.append(
                    _row(
                        service.spec.role.value,
                        service.pid,
                        service.state.value,
                        service.since,
                        now,
                        restarts=service.restarts,
                    )
                )
        for worker in self._keeper.workers.values():
            if worker.child is not None:
                level = worker.report.level.value if worker.report is not None else ""
                state = worker.machine.state.value
                rows.append(
                    _row("worker", worker.child.pid, state, worker.born, now, sandbox=level, task=worker.task)
                )
        for browser in self._browsers.browsers.values():
            if browser.child is not None:
                members = procfs.session_members(browser.child.pid)
                memory = sum(map(procfs.resident, members))
                sandbox = "off" if self._settings.chromium.chromium_no_sandbox else "chromium"
                rows.append(
                    _row("chromium", browser.child.pid, "running", browser.born, now, sandbox=sandbox, task=browser.task, memory=memory)
                )  # fmt: skip
        return tuple(rows)

    def _plan(
        self, request: DelegateRequest, task: str, session: str, directory: DirectoryGrant | None
    ) -> c.TaskPlan | Cause:
        if self._stopping:
            return Cause(BlockerCode.SUPERVISOR_RESTARTED, messages.STOPPING)
        if self._problem is not None:
            return Cause(BlockerCode.BRIDGE_LOST, self._problem)
        try:
            for item in request.deliverables:
                if item.path is not None:
                    check_path(item.path)
        except Refusal as refusal:
            return Cause(BlockerCode.INVALID_REQUEST, messages.DELIVERIES[refusal.code])
        model = self._model_ready
        problem = f.ModelProblem.NONE if model is None else model.problem
        machine = requests.Machine(
            extension=self._user_extensions() > 0,
            chromium=chromium.find_executable(self._settings.chromium) is not None,
            model=bool(self._settings.model.model) and problem is f.ModelProblem.NONE,
            model_sentence=messages.MODEL[
                problem if problem is not f.ModelProblem.NONE else f.ModelProblem.NOT_CONFIGURED
            ],
            directory=directory is not None,
        )
        planned = requests.plan(request, task, session, self._settings.limits, machine)
        if isinstance(planned, c.TaskPlan) and self._admission.full():
            return Cause(BlockerCode.OVERLOADED)
        return planned

    # ---------------------------------------------------------------- tasks: events in, effects out

    def _post(self, task: str, event: object) -> None:
        """Give `event` to a task's machine; events that effects cause wait for their turn, so a machine is never re-entered."""
        self._events.append((task, event))
        if self._draining:
            return
        self._draining = True
        try:
            while self._events:
                name, what = self._events.popleft()
                entry = self._tasks.get(name)
                if entry is None:
                    if isinstance(what, c.GotWorker):
                        self._keeper.kill(what.worker)
                    continue
                for effect in entry.machine.handle(what, time.monotonic()):
                    self._do(name, entry, effect)
                if name in self._tasks:
                    self._arm(name)
        finally:
            self._draining = False

    def _do(self, task: str, entry: _Task, effect: object) -> None:
        match effect:
            case c.SendOpen():
                self._to_open[task] = None
                self._open_waiting()
            case c.SpawnBrowser():
                self._browsers.start(task)
            case c.EndBrowser():
                self._browsers.end(task)
            case c.WantWorker():
                self._pool_does(self._pool.want(task, time.monotonic()))
            case c.UnwantWorker():
                self._pool.unwant(task)
            case c.ReturnWorker(worker) | c.KillWorker(worker):
                self._keeper.kill(worker)
            case c.LetWorkerExit(worker):
                self._keeper.let_exit(worker)
            case c.SendAssignModel(worker):
                frame = f.AssignModel(worker, task, GENERATION, entry.machine.assignment_steps())
                self._model.send(frame)
            case c.SendAssign(worker):
                self._bridge.send(f.Assign(worker, requests.assignment(entry.machine.plan)))
            case c.SendClose():
                if self._to_open.pop(task, self) is None:
                    self._post(task, c.Closed(SideEffects.NONE, 0, 0))  # it was never opened
                elif not self._bridge.send(f.CloseTask(task)):
                    self._post(task, c.BridgeLost())
            case c.Deliver(items):
                entry.job = self._loop.create_task(self._deliver(task, entry, items))
            case c.Report():
                self._report(task, effect)
            case c.Finish(result):
                self._finish(task, entry, result)
            case _:
                raise AssertionError(f"an effect nobody executes: {type(effect).__name__}")

    def _open_waiting(self) -> None:
        """Send every OpenTask that waits, if the bridge is ready."""
        for task in tuple(self._to_open):
            entry = self._tasks.get(task)
            if entry is None:
                del self._to_open[task]
                continue
            plan = entry.machine.plan
            frame = f.OpenTask(
                task, plan.browser, plan.start_url, requests.wanted(plan), plan.budget.tool_calls
            )
            if not self._bridge.send(frame):
                return
            del self._to_open[task]

    async def _deliver(self, task: str, entry: _Task, items: tuple[Any, ...]) -> None:
        done: tuple[Delivery, ...] = ()
        try:
            done = await self._deliveries.after_task(task, entry.machine.plan.session, items, entry.directory)
        finally:
            self._post(task, c.Deliveries(done))

    def _report(self, task: str, effect: c.Report) -> None:
        entry = self._tasks[task]
        elapsed = int((time.monotonic() - entry.asked) * 1000)
        try:
            entry.on_progress(effect.phase, effect.steps, effect.tool_calls, effect.tool, effect.ok, elapsed)
        except Exception:  # a listener's fault must not stop the task
            log.exception("a progress listener failed")

    def _finish(self, task: str, entry: _Task, result: BrowserDelegateResult) -> None:
        del self._tasks[task]
        self._to_open.pop(task, None)
        if entry.timer is not None:
            entry.timer.cancel()
        with self._logged("a task's end can't be recorded"):
            self._grants.task_ended(task, result.status.value)
        log.info("task %s ended: %s %s", task, result.status.value, result.blocker_code or "")
        for when, step in entry.machine.story:
            log.debug("task %s: +%.3f s %s", task, when - entry.asked, step)
        if not entry.result.done():
            entry.result.set_result(result)
        following = self._admission.leave(task)
        if following is not None:
            self._post(following, c.Start())

    def _arm(self, task: str) -> None:
        entry = self._tasks[task]
        if entry.timer is not None:
            entry.timer.cancel()
        due = entry.machine.due()
        if due is not None:
            delay = max(due - time.monotonic(), 0.0)
            entry.timer = self._loop.call_later(delay, self._post, task, c.Tick())

    # ---------------------------------------------------------------- frames of the bridges

    def _from_bridge(self, frame: f.Frame) -> None:
        if self._keeper.received(Side.PAGE, frame) or self._deliveries.received(frame):
            return
        if isinstance(frame, f.ExtensionState):
            self._extension, self._extension_since = frame, time.monotonic()
            return
        if not isinstance(frame, _TASK_FRAMES):
            raise PeerViolation(f"{type(frame).__name__} has no use here")
        task = self._task_of(frame.task, getattr(frame, "generation", GENERATION))
        event = self._judge_bridge(frame)
        if task is not None:
            self._post(frame.task, event)

    def _judge_bridge(self, frame: Any) -> object:
        """The event of a bridge's frame about a task. Raises PeerViolation for one that no honest bridge sends."""
        match frame:
            case f.BrowserWanted():
                return c.BrowserWanted()
            case f.BrowserDone():
                return c.BrowserDone()
            case f.TaskOpened():
                return c.Opened()
            case f.TaskRefused(code=code):
                if code not in _REFUSALS:
                    raise PeerViolation("a task is refused with a code that is not the bridge's to give")
                return c.Refused(code)
            case f.TaskProgress(tool_calls=calls, entry=entry):
                if entry.tool not in WORKER_TOOLS:
                    raise PeerViolation("progress names a tool that does not exist")
                return c.Progress(calls, entry.tool, entry.ok)
            case f.TaskGuard(reason=reason):
                return c.Guard(reason)
            case f.TaskFinished():
                return c.Finished(accept(frame, frame.task))
            case _:
                for artifact in frame.artifacts:
                    check_artifact(artifact)
                return c.Closed(frame.side_effects, frame.unsettled, frame.tool_calls, frame.artifacts)

    def _from_model(self, frame: f.Frame) -> None:
        if self._keeper.received(Side.MODEL, frame):
            return
        match frame:
            case f.ModelAssigned(worker=worker):
                known = self._keeper.workers.get(worker)
                if known is not None and known.task:
                    self._post(known.task, c.Bound())
            case f.ModelProgress():
                if self._task_of(frame.task, frame.generation) is not None:
                    self._post(frame.task, c.ModelProgress(frame.steps, frame.tokens, frame.occupancy))
            case f.ModelFault():
                if frame.code not in _MODEL_CODES:
                    raise PeerViolation(
                        "a task is faulted with a code that is not the model bridge's to give"
                    )
                if self._task_of(frame.task, frame.generation) is not None:
                    self._post(frame.task, c.ModelFault(frame.code, frame.problem))
            case _:
                raise PeerViolation(f"{type(frame).__name__} has no use here")

    def _task_of(self, task: str, generation: int) -> _Task | None:
        """The living task; what is of another task or generation has crossed an end on its way: counted, dropped."""
        entry = self._tasks.get(task)
        if entry is None or generation != GENERATION:
            self.dropped += 1
            return None
        return entry

    # ---------------------------------------------------------------- children

    def _bridge_is_ready(self, frame: f.Frame) -> None:
        assert isinstance(frame, f.BridgeReady)
        self._bridge_ready = frame
        self._open_waiting()
        self._both_ready()

    def _model_is_ready(self, frame: f.Frame) -> None:
        assert isinstance(frame, f.ModelReady)
        self._model_ready = frame
        self._both_ready()

    def _both_ready(self) -> None:
        if self._bridge.ready and self._model.ready and not self._stopping:
            self._pool_does(self._pool.resume(time.monotonic()))

    def _bridge_lost(self) -> None:
        self._bridge_ready = None
        self._extension, self._extension_since = None, time.monotonic()
        self._pool.pause()
        self._deliveries.bridge_lost()
        for task in tuple(self._tasks):
            if task not in self._to_open:
                self._post(task, c.BridgeLost())
        self._keeper.bridge_lost(Side.PAGE)
        for task in tuple(self._browsers.browsers):
            self._browsers.end(task)

    def _model_lost(self) -> None:
        self._pool.pause()
        for task in tuple(self._tasks):
            self._post(task, c.ModelLost())
        self._keeper.bridge_lost(Side.MODEL)

    def _given_up(self, sentence: messages.Sentence) -> None:
        self._problem = sentence
        for task in tuple(self._tasks):
            self._to_open.pop(task, None)
            self._post(task, c.BridgeLost())
        if not self._gave_up.done():
            self._gave_up.set_result(sentence)

    def _pool_does(self, effects: list[Any]) -> None:
        for effect in effects:
            match effect:
                case StartSpare():
                    self._keeper.make()
                case Give(worker, task):
                    self._keeper.take(worker, task)
                    self._post(task, c.GotWorker(worker))
                case NoWorker(task):
                    self._post(task, c.NoWorker())
        self._arm_pool()

    def _arm_pool(self) -> None:
        timer = self._timers.pop("pool", None)
        if timer is not None:
            timer.cancel()
        due = self._pool.next_due()
        if due is not None and not self._stopping:
            delay = max(due - time.monotonic(), 0.0)
            self._timers["pool"] = self._loop.call_later(
                delay, lambda: self._pool_does(self._pool.tick(time.monotonic()))
            )

    def _spare_ready(self, worker: str) -> None:
        if not self._spare_seen.done():
            self._spare_seen.set_result("")
        self._pool_does(self._pool.made(worker, time.monotonic()))

    def _spare_failed(self, counts: bool) -> None:
        self._pool_does(self._pool.failed(time.monotonic(), count=counts))
        if self._pool.failures >= 3 and not self._spare_seen.done():
            self._spare_seen.set_result(self._keeper.refusal or "it ended at once")

    def _worker_gone(self, worker: str, task: str, status: int | None, unsettled: int) -> None:
        entry = self._tasks.get(task)
        if entry is not None and entry.machine.worker == worker:
            self._post(task, c.WorkerGone(status, unsettled))
        self._pool_does(self._pool.lost(worker, time.monotonic()))

    def _worker_fault(self, task: str, kind: f.WorkerFaultKind) -> None:
        quiet = (f.WorkerFaultKind.DISCONNECTED, f.WorkerFaultKind.SILENT)  # a crash or a hang, no attack
        self._post(task, c.Fault(None if kind in quiet else messages.WORKER_FAULT))

    def _browser_spawned(self, task: str, pid: int, descriptors: tuple[int, int]) -> None:
        if not self._bridge.send(f.BrowserSpawned(task, pid), descriptors):
            self._browsers.end(task)

    def _browser_failed(self, task: str, sentence: messages.Sentence) -> None:
        self._bridge.send(f.BrowserExited(task))
        self._post(task, c.BrowserFailed(sentence))

    def _browser_ended(self, task: str, sentence: messages.Sentence) -> None:
        """By itself. While the task is being opened that is its end; later the bridge tells how its calls fared."""
        self._bridge.send(f.BrowserExited(task))
        self._post(task, c.BrowserFailed(sentence))

    def _sample(self) -> None:
        """Every SAMPLE seconds: does a worker flood a bridge?"""
        if not self._started:
            return
        self._timers["sample"] = self._loop.call_later(SAMPLE, self._sample)
        living = {
            name: worker.child.pid
            for name, worker in self._keeper.workers.items()
            if worker.child is not None and worker.machine.state is not WorkerState.FORGETTING
        }
        if not living:
            return
        cpu = {name: procfs.cpu_seconds(pid) for name, pid in living.items()}
        for side, guard in self._floods.items():
            service = self._sides[side]
            victim = (
                guard.sample(time.monotonic(), procfs.resident(service.pid), cpu) if service.pid else None
            )
            if victim is not None:
                self._flood(victim, side)

    def _flood(self, victim: str, side: Side) -> None:
        worker = self._keeper.workers[victim]
        log.error(
            "worker %s (task %s) floods the %s link and is killed", victim, worker.task or "-", side.value
        )
        if worker.task:
            self._post(worker.task, c.Fault(messages.WORKER_FAULT))
        self._keeper.kill(victim, Reason.FAULT)

    # ---------------------------------------------------------------- facts for reports

    def _user_extensions(self) -> int:
        return 0 if self._extension is None else sum(not one.private for one in self._extension.extensions)

    def _facts(self) -> report.Facts:
        now = time.monotonic()
        settings = self._settings

        def part(service: Service) -> report.Part:
            return report.Part(
                service.state.value, _ms(now - service.since), service.restarts, service.reason
            )

        return report.Facts(
            age_ms=_ms(now - self._born),
            bridge=part(self._bridge),
            model=part(self._model),
            bridge_ready=self._bridge_ready if self._bridge.state is ChildState.READY else None,
            model_ready=self._model_ready if self._model.state is ChildState.READY else None,
            extension=self._extension,
            extension_age_ms=_ms(now - self._extension_since),
            chromium=chromium.find_executable(settings.chromium) is not None,
            chromium_sandbox=not settings.chromium.chromium_no_sandbox,
            browsers=len(self._browsers.browsers),
            running=self._admission.running,
            max_tasks=settings.max_tasks,
            queued=self._admission.queued,
            max_queue=settings.max_queue,
            spares=self._pool.ready,
            pool_size=settings.pool_size,
            seal=self._keeper.level,
            minimum=settings.min_sandbox.value,
            refusal=self._keeper.refusal,
            incidents=self._keeper.incidents,
            inspection=settings.inspection,
            problem=self._problem,
        )

    @contextlib.contextmanager
    def _logged(self, what: str) -> Any:
        """Bookkeeping that must not cost a host its task: a broken disk is written to the log."""
        import sqlite3

        try:
            yield
        except sqlite3.Error as error:
            log.error("%s: %s", what, type(error).__name__)


def _ms(seconds: float) -> int:
    return max(int(seconds * 1000), 0)


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def _row(
    role: str,
    pid: int,
    state: str,
    since: float,
    now: float,
    *,
    sandbox: str = "",
    task: str = "",
    restarts: int = 0,
    memory: int | None = None,
) -> f.ProcessInfo:
    resident = procfs.resident(pid) if memory is None else memory
    return f.ProcessInfo(role, pid, state, _ms(now - since), resident, sandbox, task, restarts)
