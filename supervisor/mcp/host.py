"""One MCP connection's session with the supervisor, through the thin client. A shell.

Invariants: the session opens with the first tool call, and a supervisor is started then if none answers; it belongs to the
client that started it and ends with it unless others use it (`client_start`). A lost supervisor costs the calls under way
and nothing else: the next call opens a new session. No call is ever repeated. A call that its MCP client gave up is cancelled
and its end is waited for here, not in the request that is over.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from ...protocol.client import DELEGATE_SECONDS, QUICK_SECONDS, AsyncClient
from ...protocol.client_core import Progress, lost_result
from ...protocol.errors import CallCancelled
from ...protocol.frames import SessionKind
from .turns import Turns

log = logging.getLogger(__name__)

FindFolder = Callable[[], Awaitable[str]]
DELEGATE: Final = "browser_delegate_task"


@dataclass(frozen=True, slots=True)
class Options:
    """How sessions are opened. `directory`: fixed working directory; "" asks the MCP client for its roots."""

    runtime_folder: str
    start_arguments: Sequence[str] = ()
    directory: str = ""
    child: bool = False


class Host:
    """One session; `call` may run side by side, from one event loop."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._client: AsyncClient | None = None
        self._opening = asyncio.Lock()
        self._turns = Turns()
        self._running: set[asyncio.Task[Any]] = set()
        self._folder = options.directory
        self._ask = not options.directory
        self._closed = False

    async def call(
        self, tool: str, args: bytes, *, find_folder: FindFolder, on_progress: Progress | None
    ) -> Any:
        """The tool's answer as JSON value. Raises BrowsercellError. Cancelling it cancels the call."""
        # A task of its own: the SDK cancels a request's scope again and again, and the end of a call has to be awaited.
        task = asyncio.ensure_future(self._call(tool, args, find_folder, on_progress))
        self._running.add(task)
        task.add_done_callback(self._done)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.cancel()
            raise

    def roots_changed(self) -> None:
        """The MCP client has other roots now; they count from the next call that finds none under way."""
        self._ask = not self._options.directory

    async def close(self) -> None:
        """End the session; its delegations are cancelled. Ends a supervisor of our own. Harmless when closed already."""
        self._closed = True
        running = list(self._running)
        for task in running:
            task.cancel()
        if self._client is not None:
            client, self._client = self._client, None
            await client.close()
        if running:
            await asyncio.wait(running, timeout=QUICK_SECONDS)

    async def _call(
        self, tool: str, args: bytes, find_folder: FindFolder, on_progress: Progress | None
    ) -> Any:
        new_turn = self._turns.begin(time.monotonic())
        try:
            client = await self._connected(find_folder)
            if new_turn:
                client.new_turn()
            seconds = DELEGATE_SECONDS if tool == DELEGATE else QUICK_SECONDS
            try:
                content = await client.call(tool, args, on_progress=on_progress, timeout=seconds)
            except CallCancelled:
                if tool != DELEGATE:
                    raise
                content = msgspec.json.encode(lost_result())
            return msgspec.json.decode(content)
        finally:
            self._turns.end(time.monotonic())

    async def _connected(self, find_folder: FindFolder) -> AsyncClient:
        async with self._opening:
            if self._closed:
                raise CallCancelled("the MCP connection has ended")
            alone = len(self._running) <= 1  # the call that asks is one
            if self._ask and (self._client is None or alone):
                self._ask = False
                folder = await find_folder()
                if folder != self._folder:
                    self._folder = folder
                    await self._leave()
            if self._client is not None and not self._client.connected:
                await self._leave()
            if self._client is None:
                self._client = await self._open()
            return self._client

    async def _open(self) -> AsyncClient:
        client = AsyncClient(
            directory=self._folder or None,
            kind=SessionKind.CHILD if self._options.child else SessionKind.TOP,
            runtime_folder=self._options.runtime_folder,
            start=True,
            start_arguments=self._options.start_arguments,
        )
        await client.open()
        if self._closed:
            await client.close()
            raise CallCancelled("the MCP connection has ended")
        return client

    async def _leave(self) -> None:
        if self._client is not None:
            client, self._client = self._client, None
            await client.close()

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # read: whoever waited for it may have left
