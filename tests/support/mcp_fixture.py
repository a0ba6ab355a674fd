"""An MCP server with the fixture tools that the conformance suite asks for, on the product's transport and guard.

What the product has no tool for can only be tried with tools made for it: progress, elicitation, errors, plain text.
"""

from __future__ import annotations

import asyncio
from typing import Any

from mcp import types
from mcp.server import Server
from mcp.server.context import ServerRequestContext

_NOTHING: dict[str, Any] = {"type": "object", "properties": {}}
_MESSAGE: dict[str, Any] = {
    "type": "object",
    "properties": {"message": {"type": "string"}},
    "required": ["message"],
}
TOOLS = {
    "test_simple_text": _NOTHING,
    "test_error_handling": _NOTHING,
    "test_tool_with_progress": _NOTHING,
    "test_elicitation": _MESSAGE,
}


class Fixture:
    """Has a `server`, as `Product` has."""

    def __init__(self) -> None:
        self.server: Server[Any] = Server(
            "fixture", on_list_tools=self._list_tools, on_call_tool=self._call_tool
        )

    async def _list_tools(
        self, ctx: ServerRequestContext[Any, Any], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        del ctx, params
        return types.ListToolsResult(
            tools=[
                types.Tool(name=name, description=name, input_schema=schema) for name, schema in TOOLS.items()
            ]
        )

    async def _call_tool(
        self, ctx: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        match params.name:
            case "test_simple_text":
                return _text("This is a simple text response for testing.")
            case "test_tool_with_progress":
                for done in (0, 50, 100):
                    await ctx.session.report_progress(done, 100, f"{done} of 100")
                    await asyncio.sleep(0.05)  # the scenario asks for reports apart from each other
                return _text("done")
            case "test_elicitation":
                answer = await ctx.session.elicit_form(
                    (params.arguments or {})["message"],
                    {"type": "object", "properties": {"username": {"type": "string"}, "email": {"type": "string"}},
                     "required": ["username", "email"]},
                    ctx.request_id,
                )  # fmt: skip
                return _text(f"User response: action={answer.action}, content={answer.content}")
            case _:
                return _text("This tool intentionally returns an error for testing", is_error=True)


def _text(text: str, *, is_error: bool = False) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=is_error)
