"""transport_blocking: the worker's two links, with deadlines, and without asyncio."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest
import zmq
from browsercell.protocol.errors import (
    Backpressure,
    FrameTooLarge,
    LocalMisuse,
    PeerUnreachable,
    PeerViolation,
)
from browsercell.protocol.transport_blocking import BlockingLinks, poll_all

from tests.protocol.shell import private_folder


@pytest.fixture
def folder() -> Iterator[str]:
    with private_folder() as path:
        yield path


@pytest.fixture
def links() -> Iterator[BlockingLinks]:
    made = BlockingLinks()
    yield made
    made.close()


class Router:
    """A plain server to talk to."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], path: str, **options: int) -> None:
        self.path = path
        self.socket = context.socket(zmq.ROUTER)
        self.socket.setsockopt(zmq.RCVTIMEO, 5000)
        for name, value in options.items():
            self.socket.setsockopt(getattr(zmq, name), value)
        self.socket.bind(f"ipc://{path}")

    def receive(self) -> list[bytes]:
        return self.socket.recv_multipart()


@pytest.fixture
def context() -> Iterator[zmq.Context[zmq.Socket[bytes]]]:
    made: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    yield made
    made.destroy(0)


def test_importing_it_imports_no_asyncio() -> None:
    code = (
        "import sys, browsercell.protocol.transport_blocking; "
        "sys.exit(any(n == 'asyncio' or n.startswith('asyncio.') for n in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0


def test_round_trip_and_poll_of_two(
    folder: str, context: zmq.Context[zmq.Socket[bytes]], links: BlockingLinks
) -> None:
    one, two = Router(context, f"{folder}/1"), Router(context, f"{folder}/2")
    page = links.connect(one.path, max_message=1000)
    model = links.connect(two.path, max_message=1000)
    page.wait_ready(5000)
    model.wait_ready(5000)
    page.send(b"tool", 1000)
    model.send(b"surface", 1000)
    name_one, data = one.receive()
    assert data == b"tool"
    name_two, data = two.receive()
    assert data == b"surface"
    assert poll_all([page, model], 10) == []
    assert model.take() is None
    two.socket.send_multipart([name_two, b"completion"])
    assert poll_all([page, model], 5000) == [model]
    assert model.take() == b"completion"
    one.socket.send_multipart([name_one, b"a"])
    one.socket.send_multipart([name_one, b"b"])
    assert page.receive(5000) == b"a"
    assert page.receive(5000) == b"b"
    assert not page.lost


def test_waits_have_deadlines(
    folder: str, context: zmq.Context[zmq.Socket[bytes]], links: BlockingLinks
) -> None:
    router = Router(context, f"{folder}/s")
    link = links.connect(router.path, max_message=1000)
    link.wait_ready(5000)
    started = time.monotonic()
    assert link.receive(50) is None
    assert poll_all([link], 50) == []
    assert 0.1 <= time.monotonic() - started < 2.0


def test_nobody_there(folder: str, links: BlockingLinks) -> None:
    link = links.connect(f"{folder}/none", max_message=1000)
    with pytest.raises(PeerUnreachable):
        link.wait_ready(5000)
    assert link.lost
    with pytest.raises(PeerUnreachable):
        link.send(b"x", 1000)
    with pytest.raises(PeerUnreachable):
        link.receive(1000)
    assert poll_all([link], 1000) == [link]


def test_a_server_that_never_answers(folder: str, links: BlockingLinks) -> None:
    import socket

    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(f"{folder}/s")
        silent.listen()
        link = links.connect(f"{folder}/s", max_message=1000)
        with pytest.raises(PeerUnreachable, match="in time"):
            link.wait_ready(100)
        with pytest.raises(PeerUnreachable):
            link.send(b"x", 50)


def test_slow_reader_is_backpressure_at_the_deadline_and_nothing_is_lost(
    folder: str, context: zmq.Context[zmq.Socket[bytes]], links: BlockingLinks
) -> None:
    router = Router(context, f"{folder}/s", RCVHWM=10)
    link = links.connect(router.path, max_message=100_000, high_water=10)
    link.wait_ready(5000)
    accepted = 0
    with pytest.raises(Backpressure):  # noqa: PT012 - which send is refused is not known
        while True:
            link.send(b"%06d" % accepted + bytes(50_000), 50)
            accepted += 1
    # Room made while it waits lets a send go through before its deadline.
    thread = threading.Timer(0.1, lambda: [router.receive() for _ in range(accepted)])
    thread.start()
    link.send(b"%06d" % accepted, 5000)
    thread.join()
    assert router.receive()[1] == b"%06d" % accepted


def test_losing_the_server_wakes_a_waiter_and_is_final(
    folder: str, context: zmq.Context[zmq.Socket[bytes]], links: BlockingLinks
) -> None:
    router = Router(context, f"{folder}/s")
    link = links.connect(router.path, max_message=1000)
    link.wait_ready(5000)
    link.send(b"hello", 1000)
    name, _ = router.receive()
    router.socket.send_multipart([name, b"last words"])
    assert link.receive(5000) == b"last words"
    threading.Timer(0.1, lambda: router.socket.close(0)).start()
    started = time.monotonic()
    with pytest.raises(PeerUnreachable):
        link.receive(10_000)
    assert time.monotonic() - started < 5.0
    with pytest.raises(PeerUnreachable):
        link.send(b"x", 1000)
    assert link.lost


def test_last_words_are_taken_before_the_loss_is_told(
    folder: str, context: zmq.Context[zmq.Socket[bytes]], links: BlockingLinks
) -> None:
    for attempt in range(10):
        router = Router(context, f"{folder}/{attempt}", LINGER=1000)
        link = links.connect(router.path, max_message=1000)
        link.wait_ready(5000)
        link.send(b"hello", 1000)
        name, _ = router.receive()
        for number in range(20):
            router.socket.send_multipart([name, b"%d" % number])
        router.socket.close()
        heard = []
        with pytest.raises(PeerUnreachable):  # noqa: PT012 - after how many messages is the question
            while True:
                heard.append(link.receive(5000))
        assert heard == [b"%d" % number for number in range(20)]


@pytest.mark.parametrize("parts", [[b"a", b"b"], [bytes(1001)]])
def test_a_server_that_breaks_the_protocol_ends_the_link(
    parts: list[bytes], folder: str, context: zmq.Context[zmq.Socket[bytes]], links: BlockingLinks
) -> None:
    router = Router(context, f"{folder}/s")
    link = links.connect(router.path, max_message=1000)
    link.wait_ready(5000)
    link.send(b"hello", 1000)
    name, _ = router.receive()
    router.socket.send_multipart([name, *parts])
    with pytest.raises(PeerViolation):
        link.receive(5000)
    assert link.lost
    with pytest.raises(PeerUnreachable):
        link.take()
    with pytest.raises(PeerUnreachable):
        link.send(b"x", 100)
    assert poll_all([link], 1000) == [link]


def test_bounds_of_what_is_sent(
    folder: str, context: zmq.Context[zmq.Socket[bytes]], links: BlockingLinks
) -> None:
    router = Router(context, f"{folder}/s")
    link = links.connect(router.path, max_message=1000, max_send=10)
    link.wait_ready(5000)
    with pytest.raises(FrameTooLarge):
        link.send(b"x" * 11, 100)
    with pytest.raises(LocalMisuse):
        link.send(b"", 100)
    link.send(b"x" * 10, 100)
    assert router.receive()[1] == b"x" * 10


def test_closing_is_quick_and_repeatable(folder: str, context: zmq.Context[zmq.Socket[bytes]]) -> None:
    router = Router(context, f"{folder}/s")
    links = BlockingLinks()
    link = links.connect(router.path, max_message=1000)
    link.wait_ready(5000)
    link.send(bytes(1000), 100)
    before = time.monotonic()
    link.close()
    link.close()
    links.close()
    assert time.monotonic() - before < 1.0
    assert os.path.exists(router.path)
