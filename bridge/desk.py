"""The shell's side of all tasks: browsers opened, calls run, tabs and browsers given back.

Turns effects of `tasks` into calls of the runner, the hub and the app, and their ends into events. Invariants: one
asyncio task per call in flight; descriptors of a Chromium are closed here or handed to the hub, never both; after
BrowserWanted exactly one BrowserDone is sent, unless the supervisor said first that the browser is gone; a closed
task's tabs and port are given back in the background, each with a deadline, whatever they answer.

It decides nothing and keeps no page data but the session's reply under way.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections import OrderedDict
from collections.abc import Coroutine
from functools import partial
from typing import Any, Final, Protocol

from ..protocol import limits as L
from ..protocol.errors import BlockerCode, LocalMisuse, ToolErrorCode
from ..protocol.frames import (
    BrowserDone,
    BrowserSpawned,
    BrowserWanted,
    EndReason,
    ExtEvent,
    ExtEventKind,
    Frame,
    OpenTask,
    TaskClosed,
    TaskRefused,
    ToolResult,
)
from ..protocol.results import Browser, ResultClaim, SideEffects
from . import tasks
from .journal import note
from .leases import Leases, TaskTabs
from .network import Refusal
from .pagecalls import CLOSE_TOOL
from .ports import BrowserPort, Hub, PageFailure
from .runner import Denied, Reply, Runner, Session
from .workers import StartCall

log = logging.getLogger("browsercell.bridge.desk")

BROWSER_SECONDS: Final = 30.0  # from BrowserWanted to BrowserSpawned: a cold Chromium takes two
ADOPT_MS: Final = 20_000  # pairing and handshake of the extension inside
SETTLE_SECONDS: Final = 2.0  # an effect's answer is waited for this long after its worker has ended
# A dying Chromium drops its extension's connection a moment before its pipe ends (tried: 1 to 60 ms on a busy machine).
DEATH_SECONDS: Final = 0.5
CLOSE_MS: Final = 3_000  # for giving one tab back, and for closing a browser
USER_PAIRING: Final = "user"  # of the user's own Chrome; a private one's has a name of its own
MAX_TASKS: Final = 32  # open at once; more are refused as overloaded
_REMEMBERED: Final = 128  # closed tasks, for a CloseTask or ForgetWorker that comes late


class App(Protocol):
    """What the desk needs of the app."""

    def report(self, frame: Frame) -> None:
        """Send to the supervisor."""

    def answer(self, worker: str, result: ToolResult) -> None:
        """Send to a worker."""

    def forgotten(self, worker: str, unsettled: int) -> None:
        """Nothing of that worker is in flight any more."""

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run in the background; an exception out of it ends the process."""
        ...


class _Open(Session):
    """A session with what only this shell needs."""

    __slots__ = (
        "call",
        "call_id",
        "exited",
        "fds",
        "gone",
        "opening",
        "outcome",
        "reply",
        "spawned",
        "wanted",
    )

    def __init__(self, task: tasks.Task, tabs: TaskTabs) -> None:
        super().__init__(task, tabs)
        self.opening: asyncio.Task[None] | None = None
        self.spawned: asyncio.Future[int] | None = None  # pid of its Chromium, 0: there is none
        self.fds: tuple[int, int] | None = None  # of its pipe, until the hub owns them
        self.wanted = False  # a Chromium was asked for
        self.exited = False  # and is known to be gone
        self.gone = asyncio.Event()  # its task has been told that there is no browser any more
        self.call: asyncio.Task[None] | None = None
        self.call_id = 0
        self.outcome: tasks.Outcome | None = None
        self.reply: Reply | None = None


class Desk:
    """All tasks. `hub` and `runner` as the app made them."""

    def __init__(self, app: App, hub: Hub, runner: Runner) -> None:
        self._app = app
        self._hub = hub
        self._runner = runner
        self._sessions: dict[str, _Open] = {}
        self._closed: OrderedDict[str, tasks.Task] = OrderedDict()
        self._user_leases = Leases()
        self._loop = asyncio.get_running_loop()

    def open_tasks(self) -> frozenset[str]:
        """Tasks that are not closed."""
        return frozenset(self._sessions)

    # ------------------------------------------------------------------ the supervisor's side

    def open(self, spec: OpenTask) -> None:
        """OpenTask. LocalMisuse for a task that is known already."""
        if spec.task in self._sessions or spec.task in self._closed:
            raise LocalMisuse("a task is opened once")
        if len(self._sessions) >= MAX_TASKS:
            self._app.report(TaskRefused(spec.task, BlockerCode.OVERLOADED))
            return
        # A private Chromium is the task's alone; only the user's Chrome has tabs that several could want.
        leases = self._user_leases if spec.browser is Browser.CHROME else Leases()
        session = _Open(tasks.Task(spec), TaskTabs(spec.task, leases))
        self._sessions[spec.task] = session
        session.opening = self._app.start(self._opening(session))

    def spawned(self, frame: BrowserSpawned, commands_fd: int, replies_fd: int) -> None:
        """BrowserSpawned; both descriptors are the desk's from here on."""
        session = self._sessions.get(frame.task)
        if session is None or session.spawned is None or session.spawned.done():
            os.close(commands_fd)
            os.close(replies_fd)
            note(log, "late-browser", task=frame.task)
            return
        session.fds = (commands_fd, replies_fd)
        session.spawned.set_result(frame.pid)

    def exited(self, task: str) -> None:
        """BrowserExited."""
        session = self._sessions.get(task)
        if session is None:
            return
        session.exited = True
        if session.spawned is not None and not session.spawned.done():
            session.spawned.set_result(0)
        self._hub.private_exited(task)
        self._apply(session, session.task.lost(EndReason.BROWSER_LOST))
        session.gone.set()

    def assign(self, task: str, worker: str, generation: int) -> None:
        """Assign: the worker belongs to the task from now on. LocalMisuse if the task can't take it."""
        session = self._sessions.get(task)
        if session is None:
            raise LocalMisuse("no such task")
        self._apply(session, session.task.assign(worker, generation))

    def close(self, task: str) -> None:
        """CloseTask; answered for unknown tasks as well, so that a repeated one is harmless."""
        session = self._sessions.get(task)
        if session is not None:
            self._apply(session, session.task.close())
        elif task in self._closed:
            self._app.report(self._closed[task].closed_report())
        else:
            self._app.report(TaskClosed(task, SideEffects.NONE, 0, 0, ()))

    def worker_gone(self, task: str, worker: str) -> None:
        """ForgetWorker of a worker that was assigned to `task`."""
        session = self._sessions.get(task)
        if session is not None:
            self._apply(session, session.task.worker_gone(worker))
        elif task in self._closed:
            self._apply_closed(self._closed[task].worker_gone(worker))
        else:
            self._app.forgotten(worker, 0)

    # ------------------------------------------------------------------ the workers' side

    def call(self, start: StartCall) -> None:
        """A worker's tool call."""
        session = self._sessions.get(start.task)
        if session is None:
            return  # the task was closed under it; the supervisor is ending the worker
        for effect in session.task.call(start.call, start.tool):
            if isinstance(effect, tasks.Run):
                session.call_id, session.reply, session.outcome = start.call, None, None
                session.call = self._app.start(self._calling(session, start))
                session.call.add_done_callback(partial(self._ended, session))
            else:
                self._apply(session, [effect])

    def finish(self, task: str, claim: ResultClaim) -> None:
        """A worker's final claim."""
        session = self._sessions.get(task)
        if session is not None:
            self._apply(session, session.task.finish(claim))
            if session.task.dropped_claims:
                note(log, "claims-dropped", task=task, count=session.task.dropped_claims)

    # ------------------------------------------------------------------ the hub's side

    def lost(self, port: BrowserPort) -> None:
        """A browser is gone."""
        if port.pairing == USER_PAIRING:
            self._user_leases.withdraw_all()  # told anew by whoever connects
        reason = EndReason.EXTENSION_LOST if port.pairing == USER_PAIRING else EndReason.BROWSER_LOST
        for session in [one for one in self._sessions.values() if one.port is port]:
            self._apply(session, session.task.lost(reason))
            session.gone.set()

    def event(self, port: BrowserPort, event: ExtEvent) -> None:
        """Something happened to a tab: one that is gone is leased no more, a renamed one keeps its lease."""
        if port.pairing == USER_PAIRING:
            self._offers(event)
        for session in self._sessions.values():
            lease = session.tabs.by_chrome(event.tab) if session.port is port else None
            if lease is None:
                continue
            if event.kind is ExtEventKind.TAB_CLOSED:
                session.tabs.remove(lease.name)
            elif event.kind is ExtEventKind.TAB_REPLACED and event.new_tab is not None:
                session.tabs.replace(event.tab, event.new_tab)
            elif event.kind is ExtEventKind.TAB_OPENED and event.new_tab is not None:
                session.tabs.add(event.new_tab, opened=True, activate=False)  # it follows its opener
                session.where[event.new_tab] = event.url
            elif event.kind is ExtEventKind.NAVIGATED:
                session.where[event.tab] = event.url
            elif event.kind is ExtEventKind.TAB_WITHDRAWN:
                session.tabs.withdraw(event.tab)

    def _offers(self, event: ExtEvent) -> None:
        """What the user shares in their Chrome, and no longer."""
        match event.kind:
            case ExtEventKind.TAB_SHARED:
                self._user_leases.offer(event.tab)
            case ExtEventKind.TAB_WITHDRAWN | ExtEventKind.TAB_CLOSED:
                self._user_leases.withdraw(event.tab)
            case ExtEventKind.TAB_REPLACED if event.new_tab is not None:
                self._user_leases.replace_offer(event.tab, event.new_tab)
            case _:
                pass  # no word about sharing

    async def stop(self) -> None:
        """Cancel everything under way; the hub closes the browsers."""
        running = [
            work
            for session in self._sessions.values()
            for work in (session.opening, session.call)
            if work is not None and not work.done()
        ]
        for work in running:
            work.cancel()
        if running:
            await asyncio.wait(running, timeout=CLOSE_MS / 1000)

    # ------------------------------------------------------------------ effects

    def _apply(self, session: _Open, effects: list[tasks.Effect]) -> None:
        for effect in effects:
            match effect:
                case tasks.Report(frame):
                    self._app.report(frame)
                case tasks.Answer():
                    self._answer(session, effect)
                case tasks.Withdraw(worth_waiting):
                    self._withdraw(session, worth_waiting)
                case tasks.Forgotten(worker, unsettled):
                    self._app.forgotten(worker, unsettled)
                case tasks.Release(keep_tabs):
                    self._forget(session)
                    self._app.start(self._release(session, keep_tabs))
                case tasks.Run():
                    raise LocalMisuse("only `call` runs a call")

    def _apply_closed(self, effects: list[tasks.Effect]) -> None:
        for effect in effects:
            if isinstance(effect, tasks.Forgotten):
                self._app.forgotten(effect.worker, effect.unsettled)

    def _answer(self, session: _Open, answer: tasks.Answer) -> None:
        reply, outcome = session.reply, session.outcome
        if reply is None or outcome is None:
            raise LocalMisuse("a call was settled without a reply")
        self._app.answer(
            answer.worker,
            ToolResult(
                session.call_id,
                outcome.ok,
                reply.content[: L.MAX_OBSERVE_CHARS],
                outcome.code,
                reply.artifact,
                answer.page_version,
                answer.calls_left,
                reply.retryable,
                reply.may_have_effect,
                reply.refs_valid,
                reply.next_tool,
            ),
        )

    def _withdraw(self, session: _Open, worth_waiting: bool) -> None:
        call = session.call
        if call is None:
            raise LocalMisuse("no call to withdraw")
        if worth_waiting:
            self._loop.call_later(SETTLE_SECONDS, call.cancel)
        else:
            call.cancel()

    def _forget(self, session: _Open) -> None:
        task = session.task.task
        self._sessions.pop(task, None)
        self._closed[task] = session.task
        while len(self._closed) > _REMEMBERED:
            self._closed.popitem(last=False)

    # ------------------------------------------------------------------ what takes time

    async def _calling(self, session: _Open, start: StartCall) -> None:
        outcome, reply = await self._runner.run(session, start.tool, start.args)
        if outcome.code is ToolErrorCode.EXTENSION_LOST and session.wanted:
            await _bounded(
                session.gone, DEATH_SECONDS
            )  # a dead browser is the task's end, not a worker's failed step
        session.outcome, session.reply = outcome, reply
        settle_us = session.answer.settle_us if session.answer is not None else 0
        self._apply(
            session, session.task.settle(outcome)
        )  # the next call may begin: `session` is its from here on
        note(
            log,
            "call-settled",
            task=start.task,
            generation=start.generation,
            call=start.call,
            tool=start.tool,
            ok=outcome.ok,
            code=outcome.code.value if outcome.code is not None else None,
            chars=outcome.chars,
            settle_us=settle_us,
        )

    def _ended(self, session: _Open, call: asyncio.Task[None]) -> None:
        """A call that was cancelled before its first step has to be settled all the same: nothing was sent."""
        if call.cancelled():
            session.outcome = tasks.Outcome(False, ToolErrorCode.CANCELLED)
            session.reply = Reply("The call was cancelled.")
            self._apply(session, session.task.settle(session.outcome))

    async def _opening(self, session: _Open) -> None:
        code = await self._opened(session)
        note(log, "task-opened", task=session.task.task, refused=code.value if code is not None else None)
        if code is None:
            self._apply(session, session.task.opened())
        else:
            self._apply(session, session.task.refused(code))

    async def _opened(self, session: _Open) -> BlockerCode | None:
        """Policy first: a forbidden start page costs no browser."""
        spec = session.task.spec
        url = spec.url
        if url is not None:
            try:
                await self._runner.check(session, url)
            except Denied as denied:
                if denied.reason != Refusal.UNRESOLVABLE:
                    return BlockerCode.POLICY_DENIED
                url = (
                    None  # a start page that does not load; no reason to refuse the task, as in `open_start`
                )
        if spec.browser is Browser.CHROME:
            session.port = self._hub.user_port()
        else:
            session.port = await self._private(session)
        if session.port is None:
            return BlockerCode.BROWSER_UNAVAILABLE
        return await self._runner.open_start(session, url) if url is not None else None

    async def _private(self, session: _Open) -> BrowserPort | None:
        task = session.task.task
        session.spawned = self._loop.create_future()
        session.wanted = True
        self._app.report(BrowserWanted(task))
        try:
            async with asyncio.timeout(BROWSER_SECONDS):
                pid = await session.spawned
        except TimeoutError:
            return None
        fds, session.fds = session.fds, None
        if fds is None:
            return None
        try:
            return await self._hub.adopt_private(
                task, pid, *fds, ADOPT_MS, session.task.policy.refuses_request
            )
        except PageFailure as failure:
            note(log, "browser-not-adopted", task=task, code=failure.error.code.value)
            return None

    async def _release(self, session: _Open, keep_tabs: bool) -> None:
        """Give everything back. A browser that does not answer is the supervisor's to end."""
        opening = session.opening
        if opening is not None and not opening.done():
            opening.cancel()
            await asyncio.wait({opening}, timeout=CLOSE_MS / 1000)
        fds, session.fds = session.fds, None
        for fd in fds or ():
            os.close(fd)  # the opening was cancelled between their arrival and their use
        port = session.port
        if port is not None:
            if not session.wanted:
                await self._release_tabs(session, port, keep_tabs)
            try:
                async with asyncio.timeout(CLOSE_MS / 1000):
                    await port.close()
            except TimeoutError:
                note(log, "browser-not-closed", logging.WARNING, task=session.task.task)
        session.tabs.clear()
        if session.wanted and not session.exited:
            self._app.report(BrowserDone(session.task.task))

    async def _release_tabs(self, session: _Open, port: BrowserPort, keep_tabs: bool) -> None:
        """In the user's Chrome: close what the task opened, unless a person has to look at it; release the rest."""
        for lease in session.tabs.all():
            op = CLOSE_TOOL if lease.opened and not keep_tabs else "release"
            try:
                async with asyncio.timeout(CLOSE_MS / 1000):
                    await port.call(op, b"{}", tab=lease.chrome, deadline_ms=CLOSE_MS)
            except (PageFailure, TimeoutError):
                note(log, "tab-not-released", task=session.task.task)


async def _bounded(event: asyncio.Event, seconds: float) -> None:
    """Wait for `event`, `seconds` at most. A cancellation only ends the wait: the outcome at hand has to be settled."""
    with contextlib.suppress(TimeoutError, asyncio.CancelledError):
        async with asyncio.timeout(seconds):
            await event.wait()
