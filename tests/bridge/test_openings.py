"""Starting and ending the bridge, opening and giving back browsers, with a fake hub (bridge/app.py, bridge/desk.py)."""

from __future__ import annotations

import asyncio
import errno
import os
from typing import Any

import msgspec
import pytest
from browsercell.bridge import desk
from browsercell.bridge.app import MAX_EARLY
from browsercell.protocol.errors import BlockerCode, ToolErrorCode, UsageError
from browsercell.protocol.frames import (
    BridgeReady,
    BrowserDone,
    BrowserExited,
    BrowserSpawned,
    BrowserWanted,
    CloseTask,
    ConfigureBridge,
    OpenTask,
    PageReply,
    Ping,
    Pong,
    SetupFailed,
    Shutdown,
    StateProblem,
    TaskClosed,
    TaskOpened,
    TaskRefused,
)
from browsercell.protocol.results import (
    Browser,
    SideEffects,
)
from browsercell.protocol.settings import BridgeSettings

from . import harness
from .harness import LOST, PAGE, FakeHub, Stage, run


def test_a_private_browser_is_asked_for_adopted_and_given_back() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.configure()
        stage.send(OpenTask("task_aaaa", Browser.PRIVATE, PAGE, (), 5))
        assert await stage.expect(BrowserWanted) == BrowserWanted("task_aaaa")
        ends = (*os.pipe(), *os.pipe())
        stage.send(BrowserSpawned("task_aaaa", 4242), (ends[1], ends[2]))
        assert await stage.expect(TaskOpened) == TaskOpened("task_aaaa")
        assert stage.hub.adopted == [("task_aaaa", 4242)]
        assert stage.hub.private.calls == [("browser_tabs_open", {"url": PAGE}, None)]
        stage.send(CloseTask("task_aaaa"))
        assert (await stage.expect(TaskClosed)).side_effects is SideEffects.NONE
        assert await stage.expect(BrowserDone) == BrowserDone("task_aaaa")
        assert stage.hub.private.closed
        for end in ends:
            os.close(end)

    run(scenario)


def test_a_browser_that_comes_too_late_is_closed() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.configure()
        stage.send(OpenTask("task_aaaa", Browser.PRIVATE, None, (), 5))
        await stage.expect(BrowserWanted)
        stage.send(CloseTask("task_aaaa"))
        await stage.expect(TaskClosed)
        await stage.expect(BrowserDone)
        reading, writing = os.pipe()
        stage.send(BrowserSpawned("task_aaaa", 4242), (writing, writing))
        os.close(writing)
        assert await asyncio.to_thread(os.read, reading, 1) == b""  # both copies are closed
        os.close(reading)
        assert stage.hub.adopted == []

    run(scenario)


def test_a_browser_that_did_not_start_refuses_the_task() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.configure()
        stage.send(OpenTask("task_aaaa", Browser.PRIVATE, None, (), 5))
        await stage.expect(BrowserWanted)
        stage.send(BrowserExited("task_aaaa"))
        assert (await stage.expect(TaskRefused)).code is BlockerCode.BROWSER_UNAVAILABLE
        stage.send(OpenTask("task_aaab", Browser.PRIVATE, None, (), 5))
        await stage.expect(BrowserWanted)
        stage.hub.adopt_failure = LOST
        ends = (*os.pipe(), *os.pipe())
        stage.send(BrowserSpawned("task_aaab", 4242), (ends[1], ends[2]))
        assert (await stage.expect(TaskRefused)).code is BlockerCode.BROWSER_UNAVAILABLE
        assert await stage.expect(BrowserDone) == BrowserDone("task_aaab")
        for end in ends:
            os.close(end)
        stage.send(BrowserExited("task_zzzz"))  # unknown: harmless
        stage.send(Ping(1))
        await stage.expect(Pong)

    run(scenario)


def test_what_refuses_a_task() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.configure()
        stage.send(OpenTask("task_aaaa", Browser.PRIVATE, "http://forbidden.example/", (), 5))
        assert await stage.expect(TaskRefused) == TaskRefused("task_aaaa", BlockerCode.POLICY_DENIED)
        user = stage.hub.user
        assert user is not None
        user.answers["browser_tabs_open"] = PageReply(tab=5, url="http://forbidden.example/x")
        stage.send(OpenTask("task_aaab", Browser.CHROME, PAGE, (), 5))
        assert await stage.expect(TaskRefused) == TaskRefused("task_aaab", BlockerCode.POLICY_DENIED)
        user.answers["browser_tabs_open"] = LOST
        stage.send(OpenTask("task_aaac", Browser.CHROME, PAGE, (), 5))
        assert await stage.expect(TaskRefused) == TaskRefused("task_aaac", BlockerCode.BROWSER_UNAVAILABLE)
        stage.hub.user = None
        stage.send(OpenTask("task_aaad", Browser.CHROME, None, (), 5))
        assert await stage.expect(TaskRefused) == TaskRefused("task_aaad", BlockerCode.BROWSER_UNAVAILABLE)

    run(scenario)


def test_a_start_page_whose_host_has_no_address_refuses_no_task() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.configure()
        stage.hub.denied = {"shop.example": "unresolvable"}
        _, _, peer = await stage.working()
        result = await peer.call("browser_page_observe")
        assert (result.code, result.next_tool) == (ToolErrorCode.NO_TAB, "browser_tabs_open")
        result = await peer.call("browser_page_navigate", url=PAGE)
        assert (result.code, result.may_have_effect) == (ToolErrorCode.NAVIGATION_FAILED, False)

    run(scenario)


def test_a_start_page_that_does_not_load_is_the_workers_to_see() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.configure()
        user = stage.hub.user
        assert user is not None
        user.answers["browser_tabs_open"] = msgspec.structs.replace(
            LOST, code=ToolErrorCode.NAVIGATION_FAILED
        )
        _, _, peer = await stage.working()
        result = await peer.call("browser_page_observe")
        assert (result.code, result.next_tool) == (ToolErrorCode.NO_TAB, "browser_tabs_open")

    run(scenario)


def test_too_many_tasks_are_overload() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.configure()
        for number in range(desk.MAX_TASKS):
            stage.send(
                OpenTask(
                    f"task_aa{chr(97 + number % 26)}{chr(97 + number // 26)}", Browser.CHROME, None, (), 5
                )
            )
            await stage.expect(TaskOpened)
        stage.send(OpenTask("task_zzzz", Browser.CHROME, None, (), 5))
        assert await stage.expect(TaskRefused) == TaskRefused("task_zzzz", BlockerCode.OVERLOADED)

    run(scenario)


def test_setup_that_fails_says_why() -> None:
    async def scenario(stage: Stage) -> int:
        stage.send(ConfigureBridge(BridgeSettings("/nowhere/at/all")))
        failed = await stage.expect(SetupFailed)
        assert failed == SetupFailed(StateProblem.STATE_FOLDER, "ENOENT")
        return await stage.ended()

    assert run(scenario) == 78


def test_shutdown_and_the_supervisors_end_both_end_the_bridge() -> None:
    async def told(stage: Stage) -> int:
        await stage.configure()
        _, _, peer = await stage.working()
        assert stage.hub.user is not None
        stage.hub.user.hold.clear()
        peer.ask("browser_page_observe")
        stage.send(Shutdown(2_000))
        status = await stage.ended()
        assert stage.hub.stopped
        return status

    async def orphaned(stage: Stage) -> None:
        await stage.configure()
        stage.control.close()
        for _ in range(500):
            if stage.status is not None:
                break
            await asyncio.sleep(0.01)
        assert stage.status == 0
        assert stage.hub.stopped

    assert run(told) == 0
    run(orphaned)


def test_frames_before_the_bridge_is_ready_wait() -> None:
    async def scenario(stage: Stage) -> None:
        stage.send(ConfigureBridge(BridgeSettings(str(stage.state))))
        stage.send(CloseTask("task_aaaa"))
        await stage.expect(BridgeReady)
        assert await stage.expect(TaskClosed) == TaskClosed("task_aaaa", SideEffects.NONE, 0, 0, ())

    run(scenario)


def test_a_token_that_can_not_be_trusted_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hub then keeps the listener off and says so; the bridge itself goes on."""
    tokens = []

    class Deaf(FakeHub):
        def __init__(self, settings: BridgeSettings, token: str, **callbacks: Any) -> None:
            tokens.append(token)
            super().__init__(settings, "in-place-of-the-token", **callbacks)

    async def scenario(stage: Stage) -> None:
        (stage.state / "pairing-token").symlink_to("elsewhere")
        await stage.configure()
        assert "token-unusable" in stage.log.getvalue()

    monkeypatch.setattr(harness, "FakeHub", Deaf)
    run(scenario)
    assert tokens == [""]


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        (UsageError("bad network"), SetupFailed(StateProblem.SETTINGS)),
        (OSError(errno.ENOSPC, "full"), SetupFailed(StateProblem.DISK_FULL, "ENOSPC")),
    ],
)
def test_a_hub_that_can_not_be_made(
    monkeypatch: pytest.MonkeyPatch, error: Exception, answer: SetupFailed
) -> None:
    def failing(*_: object, **__: object) -> None:
        raise error

    async def scenario(stage: Stage) -> int:
        stage.send(ConfigureBridge(BridgeSettings(str(stage.state))))
        assert await stage.expect(SetupFailed) == answer
        return await stage.ended()

    monkeypatch.setattr(harness, "FakeHub", failing)
    assert run(scenario) == 78


def test_a_flood_before_the_bridge_is_ready() -> None:
    async def scenario(stage: Stage) -> int:
        stage.send(ConfigureBridge(BridgeSettings(str(stage.state))))
        for _ in range(MAX_EARLY + 1):
            stage.send(CloseTask("task_aaaa"))
        return await stage.ended()

    assert run(scenario) == 76


def test_a_browser_that_never_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(stage: Stage) -> None:
        await stage.configure()
        stage.send(OpenTask("task_aaaa", Browser.PRIVATE, None, (), 5))
        await stage.expect(BrowserWanted)
        assert (await stage.expect(TaskRefused)).code is BlockerCode.BROWSER_UNAVAILABLE
        await stage.expect(BrowserDone)

    monkeypatch.setattr(desk, "BROWSER_SECONDS", 0.05)
    run(scenario)


def test_a_browser_and_tabs_that_do_not_answer_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(stage: Stage) -> None:
        await stage.configure()
        task = await stage.task()
        user = stage.hub.user
        assert user is not None
        user.answers["browser_tabs_close"] = LOST
        stage.send(CloseTask(task))
        await stage.expect(TaskClosed)
        stage.send(OpenTask("task_zzzz", Browser.PRIVATE, None, (), 5))
        await stage.expect(BrowserWanted)
        ends = (*os.pipe(), *os.pipe())
        stage.send(BrowserSpawned("task_zzzz", 4242), (ends[1], ends[2]))
        for end in ends:
            os.close(end)
        await stage.expect(TaskOpened)

        async def hang() -> None:
            await asyncio.Event().wait()

        stage.hub.private.close = hang  # type: ignore[method-assign]
        stage.send(CloseTask("task_zzzz"))
        await stage.expect(TaskClosed)
        await stage.expect(BrowserDone)
        assert "tab-not-released" in stage.log.getvalue()
        assert "browser-not-closed" in stage.log.getvalue()

    monkeypatch.setattr(desk, "CLOSE_MS", 50)
    run(scenario)


def test_closing_while_it_opens_gives_everything_back() -> None:
    """The Chromium arrives and the task is closed in the same turn: its pipe is closed, not leaked."""

    async def scenario(stage: Stage) -> None:
        await stage.configure()
        stage.send(OpenTask("task_aaaa", Browser.PRIVATE, None, (), 5))
        await stage.expect(BrowserWanted)
        reading, writing = os.pipe()
        stage.send(BrowserSpawned("task_aaaa", 4242), (writing, writing))
        stage.send(CloseTask("task_aaaa"))
        os.close(writing)
        await stage.expect(TaskClosed)
        await stage.expect(BrowserDone)
        assert await asyncio.to_thread(os.read, reading, 1) == b""
        os.close(reading)

    run(scenario)
