"""An MCP client from nothing to delivered files: the server starts a supervisor of its own, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import psutil
from browsercell.supervisor.demo.server import TABLE_ROWS, Bookshop
from mcp import Client, StdioServerParameters, types

from tests.support.live import done, navigate, own_settings, private_place, sets, table_to, until

SETTINGS = {"network.mode": "allowlist", "network.allow_hosts": "127.0.0.1"}
END_SECONDS = 20


def server(place: Path) -> StdioServerParameters:
    return StdioServerParameters(
        command=sys.executable,
        args=["-m", "browsercell.supervisor", "mcp", *sets(own_settings(place, SETTINGS))],
        env={**os.environ, "BROWSERCELL_RUNTIME_DIR": f"{place}/run"},
    )


def ours(place: Path) -> list[psutil.Process]:
    """Processes that name the place in their command line or environment."""
    found = []
    for process in psutil.process_iter():
        try:
            text = " ".join(process.cmdline()) + " ".join(process.environ().values())
        except psutil.Error:
            continue  # it has ended, or is a kernel thread
        if str(place) in text and process.pid != os.getpid():
            found.append(process)
    return found


def test_a_client_delegates_gets_a_file_and_leaves_nothing(bookshop: Bookshop, outbox: Path) -> None:
    async def roots(context: object) -> types.ListRootsResult:
        del context
        return types.ListRootsResult(roots=[types.Root.model_validate({"uri": outbox.as_uri()})])

    async def main(place: Path) -> None:
        messages: list[str] = []

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            del progress, total
            messages.append(message or "")

        async with Client(server(place), mode="legacy", list_roots_callback=roots) as client:
            # Answers are checked against the listed schemas by the SDK's client.
            status = await client.call_tool("browser_status", {})
            extension = await client.call_tool("browser_extension_status", {})
            assert not status.is_error
            assert not extension.is_error
            answer = await client.call_tool(
                "browser_delegate_task",
                {
                    "goal": "Export the prices",
                    "browser": "private",
                    "playbook": [navigate("${site}/prices"), table_to("prices", "Prices"), done("Exported")],
                    "variables": {"site": bookshop.url},
                    "deliverables": [{"purpose": "prices", "kind": "table", "path": "prices.csv"}],
                },
                progress_callback=on_progress,
            )
            assert answer.structured_content
            assert answer.structured_content["status"] == "completed", answer.structured_content
            again = await client.call_tool(
                "browser_artifact_deliver",
                {"items": [{"artifactId": answer.structured_content["artifacts"][0]["artifactId"]}]},
            )
            assert again.structured_content
            assert again.structured_content["deliveries"][0]["delivered"] is True
        assert any("browser_page_extract" in message for message in messages), messages
        assert not any("127.0.0.1" in message or "Prices" in message for message in messages)

    with private_place() as place:
        asyncio.run(main(place))
        assert len((outbox / "prices.csv").read_text().splitlines()) == TABLE_ROWS + 1
        until(lambda: not ours(place), END_SECONDS, "every process of ours has ended")


def test_a_killed_server_takes_its_supervisor_with_it() -> None:
    async def main(place: Path) -> None:
        async with Client(server(place), mode="legacy") as client:
            await client.call_tool("browser_status", {})
            (one,) = [process for process in ours(place) if "mcp" in process.cmdline()]
            one.send_signal(signal.SIGKILL)
            until(lambda: not ours(place), END_SECONDS, "every process of ours has ended")

    with private_place() as place:
        asyncio.run(main(place))
