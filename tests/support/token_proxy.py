"""A loopback proxy that adds a bearer token, for clients that can't send one. Everything else passes unchanged, but that
the proxy's own name in Host and Origin becomes the listener's; a foreign name stays foreign. One request a connection.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

MAX_HEAD_BYTES = 64 * 1024


@contextlib.asynccontextmanager
async def proxy(target: int, token: str) -> AsyncIterator[int]:
    """Serve on a free port in front of port `target`; yields the port."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream: asyncio.StreamWriter | None = None
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            there, upstream = await asyncio.open_connection("127.0.0.1", target)
            upstream.write(_changed(head, own, target, token))
            ends = [asyncio.create_task(_pipe(reader, upstream)), asyncio.create_task(_pipe(there, writer))]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for end in ends:
                end.cancel()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client has left; that is its right
        finally:
            for one in (writer, upstream):
                if one is not None:
                    one.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=MAX_HEAD_BYTES)
    own: int = server.sockets[0].getsockname()[1]
    try:
        yield own
    finally:
        server.close()


def _changed(head: bytes, own: int, target: int, token: str) -> bytes:
    lines = head.rstrip(b"\r\n").split(b"\r\n")
    kept = [lines[0]]
    for line in lines[1:]:
        name, _, value = line.partition(b":")
        if name.lower() in (b"host", b"origin"):
            for ours in (b"localhost", b"127.0.0.1"):
                if value.strip().removeprefix(b"http://") == ours + b":%d" % own:
                    line = line.replace(b":%d" % own, b":%d" % target)
        if name.lower() not in (b"connection", b"authorization"):
            kept.append(line)
    kept += [b"Authorization: Bearer " + token.encode(), b"Connection: close", b"", b""]
    return b"\r\n".join(kept)


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):  # one side has left: the other one is told by the end
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
