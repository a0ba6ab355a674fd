"""One private Chromium over its debugging pipe: guarded, paired, closed (design 10; facts/chromium.md 0).

Shell around `guard`: carries events in and effects out, asks the network policy, and hands the extension inside its
pairing before anybody has a page. The supervisor spawns and ends the process; here is only its pipe.

Invariants: the guard stands before the extension is paired, so no task's command can come first; our session on
the extension's service worker is gone before `pair` returns; the token is written to the extension's storage and
nowhere else. The log has kinds of denials, never a URL.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

from ..journal import note
from ..ports import Refuses
from .guard import START, Command, Denial, Denied, Effect, Guard, Judge
from .pipe import CommandRefused, Pipe, PipeClosed

POLL_SECONDS: Final = 0.02  # the service worker is there some 100 ms after the first answer
CLOSE_SECONDS: Final = 2.0  # for Browser.close to be answered; then the supervisor kills
MAX_NOTES: Final = (
    100  # denials in the log of one browser; a page can make them by the thousand, the rest is only counted
)
_LOG = logging.getLogger(__name__)


class PrivateFailed(Exception):
    """The browser can't be used: its pipe is closed, it refused the guard, or its extension did not come in time."""


class PrivateBrowser:
    """One browser. Takes both descriptors over. `check_url`: "" if the network policy lets a URL be
    loaded; `refuses`: the task's policy for (URL, method), "" likewise. `on_gone`: the pipe ended."""

    def __init__(
        self,
        commands_fd: int,
        replies_fd: int,
        *,
        check_url: Callable[[str], Awaitable[str]],
        on_gone: Callable[[], None],
        refuses: Refuses | None = None,
    ) -> None:
        self._check_url = check_url
        self._refuses = refuses
        self._guard = Guard()
        self._tasks: set[asyncio.Task[None]] = set()
        self._notes = 0
        self._on_gone = on_gone
        self._pipe = Pipe(commands_fd, replies_fd, on_event=self._event, on_closed=self._closed)

    @property
    def denials(self) -> int:
        """Page loads that the network policy stopped, popups and downloads; frames inside a page do not count."""
        counted = (Denial.NAVIGATION, Denial.POPUP, Denial.DOWNLOAD)
        return sum(self._guard.denials[denial] for denial in counted)

    async def pair(self, extension_id: str, pairing: dict[str, str | int], seconds: float) -> None:
        """Put the guard up, then write `pairing` into the extension's storage. Raises PrivateFailed."""
        deadline = time.monotonic() + seconds
        try:
            async with asyncio.timeout(seconds):
                for command in START:
                    await self._pipe.call(command.method, command.params, seconds=seconds)
                session = await self._attach_to_worker(extension_id, deadline)
                await self._store(session, pairing, deadline)
                await self._pipe.call("Target.detachFromTarget", {"sessionId": session}, seconds=seconds)
        except (PipeClosed, CommandRefused, TimeoutError) as error:
            raise PrivateFailed(type(error).__name__) from None

    async def close(self) -> None:
        """Ask Chromium to end, then close the pipe. Never raises."""
        try:
            await self._pipe.call("Browser.close", seconds=CLOSE_SECONDS)
        except (PipeClosed, CommandRefused, TimeoutError):
            note(_LOG, "private-close-unanswered")  # the supervisor ends the process anyway
        finally:
            self._pipe.close()

    def abandon(self) -> None:
        """The process is gone: close the pipe. Harmless when closed."""
        self._pipe.close()

    # ------------------------------------------------------------------ pairing

    async def _attach_to_worker(self, extension_id: str, deadline: float) -> str:
        prefix = f"chrome-extension://{extension_id}/"
        while True:
            found = await self._pipe.call(
                "Target.getTargets",
                {"filter": [{"type": "service_worker"}]},  # without it, the filter of the discovery holds
                seconds=max(0.0, deadline - time.monotonic()),
            )
            for info in found.get("targetInfos", []):
                if info.get("type") == "service_worker" and str(info.get("url", "")).startswith(prefix):
                    try:
                        answer = await self._pipe.call(
                            "Target.attachToTarget",
                            {"targetId": info["targetId"], "flatten": True},
                            seconds=max(0.0, deadline - time.monotonic()),
                        )
                    except CommandRefused:
                        break  # it was restarted just now and is another target
                    return str(answer.get("sessionId", ""))
            await asyncio.sleep(POLL_SECONDS)

    async def _store(self, session: str, pairing: dict[str, str | int], deadline: float) -> None:
        # A just started worker has no chrome.storage for some milliseconds.
        expression = (
            'typeof chrome === "undefined" || !chrome.storage ? false : '
            f"chrome.storage.local.set({{pairing: {json.dumps(pairing)}}}).then(() => true)"
        )
        parameters: dict[str, Any] = {"expression": expression, "awaitPromise": True, "returnByValue": True}
        while True:
            left = max(0.0, deadline - time.monotonic())
            answer = await self._pipe.call("Runtime.evaluate", parameters, session=session, seconds=left)
            result = answer.get("result")
            if isinstance(result, dict) and result.get("value") is True:
                return
            await asyncio.sleep(POLL_SECONDS)

    # ------------------------------------------------------------------ guard

    def _event(self, method: str, params: dict[str, Any], session: str) -> None:
        self._apply(self._guard.event(method, params, session))

    def _apply(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Command):
                # A refusal means that the target has gone meanwhile, which is as good as done.
                self._pipe.post(effect.method, effect.params, session=effect.session)
            elif isinstance(effect, Judge):
                self._spawn(self._judge(effect))
            else:
                self._log_denied(effect)

    async def _judge(self, judge: Judge) -> None:
        reason = self._refuses(judge.url, judge.method) if self._refuses is not None else ""
        reason = reason or await self._check_url(judge.url)
        if reason:
            self._note("load-refused", reason)
        self._apply(self._guard.verdict(judge.request, not reason))

    def _log_denied(self, effect: Denied) -> None:
        self._note("denied", effect.denial.value)

    def _note(self, event: str, kind: str) -> None:
        if self._notes < MAX_NOTES:
            self._notes += 1
            note(_LOG, event, kind=kind)

    def _spawn(self, work: Any) -> None:
        task: asyncio.Task[None] = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _closed(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._on_gone()
