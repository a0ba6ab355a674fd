"""The model bridge's shell: control link, one MODEL link a worker, requests to the endpoint, timers.

Owns the loop, the sockets and the clock; decides nothing: `peer.py` judges a worker's frames, `machine.py` a task's
inferences, `judge.py` and `wire.py` what the endpoint says. One object a worker holds both machines and is gone after
`WorkerForgotten`.

Invariants: the end of the control link ends the process; forgetting a worker cancels its request at once and answers when
the request is gone; an exception inside one worker's handling ends this process loudly (the supervisor restarts it)
rather than leaving a task without an answer. Logs hold roles, ids and closed words, never content or the key.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from typing import Final

from ...protocol import limits as L
from ...protocol.codec import Decoder, encode
from ...protocol.control import ControlLink, adopt
from ...protocol.errors import LinkError, LocalMisuse, PeerUnreachable, PeerViolation
from ...protocol.frames import (
    AssignModel,
    ConfigureModel,
    ForgetWorker,
    Frame,
    ModelAssigned,
    ModelFault,
    ModelProblem,
    ModelReady,
    Ping,
    Pong,
    PrepareWorker,
    SetupFailed,
    Shutdown,
    StateProblem,
    WorkerFault,
    WorkerFaultKind,
    WorkerForgotten,
    WorkerGreeted,
    WorkerPrepared,
    WorkerSpawned,
)
from ...protocol.links import Gate, Link, Phase, frame_types
from ...protocol.settings import ModelSettings
from ...protocol.transport import LinkEvent, LinkEventKind, Links, Peer, ServerLink
from ..journal import note, where
from ..process import EXIT_CRASH, EXIT_PROTOCOL, EXIT_SETUP, EXIT_STUCK
from . import machine, peer
from .config import limits_hold, problem_of
from .endpoint import Endpoint
from .key import read_key
from .wire import Failure

log = logging.getLogger(__name__)

TICK_S: Final = 0.25  # how exactly a silent worker is noticed; pings are 2 s apart
FORGET_S: Final = (
    2.0  # a cancelled request closes its connection in milliseconds; then it is forgotten anyway
)
CLOSE_S: Final = 1.0  # for the endpoint's connections at the end

_FAULTS: Final = {
    LinkEventKind.HANDSHAKE_FAILED: WorkerFaultKind.BAD_FRAME,
    LinkEventKind.WRONG_PID: WorkerFaultKind.WRONG_PID,
    LinkEventKind.WRONG_UID: WorkerFaultKind.WRONG_PID,
    LinkEventKind.MULTIPART: WorkerFaultKind.MULTIPART,
    LinkEventKind.OVERSIZE: WorkerFaultKind.OVERSIZE,
}


class ModelBridge:
    """The whole process. `run` returns its exit status."""

    def __init__(self, control_fd: int) -> None:
        self._control_fd = control_fd
        self._gate = Gate(Link.SUPERVISOR_TO_MODEL, Phase.GREETING)
        self._decoder: Decoder[Frame] = Decoder(frame_types(Link.SUPERVISOR_TO_MODEL), L.MAX_FROM_SUPERVISOR)
        self._workers: dict[str, _Worker] = {}
        self._settings = ModelSettings()
        self._problem = ModelProblem.NOT_CONFIGURED
        self._endpoint: Endpoint | None = None

    async def run(self) -> int:
        """From the first frame to the end of the control link, or a Shutdown."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._crashed)
        self._done: asyncio.Future[int] = loop.create_future()
        self._links = Links()
        self._control = ControlLink(
            adopt(self._control_fd),
            max_send=L.MAX_TO_SUPERVISOR,
            max_receive=L.MAX_FROM_SUPERVISOR,
            on_message=self._on_control,
            on_eof=self._on_eof,
            accept_fds=False,
        )
        ticker = asyncio.create_task(self._tick())
        try:
            return await self._done
        finally:
            ticker.cancel()
            await self._close()

    def end(self, status: int) -> None:
        """Leave with `status`; the first word counts."""
        if not self._done.done():
            self._done.set_result(status)

    def report(self, frame: Frame) -> None:
        """Send to the supervisor. One that is gone, or reads nothing any more, is the end of this process."""
        try:
            self._control.send(encode(frame, L.MAX_TO_SUPERVISOR))
        except LinkError as error:
            note(log, "supervisor-stuck", logging.ERROR, error=where(error))
            self.end(EXIT_STUCK)

    # -------------------------------------------------------------------- control link

    def _on_eof(self) -> None:
        """The supervisor is gone, or broke the link's bounds."""
        self.end(0 if self._control.fault is None else EXIT_PROTOCOL)

    def _on_control(self, data: bytes, _fds: list[int]) -> None:
        try:
            frame = self._decoder.decode(data)
            self._gate.admit(frame)
            self._handle(frame)
        except (PeerViolation, LocalMisuse) as error:
            note(log, "control-nonsense", logging.ERROR, error=where(error))
            self.end(EXIT_PROTOCOL)

    def _handle(self, frame: Frame) -> None:
        match frame:
            case ConfigureModel():
                self._configure(frame.settings)
            case Ping():
                self.report(Pong(nonce=frame.nonce))
            case PrepareWorker():
                self._prepare(frame)
            case WorkerSpawned():
                self._worker(frame.worker).spawned(frame.pid)
            case AssignModel():
                self._assign(frame)
            case ForgetWorker():
                self._worker(frame.worker).forget()
            case Shutdown():
                self.end(0)
            case _:
                raise LocalMisuse("a frame without a handler")

    def _configure(self, settings: ModelSettings) -> None:
        self._gate.enter(Phase.OPEN)
        self._settings = settings
        self._problem = problem_of(settings)
        if self._problem is not ModelProblem.NOT_CONFIGURED and not limits_hold(settings):
            self.report(SetupFailed(problem=StateProblem.SETTINGS))
            self.end(EXIT_SETUP)
            return
        if self._problem is ModelProblem.NONE:
            key = read_key(settings.api_key_file)
            if isinstance(key, ModelProblem):
                self._problem = key
            else:
                self._endpoint = Endpoint(settings, key)
                self._endpoint.preload()
        note(log, "configured", problem=self._problem)
        self.report(ModelReady(problem=self._problem))

    def _prepare(self, frame: PrepareWorker) -> None:
        if frame.worker in self._workers:
            raise LocalMisuse("a worker is prepared once")
        self._workers[frame.worker] = _Worker(self, self._links, frame)
        self.report(WorkerPrepared(worker=frame.worker))

    def _assign(self, frame: AssignModel) -> None:
        limits = machine.Limits(
            self._settings.soft_tokens, self._settings.hard_tokens, self._settings.attempts
        )
        self._worker(frame.worker).assign(machine.Inferences(frame, limits, self._problem), self._endpoint)
        self.report(ModelAssigned(worker=frame.worker))

    def _worker(self, worker: str) -> _Worker:
        found = self._workers.get(worker)
        if found is None:
            raise LocalMisuse("the supervisor names a worker that was not prepared")
        return found

    def forgotten(self, worker: str) -> None:
        """Nothing of that worker is held any more."""
        del self._workers[worker]
        self.report(WorkerForgotten(worker=worker))

    # -------------------------------------------------------------------- life

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            now = time.monotonic()
            for worker in list(self._workers.values()):
                worker.tick(now)

    async def _close(self) -> None:
        for worker in list(self._workers.values()):
            worker.drop()
        self._control.close()
        self._links.close()
        if self._endpoint is not None:
            try:
                async with asyncio.timeout(CLOSE_S):
                    await self._endpoint.close()
            except TimeoutError:
                note(log, "endpoint-not-closed", logging.WARNING)

    def _crashed(self, _loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        """An exception in a callback: a bug of ours. Its text could hold page data, so only its type is logged."""
        error = context.get("exception")
        place = where(error) if isinstance(error, BaseException) else "unknown"
        note(log, "crashed", logging.CRITICAL, error=place)
        self.end(EXIT_CRASH)


class _Worker:
    """One worker: its link, the two machines, and what is under way for it."""

    def __init__(self, app: ModelBridge, links: Links, prepared: PrepareWorker) -> None:
        self._app = app
        self._id = prepared.worker
        self._peer = peer.ModelPeer()
        self._inferences: machine.Inferences | None = None
        self._endpoint: Endpoint | None = None
        self._request: asyncio.Task[None] | None = None
        self._rest: asyncio.TimerHandle | None = None
        self._uid = prepared.uid
        self._link: ServerLink = links.serve(
            f"{prepared.folder}/model",
            self._on_message,
            self._on_event,
            expect_pid=None,
            expect_uid=prepared.uid,
            max_message=L.MAX_WORKER_TO_MODEL,
            max_send=L.MAX_MODEL_TO_WORKER,
            owner_uid=prepared.uid,
            paused=True,
        )

    # -------------------------------------------------------------------- events

    def spawned(self, pid: int) -> None:
        self._carry_out(self._peer.spawned(pid, time.monotonic()))

    def assign(self, inferences: machine.Inferences, endpoint: Endpoint | None) -> None:
        self._inferences = inferences
        self._endpoint = endpoint
        self._carry_out(self._peer.assign(time.monotonic()))

    def tick(self, now: float) -> None:
        due = self._peer.next_due()
        if due is not None and now >= due:
            self._carry_out(self._peer.tick(now))

    def forget(self) -> None:
        """Cancel what is under way, close the link, answer once nothing is left."""
        self._carry_out(self._peer.forget(time.monotonic()))
        request = self._request
        self.drop()
        if request is None or request.done():
            self._app.forgotten(self._id)
            return
        waiting = asyncio.ensure_future(asyncio.wait([request], timeout=FORGET_S))
        waiting.add_done_callback(lambda _: self._app.forgotten(self._id))

    def drop(self) -> None:
        """End everything of this worker without a word."""
        if self._inferences is not None:
            self._conduct(self._inferences.forget())
        self._link.close()

    def _on_message(self, sender: Peer, data: bytes) -> None:
        self._carry_out(self._peer.received(sender.routing_id, data, time.monotonic()))

    def _on_event(self, event: LinkEvent) -> None:
        if event.kind is LinkEventKind.DISCONNECTED:
            self._carry_out(self._peer.disconnected(time.monotonic()))
        elif event.kind in _FAULTS:
            self._carry_out(self._peer.fault(_FAULTS[event.kind], time.monotonic()))

    # -------------------------------------------------------------------- effects of the link's machine

    def _carry_out(self, effects: list[peer.Effect]) -> None:
        for effect in effects:
            match effect:
                case peer.Read(pid):
                    self._link.set_expected(pid, self._uid)
                    self._link.resume()
                case peer.Send(route, frame):
                    self._send(route, frame)
                case peer.Greeted():
                    self._app.report(WorkerGreeted(worker=self._id))
                case peer.Asked(frame):
                    self._conduct(self._machine.infer(frame))
                case peer.Cut(kind):
                    note(log, "worker-cut", logging.WARNING, worker=self._id, kind=kind)
                    self.drop()
                    self._app.report(WorkerFault(worker=self._id, kind=kind))
                case peer.Close():
                    self.drop()

    def _send(self, route: bytes, frame: Frame) -> None:
        try:
            self._link.send(route, encode(frame, L.MAX_MODEL_TO_WORKER))
        except PeerUnreachable:
            return  # it is gone: the link's event, or the pidfd, says so in a moment
        except LinkError:  # it reads nothing: cut off as silent, there is nothing to argue about
            self._carry_out(self._peer.fault(WorkerFaultKind.SILENT, time.monotonic()))

    # -------------------------------------------------------------------- effects of the task's machine

    @property
    def _machine(self) -> machine.Inferences:
        assert (
            self._inferences is not None
        )  # the link's machine lets no inference through before the assignment
        return self._inferences

    def _due(self) -> None:
        self._conduct(self._machine.due())

    def _conduct(self, effects: list[machine.Effect]) -> None:
        for effect in effects:
            match effect:
                case machine.Report(frame):
                    if isinstance(frame, ModelFault):
                        note(
                            log,
                            "task-fault",
                            logging.WARNING,
                            task=frame.task,
                            generation=frame.generation,
                            code=frame.code,
                            problem=frame.problem,
                        )
                    self._app.report(frame)
                case machine.Reply(answer):
                    self._carry_out(self._peer.answer(answer, time.monotonic()))
                case machine.Ask():
                    self._request = asyncio.create_task(self._ask(effect))
                    self._request.add_done_callback(_reraise)
                case machine.Rest(seconds):
                    self._rest = asyncio.get_running_loop().call_later(seconds, self._due)
                case machine.Abort():
                    self._abort()

    def _abort(self) -> None:
        if self._request is not None:
            self._request.cancel()
        if self._rest is not None:
            self._rest.cancel()

    async def _ask(self, ask: machine.Ask) -> None:
        assert self._endpoint is not None  # without one the machine has refused already
        outcome = await self._endpoint.ask(ask.request_id, ask.messages, ask.tools)
        if isinstance(outcome, Failure):
            note(log, "request-failed", request=ask.request_id, problem=outcome.problem)
            jitter = random.random()  # spreads retries; nothing secret depends on it
            self._conduct(self._machine.failed(outcome, jitter))
        else:
            self._conduct(self._machine.answered(outcome))


def _reraise(task: asyncio.Task[None]) -> None:
    """A request that raised is a bug of ours: into the loop's exception handler, which ends the process."""
    if not task.cancelled() and (error := task.exception()) is not None:
        raise error
