"""Hostile, foolish and dying hosts against the running product: each loses its own session, nobody else notices."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import zmq
from browsercell.protocol import frames as f
from browsercell.protocol import limits as L
from browsercell.protocol.codec import Decoder, encode
from browsercell.protocol.errors import Unavailable, UsageError
from browsercell.protocol.frames import HostProgress
from browsercell.protocol.links import Link, frame_types
from browsercell.protocol.places import host_socket
from browsercell.protocol.results import BrowserDelegateResult, Status
from browsercell.supervisor.demo.server import Bookshop
from browsercell.supervisor.hosts import MAX_SESSIONS

from tests.protocol import zmtp
from tests.support import chaos
from tests.support.chaos import HELD, HELD_CALLS, Product, running_calls

NOBODY = 65534
ANSWER_MS = 5_000
GROWTH = 8 * L.MIB  # of the supervisor, whatever its hosts do

HOST = """
import sys
from browsercell.protocol.client import Client
from tests.support.chaos import HELD, running_calls
def on_progress(progress):
    if running_calls(progress) == 1:
        print("waiting", flush=True)
with Client(runtime_folder=sys.argv[1]) as client:
    client.delegate("Wait", browser="private", playbook=HELD, variables={"site": sys.argv[2]}, on_progress=on_progress)
"""


class Neighbour:
    """A task of another session that waits all the time; `finish` lets it go and wants it completed."""

    def __init__(self, product: Product, shop: Bookshop) -> None:
        self._product, self._shop = product, shop
        self._results: list[BrowserDelegateResult] = []
        self._waits = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._waits.wait(40), "the neighbour's task never waited"

    def _run(self) -> None:
        def on_progress(progress: HostProgress) -> None:
            if running_calls(progress) == HELD_CALLS:
                self._waits.set()

        with self._product.client() as client:
            self._results.append(
                client.delegate(
                    "Wait", browser="private", playbook=HELD, variables={"site": self._shop.url},
                    on_progress=on_progress, timeout=90,
                )
            )  # fmt: skip

    def finish(self) -> None:
        self._shop.release()
        self._thread.join(30)
        assert self._results[0].status is Status.COMPLETED, chaos.described(self._results[0])


@pytest.fixture(scope="module")
def product() -> Iterator[Product]:
    with Product() as product:
        yield product


@contextlib.contextmanager
def raw_host(product: Product) -> Iterator[Any]:
    """A DEALER on the host link that sends what it likes."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    link = context.socket(zmq.DEALER)
    link.linger = 0
    link.connect(f"ipc://{host_socket(str(product.runtime))}")
    try:
        yield link
    finally:
        link.close(0)
        context.term()


def answer(link: Any) -> f.Frame:
    assert link.poll(ANSWER_MS), "no answer"
    decoder: Decoder[Any] = Decoder(frame_types(Link.SUPERVISOR_TO_HOST), L.MAX_HOST_FRAME)
    frame: f.Frame = decoder.decode(link.recv())
    return frame


OPEN = encode(f.OpenSession(L.WIRE_VERSION), L.MAX_HOST_FRAME)
CALL = encode(f.HostCall(1, "browser_status", b"{}"), L.MAX_HOST_FRAME)


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        ([bytes([OPEN[0]]) + b"\xc1garbage"], "protocol-violation"),
        ([bytes([OPEN[0]])], "protocol-violation"),
        ([bytes([OPEN[0] + 1]) + OPEN[1:]], "wrong-version"),
        ([encode(f.OpenSession(99), L.MAX_HOST_FRAME)], "wrong-version"),
        ([CALL], "protocol-violation"),  # before the session is open
        ([OPEN, OPEN], "protocol-violation"),
        ([OPEN, CALL, CALL], "protocol-violation"),  # a call id twice
        (
            [encode(f.Sealed(f.SealReport(f.SandboxLevel.CONTAINED, ())), L.MAX_HOST_FRAME)],
            "protocol-violation",
        ),
    ],
    ids=["garbage", "empty", "version-byte", "version", "phase", "open-twice", "replayed", "a-workers-frame"],
)
def test_broken_protocol(product: Product, sent: list[bytes], code: str) -> None:
    with raw_host(product) as link:
        for data in sent:
            link.send(data)
        while True:
            frame = answer(link)
            if isinstance(frame, f.HostFault):
                break
        assert (frame.call, frame.code) == (0, code)
        link.send(CALL)  # it is not argued with: nothing comes any more
        assert not link.poll(300)
    assert product.is_idle()


def test_huge_and_endless_frames(product: Product) -> None:
    """Cut off, and the supervisor does not grow."""
    before = chaos.resident(product.pid)
    path = host_socket(str(product.runtime))
    for data in (
        b"\x02" + (1 << 30).to_bytes(8, "big") + b"x" * 1000,  # announces 1 GiB
        zmtp.frame(b"x" * (L.MAX_HOST_FRAME + 64 * 1024)),
    ):
        with zmtp.connect(path) as peer:
            with contextlib.suppress(OSError):
                peer.sendall(data)
            assert peer_closed(peer)
    with socket.socket(socket.AF_UNIX) as silent:
        silent.connect(path)
        silent.settimeout(10)
        assert peer_closed(silent)  # it never greeted
    assert chaos.resident(product.pid) - before < GROWTH
    assert product.is_idle()


def peer_closed(peer: socket.socket) -> bool:
    try:
        while peer.recv(65536):
            continue
    except ConnectionError:
        return True
    except TimeoutError:
        return False
    return True


def test_low_level_and_unknown_tools(product: Product) -> None:
    with product.client() as client:
        for tool in ("browser_page_click", "browser_page_observe", "browser_tab_open", "shell"):
            with pytest.raises(UsageError):
                client.call(tool, b"{}")
        assert client.status()["supervisor"]["state"] == "running"  # the session goes on
    with product.client(kind=f.SessionKind.CHILD) as child, pytest.raises(UsageError):
        child.delegate("From a child", browser="private", playbook=chaos.QUICK)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
def test_another_uid_gets_no_connection(product: Product) -> None:
    path = host_socket(str(product.runtime))
    pid = os.fork()
    if pid == 0:  # plain system calls only: the parent has threads
        code = 2
        try:
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            socket.socket(socket.AF_UNIX).connect(path)
            code = 0
        except PermissionError:
            code = 1
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1


def test_a_hundred_sessions(product: Product) -> None:
    """As many as there is room for, the others are told; room comes back."""
    with contextlib.ExitStack() as stack, Bookshop() as shop:
        opened, refused = [], []
        for _ in range(100):
            try:
                opened.append(stack.enter_context(product.client()))
            except Unavailable as error:
                refused.append(str(error))
        assert MAX_SESSIONS - 2 <= len(opened) <= MAX_SESSIONS
        assert len(refused) == 100 - len(opened)
        assert all("hosts are connected" in text for text in refused)
        for client in (opened[0], opened[-1]):
            assert client.status()["supervisor"]["state"] == "running"
        result = opened[1].delegate(
            "Open the shop", browser="private", playbook=chaos.QUICK, variables={"site": shop.url}
        )
        assert result.status is Status.COMPLETED, chaos.described(result)
    chaos.until("room for a session", lambda: can_open(product))


def can_open(product: Product) -> bool:
    try:
        product.client().close()
    except Unavailable:
        return False
    return True


def test_a_host_that_is_killed_takes_its_task_along(product: Product, chaos_runs: int) -> None:
    for _ in range(chaos_runs):
        with Bookshop() as shop, Bookshop() as other_shop:
            neighbour = Neighbour(product, other_shop)
            before = {row.pid for row in product.observer.processes() if row.task}
            host = subprocess.Popen(
                [sys.executable, "-c", HOST, str(product.runtime), shop.url], stdout=subprocess.PIPE
            )
            assert host.stdout is not None
            try:
                assert host.stdout.readline() == b"waiting\n"
                rows = [row for row in product.observer.processes() if row.task and row.pid not in before]
                assert {row.role for row in rows} == {"worker", "chromium"}
                product.record()
                theirs = frozenset(one for row in rows for one in chaos.family(row.pid))
            finally:
                host.send_signal(signal.SIGKILL)
                host.wait(5)
                host.stdout.close()
            chaos.none_left("processes of the dead host's task", partial(chaos.survivors, theirs))
            neighbour.finish()
            product.assert_only_the_living(theirs)


def test_everything_at_once_beside_a_task(product: Product) -> None:
    with Bookshop() as shop:
        neighbour = Neighbour(product, shop)
        before = chaos.resident(product.pid)
        for _ in range(20):
            with raw_host(product) as link:
                link.send(os.urandom(1000))
                link.send_multipart([b"a"] * 500)
                link.send(OPEN)
        assert chaos.resident(product.pid) - before < GROWTH
        neighbour.finish()
    product.until_idle()
