"""A worker with nothing in it but the seal: links to two routers, seals itself, then does what it is told.

Run as a program by `seal_host.py`: `python -I seal_harness.py <orders as JSON>`. With `"mode": "none"` it skips every
step of the seal: the positive control. It speaks msgpack maps on plain ZeroMQ links, which is not the product's protocol.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Coroutine
from typing import Any

FDS_AT_START = sorted(int(name) for name in os.listdir("/proc/self/fd"))
ENV_AT_START = sorted(os.environ)


def main() -> None:
    import json

    orders = json.loads(sys.argv[1])
    if orders["site"]:
        sys.path.insert(0, orders["site"])
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    life = live(orders)
    if orders["loop"]:
        from asyncio import new_event_loop

        made = new_event_loop()
        made.run_until_complete(life)
    else:
        life.send(None)  # nothing in it waits for a loop: it runs to its end here


async def live(orders: dict[str, Any]) -> None:
    """Seals and serves; ends with the process."""
    from browsercell.worker import seal

    sealing = orders["mode"] == "sealed"
    if sealing:
        seal.begin(orders["ppid"])
    from time import perf_counter

    import msgspec
    import zmq

    run = commands(orders)
    seal.warm_up()
    memory = open("/proc/self/smaps_rollup", encoding="ascii")  # noqa: SIM115 - read later, behind the fences
    root, times = orders["root"], {}
    fences = None
    if sealing:
        started = perf_counter()
        fences = seal.enter_fences(
            root_dir=root,
            uid=orders["uid"],
            memory_bytes=orders["memory"],
            cpu_seconds=orders["cpu"],
            expected_ppid=orders["ppid"],
            off=frozenset(orders["off"]),
        )
        times["fences_ms"] = (perf_counter() - started) * 1e3
        root = "" if fences.empty_root else root
    context = zmq.Context(io_threads=1)
    page, model = context.socket(zmq.DEALER), context.socket(zmq.DEALER)
    for link, name in ((page, "page"), (model, "model")):
        link.setsockopt(zmq.LINGER, 0)
        link.setsockopt(zmq.RECONNECT_IVL, -1)
        link.setsockopt(zmq.RCVTIMEO, 60_000)
        link.connect(f"ipc://{root}/{name}")
        link.send(b"hello")
    for link in (page, model):
        assert link.recv() == b"welcome"
    pss = next(int(line.split()[1]) for line in memory if line.startswith("Pss:"))
    memory.close()
    report = None
    if fences is not None:
        started = perf_counter()
        report = seal.drop_to_allow_list(fences, attack=orders["attack"], threads=orders["threads"])
        times["drop_ms"] = (perf_counter() - started) * 1e3
    page.send(
        msgspec.msgpack.encode(
            {"report": report, "times": times, "pss_kib": pss, "fds": FDS_AT_START, "env": ENV_AT_START}
        )
    )
    poller = zmq.Poller()
    poller.register(page, zmq.POLLIN)
    while True:
        if not poller.poll(60_000):
            os._exit(98)
        order = msgspec.msgpack.decode(page.recv())
        result = run(order, context, model)
        page.send(msgspec.msgpack.encode(await result if isinstance(result, Coroutine) else result))


def commands(orders: dict[str, Any]) -> Callable[[dict[str, Any], Any, Any], object]:
    """Imports what the commands need (before the seal) and returns the function that runs one: (order, context, model link)."""
    from importlib import import_module

    import msgspec
    import zmq

    # Neighbours of this program, whose folder is called "seal" wherever it lies.
    seal_attempts: Any = import_module("seal.seal_attempts")
    seal_workload: Any = import_module("seal.seal_workload")
    targets = msgspec.convert(orders["targets"], seal_attempts.Targets) if orders["targets"] else None

    def device(descriptor: int) -> list[int]:
        """Major and minor number, by the plain call: glibc's fstat() may be newfstatat, which the seal refuses."""
        status = seal_attempts.data(bytes(144))
        seal_attempts.raw(5, descriptor, status)
        number = int.from_bytes(status.raw[40:48], "little")
        return [os.major(number), os.minor(number)]

    def run(order: dict[str, Any], context: Any, model: Any) -> object:
        match order["do"]:
            case "attempts":
                filtered = orders["mode"] == "sealed" and "seccomp" not in orders["off"]
                way = seal_attempts.outcome if filtered else seal_attempts.isolated
                return [way(attempt, targets) for attempt in seal_attempts.ATTEMPTS]
            case "workload":
                return seal_workload.run_all()
            case "event-loop":
                return seal_workload.event_loop()  # awaited by the caller, in the loop that is running
            case "echo":
                model.send(order["body"].encode())
                return order["body"]
            case "arrive":
                # Asks the I/O thread, which existed before the filter, to open a connection.
                stray = context.socket(zmq.DEALER)
                stray.setsockopt(zmq.LINGER, 0)
                stray.connect(f"tcp://127.0.0.1:{order['port']}")
                stray.send(b"x")
                return "asked"
            case "outputs":
                return [device(descriptor) for descriptor in (1, 2)]
            case "print":
                sys.stdout.write("marker")
                sys.stdout.flush()
                raise RuntimeError("marker")
            case "spin":
                while True:
                    pass
            case "raw":
                try:
                    return seal_attempts.raw(*order["call"])
                except OSError as error:
                    return f"errno {error.errno}"
            case "exit":
                os._exit(0)
        raise ValueError(order)

    return run


main()
