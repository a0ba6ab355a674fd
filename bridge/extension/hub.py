"""All browsers of the bridge behind `ports.Hub`: the user's, which connect by themselves, and private ones.

The hub joins the listener (who is connected), a port for each browser (its calls), the network policy and the pipes of
private Chromiums. It is the bridge's only holder of the pairing token and of the private browsers' ephemeral ones.

Invariants: a browser is lost once, and `on_lost` is called for it once, unless the core itself closed it; a private
pairing counts for one extension id, for the uid of one process and while that process lives; `check_url` refuses our
own listener in every mode.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ...protocol.bundle import ExtensionMissing, extension_folder
from ...protocol.errors import ToolErrorCode
from ...protocol.frames import ExtensionInfo, ExtEvent, ExtReply, PageError, PortProblem
from ...protocol.limits import MIN_TOKEN_CHARS
from ...protocol.settings import BridgeSettings
from .. import peers
from ..chromium.identity import extension_id
from ..chromium.private import PrivateBrowser, PrivateFailed
from ..journal import note
from ..network import NetworkPolicy
from ..ports import BrowserPort, ListenerState, PageFailure, Refuses
from ..resolver import Resolver
from .connections import GRACE_SECONDS, USER, Registry, Seated, SeatLost
from .listener import HOSTS, Listener, ListenerSettings
from .port import Port
from .sockets import Connection

NEWS_SECONDS: Final = 0.25  # between two reports of who is connected
_TOKEN_BYTES: Final = 32  # of a private pairing
_GRACE_SLACK: Final = 0.05  # seconds; the timer must find the grace over
_LOG = logging.getLogger(__name__)

OnExtensions = Callable[[], None]
OnLost = Callable[[BrowserPort], None]
OnEvent = Callable[[BrowserPort, ExtEvent], None]


def make_hub(
    settings: BridgeSettings,
    token: str,
    *,
    on_extensions: OnExtensions,
    on_lost: OnLost,
    on_event: OnEvent | None = None,
    folder: Path | None = None,
) -> ExtensionHub:
    """The hub for `settings`. Raises UsageError for a network that can't be read.

    `token`: the user pairing's. `on_extensions()`: `extensions()` or `refused` has changed. `on_lost(port)`: that browser
    is gone for good; its calls have failed. `on_event(port, event)`: an extension's event. `folder`: the built
    extension (default: the bundled one). Callbacks run in the loop and must not raise.
    """
    return ExtensionHub(settings, token, on_extensions, on_lost, on_event, folder)


@dataclass(slots=True)
class _Private:
    """A private Chromium of one task."""

    pairing: str
    pid: int
    port: Port
    browser: PrivateBrowser
    seated: asyncio.Event
    gone: asyncio.Event


class ExtensionHub:
    """See `ports.Hub`; also the listener's `Desk`."""

    def __init__(
        self,
        settings: BridgeSettings,
        token: str,
        on_extensions: OnExtensions,
        on_lost: OnLost,
        on_event: OnEvent | None,
        folder: Path | None,
    ) -> None:
        self._settings = settings
        self._usable_token = len(token) >= MIN_TOKEN_CHARS
        self._on_extensions, self._on_lost, self._on_event = on_extensions, on_lost, on_event
        self._folder = folder
        self._uid = os.getuid()
        self.registry = Registry(token if self._usable_token else "", settings.allowed_extensions)
        self._resolver = Resolver(NetworkPolicy(settings.network))
        self._listener: Listener | None = None
        self._ports: dict[int, Port] = {}  # by seat
        self._wires: dict[int, int] = {}  # connection -> seat
        self._private: dict[str, _Private] = {}  # by task
        self._timers: set[asyncio.TimerHandle] = set()
        self._stopping = False
        self._quiet = False  # `on_extensions` was called within NEWS_SECONDS
        self._news = False

    @property
    def refused(self) -> int:
        """Connections refused since start."""
        return self.registry.refused

    # ------------------------------------------------------------------ ports.Hub

    async def start(self) -> ListenerState:
        """Open the listener, if it can be; see `ports.Hub`."""
        settings = self._settings
        if settings.host not in HOSTS:  # not loopback: never
            return ListenerState(settings.port, PortProblem.FORBIDDEN)
        if not self._usable_token:
            return ListenerState(settings.port, PortProblem.NO_TOKEN)
        state = await self._listen(settings.port)
        if state.problem is not PortProblem.NONE:
            # Only the user's Chrome is told a fixed port; private browsers are told theirs, so any free one serves them.
            await self._listen(0)
        return state

    async def _listen(self, port: int) -> ListenerState:
        settings = self._settings
        listener = Listener(ListenerSettings(settings.host, port, settings.input), self)
        state = await listener.start()
        if state.problem is PortProblem.NONE:
            self._listener = listener
            self._resolver.policy = NetworkPolicy(settings.network, own_ports=(state.port,))
        return state

    def user_port(self) -> BrowserPort | None:
        """The user's most recently connected Chrome; one that may be back in a moment if there is no other."""
        seat = self.registry.user_seat()
        return None if seat is None else self._ports.get(seat)

    async def adopt_private(
        self,
        task: str,
        pid: int,
        commands_fd: int,
        replies_fd: int,
        deadline_ms: int,
        refuses: Refuses | None = None,
    ) -> BrowserPort:
        """Pair the extension inside a private Chromium and wait for it; see `ports.Hub`."""
        started = time.monotonic()
        pairing = f"private-{secrets.token_hex(8)}"
        token = secrets.token_hex(_TOKEN_BYTES)
        seated, gone = asyncio.Event(), asyncio.Event()
        browser = PrivateBrowser(
            commands_fd,
            replies_fd,
            check_url=self.check_url,
            on_gone=lambda: self._pipe_gone(task, pairing),
            refuses=refuses,
        )
        port = Port(pairing, denials=lambda: browser.denials)
        private = _Private(pairing, pid, port, browser, seated, gone)
        known = self._own_extension()
        if self._listener is None or known is None or task in self._private:
            await browser.close()
            raise _browser_lost()
        self._private[task] = private
        port.on_close = lambda: self._close_private(task)
        self.registry.add_private(pairing, token, known)
        seconds = deadline_ms / 1000
        try:
            async with asyncio.timeout(seconds):
                await browser.pair(
                    known,
                    {
                        "host": self._settings.host,
                        "port": self._listener.port,
                        "token": token,
                        "pairing": pairing,
                    },
                    seconds,
                )
                await _first_of(seated, gone)
        except (PrivateFailed, TimeoutError):
            gone.set()
        except asyncio.CancelledError:
            await self._close_private(task)
            raise
        if gone.is_set():
            note(_LOG, "private-not-paired", logging.WARNING)
            await self._close_private(task)
            raise _browser_lost()
        note(_LOG, "private-paired", ms=round((time.monotonic() - started) * 1000))
        return port

    def private_exited(self, task: str) -> None:
        """The task's Chromium is gone: fail what waits for it. Harmless if unknown."""
        private = self._private.pop(task, None)
        if private is None:
            return
        waiting = not private.seated.is_set()
        private.gone.set()
        lost = private.port.lose(ToolErrorCode.BROWSER_LOST)
        private.browser.abandon()
        self._end_private(private)
        if lost and not waiting and not self._stopping:
            self._on_lost(private.port)

    async def check_url(self, url: str) -> str:
        """ "" if a page may be loaded from `url`, else a `network.Refusal` value."""
        return await self._resolver.check(url)

    def extensions(self) -> tuple[ExtensionInfo, ...]:
        """Every authenticated extension, the newest first."""
        return self.registry.infos(time.monotonic())

    async def stop(self) -> None:
        """Close private browsers, the listener and every connection; no callback comes any more. Never raises."""
        self._stopping = True
        await asyncio.gather(*(self._close_private(task) for task in list(self._private)))
        for port in list(self._ports.values()):
            port.lose(ToolErrorCode.EXTENSION_LOST)
        self._ports.clear()
        if self._listener is not None:
            await self._listener.stop()
            self._listener = None
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()

    # ------------------------------------------------------------------ listener.Desk

    def uid_allowed(self, uid: int | None, pairing: str | None) -> bool:
        """Our own uid for the user's browser; the uid a private Chromium runs under for its own pairing."""
        if uid is None:
            return False
        # Read when asked: at its adoption the process may not have changed its uid yet.
        private = {one.pairing: one.pid for one in self._private.values()}
        if pairing is None:
            return uid == self._uid or any(peers.uid_of_process(pid) == uid for pid in private.values())
        if pairing in private:
            return peers.uid_of_process(private[pairing]) == uid
        return uid == self._uid

    def seated(self, connection: Connection, effect: Seated) -> None:
        """`connection` is an authenticated browser's now."""
        port = self._ports.get(effect.seat)
        private = next((one for one in self._private.values() if one.pairing == effect.pairing), None)
        if port is None:
            port = private.port if private is not None else Port(USER)
            self._ports[effect.seat] = port
        self._wires[connection.number] = effect.seat
        port.connected(connection)
        if private is not None:
            private.seated.set()

    def unseated(self, connection: Connection, seat: int) -> None:
        """The connection of `seat` has ended; the seat is lost if it does not come back in time."""
        self._wires.pop(connection.number, None)
        port = self._ports.get(seat)
        if port is not None:
            port.disconnected(connection)
        self._later(GRACE_SECONDS + _GRACE_SLACK, self._expire_seats)

    def seat_lost(self, effect: SeatLost) -> None:
        """A browser is gone for good."""
        port = self._ports.pop(effect.seat, None)
        if port is not None and port.lose(ToolErrorCode.EXTENSION_LOST) and not self._stopping:
            self._on_lost(port)

    def reply(self, connection: Connection, frame: ExtReply) -> bool:
        """An answer; False: it breaks the protocol."""
        port = self._port_of(connection)
        return port is None or port.reply(frame)

    def event(self, connection: Connection, frame: ExtEvent) -> None:
        """Something happened to a tab."""
        port = self._port_of(connection)
        if port is not None and self._on_event is not None:
            self._on_event(port, frame)

    def changed(self) -> None:
        """Who is connected, or how many were refused, has changed.

        Passed on at once, and then once more per NEWS_SECONDS: whoever knocks ten thousand times must not make the
        bridge send its supervisor ten thousand frames.
        """
        if self._stopping:
            return
        if self._quiet:
            self._news = True
            return
        self._quiet = True
        self._later(NEWS_SECONDS, self._tell_again)
        self._on_extensions()

    def _tell_again(self) -> None:
        self._quiet = False
        if self._news:
            self._news = False
            self.changed()

    # ------------------------------------------------------------------ parts

    def _expire_seats(self) -> None:
        if self._listener is not None:
            self._listener.apply(self.registry.expire(time.monotonic()))

    def _later(self, seconds: float, work: Callable[[], None]) -> None:
        def run() -> None:
            self._timers.discard(timer)
            work()

        timer = asyncio.get_running_loop().call_later(seconds, run)
        self._timers.add(timer)

    def _port_of(self, connection: Connection) -> Port | None:
        seat = self._wires.get(connection.number)
        return None if seat is None else self._ports.get(seat)

    def _own_extension(self) -> str | None:
        try:
            folder = self._folder or extension_folder()
            return extension_id((folder / "manifest.json").read_bytes())
        except (ExtensionMissing, OSError, ValueError):
            note(_LOG, "extension-missing", logging.ERROR)
            return None

    def _pipe_gone(self, task: str, pairing: str) -> None:
        # The pairing tells: by now the task may have another browser than the one whose pipe ended.
        private = self._private.get(task)
        if private is not None and private.pairing == pairing:
            self.private_exited(task)

    async def _close_private(self, task: str) -> None:
        private = self._private.pop(task, None)
        if private is None:
            return
        private.gone.set()
        private.port.lose(ToolErrorCode.BROWSER_LOST)
        self._end_private(private)
        await private.browser.close()

    def _end_private(self, private: _Private) -> None:
        effects = self.registry.remove_private(private.pairing)
        if self._listener is not None:
            self._listener.apply(effects)


async def _first_of(*events: asyncio.Event) -> None:
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()


def _browser_lost() -> PageFailure:
    return PageFailure(
        PageError(
            code=ToolErrorCode.BROWSER_LOST,
            message="The private browser did not start, or its extension did not connect.",
            retryable=True,
        )
    )
