"""What a worker does all day, run under the seal: every function must return as it would outside.

Each returns None or raises. Called in the harness worker through `run_all`, which reports the ones that failed.
"""

from __future__ import annotations

import errno
import gc
import mmap
import os
import random
import re
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import msgspec


def exceptions() -> None:
    try:
        {}["missing"]  # type: ignore[index]
    except KeyError:
        assert "KeyError" in "".join(traceback.format_exception(*sys.exc_info()))


def recursion() -> None:
    def dive() -> None:
        dive()

    try:
        dive()
    except RecursionError:
        return
    raise AssertionError


def codecs() -> None:
    for codec in ("latin-1", "utf-16", "utf-8-sig", "cp1252", "utf-32"):
        assert "grün".encode(codec).decode(codec) == "grün"
    assert "bücher.example".encode("idna") == b"xn--bcher-kva.example"
    assert b"\xff".decode("utf-8", "replace") == "�"


def clocks() -> None:
    before = time.monotonic()
    time.sleep(0.001)
    assert time.monotonic() > before
    assert time.localtime().tm_year > 2000
    assert datetime.now().astimezone().utcoffset() is not None
    assert datetime.now(UTC).isoformat().endswith("+00:00")
    assert time.strftime("%Z", time.localtime())
    assert time.process_time() > 0


def big_memory() -> None:
    area = bytearray(200 << 20)
    area[::4096] = b"x" * len(area[::4096])
    del area
    pieces = [bytes(50_000) for _ in range(500)]
    assert len(pieces) == 500
    mapped = mmap.mmap(-1, 1 << 20)
    mapped[:4] = b"data"
    mapped.close()


def too_much_memory() -> None:
    try:
        bytearray(8 << 30)
    except MemoryError:
        return
    raise AssertionError("8 GiB fitted")


def garbage() -> None:
    for _ in range(1000):
        ring: list[object] = []
        ring.append(ring)
    assert gc.collect() >= 0


def threads() -> None:
    seen: list[int] = []
    crew = [threading.Thread(target=lambda: seen.append(threading.get_native_id())) for _ in range(4)]
    for thread in crew:
        thread.start()
    for thread in crew:
        thread.join(5)
    assert len(seen) == 4
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(lambda n: n * n, range(50))) == [n * n for n in range(50)]
    event = threading.Event()
    assert not event.wait(0.001)


def signals() -> None:
    caught: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, _frame: caught.append(number))
    signal.raise_signal(signal.SIGUSR1)
    os.kill(os.getpid(), signal.SIGUSR1)
    signal.signal(signal.SIGUSR1, before)
    assert len(caught) == 2


class _Page(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    when: datetime
    words: tuple[str, ...]
    size: int = 0


def frames() -> None:
    page = _Page(datetime.now(UTC), tuple(f"wort{n}ü" for n in range(2000)))
    for encode, decode in (
        (msgspec.msgpack.encode, msgspec.msgpack.decode),
        (msgspec.json.encode, msgspec.json.decode),
    ):
        assert decode(encode(page), type=_Page) == page
        try:
            decode(b"\x80" if decode is msgspec.msgpack.decode else b"{}", type=_Page)
        except msgspec.ValidationError:
            continue
        raise AssertionError


def texts() -> None:
    assert re.compile(r"(?i)\bStraße\b").search("die STRASSE, die straße")
    assert len(sorted(random.sample(range(10_000), 5_000))) == 5_000
    assert f"{1234567.891:,.2f}" == "1,234,567.89"
    assert "ﬁ".upper() == "FI"


def refusals_are_ordinary_errors() -> None:
    """Library code that asks for a file or a socket gets an `OSError`, not a signal."""
    asks: tuple[Callable[[], object], ...] = (
        lambda: os.open("/etc/passwd", os.O_RDONLY),
        socket.socket,
        os.getcwd,
        lambda: os.stat("/"),
    )
    for ask in asks:
        code: int | None = 0
        try:
            ask()
        except OSError as error:
            code = error.errno
        assert code in (errno.EACCES, errno.EPERM)
    try:
        import wave  # noqa: F401 - a module nobody has imported yet
    except ImportError:
        return
    raise AssertionError("a late import worked")


WORKLOAD: tuple[Callable[[], None], ...] = (
    exceptions,
    recursion,
    codecs,
    clocks,
    big_memory,
    too_much_memory,
    garbage,
    threads,
    signals,
    frames,
    texts,
    refusals_are_ordinary_errors,
)


async def event_loop() -> str:
    """What an asyncio application does all day, in a loop that was running before the seal; returns a sum of 100 numbers + 3."""
    import asyncio

    queue: asyncio.Queue[int] = asyncio.Queue()

    async def produce() -> None:
        for number in range(100):
            await queue.put(number)
            await asyncio.sleep(0)

    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        group.create_task(produce())
        total = sum([await queue.get() for _ in range(100)])
    await asyncio.sleep(0.01)
    late: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(0.01, late.set_result, 1)
    total += await late
    total += await asyncio.to_thread(lambda: 1)
    try:
        async with asyncio.timeout(0.01):
            await asyncio.sleep(10)
    except TimeoutError:
        total += 1
    return str(total)


def run_all() -> dict[str, str]:
    """Runs every part; maps the name to "" or to what went wrong."""
    results: dict[str, str] = {}
    for part in WORKLOAD:
        try:
            part()
            results[part.__name__] = ""
        except Exception:  # noqa: BLE001 - reported by name, and the test fails
            results[part.__name__] = traceback.format_exc()[-1000:]
    return results
