"""One browser as the bridge's core sees it: calls to its extension, each settled once (`ports.BrowserPort`).

A port belongs to a seat (`connections`), so it outlives a connection: what is under way when one ends fails with
`extension-lost` and an honest `may_have_effect`; a call made while there is none waits for the next one, within its
deadline and at most GRACE_SECONDS. Nothing is ever sent twice.

Invariants: a call id is used once in the port's life; a call settles at its deadline plus SLACK_MS at the latest (the
extension's own clock, started later, gets the first say); a cancelled or expired call that was sent is told to the
extension. `may_have_effect`: the command was handed to the connection, and its tool may change something.

It decides nothing about pages, retries nothing and logs nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

import msgspec

from ...protocol.calls import CallTable, Failed, FailReason, Settled, Stray, StrayKind
from ...protocol.errors import Backpressure, Execution, FrameTooLarge, ToolErrorCode
from ...protocol.frames import ExtCancel, ExtCommand, ExtFrame, ExtReply, PageError, PageReply
from ...protocol.tools import WORKER_TOOLS
from ..ports import PageFailure
from .connections import GRACE_SECONDS

SLACK_MS: Final = 1_000  # the extension's answer to its own deadline has to get here
MAX_OPEN: Final = 64  # calls of one browser at once: tasks have one each, the rest is releases
_EFFECTLESS: Final = frozenset({"release"}) | {name for name, tool in WORKER_TOOLS.items() if not tool.effect}
# What the page's side says when our own policy stopped a navigation below it.
_NAVIGATION_ENDS: Final = frozenset({ToolErrorCode.NAVIGATION_FAILED, ToolErrorCode.ERROR_PAGE})

_SENTENCES: Final = {
    ToolErrorCode.EXTENSION_LOST: "The connection to the browser extension was lost.",
    ToolErrorCode.BROWSER_LOST: "The browser has ended.",
    ToolErrorCode.TIMEOUT: "The browser did not answer in time.",
    ToolErrorCode.CANCELLED: "The command was cancelled.",
    ToolErrorCode.INTERNAL: "The browser extension gave an answer that can't be used.",
    ToolErrorCode.POLICY_DENIED: "The network policy does not let the browser go there.",
    ToolErrorCode.TOO_LARGE: "The command is too large for the browser extension.",
    ToolErrorCode.QUOTA_EXCEEDED: "Too many commands are under way in this browser.",
}


class Wire(Protocol):
    """One authenticated connection, as far as a port needs it."""

    def send_now(self, frame: ExtFrame) -> bool:
        """Hand a frame over if that takes no waiting; False: nothing was done. Raises FrameTooLarge."""
        ...

    async def send(self, frame: ExtFrame) -> None:
        """Hand a frame over. Raises ConnectionError if the connection has ended, FrameTooLarge."""
        ...


class Port:
    """A seat's calls. `denials`: how many navigations our policy has stopped in that browser so far.

    `on_close`: what `close` does (a private Chromium ends; nothing for the user's).
    """

    def __init__(
        self,
        pairing: str,
        *,
        denials: Callable[[], int] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pairing = pairing
        self._denials = denials
        self._clock = clock
        self._table = CallTable(MAX_OPEN)
        self._waiting: dict[str, asyncio.Future[PageReply]] = {}
        self._ops: dict[str, str] = {}
        self._numbers = 0
        self._wire: Wire | None = None
        self._connected = asyncio.Event()
        self._lost: ToolErrorCode | None = None
        self.on_close: Callable[[], Awaitable[None]] | None = None

    @property
    def pairing(self) -> str:
        """ "user", or the name a private Chromium was paired under."""
        return self._pairing

    @property
    def lost(self) -> bool:
        """Whether the browser is gone for good."""
        return self._lost is not None

    # ------------------------------------------------------------------ the core's side

    async def call(
        self, op: str, args: bytes, *, tab: int | None = None, tabs: tuple[int, ...] = (), deadline_ms: int
    ) -> PageReply:
        """See `ports.BrowserPort.call`. `args`: valid JSON."""
        denied_before = 0 if self._denials is None else self._denials()
        try:
            return await self._call(op, args, tab, tabs, deadline_ms)
        except PageFailure as failure:
            denied = self._denials is not None and self._denials() > denied_before
            if denied and failure.error.code in _NAVIGATION_ENDS:
                raise PageFailure(
                    msgspec.structs.replace(
                        failure.error,
                        code=ToolErrorCode.POLICY_DENIED,
                        message=_SENTENCES[ToolErrorCode.POLICY_DENIED],
                        retryable=False,
                    )
                ) from None
            raise

    async def close(self) -> None:
        """See `ports.BrowserPort.close`."""
        if self.on_close is not None:
            await self.on_close()

    async def _call(
        self, op: str, args: bytes, tab: int | None, tabs: tuple[int, ...], deadline_ms: int
    ) -> PageReply:
        started = self._clock()
        wire = await self._wait_for_wire(min(GRACE_SECONDS, deadline_ms / 1000))
        left_ms = max(1, deadline_ms - round((self._clock() - started) * 1000))
        self._numbers += 1
        number, key = self._numbers, str(self._numbers)
        wait = (left_ms + SLACK_MS) / 1000
        now = self._clock()
        try:
            self._table.open(key, now + wait, now)
        except Backpressure:
            raise _failure(ToolErrorCode.QUOTA_EXCEEDED, retryable=True) from None
        answer: asyncio.Future[PageReply] = asyncio.get_running_loop().create_future()
        self._waiting[key], self._ops[key] = answer, op
        command = ExtCommand(
            id=number, op=op, args=msgspec.Raw(args), deadline_ms=left_ms, tab=tab, tabs=tabs
        )
        deadline = now + wait
        try:
            self._table.sent(key)
            await self._send(wire, key, command, wait)
            try:
                async with asyncio.timeout(max(0.0, deadline - self._clock())):
                    return await answer
            except TimeoutError:
                if answer.done() and not answer.cancelled():
                    return answer.result()  # it came in the same turn
                for failed in self._table.expire(deadline):
                    await self._give_up(failed, wire)
                return self._waiter(key).result()
        except asyncio.CancelledError:
            cancelled = self._table.cancel(key)
            if cancelled is not None:
                await self._give_up(cancelled, wire)
            raise
        finally:
            last = self._waiting.pop(key, answer)
            self._ops.pop(key, None)
            if last.done() and not last.cancelled():
                last.exception()  # looked at, or asyncio reports it as never retrieved

    async def _send(self, wire: Wire, key: str, command: ExtCommand, seconds: float) -> None:
        try:
            if wire.send_now(command):
                return
            async with asyncio.timeout(seconds):
                await wire.send(command)
        except FrameTooLarge:
            self._table.cancel(key)
            raise _failure(ToolErrorCode.TOO_LARGE) from None  # refused before a byte was sent
        except ConnectionError:
            self.disconnected(wire)  # fails the call; it may have gone out in part
        except TimeoutError:
            return  # the socket is full: the deadline is over, and the caller of this finds that out

    async def _give_up(self, failed: Failed, wire: Wire) -> None:
        self._fail(failed)
        if failed.notify_peer and self._wire is wire:
            try:
                # A full socket must not hold up the caller, who has given up already.
                async with asyncio.timeout(SLACK_MS / 1000):
                    await wire.send(ExtCancel(id=int(failed.call_id)))
            except (ConnectionError, TimeoutError):
                return  # then nobody is there who could stop waiting

    async def _wait_for_wire(self, seconds: float) -> Wire:
        if self._lost is None and self._wire is None:
            try:
                async with asyncio.timeout(seconds):
                    await self._connected.wait()
            except TimeoutError:
                raise _failure(ToolErrorCode.EXTENSION_LOST, retryable=True) from None
        if self._wire is None:
            raise _failure(self._lost or ToolErrorCode.EXTENSION_LOST, retryable=True)
        return self._wire

    # ------------------------------------------------------------------ the hub's side

    def connected(self, wire: Wire) -> None:
        """The seat has a (newer) connection; what the older one had under way is lost."""
        if self._wire is not None:
            self.disconnected(self._wire)
        self._wire = wire
        self._connected.set()

    def disconnected(self, wire: Wire) -> None:
        """That connection has ended; harmless if it is not the current one any more."""
        if self._wire is wire:
            self._wire = None
            self._connected.clear()
            for failed in self._table.fail_all(FailReason.LINK_LOST):
                self._fail(failed)

    def lose(self, code: ToolErrorCode) -> bool:
        """The browser is gone for good: every call fails with `code` from now on. False if it was known."""
        if self._lost is not None:
            return False
        self._lost = code
        self._wire = None
        self._connected.set()  # wakes those who wait; they look at what is lost
        for failed in self._table.fail_all(FailReason.PEER_DIED):
            self._fail(failed)
        return True

    def reply(self, frame: ExtReply) -> bool:
        """An answer arrived. False: the extension broke the protocol and is to be cut off."""
        key = str(frame.id)
        if (frame.ok is None) == (frame.error is None):
            spoiled = self._table.spoil(key)
            if isinstance(spoiled, Failed):
                self._fail(spoiled)
            return False
        outcome = self._table.settle(key)
        if isinstance(outcome, Stray):
            return outcome.kind is StrayKind.LATE
        self._deliver(outcome, frame)
        return True

    def _waiter(self, key: str) -> asyncio.Future[PageReply]:
        """Where a call's end goes: a fresh future if its deadline or a cancellation has just ended the await of its own."""
        waiter = self._waiting[key]
        if waiter.cancelled():
            waiter = self._waiting[key] = asyncio.get_running_loop().create_future()
        return waiter

    def _deliver(self, settled: Settled, frame: ExtReply) -> None:
        answer = self._waiter(settled.call_id)
        if frame.ok is not None:
            answer.set_result(frame.ok)
        elif frame.error is not None:
            answer.set_exception(PageFailure(frame.error))

    def _fail(self, failed: Failed) -> None:
        code = {
            FailReason.TIMEOUT: ToolErrorCode.TIMEOUT,
            FailReason.CANCELLED: ToolErrorCode.CANCELLED,
            FailReason.LINK_LOST: ToolErrorCode.EXTENSION_LOST,
            FailReason.PEER_DIED: self._lost or ToolErrorCode.BROWSER_LOST,
            FailReason.BAD_ANSWER: ToolErrorCode.INTERNAL,
        }[failed.reason]
        ran = failed.execution is not Execution.NOT_STARTED
        effect = ran and self._ops[failed.call_id] not in _EFFECTLESS
        self._waiter(failed.call_id).set_exception(
            _failure(
                code, may_have_effect=effect, retryable=not effect and code is not ToolErrorCode.BROWSER_LOST
            )
        )


def _failure(code: ToolErrorCode, *, may_have_effect: bool = False, retryable: bool = False) -> PageFailure:
    return PageFailure(
        PageError(code=code, message=_SENTENCES[code], may_have_effect=may_have_effect, retryable=retryable)
    )
