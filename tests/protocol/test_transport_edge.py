"""transport_edge: no wake-up is lost, on both kinds of loop."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Iterator

import pytest
from browsercell.protocol.errors import Backpressure
from browsercell.protocol.transport import Peer

from tests.protocol.shell import LOOPS, WAIT_S, Bench, Recorder, child, new_links, private_folder, run, until

PEER = """
import asyncio, random, sys, uvloop
from browsercell.protocol.transport import Links
from browsercell.protocol.errors import Backpressure
path, kind, total, seed = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
dice = random.Random(seed)
async def main():
    links = Links()
    got = 0
    done = asyncio.Event()
    echoes = []
    def on_message(_peer, data):
        nonlocal got
        if data.startswith(b"ping"):
            echoes.append(data)
            loop.call_later(dice.random() / 2000, lambda: link.send(echoes.pop(0)))
            return
        assert int(data[:8]) == got, (data[:8], got)
        got += 1
        if got == total: done.set()
    loop = asyncio.get_running_loop()
    link = links.connect(path, on_message, lambda event: None, max_message=4096)
    await link.wait_ready(10)
    for number in range(total):
        while True:
            try: link.send(b"%08d" % number + bytes(dice.randrange(300))); break
            except Backpressure: await asyncio.sleep(0.0005)
        if dice.random() < 0.02: await asyncio.sleep(dice.random() / 1000)
        elif dice.random() < 0.1: await asyncio.sleep(0)
    await done.wait()
    while True:
        try: link.send(b"done"); break
        except Backpressure: await asyncio.sleep(0.0005)
    await asyncio.sleep(60)
with asyncio.Runner(loop_factory=uvloop.new_event_loop if kind == "uvloop" else asyncio.new_event_loop) as runner:
    runner.run(main())
"""


@pytest.fixture
def folder() -> Iterator[str]:
    with private_folder() as path:
        yield path


@pytest.mark.parametrize("loop", LOOPS)
def test_20000_messages_each_way_in_order_and_no_lost_wakeup(loop: str, folder: str) -> None:
    """Two processes, 20,000 pipelined messages in each direction with random small delays, then 1,000 lone trips:
    a lone trip that loses its wake-up has nothing behind it that would save it."""
    total = 20_000

    async def main() -> None:
        dice = random.Random(7)
        links = new_links()
        got = 0
        routing_id = b""
        answers: asyncio.Queue[bytes] = asyncio.Queue()

        def on_message(peer: Peer, data: bytes) -> None:
            nonlocal got, routing_id
            routing_id = peer.routing_id
            if data.startswith((b"ping", b"done")):
                answers.put_nowait(data)
                return
            assert int(data[:8]) == got
            got += 1

        recorder = Recorder()
        server = links.serve(
            f"{folder}/s",
            on_message,
            recorder.on_event,
            expect_pid=None,
            expect_uid=os.getuid(),
            max_message=4096,
        )
        with child(PEER, server.path, loop, total, 11) as process:
            await until(lambda: bool(routing_id))
            refused = 0
            for number in range(total):
                while True:
                    try:
                        server.send(routing_id, b"%08d" % number + bytes(dice.randrange(300)))
                        break
                    except Backpressure:
                        refused += 1
                        await asyncio.sleep(0.0005)
                if dice.random() < 0.02:
                    await asyncio.sleep(dice.random() / 1000)
                elif dice.random() < 0.1:
                    await asyncio.sleep(0)
            async with asyncio.timeout(60):
                assert await answers.get() == b"done"
            assert got == total
            assert process.poll() is None
            for number in range(1000):
                if number % 3 == 0:
                    await asyncio.sleep(dice.random() / 1000)
                server.send(routing_id, b"ping%d" % number)
                async with asyncio.timeout(WAIT_S):
                    assert await answers.get() == b"ping%d" % number
        assert not any(event.is_fault for event in recorder.events)
        links.close()

    run(loop, main)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_send_that_consumes_the_signal_of_a_waiting_message_does_not_lose_it(
    loop: str, folder: str
) -> None:
    """The trap of the edge, made to happen: a message arrives while the loop is busy, then the busy code sends."""

    async def main() -> None:
        bench = Bench(folder)
        await bench.client.wait_ready(WAIT_S)
        bench.client.send(b"hello")
        await until(lambda: bool(bench.server_side.messages))
        routing_id = bench.server_side.peers[0].routing_id
        for number in range(1, 11):
            await asyncio.sleep(0.005)
            bench.server.send(routing_id, b"down")
            time.sleep(
                0.01
            )  # the I/O threads carry it over; libzmq looks at commands once a millisecond only
            bench.client.send(b"up")
            await until(lambda: len(bench.client_side.messages) == number)  # noqa: B023 - awaited at once
            await until(lambda: len(bench.server_side.messages) == number + 1)  # noqa: B023
            await asyncio.sleep(0.005)
            bench.client.send(b"up again")
            time.sleep(0.01)
            bench.server.send(routing_id, b"down again")
            await until(lambda: bench.server_side.messages[-1] == b"up again")
            await until(lambda: bench.client_side.messages[-1] == b"down again")
            bench.server_side.messages.pop()
            bench.client_side.messages.pop()
        bench.links.close()

    run(loop, main)


@pytest.mark.parametrize("loop", LOOPS)
def test_answers_sent_inside_the_callback(loop: str, folder: str) -> None:
    async def main() -> None:
        bench = Bench(folder)

        def echo(peer: Peer, data: bytes) -> None:
            bench.server.send(peer.routing_id, data)

        bench.server._on_message = echo
        await bench.client.wait_ready(WAIT_S)
        for number in range(500):
            for part in range(8):
                bench.client.send(b"%d.%d" % (number, part))
            await until(lambda: len(bench.client_side.messages) == 8 * (number + 1))  # noqa: B023 - awaited at once
        assert bench.client_side.messages == [b"%d.%d" % (n, p) for n in range(500) for p in range(8)]
        bench.links.close()

    run(loop, main)


@pytest.mark.parametrize("loop", LOOPS)
def test_an_exception_in_the_callback_does_not_end_the_reading(loop: str, folder: str) -> None:
    seen: list[bytes] = []

    async def main() -> None:
        bench = Bench(folder)

        def fragile(_peer: Peer, data: bytes) -> None:
            seen.append(data)
            if data == b"bad":
                raise ZeroDivisionError

        bench.server._on_message = fragile
        await bench.client.wait_ready(WAIT_S)
        bench.client.send(b"bad")
        bench.client.send(b"good")
        await until(lambda: seen == [b"bad", b"good"])
        bench.links.close()

    with pytest.raises(ZeroDivisionError):  # the loop's handler got it
        run(loop, main)
