"""What a private Chromium may load and open: every document request is paused and judged (design 10).

`Fetch.enable` on the browser's own session pauses the document requests of all pages and frames, those of other
processes and of tabs that were made a moment ago included; sessions of single pages are too late for a tab's first
request (seen with Chromium 156). So typed addresses, links, redirects hop by hop, forms, scripts, refreshes, frames,
objects and popups come by here. Pages that a page opens are closed and load nothing; downloads and permissions
are denied for the whole browser; file choosers do not open; dialogs are answered at once, whether or not the extension
looks at that page at that moment.

    browser --Fetch.requestPaused--> popup's? --> failRequest
                                     else Judge --verdict--> continueRequest | failRequest
    browser --Target.targetCreated with an opener--> closeTarget

Invariants: nothing of the extension's is attached to (that would keep its service worker awake for ever and hide what
sleep breaks), and no page waits for us before it runs; a paused request is settled once; at most MAX_PAUSED verdicts,
MAX_TARGETS pages and popups are kept, past them requests fail and pages are closed. Requests of other kinds than documents
are not seen here.

Pure: events in, effects out. Keeps ids, never a URL.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

MAX_PAUSED: Final = 256  # document requests waiting for a verdict: a page with that many frames is an attack
MAX_TARGETS: Final = 256  # pages at once: far past what a machine holds
_PAGES: Final = [{"type": "page"}]
# A frame of these loads nothing from anywhere; at the top they are no destination.
_LOCAL_SCHEMES: Final = ("about:", "data:", "blob:")


class Denial(Enum):
    """What was denied, for counters and logs."""

    NAVIGATION = "navigation"
    FRAME = "frame"
    POPUP = "popup"
    DOWNLOAD = "download"
    FILE_CHOOSER = "file-chooser"
    DIALOG = "dialog"
    LIMIT = "limit"


@dataclass(frozen=True, slots=True)
class Command:
    """Send this; `session` "" is the browser's own."""

    method: str
    params: dict[str, Any]
    session: str = ""


@dataclass(frozen=True, slots=True)
class Judge:
    """Ask the task's policy and the network's about `url`, then call `verdict` with this request."""

    request: str
    url: str
    top: bool  # the page itself, not a frame in it
    method: str = "GET"


@dataclass(frozen=True, slots=True)
class Denied:
    """Something was denied; for the log."""

    denial: Denial


Effect = Command | Judge | Denied

# Sent to the browser before anything else; its owner waits until every one of them has succeeded.
START: Final = (
    Command("Fetch.enable", {"patterns": [{"urlPattern": "*", "resourceType": "Document"}]}),
    Command("Browser.setDownloadBehavior", {"behavior": "deny", "eventsEnabled": True}),
    Command("Browser.grantPermissions", {"permissions": []}),  # grants these and rejects all others
    Command("Target.setDiscoverTargets", {"discover": True, "filter": _PAGES}),
)


class Guard:
    """The guard of one browser."""

    __slots__ = ("_pages", "_paused", "_popups", "denials")

    def __init__(self) -> None:
        self._pages: set[str] = set()
        self._popups: set[str] = set()
        self._paused: dict[str, bool] = {}  # request: whether it is the page itself
        self.denials: Counter[Denial] = Counter()

    def event(self, method: str, params: Mapping[str, Any], session: str = "") -> list[Effect]:
        """An event of the browser's (`session` "") or of a page's. What is not named here is not ours to handle."""
        match method:
            case "Fetch.requestPaused":
                return self._request(params)
            case "Target.targetCreated":
                return self._created(params)
            case "Target.targetDestroyed":
                target = params.get("targetId")
                self._pages.discard(str(target))
                self._popups.discard(str(target))
                return []
            case "Target.attachedToTarget":
                return self._attached(params)
            case "Browser.downloadWillBegin":
                return self._deny(Denial.DOWNLOAD)
            case "Page.fileChooserOpened":
                return self._deny(Denial.FILE_CHOOSER)
            case "Page.javascriptDialogOpening":
                # Dismissed, but for the one that asks whether to leave: staying would block what the task asked for.
                answer = {"accept": params.get("type") == "beforeunload"}
                return [*self._deny(Denial.DIALOG), Command("Page.handleJavaScriptDialog", answer, session)]
            case _:
                return []

    def verdict(self, request: str, allowed: bool) -> list[Effect]:
        """The policy's word on a paused request. Nothing, if that is not paused (any more)."""
        top = self._paused.pop(request, None)
        if top is None:
            return []
        if allowed:
            return [_continue(request)]
        return [*self._deny(Denial.NAVIGATION if top else Denial.FRAME), _fail(request)]

    def _created(self, params: Mapping[str, Any]) -> list[Effect]:
        info = params.get("targetInfo")
        if not isinstance(info, Mapping) or info.get("type") != "page":
            return []
        target = str(info.get("targetId", ""))
        full = len(self._pages) + len(self._popups) >= MAX_TARGETS
        # Set for what a page opened, `noopener` or not; tabs that the extension or the browser opened have none.
        if not info.get("openerId") and not full:
            self._pages.add(target)
            # A session of its own, so that file choosers can be kept shut and dialogs answered. Not by auto-attach: with that, a click
            # that opens a window is never acknowledged to whoever dispatched it (seen with Chromium 156).
            return [Command("Target.attachToTarget", {"targetId": target, "flatten": True})]
        if not full:
            self._popups.add(target)
        return [
            *self._deny(Denial.LIMIT if full else Denial.POPUP),
            Command("Target.closeTarget", {"targetId": target}),
        ]

    def _attached(self, params: Mapping[str, Any]) -> list[Effect]:
        session, info = params.get("sessionId"), params.get("targetInfo")
        if not isinstance(session, str) or not isinstance(info, Mapping) or info.get("type") != "page":
            return []  # the service worker, while the extension is being paired
        # Enabled before the first document's request has its verdict: a dialog that opens earlier can't be answered.
        return [
            Command("Page.enable", {}, session),
            Command("Page.setInterceptFileChooserDialog", {"enabled": True}, session),
        ]

    def _request(self, params: Mapping[str, Any]) -> list[Effect]:
        number, request = params.get("requestId"), params.get("request")
        url = request.get("url") if isinstance(request, Mapping) else None
        if not isinstance(number, str):
            return []
        if not isinstance(url, str) or number in self._paused or len(self._paused) >= MAX_PAUSED:
            return [*self._deny(Denial.LIMIT), _fail(number)]
        frame = str(params.get("frameId", ""))  # of a page's main frame: the id of its target
        if frame in self._popups:
            return [_fail(number)]  # counted when it was opened
        top = frame in self._pages
        if not top and url.startswith(_LOCAL_SCHEMES):
            return [_continue(number)]
        self._paused[number] = top
        method = request.get("method") if isinstance(request, Mapping) else None
        # One that can't be read is as good as a form's: the policy refuses what it does not know.
        return [Judge(number, url, top, method if isinstance(method, str) else "?")]

    def _deny(self, denial: Denial) -> list[Effect]:
        self.denials[denial] += 1
        return [Denied(denial)]


def _continue(request: str) -> Command:
    return Command("Fetch.continueRequest", {"requestId": request})


def _fail(request: str) -> Command:
    return Command("Fetch.failRequest", {"requestId": request, "errorReason": "BlockedByClient"})
