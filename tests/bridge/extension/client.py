"""The extension's side of the link for tests of the listener, honest by default and crooked where asked."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import uvloop
from browsercell.bridge.extension.handshake import Role, Transcript
from browsercell.bridge.extension.hub import ExtensionHub, make_hub
from browsercell.bridge.ports import BrowserPort, ListenerState
from browsercell.protocol.frames import ExtEvent, PortProblem
from browsercell.protocol.settings import BridgeSettings
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

TOKEN = "a token of more than sixteen"
EXTENSION = "abcdefghijklmnopabcdefghijklmnop"
OTHER = "ponmlkjihgfedcbaponmlkjihgfedcba"


class Bench:
    """A started hub and what it told its owner."""

    def __init__(self, token: str = TOKEN, **settings: Any) -> None:
        self.news = 0
        self.lost: list[BrowserPort] = []
        self.events: list[tuple[BrowserPort, ExtEvent]] = []
        self.host: str = settings.get("host", "127.0.0.1")
        self.hub: ExtensionHub = make_hub(
            msgspec.structs.replace(BridgeSettings(state_folder="/nonexistent", port=0), **settings),
            token,
            on_extensions=self._news,
            on_lost=self.lost.append,
            on_event=lambda port, event: self.events.append((port, event)),
        )
        self.state = ListenerState(0)

    def _news(self) -> None:
        self.news += 1

    @property
    def port(self) -> int:
        return self.state.port

    @property
    def address(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host

    async def start(self) -> None:
        self.state = await self.hub.start()

    @asynccontextmanager
    async def socket(self, **more: Any) -> AsyncIterator[ClientConnection]:
        """A WebSocket with an extension's Origin; `more` goes to the library."""
        options: dict[str, Any] = {
            "origin": f"chrome-extension://{EXTENSION}",
            "compression": None,
            "ping_interval": None,
            "max_size": None,
            "proxy": None,
        }
        async with connect(f"ws://{self.address}:{self.port}/extension", **(options | more)) as ws:
            yield ws

    @asynccontextmanager
    async def extension(self, **more: Any) -> AsyncIterator[ClientConnection]:
        """An authenticated extension; `more`: see `shake_hands`."""
        extension = more.get("extension", EXTENSION)
        async with self.socket(origin=f"chrome-extension://{extension}") as ws:
            ready = await shake_hands(self, ws, **more)
            assert ready["t"] == "ready", ready
            yield ws


def play(scenario: Callable[[Bench], Awaitable[None]], **options: Any) -> None:
    """Run `scenario` with a started hub in the bridge's kind of loop; the hub is stopped afterwards."""

    async def run() -> None:
        bench = Bench(**options)
        await bench.start()
        assert bench.state.problem is PortProblem.NONE
        try:
            async with asyncio.timeout(40):
                await scenario(bench)
        finally:
            await bench.hub.stop()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())


def hello(**more: Any) -> dict[str, Any]:
    return {
        "t": "hello",
        "version": 1,
        "extensionVersion": "0.1.0",
        "nonce": secrets.token_hex(32),
        "pairing": "user",
        "profile": "profile-1",
    } | more


async def receive(ws: ClientConnection) -> dict[str, Any]:
    """The next frame."""
    async with asyncio.timeout(10):
        decoded: dict[str, Any] = json.loads(await ws.recv())
        return decoded


async def shake_hands(
    bench: Bench,
    ws: ClientConnection,
    *,
    token: str = TOKEN,
    pairing: str = "user",
    profile: str = "profile-1",
    extension: str = EXTENSION,
) -> dict[str, Any]:
    """The whole handshake; returns the bridge's last word. Checks the bridge's proof if the token is the real one."""
    first = hello(pairing=pairing, profile=profile)
    await ws.send(json.dumps(first))
    challenge = await receive(ws)
    if challenge["t"] != "challenge":
        return challenge
    transcript = Transcript(
        extension,
        pairing,
        challenge["connection"],
        bench.host,
        bench.port,
        first["nonce"],
        challenge["nonce"],
    )
    if token == TOKEN:
        assert challenge["mac"] == transcript.mac(token, Role.BRIDGE)
    await ws.send(json.dumps({"t": "proof", "mac": transcript.mac(token, Role.EXTENSION)}))
    return await receive(ws)


async def closed(ws: ClientConnection) -> int:
    """Wait until the bridge closes; the close code, 1006 if it cut the connection."""
    try:
        async with asyncio.timeout(15):
            while True:
                await ws.recv()
    except ConnectionClosed as end:
        return end.rcvd.code if end.rcvd is not None else 1006


async def until(condition: Callable[[], object], seconds: float = 10) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)
