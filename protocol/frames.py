"""Every frame on every link, declared once (style rule 4).

Links and who speaks on them (permission tables: protocol/links.py; sequences: protocol/README.md):

    BRIDGE_CONTROL  supervisor <-> bridge        inherited socketpair, may carry descriptors downwards
    MODEL_CONTROL   supervisor <-> model bridge  inherited socketpair
    PAGE            worker <-> bridge            ZeroMQ, one private folder a worker
    MODEL           worker <-> model bridge      ZeroMQ, likewise
    HOST            host <-> supervisor          ZeroMQ, private folder of the user
    EXTENSION       extension <-> bridge         WebSocket, JSON text instead of msgpack

Trust direction is written on each frame: *down* comes from the more trusted side and may be believed, *up*
comes from the less trusted side and must be judged. Frames *up* to the supervisor hold enums, numbers and
opaque ids only; the one exception is `TaskFinished`, which customs have bounded. No frame says who sends it:
identity is the transport's (kernel peer pid, inherited descriptor, authenticated connection).

Over 400 lines because splitting it would split the wire format.

Pure: data only.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from . import limits as L
from .errors import BlockerCode, ToolErrorCode
from .results import (
    ArtifactKind,
    Browser,
    BrowserDelegateResult,
    PlannerKind,
    Policy,
    Purpose,
    ResolvedArtifact,
    ResultClaim,
    SideEffects,
)
from .settings import BridgeSettings, InputMode, ModelSettings

Id = Annotated[
    str, Meta(min_length=4, max_length=40, pattern=r"^[a-z]{1,8}[_-][a-z2-7]{4,32}$")
]  # protocol/ids.py
Count = Annotated[int, Meta(ge=0)]
# JSON of a schema that protocol/answers.py has checked; b"": none.
AnswerSchemaBytes = Annotated[bytes, Meta(max_length=L.MAX_ANSWER_SCHEMA)]
ErrnoName = Annotated[str, Meta(max_length=16, pattern=r"^[A-Z0-9]*$")]


class Frame(Struct, frozen=True, forbid_unknown_fields=True, tag_field="t", tag=True):
    """Base of all msgpack frames."""


class Part(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Base of what frames are made of."""


# ============================================================================ all links


class Ping(Frame, frozen=True, tag="ping"):
    """Down, on PAGE, MODEL and both control links: answer from the actor loop, not from an I/O thread."""

    nonce: Count


class Pong(Frame, frozen=True, tag="pong"):
    """Up: the answer, same nonce."""

    nonce: Count


# ============================================================================ sealing


class SandboxLevel(StrEnum):
    """Levels of the seal, strongest first (facts: allow-list + Landlock + own network + empty root ...)."""

    CONTAINED = "contained"
    SEALED = "sealed"
    FILTERED = "filtered"
    UNSANDBOXED = "unsandboxed"


class SealLayerName(StrEnum):
    NAMESPACES = "namespaces"
    EMPTY_ROOT = "empty_root"
    PRIVILEGES = "privileges"
    RLIMITS = "rlimits"
    LANDLOCK = "landlock"
    SECCOMP = "seccomp"
    CANARIES = "canaries"


class SealLayer(Part, frozen=True):
    """One layer: on, or off with the errno name that its first call got."""

    name: SealLayerName
    on: bool
    reason: ErrnoName = ""


class SealReport(Part, frozen=True):
    """What a worker says of its own seal; the supervisor checks it from outside."""

    level: SandboxLevel
    layers: Annotated[tuple[SealLayer, ...], Meta(max_length=16)]
    landlock_abi: Annotated[int, Meta(ge=0, le=99)] = 0
    instructions: Annotated[int, Meta(ge=0, le=4096)] = 0  # of the loaded seccomp filter


# ============================================================================ supervisor <-> both bridges


class PrepareWorker(Frame, frozen=True, tag="prepare_worker"):
    """Down: bind `folder`/page (bridge) or `folder`/model (model bridge) for a worker of `uid`; don't read yet."""

    worker: Id
    folder: Annotated[str, Meta(max_length=100)]
    uid: Count


class WorkerPrepared(Frame, frozen=True, tag="worker_prepared"):
    """Up: bound."""

    worker: Id


class WorkerSpawned(Frame, frozen=True, tag="worker_spawned"):
    """Down: the worker is this pid; read its link now and accept no other pid."""

    worker: Id
    pid: Annotated[int, Meta(ge=2)]


class ForgetWorker(Frame, frozen=True, tag="forget_worker"):
    """Down: the worker is dead or about to be killed; close its link, settle what it had under way."""

    worker: Id


class WorkerForgotten(Frame, frozen=True, tag="worker_forgotten"):
    """Up: nothing of that worker is held any more; its pid may be reaped and reused.

    `unsettled`: commands of it whose effect is unknown (bridge only, 0 from the model bridge).
    """

    worker: Id
    unsettled: Count = 0


class WorkerFaultKind(StrEnum):
    """Why a worker must end (design 2, rule 6)."""

    WRONG_PID = "wrong-pid"
    BAD_FRAME = "bad-frame"
    WRONG_VERSION = "wrong-version"
    WRONG_PHASE = "wrong-phase"
    OVERSIZE = "oversize"
    MULTIPART = "multipart"
    OVERDRAFT = "overdraft"
    SILENT = "silent"
    DISCONNECTED = "disconnected"
    STALE_GENERATION = "stale-generation"


class WorkerFault(Frame, frozen=True, tag="worker_fault"):
    """Up: the bridge has cut this worker off; the supervisor kills it."""

    worker: Id
    kind: WorkerFaultKind


class WorkerGreeted(Frame, frozen=True, tag="worker_greeted"):
    """Up, from the model bridge: the worker's second link is up."""

    worker: Id


class Shutdown(Frame, frozen=True, tag="shutdown"):
    """Down: finish writing, close everything, exit 0 within `grace_ms`."""

    grace_ms: Count


# ============================================================================ supervisor <-> bridge


class ConfigureBridge(Frame, frozen=True, tag="configure_bridge"):
    """Down, first frame."""

    settings: BridgeSettings


class PortProblem(StrEnum):
    NONE = "none"
    TAKEN = "taken"
    FORBIDDEN = "forbidden"
    NO_TOKEN = "no-token"


class BridgeReady(Frame, frozen=True, tag="bridge_ready"):
    """Up: configured. The listener is on `port`, or off for `problem`; `port_owner` is the pid that has the port (0: unknown).

    Without a listener the bridge still serves everything that needs none.
    """

    port: Count
    problem: PortProblem = PortProblem.NONE
    port_owner: Count = 0


class StateProblem(StrEnum):
    """Why a child could not take its settings; it exits after saying so."""

    STATE_FOLDER = "state-folder"
    DISK_FULL = "disk-full"
    SETTINGS = "settings"


class SetupFailed(Frame, frozen=True, tag="setup_failed"):
    """Up, instead of ready."""

    problem: StateProblem
    errno_name: ErrnoName = ""


class ExtensionInfo(Part, frozen=True):
    """One authenticated extension. `private`: it lives in a private Chromium."""

    extension_id: Annotated[str, Meta(pattern=r"^[a-p]{32}$")]
    version: Annotated[str, Meta(max_length=32, pattern=r"^[0-9.]*$")]
    private: bool
    connected_ms: Count  # ago


class ExtensionState(Frame, frozen=True, tag="extension_state"):
    """Up, whenever it changes: who is connected."""

    extensions: Annotated[tuple[ExtensionInfo, ...], Meta(max_length=64)]
    refused: Count = 0  # handshakes refused since start


class WantedDeliverable(Part, frozen=True):
    """A deliverable without its path."""

    purpose: Purpose
    kind: ArtifactKind
    required: bool = True


class OpenTask(Frame, frozen=True, tag="open_task"):
    """Down: prepare a browser for `task`. Answered by TaskOpened, TaskRefused, or first BrowserWanted.

    `browser` is never AUTO: the supervisor has resolved it. `url`: start URL, checked against the network policy and
    `policy`. `answer`: what customs let through of an answer.
    """

    task: Id
    browser: Browser
    url: Annotated[str, Meta(max_length=L.MAX_URL_CHARS)] | None
    deliverables: Annotated[tuple[WantedDeliverable, ...], Meta(max_length=L.MAX_DELIVERABLES)]
    tool_calls: Annotated[int, Meta(ge=1, le=L.MAX_TOOL_CALLS)]
    answer: AnswerSchemaBytes = b""
    policy: Policy = Policy()


class BrowserWanted(Frame, frozen=True, tag="browser_wanted"):
    """Up: start a private Chromium for `task`."""

    task: Id


class BrowserSpawned(Frame, frozen=True, tag="browser_spawned"):
    """Down, with two descriptors: [0] write commands to it, [1] read replies from it."""

    task: Id
    pid: Annotated[int, Meta(ge=2)]


class BrowserExited(Frame, frozen=True, tag="browser_exited"):
    """Down: the task's Chromium is gone or could not be started; fail what needs it."""

    task: Id


class BrowserDone(Frame, frozen=True, tag="browser_done"):
    """Up: the bridge needs the task's Chromium no more; end it and remove its folder."""

    task: Id


class TaskOpened(Frame, frozen=True, tag="task_opened"):
    """Up: a browser stands ready for `task`."""

    task: Id


class TaskRefused(Frame, frozen=True, tag="task_refused"):
    """Up: it can't be opened. `code`: browser-unavailable, policy-denied, overloaded."""

    task: Id
    code: BlockerCode


class LedgerEntry(Part, frozen=True):
    """One settled tool call, content-free (design 8)."""

    tool: Annotated[str, Meta(max_length=40)]
    ok: bool
    code: ToolErrorCode | None = None
    page_version: Count = 0
    chars: Count = 0


class Assignment(Part, frozen=True):
    """What a worker works from; at most 64 KiB encoded (limits.MAX_ASSIGNMENT)."""

    task: Id
    generation: Annotated[int, Meta(ge=1, le=16)]
    planner: PlannerKind
    goal: Annotated[str, Meta(max_length=L.MAX_GOAL_CHARS)]
    constraints: tuple[Annotated[str, Meta(max_length=L.MAX_CONSTRAINT_CHARS)], ...]
    start_url: str | None
    deliverables: tuple[WantedDeliverable, ...]
    steps: Annotated[int, Meta(ge=0, le=L.MAX_STEPS)]
    tool_calls: Annotated[int, Meta(ge=1, le=L.MAX_TOOL_CALLS)]
    playbook: bytes | None = None  # JSON array of steps (protocol/playbook.py)
    variables: dict[str, str] = {}
    resume_at: Count = 0  # playbook: index of the first step not yet settled
    answer: AnswerSchemaBytes = b""
    policy: Policy = Policy()  # told to the model; enforced by the bridge alone
    ledger: Annotated[tuple[LedgerEntry, ...], Meta(max_length=L.MAX_LEDGER)] = ()


class Assign(Frame, frozen=True, tag="assign"):
    """Down: `worker` becomes this task's generation; the bridge forwards the assignment to it."""

    worker: Id
    assignment: Assignment


class WorkerSealed(Frame, frozen=True, tag="worker_sealed"):
    """Up: the worker's own report of its seal (closed vocabulary)."""

    worker: Id
    report: SealReport


class TaskProgress(Frame, frozen=True, tag="task_progress"):
    """Up, after each settled tool call: counted by the bridge."""

    task: Id
    generation: Count
    tool_calls: Count
    entry: LedgerEntry


class EndReason(StrEnum):
    """Guards that the bridge trips (design 8)."""

    TOOL_CALL_LIMIT = "tool-call-limit"
    REPEATED_ERROR = "repeated-error"
    NO_PROGRESS = "no-progress"
    EXTENSION_LOST = "extension-lost"
    BROWSER_LOST = "browser-lost"


class TaskGuard(Frame, frozen=True, tag="task_guard"):
    """Up: a guard tripped; the supervisor ends the generation."""

    task: Id
    generation: Count
    reason: EndReason


class TaskFinished(Frame, frozen=True, tag="task_finished"):
    """Up: the worker's claim as customs let it through: bounded, redacted, ids resolved. At most 16 KiB."""

    task: Id
    generation: Count
    result: BrowserDelegateResult


class CloseTask(Frame, frozen=True, tag="close_task"):
    """Down: no more commands for `task`: settle what is in flight, give tabs and leases back, keep artifacts.

    Sent after the worker is forgotten, or to cancel."""

    task: Id


class TaskClosed(Frame, frozen=True, tag="task_closed"):
    """Up: quiescent. What the task did and has, from the bridge's own tables."""

    task: Id
    side_effects: SideEffects
    unsettled: Count
    tool_calls: Count
    artifacts: Annotated[tuple[ResolvedArtifact, ...], Meta(max_length=L.MAX_CLAIMS)]


class Deliver(Frame, frozen=True, tag="deliver"):
    """Down, with one descriptor (write-only, empty, regular): write the artifact's bytes into it and sync."""

    delivery: Id
    artifact: Id
    max_bytes: Count


class DeliveryProblem(StrEnum):
    UNKNOWN_ARTIFACT = "unknown-artifact"
    EXPIRED = "expired"
    DAMAGED = "damaged"
    TOO_LARGE = "too-large"
    DISK_FULL = "disk-full"
    WRITE_FAILED = "write-failed"


class Delivered(Frame, frozen=True, tag="delivered"):
    """Up: all bytes are in the descriptor and synced."""

    delivery: Id
    size: Count
    sha256: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$")]


class DeliveryFailed(Frame, frozen=True, tag="delivery_failed"):
    """Up: nothing usable was written."""

    delivery: Id
    problem: DeliveryProblem


# ============================================================================ supervisor <-> model bridge


class ConfigureModel(Frame, frozen=True, tag="configure_model"):
    """Down, first frame."""

    settings: ModelSettings


class ModelProblem(StrEnum):
    """What is wrong with the endpoint; the supervisor owns the sentence that says what to do about each."""

    NONE = "none"
    NOT_CONFIGURED = "not-configured"
    KEY_MISSING = "key-missing"
    KEY_UNREADABLE = "key-unreadable"
    KEY_EXPOSED = "key-exposed"  # the key file is readable by others
    INSECURE_URL = "insecure-url"
    REFUSED_KEY = "refused-key"
    WRONG_MODEL = "wrong-model"
    RATE_LIMITED = "rate-limited"
    CONTEXT_TOO_LONG = "context-too-long"
    UNREACHABLE = "unreachable"
    TIMEOUT = "timeout"
    REDIRECTED = "redirected"
    SERVER_ERROR = "server-error"
    BAD_ANSWER = "bad-answer"
    REQUEST_REFUSED = "request-refused"


class ModelReady(Frame, frozen=True, tag="model_ready"):
    """Up: configured, or why not (playbooks run all the same). No request has been made."""

    problem: ModelProblem = ModelProblem.NONE


class AssignModel(Frame, frozen=True, tag="assign_model"):
    """Down, before the bridge's Assign: `worker` may make `steps` inferences for `task`; its answer follows `answer`."""

    worker: Id
    task: Id
    generation: Annotated[int, Meta(ge=1, le=16)]
    steps: Annotated[int, Meta(ge=0, le=L.MAX_STEPS)]
    answer: AnswerSchemaBytes = b""


class ModelAssigned(Frame, frozen=True, tag="model_assigned"):
    """Up: known; the worker may be told."""

    worker: Id


class ModelProgress(Frame, frozen=True, tag="model_progress"):
    """Up: an inference began (`tokens` 0) or ended. Counted here, not by the worker."""

    task: Id
    generation: Count
    steps: Count
    tokens: Count  # all tokens billed for this task so far
    occupancy: Count  # tokens of the latest request


class ModelFault(Frame, frozen=True, tag="model_fault"):
    """Up: this task can't go on. `code`: step-limit, invalid-tool, no-structured-output, rollover-exhausted (hard token
    limit), model-unavailable, model-unconfigured; `problem` tells the endpoint's side."""

    task: Id
    generation: Count
    code: BlockerCode
    problem: ModelProblem = ModelProblem.NONE


# ============================================================================ worker <-> bridge and model bridge


class Hello(Frame, frozen=True, tag="hello"):
    """Up, first frame on PAGE and MODEL."""

    version: Count


class Welcome(Frame, frozen=True, tag="welcome"):
    """Down: the answer."""

    version: Count


class Sealed(Frame, frozen=True, tag="sealed"):
    """Up, on PAGE, once: the seal is complete."""

    report: SealReport


class Assigned(Frame, frozen=True, tag="assigned"):
    """Down, on PAGE, once: the work. From now on the worker's frames belong to this generation."""

    assignment: Assignment


class ToolCall(Frame, frozen=True, tag="tool_call"):
    """Up, on PAGE: run a tool. Ids count up from 1; one call at a time."""

    call: Count
    tool: Annotated[str, Meta(max_length=40)]
    args: bytes  # JSON object; validated by the bridge


class ToolResult(Frame, frozen=True, tag="tool_result"):
    """Down, on PAGE: the settled call. `content` is untrusted page data (text or JSON) or, on failure, the
    bridge's own words; `artifact` the id of what was kept ("" if nothing)."""

    call: Count
    ok: bool
    content: str
    code: ToolErrorCode | None = None
    artifact: str = ""
    page_version: Count = 0
    calls_left: Count = 0
    retryable: bool = False
    may_have_effect: bool = False
    refs_valid: bool = True
    next_tool: str = ""


class Finish(Frame, frozen=True, tag="finish"):
    """Up, on PAGE, once: the final claim (`structured_output`)."""

    claim: ResultClaim


class Finished(Frame, frozen=True, tag="finished"):
    """Down, on PAGE: the claim is with customs; exit."""


class Credit(Frame, frozen=True, tag="credit"):
    """Down, on PAGE and MODEL: that many bytes have been read; send again. Never up."""

    bytes: Count


class ChatToolCall(Part, frozen=True):
    """A tool call as the model made it; `arguments` is JSON text."""

    id: Annotated[str, Meta(max_length=80)]
    name: Annotated[str, Meta(max_length=80)]
    arguments: str


class ChatRole(StrEnum):
    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class ChatMessage(Part, frozen=True):
    """One message of a surface."""

    role: ChatRole
    content: str
    tool_calls: Annotated[tuple[ChatToolCall, ...], Meta(max_length=L.MAX_TOOL_CALLS_PER_STEP)] = ()
    tool_call_id: str = ""


class Infer(Frame, frozen=True, tag="infer"):
    """Up, on MODEL: one inference over this surface. The tool schemas are the model bridge's own."""

    call: Count
    messages: Annotated[tuple[ChatMessage, ...], Meta(max_length=64)]


class Inference(Frame, frozen=True, tag="inference"):
    """Down, on MODEL: tool calls that the model bridge has judged: known names, valid arguments, at least one."""

    call: Count
    tool_calls: Annotated[tuple[ChatToolCall, ...], Meta(min_length=1, max_length=L.MAX_TOOL_CALLS_PER_STEP)]
    content: str = ""


class InferenceFailed(Frame, frozen=True, tag="inference_failed"):
    """Down, on MODEL: there will be no answer; the supervisor knows why and ends the task."""

    call: Count


# ============================================================================ host <-> supervisor


class SessionKind(StrEnum):
    """A child session sees no delegate and no deliver (design 3)."""

    TOP = "top"
    CHILD = "child"


class OpenSession(Frame, frozen=True, tag="open_session"):
    """Up, first frame on HOST. `directory`: absolute working directory for deliveries ("" : none, deliveries are refused)."""

    version: Count
    kind: SessionKind = SessionKind.TOP
    directory: Annotated[str, Meta(max_length=4096)] = ""


class SessionOpened(Frame, frozen=True, tag="session_opened"):
    """Down."""

    session: Id
    supervisor_version: str


class NewTurn(Frame, frozen=True, tag="new_turn"):
    """Up: a new turn of the host's conversation begins; the circuit starts anew."""


class HostCall(Frame, frozen=True, tag="host_call"):
    """Up: call one of the host tools; ids count up from 1 per session."""

    call: Count
    tool: Annotated[str, Meta(max_length=64)]
    args: bytes  # camelCase JSON object


class HostCancel(Frame, frozen=True, tag="host_cancel"):
    """Up: give `call` up; it still gets its one reply."""

    call: Count


class TaskPhase(StrEnum):
    """Where a delegation is."""

    QUEUED = "queued"
    OPENING_BROWSER = "opening-browser"
    ASSIGNING = "assigning"
    RUNNING = "running"
    CLOSING = "closing"
    DELIVERING = "delivering"


class HostProgress(Frame, frozen=True, tag="host_progress"):
    """Down: content-free progress of `call`. Call 0 is no call: a sign of life that a host ignores."""

    call: Count
    phase: TaskPhase
    steps: Count
    tool_calls: Count
    max_tool_calls: Count
    tool: str = ""
    ok: bool = True
    elapsed_ms: Count = 0


class HostReply(Frame, frozen=True, tag="host_reply"):
    """Down: the one answer to `call`, camelCase JSON (for a delegation: BrowserDelegateResult)."""

    call: Count
    content: bytes


class HostFault(Frame, frozen=True, tag="host_fault"):
    """Down: the call (0: the session) was refused before anything ran. `code` is a BlockerCode or a usage code."""

    call: Count
    code: Annotated[str, Meta(max_length=64)]
    message: str
    next_step: str = ""


class StatusRequest(Frame, frozen=True, tag="status_request"):
    """Up: every process with role, pid, age, memory and sandbox level (`supervisor status`)."""

    call: Count


class ProcessInfo(Part, frozen=True):
    """One process of ours, as the supervisor's own tables and /proc tell it."""

    role: Annotated[str, Meta(max_length=32)]
    pid: Count
    state: Annotated[str, Meta(max_length=32)]
    age_ms: Count
    memory: Count  # bytes, resident
    sandbox: str = ""
    task: str = ""
    restarts: Count = 0


class StatusReply(Frame, frozen=True, tag="status_reply"):
    """Down."""

    call: Count
    processes: tuple[ProcessInfo, ...]
    status: bytes  # JSON, as browser_status answers


class StopSupervisor(Frame, frozen=True, tag="stop_supervisor"):
    """Up: shut down in order (same uid only, as everything on HOST)."""


# ============================================================================ extension <-> bridge (JSON)


class ExtFrame(
    Struct,
    frozen=True,
    forbid_unknown_fields=True,
    tag_field="t",
    tag=True,
    rename="camel",
    omit_defaults=True,
):
    """Base of all WebSocket frames: JSON text, camelCase."""


class ExtPart(Struct, frozen=True, forbid_unknown_fields=True, rename="camel", omit_defaults=True):
    """Base of what they are made of."""


Hex64 = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$")]


class ExtHello(ExtFrame, frozen=True, tag="hello"):
    """Up, unauthenticated, first. `pairing`: "user", or the name a private Chromium was paired under."""

    version: Count
    extension_version: Annotated[str, Meta(max_length=32, pattern=r"^[0-9.]+$")]
    nonce: Hex64
    pairing: Annotated[str, Meta(max_length=40, pattern=r"^[a-z0-9-]+$")]
    profile: Annotated[
        str, Meta(max_length=40, pattern=r"^[a-z0-9-]+$")
    ]  # random, made once per installation
    capabilities: Annotated[tuple[Annotated[str, Meta(max_length=32)], ...], Meta(max_length=32)] = ()


class ExtChallenge(ExtFrame, frozen=True, tag="challenge"):
    """Down: `mac` proves that the bridge has the token before the extension proves anything (bridge/handshake.py)."""

    nonce: Hex64
    connection: Hex64
    mac: Hex64


class ExtProof(ExtFrame, frozen=True, tag="proof"):
    """Up, unauthenticated: the extension's mac."""

    mac: Hex64


class ExtReady(ExtFrame, frozen=True, tag="ready"):
    """Down: authenticated."""

    heartbeat_ms: Count
    input: InputMode


class ExtRefusal(StrEnum):
    OLD_EXTENSION = "old-extension"
    OLD_BRIDGE = "old-bridge"
    NOT_PAIRED = "not-paired"
    NOT_ALLOWED = "not-allowed"
    REPLACED = "replaced"
    THROTTLED = "throttled"


class ExtRefused(ExtFrame, frozen=True, tag="refused"):
    """Down, last: why the connection is about to close."""

    code: ExtRefusal


class ExtPing(ExtFrame, frozen=True, tag="ping"):
    """Down, every heartbeat: an application message keeps the service worker awake; protocol pings do not."""

    nonce: Count


class ExtPong(ExtFrame, frozen=True, tag="pong"):
    """Up."""

    nonce: Count


class ExtCommand(ExtFrame, frozen=True, tag="command"):
    """Down: run `op` (the name of a page tool, or `release`) in Chrome tab `tab`; `args` as the tool's Struct.

    `browser_tabs_list` names the tabs it wants in `tabs`. `release` gives tab `tab` back: debugger off, nothing kept.
    `locate` (`args`: a Locator) tries a locator again; its reply says the ref of what it found.
    """

    id: Count
    op: str
    args: msgspec.Raw
    deadline_ms: Count
    tab: int | None = None
    tabs: tuple[int, ...] = ()


class ExtCancel(ExtFrame, frozen=True, tag="cancel"):
    """Down: nobody waits for `id` any more; stop waiting loops of it."""

    id: Count


class InputKind(StrEnum):
    TRUSTED = "trusted"
    SYNTHETIC = "synthetic"


class TabInfo(ExtPart, frozen=True):
    """One Chrome tab."""

    tab: int
    url: str
    title: str = ""
    status: str = "complete"  # loading, complete, discarded, crashed


class Rows(ExtPart, frozen=True):
    """A table, list or link list. `total`: rows found; fewer in `rows` when cut."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    total: Count


class LocatorBy(StrEnum):
    """What a locator's candidate holds on to, the most durable first."""

    TEST_ID = "test-id"
    ID = "id"
    NAME = "name"
    LABEL = "label"
    TEXT = "text"
    STRUCTURE = "structure"


Selector = Annotated[str, Meta(max_length=L.MAX_SELECTOR_CHARS)]


class LocatorCandidate(ExtPart, frozen=True):
    """One selector that has been tried: `css`, `xpath`, or both for the same element."""

    by: LocatorBy
    css: Selector | None = None
    xpath: Selector | None = None


class LocatorFrame(ExtPart, frozen=True):
    """The child frame a locator is local to: its address without query, its name, how many frames it is in."""

    url: Annotated[str, Meta(max_length=L.MAX_URL_CHARS)]
    name: Annotated[str, Meta(max_length=L.MAX_NAME_CHARS)] = ""
    depth: Annotated[int, Meta(ge=1, le=16)] = 1


class Locator(ExtPart, frozen=True):
    """How to find an element again. Both ways: up when captured, down (`locate`) to be tried again; never to a worker.

    `hosts`: CSS of the open shadow hosts around it, outermost first; `frame`: absent in the main frame.
    """

    candidates: Annotated[tuple[LocatorCandidate, ...], Meta(min_length=1, max_length=L.MAX_CANDIDATES)]
    role: Annotated[str, Meta(max_length=32)]
    name: Annotated[str, Meta(max_length=L.MAX_NAME_CHARS)]
    hosts: Annotated[tuple[Selector, ...], Meta(max_length=L.MAX_SHADOW_HOSTS)] = ()
    frame: LocatorFrame | None = None


class Changes(ExtPart, frozen=True):
    """What an action was seen to change."""

    url: bool = False
    page: bool = False  # the page's structural digest
    focus: bool = False
    value: bool = False
    value_length: int | None = None  # of a non-sensitive field
    checked: bool | None = None
    new_tab: int | None = None
    dialog: str = ""  # alert, confirm, prompt, beforeunload: it was dismissed
    download: bool = False  # the page began one; where it goes is the browser's rule


class PageReply(ExtPart, frozen=True):
    """Result of a command. Everything here but numbers is page data."""

    text: str = ""  # what the worker reads
    rows: Rows | None = None
    image: str = ""  # PNG as base64
    width: Count = 0
    height: Count = 0
    tab: int | None = None
    tabs: tuple[TabInfo, ...] = ()
    url: str = ""
    title: str = ""
    version: Annotated[str, Meta(max_length=64)] = ""  # structural digest of the page
    input: InputKind | None = None
    changes: Changes | None = None
    cursor: str = ""
    locator: Locator | None = None
    settle_us: Count = 0  # of an action: how long its consequences were waited for, microseconds


class PageError(ExtPart, frozen=True):
    """A command failed. `message` is the extension's own sentence: no page text, no typed text."""

    code: ToolErrorCode
    message: Annotated[str, Meta(max_length=300)]
    url: str = ""
    refs_valid: bool = True
    retryable: bool = False
    may_have_effect: bool = False
    next_tool: str = ""


class ExtReply(ExtFrame, frozen=True, tag="reply"):
    """Up: the one answer to a command: `ok` or `error`."""

    id: Count
    ok: PageReply | None = None
    error: PageError | None = None


class ExtEventKind(StrEnum):
    TAB_CLOSED = "tab-closed"
    TAB_REPLACED = "tab-replaced"  # a discarded tab got another id
    NAVIGATED = "navigated"  # main frame committed
    DETACHED = "detached"  # the tab went where no debugger may
    CRASHED = "crashed"
    TAB_OPENED = "tab-opened"  # the page in `tab` opened `new_tab`
    TAB_SHARED = "tab-shared"  # the user offers it in the popup; told again after each connection
    TAB_WITHDRAWN = "tab-withdrawn"  # the user took it back; commands for it are refused from now on


class ExtEvent(ExtFrame, frozen=True, tag="event"):
    """Up: something happened to a tab under control, or came under it or left it by the user's hand."""

    kind: ExtEventKind
    tab: int
    url: str = ""
    new_tab: int | None = None
