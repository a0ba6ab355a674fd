"""Every bound of the product, with its unit and its reason. Nothing here can be raised by a request.

Pure: constants only. Configuration may lower or, where its own schema says so, raise some of them;
the frames and the tool schemas use these as ceilings.
"""

from __future__ import annotations

from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB

# --- protocol versions -------------------------------------------------------------------------------
WIRE_VERSION: Final = 1  # first byte of every msgpack frame; a peer with another one is refused
EXTENSION_PROTOCOL: Final = 1  # integer in the extension's hello; bound into the handshake transcript

# --- frames (bytes) ----------------------------------------------------------------------------------
MAX_TO_SUPERVISOR: Final = 64 * KIB  # design 2, rule 3
MAX_ASSIGNMENT: Final = 64 * KIB  # goal, constraints, playbook, variables together (design 2, rule 1)
MAX_FROM_SUPERVISOR: Final = MAX_ASSIGNMENT + 8 * KIB  # an assignment and its envelope
MAX_WORKER_TO_BRIDGE: Final = 128 * KIB  # a tool call (typed text included) or the final claim
MAX_BRIDGE_TO_WORKER: Final = 256 * KIB  # 24,000 characters of four UTF-8 bytes, escaped, and an assignment
MAX_WORKER_TO_MODEL: Final = 512 * KIB  # one surface: goal, ledger and one step's page data
MAX_MODEL_TO_WORKER: Final = 128 * KIB  # the tool calls of one inference
MAX_HOST_FRAME: Final = 256 * KIB  # a delegation with its playbook as JSON; results are far smaller
MAX_EXTENSION_FRAME: Final = 32 * MIB  # a 16 MiB screenshot as base64 (21.4 MiB) and its envelope
MAX_HANDSHAKE_FRAME: Final = 4 * KIB  # before authentication nobody may send more
PAGE_CREDIT: Final = 256 * KIB  # unread bytes a worker may have under way towards the bridge
MODEL_CREDIT: Final = MIB  # the same towards the model bridge: two surfaces

# --- delegation (design 3) ---------------------------------------------------------------------------
MAX_GOAL_CHARS: Final = 4_000
MAX_IDEMPOTENCY_KEY: Final = 64  # characters (design 3)
MAX_CONSTRAINTS: Final = 20
MAX_CONSTRAINT_CHARS: Final = 500
MAX_DELIVERABLES: Final = 10
MAX_PURPOSE_CHARS: Final = 64
MAX_PATH_CHARS: Final = 512
MAX_URL_CHARS: Final = 4_096
MAX_PLAYBOOK_BYTES: Final = 64 * KIB
MAX_VARIABLES: Final = 64
MAX_VARIABLE_CHARS: Final = 4_000

# --- typed answers and policy (design 3 and 7) ---------------------------------------------------------
MAX_ANSWER_FIELDS: Final = 32
MAX_ANSWER_SCHEMA: Final = (
    8 * KIB
)  # bytes of the schema's JSON; with goal and playbook it has to fit the assignment
MAX_ANSWER_CHARS: Final = 4_000  # of all free texts of one answer together, as many as a summary
MAX_ANSWER_ENUM: Final = 64  # values of one enumeration
MAX_ANSWER_ENUM_CHARS: Final = 100
MAX_ANSWER_NOTE_CHARS: Final = 500  # a title or description
MAX_ORIGINS: Final = 32
MAX_ORIGIN_CHARS: Final = 300  # scheme, the longest name of DNS, port

# --- result (design 4) -------------------------------------------------------------------------------
MAX_RESULT_BYTES: Final = 16 * KIB
MAX_SUMMARY_CHARS: Final = 4_000
MAX_ACTIONS: Final = 32
MAX_ACTION_CHARS: Final = 200
MAX_QUESTION_CHARS: Final = 1_000
MAX_UNMET: Final = 10
MAX_CLAIMS: Final = 20

# --- worker tools (design 5) -------------------------------------------------------------------------
MAX_ELEMENTS: Final = 200
MAX_OBSERVE_CHARS: Final = 24_000
MAX_EXTRACT_CHARS: Final = 24_000
MAX_EXTRACT_ROWS: Final = 5_000  # rows of one list or table that go into an artifact
MAX_FIND_HITS: Final = 50
MAX_NAME_CHARS: Final = 200  # an accessible name as a worker sees it; longer ones are cut
MAX_TYPED_CHARS: Final = 10_000
MAX_QUERY_CHARS: Final = 200
MAX_KEY_TIMES: Final = 100  # from one end of a usual slider to the other
MAX_SELECT_VALUES: Final = 50
MAX_FIELDS: Final = 32
MAX_SCREENSHOT_PIXELS: Final = 16_000_000
MAX_SCREENSHOT_BYTES: Final = 16 * MIB
MAX_SHARED_TABS: Final = 50  # of the user's, offered at once: more than a person shares one by one
MAX_TABS_PER_TASK: Final = 10
MAX_SELECTOR_CHARS: Final = 1_000  # CSS or XPath of one locator candidate; a longer one helps nobody
MAX_CANDIDATES: Final = 8  # of one locator
MAX_SHADOW_HOSTS: Final = 8  # around a located element
MAX_LOCATORS_PER_TASK: Final = 100  # more than its tool calls; the oldest is forgotten
NAVIGATION_MS: Final = 30_000
ACTION_MS: Final = 10_000
MAX_WAIT_MS: Final = 30_000

# --- budgets (design 8) ------------------------------------------------------------------------------
MAX_STEPS: Final = 32
MAX_TOOL_CALLS: Final = 40
MAX_REPEATED_ERROR: Final = 3
MAX_WITHOUT_PROGRESS: Final = 8
MAX_SECONDS: Final = 180
SOFT_TOKENS: Final = 96_000
HARD_TOKENS: Final = 128_000
MAX_LEDGER: Final = 40  # one entry a tool call
MAX_TOOL_CALLS_PER_STEP: Final = 16  # parallel tool calls of one inference

# --- artifacts (design 11) ---------------------------------------------------------------------------
ARTIFACT_QUOTA: Final = 256 * MIB
ARTIFACT_TASK_QUOTA: Final = 64 * MIB
ARTIFACT_TTL_SECONDS: Final = 24 * 3600

# --- liveness and handshakes (milliseconds) -----------------------------------------------------------
LINK_HANDSHAKE_MS: Final = 2_000  # a ZeroMQ peer that connects and says nothing
EXTENSION_HANDSHAKE_MS: Final = 5_000  # design 9
EXTENSION_HEARTBEAT_MS: Final = 20_000  # under the 30 s after which Chrome stops an idle service worker
PING_MS: Final = 2_000  # application-level ping of workers and bridges
PING_MISSES: Final = 3
MAX_UNAUTHENTICATED: Final = 8  # connections in handshake; the oldest gives way
MIN_TOKEN_CHARS: Final = 16
DEFAULT_PORT: Final = 17_321
