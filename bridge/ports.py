"""The seam between the bridge's core and whatever talks to browsers (`bridge/extension`, `bridge/chromium`).

The core (`app`, `tasks`) knows tasks, leases and artifacts; the hub behind these protocols knows sockets, handshakes
and debugging pipes. Tests put a fake hub here.

Invariants of an implementation: `call` settles exactly once, at its deadline at the latest, with a PageReply or a
PageFailure whose `may_have_effect` is true unless the command certainly never reached a page; nothing here is retried
implicitly; everything runs in the bridge's one event loop. This module decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from ..protocol.frames import ExtensionInfo, ExtEvent, PageError, PageReply, PortProblem
from ..protocol.settings import BridgeSettings

# (URL, method) of a document request -> why it may not be sent, "" if it may.
Refuses = Callable[[str, str], str]


class PageFailure(Exception):
    """A page command failed; `error` says how (its `message` is never page text)."""

    def __init__(self, error: PageError) -> None:
        super().__init__(error.code.value)
        self.error = error


@dataclass(frozen=True, slots=True)
class ListenerState:
    """The loopback listener after `start`: on `port`, or off for `problem`; `port_owner` is a pid (0: unknown)."""

    port: int
    problem: PortProblem = PortProblem.NONE
    port_owner: int = 0


class BrowserPort(Protocol):
    """One task's way to a browser."""

    @property
    def pairing(self) -> str:
        """ "user", or the name a private Chromium was paired under."""
        ...

    async def call(
        self, op: str, args: bytes, *, tab: int | None = None, tabs: tuple[int, ...] = (), deadline_ms: int
    ) -> PageReply:
        """Run `op` (a worker tool's name, or `release`) with JSON `args` in Chrome tab `tab`.

        Raises PageFailure, with `extension-lost` or `browser-lost` when the connection or Chromium goes, `timeout` at
        the deadline (milliseconds).
        """
        ...

    async def close(self) -> None:
        """Private: ask Chromium to close and free what belongs to it. User: nothing. Never raises."""
        ...


class Hub(Protocol):
    """All browsers of the bridge. Made by `extension.hub.make_hub(settings, token, ...)` (`MakeHub`)."""

    async def start(self) -> ListenerState:
        """Open the listener, if it can be."""
        ...

    def user_port(self) -> BrowserPort | None:
        """The connected user Chrome, if any."""
        ...

    async def adopt_private(
        self,
        task: str,
        pid: int,
        commands_fd: int,
        replies_fd: int,
        deadline_ms: int,
        refuses: Refuses | None = None,
    ) -> BrowserPort:
        """Pair the extension inside a private Chromium over its pipe and wait for its handshake.

        `refuses`: the task's policy, asked before each document request is sent.

        Owns both descriptors from the call on, whatever happens. Raises PageFailure (`browser-lost`).
        """
        ...

    def private_exited(self, task: str) -> None:
        """The task's Chromium is gone: fail what waits for it."""
        ...

    async def check_url(self, url: str) -> str:
        """ "" if a page may be loaded from `url`, else a closed reason code.

        Resolves the address; refuses what the network policy does, our own listeners, everything but http and https,
        and user info.
        """
        ...

    def extensions(self) -> tuple[ExtensionInfo, ...]:
        """Every authenticated extension."""
        ...

    @property
    def refused(self) -> int:
        """Connections refused since start."""
        ...

    async def stop(self) -> None:
        """Close the listener, every connection and every private browser. Never raises."""
        ...


class MakeHub(Protocol):
    """How a hub is made. Callbacks run in the loop: `on_extensions()` when `extensions` or `refused` changed,
    `on_lost(port)` when a browser is gone for good, `on_event(port, event)` for an extension's event.

    Raises UsageError for settings it can't use.
    """

    def __call__(
        self,
        settings: BridgeSettings,
        token: str,
        *,
        on_extensions: Callable[[], None],
        on_lost: Callable[[BrowserPort], None],
        on_event: Callable[[BrowserPort, ExtEvent], None],
    ) -> Hub: ...
