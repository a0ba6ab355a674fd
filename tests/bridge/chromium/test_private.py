"""Private browsers behind the hub, with a stand-in for Chromium: pairing step by step, the guard, every end."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from browsercell.bridge import peers
from browsercell.bridge.chromium import private as private_module
from browsercell.bridge.chromium.guard import START
from browsercell.bridge.extension import hub as hub_module
from browsercell.bridge.ports import BrowserPort, PageFailure
from browsercell.protocol.errors import ToolErrorCode

from ..extension.client import EXTENSION, OTHER, Bench, closed, play, receive, shake_hands, until
from .fake import FakeChromium, Refuse

Scenario = Callable[[Bench, FakeChromium], Awaitable[None]]


@pytest.fixture(autouse=True)
def known_extension(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hub's own extension is the one that the clients of these tests claim to be."""
    monkeypatch.setattr(hub_module.ExtensionHub, "_own_extension", lambda _self: EXTENSION)


def play_private(scenario: Scenario, **settings: Any) -> None:
    """Run with a hub and a stand-in whose descriptors the hub is given; see that both are closed in the end."""

    async def run(bench: Bench) -> None:
        chromium = FakeChromium(EXTENSION)
        try:
            await scenario(bench, chromium)
            await bench.hub.stop()
        finally:
            chromium.end()
        for fd in chromium.fds:
            with pytest.raises(OSError, match="Bad file descriptor"):
                os.fstat(fd)

    play(run, **settings)


def adopt(
    bench: Bench, chromium: FakeChromium, *, task: str = "task-1", ms: int = 5_000
) -> asyncio.Task[BrowserPort]:
    return asyncio.create_task(bench.hub.adopt_private(task, os.getpid(), *chromium.fds, ms))


async def join(bench: Bench, chromium: FakeChromium, ws: Any) -> dict[str, Any]:
    """The extension inside reads its storage and connects."""
    async with asyncio.timeout(5):
        await chromium.paired.wait()
    return await shake_hands(bench, ws, token=chromium.pairing["token"], pairing=chromium.pairing["pairing"])


async def fails(adopting: Awaitable[BrowserPort]) -> None:
    with pytest.raises(PageFailure) as failure:
        await adopting
    assert failure.value.error.code is ToolErrorCode.BROWSER_LOST
    assert failure.value.error.retryable
    assert not failure.value.error.may_have_effect


# ---------------------------------------------------------------------- pairing


def test_guard_then_pairing_then_detach_then_the_extension_comes() -> None:
    async def scenario(bench: Bench, chromium: FakeChromium) -> None:
        adopting = adopt(bench, chromium)
        async with bench.socket() as ws:
            assert (await join(bench, chromium, ws))["t"] == "ready"
            port = await adopting
            assert port.pairing == chromium.pairing["pairing"]
            assert port.pairing.startswith("private-")
            assert chromium.pairing["host"] == "127.0.0.1"
            assert chromium.pairing["port"] == bench.port
            assert len(chromium.pairing["token"]) == 64
            assert chromium.methods == [
                *(command.method for command in START),
                "Target.getTargets", "Target.attachToTarget", "Runtime.evaluate", "Target.detachFromTarget",
            ]  # fmt: skip
            assert chromium.params("Target.detachFromTarget") == [{"sessionId": "session-1"}]
            assert bench.hub.user_port() is None
            [info] = bench.hub.extensions()
            assert info.private
            assert (await receive(ws))["t"] == "ping"
            call = asyncio.create_task(port.call("browser_page_observe", b"{}", deadline_ms=5_000))
            command = await receive(ws)
            await ws.send(json.dumps({"t": "reply", "id": command["id"], "ok": {"text": "inside"}}))
            assert (await call).text == "inside"
            await port.close()
            assert chromium.methods[-1] == "Browser.close"
            assert await closed(ws) == 1006
        assert bench.lost == []

    play_private(scenario)


def test_a_worker_that_is_not_there_yet_restarted_or_without_storage_is_waited_for() -> None:
    async def scenario(bench: Bench, chromium: FakeChromium) -> None:
        states = {"targets": 0, "attach": 0, "evaluate": 0}

        def targets(_params: dict[str, Any]) -> dict[str, Any]:
            states["targets"] += 1
            others = [
                {
                    "targetId": "x",
                    "type": "service_worker",
                    "url": f"chrome-extension://{OTHER}/background.js",
                }
            ]
            return {"targetInfos": others + (chromium.targets() if states["targets"] > 2 else [])}

        def attach(_params: dict[str, Any]) -> dict[str, Any]:
            states["attach"] += 1
            if states["attach"] == 1:
                raise Refuse
            return {"sessionId": "session-2"}

        def evaluate(params: dict[str, Any]) -> dict[str, Any]:
            states["evaluate"] += 1
            return {"result": {"value": False}} if states["evaluate"] == 1 else chromium.evaluate(params)

        chromium.answers |= {
            "Target.getTargets": targets,
            "Target.attachToTarget": attach,
            "Runtime.evaluate": evaluate,
        }
        adopting = adopt(bench, chromium)
        async with bench.socket() as ws:
            await join(bench, chromium, ws)
            await adopting
        assert states == {"targets": 4, "attach": 2, "evaluate": 2}
        assert chromium.params("Target.detachFromTarget") == [{"sessionId": "session-2"}]

    play_private(scenario)


@pytest.mark.parametrize(
    "method", [*(command.method for command in START), "Runtime.evaluate", "Target.detachFromTarget"]
)
def test_what_chromium_refuses_ends_the_adoption(method: str) -> None:
    async def scenario(bench: Bench, chromium: FakeChromium) -> None:
        def refuse(_params: dict[str, Any]) -> dict[str, Any]:
            raise Refuse

        chromium.answers[method] = refuse
        await fails(adopt(bench, chromium))
        assert not bench.hub._private
        assert bench.lost == []

    play_private(scenario)


@pytest.mark.parametrize("silent", ["Fetch.enable", "Target.getTargets", "Runtime.evaluate", ""])
def test_at_the_deadline_the_adoption_fails(monkeypatch: pytest.MonkeyPatch, silent: str) -> None:
    monkeypatch.setattr(private_module, "CLOSE_SECONDS", 0.1)

    async def scenario(bench: Bench, chromium: FakeChromium) -> None:
        chromium.answers |= {silent: lambda _params: None, "Browser.close": lambda _params: None}
        loop = asyncio.get_running_loop()
        begun = loop.time()
        await fails(adopt(bench, chromium, ms=300))  # with nobody silent: the extension never connects
        assert loop.time() - begun < 2
        assert bench.hub.registry.token_for(chromium.pairing.get("pairing", ""), EXTENSION) is None

    play_private(scenario)


def test_a_browser_that_dies_while_it_is_being_paired() -> None:
    async def scenario(bench: Bench, chromium: FakeChromium) -> None:
        adopting = adopt(bench, chromium)
        await chromium.paired.wait()
        chromium.end()
        await fails(adopting)
        assert bench.lost == []  # nobody has it yet

    play_private(scenario)


def test_exited_while_it_is_being_paired() -> None:
    async def scenario(bench: Bench, chromium: FakeChromium) -> None:
        adopting = adopt(bench, chromium)
        await chromium.paired.wait()
        bench.hub.private_exited("task-1")
        await fails(adopting)
        assert bench.lost == []

    play_private(scenario)


def test_a_cancelled_adoption_leaves_nothing() -> None:
    async def scenario(bench: Bench, chromium: FakeChromium) -> None:
        adopting = adopt(bench, chromium)
        await chromium.paired.wait()
        adopting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await adopting
        assert not bench.hub._private
        assert bench.hub.registry.token_for(chromium.pairing["pairing"], EXTENSION) is None

    play_private(scenario)


def test_without_a_listener_there_is_no_private_browser() -> None:
    async def run() -> None:
        bench = Bench(token="")
        await bench.start()
        chromium = FakeChromium(EXTENSION)
        await fails(adopt(bench, chromium))
        chromium.end()
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(chromium.fds[0])

    asyncio.run(run())


def test_a_task_has_one_browser_and_a_second_one_does_no_harm_to_it() -> None:
    async def scenario(bench: Bench, chromium: FakeChromium) -> None:
        adopting = adopt(bench, chromium)
        async with bench.socket() as ws:
            await join(bench, chromium, ws)
            port = await adopting
            second = FakeChromium(EXTENSION)
            await fails(adopt(bench, second))
            second.end()
            await asyncio.sleep(0.05)
            assert bench.lost == []
            assert len(bench.hub.extensions()) == 1
            await port.close()

    play_private(scenario)


# ---------------------------------------------------------------------- whose pairing it is


def test_the_private_token_is_for_one_extension() -> None:
    async def scenario(bench: Bench, chromium: FakeChromium) -> None:
        adopting = adopt(bench, chromium, ms=700)
        await chromium.paired.wait()
        token, pairing = chromium.pairing["token"], chromium.pairing["pairing"]
        async with bench.socket(origin=f"chrome-extension://{OTHER}") as ws:
            word = await shake_hands(bench, ws, token=token, pairing=pairing, extension=OTHER)
            assert word == {"t": "refused", "code": "not-paired"}
        async with bench.socket() as ws:  # and for its own pairing
            assert (await shake_hands(bench, ws, token=token))["t"] == "refused"
        await fails(adopting)

    play_private(scenario)


def test_the_private_token_is_for_the_uid_of_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(bench: Bench, chromium: FakeChromium) -> None:
        uid = os.getuid()
        processes = {"uid": uid + 1}
        monkeypatch.setattr(peers, "uid_of_process", lambda _pid: processes["uid"])
        adopting = adopt(bench, chromium)
        async with bench.socket() as ws:  # our own uid may connect, but not as that browser
            assert (await join(bench, chromium, ws)) == {"t": "refused", "code": "not-paired"}
        monkeypatch.setattr(peers, "peer_uid", lambda *_ends: uid + 1)
        async with bench.socket() as ws:  # that uid may connect, but not as the user's
            assert (await shake_hands(bench, ws)) == {"t": "refused", "code": "not-paired"}
        async with bench.socket() as ws:
            assert (await join(bench, chromium, ws))["t"] == "ready"
            await adopting

    play_private(scenario)


def test_a_token_is_worth_nothing_after_its_browser() -> None:
    async def scenario(bench: Bench, chromium: FakeChromium) -> None:
        adopting = adopt(bench, chromium)
        async with bench.socket() as ws:
            await join(bench, chromium, ws)
            await (await adopting).close()
        async with bench.socket() as ws:
            assert (await join(bench, chromium, ws)) == {"t": "refused", "code": "not-paired"}

    play_private(scenario)


# ---------------------------------------------------------------------- guard and ends


async def ready(bench: Bench, chromium: FakeChromium, ws: Any) -> BrowserPort:
    adopting = adopt(bench, chromium)
    assert (await join(bench, chromium, ws))["t"] == "ready"
    return await adopting


def test_paused_documents_are_judged_by_the_policy() -> None:
    async def scenario(bench: Bench, chromium: FakeChromium) -> None:
        async with bench.socket() as ws:
            port = await ready(bench, chromium, ws)
            chromium.emit("Target.targetCreated", {"targetInfo": {"targetId": "page-1", "type": "page"}})
            chromium.pause("r1", "http://1.1.1.1/")
            chromium.pause("r2", "http://10.0.0.1/")
            chromium.pause("r3", f"http://127.0.0.1:{bench.port}/extension")
            chromium.pause("r4", "http://10.0.0.1/", frame="frame-1")
            await until(lambda: len(chromium.params("Fetch.failRequest")) == 3)
            assert chromium.params("Fetch.continueRequest") == [{"requestId": "r1"}]
            assert {one["requestId"] for one in chromium.params("Fetch.failRequest")} == {"r2", "r3", "r4"}
            assert port._denials() == 2  # type: ignore[attr-defined]
            await receive(ws)
            call = asyncio.create_task(port.call("browser_page_navigate", b"{}", deadline_ms=5_000))
            command = await receive(ws)
            chromium.pause("r5", "http://10.0.0.1/")
            await until(lambda: len(chromium.params("Fetch.failRequest")) == 4)
            error = {"code": "navigation-failed", "message": "The page did not load."}
            await ws.send(json.dumps({"t": "reply", "id": command["id"], "error": error}))
            with pytest.raises(PageFailure) as failure:
                await call
            assert failure.value.error.code is ToolErrorCode.POLICY_DENIED

    play_private(scenario)


def test_the_log_of_denials_is_bounded(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(bench: Bench, chromium: FakeChromium) -> None:
        async with bench.socket() as ws:
            await ready(bench, chromium, ws)
            for number in range(private_module.MAX_NOTES):
                chromium.pause(f"r{number}", "http://10.0.0.1/")
                await asyncio.sleep(0)
            await until(lambda: len(chromium.params("Fetch.failRequest")) == private_module.MAX_NOTES)

    with caplog.at_level("INFO"):
        play_private(scenario)
    mine = [record for record in caplog.records if record.name.endswith("chromium.private")]
    assert len(mine) <= private_module.MAX_NOTES + 1
    assert "10.0.0.1" not in caplog.text


@pytest.mark.parametrize("how", ["pipe", "exited", "nonsense"])
def test_a_browser_that_is_gone_is_lost_once(how: str) -> None:
    async def scenario(bench: Bench, chromium: FakeChromium) -> None:
        async with bench.socket() as ws:
            port = await ready(bench, chromium, ws)
            call = asyncio.create_task(port.call("browser_page_click", b"{}", deadline_ms=5_000))
            await asyncio.sleep(0.05)
            if how == "pipe":
                chromium.end()
            elif how == "exited":
                bench.hub.private_exited("task-1")
            else:
                os.write(chromium._replies, b"nonsense\0")
            with pytest.raises(PageFailure) as failure:
                await call
            assert failure.value.error.code is ToolErrorCode.BROWSER_LOST
            assert failure.value.error.may_have_effect
            await until(lambda: bench.lost)
            bench.hub.private_exited("task-1")
            assert await closed(ws) == 1006
            await asyncio.sleep(0.05)
            assert bench.lost == [port]
            await port.close()

    play_private(scenario)


def test_a_verdict_that_comes_after_the_end_is_harmless(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(bench: Bench, chromium: FakeChromium) -> None:
        release = asyncio.Event()

        async def slowly(_url: str) -> str:
            await release.wait()
            return ""

        monkeypatch.setattr(bench.hub._resolver, "check", slowly)
        async with bench.socket() as ws:
            port = await ready(bench, chromium, ws)
            chromium.pause("r1", "http://1.1.1.1/")
            await asyncio.sleep(0.05)
            await port.close()
            release.set()
            await asyncio.sleep(0.05)
            assert chromium.params("Fetch.continueRequest") == []

    play_private(scenario)


def test_a_browser_that_does_not_answer_its_end_is_left_to_the_supervisor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(private_module, "CLOSE_SECONDS", 0.1)

    async def scenario(bench: Bench, chromium: FakeChromium) -> None:
        chromium.answers["Browser.close"] = lambda _params: None
        async with bench.socket() as ws:
            port = await ready(bench, chromium, ws)
            await port.close()
        assert not bench.hub._private

    play_private(scenario)


def test_a_caller_that_gives_up_closing_leaves_nothing_open() -> None:
    async def scenario(bench: Bench, chromium: FakeChromium) -> None:
        chromium.answers["Browser.close"] = lambda _params: None
        async with bench.socket() as ws:
            port = await ready(bench, chromium, ws)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await port.close()
            assert await closed(ws) == 1006
            with pytest.raises(OSError, match="Bad file descriptor"):
                os.fstat(chromium.fds[0])

    play_private(scenario)
