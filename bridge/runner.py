"""Runs one tool call of one task: check, command, check again, keep, present. And opens a task's browser.

Invariants: a URL is judged by the network policy before a command that loads it is sent, and the URL of every reply
before anything of the reply is handed on (design 5; a page may have gone anywhere meanwhile): what a forbidden page
says is withheld, what the command may have caused is still told. Nothing is sent twice. A call always ends with an
`Outcome`, cancelled ones included. Texts of failures are the bridge's or the extension's own words, never a page's.

Shell code without a decision of its own: `pagecalls` and `tasks` decide, the hub and the store act.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeVar

import msgspec

from ..protocol import limits as L
from ..protocol.errors import BlockerCode, ToolErrorCode
from ..protocol.frames import PageError, PageReply
from ..protocol.results import Browser
from ..protocol.tools import NavigateArgs, TabsOpenArgs
from .artifacts import ArtifactStore, NoRoom
from .leases import TaskTabs
from .locators import Locators
from .network import Refusal as RefusalReason
from .pagecalls import (
    CLOSE_TOOL,
    LIST_TOOL,
    OPEN_TOOL,
    Command,
    Keep,
    Local,
    Refusal,
    describe_kept,
    keeps,
    page_key,
    prepare,
    present,
    present_tabs,
    settle_tabs,
    to_keep,
)
from .policy import EFFECT_TOOLS
from .ports import BrowserPort, Hub, PageFailure
from .tasks import Kept, Outcome, Task
from .urls import BadUrl, Destination, parse_destination

# A host's verdict is used again for this long: one look-up for a burst of calls, and a changed address is noticed.
VERDICT_SECONDS: Final = 5.0
CHECK_SECONDS: Final = 5.0  # a name look-up that takes longer is a failed one
# The port settles at its deadline plus one second for the answer to travel; this is for a port that breaks its word.
PORT_SLACK_MS: Final = 1_500
_MAX_VERDICTS: Final = 256  # hosts remembered a task; forgotten as a whole

T = TypeVar("T")


class InThread(Protocol):
    """Runs a blocking function in the store's thread and gives its result back."""

    async def __call__(self, work: Callable[[], T]) -> T: ...


@dataclass(frozen=True, slots=True)
class Reply:
    """The worker's part of a settled call."""

    content: str
    artifact: str = ""
    retryable: bool = False
    may_have_effect: bool = False
    refs_valid: bool = True
    next_tool: str = ""


@dataclass(slots=True)
class Session:
    """The shell's side of one task: its machine, tabs and way to a browser."""

    task: Task
    tabs: TaskTabs
    port: BrowserPort | None = None
    locators: Locators = field(default_factory=Locators)
    dispatched: bool = False  # the call in flight has been sent to the browser
    answer: PageReply | None = None  # and this came back
    verdicts: dict[Destination, tuple[str, float]] = field(default_factory=dict)
    passed: dict[str, float] = field(default_factory=dict)  # addresses that were allowed, until when
    where: dict[int, str] = field(
        default_factory=dict
    )  # Chrome tab: URL of its page as last told, by a reply or an event


class Denied(Exception):
    """The network policy forbids an address; `reason` is its closed code."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class _OffLimits(Denied):
    """Not an address asked for, but the page at hand."""


class Runner:
    """Runs calls against `hub` and `store`. `now`: monotonic seconds; `fresh_id`: an unused artifact id."""

    def __init__(
        self,
        hub: Hub,
        store: ArtifactStore,
        *,
        in_thread: InThread,
        now: Callable[[], float],
        fresh_id: Callable[[], str],
        open_tasks: Callable[[], frozenset[str]],
    ) -> None:
        self._hub = hub
        self._store = store
        self._in_thread = in_thread
        self._now = now
        self._fresh_id = fresh_id
        self._open_tasks = open_tasks

    async def open_start(self, session: Session, url: str) -> BlockerCode | None:
        """Open the start page (allowed already) in a first tab; why the task can't begin, None if it can.

        A page that fails to load is no reason: the worker sees it and may go elsewhere.
        """
        args = TabsOpenArgs(url)
        command = Command(OPEN_TOOL, args, msgspec.json.encode(args), L.NAVIGATION_MS)
        try:
            reply = await self._command(session, command)
            settle_tabs(command, reply, session.tabs)
            session.task.url = reply.url
            _note_where(session, command, reply)
            await self.check(session, reply.url)
        except Denied:
            return BlockerCode.POLICY_DENIED
        except PageFailure as failure:
            return _OPENING.get(failure.error.code)
        return None

    async def run(self, session: Session, tool: str, raw: bytes) -> tuple[Outcome, Reply]:
        """Run one call to its end. Cancelled: the outcome says honestly what may have happened."""
        session.dispatched, session.answer = False, None
        try:
            return await self._run(session, tool, raw)
        except asyncio.CancelledError:
            answer = session.answer
            outcome = Outcome(
                False,
                ToolErrorCode.CANCELLED,
                dispatched=session.dispatched,
                answered=answer is not None or not session.dispatched,
                may_have_effect=session.dispatched and tool in EFFECT_TOOLS,
                changes=answer.changes if answer is not None else None,
            )
            return outcome, Reply("The call was cancelled.", may_have_effect=outcome.may_have_effect)

    async def _run(self, session: Session, tool: str, raw: bytes) -> tuple[Outcome, Reply]:
        prepared = prepare(
            tool,
            raw,
            session.tabs,
            calls_left=max(0, session.task.calls_left - 1),
            browser=Browser.CHROME.value if _is_user(session) else Browser.PRIVATE.value,
            kept=session.locators,
        )
        match prepared:
            case Refusal():
                return _refused(prepared)
            case Local(text):
                return Outcome(True, chars=len(text)), Reply(text)
            case Command() as command:
                pass
        if not session.task.policy.allows_tool(command.op):
            return _refused(_READ_ONLY)
        try:
            if command.url:
                await self.check(session, command.url)
            elif command.op not in _LEAVING:
                await self._check_page(session, command)
            reply = await self._command(session, command)
        except _OffLimits as off:
            message = f"The page is where the policy does not allow it ({off.reason}); nothing was done."
            return _refused(Refusal(ToolErrorCode.POLICY_DENIED, message, "browser_page_navigate"))
        except Denied as denied:
            return _refused(_denial(denied))
        except PageFailure as failure:
            return await self._failed(session, _without_effect(command, failure.error))
        if command.op == LIST_TOOL:
            return await self._list(session, reply)
        return await self._replied(session, command, reply)

    async def _replied(self, session: Session, command: Command, reply: PageReply) -> tuple[Outcome, Reply]:
        tab_line = settle_tabs(command, reply, session.tabs)
        _note_where(session, command, reply)
        if command.op == CLOSE_TOOL:
            text = present(command, PageReply(), tab_line)
            return Outcome(True, chars=len(text), dispatched=True), Reply(text)
        try:
            await self.check(session, reply.url)
        except Denied as denied:
            effect = command.op in EFFECT_TOOLS
            outcome = Outcome(
                False,
                ToolErrorCode.POLICY_DENIED,
                dispatched=True,
                may_have_effect=effect,
                changes=reply.changes,
            )
            message = f"The page went where the policy does not allow it ({denied.reason}); what it says is withheld."
            return outcome, Reply(message, may_have_effect=effect, next_tool="browser_page_navigate")
        kept: Kept | None = None
        text = ""
        keep = await self._in_thread(lambda: to_keep(command, reply)) if keeps(command) else None
        if isinstance(keep, Keep):
            stored = await self._keep(session, keep)
            if isinstance(stored, Kept):
                kept = stored
                text = describe_kept(keep, kept.artifact)
                if reply.locator is not None:
                    session.locators.keep(kept.artifact, reply.locator)
            else:
                keep = stored
        if isinstance(keep, Refusal):
            return _refused(keep, reply)
        text = text or present(command, reply, tab_line)
        outcome = Outcome(
            True,
            chars=len(text),
            dispatched=True,
            page=page_key(reply),
            url=reply.url,
            changes=reply.changes,
            kept=kept,
        )
        return outcome, Reply(text, kept.artifact if kept is not None else "")

    async def _list(self, session: Session, reply: PageReply) -> tuple[Outcome, Reply]:
        denied: set[str] = set()
        for info in reply.tabs:
            try:
                await self.check(session, info.url)
            except Denied:
                denied.add(info.url)
        text = present_tabs(reply, session.tabs, denied)
        return Outcome(True, chars=len(text), dispatched=True), Reply(text)

    async def _failed(self, session: Session, error: PageError) -> tuple[Outcome, Reply]:
        """A failure's own words; where the page is must be allowed even so, or that is the failure."""
        try:
            if error.url:
                await self.check(session, error.url)
        except Denied as denied:
            error = PageError(
                ToolErrorCode.POLICY_DENIED,
                f"The page is where the policy does not allow it ({denied.reason}).",
                may_have_effect=error.may_have_effect,
                next_tool="browser_page_navigate",
            )
        outcome = Outcome(
            False,
            error.code,
            chars=len(error.message),
            dispatched=session.dispatched,
            may_have_effect=error.may_have_effect,
        )
        return outcome, Reply(
            error.message,
            retryable=error.retryable,
            may_have_effect=error.may_have_effect,
            refs_valid=error.refs_valid,
            next_tool=error.next_tool,
        )

    async def _command(self, session: Session, command: Command) -> PageReply:
        port = session.port
        if port is None:
            raise PageFailure(PageError(ToolErrorCode.BROWSER_LOST, "The browser is gone."))
        session.dispatched = True
        try:
            async with asyncio.timeout((command.deadline_ms + PORT_SLACK_MS) / 1000):
                session.answer = await port.call(
                    command.op,
                    command.json,
                    tab=command.lease.chrome if command.lease is not None else None,
                    tabs=command.tabs,
                    deadline_ms=command.deadline_ms,
                )
                return session.answer
        except TimeoutError:
            effect = command.op in EFFECT_TOOLS
            raise PageFailure(
                PageError(
                    ToolErrorCode.TIMEOUT, "The browser did not answer in time.", may_have_effect=effect
                )
            ) from None

    async def check(self, session: Session, url: str) -> None:
        """Raise Denied unless a page may be at `url`, by the task's policy and the network's. The network's verdict holds for its scheme, host and port for seconds."""
        if session.passed.get(url, 0.0) > self._now():
            return  # the same address as a moment ago, under a policy that never changes
        try:
            # The browser's reading of the text: a laxer one would give two hosts one key, and one the other's verdict.
            key = parse_destination(url)
        except BadUrl as error:
            raise Denied(error.code) from None
        verdict = session.task.policy.refuses_url(url)
        known = session.verdicts.get(key)
        if verdict:
            raise Denied(verdict)
        if known is not None and known[1] > self._now():
            verdict, until = known
        else:
            verdict, until = await self._ask(url), self._now() + VERDICT_SECONDS
            if len(session.verdicts) >= _MAX_VERDICTS:
                session.verdicts.clear()
            session.verdicts[key] = (verdict, until)
        if verdict:
            raise Denied(verdict)
        if len(session.passed) >= _MAX_VERDICTS:
            session.passed.clear()
        session.passed[url] = until

    async def _check_page(self, session: Session, command: Command) -> None:
        """Raise _OffLimits if the page that `command` is for is where none may be: it went there by itself.

        A page that moves after this is noticed with the reply; what it says is withheld then.
        """
        url = session.where.get(command.lease.chrome, "") if command.lease is not None else ""
        if not url:
            return
        try:
            await self.check(session, url)
        except Denied as denied:
            raise _OffLimits(denied.reason) from None

    async def _ask(self, url: str) -> str:
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                return await self._hub.check_url(url)
        except TimeoutError:
            return RefusalReason.UNRESOLVABLE

    async def _keep(self, session: Session, keep: Keep) -> Kept | Refusal:
        artifact = self._fresh_id()
        task = session.task.task
        open_tasks = self._open_tasks()
        try:
            record = await self._in_thread(
                lambda: self._store.put(artifact, task, keep.kind, keep.media_type, keep.data, open_tasks)
            )
        except NoRoom as full:
            return Refusal(ToolErrorCode.QUOTA_EXCEEDED, f"The artifact was not kept: {full}.")
        except OSError:
            return Refusal(ToolErrorCode.INTERNAL, "The artifact could not be written.")
        return Kept(record.artifact, record.kind, record.size, record.sha256, record.media_type)


# Failures of the start page that end the task; all others are the worker's to see.
_OPENING: Final = {
    ToolErrorCode.POLICY_DENIED: BlockerCode.POLICY_DENIED,
    ToolErrorCode.RESTRICTED_PAGE: BlockerCode.POLICY_DENIED,
    ToolErrorCode.EXTENSION_LOST: BlockerCode.BROWSER_UNAVAILABLE,
    ToolErrorCode.BROWSER_LOST: BlockerCode.BROWSER_UNAVAILABLE,
    ToolErrorCode.INTERNAL: BlockerCode.BROWSER_UNAVAILABLE,
}


_READ_ONLY: Final = Refusal(
    ToolErrorCode.POLICY_DENIED,
    "This task may only read: its policy allows no clicking, typing, pressing or selecting.",
    "browser_page_observe",
)
# Commands that leave the page at hand, or do not look at it.
_LEAVING: Final = frozenset({"browser_page_navigate", CLOSE_TOOL, LIST_TOOL, OPEN_TOOL})


def _note_where(session: Session, command: Command, reply: PageReply) -> None:
    if command.op == CLOSE_TOOL:
        if command.lease is not None:
            session.where.pop(command.lease.chrome, None)
        return
    tab = command.lease.chrome if command.lease is not None else reply.tab
    if tab is not None and reply.url:
        session.where[tab] = reply.url


def _is_user(session: Session) -> bool:
    return session.port is not None and session.port.pairing == "user"


def _without_effect(command: Command, error: PageError) -> PageError:
    """Going to a URL only reads: where that failed nothing was submitted (design 4). The history may send a form again."""
    args = command.args
    if isinstance(args, TabsOpenArgs) or (isinstance(args, NavigateArgs) and args.url is not None):
        return msgspec.structs.replace(error, may_have_effect=False)
    return error


def _denial(denied: Denied) -> Refusal:
    if denied.reason == RefusalReason.UNRESOLVABLE:  # no rule forbids it: there is nowhere to go
        return Refusal(
            ToolErrorCode.NAVIGATION_FAILED, "The name of the host could not be resolved.", retryable=True
        )
    return Refusal(ToolErrorCode.POLICY_DENIED, f"The policy does not allow this address ({denied.reason}).")


def _refused(refusal: Refusal, reply: PageReply | None = None) -> tuple[Outcome, Reply]:
    outcome = Outcome(
        False,
        refusal.code,
        chars=len(refusal.message),
        dispatched=reply is not None,
        page=page_key(reply) if reply is not None else None,
        url=reply.url if reply is not None else "",
    )
    return outcome, Reply(refusal.message, retryable=refusal.retryable, next_tool=refusal.next_tool)
