"""The edge-triggered reader: one ZeroMQ descriptor (`zmq.FD`) watched by an asyncio or uvloop loop.

The rules of the edge (zmq_getsockopt(3), ZMQ_FD): the descriptor becomes readable when the socket's state *may*
have changed, and once is all; so (1) read until ZMQ_EVENTS says empty, at most `DRAIN` items a turn, and come back
by `call_soon` if there may be more; (2) look after every send as well (`poke`), because a send consumes the signal
of a message that arrived meanwhile; (3) an exception of the owner's callback never ends the reading; (4) while not
watching, the descriptor is out of the loop, or a level-triggered loop would spin.

Does not read itself: `step` does, and must look at ZMQ_EVENTS or get EAGAIN before it says that nothing is left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import zmq

DRAIN: Final = 64  # items a turn: bounds how long the loop's other callbacks wait


class Edge:
    """One ZeroMQ descriptor watched by the loop; `step` reads one item and says whether there was one."""

    __slots__ = ("_draining", "_fd", "_loop", "_scheduled", "_step", "_watching")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, sock: zmq.Socket[bytes], step: Callable[[], bool]
    ) -> None:
        self._loop = loop
        self._fd = int(sock.getsockopt(zmq.FD))
        self._step = step
        self._scheduled = False
        self._draining = False
        self._watching = False

    @property
    def watching(self) -> bool:
        return self._watching

    def watch(self) -> None:
        """Begin, or go on: what arrived meanwhile gave its signal already, so read at once."""
        if not self._watching:
            self._watching = True
            self._loop.add_reader(self._fd, self._drain)
            self.poke()

    def unwatch(self) -> None:
        if self._watching:
            self._watching = False
            self._loop.remove_reader(self._fd)

    def poke(self) -> None:
        """Read in this loop's next turn, whatever the descriptor says. While reading, that is done anyway."""
        if not self._scheduled and not self._draining:
            self._scheduled = True
            self._loop.call_soon(self._poked)

    def _poked(self) -> None:
        self._scheduled = False
        self._drain()

    def _drain(self) -> None:
        exhausted = False
        self._draining = True
        try:
            for _ in range(DRAIN):
                if not self._watching or not self._step():
                    exhausted = True
                    return
        finally:
            self._draining = False
            if not exhausted:  # the budget is used up, or a callback raised: there may be more
                self.poke()
