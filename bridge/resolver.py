"""Resolves host names for the network policy, each with a deadline.

Shell around `network`: a look-up runs in a daemon thread of its own, because the C library's resolver can neither be
cancelled nor be told a deadline, and a thread that hangs in it must not keep the bridge from exiting. At most
LOOKUPS threads exist; while all of them hang, names are unresolvable, which refuses.

It caches nothing (an answer that changes must be judged anew) and logs nothing: a host name is page data.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import Final

from .network import NetworkPolicy, Resolve, parse_address
from .urls import Address

LOOKUP_SECONDS: Final = (
    5.0  # two tries of a usual resolver's first server; a page waits no longer for a verdict
)
LOOKUPS: Final = 16  # at once: a page with many frames of many hosts, at 8 MiB of address space a thread


class Resolver:
    """Verdicts for URLs in one event loop. `policy` may be replaced when our listeners' ports become known."""

    def __init__(self, policy: NetworkPolicy, *, seconds: float = LOOKUP_SECONDS) -> None:
        self.policy = policy
        self._seconds = seconds
        self._free = asyncio.Semaphore(LOOKUPS)

    async def check(self, url: str) -> str:
        """ "" if a page may be loaded from `url`, else a `network.Refusal` value. Answers within the deadline."""
        prepared = self.policy.prepare(url)
        if isinstance(prepared, Resolve):
            destination = prepared.destination
            try:
                async with asyncio.timeout(self._seconds):
                    addresses = await self._look_up(destination.host)
            except TimeoutError:
                addresses = ()
            prepared = self.policy.judge(destination, addresses)
        return "" if prepared is None else prepared.value

    async def _look_up(self, host: str) -> tuple[Address, ...]:
        await self._free.acquire()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[tuple[Address, ...]] = loop.create_future()

        def deliver(addresses: tuple[Address, ...]) -> None:
            # The place is free only now, even if nobody waits any more: the thread is what is counted.
            self._free.release()
            if not answer.done():
                answer.set_result(addresses)

        def run() -> None:
            addresses = _addresses(host)
            try:
                loop.call_soon_threadsafe(deliver, addresses)
            except RuntimeError:
                # The loop is closed: the bridge is exiting and nobody waits for the answer.
                return

        try:
            threading.Thread(target=run, name="resolve", daemon=True).start()
        except RuntimeError:  # no thread to be had (a limit of the system): as good as no answer
            deliver(())
        return await answer


def _addresses(host: str) -> tuple[Address, ...]:
    """Every address of `host`, or none if it has none or can't be resolved. Blocks."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return ()
    addresses = [parse_address(str(entry[4][0])) for entry in found]
    # An address that can't be read can't be judged, so it counts as no answer at all.
    if None in addresses:
        return ()
    return tuple(dict.fromkeys(address for address in addresses if address is not None))
