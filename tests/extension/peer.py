"""A small bridge for tests: the handshake and the commands of the Ext frames, and nothing else.

Runs its own event loop in a thread, so that tests read top to bottom. It decodes every frame strictly, so the tests also
prove that what the extension sends fits `protocol/frames.py`.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import secrets
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

import msgspec
from browsercell.protocol import frames
from browsercell.protocol.settings import InputMode
from browsercell.protocol.tools import WORKER_TOOLS
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from .launcher import EXTENSION_ID

T = TypeVar("T")
Up = frames.ExtHello | frames.ExtProof | frames.ExtPong | frames.ExtReply | frames.ExtEvent

_UP: Final = msgspec.json.Decoder(Up)
_MAX_FRAME: Final = 64 * 1024 * 1024


class ToolFailed(Exception):
    """A command was answered with an error."""

    def __init__(self, error: frames.PageError) -> None:
        super().__init__(f"{error.code}: {error.message}")
        self.error = error


def proof(token: str, role: str, hello: frames.ExtHello, connection: str, nonce: str, port: int) -> str:
    """The mac of `role`, as the handshake module of the extension documents it."""
    lines = [
        "browsercell-handshake-1",
        role,
        "1",
        EXTENSION_ID,
        hello.pairing,
        connection,
        "127.0.0.1",
        str(port),
        hello.nonce,
        nonce,
    ]
    return hmac.new(token.encode(), "\n".join(lines).encode(), hashlib.sha256).hexdigest()


class Peer:
    """The listener. `token` is what the bridge side believes; `refuse` answers a hello with that code."""

    def __init__(self, token: str | None = None, mode: InputMode = InputMode.ALWAYS, port: int = 0) -> None:
        self.token = token or secrets.token_hex(20)
        self.mode = mode
        self.port = port
        self.refuse: frames.ExtRefusal | None = None
        self.hellos: list[frames.ExtHello] = []
        self.proofs = 0
        self.closes: list[int] = []
        self.origins: list[str | None] = []
        self.events: list[frames.ExtEvent] = []
        self.pongs: list[int] = []
        self.connected = threading.Event()
        self._socket: ServerConnection | None = None
        self._server: Server | None = None
        self._next = 0
        self._waiting: dict[int, asyncio.Future[frames.ExtReply]] = {}
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()
        self.call(self._listen())

    def call(self, work: Coroutine[Any, Any, T], timeout: float = 60) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(timeout)

    async def _listen(self) -> None:
        self._server = await serve(
            self._serve, "127.0.0.1", self.port, max_size=_MAX_FRAME, ping_interval=None, compression=None
        )
        self.port = next(iter(self._server.sockets)).getsockname()[1]

    async def _serve(self, socket: ServerConnection) -> None:
        try:
            await self._handshake(socket)
            async for data in socket:
                frame = _UP.decode(data)
                if isinstance(frame, frames.ExtReply):
                    future = self._waiting.pop(frame.id, None)
                    if future is not None and not future.done():
                        future.set_result(frame)
                elif isinstance(frame, frames.ExtEvent):
                    self.events.append(frame)
                elif isinstance(frame, frames.ExtPong):
                    self.pongs.append(frame.nonce)
        except ConnectionClosed:
            pass  # how a connection ends is noted below
        finally:
            self.closes.append(socket.close_code or 0)
            if self._socket is socket:
                self._socket = None
                self.connected.clear()
                for future in self._waiting.values():
                    if not future.done():
                        future.set_exception(ConnectionError("the extension is gone"))
                self._waiting.clear()

    async def _handshake(self, socket: ServerConnection) -> None:
        assert socket.request is not None
        self.origins.append(socket.request.headers.get("Origin"))
        assert socket.request.path == "/extension"
        hello = _UP.decode(await asyncio.wait_for(socket.recv(), 5))
        assert isinstance(hello, frames.ExtHello)
        self.hellos.append(hello)
        if self.refuse is not None:
            await socket.send(msgspec.json.encode(frames.ExtRefused(self.refuse)).decode())
            return
        nonce, connection = secrets.token_hex(32), secrets.token_hex(32)
        mac = proof(self.token, "bridge", hello, connection, nonce, self.port)
        await self._send(socket, frames.ExtChallenge(nonce, connection, mac))
        answer = _UP.decode(await asyncio.wait_for(socket.recv(), 5))
        assert isinstance(answer, frames.ExtProof)
        self.proofs += 1
        expected = proof(self.token, "extension", hello, connection, nonce, self.port)
        assert hmac.compare_digest(answer.mac, expected)
        await self._send(socket, frames.ExtReady(20_000, self.mode))
        self._socket = socket
        self.connected.set()

    async def _send(self, socket: ServerConnection, frame: frames.ExtFrame) -> None:
        await socket.send(msgspec.json.encode(frame).decode())

    async def _command(
        self, op: str, args: Any, tab: int | None, tabs: tuple[int, ...], ms: int
    ) -> frames.ExtReply:
        socket = self._socket
        if socket is None:
            raise ConnectionError("not connected")
        self._next += 1
        future: asyncio.Future[frames.ExtReply] = self.loop.create_future()
        self._waiting[self._next] = future
        raw = msgspec.Raw(json.dumps(args).encode())
        await self._send(socket, frames.ExtCommand(self._next, op, raw, ms, tab, tabs))
        return await asyncio.wait_for(future, ms / 1000 + 5)

    def run(
        self,
        op: str,
        chrome_tab: int | None = None,
        /,
        *,
        ms: int | None = None,
        tabs: tuple[int, ...] = (),
        **args: Any,
    ) -> frames.PageReply:
        """One command; raises ToolFailed."""
        full = f"browser_{op}" if f"browser_{op}" in WORKER_TOOLS else op
        deadline = ms or (WORKER_TOOLS[full].deadline_ms if full in WORKER_TOOLS else 5_000)
        reply = self.call(self._command(full, args, chrome_tab, tabs, deadline))
        if reply.error is not None:
            raise ToolFailed(reply.error)
        assert reply.ok is not None
        return reply.ok

    def attempt(self, op: str, chrome_tab: int) -> frames.PageError | None:
        """One command without arguments; gives its error."""
        return self.call(self._command(op, {}, chrome_tab, (), 5_000)).error

    def start(self, op: str, chrome_tab: int | None = None, /, *, ms: int = 10_000, **args: Any) -> Any:
        """Sends a command without waiting; gives a future of its reply."""
        return asyncio.run_coroutine_threadsafe(
            self._command(f"browser_{op}", args, chrome_tab, (), ms), self.loop
        )

    def send(self, frame: frames.ExtFrame) -> None:
        """Sends a frame as it is."""
        assert self._socket is not None
        self.call(self._send(self._socket, frame))

    @property
    def last_id(self) -> int:
        return self._next

    def open(self, url: str) -> int:
        """Opens a tab and gives Chrome's id for it."""
        reply = self.run("tabs_open", url=url)
        assert reply.tab is not None
        return reply.tab

    def drop(self) -> None:
        """Closes the connection, and goes on listening."""
        if self._socket is not None:
            self.call(self._socket.close(1001))

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
            self.call(self._server.wait_closed())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(5)


def until(condition: Callable[[], bool], seconds: float = 10, what: str = "condition") -> float:
    """Waits for `condition`; gives the seconds it took; raises TimeoutError."""
    start = time.monotonic()
    while not condition():
        if time.monotonic() - start > seconds:
            raise TimeoutError(what)
        time.sleep(0.01)
    return time.monotonic() - start
