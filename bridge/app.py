"""The bridge's one shell: event loop, control link, workers' links, store, timers (style rule 3).

    readiness -> `workers`, `tasks` (pure) -> effects -> calls of control link, workers' links, desk, hub, store

Invariants: every frame of the supervisor passes the permission table and carries exactly the descriptors its type
has, every descriptor that arrives is owned by one place and closed there; a worker that breaks the protocol loses its
link in the same turn; the end of the control link, nonsense on it, a bug of ours and running out of memory each end
the process, with an exit status of their own (process.py), because what the machines believe would no longer be true.
Nothing that comes from a page or a worker is logged.

What it does not do: decide. It holds no table of its own but ids to objects.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import time
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NoReturn, TypeVar

from ..protocol import limits as L
from ..protocol.codec import Decoder, encode
from ..protocol.control import ControlLink, adopt
from ..protocol.errors import Backpressure, LocalMisuse, PeerUnreachable, PeerViolation, UsageError
from ..protocol.frames import (
    Assign,
    BridgeReady,
    BrowserExited,
    BrowserSpawned,
    CloseTask,
    ConfigureBridge,
    Deliver,
    Delivered,
    DeliveryFailed,
    ErrnoName,
    ExtensionState,
    ExtEvent,
    ForgetWorker,
    Frame,
    OpenTask,
    Ping,
    Pong,
    PrepareWorker,
    SetupFailed,
    Shutdown,
    StateProblem,
    ToolResult,
    WorkerFault,
    WorkerFaultKind,
    WorkerForgotten,
    WorkerPrepared,
    WorkerSealed,
    WorkerSpawned,
)
from ..protocol.links import Gate, Link, Phase, frame_types
from ..protocol.new_id import new_id
from ..protocol.settings import BridgeSettings
from ..protocol.transport import LinkEvent, LinkEventKind, Links, Peer, ServerLink
from . import workers
from .artifacts import ArtifactStore, DeliveryRefused
from .desk import Desk
from .journal import note, where
from .ports import BrowserPort, Hub, MakeHub
from .process import EXIT_CRASH, EXIT_PROTOCOL, EXIT_SETUP, EXIT_STUCK
from .runner import Runner
from .token import TokenUnusable, pairing_token

log = logging.getLogger("browsercell.bridge.app")

T = TypeVar("T")

STOP_SECONDS: Final = 3.0  # for the hub and what is under way, when nobody said how long there is
PURGE_SECONDS: Final = 600.0  # between two looks for expired artifacts; nothing expired is handed out anyway
MAX_WORKERS: Final = 64
MAX_EARLY: Final = 64  # frames of the supervisor that may come before the bridge is ready

_DESCRIPTORS: Final[Mapping[type, int]] = {BrowserSpawned: 2, Deliver: 1}
_FAULTS: Final[Mapping[LinkEventKind, WorkerFaultKind]] = {
    LinkEventKind.WRONG_PID: WorkerFaultKind.WRONG_PID,
    LinkEventKind.WRONG_UID: WorkerFaultKind.WRONG_PID,
    LinkEventKind.MULTIPART: WorkerFaultKind.MULTIPART,
    LinkEventKind.OVERSIZE: WorkerFaultKind.OVERSIZE,
    LinkEventKind.HANDSHAKE_FAILED: WorkerFaultKind.BAD_FRAME,
}


@dataclass(slots=True)
class _Worker:
    machine: workers.WorkerLink
    link: ServerLink
    uid: int


class Bridge:
    """The process. `die`: ends it at once with a status, without any clean-up."""

    def __init__(self, make_hub: MakeHub, *, die: Callable[[int], NoReturn]) -> None:
        self._make_hub = make_hub
        self._die = die
        self._loop = asyncio.get_running_loop()
        self._links = Links()
        self._gate = Gate(Link.SUPERVISOR_TO_BRIDGE, Phase.GREETING)
        self._decoder: Decoder[Frame] = Decoder(frame_types(Link.SUPERVISOR_TO_BRIDGE), L.MAX_FROM_SUPERVISOR)
        self._control: ControlLink | None = None
        self._early: deque[tuple[Frame, list[int]]] = deque()
        self._workers: dict[str, _Worker] = {}
        self._background: set[asyncio.Task[None]] = set()
        self._thread = ThreadPoolExecutor(1, "artifacts")
        self._store: ArtifactStore | None = None
        self._hub: Hub | None = None
        self._desk: Desk | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._due: float | None = None  # when it fires
        self._over: asyncio.Future[int] = self._loop.create_future()
        self._stop_seconds = STOP_SECONDS
        self._loop.set_exception_handler(self._crashed)

    async def serve(self, control_fd: int) -> int:
        """Serve the control link until it ends; the exit status."""
        self._control = ControlLink(
            adopt(control_fd),
            max_send=L.MAX_TO_SUPERVISOR,
            max_receive=L.MAX_FROM_SUPERVISOR,
            on_message=self._message,
            on_eof=self._ended,
            accept_fds=True,
        )
        status = await self._over
        await self._stop()
        return status

    # ------------------------------------------------------------------ what desk and machines ask for

    def report(self, frame: Frame) -> None:
        """Send to the supervisor."""
        if self._control is None:
            return
        try:
            self._control.send(encode(frame, L.MAX_TO_SUPERVISOR))
        except PeerUnreachable:
            return  # `_ended` follows
        except Backpressure:
            note(log, "supervisor-stuck", logging.ERROR)
            self._finish(EXIT_STUCK)

    def answer(self, worker: str, result: ToolResult) -> None:
        """Send a settled call to its worker."""
        entry = self._workers.get(worker)
        if entry is not None:
            self._apply(worker, entry, entry.machine.result(result, self._loop.time()))

    def forgotten(self, worker: str, unsettled: int) -> None:
        """The worker's commands are settled."""
        self.report(WorkerForgotten(worker, unsettled))

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run in the background."""
        task = self._loop.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._done)
        return task

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Run a blocking function of the store."""
        return await self._loop.run_in_executor(self._thread, work)

    # ------------------------------------------------------------------ control link

    def _message(self, data: bytes, fds: list[int]) -> None:
        try:
            frame = self._decoder.decode(data)
            self._gate.admit(frame)
            if len(fds) != _DESCRIPTORS.get(type(frame), 0):
                raise PeerViolation("wrong number of descriptors")
        except PeerViolation as violation:
            _close_all(fds)
            self._broken(violation)
            return
        if isinstance(frame, ConfigureBridge):
            self._gate.enter(Phase.OPEN)
            self.start(self._configure(frame.settings))
        elif self._desk is None and not isinstance(frame, Ping | Shutdown):
            self._early.append((frame, fds))
            if len(self._early) > MAX_EARLY:
                self._broken(PeerViolation("too many frames before the bridge is ready"))
        else:
            self._handle(frame, fds)

    def _handle(self, frame: Frame, fds: list[int]) -> None:
        try:
            _HANDLERS[type(frame)](self, frame, fds)
        except LocalMisuse as misuse:  # what the supervisor asks for makes no sense here
            self._broken(misuse)

    def _broken(self, error: Exception) -> None:
        """Its sentences name frame types and states, never content."""
        note(log, "control-violation", logging.ERROR, error=where(error))
        self._finish(EXIT_PROTOCOL)

    def _ended(self) -> None:
        fault = self._control.fault if self._control is not None else None
        note(log, "control-ended", fault=fault is not None)
        self._finish(0 if fault is None else EXIT_PROTOCOL)

    def _finish(self, status: int) -> None:
        if not self._over.done():
            self._over.set_result(status)

    async def _configure(self, settings: BridgeSettings) -> None:
        try:
            store = ArtifactStore(
                os.path.join(settings.state_folder, "artifacts"),
                quota=settings.artifact_quota,
                ttl=settings.artifact_ttl,
            )
            kept = await self.in_thread(store.open)
            token = await self.in_thread(partial(_token, settings.state_folder))
            hub = self._make_hub(
                settings, token, on_extensions=self._extensions, on_lost=self._lost, on_event=self._page_event
            )
            self._hub = hub
            state = await hub.start()
        except OSError as error:
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            self._refuse(StateProblem.DISK_FULL if full else StateProblem.STATE_FOLDER, error.errno)
            return
        except UsageError:
            self._refuse(StateProblem.SETTINGS, None)
            return
        runner = Runner(
            hub,
            store,
            in_thread=self.in_thread,
            now=time.monotonic,
            fresh_id=partial(new_id, "art"),
            open_tasks=lambda: self._desk.open_tasks() if self._desk is not None else frozenset(),
        )
        self._store, self._desk = store, Desk(self, hub, runner)
        note(log, "ready", port=state.port, problem=state.problem.value, artifacts=kept)
        self.report(BridgeReady(state.port, state.problem, state.port_owner))
        if hub.extensions():
            self._extensions()
        self.start(self._purge(store))
        while self._early and not self._over.done():
            self._handle(*self._early.popleft())

    def _refuse(self, problem: StateProblem, number: int | None) -> None:
        name: ErrnoName = errno.errorcode.get(number or 0, "")
        note(log, "setup-failed", logging.ERROR, problem=problem.value, errno=name)
        self.report(SetupFailed(problem, name))
        self._finish(EXIT_SETUP)

    def _ping(self, frame: Ping, _fds: list[int]) -> None:
        self.report(Pong(frame.nonce))

    def _shutdown(self, frame: Shutdown, _fds: list[int]) -> None:
        note(log, "shutdown", grace_ms=frame.grace_ms)
        self._stop_seconds = frame.grace_ms / 1000
        self._finish(0)

    def _open_task(self, frame: OpenTask, _fds: list[int]) -> None:
        self._tasks.open(frame)

    def _close_task(self, frame: CloseTask, _fds: list[int]) -> None:
        self._tasks.close(frame.task)

    def _browser_spawned(self, frame: BrowserSpawned, fds: list[int]) -> None:
        self._tasks.spawned(frame, fds[0], fds[1])

    def _browser_exited(self, frame: BrowserExited, _fds: list[int]) -> None:
        self._tasks.exited(frame.task)

    @property
    def _tasks(self) -> Desk:
        if self._desk is None:
            raise LocalMisuse("not configured")
        return self._desk

    def _extensions(self) -> None:
        if self._hub is not None and self._desk is not None:
            self.report(ExtensionState(self._hub.extensions(), self._hub.refused))

    def _lost(self, port: BrowserPort) -> None:
        if self._desk is not None:
            self._desk.lost(port)

    def _page_event(self, port: BrowserPort, event: ExtEvent) -> None:
        if self._desk is not None:
            self._desk.event(port, event)

    # ------------------------------------------------------------------ workers

    def _prepare(self, frame: PrepareWorker, _fds: list[int]) -> None:
        if frame.worker in self._workers or len(self._workers) >= MAX_WORKERS:
            raise LocalMisuse("a worker is prepared once, and there is a bound to them")
        try:
            link = self._links.serve(
                os.path.join(frame.folder, "page"),
                partial(self._received, frame.worker),
                partial(self._event, frame.worker),
                expect_pid=None,
                expect_uid=frame.uid,
                max_message=L.MAX_WORKER_TO_BRIDGE,
                max_send=L.MAX_BRIDGE_TO_WORKER,
                owner_uid=frame.uid,
                handshake_ms=L.LINK_HANDSHAKE_MS,
                paused=True,
            )
        except LocalMisuse as misuse:  # the folder is gone, or not private: this worker can't be served
            note(log, "worker-not-prepared", logging.ERROR, worker=frame.worker, error=where(misuse))
            self.report(WorkerFault(frame.worker, WorkerFaultKind.DISCONNECTED))
            return
        self._workers[frame.worker] = _Worker(workers.WorkerLink(), link, frame.uid)
        self.report(WorkerPrepared(frame.worker))

    def _spawned(self, frame: WorkerSpawned, _fds: list[int]) -> None:
        entry = self._workers.get(frame.worker)
        if entry is not None:
            self._apply(frame.worker, entry, entry.machine.spawned(frame.pid, self._loop.time()))

    def _assign(self, frame: Assign, _fds: list[int]) -> None:
        entry = self._workers.get(frame.worker)
        assignment = frame.assignment
        if entry is None or entry.machine.state in (workers.State.CUT, workers.State.GONE):
            return  # it ended; our report of that is on its way
        try:
            effects = entry.machine.assign(assignment, self._loop.time())
            self._tasks.assign(assignment.task, frame.worker, assignment.generation)
        except LocalMisuse:  # the task is closed, or has gone on to another generation
            effects = entry.machine.fault(WorkerFaultKind.STALE_GENERATION, self._loop.time())
        self._apply(frame.worker, entry, effects)

    def _forget(self, frame: ForgetWorker, _fds: list[int]) -> None:
        entry = self._workers.pop(frame.worker, None)
        if entry is None:
            self.report(WorkerForgotten(frame.worker, 0))
            return
        self._apply(frame.worker, entry, entry.machine.forget(self._loop.time()))
        note(log, "worker-forgotten", worker=frame.worker, dropped=entry.machine.dropped)
        if entry.machine.task:
            self._tasks.worker_gone(entry.machine.task, frame.worker)
        else:
            self.report(WorkerForgotten(frame.worker, 0))

    def _received(self, worker: str, peer: Peer, data: bytes) -> None:
        entry = self._workers.get(worker)
        if entry is not None:
            self._apply(worker, entry, entry.machine.received(peer.routing_id, data, self._loop.time()))

    def _event(self, worker: str, event: LinkEvent) -> None:
        entry = self._workers.get(worker)
        if entry is None:
            return
        if event.kind is LinkEventKind.DISCONNECTED:
            self._apply(worker, entry, entry.machine.disconnected(self._loop.time()))
        elif event.kind in _FAULTS:
            self._apply(worker, entry, entry.machine.fault(_FAULTS[event.kind], self._loop.time()))

    def _apply(self, worker: str, entry: _Worker, effects: list[workers.Effect]) -> None:
        for effect in effects:
            match effect:
                case workers.Read(pid):
                    entry.link.set_expected(pid, entry.uid)
                    entry.link.resume()
                case workers.Send(route, frame):
                    self._send(worker, entry, route, frame)
                case workers.SealReported(report):
                    note(log, "worker-sealed", worker=worker, seal=report.level.value)
                    self.report(WorkerSealed(worker, report))
                case workers.StartCall():
                    self._tasks.call(effect)
                case workers.Claimed(task, generation, claim):
                    note(log, "worker-finished", worker=worker, task=task, generation=generation)
                    self._tasks.finish(task, claim)
                case workers.Cut(kind):
                    entry.link.close()
                    note(
                        log,
                        "worker-cut",
                        logging.WARNING,
                        worker=worker,
                        generation=entry.machine.generation,
                        kind=kind.value,
                    )
                    self.report(WorkerFault(worker, kind))
                case workers.Close():
                    entry.link.close()
        self._arm()

    def _send(self, worker: str, entry: _Worker, route: bytes, frame: Frame) -> None:
        try:
            entry.link.send(route, encode(frame, L.MAX_BRIDGE_TO_WORKER))
        except PeerUnreachable:
            return  # its disconnection is reported by the monitor
        except Backpressure:  # a worker that reads nothing for 64 messages is as good as hung
            self._apply(worker, entry, entry.machine.fault(WorkerFaultKind.SILENT, self._loop.time()))

    def _arm(self) -> None:
        """One timer for all workers, at the earliest thing to do."""
        due = min(
            (at for entry in self._workers.values() if (at := entry.machine.next_due()) is not None),
            default=None,
        )
        if self._timer is not None:
            if self._due == due:
                return  # most frames change nothing of it
            self._timer.cancel()
        self._due = due
        self._timer = None if due is None else self._loop.call_at(due, self._tick)

    def _tick(self) -> None:
        self._timer = None
        now = self._loop.time()
        for worker, entry in list(self._workers.items()):
            self._apply(worker, entry, entry.machine.tick(now))
        self._arm()

    # ------------------------------------------------------------------ artifacts

    def _deliver(self, frame: Deliver, fds: list[int]) -> None:
        self.start(self._delivering(frame, fds[0]))

    async def _delivering(self, frame: Deliver, fd: int) -> None:
        store = self._store
        if store is None:
            os.close(fd)
            raise LocalMisuse("not configured")
        try:
            record = await self.in_thread(partial(store.deliver, frame.artifact, fd, frame.max_bytes))
        except DeliveryRefused as refused:
            note(log, "not-delivered", delivery=frame.delivery, problem=refused.problem.value)
            self.report(DeliveryFailed(frame.delivery, refused.problem))
            return
        note(log, "delivered", delivery=frame.delivery, size=record.size)
        self.report(Delivered(frame.delivery, record.size, record.sha256))

    async def _purge(self, store: ArtifactStore) -> None:
        while True:
            await asyncio.sleep(PURGE_SECONDS)
            note(log, "purged", count=await self.in_thread(store.purge))

    # ------------------------------------------------------------------ the end

    def _done(self, task: asyncio.Task[None]) -> None:
        self._background.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._crash(error)

    def _crashed(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, BaseException):
            self._crash(error)
        note(log, "loop-complaint", logging.WARNING)

    def _crash(self, error: BaseException) -> None:
        """A bug, or no memory: what is left of this process can't be trusted; the supervisor starts another."""
        if isinstance(error, MemoryError):
            self._die(EXIT_CRASH)  # writing a line might need memory
        note(log, "crashed", logging.CRITICAL, error=where(error))
        self._die(EXIT_CRASH)

    async def _stop(self) -> None:
        """Everything closed, within the time there is."""
        for entry in self._workers.values():
            entry.link.close()
        if self._timer is not None:
            self._timer.cancel()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._stop_seconds):
                if self._desk is not None:
                    await self._desk.stop()
                if self._hub is not None:
                    await self._hub.stop()
        for task in list(self._background):
            task.cancel()
        if self._control is not None:
            self._control.close()
        for _, fds in self._early:
            _close_all(fds)
        self._links.close()
        self._thread.shutdown(wait=False, cancel_futures=True)


def _token(state_folder: str) -> str:
    """The pairing token; "" if it can't be trusted: the listener then stays off and says so (no-token)."""
    try:
        return pairing_token(state_folder)
    except TokenUnusable as unusable:
        note(log, "token-unusable", logging.ERROR, error=where(unusable))
        return ""


def _close_all(fds: list[int]) -> None:
    for fd in fds:
        with contextlib.suppress(OSError):  # EIO of a network file: closed all the same
            os.close(fd)


_HANDLERS: Final[Mapping[type, Callable[[Bridge, Any, list[int]], None]]] = {
    Ping: Bridge._ping,
    Shutdown: Bridge._shutdown,
    PrepareWorker: Bridge._prepare,
    WorkerSpawned: Bridge._spawned,
    ForgetWorker: Bridge._forget,
    OpenTask: Bridge._open_task,
    CloseTask: Bridge._close_task,
    BrowserSpawned: Bridge._browser_spawned,
    BrowserExited: Bridge._browser_exited,
    Assign: Bridge._assign,
    Deliver: Bridge._deliver,
}
