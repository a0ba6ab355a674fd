"""control: exact bounds, descriptors, the end of the peer, on both kinds of loop."""

from __future__ import annotations

import array
import asyncio
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from browsercell.protocol.control import MAX_DESCRIPTORS, ControlLink, ControlPair, adopt
from browsercell.protocol.errors import Backpressure, FrameTooLarge, LocalMisuse, PeerUnreachable
from browsercell.protocol.limits import MAX_FROM_SUPERVISOR

from tests.protocol.shell import LOOPS, child, open_descriptors, run, until

BOUND = 1000


@pytest.fixture(scope="module", autouse=True)
def warm() -> None:
    """A loop's first run opens descriptors that the process keeps; they are no leak of ours."""

    async def nothing() -> None:
        sock, other = socket.socketpair()
        end = End(sock)
        await asyncio.sleep(0)
        end.link.close()
        other.close()

    for loop in LOOPS:
        run(loop, nothing)


class End:
    """One end with its records. `close_fds`: close what arrives, after noting what it was."""

    def __init__(
        self,
        sock: socket.socket,
        *,
        accept_fds: bool = False,
        max_send: int = BOUND,
        max_receive: int = BOUND,
        max_queue: int = 1 << 20,
        on_message: Callable[[bytes], None] | None = None,
    ) -> None:
        self.messages: list[bytes] = []
        self.fds: list[int] = []
        self.ends = 0
        self.hook = on_message
        self.link = ControlLink(
            sock,
            max_send=max_send,
            max_receive=max_receive,
            on_message=self._message,
            on_eof=self._eof,
            accept_fds=accept_fds,
            max_queue=max_queue,
        )

    def _message(self, data: bytes, fds: list[int]) -> None:
        self.messages.append(data)
        self.fds.extend(fds)
        if self.hook is not None:
            self.hook(data)

    def _eof(self) -> None:
        assert self.link.closed
        self.ends += 1


@contextmanager
def no_leak() -> Iterator[None]:
    before = open_descriptors()
    yield
    assert open_descriptors() == before


def pair() -> tuple[socket.socket, socket.socket]:
    parent, child_fd = ControlPair.make()
    assert not os.get_inheritable(child_fd)
    return parent, adopt(child_fd)


def send_fds(sock: socket.socket, data: bytes, fds: list[int]) -> None:
    sock.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))])


@pytest.mark.parametrize("loop", LOOPS)
def test_frames_both_ways_in_order(loop: str) -> None:
    async def main() -> None:
        a, b = (End(sock) for sock in pair())
        for number in range(200):
            a.link.send(b"a%d" % number)
            b.link.send(b"b%d" % number)
        await until(lambda: len(a.messages) == len(b.messages) == 200)
        assert b.messages == [b"a%d" % number for number in range(200)]
        assert a.messages == [b"b%d" % number for number in range(200)]
        a.link.close()
        a.link.close()
        await until(lambda: b.ends == 1)
        assert b.link.fault is None
        await asyncio.sleep(0.02)
        assert (a.ends, b.ends) == (0, 1)
        for end in (a, b):
            with pytest.raises(PeerUnreachable):
                end.link.send(b"x")

    with no_leak():
        run(loop, main)


def test_the_largest_frame_fits_at_once_and_one_byte_more_does_not() -> None:
    async def main() -> None:
        one, other = pair()
        a, b = End(one, max_send=MAX_FROM_SUPERVISOR), End(other, max_receive=MAX_FROM_SUPERVISOR)
        a.link.send(bytes(MAX_FROM_SUPERVISOR))
        assert a.link.queued_bytes == 0
        await until(lambda: b.messages == [bytes(MAX_FROM_SUPERVISOR)])
        with pytest.raises(FrameTooLarge):
            a.link.send(bytes(MAX_FROM_SUPERVISOR + 1))
        with pytest.raises(LocalMisuse):
            a.link.send(b"")
        with pytest.raises(LocalMisuse):
            a.link.send(b"x", [0] * (MAX_DESCRIPTORS + 1))
        with pytest.raises(LocalMisuse):
            a.link.send(b"x", [9999])
        a.link.close()
        b.link.close()

    run("uvloop", main)


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("accept_fds", [False, True])
@pytest.mark.parametrize("excess", [1, 50_000])
def test_an_oversize_frame_is_the_peers_violation(loop: str, accept_fds: bool, excess: int) -> None:
    async def main() -> None:
        one, raw = pair()
        a = End(one, accept_fds=accept_fds)
        raw.send(b"first")
        raw.send(bytes(BOUND))
        raw.send(bytes(BOUND + excess))
        raw.send(b"never read")
        await until(lambda: a.ends == 1)
        assert a.messages == [b"first", bytes(BOUND)]
        assert a.link.fault is not None
        assert "oversize" in str(a.link.fault)
        raw.close()

    with no_leak():
        run(loop, main)


@pytest.mark.parametrize("loop", LOOPS)
def test_descriptors_arrive_and_are_close_on_exec(loop: str) -> None:
    async def main() -> None:
        one, other = pair()
        a, b = End(one), End(other, accept_fds=True)
        reading, writing = os.pipe()
        a.link.send(b"pipe", [reading, writing])
        os.close(reading)
        os.close(writing)
        a.link.send(b"none")
        await until(lambda: b.messages == [b"pipe", b"none"])
        assert len(b.fds) == 2
        os.write(b.fds[1], b"through")
        assert os.read(b.fds[0], 100) == b"through"
        assert not any(os.get_inheritable(fd) for fd in b.fds)
        for fd in b.fds:
            os.close(fd)
        a.link.close()
        b.link.close()

    with no_leak():
        run(loop, main)


@pytest.mark.parametrize("loop", LOOPS)
def test_descriptors_to_a_link_that_takes_none_end_it_and_never_exist(loop: str) -> None:
    async def main() -> None:
        one, raw = pair()
        a = End(one)
        reading, writing = os.pipe()
        before = open_descriptors()
        send_fds(raw, b"surprise", [reading] * 5)
        os.close(reading)
        await until(lambda: a.ends == 1)
        assert a.messages == []
        assert "descriptors" in str(a.link.fault)
        assert open_descriptors() == before - 2  # `reading`, and the link's own socket
        with pytest.raises(
            BrokenPipeError
        ):  # no reader is left anywhere: the kernel discarded the descriptors
            os.write(writing, b"x")
        os.close(writing)
        raw.close()

    with no_leak():
        run(loop, main)


def test_more_descriptors_than_fit_end_the_link_and_leak_nothing() -> None:
    async def main() -> None:
        one, raw = pair()
        a = End(one, accept_fds=True)
        send_fds(raw, b"many", [raw.fileno()] * (MAX_DESCRIPTORS + 3))
        await until(lambda: a.ends == 1)
        assert a.messages == []
        assert a.fds == []
        assert a.link.fault is not None
        raw.close()

    with no_leak():
        run("uvloop", main)


def test_oversize_with_descriptors_leaks_nothing() -> None:
    async def main() -> None:
        one, raw = pair()
        a = End(one, accept_fds=True)
        send_fds(raw, bytes(BOUND + 1), [raw.fileno()])
        await until(lambda: a.ends == 1)
        assert a.link.fault is not None
        raw.close()

    with no_leak():
        run("uvloop", main)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_slow_reader_is_queued_for_in_order_then_backpressure(loop: str) -> None:
    async def main() -> None:
        one, raw = pair()
        a = End(one, max_queue=20_000)
        reading, writing = os.pipe()
        count = 0
        with pytest.raises(Backpressure):  # noqa: PT012 - which send is refused depends on the kernel's buffer
            while True:
                a.link.send(b"%06d" % count + bytes(900), [writing] if count % 100 == 0 else [])
                count += 1
        os.close(writing)
        assert 0 < a.link.queued_bytes <= 20_000
        raw.setblocking(False)
        seen: list[int] = []
        got: list[int] = []

        def drained() -> bool:
            try:
                data, fds, _, _ = socket.recv_fds(raw, 2000, 4)
            except BlockingIOError:
                return len(seen) == count
            seen.append(int(data[:6]))
            got.extend(fds)
            return len(seen) == count

        await until(drained)
        assert seen == list(range(count))
        assert len(got) == (count + 99) // 100
        assert a.link.queued_bytes == 0
        a.link.send(b"flows again")
        assert raw.recv(100) == b"flows again"
        for fd in got:
            os.close(fd)
        assert os.read(reading, 1) == b""  # the queue's duplicates of `writing` are closed as well
        os.close(reading)
        a.link.close()
        raw.close()

    with no_leak():
        run(loop, main)


def test_closing_with_queued_descriptors_closes_them() -> None:
    async def main() -> None:
        one, raw = pair()
        a = End(one, max_queue=20_000)
        with pytest.raises(Backpressure):  # noqa: PT012 - as above
            while True:
                a.link.send(bytes(900), [raw.fileno()])
        a.link.close()
        assert a.link.queued_bytes == 0
        raw.close()

    with no_leak():
        run("uvloop", main)


@pytest.mark.parametrize("loop", LOOPS)
def test_the_peer_goes_while_frames_are_queued(loop: str) -> None:
    async def main() -> None:
        one, raw = pair()
        a = End(one, max_queue=20_000)
        with pytest.raises(Backpressure):  # noqa: PT012 - as above
            while True:
                a.link.send(bytes(900))
        raw.close()
        await until(lambda: a.ends == 1)
        assert a.link.fault is None
        await asyncio.sleep(0.02)
        assert a.ends == 1

    with no_leak():
        run(loop, main)


@pytest.mark.parametrize("loop", LOOPS)
def test_what_the_peer_sent_before_its_end_is_read_first(loop: str) -> None:
    async def main() -> None:
        one, raw = pair()
        a = End(one)
        for number in range(150):
            raw.send(b"%d" % number)
        raw.close()
        with pytest.raises(PeerUnreachable):
            a.link.send(b"into the void")
        assert a.ends == 0  # never inside `send`
        await until(lambda: a.ends == 1)
        assert a.messages == [b"%d" % number for number in range(150)]

    with no_leak():
        run(loop, main)


def test_an_empty_datagram_is_the_end() -> None:
    async def main() -> None:
        one, raw = pair()
        a = End(one, accept_fds=True)
        send_fds(raw, b"", [raw.fileno()])
        await until(lambda: a.ends == 1)
        assert a.messages == []
        raw.close()

    with no_leak():
        run("uvloop", main)


def test_closing_inside_the_callback_is_final() -> None:
    async def main() -> None:
        one, raw = pair()
        a = End(one, on_message=lambda _data: a.link.close())
        raw.send(b"one")
        raw.send(b"two")
        await until(lambda: a.messages == [b"one"])
        await asyncio.sleep(0.02)
        assert a.messages == [b"one"]
        assert a.ends == 0
        raw.close()

    run("uvloop", main)


def test_an_exception_in_the_callback_does_not_end_the_reading() -> None:
    seen: list[bytes] = []

    def fragile(data: bytes) -> None:
        seen.append(data)
        if data == b"bad":
            raise ZeroDivisionError

    async def main() -> None:
        one, raw = pair()
        a = End(one, on_message=fragile)
        raw.send(b"bad")
        raw.send(b"good")
        await until(lambda: seen == [b"bad", b"good"])
        raw.close()
        await until(lambda: a.ends == 1)

    with pytest.raises(ZeroDivisionError):
        run("uvloop", main)


def test_the_death_of_a_child_is_an_end_of_file() -> None:
    code = "import socket, sys; s = socket.socket(fileno=int(sys.argv[1])); s.send(b'alive'); s.recv(9)"

    async def main() -> None:
        import subprocess
        import sys

        parent, child_fd = ControlPair.make()
        process = subprocess.Popen([sys.executable, "-c", code, str(child_fd)], pass_fds=[child_fd])
        os.close(child_fd)
        a = End(parent)
        await until(lambda: a.messages == [b"alive"])
        process.kill()
        process.wait()
        await until(lambda: a.ends == 1)
        assert a.link.fault is None

    with no_leak():
        run("uvloop", main)


def test_adopt_refuses_anything_else() -> None:
    reading, writing = os.pipe()
    stream, other = socket.socketpair()
    with pytest.raises(LocalMisuse):
        adopt(reading)
    with pytest.raises(LocalMisuse):
        adopt(stream.fileno())
    for fd in (reading, writing):
        os.close(fd)
    stream.close()
    other.close()


def test_a_child_that_inherits_nothing_sees_nothing() -> None:
    """Both ends are close-on-exec: without pass_fds a child does not hold the link open."""
    parent, child_fd = ControlPair.make()
    with child("import sys; print('up', flush=True); sys.stdin.read()") as process:
        assert process.stdout is not None
        process.stdout.readline()
        os.close(child_fd)
        parent.setblocking(False)
        assert parent.recv(1) == b""
    parent.close()
