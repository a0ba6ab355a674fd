"""The thin client: `Client` (blocking) and `AsyncClient` over one HOST link. Needs only pyzmq and msgspec.

    from browsercell.protocol.client import Client

    with Client(directory=".", start=True) as client:
        result = client.delegate("Export the prices", url="https://shop.example/prices")
        print(result.status, result.summary)

Invariants: one session a client; the supervisor is the same user's (private folder, kernel uid); every wait has a
deadline; a call ends once, as an answer, an exception, or (for a delegation whose supervisor is gone) as an honest
`supervisor-restarted` result. A `Client` belongs to one thread, an `AsyncClient` to one event loop. Neither retries.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self

from . import client_core as core
from . import frames as f
from . import limits as L
from .client_core import Progress
from .client_start import OwnSupervisor
from .errors import (
    BrowsercellError,
    CallCancelled,
    CallTimeout,
    Execution,
    PeerUnreachable,
    PeerViolation,
    Unavailable,
    UsageError,
)
from .places import default_runtime_folder, host_socket
from .results import BrowserDelegateResult, DelegateRequest, Delivery
from .tools import DeliverItem
from .transport import ClientLink, LinkEvent, LinkEventKind, Links, Peer
from .transport_blocking import BlockingLink, BlockingLinks, poll_all

CONNECT_SECONDS: Final = 5.0
QUICK_SECONDS: Final = 15.0  # status and the like
DELEGATE_SECONDS: Final = L.MAX_SECONDS + 120.0  # the task's own ceiling, browser start, queue and deliveries
SEND_MS: Final = 2_000
POLL_MS: Final = 500  # how often a blocking wait looks at its deadline

_ENDS = frozenset({LinkEventKind.DISCONNECTED, LinkEventKind.CONNECT_FAILED, LinkEventKind.HANDSHAKE_FAILED})


class DelegationInterrupted(KeyboardInterrupt):
    """A delegation was cancelled from the keyboard; `result` is what it ended with."""

    def __init__(self, result: BrowserDelegateResult) -> None:
        super().__init__("the delegation was cancelled")
        self.result = result


def _directory(directory: str | os.PathLike[str] | None) -> str:
    return "" if directory is None else os.path.abspath(os.fspath(directory))


def _absent() -> Unavailable:
    return Unavailable("no supervisor answers", next_step="Start one with: supervisor run")


def _silent() -> CallTimeout:
    return CallTimeout(
        "the supervisor did not answer in time",
        next_step="See what it does with: supervisor status",
        execution=Execution.UNKNOWN,
    )


def _start_if_needed(runtime_folder: str, start: bool, arguments: Sequence[str]) -> OwnSupervisor | None:
    if not start or _answers(runtime_folder):
        return None
    own = OwnSupervisor(runtime_folder, lambda: _answers(runtime_folder), arguments)
    return own if own.running else None


def _answers(runtime_folder: str) -> bool:
    path = host_socket(runtime_folder)
    if not os.path.exists(path):
        return False
    links = BlockingLinks()
    try:
        links.connect(path, max_message=L.MAX_HOST_FRAME).wait_ready(int(CONNECT_SECONDS * 1000))
    except PeerUnreachable:
        return False
    finally:
        links.close()
    return True


def _request(goal: str | DelegateRequest, options: Mapping[str, Any]) -> DelegateRequest:
    unknown = sorted(set(options) - core.OPTIONS)
    if unknown:
        raise UsageError(
            f"delegate has no option {unknown[0]}",
            next_step=f"Options are {', '.join(sorted(core.OPTIONS))}.",
        )
    return goal if isinstance(goal, DelegateRequest) else core.delegate_request(goal, **options)


class Client:
    """Blocking client of one thread; a context manager."""

    def __init__(
        self,
        *,
        directory: str | os.PathLike[str] | None = None,
        kind: f.SessionKind = f.SessionKind.TOP,
        runtime_folder: str | None = None,
        start: bool = False,
        start_arguments: Sequence[str] = (),
    ) -> None:
        """`directory`: where deliveries go (None: deliveries are refused). `start`: start a supervisor of this client's
        own if none answers; it ends with the client. Raises Unavailable."""
        self._folder = runtime_folder or default_runtime_folder()
        self._opening = (kind, _directory(directory))
        self._starting = (start, tuple(start_arguments))
        self._own: OwnSupervisor | None = None
        self._links = BlockingLinks()
        self.session = ""
        self._begin()

    def _begin(self) -> None:
        try:
            self._own = _start_if_needed(self._folder, *self._starting)
            self._core = core.ClientCore()
            self._link = self._connect()
            self._open(*self._opening)
        except BaseException:
            self.close()
            raise

    @property
    def connected(self) -> bool:
        """False once the supervisor is known to be gone; then `reconnect` opens a new session."""
        poll_all([self._link], 0)  # looks for an end that nobody has waited for
        return not self._link.lost

    def reconnect(self) -> None:
        """Open a new session in the place of this one, as the constructor did (`start` included). What was running in the old
        one has ended or is cancelled; nothing is run again, and its grants stay with it. Raises Unavailable."""
        self.close()
        self._links = BlockingLinks()
        self._begin()

    def _connect(self) -> BlockingLink:
        link = self._links.connect(host_socket(self._folder), max_message=L.MAX_HOST_FRAME)
        try:
            link.wait_ready(int(CONNECT_SECONDS * 1000))
        except PeerUnreachable:
            raise _absent() from None
        return link

    def _open(self, kind: f.SessionKind, directory: str) -> None:
        self._send(self._core.open_session(kind, directory))
        event = self._next(time.monotonic() + QUICK_SECONDS)
        if not isinstance(event, core.Opened):
            raise PeerViolation("the supervisor did not open the session")
        self.session = event.session

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the session (its running delegations are cancelled) and a supervisor of our own."""
        self._links.close()
        if self._own is not None:
            own, self._own = self._own, None
            own.close()

    @property
    def runtime_folder(self) -> str:
        """Where the supervisor of this client listens."""
        return self._folder

    @property
    def supervisor_pid(self) -> int | None:
        """Pid of the supervisor this client started, None if it found one running."""
        return None if self._own is None else self._own.pid

    def delegate(
        self,
        goal: str | DelegateRequest,
        *,
        on_progress: Progress | None = None,
        timeout: float = DELEGATE_SECONDS,
        **options: Any,
    ) -> BrowserDelegateResult:
        """Run one task (options: `client_core.delegate_request`). Task failures are results, not exceptions.

        KeyboardInterrupt cancels the task, waits for its end, and is raised as DelegationInterrupted. After `timeout` seconds the task
        is cancelled and its result returned. Raises UsageError for a bad request.
        """
        call, data = self._core.call("browser_delegate_task", core.delegate_args(_request(goal, options)))
        self._send(data)
        try:
            return core.decode_result(self._wait(call, timeout, on_progress).content)
        except PeerUnreachable:
            return core.lost_result()
        except CallTimeout:
            self._send(self._core.cancel(call))
            return core.decode_result(self._wait(call, QUICK_SECONDS, on_progress).content)
        except KeyboardInterrupt:
            self._send(self._core.cancel(call))
            result = core.decode_result(self._wait(call, QUICK_SECONDS, None).content)
            raise DelegationInterrupted(result) from None

    def deliver(self, items: Sequence[str | DeliverItem | Mapping[str, Any]]) -> tuple[Delivery, ...]:
        """Retry deliveries by artifact id."""
        return core.decode_deliveries(
            self._call("browser_artifact_deliver", core.deliver_args(items)).content
        )

    def status(self) -> dict[str, Any]:
        """What `browser_status` says."""
        return core.decode_json(self._call("browser_status", b"{}").content)

    def extension_status(self) -> dict[str, Any]:
        """What `browser_extension_status` says."""
        return core.decode_json(self._call("browser_extension_status", b"{}").content)

    def processes(self) -> tuple[f.ProcessInfo, ...]:
        """Every process of the running supervisor."""
        call, data = self._core.status()
        self._send(data)
        return self._wait(call, QUICK_SECONDS, None).processes

    def call(self, tool: str, args: bytes) -> bytes:
        """Any host tool by name: JSON in, JSON out."""
        return self._call(tool, args).content

    def new_turn(self) -> None:
        """A new turn of the host's conversation begins."""
        self._send(self._core.new_turn())

    def stop_supervisor(self) -> None:
        """Ask the supervisor to shut down in order."""
        self._send(self._core.stop_supervisor())

    def _call(self, tool: str, args: bytes) -> core.Answered:
        call, data = self._core.call(tool, args)
        self._send(data)
        return self._wait(call, QUICK_SECONDS, None)

    def _send(self, data: bytes) -> None:
        try:
            self._link.send(data, SEND_MS)
        except PeerUnreachable:
            raise _absent() from None

    def _wait(self, call: int, timeout: float, on_progress: Progress | None) -> core.Answered:
        deadline = time.monotonic() + timeout
        while True:
            event = self._next(deadline)
            match event:
                case core.Answered() if event.call == call:
                    return event
                case core.Refused() if event.call == call:
                    raise event.error
                case f.HostProgress() if event.call == call and on_progress is not None:
                    on_progress(event)

    def _next(self, deadline: float) -> core.Event:
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                raise _silent()
            data = self._link.receive(min(POLL_MS, int(left * 1000) + 1))
            event = None if data is None else self._core.receive(data)
            if event is not None:
                return event


class AsyncClient:
    """The same for asyncio: `async with AsyncClient(...) as client`. Calls may run side by side."""

    def __init__(
        self,
        *,
        directory: str | os.PathLike[str] | None = None,
        kind: f.SessionKind = f.SessionKind.TOP,
        runtime_folder: str | None = None,
        start: bool = False,
        start_arguments: Sequence[str] = (),
    ) -> None:
        """As `Client`; nothing happens before `open` or `async with`."""
        self._folder = runtime_folder or default_runtime_folder()
        self._directory = _directory(directory)
        self._kind = kind
        self._start = start
        self._start_arguments = tuple(start_arguments)
        self._own: OwnSupervisor | None = None
        self._core = core.ClientCore()
        self._links: Links | None = None
        self._link: ClientLink | None = None
        self._waiting: dict[int, asyncio.Future[core.Answered]] = {}
        self._progress: dict[int, Progress] = {}
        self._opened: asyncio.Future[core.Opened] | None = None
        self.session = ""

    @property
    def connected(self) -> bool:
        """False before `open` and once the supervisor is known to be gone; then `reconnect` opens a new session."""
        return self._link is not None

    @property
    def runtime_folder(self) -> str:
        """Where the supervisor of this client listens."""
        return self._folder

    @property
    def supervisor_pid(self) -> int | None:
        """Pid of the supervisor this client started, None if it found one running."""
        return None if self._own is None else self._own.pid

    async def reconnect(self) -> None:
        """As `Client.reconnect`."""
        await self.close()
        self._core = core.ClientCore()
        await self.open()

    async def open(self) -> None:
        """Connect and open the session. Raises Unavailable."""
        loop = asyncio.get_running_loop()
        if self._start:
            self._own = await loop.run_in_executor(
                None, _start_if_needed, self._folder, True, self._start_arguments
            )
        self._opened = loop.create_future()
        self._links = Links()
        try:
            link = self._link = self._links.connect(
                host_socket(self._folder),
                self._on_message,
                self._on_event,
                expect_server_uid=os.getuid(),
                max_message=L.MAX_HOST_FRAME,
            )
            await link.wait_ready(CONNECT_SECONDS)
            link.send(self._core.open_session(self._kind, self._directory))
            async with asyncio.timeout(QUICK_SECONDS):
                self.session = (await self._opened).session
        except (PeerUnreachable, TimeoutError):
            await self.close()
            raise _absent() from None
        except BaseException:
            await self.close()
            raise

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End the session and a supervisor of our own."""
        self._lose()
        if self._links is not None:
            self._links.close()
            self._links = None
        if self._own is not None:
            own, self._own = self._own, None
            await asyncio.get_running_loop().run_in_executor(None, own.close)

    async def delegate(
        self,
        goal: str | DelegateRequest,
        *,
        on_progress: Progress | None = None,
        timeout: float = DELEGATE_SECONDS,
        **options: Any,
    ) -> BrowserDelegateResult:
        """As `Client.delegate`. Cancelling the awaiting task cancels the delegation and waits for its end."""
        args = core.delegate_args(_request(goal, options))
        try:
            return core.decode_result(
                await self.call("browser_delegate_task", args, on_progress=on_progress, timeout=timeout)
            )
        except CallCancelled:
            return core.lost_result()

    async def call(
        self, tool: str, args: bytes, *, on_progress: Progress | None = None, timeout: float = QUICK_SECONDS
    ) -> bytes:
        """Any host tool by name: JSON in, JSON out. After `timeout` seconds, and when the awaiting task is cancelled, the call is
        given up and its end waited for. Raises CallCancelled if the supervisor is gone, and what it refuses with."""
        call, data = self._core.call(tool, args)
        if on_progress is not None:
            self._progress[call] = on_progress
        answer = self._expect(call)
        try:
            self._send(data)
            try:
                async with asyncio.timeout(timeout):
                    answered = await asyncio.shield(answer)
            except (TimeoutError, asyncio.CancelledError) as error:
                self._send(self._core.cancel(call))
                try:
                    async with asyncio.timeout(QUICK_SECONDS):
                        answered = await answer
                except TimeoutError:
                    raise _silent() from None
                if isinstance(error, asyncio.CancelledError):
                    raise
            return answered.content
        finally:
            self._progress.pop(call, None)
            answer.cancel()

    async def deliver(self, items: Sequence[str | DeliverItem | Mapping[str, Any]]) -> tuple[Delivery, ...]:
        """Retry deliveries by artifact id."""
        return core.decode_deliveries(await self.call("browser_artifact_deliver", core.deliver_args(items)))

    async def status(self) -> dict[str, Any]:
        """What `browser_status` says."""
        return core.decode_json(await self.call("browser_status", b"{}"))

    async def extension_status(self) -> dict[str, Any]:
        """What `browser_extension_status` says."""
        return core.decode_json(await self.call("browser_extension_status", b"{}"))

    async def processes(self) -> tuple[f.ProcessInfo, ...]:
        """Every process of the running supervisor."""
        call, data = self._core.status()
        return (await self._quick(call, data)).processes

    def new_turn(self) -> None:
        """A new turn of the host's conversation begins."""
        self._send(self._core.new_turn())

    def stop_supervisor(self) -> None:
        """Ask the supervisor to shut down in order."""
        self._send(self._core.stop_supervisor())

    async def _quick(self, call: int, data: bytes) -> core.Answered:
        answer = self._expect(call)
        self._send(data)
        try:
            async with asyncio.timeout(QUICK_SECONDS):
                return await answer
        except TimeoutError:
            raise _silent() from None

    def _expect(self, call: int) -> asyncio.Future[core.Answered]:
        future: asyncio.Future[core.Answered] = asyncio.get_running_loop().create_future()
        self._waiting[call] = future
        future.add_done_callback(lambda _: self._waiting.pop(call, None))
        return future

    def _send(self, data: bytes) -> None:
        if self._link is None:
            raise _absent()
        try:
            self._link.send(data)
        except PeerUnreachable:
            raise _absent() from None

    def _on_message(self, peer: Peer, data: bytes) -> None:
        del peer  # the transport has checked its uid
        try:
            event = self._core.receive(data)
        except BrowsercellError as error:
            self._fail(error)
            return
        match event:
            case core.Opened() if self._opened is not None and not self._opened.done():
                self._opened.set_result(event)
            case core.Answered() if event.call in self._waiting and not self._waiting[event.call].done():
                self._waiting[event.call].set_result(event)
            case core.Refused() if event.call in self._waiting and not self._waiting[event.call].done():
                self._waiting[event.call].set_exception(event.error)
            case f.HostProgress() if event.call in self._progress:
                self._progress[event.call](event)

    def _on_event(self, event: LinkEvent) -> None:
        if event.kind in _ENDS or event.is_fault:
            self._lose()

    def _lose(self) -> None:
        self._link = None
        self._core.lose_all()
        self._fail(
            CallCancelled(
                "the supervisor is gone",
                next_step="Check what was under way, then reconnect.",
                execution=Execution.UNKNOWN,
            )
        )

    def _fail(self, error: BrowsercellError) -> None:
        for future in list(self._waiting.values()):
            if not future.done():
                future.set_exception(error)
        opened = self._opened
        if opened is not None and not opened.done():
            opened.set_exception(error)
            opened.exception()  # read here: `open` may have given up already
