"""The llm planner: one inference a step, its tool calls in order, results into the next surface (design 6).

Decisions: calls of one inference run one after the other and stop at the first failure; the others of that step are
answered with a fixed "not run" text, so the chat stays well-formed and nothing is done on a wrong premise.
`structured_output` ends the task where it stands in the order; what follows it is never run. Steps and tokens are
counted by the model bridge; the numbers here only tell the model its budget.

Invariants: page data is kept for one step only; whatever the model bridge has judged is taken as it is, except that a
claim must decode (a `PeerViolation` otherwise: the bridge promised it). Pure: events in, actions out.
"""

from __future__ import annotations

import msgspec

from ...protocol.errors import LocalMisuse, PeerViolation
from ...protocol.frames import Assignment, ChatToolCall, Inference, ToolResult
from ...protocol.results import ResultClaim
from ...protocol.tools import STRUCTURED_OUTPUT, WORKER_TOOLS
from ..ledger import Ledger
from ..surface import LastStep, build
from .base import Action, Begin, CallTool, Conclude, Event, Settled, Think


class LlmPlanner:
    """One generation of the model loop."""

    def __init__(self, assignment: Assignment) -> None:
        self._assignment = assignment
        self._ledger = Ledger(assignment.ledger)
        self._steps_left = assignment.steps
        self._calls_left = assignment.tool_calls
        self._notes = ""
        self._calls: tuple[ChatToolCall, ...] = ()
        self._results: list[ToolResult | None] = []

    def handle(self, event: Event, boundary: str) -> Action:
        """See `base.Planner.handle`."""
        if isinstance(event, Begin):
            return self._think(None, boundary)
        if isinstance(event, Settled):
            return self._settled(event.result, boundary)
        return self._thought(event.inference)

    def _think(self, last: LastStep | None, boundary: str) -> Think:
        messages = build(
            self._assignment,
            self._ledger,
            last,
            steps_left=self._steps_left,
            calls_left=self._calls_left,
            boundary=boundary,
        )
        self._steps_left = max(0, self._steps_left - 1)
        return Think(messages)

    def _thought(self, inference: Inference) -> Action:
        for call in inference.tool_calls:
            if call.name != STRUCTURED_OUTPUT and call.name not in WORKER_TOOLS:
                raise PeerViolation("the model bridge let a tool through that was not offered")
        self._notes = inference.content
        self._calls = inference.tool_calls
        self._results = []
        return self._next()

    def _next(self) -> Action:
        call = self._calls[len(self._results)]
        if call.name == STRUCTURED_OUTPUT:
            try:
                claim = msgspec.json.decode(call.arguments, type=ResultClaim)
            except msgspec.DecodeError:
                raise PeerViolation("the model bridge let a malformed claim through") from None
            return Conclude(claim)
        return CallTool(call.name, call.arguments.encode())

    def _settled(self, result: ToolResult, boundary: str) -> Action:
        if len(self._results) >= len(self._calls):
            raise LocalMisuse("a result without an open call")
        self._ledger.add(self._calls[len(self._results)].name, result)
        self._calls_left = result.calls_left
        self._results.append(result)
        if result.ok and len(self._results) < len(self._calls):
            return self._next()
        self._results += [None] * (len(self._calls) - len(self._results))
        return self._think(LastStep(self._notes, self._calls, tuple(self._results)), boundary)
