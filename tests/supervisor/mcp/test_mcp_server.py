"""The MCP server before the SDK's own client, with a stand-in for the supervisor: every tool, both protocol eras."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browsercell.protocol.client import AsyncClient
from browsercell.protocol.tools import HOST_TOOLS, inline_schema
from browsercell.supervisor.mcp import host as host_module
from browsercell.supervisor.mcp.host import Options
from browsercell.supervisor.mcp.server import Product
from mcp import Client, types

from tests.support.hosts import Served, serving

ERAS = ("legacy", "2026-07-28")


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serving(tmp_path / "r") as one:
        yield one


async def until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)


def error_of(result: types.CallToolResult) -> dict[str, Any]:
    assert result.is_error
    assert result.structured_content is None
    (content,) = result.content
    assert isinstance(content, types.TextContent)
    found: dict[str, Any] = json.loads(content.text)
    return found


@pytest.mark.parametrize("era", ERAS)
def test_every_tool_is_listed_with_its_golden_schema_and_answers(
    served: Served, tmp_path: Path, era: str
) -> None:
    async def main() -> None:
        product = Product(Options(served.folder, directory=str(tmp_path)))
        async with Client(product.server, mode=era) as client:
            listed = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert list(listed) == list(HOST_TOOLS)
            for name, tool in listed.items():
                golden = json.dumps(inline_schema(HOST_TOOLS[name].args))
                assert json.dumps(tool.input_schema, sort_keys=True) == json.dumps(
                    json.loads(golden), sort_keys=True
                )
                assert tool.description == HOST_TOOLS[name].description
                assert tool.output_schema
                assert tool.annotations
            # The SDK's client checks each structured answer against its schema.
            status = await client.call_tool("browser_status", {})
            assert status.structured_content == {"supervisor": {"state": "running"}}
            extension = await client.call_tool("browser_extension_status", {})
            assert extension.structured_content == {"connected": []}
            done = await client.call_tool("browser_delegate_task", {"goal": "buy tea"})
            assert done.structured_content
            assert (done.structured_content["status"], done.structured_content["summary"]) == (
                "completed",
                "buy tea",
            )
            given = await client.call_tool("browser_artifact_deliver", {"items": [{"artifactId": "a"}]})
            assert given.structured_content
            assert given.structured_content["deliveries"][0]["delivered"] is True

    asyncio.run(main())


def test_progress_reaches_the_client_before_the_result(served: Served) -> None:
    async def main() -> None:
        seen: list[tuple[float, float | None, str | None]] = []

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            seen.append((progress, total, message))

        async with Client(Product(Options(served.folder)).server, mode="legacy") as client:
            await client.call_tool("browser_delegate_task", {"goal": "go"}, progress_callback=on_progress)
        assert seen == [(2.0, 41.0, "step 1 of 32, browser_page_click, 0 s")]

    asyncio.run(main())


def test_faults_are_error_results_with_our_codes_and_bad_delegations_normal_results(served: Served) -> None:
    async def main() -> None:
        async with Client(Product(Options(served.folder)).server, mode="legacy") as client:
            unknown = error_of(await client.call_tool("browser_page_click", {"ref": "e1"}))
            assert unknown["code"] == "unknown-tool"
            deliver = error_of(await client.call_tool("browser_artifact_deliver", {"items": []}))
            assert deliver["code"] == "invalid-request"
            nowhere = error_of(
                await client.call_tool("browser_artifact_deliver", {"items": [{"artifactId": "a"}]})
            )
            assert "no working directory" in nowhere["message"]
            huge = error_of(await client.call_tool("browser_delegate_task", {"goal": "x" * 300_000}))
            assert huge["code"] == "invalid-request"
            odd = await client.call_tool("browser_delegate_task", {"goal": "x", "selector": "#a"})
            assert not odd.is_error
            assert odd.structured_content
            assert odd.structured_content["blockerCode"] == "invalid-request"

    asyncio.run(main())


def test_a_child_server_neither_lists_nor_runs_what_is_for_top_sessions(served: Served) -> None:
    async def main() -> None:
        async with Client(Product(Options(served.folder, child=True)).server, mode="legacy") as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            assert names == ["browser_status", "browser_extension_status"]
            refused = error_of(await client.call_tool("browser_delegate_task", {"goal": "x"}))
            assert refused["code"] == "not-for-child-sessions"
            assert not (await client.call_tool("browser_status", {})).is_error
        assert served.core.handles == []

    asyncio.run(main())


def test_a_cancelled_request_cancels_the_delegation(served: Served) -> None:
    async def main() -> None:
        async with Client(Product(Options(served.folder)).server, mode="legacy") as client:
            waiting = asyncio.create_task(client.call_tool("browser_delegate_task", {"goal": "wait"}))
            await until(lambda: bool(served.core.handles))
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            await until(lambda: served.core.handles[0]._cancelled.is_set())
            assert not (await client.call_tool("browser_status", {})).is_error

    asyncio.run(main())


def test_a_connection_that_ends_ends_its_session_and_what_runs_in_it(served: Served) -> None:
    async def main() -> None:
        async with Client(Product(Options(served.folder)).server, mode="legacy") as client:
            waiting = asyncio.create_task(client.call_tool("browser_delegate_task", {"goal": "wait"}))
            await until(lambda: bool(served.core.handles))
        await until(lambda: served.core.handles[0]._cancelled.is_set())
        await asyncio.gather(waiting, return_exceptions=True)
        await until(lambda: served.call(served.link.connected) == 0)

    asyncio.run(main())


def test_each_connection_is_a_session_of_its_own(served: Served) -> None:
    async def main() -> None:
        product = Product(Options(served.folder))
        async with (
            Client(product.server, mode="legacy") as one,
            Client(product.server, mode="legacy") as two,
        ):
            for client in (one, two, one):
                await client.call_tool("browser_status", {})
            assert served.call(served.link.connected) == 2

    asyncio.run(main())


def test_the_working_directory_comes_from_the_roots_and_follows_them(served: Served, tmp_path: Path) -> None:
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
    now = [folders[0]]

    async def roots(context: Any) -> types.ListRootsResult:
        del context
        return types.ListRootsResult(
            roots=[types.Root.model_validate({"uri": root.as_uri()}) for root in now]
        )

    async def main() -> None:
        async with Client(
            Product(Options(served.folder)).server, mode="legacy", list_roots_callback=roots
        ) as client:
            for _ in range(2):
                await client.call_tool("browser_delegate_task", {"goal": "go"})
            now[0] = folders[1]
            await client.session.send_roots_list_changed()
            await client.call_tool("browser_delegate_task", {"goal": "go"})
            now.clear()
            await client.session.send_roots_list_changed()
            await client.call_tool("browser_delegate_task", {"goal": "go"})

    asyncio.run(main())
    paths = [None if grant is None else grant.path for grant in served.core.directories]
    assert paths == [str(folders[0]), str(folders[0]), str(folders[1]), None]


def test_a_fixed_directory_wins_over_roots_and_a_client_without_roots_is_not_asked(
    served: Served, tmp_path: Path
) -> None:
    async def roots(context: Any) -> types.ErrorData:
        del context
        raise AssertionError("asked for roots")

    async def main() -> None:
        options = Options(served.folder, directory=str(tmp_path))
        async with Client(Product(options).server, mode="legacy", list_roots_callback=roots) as client:
            await client.call_tool("browser_delegate_task", {"goal": "go"})

    asyncio.run(main())
    assert [grant.path for grant in served.core.directories if grant] == [str(tmp_path)]


def test_roots_that_can_not_be_read_leave_the_session_without_a_directory(served: Served) -> None:
    async def roots(context: Any) -> types.ErrorData:
        del context
        return types.ErrorData(code=-32603, message="no")

    async def main() -> None:
        async with Client(
            Product(Options(served.folder)).server, mode="legacy", list_roots_callback=roots
        ) as client:
            assert not (await client.call_tool("browser_delegate_task", {"goal": "go"})).is_error

    asyncio.run(main())
    assert served.core.directories == [None]


def test_a_new_turn_is_told_after_a_quiet_period(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[float] = []
    times = iter([0.0, 1.0, 5.0, 6.0, 100.0, 101.0])
    monkeypatch.setattr(AsyncClient, "new_turn", lambda _: told.append(1))

    class Clock:
        monotonic = staticmethod(lambda: next(times))

    monkeypatch.setattr(host_module, "time", Clock)

    async def main() -> None:
        async with Client(Product(Options(served.folder)).server, mode="legacy") as client:
            for expected in (0, 0, 1):
                await client.call_tool("browser_status", {})
                assert len(told) == expected

    asyncio.run(main())


def test_a_lost_supervisor_is_told_honestly_and_the_next_call_finds_the_next_one(tmp_path: Path) -> None:
    async def main() -> None:
        with serving(tmp_path / "r") as first:
            product = Product(Options(first.folder))
            async with Client(product.server, mode="legacy") as client:
                waiting = asyncio.create_task(client.call_tool("browser_delegate_task", {"goal": "wait"}))
                await until(lambda: bool(first.core.handles))
                # The link ends without an answer, as when the process is killed.
                first.call(first.link._link.close)
                lost = await waiting
                assert lost.structured_content
                assert lost.structured_content["blockerCode"] == "supervisor-restarted"
                assert lost.structured_content["sideEffects"] == "possible"
                (tmp_path / "r" / "host").rename(tmp_path / "old")
                with serving(tmp_path / "r") as second:
                    again = await client.call_tool("browser_delegate_task", {"goal": "go"})
                    assert again.structured_content
                    assert again.structured_content["status"] == "completed"
                    assert len(second.core.handles) == 1

    asyncio.run(main())
