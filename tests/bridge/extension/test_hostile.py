"""Hostile peers of the listener: each refused, each logged by its reason and without anything it sent (issue's list)."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import shutil
import subprocess
import sys
import time

import pytest
from browsercell.bridge.extension.handshake import Role, Transcript
from browsercell.bridge.extension.listener import LOG_WINDOW_SECONDS, LOGGED_REFUSALS
from browsercell.bridge.extension.sockets import MAX_BEFORE_PROOF
from browsercell.protocol.limits import EXTENSION_HANDSHAKE_MS, MAX_UNAUTHENTICATED
from websockets.exceptions import InvalidStatus

from .client import EXTENSION, TOKEN, Bench, closed, hello, play, receive, shake_hands, until
from .hostile import MARK, ORIGIN, WRONG, ended, raw, reasons, request

# ---------------------------------------------------------------------- before the WebSocket


@pytest.mark.parametrize(
    ("headers", "status", "reason"),
    [
        ({"Origin": "https://marker.example"}, 403, "origin"),
        ({"Origin": "http://127.0.0.1:8000"}, 403, "origin"),
        ({"Origin": "null"}, 403, "origin"),
        ({"Origin": ""}, 403, "origin"),
        ({"Origin": "chrome-extension://" + "z" * 32}, 403, "origin"),
        ({"Origin": ORIGIN + "/"}, 403, "origin"),
        ({"Origin": ORIGIN + ".example"}, 403, "origin"),
        ({"Origin": "moz-extension://" + EXTENSION}, 403, "origin"),
        ({"Origin": ORIGIN.upper()}, 403, "origin"),
        ({"Host": "rebound.example"}, 400, "host"),
        ({"Host": "localhost"}, 400, "host"),
        ({"Host": "127.0.0.1"}, 400, "host"),
        ({"Host": "127.0.0.1:1"}, 400, "host"),
        ({"Host": ""}, 400, "host"),
        ({"path": "/"}, 404, "path"),
        ({"path": "/extension/"}, 404, "path"),
        ({"path": "/extension?x"}, 404, "path"),
        ({"path": "//extension"}, 404, "path"),
        ({"path": f"/{MARK}"}, 404, "path"),
    ],
)
def test_wrong_requests(
    log: pytest.LogCaptureFixture, headers: dict[str, str], status: int, reason: str
) -> None:
    async def scenario(bench: Bench) -> None:
        async with raw(bench) as (reader, writer):
            writer.write(request(bench, **headers))
            answer = await ended(reader)
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.startswith(f"HTTP/1.1 {status} ".encode())
        assert body == b""  # without detail
        assert b"Access-Control" not in head
        assert bench.hub.refused == 1

    play(scenario)
    assert reasons(log) == [reason]


@pytest.mark.parametrize("doubled", ["Host: 127.0.0.1:{port}", f"Origin: {ORIGIN}"])
def test_a_header_given_twice(log: pytest.LogCaptureFixture, doubled: str) -> None:
    async def scenario(bench: Bench) -> None:
        async with raw(bench) as (reader, writer):
            line = doubled.format(port=bench.port).encode() + b"\r\n\r\n"
            writer.write(request(bench).removesuffix(b"\r\n") + line)
            assert (await ended(reader))[:12] in (b"HTTP/1.1 400", b"HTTP/1.1 403")

    play(scenario)
    assert len(reasons(log)) == 1


@pytest.mark.parametrize(
    "sent",
    [b"GET /extension HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nOrigin: " + ORIGIN.encode() + b"\r\n\r\n", b"POST / HTTP/1.1\r\n\r\n",
     b"\x16\x03\x01\x02\x00\x01\x00", MARK.encode() + b"\r\n\r\n"],
)  # fmt: skip
def test_what_is_no_websocket_request(log: pytest.LogCaptureFixture, sent: bytes) -> None:
    async def scenario(bench: Bench) -> None:
        async with raw(bench) as (reader, writer):
            writer.write(sent.replace(b"%d", str(bench.port).encode()))
            writer.write_eof()
            answer = await ended(reader)
        assert b"101" not in answer
        assert MARK.encode() not in answer

    play(scenario)
    reasons(log)


def test_endless_headers_are_cut_off(log: pytest.LogCaptureFixture) -> None:
    async def scenario(bench: Bench) -> None:
        async with raw(bench) as (reader, writer):
            writer.write(request(bench).removesuffix(b"\r\n"))
            sent = 0
            try:
                while sent < 50 * MAX_BEFORE_PROOF:
                    writer.write(f"X-{sent}: {MARK * 10}\r\n".encode())
                    sent += 140
                    await writer.drain()
                    await asyncio.sleep(0)
            except ConnectionError:
                pass  # what the test is about
            assert sent < 50 * MAX_BEFORE_PROOF
            await ended(reader)
        await until(lambda: bench.hub.refused == 1)

    play(scenario)
    assert reasons(log) == ["oversize"]


@pytest.mark.parametrize("sent", [b"", b"GET /ext"], ids=["silent", "half"])
def test_silence_and_slowness_end_within_the_handshake_time(
    log: pytest.LogCaptureFixture, sent: bytes
) -> None:
    async def scenario(bench: Bench) -> None:
        begun = time.monotonic()
        async with raw(bench) as (reader, writer):
            writer.write(sent)
            assert await ended(reader) == b""
        assert time.monotonic() - begun < EXTENSION_HANDSHAKE_MS / 1000 + 2
        await until(lambda: bench.hub.refused == 1)

    play(scenario)
    assert reasons(log) == ["no-request"]


def test_a_dripping_request_ends_in_time(log: pytest.LogCaptureFixture) -> None:
    async def scenario(bench: Bench) -> None:
        begun = time.monotonic()
        async with raw(bench) as (reader, writer):
            end = asyncio.create_task(ended(reader))
            for byte in request(bench):
                if end.done():
                    break
                writer.write(bytes([byte]))
                await asyncio.sleep(0.1)
            await end
        assert time.monotonic() - begun < EXTENSION_HANDSHAKE_MS / 1000 + 2

    play(scenario)
    assert reasons(log) == ["no-request"]


def test_a_crowd_of_silent_connections_does_not_keep_an_extension_out(log: pytest.LogCaptureFixture) -> None:
    async def scenario(bench: Bench) -> None:
        crowd = [await asyncio.open_connection("127.0.0.1", bench.port) for _ in range(200)]
        async with bench.extension():
            assert len(bench.hub.extensions()) == 1
        assert len(bench.hub.registry._pending) <= MAX_UNAUTHENTICATED
        for _, writer in crowd:
            writer.close()
        await until(lambda: not bench.hub._listener or len(bench.hub._listener._connections) == 0)
        assert bench.hub.refused >= 200

    play(scenario)
    assert (
        reasons(log) == ["gave-way"] * LOGGED_REFUSALS
    )  # the rest is only counted: a crowd must not fill the disk


def test_what_was_not_logged_is_counted_in_the_log_later(log: pytest.LogCaptureFixture) -> None:
    async def scenario(bench: Bench) -> None:
        listener = bench.hub._listener
        assert listener is not None
        for _ in range(LOGGED_REFUSALS + 5):
            listener._refused("path")
        listener._window -= LOG_WINDOW_SECONDS
        listener._refused("host")

    play(scenario)
    assert reasons(log) == ["path"] * LOGGED_REFUSALS + ["host"]
    assert {"count": 5} in [getattr(record, "fields", {}) for record in log.records]


# ---------------------------------------------------------------------- handshake


async def refused(bench: Bench, *frames: object) -> int:
    """Send these to a fresh socket and return the code it is closed with."""
    async with bench.socket() as ws:
        for one in frames:
            await ws.send(one if isinstance(one, str | bytes) else json.dumps(one))
        return await closed(ws)


@pytest.mark.parametrize(
    "first",
    [
        MARK,
        "",
        "[]",
        "{}",
        '{"t":"hello"}',
        '{"t":"hello","version":1}',
        {"t": "proof", "mac": "a" * 64},
        {"t": "reply", "id": 1, "ok": {"text": MARK}},
        {"t": "pong", "nonce": 1},
        {"t": "event", "kind": "tab-closed", "tab": 1},
        {"t": MARK},
        hello(extra=MARK),
        hello(nonce="A" * 64),
        hello(nonce=MARK),
        hello(pairing=MARK.upper()),
        hello(profile=""),
        hello(extensionVersion=MARK),
        hello(version="1"),
        hello(version=1.5),
        hello(capabilities=["x"] * 33),
        "[" * 4000,
        b"\xff\xfe",
    ],
    ids=lambda first: str(first)[:40],
)
def test_a_first_frame_that_is_none(log: pytest.LogCaptureFixture, first: object) -> None:
    async def scenario(bench: Bench) -> None:
        assert await refused(bench, first) == 1006  # cut off, told nothing
        await until(lambda: bench.hub.refused == 1)

    play(scenario)
    assert reasons(log) == ["broken-protocol"]


@pytest.mark.parametrize(
    "second",
    [
        hello(),
        MARK,
        {"t": "proof", "mac": "x"},
        {"t": "pong", "nonce": 1},
        {"t": "reply", "id": 1},
        hello(version=2),
    ],
)
def test_a_second_frame_that_is_no_proof(log: pytest.LogCaptureFixture, second: object) -> None:
    async def scenario(bench: Bench) -> None:
        assert await refused(bench, hello(), second) == 1006
        await until(lambda: bench.hub.refused == 1)

    play(scenario)
    assert reasons(log) == ["broken-protocol"]


def test_a_wrong_token(log: pytest.LogCaptureFixture) -> None:
    async def scenario(bench: Bench) -> None:
        async with bench.socket() as ws:
            assert await shake_hands(bench, ws, token=WRONG) == {"t": "refused", "code": "not-paired"}
            assert await closed(ws) == 1008
        assert not bench.hub.extensions()

    play(scenario)
    assert reasons(log) == ["wrong-proof"]


def test_a_pairing_that_does_not_exist(log: pytest.LogCaptureFixture) -> None:
    async def scenario(bench: Bench) -> None:
        async with bench.socket() as ws:
            assert await shake_hands(bench, ws, pairing="private-marker") == {
                "t": "refused",
                "code": "not-paired",
            }

    play(scenario)
    assert reasons(log) == ["not-paired"]


def test_a_recorded_handshake_is_worth_nothing(log: pytest.LogCaptureFixture) -> None:
    async def scenario(bench: Bench) -> None:
        first = hello()
        async with bench.socket() as ws:
            await ws.send(json.dumps(first))
            challenge = await receive(ws)
            transcript = Transcript(
                EXTENSION,
                "user",
                challenge["connection"],
                "127.0.0.1",
                bench.port,
                first["nonce"],
                challenge["nonce"],
            )
            proof = json.dumps({"t": "proof", "mac": transcript.mac(TOKEN, Role.EXTENSION)})
            await ws.send(proof)
            assert (await receive(ws))["t"] == "ready"
        async with bench.socket() as ws:
            await ws.send(json.dumps(first))
            again = await receive(ws)
            assert again["nonce"] != challenge["nonce"]
            assert again["connection"] != challenge["connection"]
            await ws.send(proof)
            assert await receive(ws) == {"t": "refused", "code": "not-paired"}

    play(scenario)
    assert reasons(log) == ["wrong-proof"]


def test_the_bridges_own_proof_sent_back(log: pytest.LogCaptureFixture) -> None:
    async def scenario(bench: Bench) -> None:
        async with bench.socket() as ws:
            await ws.send(json.dumps(hello()))
            challenge = await receive(ws)
            await ws.send(json.dumps({"t": "proof", "mac": challenge["mac"]}))
            assert await receive(ws) == {"t": "refused", "code": "not-paired"}

    play(scenario)
    assert reasons(log) == ["wrong-proof"]


def test_a_proof_for_another_extension(log: pytest.LogCaptureFixture) -> None:
    async def scenario(bench: Bench) -> None:
        async with bench.socket() as ws:
            word = await shake_hands(bench, ws, token=TOKEN + "", extension=EXTENSION)
            assert word["t"] == "ready"
        async with bench.socket(origin="chrome-extension://" + "p" * 32) as ws:
            first = hello()
            await ws.send(json.dumps(first))
            challenge = await receive(ws)
            theirs = Transcript(
                EXTENSION,
                "user",
                challenge["connection"],
                "127.0.0.1",
                bench.port,
                first["nonce"],
                challenge["nonce"],
            )
            await ws.send(json.dumps({"t": "proof", "mac": theirs.mac(TOKEN, Role.EXTENSION)}))
            assert await receive(ws) == {"t": "refused", "code": "not-paired"}

    play(scenario)
    assert reasons(log) == ["wrong-proof"]


def test_guessing_is_slowed_down_and_a_good_token_comes_through_later(log: pytest.LogCaptureFixture) -> None:
    async def scenario(bench: Bench) -> None:
        words = []
        for _ in range(12):
            async with bench.socket() as ws:
                words.append((await shake_hands(bench, ws, token=WRONG))["code"])
        assert words[:4] == ["not-paired"] * 4
        assert set(words[5:]) == {"throttled"}
        await asyncio.sleep(2.1)
        async with bench.extension():
            assert len(bench.hub.extensions()) == 1
        async with bench.extension():  # success forgives
            assert len(bench.hub.extensions()) == 1

    play(scenario)
    assert "throttled" in reasons(log)


def test_silence_after_the_hello(log: pytest.LogCaptureFixture) -> None:
    async def scenario(bench: Bench) -> None:
        begun = time.monotonic()
        async with bench.socket() as ws:
            await ws.send(json.dumps(hello()))
            await receive(ws)
            assert await closed(ws) == 1006
        assert time.monotonic() - begun < EXTENSION_HANDSHAKE_MS / 1000 + 2

    play(scenario)
    assert reasons(log) == ["timeout"]


def test_an_extension_with_another_token_gives_up(log: pytest.LogCaptureFixture) -> None:
    async def scenario(bench: Bench) -> None:
        for _ in range(6):  # it is no guess, and never throttled
            async with bench.socket() as ws:
                await ws.send(json.dumps(hello()))
                assert (await receive(ws))["t"] == "challenge"
        await until(lambda: bench.hub.refused == 6)

    play(scenario)
    assert reasons(log) == ["gave-up"] * 6


# ---------------------------------------------------------------------- others on this machine


_CLIENT = """
import socket, sys
s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
s.settimeout(10)
try:
    s.sendall(sys.stdin.buffer.read())
    print(len(s.recv(1000)))
except ConnectionError:
    print(0)
"""


@pytest.mark.skipif(
    os.getuid() != 0 or shutil.which("setpriv") is None, reason="only root can be somebody else"
)
def test_a_connection_from_another_uid(log: pytest.LogCaptureFixture) -> None:
    python = shutil.which("python3", path="/usr/bin:/bin") or sys.executable  # one that any user may run

    async def scenario(bench: Bench) -> None:
        def run(*prefix: str) -> str:
            return subprocess.run(
                [*prefix, python, "-I", "-c", _CLIENT, str(bench.port)],
                input=request(bench), capture_output=True, timeout=20, check=True, cwd="/",
            ).stdout.decode().strip()  # fmt: skip

        assert int(await asyncio.to_thread(run)) > 100  # the control: our own uid gets its answer
        await until(lambda: bench.hub.refused == 1)  # and gives up
        before = len(reasons(log))
        stranger = ["setpriv", "--reuid", "64318", "--regid", "64318", "--clear-groups"]
        assert await asyncio.to_thread(run, *stranger) == "0"
        assert reasons(log)[before:] == ["foreign-uid"]
        async with bench.extension():
            assert len(bench.hub.extensions()) == 1

    play(scenario)


def test_an_unknown_peer_is_refused(log: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("browsercell.bridge.peers.peer_uid", lambda *_ends: None)

    async def scenario(bench: Bench) -> None:
        async with raw(bench) as (reader, _writer):
            assert await ended(reader) == b""

    play(scenario)
    assert reasons(log) == ["foreign-uid"]


def test_two_extensions_where_one_is_allowed(log: pytest.LogCaptureFixture) -> None:
    async def scenario(bench: Bench) -> None:
        async with bench.extension():
            with pytest.raises(InvalidStatus) as refusal:
                async with bench.socket(origin="chrome-extension://" + "p" * 32):
                    raise AssertionError("let in")
            assert refusal.value.response.status_code == 403
            assert len(bench.hub.extensions()) == 1

    play(scenario, allowed_extensions=(EXTENSION,))
    assert reasons(log) == ["origin"]


def test_nonces_are_never_repeated() -> None:
    async def scenario(bench: Bench) -> None:
        seen: set[str] = set()
        for _ in range(20):
            async with bench.socket() as ws:
                await ws.send(json.dumps(hello(nonce=secrets.token_hex(32))))
                challenge = await receive(ws)
                seen |= {challenge["nonce"], challenge["connection"]}
        assert len(seen) == 40

    play(scenario)
