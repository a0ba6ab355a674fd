"""`supervisor mcp --http`: streamable HTTP on 127.0.0.1, behind `Guard`. A shell.

Invariants: the listener is on loopback only; nothing of a request is read before its head has passed the guard; a head has
HEAD_SECONDS to arrive and a body BODY_SECONDS, and neither may be larger than its bound; refusals are short, uncached, and say
nothing about the token. Ends on SIGTERM, SIGINT and SIGHUP after every session has been closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from typing import Any, Final

import msgspec
import uvicorn
from mcp.server.transport_security import TransportSecuritySettings
from uvicorn.protocols.http.h11_impl import H11Protocol

from ...protocol import limits as L
from ...protocol.errors import Unavailable
from . import http_token
from .guard import PATH, Guard, Refusal
from .host import Options
from .logs import log_to_stderr
from .server import Product

DEFAULT_PORT: Final = 17322  # beside the extension's 17321
ADDRESS: Final = "127.0.0.1"
MAX_BODY_BYTES: Final = (
    L.MAX_HOST_FRAME
)  # what the supervisor takes of one call, and so all that is worth reading
MAX_HEAD_BYTES: Final = 16 * 1024
MAX_SESSIONS: Final = 32  # half of what a supervisor serves
MAX_CONNECTIONS: Final = 128  # a session has one stream open and some requests under way
IDLE_SECONDS: Final = 1800.0  # a client that has vanished keeps a session no longer
HEAD_SECONDS: Final = 10.0
BODY_SECONDS: Final = 10.0
GRACE_SECONDS: Final = 2  # for open streams at the end
BACKLOG: Final = 64

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


def run(options: Options, *, state_folder: str, port: int | None, json: bool) -> None:
    """Returns after an orderly end. Raises Unavailable if the port is taken or the token can't be used."""
    log_to_stderr()
    secret, path = http_token.load(state_folder)
    with listen(DEFAULT_PORT if port is None else port) as listener:
        bound: int = listener.getsockname()[1]
        address = f"http://{ADDRESS}:{bound}{PATH}"
        product = Product(options)
        server = Server(guarded(product, Guard(bound, secret)))

        def ready() -> None:
            if json:
                sys.stdout.write(
                    msgspec.json.encode({"url": address, "tokenFile": str(path)}).decode() + "\n"
                )
                sys.stdout.flush()
            else:
                print(
                    f"supervisor: MCP at {address}; send 'Authorization: Bearer <the token in {path}>'; stop with Ctrl+C",
                    file=sys.stderr,
                )

        asyncio.run(server.serve_until_told(listener, ready))


def listen(port: int) -> socket.socket:
    """A bound socket on loopback. Raises Unavailable."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((ADDRESS, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        taken = error.errno == errno.EADDRINUSE
        raise Unavailable(
            f"port {port} {'is taken' if taken else 'can not be used'}",
            next_step="End its owner, or take another one with --port.",
        ) from None
    return listener


def guarded(product: Product, guard: Guard, *, body_seconds: float = BODY_SECONDS) -> App:
    """The SDK's application behind the guard."""
    app = product.server.streamable_http_app(
        streamable_http_path=PATH,
        max_request_body_size=MAX_BODY_BYTES,
        session_idle_timeout=IDLE_SECONDS,
        max_sessions=MAX_SESSIONS,
        # The guard has judged the same before; the SDK's own check stays on behind it.
        transport_security=TransportSecuritySettings(
            allowed_hosts=list(guard.hosts), allowed_origins=list(guard.origins)
        ),
    )

    async def judged(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # no web sockets here; the server refuses what is not accepted
        refusal = guard.judge(scope["method"], scope["path"], scope["headers"])
        if refusal is not None:
            await refuse(refusal, send)
            return
        body = await _read_body(receive, body_seconds, _declared(scope))
        if isinstance(body, Refusal):
            await refuse(body, send)
        elif body is not None:  # None: the peer has left
            await app(scope, _replay(body, receive), send)

    return judged


def _declared(scope: Scope) -> int:
    """The body's length as its head says, 0 if it does not."""
    return int(next((value for name, value in scope["headers"] if name == b"content-length"), b"0"))


async def _read_body(receive: Receive, seconds: float, declared: int) -> bytes | Refusal | None:
    """A request's whole body, within its time and its bound."""
    too_large = Refusal(413, f"More than {MAX_BODY_BYTES} bytes.")
    if declared > MAX_BODY_BYTES:  # not even the first part is read
        return too_large
    body = bytearray()
    try:
        async with asyncio.timeout(seconds):
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    return None
                body += message.get("body", b"")
                if len(body) > MAX_BODY_BYTES:
                    return too_large
                if not message.get("more_body", False):
                    return bytes(body)
    except TimeoutError:
        return Refusal(408, "The request took too long to arrive.")


def _replay(body: bytes, receive: Receive) -> Receive:
    """The body that was read, then whatever comes after it (the end of the connection)."""
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_message() -> Message:
        return pending.pop() if pending else await receive()

    return next_message


async def refuse(refusal: Refusal, send: Send) -> None:
    """Answer and end the connection: what follows a refused head is not read."""
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"cache-control", b"no-store"),
        (b"x-content-type-options", b"nosniff"),
        (b"connection", b"close"),
    ]
    if refusal.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": refusal.sentence.encode() + b"\n"})


class PromptProtocol(H11Protocol):
    """The library's, plus a deadline for the first head of a connection, which it lacks."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._head = self.loop.call_later(HEAD_SECONDS, self._look)

    def _look(self) -> None:
        if self.cycle is None and not self.transport.is_closing():
            self.transport.close()


class Server(uvicorn.Server):
    """The library's server, ended by our own signal handlers (its own would raise them again)."""

    def __init__(self, app: App) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                loop="asyncio",
                http=PromptProtocol,
                ws="none",
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                limit_concurrency=MAX_CONNECTIONS,
                h11_max_incomplete_event_size=MAX_HEAD_BYTES,
                timeout_graceful_shutdown=GRACE_SECONDS,
            )
        )

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def serve_until_told(self, listener: socket.socket, ready: Callable[[], None]) -> None:
        """Returns after an orderly end."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                loop.add_signal_handler(number, self._end)
        ready()
        await self.serve(sockets=[listener])

    def _end(self) -> None:
        self.should_exit = True
