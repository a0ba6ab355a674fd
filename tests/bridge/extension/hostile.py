"""What hostile peers of the listener are made of: raw requests and frames, and a look at the log they leave."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from .client import EXTENSION, TOKEN, Bench

MARK = "qzx-marker-qzx"  # in everything a hostile peer sends; must be nowhere in the log
ORIGIN = f"chrome-extension://{EXTENSION}"
WRONG = "wrong, but long enough"


def reasons(log: pytest.LogCaptureFixture) -> list[str]:
    """Why connections were refused; fails if anything of a peer's, or a traceback, is in any record."""
    for record in log.records:
        if record.name.startswith("browsercell"):
            text = f"{record.getMessage()} {record.__dict__}"
            assert MARK not in text
            assert TOKEN not in text
            assert record.exc_info is None
    fields = [getattr(record, "fields", {}) for record in log.records]
    return [one["reason"] for one in fields if "reason" in one]


@asynccontextmanager
async def raw(bench: Bench) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", bench.port)
    try:
        yield reader, writer
    finally:
        writer.close()


def request(bench: Bench, **headers: str) -> bytes:
    """A WebSocket request; a header given as "" is left out."""
    fields = {
        "Host": f"127.0.0.1:{bench.port}",
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
        "Origin": ORIGIN,
        "X-Mark": MARK,
    } | {name.replace("_", "-"): value for name, value in headers.items() if name != "path"}
    lines = [
        f"GET {headers.get('path', '/extension')} HTTP/1.1",
        *(f"{k}: {v}" for k, v in fields.items() if v),
    ]
    return "\r\n".join([*lines, "", ""]).encode()


def frame(payload: bytes, opcode: int = 1, final: bool = True, announced: int | None = None) -> bytes:
    """A masked WebSocket frame (RFC 6455, 5.2); `announced`: its length field, whatever follows."""
    length = len(payload) if announced is None else announced
    head = bytes([opcode | (0x80 if final else 0)])
    size = bytes([0x80 | length]) if length < 126 else bytes([0x80 | 127]) + struct.pack(">Q", length)
    return head + size + b"\0\0\0\0" + payload


async def ended(reader: asyncio.StreamReader) -> bytes:
    """What the bridge still says until it closes."""
    async with asyncio.timeout(15):
        try:
            return await reader.read()
        except ConnectionError:
            return b""
