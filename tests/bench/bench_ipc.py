"""Latency and throughput of our two links against the C socketpair floor of the same run (facts/ipc 1.3).

Each case: a client and a server process, pinned to different cores, both with uvloop and the product's own link;
the server echoes. Cases and floors are interleaved in rounds; a ratio is the median of the rounds' ratios.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator

import uvloop
from browsercell.protocol.control import ControlLink, ControlPair, adopt
from browsercell.protocol.errors import Backpressure
from browsercell.protocol.transport import Links, Peer, ServerLink

from tests.bench.harness import Floor, Ratio, floor, main, median_ratio

SIZE = 187  # bytes: a small call in its envelope
WINDOW = 64  # calls under way in the pipelined case
ROUNDS = 9
SECONDS = 0.25  # a case and round; long enough for thousands of trips
WARM_UP = 300
_BOUND = 64 * 1024


def run() -> list[Ratio]:
    """All ratios of this module; about 20 seconds."""
    with floor() as base:
        return _measure(base)


def _measure(base: Floor) -> list[Ratio]:
    two: list[float] = []
    same: list[float] = []
    pipe: list[float] = []
    leg: list[float] = []
    leg_pipe: list[float] = []
    control: list[float] = []
    for _ in range(ROUNDS):
        two.append(base.trip_us(SIZE, SECONDS))
        leg.append(_client("zmq-trip", base))
        control.append(_client("control-trip", base))
        same.append(base.trip_us(SIZE, SECONDS, same_core=True))
        pipe.append(base.trips_per_s(SIZE, SECONDS, WINDOW))
        leg_pipe.append(_client("zmq-pipe", base))
    mid = statistics.median
    return [
        Ratio("ipc: same-core floor / two-core floor", median_ratio(same, two), None, "<=",
              f"{mid(same):.1f} us / {mid(two):.1f} us, {SIZE} B p50"),
        Ratio("ipc: one ZeroMQ leg / two-core floor", median_ratio(leg, two), 2.5, "<=",
              f"{mid(leg):.1f} us / {mid(two):.1f} us, {SIZE} B p50, two cores"),
        Ratio("ipc: pipelined ZeroMQ calls / floor's", median_ratio(leg_pipe, pipe), 0.12, ">=",
              f"{mid(leg_pipe) / 1000:.1f} k/s / {mid(pipe) / 1000:.1f} k/s, {SIZE} B, {WINDOW} under way"),
        Ratio("ipc: control link / two-core floor", median_ratio(control, two), 1.6, "<=",
              f"{mid(control):.1f} us / {mid(two):.1f} us, {SIZE} B p50, two cores"),
    ]  # fmt: skip


def _client(case: str, base: Floor) -> float:
    """One round of one case in a process of its own: microseconds, or calls a second."""
    command = [
        sys.executable,
        "-m",
        "tests.bench.bench_ipc",
        case,
        str(base.client_core),
        str(base.server_core),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return float(done.stdout)


@contextlib.contextmanager
def _server(case: str, core: int, where: str, fds: tuple[int, ...] = ()) -> Iterator[None]:
    command = [sys.executable, "-m", "tests.bench.bench_ipc", case, str(core), where]
    with subprocess.Popen(command, stdout=subprocess.PIPE, pass_fds=fds) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            yield
        finally:
            process.kill()


class _Trips:
    """Sends, counts answers; `send` is the link's."""

    def __init__(self, window: int) -> None:
        self.window = window
        self.times: list[int] = []
        self.count = 0
        self.done = asyncio.get_running_loop().create_future()
        self.send: Callable[[bytes], None] = lambda _data: None
        self._payload = bytes(SIZE)
        self._sent_at = 0
        self._begin = 0
        self._stop = 0

    def start(self) -> None:
        for _ in range(self.window):
            self._next()

    def _next(self) -> None:
        self._sent_at = time.perf_counter_ns()
        self.send(self._payload)

    def answer(self) -> None:
        now = time.perf_counter_ns()
        self.count += 1
        if self.count == WARM_UP:
            self._begin, self._stop = now, now + int(SECONDS * 1e9)
        elif self.count > WARM_UP:
            self.times.append(now - self._sent_at)
            if now >= self._stop:
                if not self.done.done():
                    trips = self.count - WARM_UP
                    median = statistics.median(self.times) / 1000
                    self.done.set_result(median if self.window == 1 else trips * 1e9 / (now - self._begin))
                return
        self._next()


async def _zmq_client(window: int, core: int) -> float:
    with tempfile.TemporaryDirectory(prefix="bcb-") as folder, _server("zmq-serve", core, f"{folder}/s"):
        links = Links()
        trips = _Trips(window)
        link = links.connect(
            f"{folder}/s",
            lambda _peer, _data: trips.answer(),
            lambda _event: None,
            expect_server_uid=os.getuid(),
            max_message=_BOUND,
            high_water=2 * WINDOW,
        )
        trips.send = link.send
        await link.wait_ready(10)
        trips.start()
        result: float = await asyncio.wait_for(trips.done, 30)
        links.close()
        return result


async def _zmq_serve(path: str) -> None:
    links = Links()

    def echo(peer: Peer, data: bytes) -> None:
        server.send(peer.routing_id, data)

    server: ServerLink = links.serve(
        path,
        echo,
        lambda _event: None,
        expect_pid=os.getppid(),
        expect_uid=os.getuid(),
        max_message=_BOUND,
        high_water=2 * WINDOW,
    )
    print("ready", flush=True)
    await asyncio.sleep(60)


async def _control_client(core: int) -> float:
    parent, child_fd = ControlPair.make()
    with _server("control-serve", core, str(child_fd), (child_fd,)):
        os.close(child_fd)
        trips = _Trips(1)
        link = _control(parent, lambda _data: trips.answer())
        trips.send = link.send
        trips.start()
        result: float = await asyncio.wait_for(trips.done, 30)
        link.close()
        return result


async def _control_serve(fd: int) -> None:
    def echo(data: bytes) -> None:
        with contextlib.suppress(Backpressure):  # the client has one call under way: it can't happen
            link.send(data)

    link = _control(adopt(fd), echo)
    print("ready", flush=True)
    await asyncio.sleep(60)


def _control(sock: socket.socket, on_message: Callable[[bytes], None]) -> ControlLink:
    return ControlLink(
        sock,
        max_send=_BOUND,
        max_receive=_BOUND,
        on_message=lambda data, _fds: on_message(data),
        on_eof=lambda: None,
        accept_fds=False,
    )


def _role(arguments: list[str]) -> int:
    case, core, where = arguments
    os.sched_setaffinity(0, {int(core)})
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        match case:
            case "zmq-trip":
                print(runner.run(_zmq_client(1, int(where))))
            case "zmq-pipe":
                print(runner.run(_zmq_client(WINDOW, int(where))))
            case "control-trip":
                print(runner.run(_control_client(int(where))))
            case "zmq-serve":
                runner.run(_zmq_serve(where))
            case "control-serve":
                runner.run(_control_serve(int(where)))
            case _:
                return 2
    return 0


if __name__ == "__main__":
    sys.exit(_role(sys.argv[1:]) if len(sys.argv) > 1 else main(run))
