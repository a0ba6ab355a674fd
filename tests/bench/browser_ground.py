"""Ground of `bench_browser.py`: a real bridge process, a real Chromium with the real extension, and two ways into a page.

The way of the product: this process plays the supervisor on the bridge's control link and a worker on its PAGE link, so a
call is measured where a worker would: from the frame it sends to the frame it gets. The direct way: the debugger's
protocol over the browser's own pipe, each command written and its answer read by blocking calls, with no thread and no event
loop in between; nothing faster is to be had from Python.

It measures nothing and knows no goal.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeVar

from browsercell.protocol import limits as L
from browsercell.protocol.codec import Decoder, encode
from browsercell.protocol.control import ControlLink, ControlPair
from browsercell.protocol.frames import (
    Assign,
    Assigned,
    Assignment,
    BridgeReady,
    CloseTask,
    ConfigureBridge,
    ExtensionState,
    ForgetWorker,
    Frame,
    Hello,
    OpenTask,
    PrepareWorker,
    SandboxLevel,
    Sealed,
    SealReport,
    TaskClosed,
    TaskOpened,
    Welcome,
    WorkerForgotten,
    WorkerPrepared,
    WorkerSealed,
    WorkerSpawned,
)
from browsercell.protocol.links import Link, frame_types
from browsercell.protocol.results import Browser, PlannerKind
from browsercell.protocol.settings import BridgeSettings, InputMode, NetworkMode, NetworkSettings
from browsercell.protocol.transport import Links

from tests.bridge.chromium import launcher
from tests.bridge.harness import WorkerPeer
from tests.extension.launcher import DIST, EXTENSION_ID

F = TypeVar("F", bound=Frame)
WAIT_S = 40.0  # for anything; an overloaded machine starts a Chromium in many seconds
MAX_ANSWER = 8 * 1024 * 1024  # bytes of one answer of the browser's
_CHUNK = 1 << 16
_LOG = "bridge.log"


class Direct:
    """One Chromium over its pipe, by blocking calls. `profile`: its folder, which names its debugging port."""

    def __init__(self, spawned: launcher.Spawned) -> None:
        self.profile = spawned.folder / "profile"
        self._spawned = spawned
        self._number = 0
        self._buffer = bytearray()

    def call(self, method: str, session: str = "", **params: Any) -> dict[str, Any]:
        """One command and its answer; events in between are dropped. Raises RuntimeError for a refusal."""
        self.post(method, session, **params)
        return self.answer(self._number)

    def post(self, method: str, session: str = "", **params: Any) -> int:
        """Write a command; its number, for `answer`."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._spawned.commands_fd, data) :]
        return self._number

    def answer(self, number: int) -> dict[str, Any]:
        """The answer to command `number`, read in order."""
        while True:
            message = json.loads(self._message())
            if message.get("id") == number:
                if "error" in message:
                    raise RuntimeError(message["error"].get("message", "refused"))
                result: dict[str, Any] = message["result"]
                return result

    def _message(self) -> bytes:
        seen = 0
        while (end := self._buffer.find(b"\0", seen)) < 0:
            seen = len(self._buffer)
            ready, _, _ = select.select([self._spawned.replies_fd], [], [], WAIT_S)
            if not ready:
                raise TimeoutError("the browser does not answer")
            chunk = os.read(self._spawned.replies_fd, _CHUNK)
            if not chunk or seen > MAX_ANSWER:
                raise RuntimeError("the browser is gone")
            self._buffer += chunk
        message = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return message

    def evaluate(self, session: str, expression: str, **options: Any) -> Any:
        """The value of an expression; a promise is awaited."""
        answer = self.call(
            "Runtime.evaluate",
            session,
            expression=expression,
            awaitPromise=True,
            returnByValue=True,
            **options,
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(str(answer["exceptionDetails"])[:300])
        return answer["result"].get("value")

    def attach(self, url_part: str, kind: str = "page") -> str:
        """A session with the target of that kind whose URL holds `url_part`; waits for one."""
        until = time.monotonic() + WAIT_S
        while time.monotonic() < until:
            for info in self.call("Target.getTargets")["targetInfos"]:
                if info["type"] == kind and url_part in info["url"]:
                    answer = self.call("Target.attachToTarget", targetId=info["targetId"], flatten=True)
                    return str(answer["sessionId"])
            time.sleep(0.02)
        raise TimeoutError(f"no {kind} at {url_part}")

    def pair(self, port: int, token: str) -> None:
        """Hand the extension its pairing, as the user's, and leave its service worker alone again."""
        session = self.attach(EXTENSION_ID, "service_worker")
        value = json.dumps({"pairing": {"port": port, "token": token, "pairing": "user"}})
        until = time.monotonic() + WAIT_S
        while not self.evaluate(session, "typeof chrome !== 'undefined' && !!chrome.storage"):
            if time.monotonic() > until:
                raise TimeoutError("the extension did not start")
            time.sleep(0.02)
        self.evaluate(session, f"chrome.storage.local.set({value})")
        self.call("Target.detachFromTarget", sessionId=session)


class Ground:
    """A bridge, a browser, a site. `direct` is the way around the product."""

    def __init__(self, control: ControlLink, place: Path, direct: Direct, site: str) -> None:
        self.direct = direct
        self.site = site
        self._control = control
        self._place = place
        self._frames: asyncio.Queue[Frame] = asyncio.Queue()
        self._links = Links()
        self._numbers = 0

    def heard(self, frame: Frame) -> None:
        """A frame of the bridge's."""
        self._frames.put_nowait(frame)

    def send(self, frame: Frame) -> None:
        self._control.send(encode(frame, L.MAX_FROM_SUPERVISOR))

    async def expect(self, kind: type[F]) -> F:
        """The next frame of this kind; what else the bridge reports is of no interest here."""
        async with asyncio.timeout(WAIT_S):
            while True:
                frame = await self._frames.get()
                if isinstance(frame, kind):
                    return frame

    async def start(self) -> None:
        """Configure the bridge and let the extension in."""
        network = NetworkSettings(NetworkMode.ALLOWLIST, allow_cidrs=("127.0.0.0/8",))
        state = self._place / "state"
        self.send(
            ConfigureBridge(BridgeSettings(str(state), port=0, network=network, input=InputMode.ALWAYS))
        )
        ready = await self.expect(BridgeReady)
        token = (state / "pairing-token").read_text().strip()
        await asyncio.to_thread(self.direct.pair, ready.port, token)
        while not (await self.expect(ExtensionState)).extensions:
            pass  # the first report may be of none

    async def working(self, path: str) -> tuple[str, str, WorkerPeer, str]:
        """A task with a tab at `path` and a worker of its own: task, worker, the worker's link, a session with the tab."""
        self._numbers += 1
        letter = "abcdefghijklmnopqrstuvwxyz"[self._numbers]
        task, worker = f"t_{letter * 4}", f"w_{letter * 4}"
        url = f"{self.site}{path}?n={self._numbers}"
        self.send(OpenTask(task, Browser.CHROME, url, (), L.MAX_TOOL_CALLS))
        await self.expect(TaskOpened)
        folder = self._place / worker
        folder.mkdir(mode=0o700)
        self.send(PrepareWorker(worker, str(folder), os.geteuid()))
        await self.expect(WorkerPrepared)
        peer = WorkerPeer(self._links, str(folder))
        await peer.link.wait_ready(WAIT_S)
        self.send(WorkerSpawned(worker, os.getpid()))
        peer.send(Hello(L.WIRE_VERSION))
        await peer.expect(Welcome)
        peer.send(Sealed(SealReport(SandboxLevel.SEALED, ())))
        await self.expect(WorkerSealed)
        self.send(
            Assign(
                worker,
                Assignment(task, 1, PlannerKind.PLAYBOOK, "goal", (), None, (), 0, L.MAX_TOOL_CALLS),
            )
        )
        await peer.expect(Assigned)
        return task, worker, peer, self.direct.attach(url)

    async def ended(self, task: str, worker: str) -> None:
        """Give worker, task and tab back."""
        self.send(ForgetWorker(worker))
        await self.expect(WorkerForgotten)
        self.send(CloseTask(task))
        await self.expect(TaskClosed)

    def settling(self, task: str) -> list[float]:
        """Of each call of `task`, in order: the milliseconds it waited for consequences, by the bridge's log."""
        lines = [json.loads(line) for line in (self._place / _LOG).read_text().splitlines()]
        return [
            line["settle_us"] / 1000
            for line in lines
            if line.get("event") == "call-settled" and line["task"] == task
        ]

    def close(self) -> None:
        self._links.close()
        self._control.close()


@contextlib.contextmanager
def served(pages: dict[str, bytes]) -> Iterator[str]:
    """Serve `pages` by path on loopback; yields the base URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = pages.get(self.path.partition("?")[0])
            self.send_response(200 if body is not None else 404)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body or b"")))
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


@contextlib.contextmanager
def ground(place: Path, site: str) -> Iterator[Ground]:
    """Start bridge and browser; `Ground.start` connects them. Ends both."""
    (place / "state").mkdir(mode=0o700)
    pair = ControlPair.make()
    command = [sys.executable, "-I", "-B", "-m", "browsercell.bridge", "--control-fd", str(pair.child_fd)]
    with contextlib.ExitStack() as stack:
        log = stack.enter_context((place / _LOG).open("wb"))
        bridge = stack.enter_context(subprocess.Popen(command, pass_fds=(pair.child_fd,), stderr=log))
        stack.callback(bridge.kill)
        os.close(pair.child_fd)
        spawned = launcher.spawn(
            DIST, "--remote-debugging-port=0", same_uid=True
        )  # the user's: others' are refused by the bridge
        stack.callback(spawned.end)
        decoder: Decoder[Frame] = Decoder(frame_types(Link.BRIDGE_TO_SUPERVISOR), L.MAX_TO_SUPERVISOR)
        made: list[Ground] = []
        control = ControlLink(
            pair.parent,
            max_send=L.MAX_FROM_SUPERVISOR,
            max_receive=L.MAX_TO_SUPERVISOR,
            on_message=lambda data, _fds: made[0].heard(decoder.decode(data)),
            on_eof=lambda: None,
            accept_fds=False,
        )
        made.append(Ground(control, place, Direct(spawned), site))
        stack.callback(made[0].close)
        yield made[0]
