"""The supervisor's shell: joins the process tree, the pool, the tasks and the deliveries on one loop (design 2).

    bridges (child.py) --frames--> judge.py --events--> tasks.py (coordinator.py) --effects--> bridges, keeper.py, browsers.py
    workers (keeper.py, workers.py) <--> pool.py          flood.py <-- /proc            deliveries.py <--> grants.py, delivery.py

Decisions are the pure modules'; here readiness becomes events and effects become calls. Invariants: `delegate` never raises
for what a host asked, and every delegation ends with exactly one result; frames of the bridges are judged before they reach a
task; after `stop` no process, folder or lock of this run is left.

It holds no page data: of a task only ids, counters and the result that customs let through pass here.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from ..protocol import frames as f
from ..protocol.errors import BlockerCode, PeerViolation, RestartsExhausted, Unavailable
from ..protocol.links import Link
from ..protocol.new_id import new_id
from ..protocol.results import BrowserDelegateResult, DelegateRequest, Delivery
from ..protocol.tools import DeliverRequest
from . import chromium, judge, messages, procfs, report, requests, spawn
from . import task_events as c
from .browsers import BrowserHooks, Browsers
from .budgets import Admission
from .child import Service, ServiceHooks
from .deliveries import Deliveries
from .delivery import DirectoryGrant, Refusal, probe
from .flood import SAMPLE, FloodGuard
from .grants import Grants
from .harden import harden
from .keeper import Keeper, KeeperHooks
from .places import Places
from .pool import GIVE_UP, Effect, Give, NoWorker, Pool, StartSpare
from .recorded import Known as KnownKey
from .recorded import Recorded
from .settings import SupervisorSettings
from .tasks import OnProgress, Parts, TaskHandle, Tasks
from .tree import Role, check_specs, process_tree
from .verdict import Cause, refused
from .views import Known, Views
from .watch import Watcher
from .workers import Reason, Side, State

__all__ = ["DirectoryGrant", "OnProgress", "Supervisor", "SupervisorSettings", "TaskHandle"]

log = logging.getLogger(__name__)

START: Final = 40.0  # seconds for both bridges and the first spare; 0.3 is usual
_STEP: Final = 0.01  # seconds between looks at what is being ended


class Supervisor:
    """One supervisor. `start` and `stop` once each, on one running loop in the main thread.

    `programs`: stand-ins for our own processes, for tests.
    """

    def __init__(self, settings: SupervisorSettings, programs: spawn.Programs | None = None) -> None:
        self._settings = settings
        self._programs = programs or spawn.Programs()
        self._places = Places(Path(settings.runtime_folder), Path(settings.state_folder))
        self._grants = Grants(self._places.grants)
        self._recorded = Recorded(self._places.recorded, settings.bridge.artifact_ttl)
        self._pool = Pool(settings.pool_size)
        self._admission = Admission(settings.max_tasks, settings.max_queue)
        self._floods = {
            Side.PAGE: FloodGuard(settings.memory.bridge),
            Side.MODEL: FloodGuard(settings.memory.model_bridge),
        }
        self._known = Known()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._stopping = False
        self._built = False

    # ---------------------------------------------------------------- start and stop

    async def start(self) -> None:
        """Lock, sweep, start both bridges, fill the pool. Returns once a spare stands ready.

        Raises Unavailable with the next step; then everything is undone.
        """
        harden(inspection=self._settings.inspection)
        if self._settings.allow_unsandboxed:
            log.warning("allow_unsandboxed is on: page data may go to workers without any sandbox")
        if self._settings.chromium.chromium_no_sandbox:
            log.warning("chromium_no_sandbox is on: pages run with the full rights of this account")
        self._places.prepare()
        self._places.lock()
        try:
            swept = self._places.sweep()
            interrupted = self._grants.open(int(time.time()))
            self._recorded.open(int(time.time()))
            if swept or interrupted:
                log.info("swept %d entries, %d tasks were interrupted", swept, interrupted)
            self._build()
            self._bridge.start()
            self._model.start()
            self._sample()
            await self._first_spare()
        except BaseException:
            await self.stop(0.0)
            raise

    def _build(self) -> None:
        settings, places = self._settings, self._places
        self._loop = asyncio.get_running_loop()
        self._gave_up: asyncio.Future[messages.Sentence] = self._loop.create_future()
        self._first: asyncio.Future[str] = self._loop.create_future()  # "" or why there is no spare
        self._watcher = watcher = Watcher()
        tree = process_tree(settings.memory)
        check_specs(tree)
        specs = {spec.role: spec for spec in tree}
        # An inspected supervisor's bridges can be searched too, or the search of its memory would prove nothing.
        inspected = ("--dumpable",) if settings.inspection else ()
        options = ("--control-fd", "3", "--parent", str(os.getpid()), *inspected)
        self._bridge = Service(
            specs[Role.BRIDGE],
            (*self._programs.bridge, *options),
            places.logs / "bridge.log",
            lambda: f.ConfigureBridge(settings.bridge),
            Link.BRIDGE_TO_SUPERVISOR,
            watcher,
            ServiceHooks(self._bridge_is_ready, self._from_bridge, self._bridge_lost, self._given_up),
        )
        self._model = Service(
            specs[Role.MODEL],
            (*self._programs.model, *options),
            places.logs / "model-bridge.log",
            lambda: f.ConfigureModel(settings.model),
            Link.MODEL_TO_SUPERVISOR,
            watcher,
            ServiceHooks(self._model_is_ready, self._from_model, self._model_lost, self._given_up),
        )
        self._sides = {Side.PAGE: self._bridge, Side.MODEL: self._model}
        hooks = KeeperHooks(
            send=lambda side, frame: self._sides[side].send(frame),
            ready=self._spare_ready,
            failed=self._spare_failed,
            spare_lost=self._spare_lost,
            gone=self._worker_gone,
            stuck=lambda side: self._sides[side].punish("it does not forget a dead worker"),
            fault=self._worker_fault,
        )
        self._keeper = Keeper(settings, places, watcher, hooks, self._programs.worker)
        browser_hooks = BrowserHooks(self._browser_spawned, self._browser_failed, self._browser_failed)
        self._browsers = Browsers(settings.chromium, places, watcher, browser_hooks)
        self._deliveries = Deliveries(self._grants, self._bridge.send, settings.bridge.artifact_ttl)
        self._tasks = Tasks(
            Parts(
                self._bridge, self._model, self._keeper, self._browsers, self._deliveries, self._grants,
                self._admission, self._recorded,
                want=lambda task: self._pool_does(self._pool.want(task, time.monotonic())),
                unwant=self._pool.unwant,
            )
        )  # fmt: skip
        self._views = Views(
            settings, time.monotonic(), self._known, self._bridge, self._model, self._keeper, self._browsers,
            self._pool, self._admission,
        )  # fmt: skip
        self._built = True

    async def _first_spare(self) -> None:
        wait: set[asyncio.Future[Any]] = {self._gave_up, self._first}
        await asyncio.wait(wait, timeout=START, return_when=asyncio.FIRST_COMPLETED)
        if self._gave_up.done():
            sentence = self._gave_up.result()
            raise Unavailable(_lower(sentence.happened), next_step=sentence.next_step)
        reason = self._first.result() if self._first.done() else "too slow"
        if reason:
            raise Unavailable(
                f"no sealed browser worker could be made ({reason})",
                next_step="Run: supervisor doctor, or lower the minimum sandbox level.",
            )

    async def gave_up(self) -> None:
        """Returns never; raises RestartsExhausted when a bridge has been given up."""
        sentence = await asyncio.shield(self._gave_up)
        raise RestartsExhausted(_lower(sentence.happened), next_step=sentence.next_step)

    def begin_stop(self) -> None:
        """End every task as one the shutdown interrupted, and refuse new ones. Harmless when repeated.

        Its caller may then let hosts go, which cancels what runs: the first cause stays.
        """
        self._stopping = True
        if self._built:
            self._tasks.post_all(c.Cancel(BlockerCode.SUPERVISOR_RESTARTED, messages.SHUT_DOWN))

    async def stop(self, grace: float) -> None:
        """End all tasks (they get their results), then every process. `grace`: seconds to settle. Harmless when repeated."""
        self.begin_stop()
        if self._built:
            self._built = False
            self._pool.pause()
            await self._tasks.settle(grace)
            self._keeper.kill_all()
            await self._workers_gone(grace)
            await asyncio.gather(self._bridge.stop(grace), self._model.stop(grace))
            self._bridge_lost()
            self._model_lost()
            await self._workers_gone(grace + 5.0)  # killed, and nobody is left who had to forget them
            await self._browsers.close()
            await self._tasks.close()
            for timer in self._timers.values():
                timer.cancel()
        self._grants.close()
        self._recorded.close()
        self._places.unlock()

    async def _workers_gone(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while self._keeper.workers and time.monotonic() < until:
            await asyncio.sleep(_STEP)

    # ---------------------------------------------------------------- what hosts ask

    def delegate(
        self,
        request: DelegateRequest,
        *,
        directory: DirectoryGrant | None,
        session: str,
        on_progress: OnProgress,
    ) -> TaskHandle:
        """Run one task. Refusals are results too; nothing is raised for what a host may have asked.

        `on_progress(phase, steps, tool_calls, tool, ok, elapsed_ms)` comes from the loop, for the last time before the result.
        """
        task = new_id("t")
        try:
            earlier = self._earlier(request, session)
            if isinstance(earlier, TaskHandle):
                return earlier
            planned = earlier or self._plan(request, task, session, directory)
            if not isinstance(planned, Cause) and request.idempotency_key is not None:
                self._recorded.started(request.idempotency_key, request, task, int(time.time()))
        except sqlite3.Error as error:
            log.error("a delegation can't be recorded: %s", type(error).__name__)
            planned = Cause(BlockerCode.OVERLOADED, messages.NOT_RECORDED)
        if isinstance(planned, Cause):
            log.info("task %s is refused: %s", task, planned.code.value)
            return self._settled(task, refused(task, planned))
        return self._tasks.add(planned, directory, on_progress)

    def _earlier(self, request: DelegateRequest, session: str) -> TaskHandle | Cause | None:
        """What became of an idempotency key used before; None of a new one. Raises sqlite3.Error."""
        if request.idempotency_key is None:
            return None
        earlier = self._recorded.find(request.idempotency_key, request)
        if earlier.known is KnownKey.NEW:
            return None
        if earlier.known is KnownKey.OTHER_REQUEST:
            return Cause(BlockerCode.INVALID_REQUEST, messages.OTHER_REQUEST)
        running = self._tasks.handle(earlier.task)
        if running is None and earlier.result is None:
            raise sqlite3.DataError  # it ended, and its result could not be written
        log.info("task %s is asked for again", earlier.task)
        self._grants.move(
            earlier.task, session
        )  # whoever has the key is the host the artifacts were made for
        return running or self._settled(earlier.task, earlier.result)

    def _settled(self, task: str, outcome: BrowserDelegateResult | None) -> TaskHandle:
        result: asyncio.Future[BrowserDelegateResult] = self._loop.create_future()
        assert outcome is not None
        result.set_result(outcome)
        return TaskHandle(task, result, lambda: None)

    async def deliver(
        self, request: DeliverRequest, *, session: str, directory: DirectoryGrant | None
    ) -> tuple[Delivery, ...]:
        """Retry deliveries of granted artifacts; one `Delivery` for each item, in order."""
        return await self._deliveries.again(request, session, directory)

    def status(self) -> dict[str, Any]:
        """Content of `browser_status`."""
        return report.status(self._views.facts())

    def extension_status(self) -> dict[str, Any]:
        """Content of `browser_extension_status`."""
        return report.extension_status(self._views.facts(), self._views.bundle())

    def processes(self) -> tuple[f.ProcessInfo, ...]:
        """Every process of ours; a private browser's tree as one row with its memory summed."""
        return self._views.processes()

    def _plan(
        self, request: DelegateRequest, task: str, session: str, directory: DirectoryGrant | None
    ) -> c.TaskPlan | Cause:
        if self._stopping:
            return Cause(BlockerCode.SUPERVISOR_RESTARTED, messages.STOPPING)
        if self._known.problem is not None:
            return Cause(BlockerCode.BRIDGE_LOST, self._known.problem)
        problem = f.ModelProblem.NONE if self._known.model is None else self._known.model.problem
        usable = bool(self._settings.model.model) and problem is f.ModelProblem.NONE
        if problem is f.ModelProblem.NONE:
            problem = f.ModelProblem.NOT_CONFIGURED  # what to say if it is not usable all the same
        machine = requests.Machine(
            extension=self._known.user_extensions > 0,
            chromium=chromium.find_executable(self._settings.chromium) is not None,
            model=usable,
            model_sentence=messages.MODEL[problem],
            directory=directory is not None,
        )
        planned = requests.plan(request, task, session, self._settings.limits, machine)
        if isinstance(planned, Cause):
            return planned
        if directory is not None:
            for item in planned.deliverables:
                try:
                    if item.path is not None:
                        probe(directory, item.path)
                except Refusal as refusal:
                    return Cause(BlockerCode.INVALID_REQUEST, messages.target(item.purpose, refusal.code))
        return Cause(BlockerCode.OVERLOADED) if self._admission.full() else planned

    # ---------------------------------------------------------------- frames of the bridges

    def _from_bridge(self, frame: f.Frame) -> None:
        if self._keeper.received(Side.PAGE, frame) or self._deliveries.received(frame):
            return
        if isinstance(frame, f.ExtensionState):
            self._known.set_extension(frame)
            return
        self._tasks.from_frame(*judge.of_bridge(frame))

    def _from_model(self, frame: f.Frame) -> None:
        if self._keeper.received(Side.MODEL, frame):
            return
        if isinstance(frame, f.ModelAssigned):
            worker = self._keeper.workers.get(frame.worker)
            if worker is not None and worker.task:
                self._tasks.post(worker.task, c.Bound())
            return
        self._tasks.from_frame(*judge.of_model(frame))

    # ---------------------------------------------------------------- bridges

    def _bridge_is_ready(self, frame: f.Frame) -> None:
        if not isinstance(frame, f.BridgeReady):
            raise PeerViolation("another child's ready frame")
        self._known.bridge = frame
        self._tasks.open_waiting()
        self._both_ready()

    def _model_is_ready(self, frame: f.Frame) -> None:
        if not isinstance(frame, f.ModelReady):
            raise PeerViolation("another child's ready frame")
        self._known.model = frame
        self._both_ready()

    def _both_ready(self) -> None:
        if self._bridge.ready and self._model.ready and not self._stopping:
            self._pool_does(self._pool.resume(time.monotonic()))

    def _bridge_lost(self) -> None:
        self._known.bridge = None
        self._known.set_extension(None)
        self._pool.pause()
        self._deliveries.bridge_lost()
        self._tasks.bridge_lost()
        self._keeper.bridge_lost(Side.PAGE)
        self._browsers.end_all()

    def _model_lost(self) -> None:
        self._pool.pause()
        self._tasks.post_all(c.ModelLost())
        self._keeper.bridge_lost(Side.MODEL)

    def _given_up(self, sentence: messages.Sentence) -> None:
        self._known.problem = sentence
        self._tasks.given_up()
        if not self._gave_up.done():
            self._gave_up.set_result(sentence)

    # ---------------------------------------------------------------- workers and browsers

    def _pool_does(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case StartSpare():
                    self._keeper.make()
                case Give(worker, task):
                    self._keeper.take(worker, task)
                    self._tasks.post(task, c.GotWorker(worker))
                case NoWorker(task):
                    self._tasks.post(task, c.NoWorker())
        timer = self._timers.pop("pool", None)
        if timer is not None:
            timer.cancel()
        due = self._pool.next_due()
        if due is not None and not self._stopping:
            self._later("pool", due - time.monotonic(), self._pool_is_due)

    def _pool_is_due(self) -> None:
        self._pool_does(self._pool.tick(time.monotonic()))

    def _spare_ready(self, worker: str) -> None:
        if not self._first.done():
            self._first.set_result("")
        self._pool_does(self._pool.made(worker, time.monotonic()))

    def _spare_failed(self, counts: bool) -> None:
        self._pool_does(self._pool.failed(time.monotonic(), count=counts))
        if self._pool.failures >= GIVE_UP and not self._first.done():
            self._first.set_result(self._keeper.refusal)

    def _spare_lost(self, worker: str, young: bool) -> None:
        self._pool_does(self._pool.lost(worker, time.monotonic(), young=young))

    def _worker_gone(self, worker: str, task: str, status: int | None, unsettled: int) -> None:
        self._tasks.worker_gone(worker, task, status, unsettled)

    def _worker_fault(self, task: str, kind: f.WorkerFaultKind) -> None:
        quiet = (f.WorkerFaultKind.DISCONNECTED, f.WorkerFaultKind.SILENT)  # a crash or a hang, no attack
        self._tasks.post(task, c.Fault(None if kind in quiet else messages.WORKER_FAULT))

    def _browser_spawned(self, task: str, pid: int, descriptors: tuple[int, int]) -> None:
        if not self._bridge.send(f.BrowserSpawned(task, pid), descriptors):
            self._browsers.end(task)

    def _browser_failed(self, task: str, sentence: messages.Sentence) -> None:
        """It did not start, or ended by itself. Once the task is open the bridge tells how its calls fared."""
        self._bridge.send(f.BrowserExited(task))
        self._tasks.post(task, c.BrowserFailed(sentence))

    def _sample(self) -> None:
        """Every SAMPLE seconds: does a worker flood a bridge?"""
        self._later("sample", SAMPLE, self._sample)
        pids = {
            name: worker.child.pid
            for name, worker in self._keeper.workers.items()
            if worker.child is not None and worker.machine.state is not State.FORGETTING
        }
        cpu = {name: procfs.cpu_seconds(pid) for name, pid in pids.items()}
        for side, service in self._sides.items():
            memory = procfs.resident(service.pid) if cpu and service.pid else 0
            victim = self._floods[side].sample(time.monotonic(), memory, cpu)
            if victim is not None:
                self._flooded(victim, side)

    def _flooded(self, victim: str, side: Side) -> None:
        task = self._keeper.workers[victim].task
        log.error("worker %s (task %s) floods the %s link and is killed", victim, task or "-", side.value)
        if task:
            self._tasks.post(task, c.Fault(messages.WORKER_FAULT))
        self._keeper.kill(victim, Reason.FAULT)

    def _later(self, name: str, delay: float, work: Callable[[], None]) -> None:
        self._timers[name] = self._loop.call_later(max(delay, 0.0), work)


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]
