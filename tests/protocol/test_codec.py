"""Frames to bytes and back: version, bounds, closed types, and that errors never quote content."""

from __future__ import annotations

import msgspec
import pytest
from browsercell.protocol import frames as f
from browsercell.protocol import limits as L
from browsercell.protocol.codec import Decoder, JsonDecoder, WrongVersion, encode, encode_json
from browsercell.protocol.errors import FrameTooLarge, LocalMisuse, PeerViolation
from browsercell.protocol.settings import InputMode
from hypothesis import given
from hypothesis import strategies as st

SECRET = "marker-4711"


def decoder() -> Decoder[f.Ping | f.ToolCall]:
    return Decoder((f.Ping, f.ToolCall), 1000)


def test_a_frame_survives_the_trip() -> None:
    assert decoder().decode(encode(f.Ping(7), 1000)) == f.Ping(7)


def test_the_first_byte_is_the_version() -> None:
    data = encode(f.Ping(7), 1000)
    assert data[0] == L.WIRE_VERSION
    with pytest.raises(WrongVersion):
        decoder().decode(bytes([data[0] + 1]) + data[1:])


def test_nothing_over_the_bound_is_encoded_or_decoded() -> None:
    call = f.ToolCall(1, "browser_page_type", b"x" * 2000)
    with pytest.raises(FrameTooLarge):
        encode(call, 1000)
    with pytest.raises(PeerViolation):
        decoder().decode(encode(call, 5000))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x01",
        b"\x01\xc1",
        b"\x01" + msgspec.msgpack.encode({"t": "ping", "nonce": -1}),
        b"\x01" + msgspec.msgpack.encode({"t": "ping", "nonce": 1, "extra": SECRET}),
        b"\x01" + msgspec.msgpack.encode({"t": SECRET}),
        b"\x01" + msgspec.msgpack.encode({"t": "pong", "nonce": 1}),
        b"\x01" + msgspec.msgpack.encode([SECRET]),
        b"\x01" + b"\x91" * 900,
    ],
)
def test_anything_else_is_the_peers_fault_and_is_not_quoted(data: bytes) -> None:
    with pytest.raises(PeerViolation) as error:
        decoder().decode(data)
    assert SECRET not in str(error.value)


@given(st.binary(max_size=200))
def test_random_bytes_never_raise_anything_else(data: bytes) -> None:
    for candidate in (data, b"\x01" + data):
        try:
            decoder().decode(candidate)
        except PeerViolation:
            continue


def test_a_decoder_needs_types() -> None:
    with pytest.raises(LocalMisuse):
        Decoder((), 10)
    with pytest.raises(LocalMisuse):
        JsonDecoder((), 10)


def test_json_frames_are_camel_case_text() -> None:
    text = encode_json(f.ExtReady(20_000, InputMode.AUTO))
    assert text == '{"t":"ready","heartbeatMs":20000,"input":"auto"}'
    assert JsonDecoder((f.ExtReady,), 100).decode(text) == f.ExtReady(20_000, InputMode.AUTO)


def test_json_frames_have_bounds_too() -> None:
    with pytest.raises(FrameTooLarge):
        encode_json(f.ExtPing(1), 5)
    with pytest.raises(PeerViolation):
        JsonDecoder((f.ExtPing,), 5).decode('{"t":"ping","nonce":1}')


@given(st.text(max_size=200))
def test_random_text_never_raises_anything_else(text: str) -> None:
    said = ""
    try:
        JsonDecoder((f.ExtPing,), 1000).decode(text)
    except PeerViolation as error:
        said = str(error)
    assert len(text) < 12 or text not in said
