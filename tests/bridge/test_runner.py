"""One call from its check to its outcome, where `test_app` does not reach (bridge/runner.py)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest
from browsercell.bridge import runner as module
from browsercell.bridge.artifacts import ArtifactStore, NoRoom
from browsercell.bridge.leases import Leases, TaskTabs
from browsercell.bridge.runner import VERDICT_SECONDS, Denied, Reply, Runner, Session
from browsercell.bridge.tasks import Outcome, Task
from browsercell.protocol.errors import ToolErrorCode
from browsercell.protocol.frames import Changes, OpenTask, PageReply
from browsercell.protocol.results import Actions, Browser, Policy
from browsercell.protocol.settings import BridgeSettings

from .harness import LOST, PAGE, FakeHub, FakePort

T = TypeVar("T")


class Rig:
    """A runner, one session with one tab, and a clock that stands still."""

    def __init__(self, tmp_path: Path, policy: Policy = Policy()) -> None:  # noqa: B008 - frozen
        self.hub = FakeHub(
            BridgeSettings("/unused"),
            "a-token-long-enough",
            on_extensions=lambda: None,
            on_lost=lambda _port: None,
            on_event=lambda _port, _event: None,
        )
        self.store = ArtifactStore(str(tmp_path / "artifacts"))
        self.store.open()
        self.now = 100.0
        self.runner = Runner(
            self.hub,
            self.store,
            in_thread=self.in_thread,
            now=lambda: self.now,
            fresh_id=lambda: "art_aaaa",
            open_tasks=frozenset,
        )
        task = Task(OpenTask("task_aaaa", Browser.PRIVATE, None, (), 40, policy=policy))
        self.session = Session(task, TaskTabs("task_aaaa", Leases()), FakePort("private-1"))
        self.session.tabs.add(7, opened=True, activate=True)

    async def in_thread(self, work: Callable[[], T]) -> T:
        return work()

    @property
    def port(self) -> FakePort:
        assert isinstance(self.session.port, FakePort)
        return self.session.port

    async def run(self, tool: str, **args: object) -> tuple[Outcome, Reply]:
        return await self.runner.run(self.session, tool, msgspec.json.encode(args))


def on(tmp_path: Path, scenario: Callable[[Rig], Any]) -> None:
    async def main() -> None:
        await scenario(Rig(tmp_path))

    asyncio.run(main())


def test_a_picture_that_can_not_be_kept_is_a_failure_of_a_page_that_was_seen(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        rig.port.answers["browser_page_screenshot"] = PageReply(image="none", url=PAGE, version="v")
        outcome, reply = await rig.run("browser_page_screenshot")
        assert (outcome.ok, outcome.code, outcome.page) == (False, ToolErrorCode.INTERNAL, (PAGE, "v"))
        assert reply.retryable

    on(tmp_path, scenario)


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (NoRoom("the disk is full"), ToolErrorCode.QUOTA_EXCEEDED, "the disk is full"),
        (OSError(5, "secret path"), ToolErrorCode.INTERNAL, "could not be written"),
    ],
)
def test_no_room_for_an_artifact(tmp_path: Path, error: Exception, code: ToolErrorCode, words: str) -> None:
    async def scenario(rig: Rig) -> None:
        def failing(*_: object) -> None:
            raise error

        rig.store.put = failing  # type: ignore[method-assign, assignment]
        outcome, reply = await rig.run("browser_page_screenshot")
        assert outcome.code is code
        assert words in reply.content
        assert outcome.kept is None

    on(tmp_path, scenario)


def test_without_a_browser(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        rig.session.port = None
        outcome, reply = await rig.run("browser_page_click", ref="e1")
        assert (outcome.code, outcome.dispatched) == (ToolErrorCode.BROWSER_LOST, False)
        assert not reply.may_have_effect

    on(tmp_path, scenario)


def test_a_port_that_breaks_its_word_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(rig: Rig) -> None:
        monkeypatch.setattr(module, "PORT_SLACK_MS", -9_950)
        rig.port.hold.clear()
        outcome, reply = await rig.run("browser_page_click", ref="e1")
        assert (outcome.code, outcome.may_have_effect) == (ToolErrorCode.TIMEOUT, True)
        assert reply.may_have_effect
        outcome, _ = await rig.run("browser_page_observe")
        assert (outcome.code, outcome.may_have_effect) == (ToolErrorCode.TIMEOUT, False)

    on(tmp_path, scenario)


def test_verdicts_hold_for_seconds_and_for_one_host(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        for url in (PAGE, PAGE + "/2", "https://shop.example:444/", "http://shop.example/"):
            await rig.runner.check(rig.session, url)
        assert rig.hub.checked == [PAGE, "https://shop.example:444/", "http://shop.example/"]
        rig.now += VERDICT_SECONDS
        rig.hub.denied = {"shop.example": "denied"}
        with pytest.raises(Denied, match="denied"):
            await rig.runner.check(rig.session, PAGE)
        with pytest.raises(Denied, match="denied"):
            await rig.runner.check(rig.session, PAGE)
        assert len(rig.hub.checked) == 4

    on(tmp_path, scenario)


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("https://user:pw@shop.example/", "user-info"),
        ("https://[shop/", "bad-url"),
        ("https://shop.example:x/", "bad-url"),
        ("data:text/html,x", "scheme"),
        ("", "bad-url"),
        ("blob:https://shop.example/1", "scheme"),
        ("javascript:alert(1)", "scheme"),
    ],
)
def test_addresses_nobody_may_be_at(tmp_path: Path, url: str, reason: str) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.runner.check(rig.session, "https://shop.example/")  # a good verdict for the host is no pass
        with pytest.raises(Denied, match=reason):
            await rig.runner.check(rig.session, url)

    on(tmp_path, scenario)


def test_remembered_verdicts_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(rig: Rig) -> None:
        monkeypatch.setattr(module, "_MAX_VERDICTS", 3)
        for number in range(10):
            await rig.runner.check(rig.session, f"https://shop{number}.example/")
            assert len(rig.session.verdicts) <= 3

    on(tmp_path, scenario)


def test_a_name_that_takes_too_long_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(rig: Rig) -> None:
        async def never(_url: str) -> str:
            await asyncio.Event().wait()
            return ""

        monkeypatch.setattr(module, "CHECK_SECONDS", 0.01)
        rig.hub.check_url = never  # type: ignore[method-assign, assignment]
        outcome, reply = await rig.run("browser_page_navigate", url=PAGE)
        assert outcome.code is ToolErrorCode.NAVIGATION_FAILED
        assert "could not be resolved" in reply.content

    on(tmp_path, scenario)


@pytest.mark.parametrize("tool", ["browser_page_navigate", "browser_tabs_open"])
def test_a_host_without_an_address_is_a_failed_navigation(tmp_path: Path, tool: str) -> None:
    async def scenario(rig: Rig) -> None:
        rig.hub.denied = {"nowhere.example": "unresolvable", "inside.example": "not-public"}
        outcome, reply = await rig.run(tool, url="https://nowhere.example/")
        assert (outcome.code, outcome.dispatched) == (ToolErrorCode.NAVIGATION_FAILED, False)
        assert reply == Reply("The name of the host could not be resolved.", retryable=True)
        outcome, reply = await rig.run(tool, url="https://inside.example/")
        assert outcome.code is ToolErrorCode.POLICY_DENIED
        assert "not-public" in reply.content

    on(tmp_path, scenario)


@pytest.mark.parametrize(
    ("tool", "args", "effect"),
    [
        ("browser_page_navigate", {"url": PAGE}, False),
        ("browser_tabs_open", {"url": PAGE}, False),
        ("browser_page_navigate", {"history": "reload"}, True),
        ("browser_page_click", {"ref": "e1"}, True),
    ],
)
def test_going_to_a_url_submits_nothing(
    tmp_path: Path, tool: str, args: dict[str, object], effect: bool
) -> None:
    async def scenario(rig: Rig) -> None:
        rig.port.answers[tool] = LOST
        outcome, reply = await rig.run(tool, **args)
        assert not outcome.ok
        assert outcome.may_have_effect is reply.may_have_effect is effect

    on(tmp_path, scenario)


def test_cancelled_calls_say_what_may_have_happened(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        rig.port.hold.clear()
        outcome = await cancelled(rig, "browser_page_click", ref="e1")
        assert (outcome.dispatched, outcome.answered, outcome.may_have_effect) == (True, False, True)
        outcome = await cancelled(rig, "browser_page_observe")
        assert (outcome.answered, outcome.may_have_effect) == (False, False)
        rig.port.hold.set()
        # Answered, and cancelled while the page's address was looked up: what it showed still counts.
        reached = asyncio.Event()

        async def never(_url: str) -> str:
            reached.set()
            await asyncio.Event().wait()
            return ""

        rig.hub.check_url = never  # type: ignore[method-assign, assignment]
        outcome = await cancelled(rig, "browser_page_click", ref="e1")
        assert reached.is_set()
        assert (outcome.answered, outcome.changes) == (True, Changes(page=True))
        outcome = await cancelled(rig, "browser_page_navigate", url="https://other.example/")
        assert (outcome.dispatched, outcome.answered) == (False, True)

    async def cancelled(rig: Rig, tool: str, **args: object) -> Outcome:
        call = asyncio.create_task(rig.run(tool, **args))
        for _ in range(10):
            await asyncio.sleep(0)
        call.cancel()
        outcome, reply = await call
        assert outcome.code is ToolErrorCode.CANCELLED
        assert reply.may_have_effect == outcome.may_have_effect
        return outcome

    on(tmp_path, scenario)


def test_a_failure_keeps_the_extensions_own_words(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        rig.port.answers["browser_page_click"] = msgspec.structs.replace(
            LOST, code=ToolErrorCode.STALE_REF, url=PAGE, refs_valid=False, next_tool="browser_page_observe"
        )
        outcome, reply = await rig.run("browser_page_click", ref="e1")
        assert outcome.code is ToolErrorCode.STALE_REF
        assert reply == Reply(
            "The connection was lost.",
            may_have_effect=True,
            refs_valid=False,
            next_tool="browser_page_observe",
        )

    on(tmp_path, scenario)


def test_rows_that_stay_in_the_conversation(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        outcome, reply = await rig.run("browser_page_extract", kind="text")
        assert outcome.ok
        assert reply.artifact == ""
        assert outcome.chars == len(reply.content)

    on(tmp_path, scenario)


def test_two_hosts_never_share_a_verdict(tmp_path: Path) -> None:
    """`http:///host` and `http:\\\\host` are one host each to the browser, whatever laxer parsers make of them."""

    async def scenario(rig: Rig) -> None:
        await rig.runner.check(rig.session, r"http:\\shop.example/")
        await rig.runner.check(rig.session, r"http:\\127.0.0.1/")
        await rig.runner.check(rig.session, "http://shop.example/other")  # the same host, known
        assert rig.hub.checked == [r"http:\\shop.example/", r"http:\\127.0.0.1/"]

    on(tmp_path, scenario)


ONLY_SHOP = Policy(origins=("https://shop.example",))
READ = Policy(actions=Actions.READ)


def under(tmp_path: Path, policy: Policy, scenario: Callable[[Rig], Any]) -> None:
    async def main() -> None:
        await scenario(Rig(tmp_path, policy))

    asyncio.run(main())


def test_a_foreign_origin_is_not_asked_for(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        outcome, reply = await rig.run("browser_page_navigate", url="https://evil.example/")
        assert (outcome.code, outcome.dispatched) == (ToolErrorCode.POLICY_DENIED, False)
        assert "not-in-origins" in reply.content
        assert rig.port.calls == []

    under(tmp_path, ONLY_SHOP, scenario)


def test_a_page_that_went_elsewhere_is_not_acted_on(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        rig.session.where[7] = "https://evil.example/form"
        outcome, reply = await rig.run("browser_page_click", ref="e1")
        assert (outcome.code, outcome.dispatched) == (ToolErrorCode.POLICY_DENIED, False)
        assert (reply.next_tool, rig.port.calls) == ("browser_page_navigate", [])
        rig.session.where[7] = "https://shop.example/form"
        outcome, _ = await rig.run("browser_page_click", ref="e1")
        assert outcome.dispatched

    under(tmp_path, ONLY_SHOP, scenario)


@pytest.mark.parametrize(
    ("tool", "args"),
    [
        ("browser_page_click", {"ref": "e1"}),
        ("browser_page_type", {"ref": "e1", "text": "x"}),
        ("browser_page_press", {"key": "Enter"}),
        ("browser_page_select", {"ref": "e1", "checked": True}),
    ],
)
def test_a_reading_task_acts_on_nothing(tmp_path: Path, tool: str, args: dict[str, Any]) -> None:
    async def scenario(rig: Rig) -> None:
        outcome, _ = await rig.run(tool, **args)
        assert (outcome.code, outcome.dispatched) == (ToolErrorCode.POLICY_DENIED, False)
        assert rig.port.calls == []
        outcome, _ = await rig.run("browser_page_observe")
        assert outcome.ok

    under(tmp_path, READ, scenario)


def test_a_closed_tab_is_nowhere(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.run("browser_page_observe")
        assert 7 in rig.session.where
        await rig.run("browser_tabs_close", tab="t1")
        assert 7 not in rig.session.where

    on(tmp_path, scenario)
