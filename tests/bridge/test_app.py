"""The whole bridge with a real worker peer and a fake hub: spares, tasks, calls, deliveries, ends (protocol/README.md)."""

from __future__ import annotations

import asyncio
import hashlib
import os

import msgspec
import pytest
from browsercell.bridge import app
from browsercell.protocol import limits as L
from browsercell.protocol.codec import encode
from browsercell.protocol.errors import ToolErrorCode
from browsercell.protocol.frames import (
    Assigned,
    BridgeReady,
    BrowserExited,
    BrowserSpawned,
    BrowserWanted,
    CloseTask,
    Deliver,
    Delivered,
    DeliveryFailed,
    DeliveryProblem,
    EndReason,
    ExtensionInfo,
    ExtensionState,
    ExtEvent,
    ExtEventKind,
    Finish,
    Finished,
    ForgetWorker,
    OpenTask,
    PageReply,
    Ping,
    Pong,
    PrepareWorker,
    TabInfo,
    TaskClosed,
    TaskFinished,
    TaskGuard,
    TaskOpened,
    TaskProgress,
    WantedDeliverable,
    WorkerFault,
    WorkerFaultKind,
    WorkerForgotten,
    WorkerSpawned,
)
from browsercell.protocol.results import (
    ArtifactClaim,
    ArtifactKind,
    Browser,
    ClaimStatus,
    ResultClaim,
    SideEffects,
    Status,
)

from .harness import LOST, MARKER, PAGE, Stage, run

SHOT = (WantedDeliverable("shot", ArtifactKind.SCREENSHOT),)


def test_a_task_from_open_to_close() -> None:
    async def scenario(stage: Stage) -> None:
        assert await stage.configure() == BridgeReady(17321)
        stage.send(Ping(7))
        assert await stage.expect(Pong) == Pong(7)
        task, worker, peer = await stage.working(deliverables=SHOT)
        seen = await peer.call("browser_page_observe")
        assert (seen.ok, seen.page_version, seen.calls_left) == (True, 1, 39)
        assert MARKER in seen.content
        progress = await stage.expect(TaskProgress)
        assert (progress.task, progress.generation, progress.tool_calls) == (task, 1, 1)
        assert progress.entry.tool == "browser_page_observe"
        assert progress.entry.ok
        shot = await peer.call("browser_page_screenshot")
        assert shot.artifact.startswith("art_")
        assert "1 x 1 pixels" in shot.content
        await stage.expect(TaskProgress)
        clicked = await peer.call("browser_page_click", name="Buy", role="button")
        assert clicked.ok
        assert "Changed: the page." in clicked.content
        await stage.expect(TaskProgress)
        peer.send(
            Finish(
                ResultClaim(
                    status=ClaimStatus.COMPLETED,
                    summary="Bought",
                    artifacts=(ArtifactClaim(shot.artifact, "shot"), ArtifactClaim("art_aaaa", "shot")),
                )
            )
        )
        await peer.expect(Finished)
        finished = await stage.expect(TaskFinished)
        assert finished.result.status is Status.COMPLETED
        assert finished.result.side_effects is SideEffects.CONFIRMED
        assert [one.artifact_id for one in finished.result.artifacts] == [shot.artifact]
        assert finished.result.current_url == PAGE
        stage.send(ForgetWorker(worker))
        assert await stage.expect(WorkerForgotten) == WorkerForgotten(worker, 0)
        await asyncio.wait_for(peer.lost.wait(), 5)
        stage.send(CloseTask(task))
        closed = await stage.expect(TaskClosed)
        assert (closed.side_effects, closed.unsettled, closed.tool_calls) == (SideEffects.CONFIRMED, 0, 3)
        assert [one.purpose for one in closed.artifacts] == ["shot"]
        await _delivered(stage, shot.artifact, closed.artifacts[0].sha256)
        stage.send(CloseTask(task))  # repeated: the same answer
        assert await stage.expect(TaskClosed) == closed
        assert stage.hub.user is not None
        assert stage.hub.user.calls[-1] == ("browser_tabs_close", {}, 101)

    run(scenario)


async def _delivered(stage: Stage, artifact: str, sha256: str) -> None:
    path = stage.folder / "out"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    stage.send(Deliver("del_aaaa", artifact, L.MIB), (fd,))
    os.close(fd)
    delivered = await stage.expect(Delivered)
    assert delivered.sha256 == sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert delivered.size == path.stat().st_size


def test_artifacts_outlive_the_bridge_and_unknown_ones_are_refused() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.configure()
        _, _, peer = await stage.working()
        made = await peer.call("browser_page_screenshot")
        await stage.expect(TaskProgress)
        files = sorted(os.listdir(stage.state / "artifacts"))
        assert files == [f"{made.artifact}.data", f"{made.artifact}.json"]
        fd = os.open(stage.folder / "out", os.O_WRONLY | os.O_CREAT, 0o600)
        stage.send(Deliver("del_aaaa", "art_zzzz", L.MIB), (fd,))
        os.close(fd)
        assert await stage.expect(DeliveryFailed) == DeliveryFailed(
            "del_aaaa", DeliveryProblem.UNKNOWN_ARTIFACT
        )

    run(scenario)


def test_tabs_belong_to_their_task() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.configure()
        _, _, peer = await stage.working()
        user = stage.hub.user
        assert user is not None
        opened = await peer.call("browser_tabs_open", url="https://shop.example/two")
        assert "Tab t2 is open and active." in opened.content
        user.answers["browser_tabs_list"] = PageReply(
            tabs=(
                TabInfo(101, PAGE, "One"),
                TabInfo(102, "http://forbidden.example/", MARKER),
                TabInfo(999, "https://other.example/", "someone else's"),
            )
        )
        listed = await peer.call("browser_tabs_list")
        assert listed.content == (
            f"t1: complete 'One' {PAGE}\nt2 (active): its page is not allowed by the network policy"
        )
        assert (await peer.call("browser_page_observe", tab="t9")).code is ToolErrorCode.TAB_NOT_LEASED
        await peer.call("browser_tabs_activate", tab="t1")
        await peer.call("browser_page_observe")
        assert user.calls[-1] == ("browser_page_observe", {}, 101)
        stage.hub.on_event(user, ExtEvent(kind=ExtEventKind.TAB_REPLACED, tab=101, new_tab=201))
        await peer.call("browser_page_observe", tab="t1")
        assert user.calls[-1] == ("browser_page_observe", {}, 201)
        stage.hub.on_event(user, ExtEvent(kind=ExtEventKind.TAB_CLOSED, tab=201))
        stage.hub.on_event(user, ExtEvent(kind=ExtEventKind.TAB_CLOSED, tab=999))
        stage.hub.on_event(user, ExtEvent(kind=ExtEventKind.NAVIGATED, tab=102))
        assert (await peer.call("browser_page_observe", tab="t1")).code is ToolErrorCode.TAB_NOT_LEASED
        closed = await peer.call("browser_tabs_close", tab="t2")
        assert closed.content == "Tab t2 is closed; active tab: none."
        status = await peer.call("browser_status")
        assert msgspec.json.decode(status.content) == {
            "browser": "chrome",
            "calls_left": status.calls_left,
            "tabs": [],
            "active_tab": None,
        }

    run(scenario)


def test_shared_tabs_are_listed_taken_back_and_never_closed() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.configure()
        _, _, peer = await stage.working()
        user = stage.hub.user
        assert user is not None
        for tab in (301, 302, 303):
            stage.hub.on_event(user, ExtEvent(kind=ExtEventKind.TAB_SHARED, tab=tab))
        stage.hub.on_event(user, ExtEvent(kind=ExtEventKind.TAB_CLOSED, tab=303))
        stage.hub.on_event(user, ExtEvent(kind=ExtEventKind.TAB_REPLACED, tab=302, new_tab=402))
        user.answers["browser_tabs_list"] = PageReply(tabs=(TabInfo(301, PAGE, "Mine"),))
        listed = await peer.call("browser_tabs_list")
        assert "t2 (shared by the user): complete 'Mine'" in listed.content
        assert (await peer.call("browser_page_observe", tab="t3")).ok
        assert user.calls[-1] == ("browser_page_observe", {}, 402)
        closed = await peer.call("browser_tabs_close", tab="t2")
        assert closed.code is ToolErrorCode.POLICY_DENIED
        stage.hub.on_event(user, ExtEvent(kind=ExtEventKind.TAB_OPENED, tab=301, new_tab=501))
        assert (await peer.call("browser_page_observe", tab="t4")).ok
        assert user.calls[-1] == ("browser_page_observe", {}, 501)
        stage.hub.on_event(user, ExtEvent(kind=ExtEventKind.TAB_WITHDRAWN, tab=301))
        refused = await peer.call("browser_page_observe", tab="t2")
        assert refused.code is ToolErrorCode.TAB_NOT_SHARED
        assert refused.content == "The user took this tab back."

    run(scenario)


def test_where_a_page_is_decides_what_is_handed_on() -> None:
    """Design 5: before a navigation and after every reply."""

    async def scenario(stage: Stage) -> None:
        await stage.configure()
        task, _, peer = await stage.working()
        user = stage.hub.user
        assert user is not None
        denied = await peer.call("browser_page_navigate", url="http://forbidden.example/")
        assert (denied.code, denied.may_have_effect) == (ToolErrorCode.POLICY_DENIED, False)
        assert [op for op, _, _ in user.calls] == ["browser_tabs_open"]  # nothing was sent
        user.answers["browser_page_click"] = PageReply(text=MARKER, url="http://forbidden.example/in")
        gone = await peer.call("browser_page_click", ref="e1")
        assert (gone.code, gone.may_have_effect) == (ToolErrorCode.POLICY_DENIED, True)
        assert MARKER not in gone.content
        user.answers["browser_page_observe"] = msgspec.structs.replace(
            LOST, code=ToolErrorCode.STALE_REF, url="http://forbidden.example/"
        )
        assert (await peer.call("browser_page_observe")).code is ToolErrorCode.POLICY_DENIED
        user.answers["browser_page_observe"] = PageReply(text=MARKER)  # no URL: nobody can vouch for it
        assert (await peer.call("browser_page_observe")).code is ToolErrorCode.POLICY_DENIED
        stage.send(CloseTask(task))
        for _ in range(4):
            await stage.expect(TaskProgress)
        assert (await stage.expect(TaskClosed)).side_effects is SideEffects.POSSIBLE

    run(scenario)


def test_guards() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.configure()
        task, worker, peer = await stage.working(tool_calls=1)
        assert (await peer.call("browser_page_observe")).calls_left == 0
        await stage.expect(TaskProgress)
        peer.ask("browser_page_observe")
        assert await stage.expect(TaskGuard) == TaskGuard(task, 1, EndReason.TOOL_CALL_LIMIT)
        stage.send(ForgetWorker(worker))
        await stage.expect(WorkerForgotten)
        task, _, peer = await stage.working()
        for _ in range(2):
            assert (await peer.call("browser_page_click", ref="bad")).code is ToolErrorCode.INVALID_ARGUMENTS
            await stage.expect(TaskProgress)
        peer.ask("browser_page_click", ref="bad")
        await stage.expect(TaskProgress)
        assert (await stage.expect(TaskGuard)).reason is EndReason.REPEATED_ERROR

    run(scenario)


def test_an_effect_without_an_answer_is_unsettled_and_possible() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.configure()
        task, worker, peer = await stage.working()
        user = stage.hub.user
        assert user is not None
        user.hold.clear()
        peer.ask("browser_page_click", ref="e1")
        while len(user.calls) < 2:
            await asyncio.sleep(0.01)
        stage.send(ForgetWorker(worker))
        await stage.expect(TaskProgress)
        assert await stage.expect(WorkerForgotten) == WorkerForgotten(worker, 1)
        assert user.cancelled == 1
        user.hold.set()
        stage.send(CloseTask(task))
        closed = await stage.expect(TaskClosed)
        assert (closed.side_effects, closed.unsettled) == (SideEffects.POSSIBLE, 1)

    run(scenario)


def test_a_read_is_cancelled_at_once_and_an_answer_in_time_settles() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.configure()
        task, worker, peer = await stage.working()
        user = stage.hub.user
        assert user is not None
        user.hold.clear()
        peer.ask("browser_page_observe")
        while len(user.calls) < 2:
            await asyncio.sleep(0.01)
        stage.send(ForgetWorker(worker))
        await stage.expect(TaskProgress)
        assert await stage.expect(WorkerForgotten) == WorkerForgotten(worker, 0)
        worker, peer = await stage.spare()
        stage.assign(worker, task, 2)
        await peer.expect(Assigned)
        peer.ask("browser_page_click", ref="e1")
        while len(user.calls) < 3:
            await asyncio.sleep(0.01)
        stage.send(CloseTask(task))  # to cancel: the click gets a moment to be answered
        user.hold.set()
        await stage.expect(TaskProgress)
        closed = await stage.expect(TaskClosed)
        assert (closed.side_effects, closed.unsettled) == (SideEffects.CONFIRMED, 0)
        stage.send(ForgetWorker(worker))
        assert await stage.expect(WorkerForgotten) == WorkerForgotten(worker, 0)

    run(scenario)


def test_a_call_and_its_workers_end_in_one_turn() -> None:
    """The call was cancelled before its first step: nothing was sent."""

    async def scenario(stage: Stage) -> None:
        await stage.configure()
        task, worker, peer = await stage.working()
        data = encode(CloseTask(task), L.MAX_FROM_SUPERVISOR)
        original = stage.bridge._tasks.call

        def call_and_close(start: object) -> None:
            original(start)  # type: ignore[arg-type]
            stage.bridge._message(data, [])

        stage.bridge._tasks.call = call_and_close  # type: ignore[method-assign]
        peer.ask("browser_page_observe")
        progress = await stage.expect(TaskProgress)
        assert progress.entry.code is ToolErrorCode.CANCELLED
        assert (await stage.expect(TaskClosed)).task == task
        assert stage.hub.user is not None
        assert [op for op, _, _ in stage.hub.user.calls][:1] == ["browser_tabs_open"]
        assert worker

    run(scenario)


@pytest.mark.parametrize(
    ("browser", "reason"),
    [(Browser.CHROME, EndReason.EXTENSION_LOST), (Browser.PRIVATE, EndReason.BROWSER_LOST)],
)
def test_a_lost_browser_guards_its_tasks(browser: Browser, reason: EndReason) -> None:
    async def scenario(stage: Stage) -> None:
        await stage.configure()
        stage.send(OpenTask("task_zzzz", browser, None, (), 5))
        if browser is Browser.PRIVATE:
            await stage.expect(BrowserWanted)
            ends = (*os.pipe(), *os.pipe())
            stage.send(BrowserSpawned("task_zzzz", 4242), (ends[1], ends[2]))
            for end in ends:
                os.close(end)
        await stage.expect(TaskOpened)
        port = stage.hub.user if browser is Browser.CHROME else stage.hub.private
        assert port is not None
        stage.hub.on_lost(port)
        assert await stage.expect(TaskGuard) == TaskGuard("task_zzzz", 0, reason)
        if browser is Browser.PRIVATE:
            stage.send(BrowserExited("task_zzzz"))
            stage.send(CloseTask("task_zzzz"))
            await stage.expect(TaskClosed)  # and no BrowserDone: the supervisor knows
            stage.send(Ping(1))
            await stage.expect(Pong)
            assert stage.hub.exited == ["task_zzzz"]

    run(scenario)


def test_a_page_that_asks_for_a_person_stays_open() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.configure()
        task, worker, peer = await stage.working()
        peer.send(Finish(ResultClaim(status=ClaimStatus.NEEDS_USER_INPUT, summary="", question="Which one?")))
        await peer.expect(Finished)
        result = (await stage.expect(TaskFinished)).result
        assert (result.needs_user_decision, result.question) == (True, "Which one?")
        stage.send(ForgetWorker(worker))
        await stage.expect(WorkerForgotten)
        stage.send(CloseTask(task))
        await stage.expect(TaskClosed)
        stage.send(Ping(1))
        await stage.expect(Pong)
        assert stage.hub.user is not None
        assert [op for op, _, _ in stage.hub.user.calls] == ["browser_tabs_open", "release"]

    run(scenario)


def test_extensions_are_reported() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.configure()
        stage.hub.infos = (ExtensionInfo("a" * 32, "1.0", private=False, connected_ms=5),)
        stage.hub.refused = 3
        stage.hub.on_extensions()
        assert await stage.expect(ExtensionState) == ExtensionState(stage.hub.infos, 3)

    run(scenario)


def test_workers_that_are_unknown_or_can_not_be_prepared() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.configure()
        stage.send(ForgetWorker("w_zzzz"))
        assert await stage.expect(WorkerForgotten) == WorkerForgotten("w_zzzz", 0)
        stage.send(WorkerSpawned("w_zzzz", 4242))
        stage.send(PrepareWorker("w_zzzz", "/nowhere", os.geteuid()))
        assert await stage.expect(WorkerFault) == WorkerFault("w_zzzz", WorkerFaultKind.DISCONNECTED)
        stage.assign("w_zzzz", "task_zzzz")
        worker, peer = await stage.spare()
        stage.assign(worker, "task_zzzz")  # no such task
        assert await stage.expect(WorkerFault) == WorkerFault(worker, WorkerFaultKind.STALE_GENERATION)
        await asyncio.wait_for(peer.lost.wait(), 5)
        stage.assign(worker, "task_zzzz")
        stage.send(ForgetWorker(worker))
        await stage.expect(WorkerForgotten)

    run(scenario)


def test_a_worker_whose_task_was_closed_is_not_served() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.configure()
        task, worker, peer = await stage.working()
        stage.send(CloseTask(task))
        await stage.expect(TaskClosed)
        peer.ask("browser_status")
        stage.send(Ping(1))
        await stage.expect(Pong)
        stage.send(ForgetWorker(worker))
        assert await stage.expect(WorkerForgotten) == WorkerForgotten(worker, 0)
        other, second = await stage.spare()
        stage.assign(other, task, 2)
        assert (await stage.expect(WorkerFault)).kind is WorkerFaultKind.STALE_GENERATION
        assert second.calls == 0

    run(scenario)


def test_expired_artifacts_are_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(stage: Stage) -> None:
        await stage.configure()
        for _ in range(500):
            if '"purged"' in stage.log.getvalue():
                return
            await asyncio.sleep(0.01)
        raise AssertionError("never purged")

    monkeypatch.setattr(app, "PURGE_SECONDS", 0.01)
    run(scenario)
