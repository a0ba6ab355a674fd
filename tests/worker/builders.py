"""Small frames for the tests of the worker's pure parts."""

from __future__ import annotations

import json
from typing import Any

from browsercell.protocol.frames import (
    Assignment,
    ChatToolCall,
    Inference,
    ToolResult,
    WantedDeliverable,
)
from browsercell.protocol.results import ArtifactKind, PlannerKind

BOUNDARY = "ab" * 16


def assignment(planner: PlannerKind = PlannerKind.LLM, **fields: Any) -> Assignment:
    """A task with every field set; `playbook` as a list of steps."""
    playbook = fields.pop("playbook", None)
    defaults: dict[str, Any] = {
        "task": "task-aaaa",
        "generation": 1,
        "goal": "Find the price of tea",
        "constraints": ("Buy nothing",),
        "start_url": "https://shop.example/",
        "deliverables": (
            WantedDeliverable("prices", ArtifactKind.TABLE),
            WantedDeliverable("picture", ArtifactKind.SCREENSHOT, required=False),
        ),
        "steps": 8,
        "tool_calls": 20,
        "playbook": None if playbook is None else json.dumps(playbook).encode(),
    }
    return Assignment(planner=planner, **{**defaults, **fields})


def ok(content: str = "", *, call: int = 1, left: int = 10, **fields: Any) -> ToolResult:
    """A call that went well."""
    return ToolResult(call=call, ok=True, content=content, calls_left=left, **fields)


def bad(code: Any, content: str = "", *, call: int = 1, left: int = 10, **fields: Any) -> ToolResult:
    """A call that failed."""
    return ToolResult(call=call, ok=False, content=content, code=code, calls_left=left, **fields)


def chat_call(name: str, arguments: Any = None, call_id: str = "c1") -> ChatToolCall:
    """A model's call."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {})
    return ChatToolCall(id=call_id, name=name, arguments=text)


def inference(*calls: ChatToolCall, content: str = "", call: int = 1) -> Inference:
    """What the model bridge hands on."""
    return Inference(call=call, tool_calls=calls, content=content)
