"""Endless and giant frames, before and after the handshake: each ends the connection and costs next to nothing."""

from __future__ import annotations

import asyncio
import json
import resource

import pytest
from browsercell.protocol.limits import MAX_EXTENSION_FRAME
from websockets.protocol import State

from .client import Bench, closed, hello, play, until
from .hostile import MARK, ended, frame, raw, reasons, request

# ---------------------------------------------------------------------- endless and giant frames


async def flood(bench: Bench, piece: bytes, *, pieces: int) -> None:
    """Open a WebSocket by hand, send `piece` again and again, and see the connection cut before the end."""
    async with raw(bench) as (reader, writer):
        writer.write(request(bench))
        await reader.readuntil(b"\r\n\r\n")
        try:
            for _ in range(pieces):
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0)  # drain alone lets nobody else run while the socket takes it all
        except (ConnectionError, RuntimeError):
            pass  # uvloop's word for a socket that was closed meanwhile is a RuntimeError
        else:
            raise AssertionError("never cut off")
        await ended(reader)


@pytest.mark.parametrize(
    "piece",
    [
        frame(b"", opcode=0, final=False),
        frame(b"x", opcode=1, final=False),
        frame(MARK.encode() * 100, opcode=9),
        frame(b"x" * 5000),
    ],
    ids=["empty-fragments", "text-starts", "pings", "texts"],
)
def test_endless_frames_before_the_proof(log: pytest.LogCaptureFixture, piece: bytes) -> None:
    async def scenario(bench: Bench) -> None:
        await flood(bench, piece * 10, pieces=20_000)
        await until(lambda: not bench.hub._listener or not bench.hub._listener._connections)

    play(scenario)
    reasons(log)


def test_endless_empty_fragments_before_the_proof_cost_no_memory(log: pytest.LogCaptureFixture) -> None:
    async def scenario(bench: Bench) -> None:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for _ in range(20):
            async with raw(bench) as (reader, writer):
                writer.write(request(bench))
                await reader.readuntil(b"\r\n\r\n")
                writer.write(frame(b"", opcode=1, final=False))
                try:
                    for _ in range(200):
                        writer.write(frame(b"", opcode=0, final=False) * 1000)
                        await writer.drain()
                except ConnectionError:
                    pass  # cut off, as it should
                await ended(reader)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert grown < 30 * 1024  # KiB

    play(scenario)
    assert set(reasons(log)) == {"oversize"}


@pytest.mark.parametrize("announced", [5000, 1 << 30, (1 << 63) - 1])
def test_a_giant_frame_announced_before_the_proof(log: pytest.LogCaptureFixture, announced: int) -> None:
    async def scenario(bench: Bench) -> None:
        async with raw(bench) as (reader, writer):
            writer.write(request(bench))
            await reader.readuntil(b"\r\n\r\n")
            writer.write(frame(b"x", announced=announced))
            await ended(reader)  # ended by the bridge, not by us
        await until(lambda: bench.hub.refused == 1)

    play(scenario)
    assert len(reasons(log)) == 1


@pytest.mark.parametrize(
    "sent",
    [
        MARK,
        '{"t":"reply","id":1,"ok":{},"extra":1}',
        '{"t":"reply","id":77,"ok":{}}',
        '{"t":"pong","nonce":99}',
        '{"t":"command","id":1,"op":"x","args":{},"deadlineMs":1}',
        '{"t":"ready","heartbeatMs":1,"input":"auto"}',
        json.dumps(hello()),
        '{"t":"proof","mac":"' + "a" * 64 + '"}',
        b"\xff",
    ],
    ids=lambda sent: str(sent)[:30],
)
def test_a_paired_extension_that_breaks_the_protocol_is_cut_off(
    log: pytest.LogCaptureFixture, sent: str | bytes
) -> None:
    async def scenario(bench: Bench) -> None:
        async with bench.extension() as ws:
            await ws.send(sent)
            assert await closed(ws) == 1006
        await until(lambda: not bench.hub.extensions())

    play(scenario)
    reasons(log)
    assert "broke-protocol" in [record.getMessage() for record in log.records]


@pytest.mark.parametrize("how", ["announced", "fragments", "empty"])
def test_a_paired_extension_is_bounded_too(log: pytest.LogCaptureFixture, how: str) -> None:
    async def scenario(bench: Bench) -> None:
        async with bench.extension() as ws:
            transport = ws.transport
            assert transport is not None
            if how == "announced":
                transport.write(frame(b"x", announced=MAX_EXTENSION_FRAME + 1))
            else:
                transport.write(frame(b"[", opcode=1, final=False))
                piece = b"x" * 1_000_000 if how == "fragments" else b""
                for _ in range(40 if piece else 20_000):
                    if transport.is_closing() or ws.state is not State.OPEN:
                        break
                    transport.write(frame(piece, opcode=0, final=False))
                    await asyncio.sleep(0)
                else:
                    raise AssertionError("never cut off")
            assert await closed(ws) in (1006, 1009)
        await until(lambda: not bench.hub.extensions())

    play(scenario)
    reasons(log)
