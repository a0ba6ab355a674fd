"""Ground for tests of the loop-bound links: both kinds of loop, private folders, recorded callbacks, deadlines."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import uvloop
from browsercell.protocol.transport import ClientLink, LinkEvent, LinkEventKind, Links, Peer, ServerLink

LOOPS = ("asyncio", "uvloop")
WAIT_S = 30.0  # far above any honest wait here; a test that needs it has failed


_made: list[Links] = []


def new_links() -> Links:
    """Links that `run` closes, also when the test fails: a forgotten context would hang the interpreter's exit."""
    links = Links()
    _made.append(links)
    return links


def run(loop: str, main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run `main` on the named kind of loop; what a callback raised is raised here."""
    failures: list[BaseException] = []
    factory = uvloop.new_event_loop if loop == "uvloop" else asyncio.new_event_loop

    async def guarded() -> None:
        asyncio.get_running_loop().set_exception_handler(
            lambda _loop, context: failures.append(
                context.get("exception") or RuntimeError(context["message"])
            )
        )
        try:
            await main()
        finally:
            while _made:
                _made.pop().close()

    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(guarded())
    if failures:
        raise failures[0]


@dataclass
class Recorder:
    """Callbacks that remember what they got."""

    messages: list[bytes] = field(default_factory=list)
    peers: list[Peer] = field(default_factory=list)
    events: list[LinkEvent] = field(default_factory=list)
    order: list[str] = field(default_factory=list)

    def on_message(self, peer: Peer, data: bytes) -> None:
        self.messages.append(data)
        self.peers.append(peer)
        self.order.append("message")

    def on_event(self, event: LinkEvent) -> None:
        self.events.append(event)
        self.order.append(event.kind.value)

    def kinds(self) -> list[LinkEventKind]:
        return [event.kind for event in self.events]

    async def until(self, condition: Callable[[], bool]) -> None:
        await until(condition)

    async def event(self, kind: LinkEventKind) -> LinkEvent:
        await until(lambda: kind in self.kinds())
        return next(event for event in self.events if event.kind is kind)


class Bench:
    """A server and a client in one loop."""

    def __init__(self, folder: str, *, max_message: int = 64 * 1024, high_water: int = 64) -> None:
        self.links = new_links()
        self.server_side = Recorder()
        self.client_side = Recorder()
        self.path = f"{folder}/s"
        self.server: ServerLink = self.links.serve(
            self.path,
            self.server_side.on_message,
            self.server_side.on_event,
            expect_pid=os.getpid(),
            expect_uid=os.getuid(),
            max_message=max_message,
            high_water=high_water,
        )
        self.client: ClientLink = self.connect(self.client_side, max_message, high_water)

    def connect(self, recorder: Recorder, max_message: int = 64 * 1024, high_water: int = 64) -> ClientLink:
        return self.links.connect(
            self.path, recorder.on_message, recorder.on_event, max_message=max_message, high_water=high_water
        )


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition; fails after WAIT_S."""
    end = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < end, "the awaited condition never came"
        await asyncio.sleep(0.002)


@contextmanager
def private_folder() -> Iterator[str]:
    """A short 0700 folder: a socket path holds 107 bytes."""
    folder = tempfile.mkdtemp(prefix="bct-")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def child(code: str, *args: object) -> Iterator[subprocess.Popen[bytes]]:
    """A Python process running `code`; killed at the end if it still lives."""
    process = subprocess.Popen(
        [sys.executable, "-c", code, *map(str, args)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


def resident_mib() -> int:
    """Resident memory of this process in MiB."""
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // (1024 * 1024)


def open_descriptors() -> int:
    """How many descriptors this process has open."""
    return len(os.listdir("/proc/self/fd"))
