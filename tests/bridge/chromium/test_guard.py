"""`guard`: every event of the browser's to its effects (design 10); real browsers are `test_private_live`."""

from __future__ import annotations

from typing import Any

import pytest
from browsercell.bridge.chromium.guard import (
    MAX_PAUSED,
    MAX_TARGETS,
    START,
    Command,
    Denial,
    Denied,
    Effect,
    Guard,
    Judge,
)

URL = "http://shop.example/"


def created(target: str, opener: str = "", kind: str = "page") -> dict[str, Any]:
    info = {"targetId": target, "type": kind, "url": "", "title": ""}
    return {"targetInfo": info | ({"openerId": opener} if opener else {})}


def paused(request: object = "r1", frame: str = "page-1", url: object = URL) -> dict[str, Any]:
    return {
        "requestId": request,
        "frameId": frame,
        "resourceType": "Document",
        "request": {"url": url, "method": "GET"},
    }


def guard() -> Guard:
    made = Guard()
    made.event("Target.targetCreated", created("page-1"))
    return made


def proceed(request: str) -> Command:
    return Command("Fetch.continueRequest", {"requestId": request})


def fail(request: str) -> Command:
    return Command("Fetch.failRequest", {"requestId": request, "errorReason": "BlockedByClient"})


def test_documents_are_paused_before_anything_else() -> None:
    assert START[0] == Command(
        "Fetch.enable", {"patterns": [{"urlPattern": "*", "resourceType": "Document"}]}
    )


def test_nothing_is_attached_by_itself() -> None:
    # Auto-attach would take the extension's service worker, and it breaks clicks that open windows.
    assert all(command.method != "Target.setAutoAttach" for command in START)


def test_an_allowed_page_continues() -> None:
    made = guard()
    assert made.event("Fetch.requestPaused", paused()) == [Judge("r1", URL, top=True)]
    assert made.verdict("r1", True) == [proceed("r1")]
    assert made.verdict("r1", True) == []
    assert not made.denials


@pytest.mark.parametrize(("frame", "denial"), [("page-1", Denial.NAVIGATION), ("frame-7", Denial.FRAME)])
def test_a_denied_document_fails(frame: str, denial: Denial) -> None:
    made = guard()
    made.event("Fetch.requestPaused", paused(frame=frame))
    assert made.verdict("r1", False) == [Denied(denial), fail("r1")]
    assert made.denials == {denial: 1}


def test_each_hop_of_a_redirect_is_judged() -> None:
    made = guard()
    made.event("Fetch.requestPaused", paused())
    made.verdict("r1", True)
    hop = paused("r1", url="http://other.example/") | {"redirectedRequestId": "r1"}
    assert made.event("Fetch.requestPaused", hop) == [Judge("r1", "http://other.example/", top=True)]


@pytest.mark.parametrize("url", ["data:text/html,x", "about:srcdoc", "blob:http://shop.example/1"])
def test_local_documents_are_for_frames_only(url: str) -> None:
    made = guard()
    assert made.event("Fetch.requestPaused", paused(frame="frame-7", url=url)) == [proceed("r1")]
    assert made.event("Fetch.requestPaused", paused("r2", url=url)) == [Judge("r2", url, top=True)]


def test_a_page_gets_a_session_for_its_file_choosers_and_dialogs() -> None:
    made = Guard()
    attach = Command("Target.attachToTarget", {"targetId": "page-1", "flatten": True})
    assert made.event("Target.targetCreated", created("page-1")) == [attach]
    attached = created("page-1") | {"sessionId": "s1"}
    assert made.event("Target.attachedToTarget", attached) == [
        Command("Page.enable", {}, "s1"),
        Command("Page.setInterceptFileChooserDialog", {"enabled": True}, "s1"),
    ]
    assert made.event("Page.fileChooserOpened", {}) == [Denied(Denial.FILE_CHOOSER)]


@pytest.mark.parametrize(
    ("kind", "accept"), [("alert", False), ("confirm", False), ("prompt", False), ("beforeunload", True)]
)
def test_a_dialog_is_answered_at_once(kind: str, accept: bool) -> None:
    answer = Command("Page.handleJavaScriptDialog", {"accept": accept}, "s1")
    opening = {"type": kind, "message": "never kept"}
    assert guard().event("Page.javascriptDialogOpening", opening, "s1") == [Denied(Denial.DIALOG), answer]


def test_a_popup_is_closed_and_loads_nothing() -> None:
    made = guard()
    assert made.event("Target.targetCreated", created("popup-1", opener="page-1")) == [
        Denied(Denial.POPUP),
        Command("Target.closeTarget", {"targetId": "popup-1"}),
    ]
    assert made.event("Fetch.requestPaused", paused(frame="popup-1")) == [fail("r1")]
    assert made.denials == {Denial.POPUP: 1}
    made.event("Target.targetDestroyed", {"targetId": "popup-1"})
    assert made.event("Fetch.requestPaused", paused("r2", frame="popup-1")) == [Judge("r2", URL, top=False)]


def test_a_destroyed_page_is_forgotten() -> None:
    made = guard()
    made.event("Target.targetDestroyed", {"targetId": "page-1"})
    assert made.event("Fetch.requestPaused", paused()) == [Judge("r1", URL, top=False)]


def test_downloads_are_counted() -> None:
    assert Guard().event("Browser.downloadWillBegin", {"url": URL}) == [Denied(Denial.DOWNLOAD)]


def test_pages_are_bounded() -> None:
    made = Guard()
    for number in range(MAX_TARGETS):
        made.event("Target.targetCreated", created(f"page-{number}"))
    close = Command("Target.closeTarget", {"targetId": "more"})
    assert made.event("Target.targetCreated", created("more")) == [Denied(Denial.LIMIT), close]
    assert made.event("Target.targetCreated", created("more", opener="page-1")) == [
        Denied(Denial.LIMIT),
        close,
    ]


def test_paused_requests_are_bounded() -> None:
    made = guard()
    for number in range(MAX_PAUSED):
        made.event("Fetch.requestPaused", paused(f"r{number}"))
    assert made.event("Fetch.requestPaused", paused("more")) == [Denied(Denial.LIMIT), fail("more")]


def test_a_request_paused_twice_fails() -> None:
    made = guard()
    made.event("Fetch.requestPaused", paused())
    assert made.event("Fetch.requestPaused", paused()) == [Denied(Denial.LIMIT), fail("r1")]


@pytest.mark.parametrize(
    ("method", "params", "effects"),
    [
        ("Target.targetCreated", {}, []),
        ("Target.targetCreated", created("sw", kind="service_worker"), []),
        ("Target.targetCreated", {"targetInfo": "x"}, []),
        ("Target.attachedToTarget", {}, []),
        ("Target.attachedToTarget", created("sw", kind="service_worker") | {"sessionId": "s"}, []),
        ("Target.attachedToTarget", {"sessionId": "s", "targetInfo": 1}, []),
        ("Target.targetDestroyed", {}, []),
        ("Fetch.requestPaused", {}, []),
        ("Fetch.requestPaused", paused(7), []),
        ("Fetch.requestPaused", paused(url=None), [Denied(Denial.LIMIT), fail("r1")]),
        ("Fetch.requestPaused", {"requestId": "r1", "request": 1}, [Denied(Denial.LIMIT), fail("r1")]),
        ("Network.somethingElse", {"x": 1}, []),
    ],
)
def test_other_shapes_allow_nothing(method: str, params: dict[str, Any], effects: list[Effect]) -> None:
    assert guard().event(method, params) == effects


@pytest.mark.parametrize(("given", "told"), [("POST", "POST"), ("GET", "GET"), (None, "?"), (7, "?")])
def test_how_a_document_is_asked_for_is_judged_too(given: object, told: str) -> None:
    request = paused()
    request["request"]["method"] = given
    assert guard().event("Fetch.requestPaused", request) == [Judge("r1", URL, top=True, method=told)]
