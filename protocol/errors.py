"""Every error of the project, in one tree, split by blame.

    BrowsercellError
      ActorError                    a conversation between two processes went wrong
        CallError                   one call: CallTimeout, CallCancelled, WorkerDied, ActorRaised
        LinkError                   the link itself: PeerUnreachable, Backpressure, FrameTooLarge
        ProtocolError               LocalMisuse (our own bug) | PeerViolation (the peer's: cut it off)
        SpawnError                  a child did not start; SandboxError names the failing step of the seal
        RestartsExhausted           a child died more often than its restart intensity allows
      UsageError                    bad input from a person or a host (exit code 2)
      Unavailable                   something the request needs is missing or down (exit code 3)

Invariants: a message says what happened and `next_step` what to do; neither ever holds page data, a
secret or another user's path. `execution` says whether the failed thing may have run (style, Errors).

Pure: data only.
"""

from __future__ import annotations

from enum import StrEnum


class Execution(StrEnum):
    """Whether a failed call may have had an effect."""

    NOT_STARTED = "not_started"
    UNKNOWN = "unknown"
    FINISHED = "finished"


class BlockerCode(StrEnum):
    """Stable codes of an unsuccessful delegation (design 4)."""

    STEP_LIMIT = "step-limit"
    TOOL_CALL_LIMIT = "tool-call-limit"
    NO_PROGRESS = "no-progress"
    REPEATED_ERROR = "repeated-error"
    TIME_LIMIT = "time-limit"
    INVALID_TOOL = "invalid-tool"
    ROLLOVER_EXHAUSTED = "rollover-exhausted"
    NO_STRUCTURED_OUTPUT = "no-structured-output"
    WORKER_CRASHED = "worker-crashed"
    SANDBOX_VIOLATION = "sandbox-violation"
    POLICY_DENIED = "policy-denied"
    EXPECTATION_FAILED = "expectation-failed"
    BROWSER_UNAVAILABLE = "browser-unavailable"
    MODEL_UNCONFIGURED = "model-unconfigured"
    MODEL_UNAVAILABLE = "model-unavailable"
    BRIDGE_LOST = "bridge-lost"
    SUPERVISOR_RESTARTED = "supervisor-restarted"
    OVERLOADED = "overloaded"
    CANCELLED = "cancelled"
    SECRET_IN_GOAL = "secret-in-goal"
    INVALID_REQUEST = "invalid-request"


class ToolErrorCode(StrEnum):
    """Why one worker tool call failed (design 5, Errors). Closed: it also travels in content-free frames."""

    INVALID_ARGUMENTS = "invalid-arguments"
    UNKNOWN_TOOL = "unknown-tool"
    NO_TAB = "no-tab"
    TAB_NOT_LEASED = "tab-not-leased"
    TAB_NOT_SHARED = "tab-not-shared"
    STALE_REF = "stale-ref"
    NOT_FOUND = "not-found"
    AMBIGUOUS_TARGET = "ambiguous-target"
    NOT_VISIBLE = "not-visible"
    COVERED = "covered"
    DISABLED = "disabled"
    NOT_EDITABLE = "not-editable"
    SENSITIVE_FIELD = "sensitive-field"
    UNKNOWN_OPTION = "unknown-option"
    TIMEOUT = "timeout"
    NAVIGATION_FAILED = "navigation-failed"
    RESTRICTED_PAGE = "restricted-page"
    ERROR_PAGE = "error-page"
    BLOCKED_BY_DIALOG = "blocked-by-dialog"
    PAGE_CRASHED = "page-crashed"
    PAGE_ASLEEP = "page-asleep"  # the browser took its memory; the tab is still there
    PDF_PAGE = "pdf-page"
    POLICY_DENIED = "policy-denied"
    TOO_LARGE = "too-large"
    QUOTA_EXCEEDED = "quota-exceeded"
    EXTENSION_LOST = "extension-lost"
    BROWSER_LOST = "browser-lost"
    CANCELLED = "cancelled"
    INTERNAL = "internal"


class BrowsercellError(Exception):
    """Root. `message` says what happened, `next_step` what a person can do about it ("" if nothing)."""

    def __init__(
        self, message: str, *, next_step: str = "", execution: Execution = Execution.NOT_STARTED
    ) -> None:
        super().__init__(message)
        self.message = message
        self.next_step = next_step
        self.execution = execution

    def __str__(self) -> str:
        return f"{self.message}. {self.next_step}" if self.next_step else self.message


class ActorError(BrowsercellError):
    """A conversation between two processes went wrong."""


class CallError(ActorError):
    """One call failed; `execution` says whether it may have run."""


class CallTimeout(CallError):
    """No answer within the call's deadline."""


class CallCancelled(CallError):
    """The caller gave up."""


class WorkerDied(CallError):
    """The worker of `generation` ended with `exit_status` (negative: the signal) while the call was open."""

    def __init__(self, generation: int, exit_status: int | None, *, execution: Execution) -> None:
        how = "unknown status" if exit_status is None else f"status {exit_status}"
        super().__init__(f"the worker of generation {generation} ended ({how})", execution=execution)
        self.generation = generation
        self.exit_status = exit_status


class ActorRaised(CallError):
    """The peer ran the call and answered with an error `code`."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        next_step: str = "",
        execution: Execution = Execution.FINISHED,
    ) -> None:
        super().__init__(message, next_step=next_step, execution=execution)
        self.code = code


class LinkError(ActorError):
    """A link can't carry the frame."""


class PeerUnreachable(LinkError):
    """Nobody is connected under that identity, or the link is closed."""


class Backpressure(LinkError):
    """The peer reads too slowly; the frame was not queued."""


class FrameTooLarge(LinkError):
    """A frame is over the link's bound; it was not sent."""


class ProtocolError(ActorError):
    """The protocol was broken."""


class LocalMisuse(ProtocolError):
    """By this process: a bug of ours; nothing was sent."""


class PeerViolation(ProtocolError):
    """By the peer: its link, and the process behind it, end (design 2, rule 6)."""


class SpawnError(ActorError):
    """A child process did not start."""


class SandboxError(SpawnError):
    """The seal failed at `step` with `errno_name`; the process must not be used."""

    def __init__(self, step: str, errno_name: str) -> None:
        super().__init__(f"sealing the worker failed at {step} ({errno_name})")
        self.step = step
        self.errno_name = errno_name


class RestartsExhausted(ActorError):
    """A child died more often than its restart intensity allows; its owner gave up."""


class UsageError(BrowsercellError):
    """Bad input: configuration, arguments, a request. Nothing was started."""


class Unavailable(BrowsercellError):
    """A thing the request needs is missing or down. Nothing was started."""
