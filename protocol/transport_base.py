"""ZeroMQ ground shared by `transport` (asyncio) and `transport_blocking` (the worker): sockets, checks, events.

Invariants: every socket is made here, with zero linger, both high-water marks, MAXMSGSIZE and a handshake limit;
routers are mandatory and never hand an identity over; a bound path lies in a private folder, was free before, and
its socket file is 0700; nobody's identity is taken from a frame, only from the kernel (`Peer-Address`).

What ZeroMQ cannot do, and who must (facts/ipc 1.4): delivery is at most once (`calls`); a high-water mark counts
messages (`credit`); an I/O thread answers heartbeats of a hung process (`liveness`); and a peer that sends
endless unfinished multipart frames grows the reader's memory in spite of MAXMSGSIZE and the marks, with nothing
delivered here. Hence only memory-capped, restartable processes read hostile peers, the supervisor watches their
memory, and `close` of a link frees what its peers have piled up (and `release_memory` returns it to the kernel).

Imports no asyncio (a worker saves 25 ms). Reads no frame content, knows no frame type, decides no policy:
faults are reported, and the owner ends the link and the process behind it.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
from dataclasses import dataclass
from enum import Enum
from typing import Final

import zmq

from .errors import FrameTooLarge, LocalMisuse, PeerUnreachable

MAX_PATH_BYTES: Final = 107  # sun_path of unix(7), its final zero excluded
DEFAULT_HIGH_WATER: Final = 64  # messages each way; the last resort behind the byte-counted credit
DEFAULT_HANDSHAKE_MS: Final = 2_000  # a peer that connects and says nothing is cut off after this
RECONNECT_MS: Final = 100  # first retry of a link that may reconnect
RECONNECT_MAX_MS: Final = 2_000  # retries slow down to this
NEVER_MS: Final = 2**30  # 12 days: the "no reconnect" that keeps last words (see `new_dealer`)
# A frame over the bound by up to this many bytes still arrives, so that its sender is known by pid and named
# OVERSIZE; beyond it libzmq drops the connection and only DISCONNECTED is seen.
OVERSIZE_SLACK: Final = 1024
# Monitor events under way. libzmq's I/O thread blocks, with a lock held, once a monitor is full; this many are
# reached only by thousands of connections while our loop stands still.
MONITOR_HIGH_WATER: Final = 65_536
_MAX_KNOWN_PEERS: Final = 256  # cached verdicts; a cache only, dropped as a whole when full

_MONITORED: Final = (
    zmq.EVENT_ACCEPTED
    | zmq.EVENT_ACCEPT_FAILED
    | zmq.EVENT_HANDSHAKE_SUCCEEDED
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
    | zmq.EVENT_DISCONNECTED
    | zmq.EVENT_CLOSED
)
_MONITOR_HEAD: Final = struct.Struct("=HI")  # zmq_socket_monitor(3): event, value


class LinkEventKind(Enum):
    """What a link reports beside messages; never with content."""

    ACCEPTED = "accepted"  # someone connected (server side); nothing is known of them yet
    READY = "ready"  # a ZeroMQ handshake was completed
    DISCONNECTED = "disconnected"  # a connection ended: death, close, or a frame far over the bound
    CONNECT_FAILED = "connect_failed"  # client side: nobody listens there
    HANDSHAKE_FAILED = "handshake_failed"  # not ZeroMQ, another version, or silent for too long
    ACCEPT_FAILED = "accept_failed"  # the kernel refused a connection, for want of descriptors for instance
    WRONG_PID = "wrong_pid"  # a message from another process than the expected one; dropped
    WRONG_UID = "wrong_uid"  # a message from another user than the expected one; dropped
    MULTIPART = "multipart"  # a message of more than one part; dropped
    OVERSIZE = "oversize"  # a message over the link's bound; dropped


FAULTS: Final = frozenset(
    {
        LinkEventKind.HANDSHAKE_FAILED,
        LinkEventKind.WRONG_PID,
        LinkEventKind.WRONG_UID,
        LinkEventKind.MULTIPART,
        LinkEventKind.OVERSIZE,
    }
)

_KINDS: Final = {
    int(zmq.EVENT_ACCEPTED): LinkEventKind.ACCEPTED,
    int(zmq.EVENT_ACCEPT_FAILED): LinkEventKind.ACCEPT_FAILED,
    int(zmq.EVENT_HANDSHAKE_SUCCEEDED): LinkEventKind.READY,
    int(zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL): LinkEventKind.HANDSHAKE_FAILED,
    int(zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL): LinkEventKind.HANDSHAKE_FAILED,
    int(zmq.EVENT_HANDSHAKE_FAILED_AUTH): LinkEventKind.HANDSHAKE_FAILED,
    int(zmq.EVENT_DISCONNECTED): LinkEventKind.DISCONNECTED,
}


@dataclass(frozen=True, slots=True)
class LinkEvent:
    """One event of a link. `pid` and `uid` as the kernel gave them, None where ZeroMQ does not tell whose it is."""

    kind: LinkEventKind
    pid: int | None = None
    uid: int | None = None

    @property
    def is_fault(self) -> bool:
        """Whether the peer broke the rules (design 2, rule 6: cut it off)."""
        return self.kind in FAULTS


@dataclass(frozen=True, slots=True)
class Peer:
    """Who sent a message. `routing_id` names the connection (a name, not a credential); pid, uid and gid are the
    kernel's, seen from our namespaces, of the process that connected (or, on a client, that listens)."""

    routing_id: bytes
    pid: int
    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class Expected:
    """Who may send; None: anyone."""

    pid: int | None = None
    uid: int | None = None


class PeerCheck:
    """Judges the peer of each message by its `Peer-Address`; remembers verdicts, not trust."""

    __slots__ = ("_expected", "_known")

    def __init__(self, expected: Expected) -> None:
        self._expected = expected
        self._known: dict[bytes, tuple[str, Peer | LinkEvent]] = {}

    def expect(self, expected: Expected) -> None:
        """Judge every later message by `expected`."""
        self._expected = expected
        self._known.clear()

    def judge(self, routing_id: bytes, frame: zmq.Frame) -> Peer | LinkEvent:
        """The peer that sent `frame`, or the fault to report. Costs a dictionary look-up for a known peer."""
        try:
            address = str(frame.get("Peer-Address"))
        except zmq.ZMQError:
            address = ""  # no credentials: not an ipc peer, so nobody we expect
        known = self._known.get(routing_id)
        if known is not None and known[0] == address:
            return known[1]
        verdict = self._verdict(routing_id, address)
        if len(self._known) >= _MAX_KNOWN_PEERS:
            self._known.clear()
        self._known[routing_id] = (address, verdict)
        return verdict

    def _verdict(self, routing_id: bytes, address: str) -> Peer | LinkEvent:
        try:
            uid, gid, pid = (int(part) for part in address.split(":")[1:])  # localhost:uid:gid:pid
        except ValueError:
            return LinkEvent(LinkEventKind.WRONG_UID)
        if self._expected.uid is not None and uid != self._expected.uid:
            return LinkEvent(LinkEventKind.WRONG_UID, pid, uid)
        if self._expected.pid is not None and pid != self._expected.pid:
            return LinkEvent(LinkEventKind.WRONG_PID, pid, uid)
        return Peer(routing_id, pid, uid, gid)


class Monitor:
    """The monitor of one socket, as LinkEvents. Non-blocking; close it before its socket."""

    __slots__ = ("_owner", "socket")

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], owner: zmq.Socket[bytes]) -> None:
        address = f"inproc://monitor-{os.urandom(8).hex()}"
        owner.monitor(address, _MONITORED)
        self._owner = owner
        self.socket = context.socket(zmq.PAIR)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.setsockopt(zmq.RCVHWM, MONITOR_HIGH_WATER)
        self.socket.connect(address)

    def take(self, *, client: bool) -> tuple[bool, LinkEvent | None]:
        """(whether there was an event, what to report). CLOSED means a failed connect, on a client only."""
        try:
            head = self.socket.recv(zmq.NOBLOCK)
        except zmq.Again:
            return False, None
        self.socket.recv(zmq.NOBLOCK)  # the endpoint, which the owner knows; parts arrive together
        number, _value = _MONITOR_HEAD.unpack(head)
        if number == int(zmq.EVENT_CLOSED):
            return True, LinkEvent(LinkEventKind.CONNECT_FAILED) if client else None
        kind = _KINDS.get(number)
        return True, None if kind is None else LinkEvent(kind)

    def close(self) -> None:
        """Stop monitoring. Drained first: the I/O thread must not be inside a blocking send when it is told."""
        while self.take(client=False)[0]:
            continue
        self._owner.disable_monitor()
        self.socket.close(0)


def release_memory() -> None:
    """Give freed memory back to the kernel. glibc keeps it otherwise (tried: all of a 32 MiB flood after the close
    of its link), and the memory cap counts it. Another C library may not know the call and need not."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def new_context(io_threads: int) -> zmq.Context[zmq.Socket[bytes]]:
    """A context of its own (never the global one): a child that forked before has no share in it."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context(io_threads)
    context.linger = 0  # an explicit term() with the default would wait for ever (facts/ipc 1.4)
    return context


def _bounded(sock: zmq.Socket[bytes], max_receive: int, high_water: int, handshake_ms: int) -> None:
    sock.setsockopt(zmq.LINGER, 0)
    sock.setsockopt(zmq.MAXMSGSIZE, max_receive + OVERSIZE_SLACK)
    sock.setsockopt(zmq.RCVHWM, high_water)
    sock.setsockopt(zmq.SNDHWM, high_water)
    sock.setsockopt(zmq.HANDSHAKE_IVL, handshake_ms)


def new_router(
    context: zmq.Context[zmq.Socket[bytes]], max_receive: int, high_water: int, handshake_ms: int
) -> zmq.Socket[bytes]:
    """A ROUTER that refuses to drop: mandatory, no handover, bounded. Not yet bound."""
    sock = context.socket(zmq.ROUTER)
    _bounded(sock, max_receive, high_water, handshake_ms)
    sock.setsockopt(zmq.ROUTER_MANDATORY, 1)
    sock.setsockopt(zmq.ROUTER_HANDOVER, 0)
    return sock


def new_dealer(
    context: zmq.Context[zmq.Socket[bytes]],
    max_receive: int,
    high_water: int,
    handshake_ms: int,
    *,
    reconnect: bool,
) -> zmq.Socket[bytes]:
    """A DEALER, not yet connected. Its owner sends nothing before READY and nothing after the end.

    With RECONNECT_IVL=-1, or with IMMEDIATE, libzmq drops what had arrived and was not yet read when the
    connection ends (tried: all of 20 messages). So a link with one connection keeps IMMEDIATE off and merely puts
    its reconnect off for ever. A link that does reconnect takes IMMEDIATE and its price: a frame queued for the
    old peer must not reach the new one.
    """
    sock = context.socket(zmq.DEALER)
    _bounded(sock, max_receive, high_water, handshake_ms)
    sock.setsockopt(zmq.IMMEDIATE, 1 if reconnect else 0)
    sock.setsockopt(zmq.RECONNECT_IVL, RECONNECT_MS if reconnect else NEVER_MS)
    sock.setsockopt(zmq.RECONNECT_IVL_MAX, RECONNECT_MAX_MS if reconnect else 0)
    return sock


def endpoint(path: str) -> str:
    """The ZeroMQ endpoint of a socket path; LocalMisuse if the path is relative, abstract or too long."""
    if not path.startswith("/"):
        raise LocalMisuse("a socket path is absolute")
    length = len(os.fsencode(path))
    if length > MAX_PATH_BYTES:
        raise LocalMisuse(
            f"the socket path has {length} bytes, the kernel allows {MAX_PATH_BYTES}",
            next_step="choose a shorter runtime folder",
        )
    return f"ipc://{path}"


def bind_private(sock: zmq.Socket[bytes], path: str, owner_uid: int | None) -> None:
    """Bind `sock` at `path` in an existing private folder and give the socket file to `owner_uid` if asked.

    The folder must be a real directory without any permission for group or others, owned by us or `owner_uid`
    (whose worker must be able to walk into it). Whatever exists at `path` is refused: a second bind on a live
    path would steal it silently. Raises LocalMisuse with the reason; nothing is left bound then.

    Not thread-safe: umask belongs to the process, files that other threads make meanwhile are private too.
    """
    address = endpoint(path)
    folder = os.path.dirname(path)
    owners = {os.geteuid(), os.geteuid() if owner_uid is None else owner_uid}
    try:
        status = os.lstat(folder)
    except OSError as error:
        raise LocalMisuse(f"the socket folder can't be used ({os.strerror(error.errno or 0)})") from None
    if not stat.S_ISDIR(status.st_mode):
        raise LocalMisuse("the socket folder is not a directory")
    if status.st_uid not in owners:
        raise LocalMisuse("the socket folder belongs to another user")
    if status.st_mode & 0o077:
        raise LocalMisuse("the socket folder is open to other users", next_step="make its mode 0700")
    if os.path.lexists(path):
        raise LocalMisuse("the socket path is taken")
    previous = os.umask(0o077)
    try:
        sock.bind(address)
    except zmq.ZMQError as error:
        raise LocalMisuse(f"binding the socket failed ({os.strerror(error.errno or 0)})") from None
    finally:
        os.umask(previous)
    if owner_uid is None or owner_uid == os.geteuid():
        return
    try:
        _give(path, owner_uid)
    except OSError as error:
        sock.unbind(address)
        raise LocalMisuse(f"the socket can't be given away ({os.strerror(error.errno or 0)})") from None


def _give(path: str, uid: int) -> None:
    """chown what we just bound, and nothing that the folder's owner may have put in its place meanwhile."""
    fd = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        status = os.fstat(fd)
        if not stat.S_ISSOCK(status.st_mode) or status.st_uid != os.geteuid() or status.st_nlink != 1:
            raise PermissionError(1, "replaced")
        os.chown(f"/proc/self/fd/{fd}", uid, -1)
    finally:
        os.close(fd)


def check_sendable(data: bytes, max_send: int) -> None:
    """FrameTooLarge if `data` is over this direction's bound; LocalMisuse if it is empty."""
    if not data:
        raise LocalMisuse("an empty frame says nothing")
    if len(data) > max_send:
        raise FrameTooLarge(f"a frame of {len(data)} bytes is over the link's bound of {max_send}")


def closed_error() -> PeerUnreachable:
    """The error of using a link after its close."""
    return PeerUnreachable("the link is closed")
