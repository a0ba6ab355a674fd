"""What a planner is: one event in, exactly one next action out.

Invariants: the first event is `Begin`; after `CallTool` comes `Settled`, after `Think` comes `Thought`, after `Conclude`
nothing. There is never more than one call or one inference open, so an action needs no id here; the loop numbers them.
An event that does not answer the last action is our own bug (`LocalMisuse`): the loop has checked the peer already.

Pure: types only.
"""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from ...protocol.frames import ChatMessage, Inference, ToolResult
from ...protocol.results import ResultClaim


class Begin(Struct, frozen=True):
    """The assignment is here; decide the first action."""


class Settled(Struct, frozen=True):
    """The tool call is settled: its result, or its error."""

    result: ToolResult


class Thought(Struct, frozen=True):
    """The model's tool calls, judged by the model bridge."""

    inference: Inference


Event = Begin | Settled | Thought


class CallTool(Struct, frozen=True):
    """Run a worker tool. `args`: JSON object as bytes; the bridge validates it again."""

    tool: str
    args: bytes


class Think(Struct, frozen=True):
    """One inference over this surface."""

    messages: tuple[ChatMessage, ...]


class Conclude(Struct, frozen=True):
    """The end: hand this claim to customs."""

    claim: ResultClaim


Action = CallTool | Think | Conclude


class Planner(Protocol):
    """One task generation's planner."""

    def handle(self, event: Event, boundary: str) -> Action:
        """The next action. `boundary`: fresh random text for this event's envelopes (see `envelope`)."""
        ...
