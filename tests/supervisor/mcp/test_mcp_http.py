"""The HTTP listener with real sockets: who gets in, who is refused, and how, and that it ends with its signal."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest
from browsercell.protocol.errors import Unavailable
from browsercell.supervisor.mcp import http_token, over_http
from browsercell.supervisor.mcp.guard import Guard
from browsercell.supervisor.mcp.host import Options
from browsercell.supervisor.mcp.server import Product
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.support.hosts import Served, serving

TOKEN = "a-token-of-enough-letters"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serving(tmp_path / "r") as one:
        yield one


@asynccontextmanager
async def listening(served: Served, **limits: float) -> AsyncIterator[int]:
    with over_http.listen(0) as listener:
        port: int = listener.getsockname()[1]
        app = over_http.guarded(Product(Options(served.folder)), Guard(port, TOKEN), **limits)
        server = over_http.Server(app)
        task = asyncio.create_task(server.serve_until_told(listener, lambda: None))
        async with asyncio.timeout(10):
            while not server.started:
                await asyncio.sleep(0.01)
        try:
            yield port
        finally:
            os.kill(os.getpid(), signal.SIGTERM)
            async with asyncio.timeout(15):
                await task


async def raw(port: int, data: bytes) -> bytes:
    """Everything the listener answers to `data` until it closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    try:
        async with asyncio.timeout(8):
            return await reader.read()
    finally:
        writer.close()


def run(served: Served, work: Callable[[int], Awaitable[None]], **limits: float) -> None:
    async def main() -> None:
        async with listening(served, **limits) as port:
            await work(port)

    asyncio.run(main())


def request(port: int, *, line: str = "POST /mcp HTTP/1.1", **changes: str) -> bytes:
    found = {
        "Host": f"127.0.0.1:{port}",
        "Authorization": f"Bearer {TOKEN}",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "Content-Length": "2",
        "Connection": "close",
        **{name.replace("_", "-"): value for name, value in changes.items()},
    }
    return "\r\n".join([line, *(f"{name}: {value}" for name, value in found.items()), "", "{}"]).encode()


def test_the_sdk_client_works_with_the_token_and_not_without(served: Served) -> None:
    async def work(port: int) -> None:
        url = f"http://127.0.0.1:{port}/mcp"
        async with (
            httpx2.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}) as http,
            Client(streamable_http_client(url, http_client=http), mode="legacy") as client,
        ):
            assert len((await client.list_tools()).tools) == 4
            done = await client.call_tool("browser_delegate_task", {"goal": "go"})
            assert done.structured_content
            assert done.structured_content["summary"] == "go"
        async with httpx2.AsyncClient() as http:
            answer = await http.post(url, json={})
            assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")

    run(served, work)


def test_attacks_get_refusals_and_never_the_token(served: Served) -> None:
    async def work(port: int) -> None:
        attacks = {
            b"421": [
                request(port, Host="evil.example"),
                request(port, Host=f"evil.example:{port}"),
                b"POST /mcp HTTP/1.0\r\n\r\n",
            ],
            b"403": [
                request(port, Origin="https://evil.example"),
                request(port, Origin="null"),
                request(port, Sec_Fetch_Site="cross-site"),
            ],
            b"404": [
                request(port, line="GET / HTTP/1.1"),
                request(port, line="GET /mcp/../mcp-token HTTP/1.1"),
                request(port, line="GET //mcp HTTP/1.1"),
                request(port, line="GET /.well-known/oauth-protected-resource HTTP/1.1"),
            ],
            b"405": [request(port, line="OPTIONS /mcp HTTP/1.1"), request(port, line="TRACE /mcp HTTP/1.1")],
            b"401": [request(port, Authorization="Bearer x"), request(port, Authorization="")],
            b"413": [request(port, Content_Length=str(over_http.MAX_BODY_BYTES + 1))],
            b"400": [b"nonsense\r\n\r\n", request(port)],
        }
        for status, requests in attacks.items():
            for one in requests:
                answer = await raw(port, one)
                assert answer.split(b" ", 2)[1] == status, (one, answer)
                assert TOKEN.encode() not in answer
                assert b"access-control" not in answer.lower()
        assert served.call(served.link.connected) == 0

    run(served, work)


def test_a_body_that_does_not_arrive_is_given_up(served: Served) -> None:
    async def work(port: int) -> None:
        answer = await raw(port, request(port, Content_Length="100"))
        assert answer.split(b" ", 2)[1] == b"408"

    run(served, work, body_seconds=0.2)


def test_a_head_that_does_not_arrive_is_given_up(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(over_http, "HEAD_SECONDS", 0.2)

    async def work(port: int) -> None:
        assert await raw(port, b"POST /mcp HTTP/1.1\r\nHost: 127") == b""

    run(served, work)


def test_a_taken_port_is_told(served: Served) -> None:
    async def work(port: int) -> None:
        with pytest.raises(Unavailable, match=f"port {port} is taken"):
            over_http.listen(port)

    run(served, work)


def test_the_token_is_made_once_and_only_for_its_owner(tmp_path: Path) -> None:
    state = str(tmp_path / "state")
    token, path = http_token.load(state)
    assert len(token) >= 32
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert http_token.load(state) == (token, path)


@pytest.mark.parametrize("content", ["short", "with space in its middle of it", "", "x" * 300])
def test_a_token_that_is_none_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / http_token.NAME
    path.write_text(content)
    path.chmod(0o600)
    with pytest.raises(Unavailable, match="holds no token"):
        http_token.load(str(tmp_path))


def test_a_token_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / http_token.NAME
    path.write_text(TOKEN)
    path.chmod(0o640)
    with pytest.raises(Unavailable, match="private file"):
        http_token.load(str(tmp_path))


def test_a_token_behind_a_link_or_where_no_folder_can_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text(TOKEN)
    (tmp_path / http_token.NAME).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Unavailable, match="can't be used"):
        http_token.load(str(tmp_path))
    with pytest.raises(Unavailable, match="can't be used"):
        http_token.load(str(tmp_path / "elsewhere" / "state"))
