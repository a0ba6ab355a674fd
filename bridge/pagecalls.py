"""From a worker's tool call to a page command, and from the browser's reply to what the worker reads.

    prepare: name and JSON arguments -> Command (for the browser) | Local (answered here) | Refusal
    present: the reply, once its URL is known to be allowed -> text, bounded
    to_keep: what of the reply becomes an artifact

Invariants: a worker's tab names are translated here and nowhere else, a tab that is not the task's is refused before
anything is sent; content is at most `limits.MAX_OBSERVE_CHARS` characters plus a few lines of the bridge's own; a
refusal's text names fields and bounds and never repeats page data; what becomes a screenshot is a whole PNG within its
limits, whoever sent it.

Pure: takes and returns data; `TaskTabs` is the one thing it changes.
"""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from ..protocol import limits as L
from ..protocol.errors import ToolErrorCode
from ..protocol.frames import Changes, Locator, PageReply
from ..protocol.results import ArtifactKind
from ..protocol.tools import (
    WORKER_TOOLS,
    Args,
    ArtifactFormat,
    ExtractArgs,
    ExtractKind,
    LocatorArgs,
    NavigateArgs,
    ScreenshotArgs,
    StatusArgs,
    TabsActivateArgs,
    TabsCloseArgs,
    TabsListArgs,
    TabsOpenArgs,
    WaitArgs,
    decode_args,
)
from . import locators
from .leases import Lease, TaskTabs
from .render import (
    MEDIA_TYPES,
    PNG,
    article_parts,
    preview_rows,
    preview_text,
    render_article,
    render_rows,
    render_text,
)

OPEN_TOOL: Final = "browser_tabs_open"
LIST_TOOL: Final = "browser_tabs_list"
CLOSE_TOOL: Final = "browser_tabs_close"
LOCATE_OP: Final = "locate"  # the extension's word for finding a kept locator's element
_WAIT_SLACK_MS: Final = 2_000  # over a wait's own ceiling, for the answer to travel
_MAX_REASON_CHARS: Final = 300
_PNG_HEAD: Final = struct.Struct(">8sI4sII")  # signature, chunk length, "IHDR", width, height
_PNG_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
_PNG_END: Final = b"\x00\x00\x00\x00IEND\xaeB`\x82"
_KINDS: Final = {
    ExtractKind.TEXT: ArtifactKind.TEXT,
    ExtractKind.LIST: ArtifactKind.LIST,
    ExtractKind.TABLE: ArtifactKind.TABLE,
    ExtractKind.LINKS: ArtifactKind.LINKS,
    ExtractKind.ARTICLE: ArtifactKind.ARTICLE,
}


@dataclass(frozen=True, slots=True)
class Command:
    """For the browser: `op` with JSON `args` in the tab of `lease` (None: none yet). `url` has to be allowed first."""

    op: str
    args: Args
    json: bytes
    deadline_ms: int
    lease: Lease | None = None
    tabs: tuple[int, ...] = ()
    url: str = ""


@dataclass(frozen=True, slots=True)
class Local:
    """Answered by the bridge itself."""

    text: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """The call fails without having reached a page."""

    code: ToolErrorCode
    message: str
    next_tool: str = ""
    retryable: bool = False


@dataclass(frozen=True, slots=True)
class Keep:
    """Bytes that become an artifact. `about`: one line of the bridge's own; `preview`: page data."""

    kind: ArtifactKind
    media_type: str
    data: bytes
    about: str
    preview: str = ""


def prepare(
    name: str,
    raw: bytes,
    tabs: TaskTabs,
    *,
    calls_left: int,
    browser: str,
    kept: locators.Locators | None = None,
) -> Command | Local | Refusal:
    """Judge one call. `name` is in the catalogue; `calls_left`: after this one; `browser`: chrome or private; `kept`:
    the task's locators."""
    tool = WORKER_TOOLS[name]
    try:
        args = decode_args(tool, raw)
    except msgspec.ValidationError as error:
        return Refusal(ToolErrorCode.INVALID_ARGUMENTS, str(error)[:_MAX_REASON_CHARS])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return Refusal(ToolErrorCode.INVALID_ARGUMENTS, "the arguments are not one JSON object")
    match args:
        case StatusArgs():
            return Local(_status(tabs, calls_left, browser))
        case TabsListArgs():
            tabs.take_offered()
            chrome = tuple(lease.chrome for lease in tabs.all())
            return (
                Command(name, args, b"{}", tool.deadline_ms, tabs=chrome)
                if chrome
                else Local("No tab is open.")
            )
        case TabsOpenArgs():
            return _open(args, tabs)
        case TabsActivateArgs():
            return _activate(args, tabs)
        case LocatorArgs(locator=str() as locator):
            return _locate(args, kept.get(locator) if kept is not None else None, tabs, tool.deadline_ms)
        case NavigateArgs(url=str() as url) if args.tab is None and tabs.active is None:
            return _open(TabsOpenArgs(url), tabs)
        case _:
            return _in_tab(name, args, tabs, tool.deadline_ms)


def _in_tab(name: str, args: Args, tabs: TaskTabs, deadline_ms: int) -> Command | Refusal:
    wanted: str | None = getattr(args, "tab", None)
    lease = tabs.active if wanted is None else tabs.get(wanted)
    if lease is None:
        if wanted is not None:
            return _not_leased(tabs, wanted)
        return Refusal(ToolErrorCode.NO_TAB, "No tab is open; open one first.", OPEN_TOOL, retryable=True)
    if isinstance(args, TabsCloseArgs) and not lease.opened:
        return Refusal(ToolErrorCode.POLICY_DENIED, "This tab is the user's own; it stays open.", LIST_TOOL)
    if isinstance(args, TabsCloseArgs):
        return Command(name, args, b"{}", deadline_ms, lease)
    if isinstance(args, WaitArgs):
        deadline_ms = args.timeout_ms + _WAIT_SLACK_MS
    url = args.url or "" if isinstance(args, NavigateArgs) else ""
    return Command(
        name, args, msgspec.json.encode(msgspec.structs.replace(args, tab=None)), deadline_ms, lease, url=url
    )


def _locate(
    args: LocatorArgs, locator: Locator | None, tabs: TaskTabs, deadline_ms: int
) -> Command | Refusal:
    if locator is None:
        return Refusal(
            ToolErrorCode.NOT_FOUND, "This task has no locator of that id.", "browser_page_locator"
        )
    command = _in_tab(LOCATE_OP, args, tabs, deadline_ms)
    return command if isinstance(command, Refusal) else replace(command, json=msgspec.json.encode(locator))


def _open(args: TabsOpenArgs, tabs: TaskTabs) -> Command | Refusal:
    if tabs.full:
        return Refusal(
            ToolErrorCode.QUOTA_EXCEEDED,
            f"This task has {L.MAX_TABS_PER_TASK} tabs already; close one first.",
            CLOSE_TOOL,
            retryable=True,
        )
    deadline = WORKER_TOOLS[OPEN_TOOL].deadline_ms
    return Command(OPEN_TOOL, args, msgspec.json.encode(args), deadline, url=args.url)


def _activate(args: TabsActivateArgs, tabs: TaskTabs) -> Local | Refusal:
    lease = tabs.get(args.tab)
    if lease is None:
        return _not_leased(tabs, args.tab)
    tabs.activate(lease.name)
    return Local(f"{lease.name} is the active tab now.")


def _not_leased(tabs: TaskTabs, name: str) -> Refusal:
    if tabs.withdrawn(name):
        return Refusal(ToolErrorCode.TAB_NOT_SHARED, "The user took this tab back.", LIST_TOOL)
    return Refusal(ToolErrorCode.TAB_NOT_LEASED, "This task has no tab of that name.", LIST_TOOL)


def _status(tabs: TaskTabs, calls_left: int, browser: str) -> str:
    active = tabs.active
    return msgspec.json.encode(
        {
            "browser": browser,
            "calls_left": calls_left,
            "tabs": [lease.name for lease in tabs.all()],
            "active_tab": active.name if active is not None else None,
        }
    ).decode()


def settle_tabs(command: Command, reply: PageReply, tabs: TaskTabs) -> str:
    """Bring the leases up to date after a command that succeeded; a line for the worker if something changed."""
    if command.op == OPEN_TOOL:
        lease = None if reply.tab is None else tabs.add(reply.tab, opened=True, activate=True)
        return f"Tab {lease.name} is open and active." if lease is not None else ""
    if command.op == CLOSE_TOOL and command.lease is not None:
        tabs.remove(command.lease.name)
        active = tabs.active
        return f"Tab {command.lease.name} is closed; active tab: {active.name if active is not None else 'none'}."
    new_tab = reply.changes.new_tab if reply.changes is not None else None
    if new_tab is not None:
        lease = tabs.add(new_tab, opened=True, activate=False)
        return (
            f"A new tab opened: {lease.name}."
            if lease is not None
            else "A new tab opened that is not this task's."
        )
    return ""


def present(command: Command, reply: PageReply, tab_line: str) -> str:
    """What the worker reads of a reply whose URL is allowed."""
    lines: list[str] = []
    moved = reply.changes is not None and reply.changes.url
    if moved or command.op in (OPEN_TOOL, "browser_page_navigate"):
        lines += [line for line in (reply.title[: L.MAX_NAME_CHARS], reply.url[: L.MAX_URL_CHARS]) if line]
    if tab_line:
        lines.append(tab_line)
    changes = _describe(reply.changes)
    if changes:
        lines.append(changes)
    text = reply.text or (preview_rows(reply.rows, L.MAX_EXTRACT_CHARS) if reply.rows is not None else "")
    if text:
        lines.append(text)
    return "\n".join(lines)[: L.MAX_OBSERVE_CHARS]


def present_tabs(reply: PageReply, tabs: TaskTabs, denied: Iterable[str]) -> str:
    """The leased tabs, one a line; those whose URL is in `denied` without URL and title."""
    hidden = frozenset(denied)
    lines: list[str] = []
    for info in reply.tabs:
        lease = tabs.by_chrome(info.tab)
        if lease is None:
            continue
        mark = (" (active)" if lease == tabs.active else "") + (
            "" if lease.opened else " (shared by the user)"
        )
        if info.url in hidden:
            lines.append(f"{lease.name}{mark}: its page is not allowed by the network policy")
        else:
            lines.append(
                f"{lease.name}{mark}: {info.status} {info.title[: L.MAX_NAME_CHARS]!r} {info.url[: L.MAX_URL_CHARS]}"
            )
    return ("\n".join(lines) or "No tab is open.")[: L.MAX_OBSERVE_CHARS]


def _describe(changes: Changes | None) -> str:
    if changes is None:
        return ""
    said = [
        word
        for word, on in (
            ("the URL", changes.url),
            ("the page", changes.page),
            ("the focus", changes.focus),
            ("the field's value", changes.value),
        )
        if on
    ]
    parts = [f"Changed: {', '.join(said)}." if said else "No change was seen."]
    if changes.checked is not None:
        parts.append(f"It is now {'checked' if changes.checked else 'not checked'}.")
    if changes.dialog:
        parts.append("A dialog of the page was dismissed.")
    if changes.value_length is not None and changes.value:
        parts.append(f"The field now holds {changes.value_length:,} characters.")
    if changes.download:
        parts.append("The page began a download, which this task does not get.")
    return " ".join(parts)


def keeps(command: Command) -> bool:
    """Whether `to_keep` has anything to do: it may take tens of milliseconds and is run in a thread."""
    args = command.args
    return (
        isinstance(args, ScreenshotArgs)
        or (isinstance(args, ExtractArgs) and args.to_artifact is not None)
        or (isinstance(args, LocatorArgs) and args.locator is None)
    )


def to_keep(command: Command, reply: PageReply) -> Keep | Refusal | None:
    """What becomes an artifact, None if nothing does, a Refusal if it can't be kept."""
    args = command.args
    if isinstance(args, ScreenshotArgs):
        return _picture(reply.image)
    if isinstance(args, ExtractArgs) and args.to_artifact is not None:
        return _rows(args.kind, args.to_artifact, reply)
    if isinstance(args, LocatorArgs) and args.locator is None:
        return _locator(reply)
    return None


def _rows(kind: ExtractKind, form: ArtifactFormat, reply: PageReply) -> Keep:
    if kind is ExtractKind.TEXT:
        text = "\n".join(row[0] for row in reply.rows.rows if row) if reply.rows is not None else reply.text
        about = f"{kind.value} as {form.value}, {len(text):,} characters"
        return Keep(_KINDS[kind], MEDIA_TYPES[form], render_text(text, form), about, preview_text(text))
    if reply.rows is None:
        return Keep(
            _KINDS[kind], MEDIA_TYPES[form], render_text(reply.text, form), f"{kind.value} as {form.value}"
        )
    rows = reply.rows
    if kind is ExtractKind.ARTICLE:
        facts, text = article_parts(rows)
        about = f"{kind.value} as {form.value}, {len(text):,} characters"
        preview = preview_text(f"{facts.get('title', '')}\n{text}")
        return Keep(_KINDS[kind], MEDIA_TYPES[form], render_article(rows, form), about, preview)
    about = f"{kind.value} as {form.value}, {len(rows.rows):,} of {rows.total:,} rows"
    return Keep(_KINDS[kind], MEDIA_TYPES[form], render_rows(rows, form), about, preview_rows(rows))


def _locator(reply: PageReply) -> Keep | Refusal:
    if reply.locator is None:
        return Refusal(ToolErrorCode.INTERNAL, "The browser sent no locator.", retryable=True)
    data = locators.render(reply.locator, reply.url)
    return Keep(ArtifactKind.LOCATOR, locators.MEDIA_TYPE, data, locators.describe(reply.locator))


def _picture(image: str) -> Keep | Refusal:
    if len(image) * 3 // 4 > L.MAX_SCREENSHOT_BYTES:
        return Refusal(
            ToolErrorCode.TOO_LARGE, f"The picture has more than {L.MAX_SCREENSHOT_BYTES:,} bytes."
        )
    try:
        data = base64.b64decode(image, validate=True)
        signature, _, chunk, width, height = _PNG_HEAD.unpack_from(data)
    except (binascii.Error, ValueError, struct.error):
        return Refusal(ToolErrorCode.INTERNAL, "The browser sent no picture.", retryable=True)
    if signature != _PNG_SIGNATURE or chunk != b"IHDR" or not data.endswith(_PNG_END):
        return Refusal(ToolErrorCode.INTERNAL, "The browser sent no whole PNG picture.", retryable=True)
    if not 0 < width * height <= L.MAX_SCREENSHOT_PIXELS:
        return Refusal(
            ToolErrorCode.TOO_LARGE,
            f"The picture would have more than {L.MAX_SCREENSHOT_PIXELS:,} pixels; take the viewport or one element.",
        )
    return Keep(ArtifactKind.SCREENSHOT, PNG, data, f"screenshot, {width} x {height} pixels")


def describe_kept(keep: Keep, artifact: str) -> str:
    """What the worker reads of a kept artifact."""
    head = f"Kept as artifact {artifact}: {keep.about}, {len(keep.data):,} bytes."
    return f"{head}\n\n{keep.preview}" if keep.preview else head


def page_key(reply: PageReply) -> tuple[str, str] | None:
    """What makes a page version: URL without fragment, and the structural digest."""
    return (reply.url.partition("#")[0], reply.version) if reply.url else None
