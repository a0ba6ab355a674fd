"""The loopback listener of the extension: sockets, HTTP checks, handshakes and frames (design 9).

Shell around `handshake` and `connections`: it accepts, reads, times and closes; they decide. What a connection has to
pass, in order: a socket of an allowed uid (the kernel's table tells), the path, one exact Host, one Origin of an
extension, the handshake within EXTENSION_HANDSHAKE_MS of being accepted and within MAX_BEFORE_PROOF bytes. Then
every message is a frame of the link's table or the connection ends.

Invariants: it listens on loopback only and never takes a port over; the log has the reason of a refusal and nothing the
peer sent; a peer that breaks the protocol is cut off and told nothing; nothing here is held for a connection that has
ended.
"""

from __future__ import annotations

import asyncio
import errno
import http
import logging
import secrets
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol, cast

import msgspec
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from ...protocol import limits as L
from ...protocol.codec import JsonDecoder
from ...protocol.errors import PeerViolation
from ...protocol.frames import (
    ExtEvent,
    ExtFrame,
    ExtHello,
    ExtPing,
    ExtPong,
    ExtProof,
    ExtReady,
    ExtRefusal,
    ExtRefused,
    ExtReply,
    PortProblem,
)
from ...protocol.links import Gate, Link, Phase, frame_types
from ...protocol.liveness import PeerSilent, SendPing, UnexpectedPong
from ...protocol.settings import InputMode
from .. import peers
from ..journal import note
from ..ports import ListenerState
from .connections import USER, Close, Effect, Identity, Registry, Seated, SeatLost
from .handshake import Authenticated, Challenge, Handshake, Reason, Refuse
from .sockets import SILENT, Connection, Socket, bind, receive, without_detail

PATH: Final = "/extension"
HOSTS: Final = {"127.0.0.1": ("127.0.0.1",), "::1": ("::1",), "localhost": ("127.0.0.1", "::1")}
CLOSE_SECONDS: Final = 2.0  # for the closing handshake, then the socket is cut
MAX_QUEUED: Final = 2  # frames of one peer read ahead of us: each may be as large as a screenshot
# Whoever knocks ten thousand times must not fill the disk with our own log.
LOGGED_REFUSALS: Final = 100
LOG_WINDOW_SECONDS: Final = 60.0
_ORIGIN_SCHEME: Final = "chrome-extension://"

_LOG = logging.getLogger(__name__)


class _Version(msgspec.Struct, tag_field="t", tag="hello"):
    """Only what tells the version: other versions may have other fields."""

    version: int


class Desk(Protocol):
    """What the listener asks of and tells to the hub."""

    registry: Registry

    def uid_allowed(self, uid: int | None, pairing: str | None) -> bool:
        """Whether a process of `uid` may connect at all (`pairing` None), or as `pairing`."""
        ...

    def seated(self, connection: Connection, effect: Seated) -> None:
        """`connection` is an authenticated browser's now."""
        ...

    def unseated(self, connection: Connection, seat: int) -> None:
        """The connection of `seat` has ended."""
        ...

    def seat_lost(self, effect: SeatLost) -> None:
        """A browser is gone for good."""
        ...

    def reply(self, connection: Connection, frame: ExtReply) -> bool:
        """An answer; False: it breaks the protocol."""
        ...

    def event(self, connection: Connection, frame: ExtEvent) -> None:
        """Something happened to a tab."""
        ...

    def changed(self) -> None:
        """Who is connected, or how many were refused, has changed."""
        ...


@dataclass(frozen=True, slots=True)
class ListenerSettings:
    """`host`: a key of HOSTS; `port` 0: any free one."""

    host: str
    port: int
    input: InputMode


class Listener:
    """The listener of one hub, in one event loop."""

    def __init__(
        self, settings: ListenerSettings, desk: Desk, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._settings = settings
        self._desk = desk
        self._clock = clock
        self._servers: list[Server] = []
        self._connections: dict[int, Connection] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._numbers = 0
        self._window = clock()  # refusals logged, and not logged, since then
        self._logged = self._unlogged = 0
        self._decoder: JsonDecoder[Any] = JsonDecoder(
            frame_types(Link.EXTENSION_TO_BRIDGE), L.MAX_EXTENSION_FRAME
        )
        self.port = 0

    # ------------------------------------------------------------------ start and stop

    async def start(self) -> ListenerState:
        """Bind and listen. A port that is taken or forbidden is a state, not an error."""
        port = self._settings.port
        sockets: list[socket.socket] = []
        for host in HOSTS[self._settings.host]:
            try:
                sockets.append(bind(host, port))
            except OSError as error:
                if sockets and error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                    continue  # "localhost" on a machine without IPv6: the IPv4 one is all there is
                for bound in sockets:
                    bound.close()
                if error.errno == errno.EADDRINUSE:
                    owner = await asyncio.to_thread(peers.port_owner, host, port)
                    return ListenerState(port, PortProblem.TAKEN, owner)
                return ListenerState(port, PortProblem.FORBIDDEN)
            port = int(sockets[0].getsockname()[1])
        self.port = port
        kind = cast("type[Socket]", type("BoundSocket", (Socket,), {"watcher": self}))
        for bound in sockets:
            self._servers.append(
                await serve(
                    self._serve,
                    sock=bound,
                    create_connection=kind,
                    process_request=self._check_request,
                    process_response=without_detail,
                    compression=None,
                    server_header=None,
                    open_timeout=L.EXTENSION_HANDSHAKE_MS / 1000,
                    close_timeout=CLOSE_SECONDS,
                    ping_interval=None,
                    max_size=L.MAX_HANDSHAKE_FRAME,
                    max_queue=MAX_QUEUED,
                    logger=SILENT,
                )
            )
        note(_LOG, "listening", port=port)
        return ListenerState(port)

    async def stop(self) -> None:
        """Close the listening sockets and every connection, within CLOSE_SECONDS and a little."""
        for server in self._servers:
            server.close()
        try:
            async with asyncio.timeout(2 * CLOSE_SECONDS):
                for server in self._servers:
                    await server.wait_closed()
        except TimeoutError:
            for connection in list(self._connections.values()):
                connection.cut()
        self._servers.clear()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # ------------------------------------------------------------------ before the handshake

    def accept(self, ws: Socket) -> Connection:
        """A TCP connection was made: find out whose it is and count it."""
        self._numbers += 1
        own, peer = ws.transport.get_extra_info("sockname"), ws.transport.get_extra_info("peername")
        uid = peers.peer_uid((own[0], own[1]), (peer[0], peer[1])) if own and peer else None
        connection = Connection(self._numbers, ws, uid, self._clock())
        if not self._desk.uid_allowed(uid, None):
            connection.dismissed = True
            self._refused("foreign-uid")
            connection.cut()
            return connection
        self._connections[connection.number] = connection
        self.apply(self._desk.registry.opened(connection.number))
        return connection

    def oversize(self, connection: Connection) -> None:
        """A stranger sent more than MAX_BEFORE_PROOF bytes: cut off."""
        if not connection.dismissed:
            connection.dismissed = True
            self._refused("oversize")
            if connection.extension_id:
                self._desk.registry.failed(connection.extension_id, "", self._clock())
        connection.cut()

    def lost(self, connection: Connection) -> None:
        """The socket is closed."""
        if not connection.judged and not connection.dismissed:
            self._refused("no-request")
        self._forget(connection)

    def _check_request(self, ws: ServerConnection, request: Request) -> Response | None:
        assert isinstance(ws, Socket)
        status = self._judge_request(ws.connection, request)
        return None if status is None else ws.respond(status, "")

    def _judge_request(self, connection: Connection, request: Request) -> http.HTTPStatus | None:
        connection.judged = True
        if request.headers.get_all("Host") != [self._host_header()]:
            self._refused("host")
            return http.HTTPStatus.BAD_REQUEST
        if request.path != PATH:
            self._refused("path")
            return http.HTTPStatus.NOT_FOUND
        origins = request.headers.get_all("Origin")
        origin = origins[0] if len(origins) == 1 else ""
        extension_id = origin.removeprefix(_ORIGIN_SCHEME)
        if not origin.startswith(_ORIGIN_SCHEME) or not self._desk.registry.allows(extension_id):
            self._refused("origin")
            return http.HTTPStatus.FORBIDDEN
        connection.extension_id = extension_id
        return None

    def _host_header(self) -> str:
        host = self._settings.host
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"

    # ------------------------------------------------------------------ handshake

    async def _serve(self, ws: ServerConnection) -> None:
        assert isinstance(ws, Socket)
        connection = ws.connection
        try:
            if await self._shake_hands(connection):
                await self._serve_authenticated(connection)
        except ConnectionError:
            return  # the peer has gone while we were answering; `finally` does what there is to do
        finally:
            self._forget(connection)

    async def _shake_hands(self, connection: Connection) -> bool:
        machine = Handshake(
            connection.extension_id,
            self._settings.host,
            self.port,
            nonce=secrets.token_hex(32),
            connection=secrets.token_hex(32),
        )
        gate = Gate(Link.EXTENSION_TO_BRIDGE, Phase.GREETING)
        pairing = ""
        left = connection.born + L.EXTENSION_HANDSHAKE_MS / 1000 - self._clock()
        try:
            async with asyncio.timeout(max(0.0, left)) as clock:
                while True:
                    try:
                        frame = self._decode_stranger(await receive(connection.socket, L.MAX_HANDSHAKE_FRAME))
                        if isinstance(frame, int):
                            effects = machine.other_version(frame)
                        else:
                            gate.admit(frame)
                            if isinstance(frame, ExtHello):
                                pairing = frame.pairing
                            effects = self._advance(machine, connection, frame)
                            gate.enter(Phase.PROOF)
                    except PeerViolation:
                        effects = machine.violation()
                    for effect in effects:
                        if isinstance(effect, Challenge):
                            await connection.send(effect.frame)
                        elif isinstance(effect, Authenticated):
                            clock.reschedule(None)
                            return await self._admit(connection, effect.hello)
                        else:
                            clock.reschedule(asyncio.get_running_loop().time() + CLOSE_SECONDS)
                            return await self._refuse(connection, effect, pairing)
        except TimeoutError:
            effects = machine.timeout()
        except ConnectionClosed:
            effects = machine.closed()
        for effect in effects:
            if isinstance(effect, Refuse):
                return await self._refuse(connection, effect, pairing)
        return False

    def _decode_stranger(self, data: bytes) -> ExtFrame | int:
        """The frame, or the version of a hello that is not of ours."""
        try:
            version = msgspec.json.decode(data, type=_Version).version
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            version = L.EXTENSION_PROTOCOL  # no hello at all: the link's decoder says what it is
        if version != L.EXTENSION_PROTOCOL:
            return version
        frame: ExtFrame = self._decoder.decode(data)
        return frame

    def _advance(self, machine: Handshake, connection: Connection, frame: ExtFrame) -> list[Any]:
        if isinstance(frame, ExtHello):
            registry, extension_id = self._desk.registry, connection.extension_id
            token = registry.token_for(frame.pairing, extension_id)
            if not self._desk.uid_allowed(connection.uid, frame.pairing):
                token = None
            throttled = registry.throttled(extension_id, frame.pairing, self._clock())
            return list(machine.hello(frame, token, throttled=throttled))
        assert isinstance(frame, ExtProof)  # the gate lets nothing else through
        return list(machine.proof(frame))

    async def _refuse(self, connection: Connection, effect: Refuse, pairing: str) -> bool:
        if connection.dismissed:
            return False  # it had to give way, and was counted then
        self._refused(effect.reason.value)
        if effect.guess:
            self._desk.registry.failed(connection.extension_id, pairing, self._clock())
        if effect.code is None and effect.reason is not Reason.GAVE_UP:
            connection.cut()
        elif effect.code is not None:
            await self._say_goodbye(connection, effect.code)
        return False

    async def _admit(self, connection: Connection, hello: ExtHello) -> bool:
        # Ready goes out before the seat is taken: whoever is told of the seat may send a command at once.
        await connection.send(ExtReady(heartbeat_ms=L.EXTENSION_HEARTBEAT_MS, input=self._settings.input))
        connection.trust()
        identity = Identity(connection.extension_id, hello.extension_version, hello.pairing, hello.profile)
        effects = self._desk.registry.authenticated(connection.number, identity, self._clock())
        seated = any(isinstance(effect, Seated) for effect in effects)
        if seated:
            note(_LOG, "connected", connection=connection.number, private=hello.pairing != USER)
        elif not connection.dismissed:
            self._refused("no-seat")
        self.apply(effects)
        if seated:
            self._desk.changed()
        return seated

    # ------------------------------------------------------------------ authenticated

    async def _serve_authenticated(self, connection: Connection) -> None:
        gate = Gate(Link.EXTENSION_TO_BRIDGE, Phase.OPEN)
        heart = self._spawn(self._beat(connection))
        connection.deliver = partial(self._deliver, connection, gate)
        try:
            while True:
                self._deliver(connection, gate, await receive(connection.socket, L.MAX_EXTENSION_FRAME))
        except ConnectionClosed as closed:
            code = closed.rcvd.code if closed.rcvd is not None else 1006  # RFC 6455: no close frame came
            note(_LOG, "disconnected", connection=connection.number, code=code)
        except PeerViolation:
            self._broke(connection)
        finally:
            connection.deliver = None
            heart.cancel()

    def _deliver(self, connection: Connection, gate: Gate, data: bytes) -> None:
        """One message, from the socket's callback or from the queue: no error may leave through the library."""
        try:
            frame: ExtFrame = self._decoder.decode(data)
            gate.admit(frame)
            self._receive_frame(connection, frame)
        except PeerViolation:
            self._broke(connection)

    def _broke(self, connection: Connection) -> None:
        note(_LOG, "broke-protocol", logging.WARNING, connection=connection.number)
        connection.cut()

    def _receive_frame(self, connection: Connection, frame: ExtFrame) -> None:
        if isinstance(frame, ExtReply):
            if not self._desk.reply(connection, frame):
                raise PeerViolation("an answer to nothing")
        elif isinstance(frame, ExtPong):
            if any(
                isinstance(effect, UnexpectedPong)
                for effect in connection.liveness.pong(frame.nonce, self._clock())
            ):
                raise PeerViolation("a pong to nothing")
        elif isinstance(frame, ExtEvent):
            self._desk.event(connection, frame)

    async def _beat(self, connection: Connection) -> None:
        effects = connection.liveness.start(self._clock())
        while True:
            for effect in effects:
                if isinstance(effect, SendPing):
                    # A peer that reads nothing fills the socket; then the next beats go unanswered, which is enough.
                    self._spawn(_ignore_loss(connection.send(ExtPing(nonce=effect.sequence))))
                elif isinstance(effect, PeerSilent):
                    note(_LOG, "silent", logging.WARNING, connection=connection.number)
                    connection.cut()
                    return
            due = connection.liveness.next_due()
            await asyncio.sleep(max(0.0, (due or 0.0) - self._clock()))
            effects = connection.liveness.tick(self._clock())

    # ------------------------------------------------------------------ effects and ends

    def apply(self, effects: list[Effect]) -> None:
        """Do what the registry decided."""
        for effect in effects:
            if isinstance(effect, Close):
                connection = self._connections.get(effect.connection)
                if connection is not None:
                    self._close(connection, effect.code)
            elif isinstance(effect, Seated):
                self._desk.seated(self._connections[effect.connection], effect)
            else:
                self._desk.seat_lost(effect)

    def _close(self, connection: Connection, code: ExtRefusal | None) -> None:
        # Not ours any more from this moment: what it still sends belongs to nobody.
        connection.dismissed = True
        self._forget(connection)
        if code is None:
            if not connection.trusted:
                self._note_refusal("gave-way")
                self._desk.changed()
            connection.cut()
        else:
            self._spawn(self._say_goodbye(connection, code))

    async def _say_goodbye(self, connection: Connection, code: ExtRefusal) -> None:
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await connection.send(ExtRefused(code=code))
                await connection.socket.close(1008)
        except (ConnectionError, TimeoutError):
            connection.cut()

    def _forget(self, connection: Connection) -> None:
        if self._connections.pop(connection.number, None) is None:
            return
        seat = self._desk.registry.closed(connection.number, self._clock())
        if seat is not None:
            self._desk.unseated(connection, seat)
            self._desk.changed()

    def _refused(self, reason: str) -> None:
        self._desk.registry.refused += 1
        self._note_refusal(reason)
        self._desk.changed()

    def _note_refusal(self, reason: str) -> None:
        now = self._clock()
        if now - self._window >= LOG_WINDOW_SECONDS:
            if self._unlogged:
                note(_LOG, "refused-unlogged", count=self._unlogged)
            self._window, self._logged, self._unlogged = now, 0, 0
        if self._logged < LOGGED_REFUSALS:
            self._logged += 1
            note(_LOG, "refused", reason=reason)
        else:
            self._unlogged += 1

    def _spawn(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


async def _ignore_loss(sending: Any) -> None:
    try:
        await sending
    except ConnectionError:
        return  # the reader of that connection sees the same end and handles it
