"""transport: delivery through the edge-triggered reader on both kinds of loop, and the closing of links."""

from __future__ import annotations

import asyncio
import os
import stat
import time
from collections.abc import Iterator

import pytest
from browsercell.protocol.errors import Backpressure, FrameTooLarge, LocalMisuse, PeerUnreachable
from browsercell.protocol.transport import LinkEvent, LinkEventKind, Peer, ServerLink

from tests.protocol import zmtp
from tests.protocol.shell import LOOPS, WAIT_S, Bench, Recorder, child, new_links, private_folder, run, until

KIB = 1024


@pytest.fixture
def folder() -> Iterator[str]:
    with private_folder() as path:
        yield path


@pytest.mark.parametrize("loop", LOOPS)
def test_round_trip_with_the_kernels_identity(loop: str, folder: str) -> None:
    async def main() -> None:
        bench = Bench(folder)
        await bench.client.wait_ready(WAIT_S)
        bench.client.send(b"question")
        await until(lambda: bool(bench.server_side.messages))
        peer = bench.server_side.peers[0]
        assert (peer.pid, peer.uid, peer.gid) == (os.getpid(), os.getuid(), os.getgid())
        bench.server.send(peer.routing_id, b"answer")
        await until(lambda: bench.client_side.messages == [b"answer"])
        assert bench.client_side.peers[0].pid == os.getpid()
        assert bench.server_side.kinds() == [LinkEventKind.ACCEPTED, LinkEventKind.READY]
        assert bench.client_side.kinds() == [LinkEventKind.READY]
        assert bench.client.ready
        bench.links.close()

    run(loop, main)


@pytest.mark.parametrize("loop", LOOPS)
def test_pause_reads_nothing_and_resume_everything(loop: str, folder: str) -> None:
    async def main() -> None:
        links = new_links()
        recorder = Recorder()
        server = links.serve(
            f"{folder}/s",
            recorder.on_message,
            recorder.on_event,
            expect_pid=None,
            expect_uid=None,
            max_message=100,
            paused=True,
        )
        client = links.connect(server.path, recorder.on_message, recorder.on_event, max_message=100)
        await client.wait_ready(WAIT_S)
        for number in range(40):
            client.send(b"%d" % number)
        await asyncio.sleep(0.1)
        assert recorder.messages == []
        assert LinkEventKind.ACCEPTED in recorder.kinds()
        before = time.process_time()
        await asyncio.sleep(0.2)
        assert time.process_time() - before < 0.1  # a watched, unread descriptor would spin the loop
        server.set_expected(os.getpid(), os.getuid())
        server.resume()
        await until(lambda: len(recorder.messages) == 40)
        assert recorder.messages == [b"%d" % number for number in range(40)]
        server.pause()
        client.send(b"later")
        await asyncio.sleep(0.05)
        assert len(recorder.messages) == 40
        server.resume()
        await until(lambda: recorder.messages[-1] == b"later")
        links.close()

    run(loop, main)


def test_pausing_inside_the_callback_stops_at_once(folder: str) -> None:
    async def main() -> None:
        bench = Bench(folder)
        seen: list[bytes] = []

        def once(_peer: Peer, data: bytes) -> None:
            seen.append(data)
            bench.server.pause()

        bench.server._on_message = once
        await bench.client.wait_ready(WAIT_S)
        for number in range(3):
            bench.client.send(b"%d" % number)
        await asyncio.sleep(0.1)
        assert seen == [b"0"]
        bench.server.resume()
        await until(lambda: seen == [b"0", b"1"])
        bench.links.close()

    run("uvloop", main)


@pytest.mark.parametrize("loop", LOOPS)
def test_no_callback_after_close(loop: str, folder: str) -> None:
    async def main() -> None:
        bench = Bench(folder)
        seen: list[bytes] = []

        def last(_peer: Peer, data: bytes) -> None:
            seen.append(data)
            bench.server.close()

        bench.server._on_message = last
        await bench.client.wait_ready(WAIT_S)
        for number in range(10):
            bench.client.send(b"%d" % number)
        await bench.client_side.event(LinkEventKind.DISCONNECTED)
        events = len(bench.server_side.events)
        await asyncio.sleep(0.05)
        assert seen == [b"0"]
        assert len(bench.server_side.events) == events
        assert not os.path.exists(bench.path)
        bench.server.close()
        bench.server.resume()
        with pytest.raises(PeerUnreachable):
            bench.server.send(b"x", b"y")
        bench.links.close()

    run(loop, main)


def test_bounds_of_what_is_sent(folder: str) -> None:
    async def main() -> None:
        bench = Bench(folder, max_message=100)
        await bench.client.wait_ready(WAIT_S)
        bench.client.send(b"x" * 100)
        await until(lambda: bool(bench.server_side.messages))
        routing_id = bench.server_side.peers[0].routing_id
        for send in (bench.client.send, lambda data: bench.server.send(routing_id, data)):
            with pytest.raises(FrameTooLarge):
                send(b"x" * 101)
            with pytest.raises(LocalMisuse):
                send(b"")
        bench.links.close()

    run("uvloop", main)


def test_a_dead_or_unknown_id_is_unreachable(folder: str) -> None:
    async def main() -> None:
        bench = Bench(folder)
        await bench.client.wait_ready(WAIT_S)
        bench.client.send(b"hello")
        await until(lambda: bool(bench.server_side.messages))
        routing_id = bench.server_side.peers[0].routing_id
        with pytest.raises(PeerUnreachable):
            bench.server.send(b"nobody", b"x")
        bench.client.close()
        await bench.server_side.event(LinkEventKind.DISCONNECTED)
        with pytest.raises(PeerUnreachable):
            bench.server.send(routing_id, b"x")
        bench.links.close()

    run("uvloop", main)


@pytest.mark.parametrize("loop", LOOPS)
def test_slow_consumer_is_backpressure_and_loses_nothing(loop: str, folder: str) -> None:
    async def main() -> None:
        bench = Bench(folder, high_water=10)
        await bench.client.wait_ready(WAIT_S)
        bench.client.send(b"hello")
        await until(lambda: bool(bench.server_side.messages))
        routing_id = bench.server_side.peers[0].routing_id
        bench.client.pause()
        accepted = 0
        with pytest.raises(Backpressure):  # noqa: PT012 - which send is refused is not known
            for _ in range(5000):
                bench.server.send(routing_id, b"%06d" % accepted + bytes(10_000))
                accepted += 1
                if accepted % 5 == 0:
                    await asyncio.sleep(0.001)
        assert accepted >= 10
        bench.client.resume()
        await until(lambda: len(bench.client_side.messages) == accepted)
        assert [int(data[:6]) for data in bench.client_side.messages] == list(range(accepted))
        # The other direction, from the dealer.
        bench.server.pause()
        before = len(bench.server_side.messages)
        accepted = 0
        with pytest.raises(Backpressure):  # noqa: PT012 - which send is refused is not known
            for _ in range(5000):
                bench.client.send(b"%06d" % accepted + bytes(10_000))
                accepted += 1
                if accepted % 5 == 0:
                    await asyncio.sleep(0.001)
        bench.server.resume()
        await until(lambda: len(bench.server_side.messages) == before + accepted)
        bench.links.close()

    run(loop, main)


@pytest.mark.parametrize("loop", LOOPS)
def test_last_words_come_before_the_end(loop: str, folder: str) -> None:
    """A peer that says something and closes at once is heard before its end is reported, every time."""

    async def main() -> None:
        links = new_links()
        for attempt in range(20):
            recorder = Recorder()
            server = links.serve(
                f"{folder}/{attempt}",
                recorder.on_message,
                recorder.on_event,
                expect_pid=None,
                expect_uid=None,
                max_message=1000,
            )
            sock = zmtp.connect(server.path)
            sock.sendall(b"".join(zmtp.frame(b"%d" % number) for number in range(60)))
            sock.close()
            await recorder.event(LinkEventKind.DISCONNECTED)
            assert recorder.messages == [b"%d" % number for number in range(60)]
            assert recorder.order[-1] == "disconnected"
        links.close()

    run(loop, main)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_client_hears_the_last_words_of_its_server(loop: str, folder: str) -> None:
    """What libzmq drops under IMMEDIATE must not be dropped here."""
    code = """
import sys, time, zmq
context = zmq.Context(); router = context.socket(zmq.ROUTER); router.linger = 1000
router.bind("ipc://" + sys.argv[1]); print("bound", flush=True)
name, _ = router.recv_multipart()
for number in range(20): router.send_multipart([name, b"%d" % number])
time.sleep(0.02)
"""

    async def main() -> None:
        links = new_links()
        for attempt in range(4):
            recorder = Recorder()
            with child(code, f"{folder}/{attempt}") as process:
                assert process.stdout is not None
                process.stdout.readline()
                client = links.connect(
                    f"{folder}/{attempt}", recorder.on_message, recorder.on_event, max_message=100
                )
                await client.wait_ready(WAIT_S)
                client.pause()
                client.send(b"go")
                process.wait(WAIT_S)
                await asyncio.sleep(0.05)
                client.resume()
                await until(lambda: len(recorder.messages) == 20)  # noqa: B023 - awaited at once
                await recorder.event(LinkEventKind.DISCONNECTED)
                with pytest.raises(PeerUnreachable):
                    client.send(b"late")
        links.close()

    run(loop, main)


def test_connecting_to_nobody(folder: str) -> None:
    async def main() -> None:
        links = new_links()
        recorder = Recorder()
        client = links.connect(f"{folder}/none", recorder.on_message, recorder.on_event, max_message=10)
        with pytest.raises(PeerUnreachable):
            await client.wait_ready(WAIT_S)
        await recorder.event(LinkEventKind.CONNECT_FAILED)
        with pytest.raises(PeerUnreachable):
            client.send(b"x")
        patient = links.connect(
            f"{folder}/none", recorder.on_message, recorder.on_event, max_message=10, reconnect=True
        )
        with pytest.raises(PeerUnreachable):
            await patient.wait_ready(0.05)
        waiting = asyncio.ensure_future(patient.wait_ready(WAIT_S))
        await asyncio.sleep(0)
        patient.close()
        with pytest.raises(PeerUnreachable):
            await waiting
        with pytest.raises(PeerUnreachable):
            await patient.wait_ready(WAIT_S)
        with pytest.raises(PeerUnreachable):
            patient.send(b"x")
        links.close()

    run("uvloop", main)


@pytest.mark.parametrize("reconnect", [False, True])
def test_reconnecting_is_a_choice(reconnect: bool, folder: str) -> None:
    async def main() -> None:
        links = new_links()
        one, two, client_side = Recorder(), Recorder(), Recorder()

        def serve(recorder: Recorder) -> ServerLink:
            return links.serve(
                f"{folder}/s",
                recorder.on_message,
                recorder.on_event,
                expect_pid=None,
                expect_uid=None,
                max_message=10,
            )

        server = serve(one)
        client = links.connect(
            server.path, client_side.on_message, client_side.on_event, max_message=10, reconnect=reconnect
        )
        await client.wait_ready(WAIT_S)
        await client.wait_ready(WAIT_S)
        server.close()
        await client_side.event(LinkEventKind.DISCONNECTED)
        assert not client.ready
        with pytest.raises(PeerUnreachable):
            client.send(b"lost")
        serve(two)
        if reconnect:
            await client.wait_ready(WAIT_S)
            client.send(b"again")
            await until(lambda: two.messages == [b"again"])
        else:
            await asyncio.sleep(0.3)
            assert two.events == []
        links.close()

    run("uvloop", main)


def test_socket_file_is_private_and_paths_are_checked(folder: str) -> None:
    async def main() -> None:
        links = new_links()
        recorder = Recorder()

        def serve(path: str, owner_uid: int | None = None) -> ServerLink:
            return links.serve(
                path,
                recorder.on_message,
                recorder.on_event,
                expect_pid=None,
                expect_uid=None,
                max_message=10,
                owner_uid=owner_uid,
            )

        umask = os.umask(0)
        try:
            server = serve(f"{folder}/s")
        finally:
            os.umask(umask)
        assert stat.S_IMODE(os.stat(server.path).st_mode) & 0o077 == 0
        with pytest.raises(LocalMisuse, match="taken"):
            serve(f"{folder}/s")
        assert os.path.exists(server.path)  # the refusal removed nothing
        with pytest.raises(LocalMisuse, match="absolute"):
            serve("relative")
        with pytest.raises(LocalMisuse, match=r"has \d+ bytes, the kernel allows 107"):
            serve(f"{folder}/" + "é" * 60)
        with pytest.raises(LocalMisuse, match="can't be used"):
            serve(f"{folder}/missing/s")
        os.mkdir(f"{folder}/open", 0o755)
        with pytest.raises(LocalMisuse, match="open to other users"):
            serve(f"{folder}/open/s")
        os.symlink(folder, f"{folder}/link")
        with pytest.raises(LocalMisuse, match="not a directory"):
            serve(f"{folder}/link/x")
        if os.getuid() == 0:
            os.mkdir(f"{folder}/theirs", 0o700)
            os.chown(f"{folder}/theirs", 65534, 65534)
            with pytest.raises(LocalMisuse, match="another user"):
                serve(f"{folder}/theirs/s")
            given = serve(f"{folder}/theirs/s", owner_uid=65534)
            assert os.stat(given.path).st_uid == 65534
            assert stat.S_IMODE(os.stat(given.path).st_mode) & 0o077 == 0
        links.close()
        assert not os.path.exists(server.path)

    run("uvloop", main)


def test_closing_is_quick_and_final(folder: str) -> None:
    async def main() -> None:
        bench = Bench(folder)
        bench.server.pause()
        await bench.client.wait_ready(WAIT_S)
        for _ in range(50):
            bench.client.send(bytes(1000))
        before = time.monotonic()
        bench.links.close()
        assert time.monotonic() - before < 1.0
        bench.links.close()
        with pytest.raises(LocalMisuse):
            Bench.connect(bench, Recorder())

    run("asyncio", main)


def test_is_fault_names_what_the_peer_did_wrong() -> None:
    faults = {kind for kind in LinkEventKind if LinkEvent(kind).is_fault}
    assert faults == {
        LinkEventKind.HANDSHAKE_FAILED,
        LinkEventKind.WRONG_PID,
        LinkEventKind.WRONG_UID,
        LinkEventKind.MULTIPART,
        LinkEventKind.OVERSIZE,
    }
