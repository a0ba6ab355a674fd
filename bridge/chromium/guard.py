"""What a private Chromium may load and open: every document request is paused and judged (design 10).

The browser is told to attach our pipe to every page before it runs anything, and below each page to every frame that
has a process of its own. In each of those sessions document requests stop (`Fetch.requestPaused`) until a verdict is
there: typed addresses, links, redirects hop by hop, forms, scripts, frames, popups. Pages that a page opens are
closed unseen; downloads and permissions are denied for the whole browser; file choosers do not open.

    browser --attached--> [popup?] --close target
                             |no
                          commands of a session, then it may run
    session --requestPaused--> Judge --verdict--> continueRequest | failRequest

Invariants: a target runs only after the commands that guard it were sent; the extension's service worker is never
attached to (that would keep it awake for ever and hide what sleep breaks); a paused request is settled once; at
most MAX_SESSIONS sessions and MAX_PAUSED verdicts are kept, past them requests fail and frames stay unborn.
Requests of other kinds than documents are not seen here.

Pure: events in, effects out. Keeps ids, never a URL.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

MAX_SESSIONS: Final = 512  # pages and frames with a process each: far past what a machine holds
MAX_PAUSED: Final = 256  # document requests waiting for a verdict
_PAGE_TYPES: Final = [{"type": "page"}]
_FRAME_TYPES: Final = [{"type": "iframe"}]
# A frame of these loads nothing from anywhere; at the top they are no destination.
_LOCAL_SCHEMES: Final = ("about:", "data:", "blob:")


class Denial(Enum):
    """What was denied, for counters and logs."""

    NAVIGATION = "navigation"
    FRAME = "frame"
    POPUP = "popup"
    DOWNLOAD = "download"
    FILE_CHOOSER = "file-chooser"
    LIMIT = "limit"


@dataclass(frozen=True, slots=True)
class Command:
    """Send this. `close_on_error`: a target to close if Chromium refuses it ("" : none)."""

    method: str
    params: dict[str, Any]
    session: str = ""
    close_on_error: str = ""


@dataclass(frozen=True, slots=True)
class Judge:
    """Ask the network policy about `url`, then call `verdict` with this request."""

    session: str
    request: str
    url: str
    top: bool  # the page itself, not a frame in it


@dataclass(frozen=True, slots=True)
class Denied:
    """Something was denied; for the log."""

    denial: Denial


Effect = Command | Judge | Denied

# Sent to the browser first. Without the first two nothing is guarded, so the owner waits for their success.
START: Final = (
    Command("Browser.setDownloadBehavior", {"behavior": "deny", "eventsEnabled": True}),
    Command("Browser.grantPermissions", {"permissions": []}),  # grants these and rejects all others
    Command(
        "Target.setAutoAttach",
        {"autoAttach": True, "waitForDebuggerOnStart": True, "flatten": True, "filter": _PAGE_TYPES},
    ),
)


@dataclass(frozen=True, slots=True)
class _Session:
    target: str
    page: bool


class Guard:
    """The guard of one browser."""

    __slots__ = ("_paused", "_sessions", "denials")

    def __init__(self) -> None:
        self._sessions: dict[str, _Session] = {}
        self._paused: dict[tuple[str, str], bool] = {}  # (session, request): whether it is the page itself
        self.denials: Counter[Denial] = Counter()

    def event(self, method: str, params: Mapping[str, Any], session: str) -> list[Effect]:
        """An event of the browser's. What is not named here is not ours to handle."""
        if method == "Target.attachedToTarget":
            return self._attached(params)
        if method == "Target.detachedFromTarget":
            return self._detached(str(params.get("sessionId", "")))
        if method == "Fetch.requestPaused":
            return self._request(params, session)
        if method == "Browser.downloadWillBegin":
            return self._deny(Denial.DOWNLOAD)
        if method == "Page.fileChooserOpened":
            return self._deny(Denial.FILE_CHOOSER)
        return []

    def verdict(self, session: str, request: str, allowed: bool) -> list[Effect]:
        """The policy's word on a paused request. Nothing, if its session has ended meanwhile."""
        top = self._paused.pop((session, request), None)
        if top is None:
            return []
        if allowed:
            return [Command("Fetch.continueRequest", {"requestId": request}, session)]
        return [*self._deny(Denial.NAVIGATION if top else Denial.FRAME), _fail(session, request)]

    def _attached(self, params: Mapping[str, Any]) -> list[Effect]:
        session = str(params.get("sessionId", ""))
        info = params.get("targetInfo")
        if not session or not isinstance(info, Mapping) or info.get("type") not in ("page", "iframe"):
            return []  # the service worker, while the extension is being paired
        target, page = str(info.get("targetId", "")), info.get("type") == "page"
        # Set for what a page opened, `noopener` or not; tabs that the extension or the browser opened have none.
        if page and info.get("openerId"):
            return [*self._deny(Denial.POPUP), Command("Target.closeTarget", {"targetId": target})]
        if len(self._sessions) >= MAX_SESSIONS:
            return self._deny(Denial.LIMIT)  # never resumed, so it never loads anything
        self._sessions[session] = _Session(target, page)
        guarding = Command(
            "Fetch.enable", {"patterns": [{"urlPattern": "*", "resourceType": "Document"}]}, session, target
        )
        below = Command(
            "Target.setAutoAttach",
            {"autoAttach": True, "waitForDebuggerOnStart": True, "flatten": True, "filter": _FRAME_TYPES},
            session,
            target,
        )
        chooser = Command("Page.setInterceptFileChooserDialog", {"enabled": True}, session)
        return [
            guarding,
            below,
            *([chooser] if page else []),
            Command("Runtime.runIfWaitingForDebugger", {}, session),
        ]

    def _detached(self, session: str) -> list[Effect]:
        self._sessions.pop(session, None)
        for key in [key for key in self._paused if key[0] == session]:
            del self._paused[key]
        return []

    def _request(self, params: Mapping[str, Any], session: str) -> list[Effect]:
        known = self._sessions.get(session)
        request_id = str(params.get("requestId", ""))
        request = params.get("request")
        url = request.get("url") if isinstance(request, Mapping) else None
        if known is None:
            return []  # its end crossed the event
        if not isinstance(url, str) or len(self._paused) >= MAX_PAUSED:
            return [*self._deny(Denial.LIMIT), _fail(session, request_id)]
        # The main frame of a page has the id of its target.
        top = known.page and params.get("frameId") == known.target
        if not top and url.startswith(_LOCAL_SCHEMES):
            return [Command("Fetch.continueRequest", {"requestId": request_id}, session)]
        self._paused[(session, request_id)] = top
        return [Judge(session, request_id, url, top)]

    def _deny(self, denial: Denial) -> list[Effect]:
        self.denials[denial] += 1
        return [Denied(denial)]


def _fail(session: str, request: str) -> Command:
    return Command("Fetch.failRequest", {"requestId": request, "errorReason": "BlockedByClient"}, session)
