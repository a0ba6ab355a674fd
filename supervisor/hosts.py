"""The host link: sessions of hosts over one ZeroMQ socket, joined to the supervisor. A shell.

Decisions are `host_sessions.Session`'s and the supervisor's; here frames become calls and outcomes become frames. A
connection is a session. Hosts are processes of this user (private folder, kernel uid); one that breaks the protocol
loses its session, its delegations are cancelled, and it is not argued with. A host that is gone is found when the link
reports an end: the next frame to it can't be sent, and its delegations are cancelled.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import msgspec

from ..protocol import frames as f
from ..protocol import limits as L
from ..protocol.codec import Decoder, WrongVersion, encode
from ..protocol.errors import (
    Backpressure,
    BlockerCode,
    BrowsercellError,
    PeerUnreachable,
    PeerViolation,
    UsageError,
)
from ..protocol.links import Link, frame_types
from ..protocol.new_id import new_id
from ..protocol.results import BrowserDelegateResult, DelegateRequest, Delivery, Status
from ..protocol.tools import DeliverRequest
from ..protocol.transport import LinkEvent, LinkEventKind, Links, Peer, ServerLink
from . import host_sessions as h
from .delivery import DirectoryGrant, grant_directory

log = logging.getLogger(__name__)

MAX_SESSIONS: Final = 64  # a host needs one; more than this is a fault of somebody's loop
PROBE_SECONDS: Final = 1.0  # between two looks after hosts that went without a word
# To a host without a running task: belongs to no call, so it is ignored there; a session that has ended can't be reached.
SIGN_OF_LIFE: Final = f.HostProgress(0, f.TaskPhase.QUEUED, 0, 0, 0)

OnProgress = Callable[[f.TaskPhase, int, int, str, bool, int], None]


class TaskHandle(Protocol):
    """A running delegation."""

    def cancel(self) -> None: ...

    async def result(self) -> BrowserDelegateResult: ...


class Core(Protocol):
    """What the host link needs of the supervisor."""

    def delegate(
        self,
        request: DelegateRequest,
        *,
        directory: DirectoryGrant | None,
        session: str,
        on_progress: OnProgress,
    ) -> TaskHandle: ...

    async def deliver(
        self, request: DeliverRequest, *, session: str, directory: DirectoryGrant | None
    ) -> tuple[Delivery, ...]: ...

    def status(self) -> dict[str, Any]: ...

    def extension_status(self) -> dict[str, Any]: ...

    def processes(self) -> tuple[f.ProcessInfo, ...]: ...


@dataclass(slots=True)
class _Host:
    """One connected host."""

    routing_id: bytes
    pid: int
    session: h.Session
    id: str = ""
    directory: DirectoryGrant | None = None
    tasks: dict[int, TaskHandle] = field(default_factory=dict)
    progress: dict[int, f.HostProgress] = field(default_factory=dict)


class HostLink:
    """Serves hosts at `path` until `close`. `on_stop` is called when a host asks the supervisor to shut down."""

    def __init__(
        self, core: Core, links: Links, path: str, *, version: str, on_stop: Callable[[], None]
    ) -> None:
        self._core = core
        self._version = version
        self._on_stop = on_stop
        self._decoder: Decoder[Any] = Decoder(frame_types(Link.HOST_TO_SUPERVISOR), L.MAX_HOST_FRAME)
        self._hosts: dict[bytes, _Host] = {}
        self._refused: set[bytes] = set()
        self._running: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        self._made_room = -PROBE_SECONDS
        self._link: ServerLink = links.serve(
            path,
            self._on_message,
            self._on_event,
            expect_pid=None,
            expect_uid=os.getuid(),
            max_message=L.MAX_HOST_FRAME,
        )
        self._probe = self._loop.call_later(PROBE_SECONDS, self._look)

    async def close(self) -> None:
        """Cancel what runs, wait for its outcomes to leave, stop listening."""
        self._probe.cancel()
        for host in self._hosts.values():
            for task in host.tasks.values():
                task.cancel()
        if self._running:
            await asyncio.wait(self._running, timeout=10)
        self._link.close()

    def connected(self) -> int:
        """How many hosts are still there; asks each, since an end may not have been reported."""
        for host in list(self._hosts.values()):
            self._send(host, SIGN_OF_LIFE)
        return len(self._hosts)

    # ---------------------------------------------------------------- frames in

    def _on_message(self, peer: Peer, data: bytes) -> None:
        if peer.routing_id in self._refused:
            return
        host = self._hosts.get(peer.routing_id)
        if host is None:
            if len(self._hosts) >= MAX_SESSIONS and not self._make_room():
                self._fault(
                    peer.routing_id,
                    f.HostFault(0, "overloaded", f"more than {MAX_SESSIONS} hosts are connected"),
                )
                return
            host = self._hosts[peer.routing_id] = _Host(peer.routing_id, peer.pid, h.Session())
        try:
            self._apply(host, host.session.receive(self._decoder.decode(data)))
        except WrongVersion:
            fault = f.HostFault(
                0,
                "wrong-version",
                "the host speaks another version of the wire format",
                "Install the same version on both sides",
            )
            self._fault(host.routing_id, fault)
            self._drop(host, "wrong version")
        except PeerViolation as violation:
            self._fault(
                host.routing_id,
                f.HostFault(0, "protocol-violation", "the host broke the protocol; its session has ended"),
            )
            self._drop(host, violation.message)

    def _apply(self, host: _Host, effect: h.Effect) -> None:
        match effect:
            case h.Open():
                self._open(host, effect)
            case h.Refuse():
                self._send(host, effect.fault)
                if effect.fault.call == 0:
                    self._drop(host, effect.fault.code)
            case h.Reject():
                self._reply(host, effect.call, rejected(effect.reason))
            case h.Run():
                self._run(host, effect)
            case h.Cancel():
                task = host.tasks.get(effect.call)
                if task is not None:
                    task.cancel()
            case h.Report():
                host.session.settle(effect.call)
                status = msgspec.json.encode(self._core.status())
                self._send(host, f.StatusReply(effect.call, self._core.processes(), status))
            case h.Stop():
                log.info("a host asked for shutdown", extra={"actor": "host", "pid": host.pid})
                self._on_stop()
            case h.Turn():
                log.info("a new turn began", extra={"actor": "host", "session": host.id})

    def _open(self, host: _Host, effect: h.Open) -> None:
        if effect.directory:
            try:
                host.directory = grant_directory(effect.directory)
            except UsageError as error:
                self._send(host, f.HostFault(0, "invalid-request", error.message, error.next_step))
                self._drop(host, "working directory refused")
                return
        host.id = new_id("session")
        log.info(
            "session opened",
            extra={"actor": "host", "session": host.id, "pid": host.pid, "kind": effect.kind},
        )
        self._send(host, f.SessionOpened(host.id, self._version))

    def _run(self, host: _Host, effect: h.Run) -> None:
        match effect.args:
            case DelegateRequest() as request:
                self._start(host, effect.call, request)
            case DeliverRequest() as request:
                self._background(self._deliver(host, effect.call, request))
            case _ if effect.tool == "browser_extension_status":
                self._reply(host, effect.call, self._core.extension_status())
            case _:
                self._reply(host, effect.call, self._core.status())

    def _start(self, host: _Host, call: int, request: DelegateRequest) -> None:
        calls = request.limits.tool_calls or L.MAX_TOOL_CALLS

        def on_progress(
            phase: f.TaskPhase, steps: int, made: int, tool: str, ok: bool, elapsed_ms: int
        ) -> None:
            progress = f.HostProgress(call, phase, steps, made, calls, tool, ok, elapsed_ms)
            host.progress[call] = progress
            self._send(host, progress)

        handle = self._core.delegate(
            request, directory=host.directory, session=host.id, on_progress=on_progress
        )
        host.tasks[call] = handle
        self._background(self._finish(host, call, handle))

    # ---------------------------------------------------------------- outcomes

    async def _finish(self, host: _Host, call: int, handle: TaskHandle) -> None:
        result = await handle.result()
        host.tasks.pop(call, None)
        host.progress.pop(call, None)
        self._reply(host, call, result)

    async def _deliver(self, host: _Host, call: int, request: DeliverRequest) -> None:
        try:
            deliveries = await self._core.deliver(request, session=host.id, directory=host.directory)
        except BrowsercellError as error:
            if host.session.settle(call):
                self._send(host, f.HostFault(call, "invalid-request", error.message, error.next_step))
            return
        self._reply(host, call, deliveries)

    def _reply(self, host: _Host, call: int, content: Any) -> None:
        if host.session.settle(call):
            self._send(host, f.HostReply(call, msgspec.json.encode(content)))

    def _background(self, coroutine: Any) -> None:
        task = self._loop.create_task(coroutine)
        self._running.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("an outcome was lost", exc_info=task.exception(), extra={"actor": "host"})

    def _send(self, host: _Host, frame: f.Frame) -> None:
        if self._hosts.get(host.routing_id) is not host:
            return  # it has left; its outcomes are recorded, not sent
        try:
            self._link.send(host.routing_id, encode(frame, L.MAX_HOST_FRAME))
        except PeerUnreachable:
            self._drop(host, "gone")
        except Backpressure:
            if not isinstance(frame, f.HostProgress):  # progress may be missed, an outcome may not
                self._drop(host, "does not read")

    def _fault(self, routing_id: bytes, fault: f.HostFault) -> None:
        try:
            self._link.send(routing_id, encode(fault, L.MAX_HOST_FRAME))
        except (PeerUnreachable, Backpressure) as error:
            log.info(
                "a refusal could not be sent",
                extra={"actor": "host", "code": fault.code, "why": type(error).__name__},
            )

    # ---------------------------------------------------------------- ends

    def _on_event(self, event: LinkEvent) -> None:
        if event.is_fault:
            log.warning(
                "a connection was refused",
                extra={"actor": "host", "kind": event.kind.value, "pid": event.pid, "uid": event.uid},
            )
        elif event.kind is LinkEventKind.DISCONNECTED:
            self._find_gone()

    def _look(self) -> None:
        """Hosts with running tasks are probed: an end may be reported before the router has dropped the peer."""
        self._find_gone()
        self._probe = self._loop.call_later(PROBE_SECONDS, self._look)

    def _find_gone(self) -> None:
        for host in list(self._hosts.values()):
            if host.progress:
                self._send(host, next(reversed(host.progress.values())))
            elif not _alive(host.pid):
                self._drop(host, "its process ended")

    def _make_room(self) -> bool:
        """Drop the ended sessions of processes that live on; True if there were any. Only when the table is full, and once
        a look at most: what is sent to an idle host lies in its queue until it reads."""
        if self._loop.time() - self._made_room < PROBE_SECONDS:
            return False
        self._made_room = self._loop.time()
        for host in list(self._hosts.values()):
            self._send(host, SIGN_OF_LIFE)
        return len(self._hosts) < MAX_SESSIONS

    def _drop(self, host: _Host, why: str) -> None:
        if self._hosts.pop(host.routing_id, None) is None:
            return
        self._refused = {*list(self._refused)[-MAX_SESSIONS:], host.routing_id}
        log.info(
            "session ended", extra={"actor": "host", "session": host.id, "why": why, "tasks": len(host.tasks)}
        )
        for task in host.tasks.values():
            task.cancel()


def _alive(pid: int) -> bool:
    return os.path.exists(f"/proc/{pid}")


def rejected(reason: str) -> BrowserDelegateResult:
    """A delegation that was not valid (design 4: a normal result)."""
    return BrowserDelegateResult(
        task_id="",
        status=Status.FAILED,
        execution_status=Status.FAILED,
        summary=f"The request is not valid: {reason}",
        next_step="Correct the request and delegate again.",
        blocker_code=BlockerCode.INVALID_REQUEST,
    )
