"""transport: what hostile, dying and foreign peers do to a link (facts/ipc 1.4), each tried with a real process."""

from __future__ import annotations

import asyncio
import os
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from browsercell.protocol.transport import LinkEvent, LinkEventKind, Links, ServerLink
from browsercell.protocol.transport_base import OVERSIZE_SLACK

from tests.protocol import zmtp
from tests.protocol.shell import (
    LOOPS,
    WAIT_S,
    Recorder,
    child,
    new_links,
    open_descriptors,
    private_folder,
    resident_mib,
    run,
    until,
)

KIB = 1024
MIB = 1024 * KIB
NOBODY = 65534
FLOOD_MIB = 64

SENDER = """
import sys, zmq
context = zmq.Context(); context.linger = 0
link = context.socket(zmq.DEALER); link.connect("ipc://" + sys.argv[1])
link.send_multipart([part.encode() for part in sys.argv[2].split(",")])
sys.stdin.read()
"""


@pytest.fixture
def folder() -> Iterator[str]:
    with private_folder() as path:
        yield path


def serve(
    links: Links,
    recorder: Recorder,
    path: str,
    *,
    pid: int | None = None,
    uid: int | None = None,
    max_message: int = 1000,
    handshake_ms: int = 2000,
    owner_uid: int | None = None,
    high_water: int = 64,
) -> ServerLink:
    return links.serve(
        path,
        recorder.on_message,
        recorder.on_event,
        expect_pid=pid,
        expect_uid=uid,
        max_message=max_message,
        handshake_ms=handshake_ms,
        owner_uid=owner_uid,
        high_water=high_water,
    )


@contextmanager
def forked(uid: int, work: Callable[[], None]) -> Iterator[int]:
    """A forked process of another uid that runs `work`; killed at the end. Fork before any ZeroMQ context exists.

    A fork, not an exec: the other user may be unable to read our interpreter. It exits 0 if `work` returned,
    1 on PermissionError, 2 on anything else.
    """
    pid = os.fork()
    if pid == 0:
        code = 2
        try:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            work()
            code = 0
        except PermissionError:
            code = 1
        finally:
            os._exit(code)
    try:
        yield pid
    finally:
        with suppress(ProcessLookupError, ChildProcessError):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


@pytest.mark.parametrize("loop", LOOPS)
def test_wrong_pid_is_reported_and_never_delivered(loop: str, folder: str) -> None:
    async def main() -> None:
        links, recorder = new_links(), Recorder()
        server = serve(links, recorder, f"{folder}/s", pid=os.getpid(), uid=os.getuid())
        with child(SENDER, server.path, "intruder") as process:
            event = await recorder.event(LinkEventKind.WRONG_PID)
            assert event == LinkEvent(LinkEventKind.WRONG_PID, process.pid, os.getuid())
            assert event.is_fault
            assert recorder.messages == []
            server.set_expected(process.pid, os.getuid())
            with child(SENDER, server.path, "another"):
                await until(lambda: recorder.kinds().count(LinkEventKind.WRONG_PID) == 2)
        assert recorder.messages == []
        links.close()

    run(loop, main)


def test_the_expected_pid_is_delivered_and_others_beside_it_are_not(folder: str) -> None:
    async def main() -> None:
        links, recorder = new_links(), Recorder()
        server = serve(links, recorder, f"{folder}/s", pid=1)
        server.pause()
        with child(SENDER, server.path, "right") as right, child(SENDER, server.path, "wrong") as wrong:
            await until(lambda: recorder.kinds().count(LinkEventKind.READY) == 2)
            server.set_expected(right.pid, os.getuid())
            server.resume()
            event = await recorder.event(LinkEventKind.WRONG_PID)
            await until(lambda: recorder.messages == [b"right"])
            assert event.pid == wrong.pid
            assert recorder.peers[0].pid == right.pid
        links.close()

    run("uvloop", main)


def test_wrong_uid_is_reported_and_never_delivered(folder: str) -> None:
    async def main() -> None:
        links, recorder = new_links(), Recorder()
        server = serve(links, recorder, f"{folder}/s", uid=os.getuid() + 1)
        with child(SENDER, server.path, "intruder") as process:
            event = await recorder.event(LinkEventKind.WRONG_UID)
            assert event == LinkEvent(LinkEventKind.WRONG_UID, process.pid, os.getuid())
        assert recorder.messages == []
        links.close()

    run("uvloop", main)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_a_worker_of_its_own_uid_connects_and_a_stranger_does_not(folder: str) -> None:
    """The layout of design 2, rule 2: the parent 0711, the worker's folder 0700 and its own."""
    os.chmod(folder, 0o711)
    inner = f"{folder}/w"
    os.mkdir(inner, 0o700)
    os.chown(inner, NOBODY, NOBODY)
    path = f"{inner}/s"

    def speak() -> None:
        while not os.path.exists(path):
            time.sleep(0.005)
        time.sleep(0.1)  # between bind and chown the socket is still root's
        sock = zmtp.connect(path)
        sock.sendall(zmtp.frame(b"hello"))
        time.sleep(30)

    def intrude() -> None:
        time.sleep(0.3)
        zmtp.connect(path)

    async def main() -> None:
        links, recorder = new_links(), Recorder()
        server = serve(links, recorder, path, pid=worker, uid=NOBODY, owner_uid=NOBODY)
        await until(lambda: recorder.messages == [b"hello"])
        assert (recorder.peers[0].pid, recorder.peers[0].uid) == (worker, NOBODY)
        server.set_expected(worker, 12345)
        with child(SENDER, path, "root"):
            assert await recorder.event(LinkEventKind.WRONG_UID)
        assert recorder.messages == [b"hello"]
        _, status = await asyncio.to_thread(os.waitpid, stranger, 0)
        assert os.waitstatus_to_exitcode(status) == 1  # PermissionError
        links.close()

    with forked(NOBODY, speak) as worker, forked(NOBODY - 1, intrude) as stranger:
        run("uvloop", main)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_another_user_cannot_reach_our_own_socket(folder: str) -> None:
    os.chmod(folder, 0o700)
    path = f"{folder}/s"

    def intrude() -> None:
        time.sleep(0.2)
        zmtp.connect(path)

    async def main() -> None:
        links, recorder = new_links(), Recorder()
        serve(links, recorder, path)
        _, status = await asyncio.to_thread(os.waitpid, stranger, 0)
        assert os.waitstatus_to_exitcode(status) == 1
        assert recorder.events == []
        links.close()

    with forked(NOBODY, intrude) as stranger:
        run("uvloop", main)


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("parts", [2, 200])
def test_multipart_is_dropped_whole_and_the_next_message_read(loop: str, parts: int, folder: str) -> None:
    async def main() -> None:
        links, recorder = new_links(), Recorder()
        server = serve(links, recorder, f"{folder}/s")
        sock = zmtp.connect(server.path)
        body = b"".join(zmtp.frame(b"part%d" % number, zmtp.MORE) for number in range(parts - 1))
        sock.sendall(body + zmtp.frame(b"end") + zmtp.frame(b"single"))
        await until(lambda: recorder.messages == [b"single"])
        faults = [event for event in recorder.events if event.is_fault]
        assert faults == [LinkEvent(LinkEventKind.MULTIPART, os.getpid(), os.getuid())]
        sock.close()
        links.close()

    run(loop, main)


def test_a_server_that_sends_parts_is_reported_by_the_client_too(folder: str) -> None:
    code = """
import sys, zmq
context = zmq.Context(); router = context.socket(zmq.ROUTER); router.linger = 0; router.bind("ipc://" + sys.argv[1])
print("bound", flush=True)
name, _ = router.recv_multipart(); router.send_multipart([name, b"a", b"b"]); router.send_multipart([name, b"whole"])
sys.stdin.read()
"""

    async def main() -> None:
        links, recorder = new_links(), Recorder()
        with child(code, f"{folder}/s") as process:
            assert process.stdout is not None
            process.stdout.readline()
            client = links.connect(
                f"{folder}/s",
                recorder.on_message,
                recorder.on_event,
                max_message=100,
                expect_server_pid=process.pid,
                expect_server_uid=os.getuid(),
            )
            await client.wait_ready(WAIT_S)
            client.send(b"hello")
            await until(lambda: recorder.messages == [b"whole"])
            assert LinkEvent(LinkEventKind.MULTIPART, process.pid, os.getuid()) in recorder.events
            client.set_expected(process.pid + 1, os.getuid())
        await recorder.event(LinkEventKind.DISCONNECTED)
        links.close()

    run("uvloop", main)


def test_a_server_of_another_pid_is_reported_by_the_client(folder: str) -> None:
    async def main() -> None:
        links, server_side, client_side = new_links(), Recorder(), Recorder()
        server = serve(links, server_side, f"{folder}/s")
        client = links.connect(
            server.path, client_side.on_message, client_side.on_event, max_message=100, expect_server_pid=1
        )
        await client.wait_ready(WAIT_S)
        client.send(b"hello")
        await until(lambda: bool(server_side.peers))
        server.send(server_side.peers[0].routing_id, b"trust me")
        event = await client_side.event(LinkEventKind.WRONG_PID)
        assert event.pid == os.getpid()
        assert client_side.messages == []
        links.close()

    run("uvloop", main)


def test_a_little_oversize_is_named_with_its_pid(folder: str) -> None:
    async def main() -> None:
        links, recorder = new_links(), Recorder()
        server = serve(links, recorder, f"{folder}/s", max_message=1000)
        sock = zmtp.connect(server.path)
        sock.sendall(zmtp.frame(bytes(1001)) + zmtp.frame(bytes(1000)))
        await until(lambda: recorder.messages == [bytes(1000)])
        assert LinkEvent(LinkEventKind.OVERSIZE, os.getpid(), os.getuid()) in recorder.events
        sock.close()
        links.close()

    run("uvloop", main)


@pytest.mark.parametrize("size", [1000 + OVERSIZE_SLACK + 1, 1 << 30, 1 << 62])
def test_a_huge_announcement_is_cut_off_and_the_others_go_on(size: int, folder: str) -> None:
    async def main() -> None:
        links, honest_side, recorder = new_links(), Recorder(), Recorder()
        server = serve(links, recorder, f"{folder}/s", max_message=1000)
        honest = links.connect(server.path, honest_side.on_message, honest_side.on_event, max_message=1000)
        await honest.wait_ready(WAIT_S)
        before = resident_mib()
        sock = zmtp.connect(server.path)
        sock.sendall(bytes([zmtp.LONG]) + struct.pack(">Q", size) + b"x" * 10)
        await recorder.event(LinkEventKind.DISCONNECTED)
        assert sock.recv(1) == b""
        assert resident_mib() - before < 16
        honest.send(b"still here")
        await until(lambda: recorder.messages == [b"still here"])
        sock.close()
        links.close()

    run("uvloop", main)


@pytest.mark.parametrize("first", [b"", b"\xff", zmtp.GREETING])
def test_silent_and_foreign_peers_are_cut_off_in_time(first: bytes, folder: str) -> None:
    async def main() -> None:
        links, recorder = new_links(), Recorder()
        server = serve(links, recorder, f"{folder}/s", handshake_ms=200)
        sock = zmtp.connect(server.path, handshake=False)
        started = time.monotonic()
        sock.sendall(first)
        event = await recorder.event(LinkEventKind.HANDSHAKE_FAILED)
        assert time.monotonic() - started < 2.0
        assert (event.pid, event.uid) == (None, None)
        await recorder.event(LinkEventKind.DISCONNECTED)
        assert recorder.messages == []
        sock.close()
        links.close()

    run("uvloop", main)


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("part_bytes", [256 * KIB, 4 * KIB])  # glibc gives back the large ones by itself
def test_endless_multipart_delivers_nothing_and_close_frees_it(
    loop: str, part_bytes: int, folder: str
) -> None:
    """The flood that no ZeroMQ bound stops: the reader's memory grows, `close` gives it back at once. In a process of its
    own: this one's allocator has seen thousands of tests and keeps what it likes."""
    ended = subprocess.run(
        [sys.executable, "-m", "tests.protocol.flooded", loop, str(part_bytes), folder],
        cwd=Path(__file__).resolve().parents[2],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr


def test_a_finished_flood_of_parts_is_one_fault_and_does_not_block_the_loop(folder: str) -> None:
    async def main() -> None:
        links, recorder = new_links(), Recorder()
        server = serve(links, recorder, f"{folder}/s")
        sock = zmtp.connect(server.path)
        thread = threading.Thread(
            target=sock.sendall,
            args=(zmtp.frame(b"x", zmtp.MORE) * 100_000 + zmtp.frame(b"y") + zmtp.frame(b"z"),),
        )
        thread.start()
        longest, last = 0.0, time.monotonic()
        while not recorder.messages:
            await asyncio.sleep(0)
            now = time.monotonic()
            longest, last = max(longest, now - last), now
            assert now < last + WAIT_S
        thread.join()
        assert recorder.messages == [b"z"]
        assert [event.kind for event in recorder.events if event.is_fault] == [LinkEventKind.MULTIPART]
        assert longest < 0.5  # 64 parts a turn, with room for a busy machine
        sock.close()
        links.close()

    run("uvloop", main)


@pytest.mark.parametrize("loop", LOOPS)
def test_killed_in_the_middle_of_a_message(loop: str, folder: str) -> None:
    code = """
import sys, zmq
context = zmq.Context(); context.linger = 0
link = context.socket(zmq.DEALER); link.connect("ipc://" + sys.argv[1])
link.send(b"first"); link.recv(); link.send(bytes(200 << 20)); sys.stdin.read()
"""

    async def main() -> None:
        links, recorder, honest_side = new_links(), Recorder(), Recorder()
        server = serve(links, recorder, f"{folder}/s", max_message=256 * MIB)
        honest = links.connect(server.path, honest_side.on_message, honest_side.on_event, max_message=1000)
        await honest.wait_ready(WAIT_S)
        with child(code, server.path) as process:
            await until(lambda: recorder.messages == [b"first"])
            before = resident_mib()
            server.send(recorder.peers[0].routing_id, b"go")
            await until(lambda: resident_mib() - before > 8 or len(recorder.messages) > 1)
            os.kill(process.pid, signal.SIGKILL)
            await recorder.event(LinkEventKind.DISCONNECTED)
        if len(recorder.messages) > 1:  # it was quicker than the kill: then whole
            assert [len(data) for data in recorder.messages] == [5, 200 * MIB]
        honest.send(b"other peer")
        await until(lambda: recorder.messages[-1] == b"other peer")
        links.close()

    run(loop, main)


def test_connection_storm_leaks_no_descriptor_and_does_not_stall(folder: str) -> None:
    async def main() -> None:
        links, recorder = new_links(), Recorder()
        server = serve(links, recorder, f"{folder}/s")
        before = open_descriptors()
        made = 0
        for _ in range(300):
            with suppress(
                BlockingIOError
            ):  # the kernel's queue of connections is full: that one is not counted
                zmtp.connect(server.path, handshake=False).close()
                made += 1
            await asyncio.sleep(0)
        assert made > 50
        await until(lambda: recorder.kinds().count(LinkEventKind.DISCONNECTED) == made)
        await until(lambda: open_descriptors() <= before)
        links.close()

    run("uvloop", main)


def test_closing_while_monitor_events_are_under_way(folder: str) -> None:
    """The I/O thread blocks in a full monitor with a lock held; closing must not wait for it for ever."""

    async def main() -> None:
        for attempt in range(20):
            links, recorder = new_links(), Recorder()
            server = serve(links, recorder, f"{folder}/{attempt}")
            for _ in range(30):
                with suppress(BlockingIOError):
                    zmtp.connect(server.path, handshake=False).close()
            links.close()

    run("uvloop", main)
