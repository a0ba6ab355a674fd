"""Chromium's debugging protocol over two pipe descriptors: NUL-terminated JSON, calls by number, events by callback.

Invariants: both descriptors are owned from construction and closed exactly once; a message of Chromium's is at most
MAX_MESSAGE bytes and what waits to be written at most MAX_UNWRITTEN, over either the pipe is closed (the browser is
not to be trusted any more, or is hung); every call settles: answered, refused, at its deadline, or with PipeClosed;
`on_closed` is called once, in a later turn of the loop.

It knows no method's meaning and logs nothing: messages hold page data.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any, Final

import msgspec

MAX_MESSAGE: Final = (
    8 * 1024 * 1024
)  # bytes; a request's headers and URL (2 MiB at most, Chromium's own bound)
MAX_UNWRITTEN: Final = 1024 * 1024  # bytes; commands are small, so a browser that takes none of this is hung
MAX_OPEN: Final = 1024  # calls without an answer
_CHUNK: Final = 1 << 16  # bytes read in one turn: a pipe's whole buffer


class PipeClosed(ConnectionError):
    """The browser is gone, or was cut off for breaking a bound."""


class CommandRefused(Exception):
    """Chromium answered with an error; `code` is its number. Its text may hold page data and is dropped."""

    def __init__(self, code: int) -> None:
        super().__init__(f"refused with {code}")
        self.code = code


class _Error(msgspec.Struct):
    code: int = 0


class _Message(msgspec.Struct):
    """An answer (`id`) or an event (`method`); fields we don't know are Chromium's to add."""

    id: int | None = None
    result: dict[str, Any] | None = None
    error: _Error | None = None
    method: str = ""
    params: dict[str, Any] = {}
    sessionId: str = ""


OnEvent = Callable[[str, dict[str, Any], str], None]


class Pipe:
    """One browser's pipe in the running loop. `on_event(method, params, session)`: session "" is the browser's own."""

    def __init__(
        self, commands_fd: int, replies_fd: int, *, on_event: OnEvent, on_closed: Callable[[], None]
    ) -> None:
        self._commands, self._replies = commands_fd, replies_fd
        self._on_event, self._on_closed = on_event, on_closed
        self._loop = asyncio.get_running_loop()
        self._decoder = msgspec.json.Decoder(_Message)
        self._numbers = 0
        self._open: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._incoming = bytearray()
        self._outgoing = bytearray()
        self._writing = False
        self.closed = False
        try:
            os.set_blocking(commands_fd, False)
            os.set_blocking(replies_fd, False)
            self._loop.add_reader(replies_fd, self._readable)
        except OSError:
            self.close()

    async def call(
        self, method: str, params: dict[str, Any] | None = None, *, session: str = "", seconds: float
    ) -> dict[str, Any]:
        """Send a command and wait for its answer at most `seconds`.

        Raises CommandRefused, PipeClosed, TimeoutError.
        """
        answer = self.post(method, params, session=session)
        async with asyncio.timeout(seconds):
            return await answer

    def post(
        self, method: str, params: dict[str, Any] | None = None, *, session: str = ""
    ) -> asyncio.Future[dict[str, Any]]:
        """Send a command now; its answer may be ignored. Commands reach Chromium in the order of these calls."""
        answer: asyncio.Future[dict[str, Any]] = self._loop.create_future()
        answer.add_done_callback(_look_at)
        if not self.closed and len(self._open) >= MAX_OPEN:
            self.close()
        if self.closed:
            answer.set_exception(PipeClosed("the browser's pipe is closed"))
            return answer
        self._numbers += 1
        message: dict[str, Any] = {"id": self._numbers, "method": method, "params": params or {}}
        if session:
            message["sessionId"] = session
        self._open[self._numbers] = answer
        self._outgoing += msgspec.json.encode(message) + b"\0"
        if not self._writing:
            self._writable()
        if len(self._outgoing) > MAX_UNWRITTEN:
            self.close()
        return answer

    def close(self) -> None:
        """Close both descriptors; open calls fail with PipeClosed. Harmless when closed."""
        if self.closed:
            return
        self.closed = True
        self._loop.remove_reader(self._replies)
        if self._writing:
            self._loop.remove_writer(self._commands)
        for fd in (self._replies, self._commands):
            try:
                os.close(fd)
            except OSError:  # it was no descriptor when it was handed to us: nothing to close
                continue
        self._incoming.clear()
        self._outgoing.clear()
        for answer in self._open.values():
            if not answer.done():
                answer.set_exception(PipeClosed("the browser's pipe is closed"))
        self._open.clear()
        self._loop.call_soon(self._on_closed)

    def _readable(self) -> None:
        try:
            data = os.read(self._replies, _CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.close()
            return
        searched = len(self._incoming)
        self._incoming += data
        start = 0
        while (end := self._incoming.find(0, max(start, searched))) >= 0:
            message = bytes(self._incoming[start:end])
            start = end + 1
            if len(message) > MAX_MESSAGE or not self._take(message):
                self.close()
            if self.closed:  # by us, or by what was called
                return
        del self._incoming[:start]
        if len(self._incoming) > MAX_MESSAGE:
            self.close()

    def _take(self, data: bytes) -> bool:
        try:
            message = self._decoder.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return False
        if message.id is None:
            self._on_event(message.method, message.params, message.sessionId)
            return True
        answer = self._open.pop(message.id, None)
        if answer is None:
            return False
        if not answer.done():
            if message.error is not None:
                answer.set_exception(CommandRefused(message.error.code))
            else:
                answer.set_result(message.result or {})
        return True

    def _writable(self) -> None:
        try:
            written = os.write(self._commands, self._outgoing)
        except BlockingIOError:
            written = 0
        except OSError:
            self.close()
            return
        del self._outgoing[:written]
        if self._outgoing and not self._writing:
            self._writing = True
            self._loop.add_writer(self._commands, self._writable)
        elif not self._outgoing and self._writing:
            self._writing = False
            self._loop.remove_writer(self._commands)


def _look_at(answer: asyncio.Future[dict[str, Any]]) -> None:
    """Whoever ignores an answer ignores its failure too; asyncio would report it as never retrieved."""
    if not answer.cancelled():
        answer.exception()
