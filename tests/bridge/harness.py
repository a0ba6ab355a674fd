"""A bridge with everything real but the browser: control link, workers' links, store; the hub is a fake.

`run(scenario)` runs `scenario(Stage)` inside a uvloop loop, with a deadline, and ends the bridge afterwards.
"""

from __future__ import annotations

import asyncio
import io
import logging
import os
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import msgspec
import uvloop
from browsercell.bridge.app import Bridge
from browsercell.bridge.journal import ContentFree
from browsercell.bridge.ports import BrowserPort, ListenerState, PageFailure, Refuses
from browsercell.protocol import limits as L
from browsercell.protocol.codec import Decoder, encode
from browsercell.protocol.control import ControlLink, ControlPair
from browsercell.protocol.errors import ToolErrorCode
from browsercell.protocol.frames import (
    Assign,
    Assigned,
    Assignment,
    BridgeReady,
    Changes,
    ConfigureBridge,
    Credit,
    ExtensionInfo,
    ExtEvent,
    Frame,
    Hello,
    OpenTask,
    PageError,
    PageReply,
    Ping,
    Pong,
    PrepareWorker,
    SandboxLevel,
    Sealed,
    SealReport,
    TaskOpened,
    ToolCall,
    ToolResult,
    WantedDeliverable,
    Welcome,
    WorkerPrepared,
    WorkerSealed,
    WorkerSpawned,
)
from browsercell.protocol.links import Link, frame_types
from browsercell.protocol.results import Browser, PlannerKind
from browsercell.protocol.settings import BridgeSettings
from browsercell.protocol.transport import ClientLink, LinkEvent, LinkEventKind, Links, Peer

F = TypeVar("F", bound=Frame)
T = TypeVar("T")
WAIT_S = 10.0  # for anything that should come at once
MARKER = "zq7PageMarker"
PAGE = "https://shop.example/books"
# A whole PNG of one pixel.
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="


class Died(BaseException):
    """What `die` raises in place of ending the test's process."""


class FakePort:
    """One browser. `answers`: by op, a reply, a failure, or a function of (args, tab) to either."""

    def __init__(self, pairing: str = "user") -> None:
        self.pairing = pairing
        self.calls: list[tuple[str, Any, int | None]] = []
        self.closed = False
        self.answers: dict[str, Any] = {}
        self.hold = asyncio.Event()
        self.hold.set()
        self.cancelled = 0
        self._tabs = 100

    async def call(
        self, op: str, args: bytes, *, tab: int | None = None, tabs: tuple[int, ...] = (), deadline_ms: int
    ) -> PageReply:
        assert deadline_ms > 0
        self.calls.append((op, msgspec.json.decode(args), tab if op != "browser_tabs_list" else len(tabs)))
        try:
            await self.hold.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        answer = self.answers.get(op, self._default(op, args))
        if callable(answer):
            answer = answer(args, tab)
        if isinstance(answer, PageError):
            raise PageFailure(answer)
        assert isinstance(answer, PageReply)
        return answer

    def _default(self, op: str, args: bytes) -> PageReply:
        if op == "browser_tabs_open":
            self._tabs += 1
            url = msgspec.json.decode(args)["url"]
            return PageReply(tab=self._tabs, url=url, title=f"Books {MARKER}", version="v1")
        if op in ("browser_tabs_close", "release"):
            return PageReply()
        if op == "browser_page_screenshot":
            return PageReply(image=PIXEL, width=1, height=1, url=PAGE, version="v1")
        if op in ("browser_page_click", "browser_page_type"):
            return PageReply(text="done", url=PAGE, version="v2", changes=Changes(page=True))
        return PageReply(text=f"page text {MARKER}", url=PAGE, version="v1")

    async def close(self) -> None:
        self.closed = True


class FakeHub:
    """The hub behind `ports.Hub`."""

    def __init__(
        self,
        settings: BridgeSettings,
        token: str,
        *,
        on_extensions: Callable[[], None],
        on_lost: Callable[[BrowserPort], None],
        on_event: Callable[[BrowserPort, ExtEvent], None],
    ) -> None:
        assert len(token) >= L.MIN_TOKEN_CHARS
        self.settings = settings
        self.on_extensions, self.on_lost, self.on_event = on_extensions, on_lost, on_event
        self.user: FakePort | None = FakePort()
        self.private = FakePort("private-1")
        self.adopted: list[tuple[str, int]] = []
        self.adopt_failure: PageError | None = None
        self.exited: list[str] = []
        self.denied: dict[str, str] = {"forbidden.example": "not-public"}
        self.checked: list[str] = []
        self.stopped = False
        self.infos: tuple[ExtensionInfo, ...] = ()
        self.refused = 0

    async def start(self) -> ListenerState:
        return ListenerState(17321)

    def user_port(self) -> BrowserPort | None:
        return self.user

    async def adopt_private(
        self,
        task: str,
        pid: int,
        commands_fd: int,
        replies_fd: int,
        deadline_ms: int,
        refuses: Refuses | None = None,
    ) -> BrowserPort:
        assert deadline_ms > 0
        assert refuses is not None  # every private browser is told its task's policy
        os.close(commands_fd)
        os.close(replies_fd)
        self.adopted.append((task, pid))
        if self.adopt_failure is not None:
            raise PageFailure(self.adopt_failure)
        return self.private

    def private_exited(self, task: str) -> None:
        self.exited.append(task)

    async def check_url(self, url: str) -> str:
        self.checked.append(url)
        if not url.startswith("http"):
            return "scheme"
        return next((reason for host, reason in self.denied.items() if f"//{host}" in url), "")

    def extensions(self) -> tuple[ExtensionInfo, ...]:
        return self.infos

    async def stop(self) -> None:
        self.stopped = True


class WorkerPeer:
    """The worker's end of a PAGE link, in this process: a real DEALER."""

    def __init__(self, links: Links, folder: str) -> None:
        self.folder = folder
        self.frames: asyncio.Queue[Frame] = asyncio.Queue()
        self.lost = asyncio.Event()
        self._decoder: Decoder[Frame] = Decoder(frame_types(Link.BRIDGE_TO_WORKER), L.MAX_BRIDGE_TO_WORKER)
        self.link: ClientLink = links.connect(
            os.path.join(folder, "page"),
            self._message,
            self._event,
            max_message=L.MAX_BRIDGE_TO_WORKER,
            max_send=L.MAX_WORKER_TO_BRIDGE * 8,
        )
        self.answer_pings = True
        self.calls = 0
        self.credited = 0  # bytes
        self.sent_at = self.answered_at = (
            0.0  # `time.perf_counter` of the last call's frame and of its result's
        )

    def _message(self, _peer: Peer, data: bytes) -> None:
        frame = self._decoder.decode(data)
        if isinstance(frame, Ping):
            if self.answer_pings:
                self.send(Pong(frame.nonce))
            return
        if isinstance(frame, Credit):
            self.credited += frame.bytes
            return
        if isinstance(frame, ToolResult):
            self.answered_at = time.perf_counter()
        self.frames.put_nowait(frame)

    def _event(self, event: LinkEvent) -> None:
        if event.kind is LinkEventKind.DISCONNECTED:
            self.lost.set()

    def send(self, frame: Frame) -> None:
        self.link.send(encode(frame, L.MAX_WORKER_TO_BRIDGE))

    async def expect(self, kind: type[F]) -> F:
        frame = await asyncio.wait_for(self.frames.get(), WAIT_S)
        assert isinstance(frame, kind), f"{type(frame).__name__} instead of {kind.__name__}"
        return frame

    def ask(self, tool: str, **args: object) -> None:
        self.calls += 1
        call = ToolCall(self.calls, tool, msgspec.json.encode(args))
        self.sent_at = time.perf_counter()
        self.send(call)

    async def result(self) -> ToolResult:
        result = await self.expect(ToolResult)
        assert result.call == self.calls
        return result

    async def call(self, tool: str, **args: object) -> ToolResult:
        self.ask(tool, **args)
        return await self.result()


class Stage:
    """The supervisor's end, and what it starts."""

    def __init__(self, bridge: Bridge, control: ControlLink, folder: Path, log: io.StringIO) -> None:
        self.bridge = bridge
        self.control = control
        self.folder = folder
        self.log = log
        self.state = folder / "state"
        self.frames: asyncio.Queue[Frame] = asyncio.Queue()
        self.eof = asyncio.Event()
        self.links = Links()
        self.hub: FakeHub
        self.deaths: list[int] = []
        self.status: int | None = None
        self._numbers = 0

    def send(self, frame: Frame, fds: tuple[int, ...] = ()) -> None:
        self.control.send(encode(frame, L.MAX_FROM_SUPERVISOR), fds)

    async def expect(self, kind: type[F]) -> F:
        """The next frame of the bridge, which is of this kind."""
        frame = await asyncio.wait_for(self.frames.get(), WAIT_S)
        assert isinstance(frame, kind), f"{type(frame).__name__} instead of {kind.__name__}"
        return frame

    def name(self, prefix: str) -> str:
        """A fresh id."""
        self._numbers += 1
        return f"{prefix}_{'abcdefgh'[self._numbers // 8]}{'abcdefgh'[self._numbers % 8]}aa"

    async def configure(self, **settings: Any) -> BridgeReady:
        self.send(ConfigureBridge(BridgeSettings(str(self.state), **settings)))
        return await self.expect(BridgeReady)

    async def prepare(self) -> tuple[str, WorkerPeer]:
        """A worker that is connected, its pid not yet announced."""
        worker = self.name("w")
        folder = self.folder / worker
        folder.mkdir(mode=0o700)
        self.send(PrepareWorker(worker, str(folder), os.geteuid()))
        assert (await self.expect(WorkerPrepared)).worker == worker
        peer = WorkerPeer(self.links, str(folder))
        await peer.link.wait_ready(WAIT_S)
        return worker, peer

    async def greeted(self) -> tuple[str, WorkerPeer]:
        worker, peer = await self.prepare()
        self.send(WorkerSpawned(worker, os.getpid()))
        peer.send(Hello(L.WIRE_VERSION))
        assert (await peer.expect(Welcome)).version == L.WIRE_VERSION
        return worker, peer

    async def spare(self) -> tuple[str, WorkerPeer]:
        worker, peer = await self.greeted()
        peer.send(Sealed(SealReport(SandboxLevel.SEALED, ())))
        assert (await self.expect(WorkerSealed)).worker == worker
        return worker, peer

    async def task(
        self,
        *,
        url: str | None = PAGE,
        deliverables: tuple[WantedDeliverable, ...] = (),
        tool_calls: int = 40,
    ) -> str:
        """An opened task in the user's Chrome."""
        task = self.name("task")
        self.send(OpenTask(task, Browser.CHROME, url, deliverables, tool_calls))
        assert (await self.expect(TaskOpened)).task == task
        return task

    def assign(self, worker: str, task: str, generation: int = 1) -> Assignment:
        assignment = Assignment(task, generation, PlannerKind.PLAYBOOK, "goal", (), None, (), 0, 40)
        self.send(Assign(worker, assignment))
        return assignment

    async def working(self, **task: Any) -> tuple[str, str, WorkerPeer]:
        """(task, worker, peer) with the assignment delivered."""
        name = await self.task(**task)
        worker, peer = await self.spare()
        self.assign(worker, name)
        assert (await peer.expect(Assigned)).assignment.task == name
        return name, worker, peer

    async def ended(self) -> int:
        """The bridge's exit status."""
        await asyncio.wait_for(self.eof.wait(), WAIT_S)
        for _ in range(1000):
            if self.status is not None:
                return self.status
            await asyncio.sleep(0.01)
        raise AssertionError("the bridge did not end")


@contextmanager
def captured_log() -> Iterator[io.StringIO]:
    """Everything the bridge logs, as its log file would hold it."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(ContentFree())
    logger = logging.getLogger("browsercell.bridge")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield stream
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def run(scenario: Callable[[Stage], Awaitable[T]], *, seconds: float = 40.0) -> T:
    """Run one scenario on a fresh bridge. The bridge's log must be free of page data."""
    with tempfile.TemporaryDirectory(prefix="bcb-") as name, captured_log() as log:
        folder = Path(name)
        (folder / "state").mkdir(mode=0o700)

        async def main() -> T:
            async with asyncio.timeout(seconds):
                return await _staged(scenario, folder, log)

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            outcome = runner.run(main())
        assert MARKER not in log.getvalue()
        return outcome


async def _staged(scenario: Callable[[Stage], Awaitable[T]], folder: Path, log: io.StringIO) -> T:
    pair = ControlPair.make()
    deaths: list[int] = []
    stage: Stage

    def die(status: int) -> NoReturn:
        deaths.append(status)
        raise Died

    def make_hub(*args: Any, **kwargs: Any) -> FakeHub:
        stage.hub = FakeHub(*args, **kwargs)
        return stage.hub

    decoder: Decoder[Frame] = Decoder(frame_types(Link.BRIDGE_TO_SUPERVISOR), L.MAX_TO_SUPERVISOR)
    bridge = Bridge(make_hub, die=die)
    control = ControlLink(
        pair.parent,
        max_send=L.MAX_FROM_SUPERVISOR * 2,
        max_receive=L.MAX_TO_SUPERVISOR,
        on_message=lambda data, _fds: stage.frames.put_nowait(decoder.decode(data)),
        on_eof=lambda: stage.eof.set(),
        accept_fds=False,
    )
    stage = Stage(bridge, control, folder, log)
    stage.deaths = deaths

    async def serve() -> None:
        stage.status = await bridge.serve(pair.child_fd)

    serving = asyncio.create_task(serve())
    try:
        return await scenario(stage)
    finally:
        control.close()
        stage.links.close()
        await asyncio.wait({serving}, timeout=WAIT_S)
        assert serving.done()


LOST = PageError(ToolErrorCode.EXTENSION_LOST, "The connection was lost.", may_have_effect=True)
