"""The extension's handshake as a machine, and the transcript that both proofs are made over (design 9).

    extension                              bridge
    ExtHello{version, nonce, pairing} ---->            AWAIT_HELLO
                <---- ExtChallenge{nonce, connection, mac}
    (checks mac: the bridge has the token)
    ExtProof{mac} ------------------------>            AWAIT_PROOF
                <---- ExtReady                         DONE

The bridge proves itself first, so an extension never gives a proof to a stranger on the port. The transcript binds
role, version, extension id, pairing, connection, address, port and both nonces: a proof is worth nothing in the
other direction, on another connection, at another port or for another pairing.

Invariants: the table is total (`len(TABLE) == len(State) * len(Event)`); ENDED and DONE are left never; a token is
compared in constant time and is in no effect, no error and no repr.

Pure: nonce and connection id come in from the shell, which draws both anew for every connection.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final

from ...protocol.frames import ExtChallenge, ExtHello, ExtProof, ExtRefusal
from ...protocol.limits import EXTENSION_PROTOCOL

_LABEL: Final = "browsercell-handshake-1"


class Role(Enum):
    """Whose proof a mac is."""

    BRIDGE = "bridge"
    EXTENSION = "extension"


@dataclass(frozen=True, slots=True)
class Transcript:
    """What both sides must agree on. Nonces and connection: 64 lower-case hexadecimal digits."""

    extension_id: str
    pairing: str
    connection: str
    address: str  # the host as the listener was configured with it
    port: int
    extension_nonce: str
    bridge_nonce: str

    def mac(self, token: str, role: Role) -> str:
        """HMAC-SHA-256 with `token` over the transcript's lines, in lower-case hexadecimal."""
        lines = (
            _LABEL,
            role.value,
            str(EXTENSION_PROTOCOL),
            self.extension_id,
            self.pairing,
            self.connection,
            self.address,
            str(self.port),
            self.extension_nonce,
            self.bridge_nonce,
        )
        return hmac.new(token.encode(), "\n".join(lines).encode(), hashlib.sha256).hexdigest()


class State(Enum):
    """DONE: authenticated. ENDED: refused or gone; nothing is answered any more."""

    AWAIT_HELLO = "await-hello"
    AWAIT_PROOF = "await-proof"
    DONE = "done"
    ENDED = "ended"


class Event(Enum):
    """HELLO and PROOF: the frame. OTHER_VERSION: a hello of another protocol version. VIOLATION: anything else.
    TIMEOUT: the handshake's time is over. CLOSED: the peer has gone."""

    HELLO = "hello"
    PROOF = "proof"
    OTHER_VERSION = "other-version"
    VIOLATION = "violation"
    TIMEOUT = "timeout"
    CLOSED = "closed"


class Reason(Enum):
    """Why a handshake ended, for logs and counters; never content."""

    OLD_EXTENSION = "old-extension"
    OLD_BRIDGE = "old-bridge"
    THROTTLED = "throttled"
    NOT_PAIRED = "not-paired"  # no such pairing, or not for this extension or user
    WRONG_PROOF = "wrong-proof"
    BROKEN_PROTOCOL = "broken-protocol"
    TIMEOUT = "timeout"
    GAVE_UP = "gave-up"  # closed by the extension: mostly one that has another token than we


@dataclass(frozen=True, slots=True)
class Challenge:
    """Send this."""

    frame: ExtChallenge


@dataclass(frozen=True, slots=True)
class Authenticated:
    """The extension has proved that it has the token."""

    hello: ExtHello


@dataclass(frozen=True, slots=True)
class Refuse:
    """Send `code` if there is one, then close. `guess`: it counts as a failed attempt (throttle)."""

    reason: Reason
    code: ExtRefusal | None
    guess: bool


Effect = Challenge | Authenticated | Refuse


class Handshake:
    """One connection's machine.

    `extension_id`: from the Origin header, which the browser sets. `nonce`, `connection`: fresh random hex digits.
    """

    __slots__ = ("_address", "_connection", "_extension_id", "_hello", "_nonce", "_port", "_token", "state")

    def __init__(self, extension_id: str, address: str, port: int, nonce: str, connection: str) -> None:
        self._extension_id = extension_id
        self._address = address
        self._port = port
        self._nonce = nonce
        self._connection = connection
        self._hello: ExtHello | None = None
        self._token: str | None = None
        self.state = State.AWAIT_HELLO

    def hello(self, frame: ExtHello, token: str | None, *, throttled: bool = False) -> list[Effect]:
        """The extension introduced itself; `token` is its pairing's, None if it has none. `throttled`: too many
        failures lately, it is not even challenged."""
        return self._handle(Event.HELLO, _Input(hello=frame, token=token, throttled=throttled))

    def proof(self, frame: ExtProof) -> list[Effect]:
        """The extension's proof."""
        return self._handle(Event.PROOF, _Input(proof=frame))

    def other_version(self, version: int) -> list[Effect]:
        """A hello of protocol version `version`, which is not ours; its other fields are not looked at."""
        return self._handle(Event.OTHER_VERSION, _Input(version=version))

    def violation(self) -> list[Effect]:
        """Something that has no place here: another frame, no frame at all, too many bytes."""
        return self._handle(Event.VIOLATION, _Input())

    def timeout(self) -> list[Effect]:
        """The time for the handshake is over."""
        return self._handle(Event.TIMEOUT, _Input())

    def closed(self) -> list[Effect]:
        """The peer closed the connection."""
        return self._handle(Event.CLOSED, _Input())

    def _handle(self, event: Event, given: _Input) -> list[Effect]:
        return TABLE[(self.state, event)](self, given)

    def _greet(self, given: _Input) -> list[Effect]:
        assert given.hello is not None
        if given.throttled:
            return self._refuse(Reason.THROTTLED, ExtRefusal.THROTTLED)
        if given.token is None:
            return self._refuse(Reason.NOT_PAIRED, ExtRefusal.NOT_PAIRED, guess=True)
        self._hello, self._token = given.hello, given.token
        self.state = State.AWAIT_PROOF
        mac = self._transcript(given.hello).mac(given.token, Role.BRIDGE)
        return [Challenge(ExtChallenge(nonce=self._nonce, connection=self._connection, mac=mac))]

    def _check(self, given: _Input) -> list[Effect]:
        assert given.proof is not None
        assert self._hello is not None
        assert self._token is not None
        expected = self._transcript(self._hello).mac(self._token, Role.EXTENSION)
        self._token = None  # needed no more
        if not hmac.compare_digest(expected, given.proof.mac):
            return self._refuse(Reason.WRONG_PROOF, ExtRefusal.NOT_PAIRED, guess=True)
        self.state = State.DONE
        return [Authenticated(self._hello)]

    def _other_version(self, given: _Input) -> list[Effect]:
        if given.version < EXTENSION_PROTOCOL:
            return self._refuse(Reason.OLD_EXTENSION, ExtRefusal.OLD_EXTENSION)
        return self._refuse(Reason.OLD_BRIDGE, ExtRefusal.OLD_BRIDGE)

    def _break(self, _given: _Input) -> list[Effect]:
        return self._refuse(Reason.BROKEN_PROTOCOL, None, guess=True)

    def _expire(self, _given: _Input) -> list[Effect]:
        return self._refuse(Reason.TIMEOUT, None)

    def _leave(self, _given: _Input) -> list[Effect]:
        return self._refuse(Reason.GAVE_UP, None)

    def _nothing(self, _given: _Input) -> list[Effect]:
        return []

    def _refuse(self, reason: Reason, code: ExtRefusal | None, *, guess: bool = False) -> list[Effect]:
        self.state = State.ENDED
        self._token = None
        return [Refuse(reason, code, guess)]

    def _transcript(self, hello: ExtHello) -> Transcript:
        return Transcript(
            self._extension_id,
            hello.pairing,
            self._connection,
            self._address,
            self._port,
            hello.nonce,
            self._nonce,
        )


@dataclass(frozen=True, slots=True)
class _Input:
    """What an event carries; `repr` would show a token, so there is none."""

    hello: ExtHello | None = None
    proof: ExtProof | None = None
    token: str | None = None
    throttled: bool = False
    version: int = 0

    def __repr__(self) -> str:
        return "_Input(...)"


TABLE: Final[Mapping[tuple[State, Event], Callable[[Handshake, _Input], list[Effect]]]] = MappingProxyType(
    {
        (State.AWAIT_HELLO, Event.HELLO): Handshake._greet,
        (State.AWAIT_HELLO, Event.PROOF): Handshake._break,
        (State.AWAIT_HELLO, Event.OTHER_VERSION): Handshake._other_version,
        (State.AWAIT_HELLO, Event.VIOLATION): Handshake._break,
        (State.AWAIT_HELLO, Event.TIMEOUT): Handshake._expire,
        (State.AWAIT_HELLO, Event.CLOSED): Handshake._leave,
        (State.AWAIT_PROOF, Event.HELLO): Handshake._break,
        (State.AWAIT_PROOF, Event.PROOF): Handshake._check,
        (State.AWAIT_PROOF, Event.OTHER_VERSION): Handshake._break,
        (State.AWAIT_PROOF, Event.VIOLATION): Handshake._break,
        (State.AWAIT_PROOF, Event.TIMEOUT): Handshake._expire,
        (State.AWAIT_PROOF, Event.CLOSED): Handshake._leave,
        (State.DONE, Event.HELLO): Handshake._nothing,  # from here on the link's own table judges frames
        (State.DONE, Event.PROOF): Handshake._nothing,
        (State.DONE, Event.OTHER_VERSION): Handshake._nothing,
        (State.DONE, Event.VIOLATION): Handshake._nothing,
        (State.DONE, Event.TIMEOUT): Handshake._nothing,  # the timer that crossed the proof
        (State.DONE, Event.CLOSED): Handshake._nothing,
        (State.ENDED, Event.HELLO): Handshake._nothing,
        (State.ENDED, Event.PROOF): Handshake._nothing,
        (State.ENDED, Event.OTHER_VERSION): Handshake._nothing,
        (State.ENDED, Event.VIOLATION): Handshake._nothing,
        (State.ENDED, Event.TIMEOUT): Handshake._nothing,
        (State.ENDED, Event.CLOSED): Handshake._nothing,
    }
)
