"""The SDK's server with our tools: what an MCP client may ask, joined to `Host`. A shell.

One session a connection: of the handshake protocol versions a connection is what `initialize` opened (over HTTP its
`Mcp-Session-Id`). From version 2026-07-28 on a request stands alone, so all such requests of one process (one client over
stdio, the holders of one token over HTTP) share one session.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import warnings
from collections.abc import AsyncIterator
from importlib.metadata import version
from typing import Any, Final

import anyio
from mcp import types
from mcp.server import Server
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp.types.version import HANDSHAKE_PROTOCOL_VERSIONS
from pydantic import ValidationError

from ...protocol import frames as f
from ...protocol import limits as L
from ...protocol.tools import HOST_TOOLS, inline_schema
from . import answers, catalogue
from .host import DELEGATE, Host, Options
from .progress import Progress, Report

log = logging.getLogger(__name__)

Context = ServerRequestContext[Any, Any]
ROOTS_SECONDS: Final = 5.0  # a client that says it has roots answers from memory
_STATE: Final = "browsercell.host"


class Product:
    """The MCP server of one process. `server` is the SDK's; `close` ends every session."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._tools = {tool.name for tool in catalogue.offered(child=options.child)}
        self._shared: Host | None = None
        self._hosts: set[Host] = set()
        with warnings.catch_warnings():
            # Roots are what the clients of today tell their folder by; the SDK warns that later ones won't.
            warnings.simplefilter("ignore", MCPDeprecationWarning)
            self.server: Server[Any] = Server(
                "browsercell",
                version=version("browsercell"),
                title="browsercell",
                instructions=catalogue.INSTRUCTIONS,
                lifespan=self._lifespan,
                on_list_tools=self._list_tools,
                on_call_tool=self._call_tool,
                on_roots_list_changed=self._roots_changed,
            )

    async def close(self) -> None:
        """Harmless when closed already."""
        await asyncio.gather(*(host.close() for host in list(self._hosts)))
        self._hosts.clear()

    @contextlib.asynccontextmanager
    async def _lifespan(self, server: Server[Any]) -> AsyncIterator[dict[str, Any]]:
        del server
        try:
            yield {}
        finally:
            with anyio.CancelScope(shield=True):
                await self.close()

    # ---------------------------------------------------------------- requests

    async def _list_tools(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        del ctx, params  # five tools need no pages
        return types.ListToolsResult(tools=tools(child=self._options.child))

    async def _call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        if params.name not in self._tools:
            return _result(answers.refusal(*unknown_tool(params.name, self._tools)))
        arguments = params.arguments or {}
        host = self._host(ctx)
        pump = _Pump(ctx, Progress(_steps(arguments)))
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(pump.run)
                value = await host.call(
                    params.name,
                    json.dumps(arguments, ensure_ascii=False).encode("utf-8", "surrogatepass"),
                    find_folder=lambda: find_folder(ctx),
                    on_progress=pump.take if params.name == DELEGATE else None,
                )
                pump.finish()
        except Exception as error:  # noqa: BLE001 - the edge of a call: every fault becomes an error result
            cause = _single(error)
            log.info("a call failed", extra={"tool": params.name, "why": type(cause).__name__})
            return _result(answers.failure(cause))
        return _result(answers.success({"deliveries": value} if isinstance(value, list) else value))

    async def _roots_changed(self, ctx: Context, params: types.NotificationParams | None) -> None:
        del params
        self._host(ctx).roots_changed()

    def _host(self, ctx: Context) -> Host:
        # The SDK hands its handlers no public way to their connection; its state and its end are what a session needs.
        connection = ctx.session._connection
        if connection.protocol_version not in HANDSHAKE_PROTOCOL_VERSIONS:
            if self._shared is None:
                self._shared = self._new_host()
            return self._shared
        found: Host | None = connection.state.get(_STATE)
        if found is None:
            found = connection.state[_STATE] = self._new_host()
            connection.exit_stack.push_async_callback(self._end, found)
        return found

    def _new_host(self) -> Host:
        host = Host(self._options)
        self._hosts.add(host)
        return host

    async def _end(self, host: Host) -> None:
        self._hosts.discard(host)
        await host.close()


class _Pump:
    """Progress from the client's callback to the MCP client: the newest report wins, none comes after the result."""

    def __init__(self, ctx: Context, progress: Progress) -> None:
        self._ctx = ctx
        self._progress = progress
        self._next: Report | None = None
        self._due = asyncio.Event()
        self._over = False

    def take(self, frame: f.HostProgress) -> None:
        self._next = self._progress.report(frame)
        self._due.set()

    def finish(self) -> None:
        self._over = True
        self._due.set()

    async def run(self) -> None:
        while True:
            await self._due.wait()
            self._due.clear()
            report, self._next = self._next, None
            if report is not None:
                try:
                    await self._ctx.session.report_progress(report.progress, report.total, report.message)
                except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                    return  # nobody reads any more; the call's own end is another's business
            if self._over:
                return


# -------------------------------------------------------------------- plain functions


def tools(*, child: bool) -> list[types.Tool]:
    """The catalogue as the SDK's types."""
    made = []
    for tool in catalogue.offered(child=child):
        hints = catalogue.HINTS[tool.name]
        made.append(
            types.Tool(
                name=tool.name,
                title=hints.title,
                description=tool.description,
                input_schema=inline_schema(tool.args),
                output_schema=catalogue.OUTPUTS[tool.name],
                annotations=types.ToolAnnotations(
                    title=hints.title,
                    read_only_hint=hints.read_only,
                    destructive_hint=hints.destructive,
                    idempotent_hint=hints.idempotent,
                    open_world_hint=hints.open_world,
                ),
            )
        )
    return made


def unknown_tool(name: str, known: set[str]) -> tuple[str, str, str]:
    """Code, message and next step for a tool that this session does not have."""
    next_step = f"Call one of: {', '.join(sorted(known))}"
    if name in HOST_TOOLS:
        return "not-for-child-sessions", f"A child session may not call {name}.", next_step
    return "unknown-tool", "There is no tool of that name here.", next_step


async def find_folder(ctx: Context) -> str:
    """The MCP client's first root that is a folder, "" if it has none or does not say (then deliveries are refused)."""
    capabilities = ctx.session.client_capabilities
    if capabilities is None or capabilities.roots is None or not ctx.session.can_send_request:
        return ""
    try:
        answer = await ctx.session.send_request(
            types.ListRootsRequest(),
            types.ListRootsResult,
            request_read_timeout_seconds=ROOTS_SECONDS,
            metadata=ServerMessageMetadata(related_request_id=ctx.request_id),
        )
    except (MCPError, ValidationError) as error:
        log.warning("no roots", extra={"why": type(error).__name__})
        return ""
    return answers.first_folder([str(root.uri) for root in answer.roots])


def _steps(arguments: dict[str, Any]) -> int:
    limits = arguments.get("limits")
    steps = limits.get("steps") if isinstance(limits, dict) else None
    return steps if isinstance(steps, int) and 0 < steps < L.MAX_STEPS else L.MAX_STEPS


def _single(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _result(answer: answers.Answer) -> types.CallToolResult:
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=answer.text)],
        structured_content=answer.structured,
        is_error=answer.is_error,
    )
