"""Hostile peers of the running product's extension port, while a real task drives a private browser through it."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from typing import cast

from browsercell.protocol.limits import EXTENSION_HANDSHAKE_MS
from browsercell.supervisor.demo.server import Bookshop
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Origin

from tests.bridge.extension import client as extension
from tests.bridge.extension import hostile
from tests.support import chaos
from tests.support.chaos import Product

from .test_hosts import NOBODY, Neighbour

GONE_S = EXTENSION_HANDSHAKE_MS / 1000 + 5.0


class Port:
    """The running product's port in the shape that the helpers of the unit tests take."""

    host = address = "127.0.0.1"

    def __init__(self, port: int) -> None:
        self.port = port


def bench(port: Port) -> extension.Bench:
    return cast(extension.Bench, port)


async def refused_request(port: Port, **headers: str) -> None:
    async with hostile.raw(bench(port)) as (reader, writer):
        writer.write(hostile.request(bench(port), **headers))
        head = (await hostile.ended(reader)).split(b"\r\n", 1)[0]
        assert head.split(b" ")[1] in (b"400", b"403", b"404"), head


async def foreign_origin(port: Port) -> None:
    await refused_request(port, Origin="chrome-extension://" + "z" * 32)


async def page_on_loopback(port: Port) -> None:
    await refused_request(port, Origin="http://127.0.0.1:8000")


async def page_of_the_web(port: Port) -> None:
    await refused_request(port, Origin="https://attacker.example")


async def rebound_name(port: Port) -> None:
    await refused_request(port, Host="rebound.example")


async def wrong_token(port: Port) -> None:
    origin = Origin(hostile.ORIGIN)
    url = f"ws://127.0.0.1:{port.port}/extension"
    async with connect(url, origin=origin, compression=None, proxy=None) as ws:
        try:
            last = await extension.shake_hands(bench(port), ws, token=hostile.WRONG)
        except ConnectionClosed:
            return
        assert last["t"] != "ready", last


async def endless_frame(port: Port) -> None:
    async with hostile.raw(bench(port)) as (reader, writer):
        writer.write(hostile.request(bench(port)))
        assert b" 101 " in await reader.readuntil(b"\r\n\r\n")
        try:
            for number in range(10_000):
                writer.write(hostile.frame(b"x" * 1000, opcode=0 if number else 1, final=False))
                await writer.drain()
        except ConnectionError:
            return
        await hostile.ended(reader)
        raise AssertionError("ten megabytes were taken before any proof")


async def huge_announcement(port: Port) -> None:
    async with hostile.raw(bench(port)) as (reader, writer):
        writer.write(hostile.request(bench(port)))
        assert b" 101 " in await reader.readuntil(b"\r\n\r\n")
        writer.write(hostile.frame(b"x" * 100, announced=1 << 30))
        await asyncio.wait_for(hostile.ended(reader), GONE_S)


async def silence(port: Port) -> None:
    async with hostile.raw(bench(port)) as (reader, _):
        assert await asyncio.wait_for(hostile.ended(reader), GONE_S) == b""


async def silence_after_the_upgrade(port: Port) -> None:
    async with hostile.raw(bench(port)) as (reader, writer):
        writer.write(hostile.request(bench(port)))
        assert b" 101 " in await reader.readuntil(b"\r\n\r\n")
        await asyncio.wait_for(hostile.ended(reader), GONE_S)


PEERS: tuple[Callable[[Port], Awaitable[None]], ...] = (
    foreign_origin,
    page_on_loopback,
    page_of_the_web,
    rebound_name,
    wrong_token,
    endless_frame,
    huge_announcement,
    silence,
    silence_after_the_upgrade,
)


def from_another_uid(port: Port) -> bytes:
    """What the port says to a perfect request of somebody else's process."""
    data = hostile.request(bench(port))
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:  # plain system calls only: the parent has threads
        try:
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            with socket.create_connection(("127.0.0.1", port.port), 10) as peer:
                peer.sendall(data)
                os.write(write, peer.recv(4096) or b"closed")
        except ConnectionError:
            os.write(write, b"closed")
        finally:
            os._exit(0)
    os.close(write)
    os.waitpid(pid, 0)
    with os.fdopen(read, "rb") as pipe:
        return pipe.read()


def test_each_is_refused_and_the_task_goes_on() -> None:
    with Product() as product, Bookshop() as shop:
        neighbour = Neighbour(product, shop)
        status = product.observer.extension_status()
        port = Port(status["listener"]["port"])
        bridge = product.one("bridge")
        memory = chaos.resident(product.pid)

        async def all_of_them() -> None:
            await asyncio.gather(*(peer(port) for peer in PEERS))

        asyncio.run(all_of_them())
        expected = status["refused"] + len(PEERS)
        if os.getuid() == 0:
            said = from_another_uid(port)
            assert said
            assert b" 101 " not in said
            expected += 1
        chaos.until(
            "all refusals in the status",
            lambda: product.observer.extension_status()["refused"] >= expected,
        )
        neighbour.finish()
        assert bridge.alive
        assert chaos.resident(product.pid) - memory < 8 << 20
        for path in (product.state / "logs").glob("*.log"):
            assert hostile.MARK not in path.read_text("utf-8", "replace"), path.name
        chaos.assert_next_task_works(product, shop.url)
