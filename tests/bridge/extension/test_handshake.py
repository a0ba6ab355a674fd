"""`handshake`: a total table, the transcript pinned by bytes, and every part of it bound into the proof (design 9)."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import replace

import pytest
from browsercell.bridge.extension import handshake
from browsercell.bridge.extension.handshake import (
    TABLE,
    Authenticated,
    Challenge,
    Effect,
    Event,
    Handshake,
    Reason,
    Refuse,
    Role,
    State,
    Transcript,
)
from browsercell.protocol.frames import ExtHello, ExtProof, ExtRefusal

TOKEN = "correct horse battery"
EXTENSION = "abcdefghijklmnopabcdefghijklmnop"
TRANSCRIPT = Transcript(EXTENSION, "user", "c" * 64, "127.0.0.1", 17_321, "a" * 64, "b" * 64)
HELLO = ExtHello(version=1, extension_version="0.1.0", nonce="a" * 64, pairing="user", profile="profile-1")


def machine(state: State = State.AWAIT_HELLO) -> Handshake:
    made = Handshake(EXTENSION, "127.0.0.1", 17_321, nonce="b" * 64, connection="c" * 64)
    if state is not State.AWAIT_HELLO:
        made.hello(HELLO, TOKEN)
    if state is State.DONE:
        made.proof(good_proof())
    elif state is State.ENDED:
        made.closed()
    assert made.state is state
    return made


def good_proof(
    token: str = TOKEN, transcript: Transcript = TRANSCRIPT, role: Role = Role.EXTENSION
) -> ExtProof:
    return ExtProof(mac=transcript.mac(token, role))


def feed(made: Handshake, event: Event) -> list[Effect]:
    return {
        Event.HELLO: lambda: made.hello(HELLO, TOKEN),
        Event.PROOF: lambda: made.proof(good_proof()),
        Event.OTHER_VERSION: lambda: made.other_version(2),
        Event.VIOLATION: made.violation,
        Event.TIMEOUT: made.timeout,
        Event.CLOSED: made.closed,
    }[event]()


def test_the_table_is_total() -> None:
    assert len(TABLE) == len(State) * len(Event)


def test_the_transcript_is_pinned() -> None:
    lines = [
        "browsercell-handshake-1",
        "bridge",
        "1",
        EXTENSION,
        "user",
        "c" * 64,
        "127.0.0.1",
        "17321",
        "a" * 64,
        "b" * 64,
    ]
    expected = hmac.new(TOKEN.encode(), "\n".join(lines).encode(), hashlib.sha256).hexdigest()
    assert TRANSCRIPT.mac(TOKEN, Role.BRIDGE) == expected
    assert (
        TRANSCRIPT.mac("k\u00fche und katzen", Role.EXTENSION)
        == hmac.new(
            "k\u00fche und katzen".encode(),
            "\n".join([lines[0], "extension", *lines[2:]]).encode(),
            hashlib.sha256,
        ).hexdigest()
    )


def test_a_good_handshake() -> None:
    made = machine()
    [challenge] = made.hello(HELLO, TOKEN)
    assert isinstance(challenge, Challenge)
    assert (challenge.frame.nonce, challenge.frame.connection) == ("b" * 64, "c" * 64)
    assert challenge.frame.mac == TRANSCRIPT.mac(TOKEN, Role.BRIDGE)
    assert made.proof(good_proof()) == [Authenticated(HELLO)]
    assert made.state is State.DONE


@pytest.mark.parametrize(
    "transcript",
    [
        replace(TRANSCRIPT, extension_id="p" * 32),
        replace(TRANSCRIPT, pairing="private-1"),
        replace(TRANSCRIPT, connection="d" * 64),
        replace(TRANSCRIPT, address="localhost"),
        replace(TRANSCRIPT, port=17_322),
        replace(TRANSCRIPT, extension_nonce="e" * 64),
        replace(TRANSCRIPT, bridge_nonce="f" * 64),
    ],
)
def test_a_proof_of_anything_else_is_wrong(transcript: Transcript) -> None:
    made = machine(State.AWAIT_PROOF)
    refused = Refuse(Reason.WRONG_PROOF, ExtRefusal.NOT_PAIRED, guess=True)
    assert made.proof(good_proof(transcript=transcript)) == [refused]
    assert made.state is State.ENDED
    assert made.proof(good_proof()) == []  # one attempt a connection


def test_the_bridges_own_proof_can_not_be_sent_back() -> None:
    assert machine(State.AWAIT_PROOF).proof(good_proof(role=Role.BRIDGE)) == [
        Refuse(Reason.WRONG_PROOF, ExtRefusal.NOT_PAIRED, guess=True)
    ]


def test_a_proof_with_another_token_is_wrong() -> None:
    assert machine(State.AWAIT_PROOF).proof(good_proof("another token, long")) == [
        Refuse(Reason.WRONG_PROOF, ExtRefusal.NOT_PAIRED, guess=True)
    ]


def test_without_a_token_there_is_no_challenge() -> None:
    made = machine()
    assert made.hello(HELLO, None) == [Refuse(Reason.NOT_PAIRED, ExtRefusal.NOT_PAIRED, guess=True)]
    assert made.state is State.ENDED


def test_throttled_before_anything_else() -> None:
    made = machine()
    assert made.hello(HELLO, TOKEN, throttled=True) == [
        Refuse(Reason.THROTTLED, ExtRefusal.THROTTLED, guess=False)
    ]


@pytest.mark.parametrize(
    ("version", "reason", "code"),
    [
        (0, Reason.OLD_EXTENSION, ExtRefusal.OLD_EXTENSION),
        (-5, Reason.OLD_EXTENSION, ExtRefusal.OLD_EXTENSION),
        (2, Reason.OLD_BRIDGE, ExtRefusal.OLD_BRIDGE),
    ],
)
def test_other_versions_are_told_which_side_is_old(version: int, reason: Reason, code: ExtRefusal) -> None:
    assert machine().other_version(version) == [Refuse(reason, code, guess=False)]


@pytest.mark.parametrize(
    ("state", "event", "reason", "guess"),
    [
        (State.AWAIT_HELLO, Event.PROOF, Reason.BROKEN_PROTOCOL, True),
        (State.AWAIT_HELLO, Event.VIOLATION, Reason.BROKEN_PROTOCOL, True),
        (State.AWAIT_HELLO, Event.TIMEOUT, Reason.TIMEOUT, False),
        (State.AWAIT_HELLO, Event.CLOSED, Reason.GAVE_UP, False),
        (State.AWAIT_PROOF, Event.HELLO, Reason.BROKEN_PROTOCOL, True),
        (State.AWAIT_PROOF, Event.OTHER_VERSION, Reason.BROKEN_PROTOCOL, True),
        (State.AWAIT_PROOF, Event.VIOLATION, Reason.BROKEN_PROTOCOL, True),
        (State.AWAIT_PROOF, Event.TIMEOUT, Reason.TIMEOUT, False),
        (State.AWAIT_PROOF, Event.CLOSED, Reason.GAVE_UP, False),
    ],
)
def test_every_other_way_to_end(state: State, event: Event, reason: Reason, guess: bool) -> None:
    made = machine(state)
    assert feed(made, event) == [Refuse(reason, None, guess)]
    assert made.state is State.ENDED


@pytest.mark.parametrize("state", [State.DONE, State.ENDED])
@pytest.mark.parametrize("event", Event)
def test_the_end_is_the_end(state: State, event: Event) -> None:
    made = machine(state)
    assert feed(made, event) == []
    assert made.state is state


def test_no_repr_shows_a_token() -> None:
    made = machine()
    effects = made.hello(HELLO, TOKEN)
    assert TOKEN not in repr(effects) + repr(made) + repr(handshake._Input(token=TOKEN))
