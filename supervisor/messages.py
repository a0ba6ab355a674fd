"""The sentences behind every code a host can see: what happened, and what to do next.

Invariants: every BlockerCode, ToolErrorCode, ModelProblem, DeliveryProblem and refusal has an entry (a test asserts it); a sentence
never holds anything of a page, a path of another user or a secret.
Pure: data.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from ..protocol.errors import BlockerCode as B
from ..protocol.errors import ToolErrorCode as T
from ..protocol.frames import DeliveryProblem as D
from ..protocol.frames import ModelProblem as M
from ..protocol.frames import PortProblem as P
from ..protocol.frames import StateProblem as S
from ..protocol.results import Status


class Sentence(NamedTuple):
    """`happened`: one sentence; `next_step`: one instruction ("" if there is none)."""

    happened: str
    next_step: str


class Verdict(NamedTuple):
    """How a code ends a task (design 4)."""

    status: Status
    retryable: bool


_BLOCKED, _FAILED = Status.BLOCKED, Status.FAILED

VERDICTS: Final[Mapping[B, Verdict]] = MappingProxyType(
    {
        B.STEP_LIMIT: Verdict(_BLOCKED, False),
        B.TOOL_CALL_LIMIT: Verdict(_BLOCKED, False),
        B.NO_PROGRESS: Verdict(_BLOCKED, False),
        B.REPEATED_ERROR: Verdict(_BLOCKED, False),
        B.TIME_LIMIT: Verdict(_BLOCKED, False),
        B.INVALID_TOOL: Verdict(_FAILED, False),
        B.ROLLOVER_EXHAUSTED: Verdict(_FAILED, False),
        B.NO_STRUCTURED_OUTPUT: Verdict(_FAILED, False),
        B.WORKER_CRASHED: Verdict(_FAILED, False),
        B.SANDBOX_VIOLATION: Verdict(_FAILED, False),
        B.POLICY_DENIED: Verdict(_BLOCKED, False),
        B.EXPECTATION_FAILED: Verdict(_BLOCKED, False),
        B.BROWSER_UNAVAILABLE: Verdict(_BLOCKED, True),
        B.MODEL_UNCONFIGURED: Verdict(_BLOCKED, True),
        B.MODEL_UNAVAILABLE: Verdict(_FAILED, True),
        B.BRIDGE_LOST: Verdict(_FAILED, True),
        B.SUPERVISOR_RESTARTED: Verdict(_FAILED, True),
        B.OVERLOADED: Verdict(_FAILED, True),
        B.CANCELLED: Verdict(_FAILED, True),
        B.SECRET_IN_GOAL: Verdict(_FAILED, False),
        B.INVALID_REQUEST: Verdict(_FAILED, False),
    }
)

BLOCKERS: Final[Mapping[B, Sentence]] = MappingProxyType(
    {
        B.STEP_LIMIT: Sentence("The task used all its model steps", "Delegate a smaller goal, or several."),
        B.TOOL_CALL_LIMIT: Sentence(
            "The task used all its tool calls", "Delegate a smaller goal, or several."
        ),
        B.NO_PROGRESS: Sentence(
            "The task acted several times without any new page, artifact or accepted change",
            "Give a more precise goal or a start URL closer to it.",
        ),
        B.REPEATED_ERROR: Sentence(
            "The same tool failed in the same way several times",
            "Check that the page offers what the goal asks for.",
        ),
        B.TIME_LIMIT: Sentence(
            "The task ran out of time", "Delegate a smaller goal, or raise limits.seconds."
        ),
        B.INVALID_TOOL: Sentence(
            "The model called a tool that it was not offered", "Use a model with better tool support."
        ),
        B.ROLLOVER_EXHAUSTED: Sentence(
            "The task needed more context than it may have", "Delegate a smaller goal."
        ),
        B.NO_STRUCTURED_OUTPUT: Sentence(
            "The model ended without a usable result",
            "Use a model with better tool support, or delegate again.",
        ),
        B.WORKER_CRASHED: Sentence(
            "The browser worker ended without a result", "Delegate again; see the supervisor's log."
        ),
        B.SANDBOX_VIOLATION: Sentence(
            "The browser worker tried a forbidden system call and was ended by the kernel",
            "Treat the visited pages as hostile; do not repeat the task.",
        ),
        B.POLICY_DENIED: Sentence(
            "The task needs something that its policy or the network policy forbids",
            "If it is wanted, allow it: in the task's policy (origins, actions), or, for an address that is not public, by"
            ' network.mode = "allowlist" and network.allow_hosts or network.allow_cidrs.',
        ),
        B.EXPECTATION_FAILED: Sentence(
            "A condition that the playbook expects did not come true", "Check the playbook against the page."
        ),
        B.BROWSER_UNAVAILABLE: Sentence(
            "No browser is available for the task",
            "Install Chromium or check chromium.executable, or connect the extension; run: supervisor doctor",
        ),
        B.MODEL_UNCONFIGURED: Sentence(
            "No model is configured", "Set [model] base_url and model, or give the task a playbook."
        ),
        B.MODEL_UNAVAILABLE: Sentence(
            "The model can't be used at the moment", "Try again; run: supervisor status"
        ),
        B.BRIDGE_LOST: Sentence(
            "The bridge process ended during the task", "Delegate again; it has been restarted."
        ),
        B.SUPERVISOR_RESTARTED: Sentence(
            "The supervisor ended during the task",
            "Delegate again once it runs, under another idempotency key if it had one.",
        ),
        B.OVERLOADED: Sentence(
            "Too many tasks run or wait", "Try again later, or raise max_tasks or max_queue."
        ),
        B.CANCELLED: Sentence("The task was cancelled", ""),
        B.SECRET_IN_GOAL: Sentence(
            "The request holds what looks like a password, token, API key or secret",
            "Remove it; let the browser's own password store or a person fill it in.",
        ),
        B.INVALID_REQUEST: Sentence(
            "The request can't be carried out as written", "Correct it and delegate again."
        ),
    }
)

NO_CHROMIUM: Final = Sentence(
    "No Chromium was found for a private browser",
    "Install one (Debian, Ubuntu: apt install chromium) or set [chromium] executable.",
)
NO_EXTENSION: Final = Sentence(
    "The extension in the user's Chrome is not connected",
    "Load the folder extension/dist in Chrome (chrome://extensions) and pair it in its popup with the token from the "
    "state folder's file pairing-token (see browser_extension_status), or use browser: private.",
)
BROWSER_LOST: Final = Sentence("The private browser ended during the task", "Delegate again.")
EXTENSION_LOST: Final = Sentence(
    "The extension lost its connection during the task", "Check Chrome, then delegate again."
)
BROWSER_NOT_STARTED: Final = Sentence(
    "The private browser did not start",
    "Run: supervisor doctor (it checks Chromium and its sandbox)",
)
BROWSER_LATE: Final = Sentence("The browser was not ready in time", "Delegate again; run: supervisor status")
NO_NAMESPACES: Final = Sentence(
    "Chromium's own sandbox can't work for this account: user namespaces are off",
    "Allow them (sysctl kernel.unprivileged_userns_clone=1 or user.max_user_namespaces), or set chromium_no_sandbox if pages are trusted.",
)
NO_WORKER: Final = Sentence("No sealed browser worker could be made", "Run: supervisor doctor")
NO_DIRECTORY: Final = Sentence(
    "A deliverable has a path, but the session has no working directory",
    "Open the session with a directory (an MCP client: a root, or supervisor mcp --directory).",
)
ASSIGNMENT_TOO_LARGE: Final = Sentence(
    "Goal, constraints, playbook and variables together are over 64 KiB", "Shorten them or split the task."
)
SHUT_DOWN: Final = Sentence(
    "The supervisor was shut down while the task ran",
    "Delegate again once it runs, under another idempotency key if it had one.",
)
OTHER_REQUEST: Final = Sentence(
    "The idempotency key was used for another request", "Give every request a key of its own."
)
NOT_RECORDED: Final = Sentence(
    "The delegation can't be recorded, so it could not be kept from running twice",
    "Check the disk of the state folder, or delegate without idempotency key.",
)
STOPPING: Final = Sentence("The supervisor is shutting down", "Delegate again once it runs.")
WORKER_FAULT: Final = Sentence(
    "The browser worker broke its protocol or flooded the bridge and was ended",
    "Do not repeat the task as it is.",
)

MODEL: Final[Mapping[M, Sentence]] = MappingProxyType(
    {
        M.NONE: BLOCKERS[B.MODEL_UNAVAILABLE],
        M.NOT_CONFIGURED: BLOCKERS[B.MODEL_UNCONFIGURED],
        M.KEY_MISSING: Sentence(
            "The model's key file is missing", "Create the file that [model] api_key_file names."
        ),
        M.KEY_UNREADABLE: Sentence(
            "The model's key file can't be read", "Check its owner and that its mode is 0600."
        ),
        M.KEY_EXPOSED: Sentence("The model's key file can be read by others", "Run chmod 600 on it."),
        M.INSECURE_URL: Sentence(
            "The model's address is neither https nor on loopback", "Correct [model] base_url."
        ),
        M.REFUSED_KEY: Sentence(
            "The model endpoint refuses the key", "Put a valid key into [model] api_key_file."
        ),
        M.WRONG_MODEL: Sentence("The model endpoint does not know the model", "Correct [model] model."),
        M.RATE_LIMITED: Sentence(
            "The model endpoint limits the rate of requests", "Wait, or raise the limit there."
        ),
        M.CONTEXT_TOO_LONG: Sentence(
            "The model endpoint refuses the context as too long",
            "Lower [model] window, soft_tokens and hard_tokens.",
        ),
        M.UNREACHABLE: Sentence(
            "The model endpoint can't be reached", "Check [model] base_url and the network."
        ),
        M.TIMEOUT: Sentence(
            "The model endpoint did not answer in time", "Try again, or raise [model] timeout_seconds."
        ),
        M.REDIRECTED: Sentence(
            "The model endpoint redirects, which is refused to protect the key",
            "Set [model] base_url to the final address.",
        ),
        M.SERVER_ERROR: Sentence("The model endpoint answers with a server error", "Try again later."),
        M.BAD_ANSWER: Sentence(
            "The model endpoint's answer is not of the OpenAI tools API", "Check [model] base_url and model."
        ),
        M.REQUEST_REFUSED: Sentence(
            "The model endpoint refuses the request", "Check that the model supports tools."
        ),
    }
)

PORTS: Final[Mapping[P, Sentence]] = MappingProxyType(
    {
        P.NONE: Sentence("", ""),
        P.TAKEN: Sentence(
            "The extension's port is taken by another process",
            "End that process, or set another [bridge] port.",
        ),
        P.FORBIDDEN: Sentence(
            "The extension's port may not be opened", "Set [bridge] port to one above 1023."
        ),
        P.NO_TOKEN: Sentence(
            "There is no usable pairing token",
            "Remove the file pairing-token from the state folder and restart the supervisor, which makes a new one.",
        ),
    }
)

SETUPS: Final[Mapping[S, Sentence]] = MappingProxyType(
    {
        S.STATE_FOLDER: Sentence(
            "A child process can't use the state folder", "Check its owner, and that its mode is 0700."
        ),
        S.DISK_FULL: Sentence("The disk of the state folder is full", "Free some space."),
        S.SETTINGS: Sentence("A child process refuses its settings", "Run: supervisor config check"),
    }
)

DELIVERIES: Final[Mapping[str, Sentence]] = MappingProxyType(
    {
        D.UNKNOWN_ARTIFACT.value: Sentence("The artifact is no longer kept", "Run the task again."),
        D.EXPIRED.value: Sentence("The artifact has expired", "Run the task again."),
        D.DAMAGED.value: Sentence("The kept artifact is damaged", "Run the task again."),
        D.TOO_LARGE.value: Sentence("The artifact is larger than granted", "Run the task again."),
        D.DISK_FULL.value: Sentence(
            "The disk of the destination is full", "Free some space, then deliver again."
        ),
        D.WRITE_FAILED.value: Sentence(
            "Writing the file failed", "Check the destination, then deliver again."
        ),
        "absolute-path": Sentence("The path is absolute", "Give one relative to the working directory."),
        "parent-path": Sentence("The path holds '..', an empty or a '.' part", "Give a plain relative path."),
        "invalid-path": Sentence(
            "The path holds a forbidden character or is too long", "Give a plain relative path."
        ),
        "symlink": Sentence("A folder of the path is a symbolic link", "Give a path of real folders."),
        "not-a-directory": Sentence("A folder of the path is no folder", "Give a path of real folders."),
        "no-such-directory": Sentence(
            "A folder of the path does not exist", "Create it, then deliver again."
        ),
        "exists": Sentence(
            "The file exists; nothing is ever overwritten", "Give another path, or move the file away."
        ),
        "no-permission": Sentence(
            "The destination can't be written", "Check its permissions, then deliver again."
        ),
        "directory-changed": Sentence(
            "The working directory is no longer the one of the session", "Open a new session in it."
        ),
        "no-directory": NO_DIRECTORY,
        "no-path": Sentence("The artifact has no declared path", "Give a path with the delivery."),
        "unknown-grant": Sentence(
            "No such artifact is granted to this session", "Use an id from a result of this session."
        ),
        "size-mismatch": Sentence("The delivered file is not what was granted", "Run the task again."),
        "bridge-lost": Sentence(
            "The bridge ended during the delivery", "Deliver again; it has been restarted."
        ),
        "timeout": Sentence("The delivery took too long", "Deliver again."),
        "grants-unavailable": Sentence(
            "The grants can't be written", "Check the state folder and its disk, then run the task again."
        ),
    }
)

# Next steps of a declared path that is refused before the task runs; other codes have the one of DELIVERIES.
TARGETS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "no-such-directory": "Create the folder, or name another path.",
        "exists": "Remove the file, or name another path.",
        "symlink": "Name a path of real folders.",
        "not-a-directory": "Name a path of real folders.",
        "no-permission": "Check its permissions, or name another path.",
        "disk-full": "Free some space, or name another path.",
    }
)


def target(purpose: str, code: str) -> Sentence:
    """Why the declared path of deliverable `purpose` is refused before anything ran. `code`: a key of DELIVERIES."""
    known = DELIVERIES[code]
    fault = known.happened[:1].lower() + known.happened[1:]
    return Sentence(f"Deliverable {purpose} can't be delivered: {fault}", TARGETS.get(code, known.next_step))


_PAGE: Final = "Check that the page offers what the goal or the playbook asks for."
_AGAIN: Final = "Delegate again."
# What to do about a task that ended with a failing tool call (the call's code is the bridge's word).
TOOLS: Final[Mapping[T, str]] = MappingProxyType(
    {
        T.INVALID_ARGUMENTS: "Correct the arguments in the playbook, or use a model with better tool support.",
        T.UNKNOWN_TOOL: "Correct the tool's name in the playbook, or use a model with better tool support.",
        T.NO_TAB: "Give a start URL, or open a tab first.",
        T.TAB_NOT_LEASED: "Let the task use only the tabs it opened or was given.",
        T.TAB_NOT_SHARED: "Share the tab in the extension's popup, then delegate again.",
        T.STALE_REF: "Observe the page again before acting on it, then delegate again.",
        T.NOT_FOUND: _PAGE,
        T.AMBIGUOUS_TARGET: "Name the element more precisely.",
        T.NOT_VISIBLE: _PAGE,
        T.COVERED: "Close what lies over the element (a banner or dialog) first, then delegate again.",
        T.DISABLED: "Fill in what the page needs before it enables the element.",
        T.NOT_EDITABLE: "Name a field that can be edited.",
        T.SENSITIVE_FIELD: "Let the browser's own password store or a person fill the field in.",
        T.UNKNOWN_OPTION: "Name an option that the list offers.",
        T.TIMEOUT: "Check that the site answers and that the page changes as expected, or allow more time.",
        T.NAVIGATION_FAILED: "Check the address, and that the site answers.",
        T.RESTRICTED_PAGE: "Use an ordinary http or https page.",
        T.ERROR_PAGE: "Check the address, and that the site answers.",
        T.BLOCKED_BY_DIALOG: "Let the task accept or dismiss the page's dialog, or do it in the browser, then delegate again.",
        T.PAGE_CRASHED: _AGAIN,
        T.PAGE_ASLEEP: "Let the task reload the sleeping tab, or open it in the browser, then delegate again.",
        T.PDF_PAGE: "Name a page in HTML; the text of a PDF is not read.",
        T.POLICY_DENIED: BLOCKERS[B.POLICY_DENIED].next_step,
        T.TOO_LARGE: "Ask for less at a time.",
        T.QUOTA_EXCEEDED: "Delegate a smaller goal, or several.",
        T.EXTENSION_LOST: EXTENSION_LOST.next_step,
        T.BROWSER_LOST: BROWSER_LOST.next_step,
        T.CANCELLED: _AGAIN,
        T.INTERNAL: "Delegate again; see the supervisor's log.",
    }
)
