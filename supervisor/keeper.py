"""Shell of all workers: folders, uids, spawning, the outside check, killing, reaping (protocol/README "A spare").

Executes what `workers.WorkerMachine` orders. Invariants: a worker's pid is announced to both bridges right after the spawn and
reaped only when both have forgotten it; its folder and uid are given back after that; what a worker says of its own seal is
never enough: /proc/<pid>/task/*/status of every thread must agree (design 6).

It does not decide who gets a worker (`pool.py`) nor what a task does (`coordinator.py`).
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ..protocol.errors import ActorError, PeerViolation, Unavailable
from ..protocol.frames import (
    ForgetWorker,
    Frame,
    PrepareWorker,
    SandboxLevel,
    SealReport,
    WorkerFault,
    WorkerFaultKind,
    WorkerForgotten,
    WorkerGreeted,
    WorkerPrepared,
    WorkerSealed,
    WorkerSpawned,
)
from ..protocol.new_id import new_id
from ..protocol.seal_check import threads_sealed
from . import procfs, spawn
from .places import Places, remove
from .settings import SupervisorSettings
from .uids import WORKER_BASE, UidSlots
from .watch import Watcher
from .workers import Do, Event, Input, Reason, Side, State, WorkerMachine

log = logging.getLogger(__name__)

CPU: Final = 120  # seconds of processor time a worker may use in its life: a 180 s task uses about one
MAKE_AFTER: Final = (
    0.01  # seconds: a task that has just taken a spare is assigned before its successor costs a core
)
YOUNG: Final = 10.0  # seconds: a spare that dies by itself this soon says that its successor may as well
SIGSYS: Final = 31
_LEVELS: Final = tuple(SandboxLevel)  # strongest first

# Why a spare that failed says something about this machine, not about a lost bridge or a shutdown.
_COUNTED: Final = frozenset(
    {Reason.PREPARE_LATE, Reason.SPAWN_FAILED, Reason.SEAL_LATE, Reason.REFUSED, Reason.FAULT, Reason.DIED}
)


@dataclass(slots=True)
class Worker:
    """One worker and what it holds."""

    id: str
    uid: int
    folder: Path
    machine: WorkerMachine
    born: float
    child: spawn.Spawned | None = None
    report: SealReport | None = None
    task: str = ""
    ready_at: float = 0.0
    timer: asyncio.TimerHandle | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class KeeperHooks:
    """What the owner provides and is told. `send`: to one side's bridge, False if it is not there."""

    send: Callable[[Side, Frame], bool]
    ready: Callable[[str], None]
    failed: Callable[[bool], None]  # a spare that never was ready; True: counts as the machine's failure
    spare_lost: Callable[[str, bool], None]  # a ready one; True: by itself, and soon after it was ready
    gone: Callable[[str, str, int | None, int], None]  # worker, task, exit status, unsettled
    stuck: Callable[[Side], None]
    fault: Callable[[str, WorkerFaultKind], None]  # a working one was cut off: its task


class Keeper:
    """All workers of one supervisor."""

    def __init__(
        self,
        settings: SupervisorSettings,
        places: Places,
        watcher: Watcher,
        hooks: KeeperHooks,
        program: tuple[str, ...],
    ) -> None:
        self._settings = settings
        self._program = program
        self._places = places
        self._watcher = watcher
        self._hooks = hooks
        self._loop = asyncio.get_running_loop()
        self._uids = UidSlots.for_this_process(WORKER_BASE)
        self._own_seal = procfs.own_seal()
        self._closing = False
        self.workers: dict[str, Worker] = {}
        self.level: SealReport | None = None  # of the newest checked spare
        self.refusal = ""  # why the newest spare was refused or failed; a word for status
        self.incidents = 0  # deaths by SIGSYS

    # --- for the owner

    def make(self) -> None:
        """Begin a spare; `ready` or `failed` follows, never from inside this call."""
        self._loop.call_later(MAKE_AFTER, self._make)

    def take(self, worker_id: str, task: str) -> None:
        """It belongs to `task` from now on."""
        worker = self.workers[worker_id]
        worker.task = task
        self._feed(worker, Input(Event.TAKEN))

    def let_exit(self, worker_id: str) -> None:
        """Its result is in: it exits by itself, or is killed a little later."""
        self._feed_known(worker_id, Input(Event.FINISHED))

    def kill(self, worker_id: str, reason: Reason = Reason.ORDERED) -> None:
        """End it now; harmless when it is ending."""
        self._feed_known(worker_id, Input(Event.END, reason=reason))

    def kill_all(self) -> None:
        """End every worker, and make no more."""
        self._closing = True
        for worker in list(self.workers.values()):
            self._feed(worker, Input(Event.END, reason=Reason.ORDERED))

    def bridge_lost(self, side: Side) -> None:
        for worker in list(self.workers.values()):
            self._feed(worker, Input(Event.LOST, side=side))

    def received(self, side: Side, frame: Frame) -> bool:
        """A frame of one of the bridges; False if it is not about a worker's birth or death.

        A frame about a worker that is gone crossed its end on the way and is dropped.
        """
        if not isinstance(
            frame, WorkerPrepared | WorkerSealed | WorkerGreeted | WorkerForgotten | WorkerFault
        ):
            return False
        worker = self.workers.get(frame.worker)
        if worker is None:
            log.debug("%s about a worker that is gone", type(frame).__name__)
            return True
        if isinstance(frame, WorkerPrepared):
            self._feed(worker, Input(Event.PREPARED, side=side))
        elif isinstance(frame, WorkerSealed):
            if worker.machine.sealed:
                raise PeerViolation("a worker was reported sealed twice")
            worker.report = frame.report
            self._feed(worker, Input(Event.SEALED))
        elif isinstance(frame, WorkerGreeted):
            self._feed(worker, Input(Event.GREETED))
        elif isinstance(frame, WorkerForgotten):
            self._feed(worker, Input(Event.FORGOTTEN, side=side, unsettled=frame.unsettled))
        else:
            ending = worker.machine.state in (
                State.ENDING,
                State.FORGETTING,
            )  # then its links break, as they must
            level = logging.DEBUG if ending else logging.WARNING
            log.log(level, "worker %s (task %s): %s", worker.id, worker.task or "-", frame.kind.value)
            if worker.task:
                self._hooks.fault(worker.task, frame.kind)
            self._feed(worker, Input(Event.END, reason=Reason.FAULT))
        return True

    # --- effects

    def _make(self) -> None:
        if self._closing:
            self._hooks.failed(False)
            return
        try:
            uid = self._uids.acquire()
        except ActorError as error:
            self._not_made(error.message)
            return
        worker_id = new_id("w")
        try:
            folder = self._places.make_private(self._places.workers, worker_id, uid)
        except Unavailable as error:
            self._uids.release(uid)
            self._not_made(error.message)
            return
        worker = Worker(worker_id, uid, folder, WorkerMachine(), time.monotonic())
        self.workers[worker_id] = worker
        self._run(worker, worker.machine.begin(time.monotonic()))

    def _feed_known(self, worker_id: str, what: Input) -> None:
        worker = self.workers.get(worker_id)
        if worker is not None:
            self._feed(worker, what)

    def _feed(self, worker: Worker, what: Input) -> None:
        before = worker.machine.state
        effects = worker.machine.handle(what, time.monotonic())
        if before is State.READY and worker.machine.state not in (State.READY, State.WORKING):
            young = worker.machine.reason in _COUNTED and time.monotonic() - worker.ready_at < YOUNG
            self._hooks.spare_lost(worker.id, young)
        self._run(worker, effects)

    def _run(self, worker: Worker, effects: list[Do]) -> None:
        self._arm(worker)
        for effect in effects:
            self._do(worker, effect)

    def _do(self, worker: Worker, effect: Do) -> None:
        match effect:
            case Do.PREPARE:
                frame = PrepareWorker(worker.id, str(worker.folder), worker.uid)
                for side in Side:
                    if not self._hooks.send(side, frame):
                        self._feed(worker, Input(Event.LOST, side=side))
            case Do.SPAWN:
                self._spawn(worker)
            case Do.ANNOUNCE:
                assert worker.child is not None
                for side in Side:
                    self._hooks.send(side, WorkerSpawned(worker.id, worker.child.pid))
            case Do.CHECK:
                self._check(worker)
            case Do.READY:
                worker.ready_at = time.monotonic()
                self.refusal = ""
                self._hooks.ready(worker.id)
            case Do.KILL:
                if worker.child is not None:
                    spawn.kill(worker.child.pidfd)
            case Do.FORGET:
                for side in tuple(worker.machine.pending):
                    if not self._hooks.send(side, ForgetWorker(worker.id)):
                        self._feed(worker, Input(Event.LOST, side=side))
            case Do.STUCK:
                for side in tuple(worker.machine.pending):
                    self._hooks.stuck(side)
            case Do.GONE:
                self._gone(worker)

    def _spawn(self, worker: Worker) -> None:
        command = (
            *self._program,
            "--folder", str(worker.folder),
            "--parent", str(os.getpid()),
            "--uid", str(worker.uid if self._uids.switching else -1),
            "--memory", str(self._settings.memory.worker),
            "--cpu", str(CPU),
        )  # fmt: skip
        # One arena: each further one reserves 64 MiB of the address space that --memory bounds.
        environment = {**spawn.BASE_ENVIRONMENT, "MALLOC_ARENA_MAX": "1"}
        try:
            output = spawn.open_log(self._places.logs / "worker.log")
            try:
                worker.child = spawn.spawn(command, environment=environment, output=output)
            finally:
                spawn.close(output)
        except (OSError, ActorError) as error:
            log.error(
                "a worker can't be started: %s", error.strerror if isinstance(error, OSError) else error
            )
            self.refusal = Reason.SPAWN_FAILED.value
            self._feed(worker, Input(Event.SPAWN_FAILED))
            return
        pidfd = worker.child.pidfd
        self._watcher.watch(pidfd, lambda status: self._feed(worker, Input(Event.EXITED, status=status)))
        self._feed(worker, Input(Event.SPAWNED))

    def _check(self, worker: Worker) -> None:
        fault = self._fault(worker)
        if fault:
            self.refusal = fault
            log.error("worker %s is refused: %s", worker.id, fault)
            self._feed(worker, Input(Event.END, reason=Reason.REFUSED))
            return
        self._note_level(worker.report)
        self._feed(worker, Input(Event.CHECKED))

    def _note_level(self, report: SealReport | None) -> None:
        """Design 6: warn below `sealed`, once for each level met."""
        if report is not None and (self.level is None or self.level.level is not report.level):
            weak = _LEVELS.index(report.level) > _LEVELS.index(SandboxLevel.SEALED)
            missing = " ".join(
                f"{layer.name.value}:{layer.reason}" for layer in report.layers if not layer.on
            )
            log.log(
                logging.WARNING if weak else logging.INFO,
                "workers are %s; layers off: %s",
                report.level.value,
                missing or "none",
            )
        self.level = report

    def _fault(self, worker: Worker) -> str:
        assert worker.report is not None and worker.child is not None  # noqa: PT018 - CHECK comes after both
        level = worker.report.level
        if level is SandboxLevel.UNSANDBOXED:
            return "" if self._settings.allow_unsandboxed else "unsandboxed"
        if _LEVELS.index(level) > _LEVELS.index(self._settings.min_sandbox):
            return f"below-minimum:{level.value}"
        verdict = threads_sealed(procfs.thread_seals(worker.child.pid), self._own_seal)
        return "" if verdict.ok else f"outside-check:{verdict.reason.value}"

    def _gone(self, worker: Worker) -> None:
        machine = worker.machine
        if worker.timer is not None:
            worker.timer.cancel()
        if worker.child is not None:
            self._watcher.reap(worker.child.pidfd)
        remove(worker.folder)
        self._uids.release(worker.uid)
        del self.workers[worker.id]
        if machine.exit_status == -SIGSYS:
            self.incidents += 1
            log.error("incident: worker %s (task %s) was ended by SIGSYS", worker.id, worker.task or "-")
        if worker.task:
            self._hooks.gone(worker.id, worker.task, machine.exit_status, machine.unsettled)
        elif not worker.ready_at:
            if machine.reason is not Reason.REFUSED and machine.reason in _COUNTED:
                status = "" if machine.exit_status is None else f":{machine.exit_status}"
                self.refusal = machine.reason.value + status
            self._hooks.failed(machine.reason in _COUNTED)

    def _not_made(self, message: str) -> None:
        log.error("a worker can't be made: %s", message)
        self.refusal = "no-place"
        self._hooks.failed(True)

    # --- time

    def _arm(self, worker: Worker) -> None:
        if worker.timer is not None:
            worker.timer.cancel()
            worker.timer = None
        due = worker.machine.due
        if due is not None:
            worker.timer = self._loop.call_later(
                max(due - time.monotonic(), 0.0), self._feed, worker, Input(Event.TICK)
            )
