"""The listener with honest extensions: handshake, commands, replacement, liveness, losses, states of the port."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from typing import Any

import pytest
from browsercell.bridge.extension import hub as hub_module
from browsercell.bridge.extension import listener as listener_module
from browsercell.bridge.extension.sockets import bind
from browsercell.bridge.ports import PageFailure
from browsercell.protocol.errors import ToolErrorCode
from browsercell.protocol.frames import ExtEventKind, PortProblem
from browsercell.protocol.limits import MAX_HANDSHAKE_FRAME

from .client import EXTENSION, OTHER, Bench, closed, hello, play, receive, shake_hands, until


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_an_extension_joins_and_is_known(host: str) -> None:
    async def scenario(bench: Bench) -> None:
        assert bench.hub.user_port() is None
        async with bench.extension():
            await until(lambda: bench.hub.user_port() is not None)
            [info] = bench.hub.extensions()
            assert (info.extension_id, info.version, info.private) == (EXTENSION, "0.1.0", False)
            assert bench.news >= 1
        await until(lambda: not bench.hub.extensions())
        assert bench.hub.refused == 0

    play(scenario, host=host)


def test_a_command_goes_out_and_its_answer_comes_in() -> None:
    async def scenario(bench: Bench) -> None:
        async with bench.extension() as ws:
            assert (await receive(ws))["t"] == "ping"
            port = bench.hub.user_port()
            assert port is not None
            call = asyncio.create_task(
                port.call("browser_page_observe", b'{"mode":"summary"}', tab=4, deadline_ms=5_000)
            )
            command = await receive(ws)
            assert command | {"deadlineMs": 0} == {
                "t": "command", "id": 1, "op": "browser_page_observe", "args": {"mode": "summary"}, "tab": 4, "deadlineMs": 0,
            }  # fmt: skip
            await ws.send(json.dumps({"t": "reply", "id": 1, "ok": {"text": "hello", "version": "v1"}}))
            assert (await call).text == "hello"

    play(scenario)


def test_a_large_answer_in_fragments_arrives() -> None:
    async def scenario(bench: Bench) -> None:
        async with bench.extension() as ws:
            await receive(ws)
            port = bench.hub.user_port()
            assert port is not None
            call = asyncio.create_task(port.call("browser_page_screenshot", b"{}", deadline_ms=20_000))
            await receive(ws)
            image = "A" * (20 * 1024 * 1024)
            text = json.dumps({"t": "reply", "id": 1, "ok": {"image": image}})
            await ws.send([text[at : at + 500_000] for at in range(0, len(text), 500_000)])
            assert (await call).image == image

    play(scenario)


def test_events_reach_the_owner() -> None:
    async def scenario(bench: Bench) -> None:
        async with bench.extension() as ws:
            await ws.send(json.dumps({"t": "event", "kind": "tab-closed", "tab": 5}))
            await until(lambda: bench.events)
            port, event = bench.events[0]
            assert port is bench.hub.user_port()
            assert (event.kind, event.tab) == (ExtEventKind.TAB_CLOSED, 5)

    play(scenario)


def test_a_newer_connection_of_the_same_browser_replaces_the_older() -> None:
    async def scenario(bench: Bench) -> None:
        async with bench.extension() as older:
            await receive(older)
            port = bench.hub.user_port()
            assert port is not None
            call = asyncio.create_task(port.call("browser_page_click", b"{}", deadline_ms=5_000))
            await receive(older)
            async with bench.extension() as newer:
                assert await receive(older) == {"t": "refused", "code": "replaced"}
                assert await closed(older) == 1008
                with pytest.raises(PageFailure) as failure:
                    await call
                assert failure.value.error.code is ToolErrorCode.EXTENSION_LOST
                assert failure.value.error.may_have_effect
                assert bench.hub.user_port() is port  # the browser is the same one
                again = asyncio.create_task(port.call("browser_page_click", b"{}", deadline_ms=5_000))
                assert (await receive(newer))["t"] == "ping"
                assert (await receive(newer))["id"] == 2
                await newer.send(json.dumps({"t": "reply", "id": 2, "ok": {}}))
                await again
                assert len(bench.hub.extensions()) == 1
        assert bench.lost == []

    play(scenario)


def test_two_browsers_of_the_user_are_both_connected_and_the_newest_is_used() -> None:
    async def scenario(bench: Bench) -> None:
        async with bench.extension(profile="one"):
            first = bench.hub.user_port()
            async with bench.extension(profile="two", extension=OTHER):
                second = bench.hub.user_port()
                assert second is not first
                assert {info.extension_id for info in bench.hub.extensions()} == {EXTENSION, OTHER}
            await until(lambda: len(bench.hub.extensions()) == 1)
            assert bench.hub.user_port() is first

    play(scenario)


def test_a_short_loss_keeps_the_browser_and_a_long_one_loses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("browsercell.bridge.extension.connections.GRACE_SECONDS", 0.5)
    monkeypatch.setattr(hub_module, "GRACE_SECONDS", 0.5)

    async def scenario(bench: Bench) -> None:
        async with bench.extension():
            port = bench.hub.user_port()
        await until(lambda: not bench.hub.extensions())
        assert bench.hub.user_port() is port
        async with bench.extension():
            assert bench.hub.user_port() is port
        await until(lambda: bench.lost)
        assert bench.lost == [port]
        assert bench.hub.user_port() is None
        async with bench.extension():
            assert bench.hub.user_port() not in (None, port)

    play(scenario)


def test_pings_are_answered_or_the_connection_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("browsercell.protocol.limits.EXTENSION_HEARTBEAT_MS", 100)

    async def scenario(bench: Bench) -> None:
        async with bench.extension() as ws:
            for expected in range(1, 6):
                ping = await receive(ws)
                assert ping == {"t": "ping", "nonce": expected}
                await ws.send(json.dumps({"t": "pong", "nonce": expected}))
            loop = asyncio.get_running_loop()
            silent_since = loop.time()
            assert await closed(ws) == 1006
            assert 0.1 < loop.time() - silent_since < 2
        await until(lambda: not bench.hub.extensions())

    play(scenario)


@pytest.mark.parametrize(
    ("version", "code"), [(0, "old-extension"), (2, "old-bridge"), (10**30, "old-bridge")]
)
def test_another_version_is_told_which_side_is_old(version: int, code: str) -> None:
    async def scenario(bench: Bench) -> None:
        async with bench.socket() as ws:
            await ws.send(json.dumps(hello(version=version, somethingNew={"x": 1})))
            assert await receive(ws) == {"t": "refused", "code": code}
            assert await closed(ws) == 1008
        assert bench.hub.refused == 1

    play(scenario)


def test_the_allow_list_is_for_the_users_browser() -> None:
    async def scenario(bench: Bench) -> None:
        async with bench.extension(extension=OTHER):
            assert len(bench.hub.extensions()) == 1

    play(scenario, allowed_extensions=(OTHER,))


def test_the_port_of_another_process_is_not_taken() -> None:
    async def run() -> None:
        with socket.create_server(("127.0.0.1", 0)) as owner:
            bench = Bench(port=owner.getsockname()[1])
            await bench.start()
            assert bench.state.problem is PortProblem.TAKEN
            assert bench.state.port_owner == os.getpid()
            assert await bench.hub.check_url("file:///") == "scheme"  # all else works
            await bench.hub.stop()

    asyncio.run(run())


def test_a_port_that_was_ours_a_moment_ago_can_be_ours_again() -> None:
    async def run() -> None:
        first = Bench()
        await first.start()
        async with first.extension():
            await first.hub.stop()
        second = Bench(port=first.port)
        await second.start()
        assert second.state.problem is PortProblem.NONE
        async with second.extension():
            assert len(second.hub.extensions()) == 1
        await second.hub.stop()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"token": "fifteen letters"}, PortProblem.NO_TOKEN),
        ({"token": ""}, PortProblem.NO_TOKEN),
        ({"host": "0.0.0.0"}, PortProblem.FORBIDDEN),
        ({"host": "192.0.2.1"}, PortProblem.FORBIDDEN),
        ({"host": "localhost.example"}, PortProblem.FORBIDDEN),
    ],
)
def test_the_listener_stays_off(settings: dict[str, str], problem: PortProblem) -> None:
    async def run() -> None:
        options: dict[str, Any] = {"port": 17_000} | settings
        bench = Bench(**options)
        await bench.start()
        assert (bench.state.port, bench.state.problem) == (17_000, problem)
        assert bench.hub.user_port() is None
        await bench.hub.stop()

    asyncio.run(run())


def test_a_port_that_may_not_be_bound_is_forbidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_host: str, _port: int) -> socket.socket:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(listener_module, "bind", refuse)

    async def run() -> None:
        bench = Bench(port=80)
        await bench.start()
        assert bench.state.problem is PortProblem.FORBIDDEN

    asyncio.run(run())


def test_localhost_without_ipv6_is_the_ipv4_one(monkeypatch: pytest.MonkeyPatch) -> None:
    original = bind

    def only_ipv4(host: str, port: int) -> socket.socket:
        if ":" in host:
            raise OSError(99, "Cannot assign requested address")
        return original(host, port)

    monkeypatch.setattr(listener_module, "bind", only_ipv4)

    async def scenario(bench: Bench) -> None:
        async with bench.extension():
            assert len(bench.hub.extensions()) == 1

    play(scenario, host="localhost")


def test_our_own_listener_is_no_destination() -> None:
    async def scenario(bench: Bench) -> None:
        assert await bench.hub.check_url(f"http://127.0.0.1:{bench.port}/extension") == "own-listener"
        assert await bench.hub.check_url(f"http://127.0.0.1:{bench.port + 1}/") == ""

    from browsercell.protocol.settings import NetworkMode, NetworkSettings

    play(scenario, network=NetworkSettings(mode=NetworkMode.UNRESTRICTED))


def test_stop_ends_calls_and_connections() -> None:
    async def scenario(bench: Bench) -> None:
        async with bench.extension() as ws:
            port = bench.hub.user_port()
            assert port is not None
            call = asyncio.create_task(port.call("browser_page_click", b"{}", deadline_ms=5_000))
            await asyncio.sleep(2 * hub_module.NEWS_SECONDS)
            before = bench.news
            await bench.hub.stop()
            with pytest.raises(PageFailure):
                await call
            assert bench.news == before  # its owner is ending too and is told nothing more
            assert bench.lost == []
            assert await closed(ws) in (1001, 1006)
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection("127.0.0.1", bench.port)

    play(scenario)


def test_handshake_frames_are_small() -> None:
    assert len(json.dumps(hello(capabilities=["x" * 32] * 32))) < MAX_HANDSHAKE_FRAME


def test_reports_of_who_is_connected_are_bounded() -> None:
    async def scenario(bench: Bench) -> None:
        for _ in range(40):
            async with bench.socket() as ws:
                await shake_hands(bench, ws, token="wrong, but long enough")
        refused = bench.hub.refused
        assert refused == 40
        assert bench.news < 40 / 2
        before = bench.news
        await asyncio.sleep(2 * hub_module.NEWS_SECONDS)
        assert before <= bench.news <= before + 1  # the last one is reported

    play(scenario)
