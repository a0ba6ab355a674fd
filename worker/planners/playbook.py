"""The playbook planner: a list of steps, in order, without a model (design 6; format: protocol/playbook.py).

Rules: an `expect` is a `browser_page_wait`; when it does not come true the task ends `blocked`. A tool that fails ends the
task `blocked` where the page or a rule stands in the way, `failed` where a part of ours broke (`OUTCOME`). The summary
names step, tool and code or kind of condition, never a word of the page.

One exception, because a page often needs a moment after an action: a step with a `target` that was not found, and that
certainly had no effect, is tried once more after one wait of up to 3 s for that target. Both calls are taken only if
the rest of the playbook still fits into the calls left. Nothing else is ever repeated.

Artifacts are claimed by each step's `purpose`. Pure: events in, actions out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from ...protocol import limits as L
from ...protocol.errors import LocalMisuse, ToolErrorCode, UsageError
from ...protocol.frames import Assignment, ToolResult
from ...protocol.playbook import Expect, FinishStep, Step, expect_call, parse
from ...protocol.results import ArtifactClaim, ClaimStatus, ResultClaim
from .base import Action, Begin, CallTool, Conclude, Event, Settled

TARGET_WAIT_MS: Final = 3_000  # a page that has not shown a target by then needs an `expect` of its own
_WAIT: Final = "browser_page_wait"
_B, _F = ClaimStatus.BLOCKED, ClaimStatus.FAILED

OUTCOME: Final[Mapping[ToolErrorCode, ClaimStatus]] = {
    ToolErrorCode.INVALID_ARGUMENTS: _F,
    ToolErrorCode.UNKNOWN_TOOL: _F,
    ToolErrorCode.NO_TAB: _B,
    ToolErrorCode.TAB_NOT_LEASED: _B,
    ToolErrorCode.TAB_NOT_SHARED: _B,
    ToolErrorCode.STALE_REF: _B,
    ToolErrorCode.NOT_FOUND: _B,
    ToolErrorCode.AMBIGUOUS_TARGET: _B,
    ToolErrorCode.NOT_VISIBLE: _B,
    ToolErrorCode.COVERED: _B,
    ToolErrorCode.DISABLED: _B,
    ToolErrorCode.NOT_EDITABLE: _B,
    ToolErrorCode.SENSITIVE_FIELD: _B,
    ToolErrorCode.UNKNOWN_OPTION: _B,
    ToolErrorCode.TIMEOUT: _B,
    ToolErrorCode.NAVIGATION_FAILED: _B,
    ToolErrorCode.RESTRICTED_PAGE: _B,
    ToolErrorCode.ERROR_PAGE: _B,
    ToolErrorCode.BLOCKED_BY_DIALOG: _B,
    ToolErrorCode.PAGE_CRASHED: _F,
    ToolErrorCode.PAGE_ASLEEP: _B,
    ToolErrorCode.PDF_PAGE: _B,
    ToolErrorCode.POLICY_DENIED: _B,
    ToolErrorCode.TOO_LARGE: _F,
    ToolErrorCode.QUOTA_EXCEEDED: _F,
    ToolErrorCode.EXTENSION_LOST: _F,
    ToolErrorCode.BROWSER_LOST: _F,
    ToolErrorCode.CANCELLED: _F,
    ToolErrorCode.INTERNAL: _F,
}
# How a wait says that its condition did not come true; any other code of an `expect` is a failure like a tool's.
UNMET: Final = frozenset({ToolErrorCode.TIMEOUT, ToolErrorCode.NOT_FOUND, ToolErrorCode.NOT_VISIBLE})


class PlaybookPlanner:
    """One run over the steps from `assignment.resume_at` on."""

    def __init__(self, assignment: Assignment) -> None:
        self._steps: tuple[Step, ...] = ()
        self._broken = ""
        self._index = assignment.resume_at
        try:
            # The supervisor has checked it against the task's limit; here only the ceiling counts.
            self._steps = parse(assignment.playbook or b"", assignment.variables, L.MAX_TOOL_CALLS)
        except UsageError as error:
            self._broken = error.message
        self._actions: list[str] = []
        self._claims: list[ArtifactClaim] = []
        self._not_found: ToolResult | None = None  # while waiting for a target: what the step itself had got
        self._retried = False

    def handle(self, event: Event, boundary: str) -> Action:  # noqa: ARG002 - nothing here is wrapped
        """See `base.Planner.handle`."""
        if isinstance(event, Begin):
            return self._begin()
        if isinstance(event, Settled):
            return self._settled(event.result)
        raise LocalMisuse("a playbook makes no inference")

    def _begin(self) -> Action:
        if self._broken:
            return self._end(ClaimStatus.FAILED, f"The playbook can't be run: {self._broken}")
        if self._index >= len(self._steps):
            return self._end(ClaimStatus.FAILED, "The playbook has no step left to resume at")
        return self._run()

    def _run(self) -> Action:
        """The action of the current step."""
        step = self._steps[self._index]
        if step.finish is not None:
            return self._finish(step.finish)
        tool, args = _call(step)
        return CallTool(tool, msgspec.json.encode(args))

    def _settled(self, result: ToolResult) -> Action:
        step = self._steps[self._index]
        if self._not_found is not None:
            original, self._not_found = self._not_found, None
            return self._run() if result.ok else self._failed(step, original)
        if not result.ok:
            wait = self._second_chance(step, result)
            return self._failed(step, result) if wait is None else wait
        self._note(step, result)
        self._index += 1
        self._retried = False
        return self._run()

    def _note(self, step: Step, result: ToolResult) -> None:
        if len(self._actions) < L.MAX_ACTIONS:
            self._actions.append(f"{_call(step)[0]} ok")
        if step.purpose is not None and result.artifact and len(self._claims) < L.MAX_CLAIMS:
            self._claims.append(ArtifactClaim(artifact_id=result.artifact, purpose=step.purpose))

    def _second_chance(self, step: Step, result: ToolResult) -> CallTool | None:
        """The one wait for a missing target, if this failure and the budget allow it."""
        target = _target(step)
        if (
            target is None
            or self._retried
            or result.code is not ToolErrorCode.NOT_FOUND
            or result.may_have_effect
        ):
            return None
        rest = sum(later.finish is None for later in self._steps[self._index + 1 :])
        if result.calls_left < rest + 2:  # the wait, and the step itself again
            return None
        self._retried = True
        self._not_found = result
        args: dict[str, Any] = {"until": "visible", "target": target, "timeout_ms": TARGET_WAIT_MS}
        if "tab" in step.args:
            args["tab"] = step.args["tab"]
        return CallTool(_WAIT, msgspec.json.encode(args))

    def _failed(self, step: Step, result: ToolResult) -> Conclude:
        code = ToolErrorCode.INTERNAL if result.code is None else result.code
        number = self._index + 1
        if step.expect is not None and code in UNMET:
            return self._end(ClaimStatus.BLOCKED, f"Step {number}: {_condition(step.expect)} within its time")
        effect = "; it may have had an effect" if result.may_have_effect else ""
        return self._end(OUTCOME[code], f"Step {number}: {_call(step)[0]} failed with {code}{effect}")

    def _finish(self, finish: FinishStep) -> Conclude:
        return Conclude(
            ResultClaim(
                status=finish.status,
                summary=finish.summary,
                completed_actions=tuple(self._actions),
                question=finish.question,
                next_step=finish.next_step,
                answer=None if finish.answer is None else dict(finish.answer),
                artifacts=tuple(self._claims),
            )
        )

    def _end(self, status: ClaimStatus, summary: str) -> Conclude:
        """An end that the playbook did not ask for; what it made so far is claimed all the same."""
        return Conclude(
            ResultClaim(
                status=status,
                summary=f"{summary}."[: L.MAX_SUMMARY_CHARS],
                completed_actions=tuple(self._actions),
                artifacts=tuple(self._claims),
            )
        )


def _call(step: Step) -> tuple[str, dict[str, Any]]:
    """(tool, arguments) of a step that is not the finish."""
    return (step.tool, step.args) if step.tool is not None else expect_call(step)


def _target(step: Step) -> dict[str, Any] | None:
    """What a tool step acts on, as the arguments of a wait; a click by name and role counts as a target.

    An `expect` and a wait are waits already.
    """
    if step.tool is None or step.tool == _WAIT:
        return None
    target = step.args.get("target")
    if isinstance(target, dict):
        return target
    role, name = step.args.get("role"), step.args.get("name")
    return {"role": role, "name": name} if role is not None and name is not None else None


def _condition(expect: Expect) -> str:
    """The kind of condition that was not met, in fixed words."""
    if expect.text is not None:
        return "the expected text did not appear"
    if expect.url is not None:
        return "the expected URL was not reached"
    if expect.gone is not None:
        return "the text did not go away"
    return "the expected element did not appear"
