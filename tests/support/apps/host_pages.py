"""Pages around widget libraries from the extension's `node_modules`, and Python's own documentation, served from loopback.

Most libraries ship no page: the few lines here are only what their manuals tell a user to write. All data is invented and the same at
every start; dates are fixed, so that a calendar shows the same month for ever.
"""

from __future__ import annotations

import contextlib
import html
import importlib
import json
import mimetypes
import pydoc
import random
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

MODULES: Final = Path(__file__).resolve().parents[3] / "extension" / "node_modules"
_GOVUK: Final = MODULES / "govuk-frontend" / "dist" / "govuk"
# One of each component as its makers show it, in the order of a service's page.
_COMPONENTS: Final = (
    ("skip-link", "default"), ("cookie-banner", "default"), ("header", "default"), ("service-navigation", "default"),
    ("phase-banner", "default"), ("breadcrumbs", "default"), ("back-link", "default"), ("notification-banner", "default"),
    ("error-summary", "default"), ("input", "with hint text"), ("input", "with error message"), ("textarea", "default"),
    ("character-count", "default"), ("password-input", "default"), ("date-input", "default"), ("radios", "with hints on items"),
    ("checkboxes", "with hints on items"), ("select", "default"), ("file-upload", "default"), ("details", "default"),
    ("accordion", "default"), ("tabs", "default"), ("summary-list", "with actions"), ("task-list", "default"),
    ("table", "default"), ("warning-text", "default"), ("inset-text", "default"), ("tag", "default"),
    ("pagination", "default"), ("exit-this-page", "default"), ("button", "default"), ("footer", "with meta"),
)  # fmt: skip


def _govuk() -> str:
    parts = []
    for component, name in _COMPONENTS:
        fixtures = json.loads((_GOVUK / "components" / component / "fixtures.json").read_text())["fixtures"]
        chosen = next((f for f in fixtures if f["name"] == name), fixtures[0])
        parts.append(chosen["html"])
    start = "document.body.className += ' js-enabled govuk-frontend-supported'"
    return _page(
        "Register a boat",
        f"<script>{start}</script>{''.join(parts)}<script type=module>"
        "import { initAll } from '/npm/govuk-frontend/dist/govuk/govuk-frontend.min.js'; initAll();</script>",
        styles=["govuk-frontend/dist/govuk/govuk-frontend.min.css"],
        body='class="govuk-template__body"',
    )


_OPERATION: Final = {
    "parameters": [
        {
            "name": "limit",
            "in": "query",
            "schema": {"type": "integer", "default": 20},
            "description": "How many",
        },
        {"name": "state", "in": "query", "schema": {"type": "string", "enum": ["open", "closed"]}},
    ],
    "responses": {"200": {"description": "What was asked for"}, "404": {"description": "No such thing"}},
}


def _swagger() -> str:
    paths = {
        f"/{thing}": {
            method: {
                "tags": [thing],
                "summary": f"{word} {thing}",
                "operationId": f"{method}{thing}",
                **_OPERATION,
            }
            for method, word in (("get", "List"), ("post", "Create"), ("delete", "Remove"))
        }
        for thing in ("harbours", "boats", "tides", "pilots")
    }
    spec = {"openapi": "3.0.3", "info": {"title": "Harbour", "version": "1.4"}, "paths": paths}
    spec["components"] = {"securitySchemes": {"key": {"type": "apiKey", "name": "X-Key", "in": "header"}}}
    return _page(
        "Harbour API",
        f"<div id=ui></div><script>SwaggerUIBundle({{spec: {json.dumps(spec)}, dom_id: '#ui'}})</script>",
        styles=["swagger-ui-dist/swagger-ui.css"],
        scripts=["swagger-ui-dist/swagger-ui-bundle.js"],
    )


def _jstree() -> str:
    tree = [
        {
            "text": f"Region {region}",
            "state": {"opened": region < 3, "selected": region == 1},
            "children": [
                {"text": f"Port {region}.{port}", "state": {"disabled": port == 4}} for port in range(1, 6)
            ],
        }
        for region in range(1, 9)
    ]
    options = {"core": {"data": tree, "animation": 0}, "plugins": ["checkbox", "search"]}
    return _page(
        "Ports",
        "<h1>Ports</h1><form><label>Find a port <input id=q type=search></label></form><div id=tree></div><script>"
        f"$('#tree').jstree({json.dumps(options)}); $('#q').on('input', e => $('#tree').jstree(true).search(e.target.value))"
        "</script>",
        styles=["jstree/dist/themes/default/style.min.css"],
        scripts=["jquery/dist/jquery.min.js", "jstree/dist/jstree.min.js"],
    )


def _calendar() -> str:
    events = [
        {
            "title": f"Visit {day}",
            "start": f"2031-05-{day:02d}T09:30:00",
            "end": f"2031-05-{day:02d}T11:00:00",
        }
        for day in range(2, 30, 3)
    ]
    options = {
        "initialDate": "2031-05-14",
        "headerToolbar": {
            "left": "prev,next today",
            "center": "title",
            "right": "dayGridMonth,timeGridWeek,listWeek",
        },
        "navLinks": True,
        "editable": True,
        "events": events,
    }
    return _page(
        "Visits",
        "<div id=cal></div><script>new FullCalendar.Calendar(document.getElementById('cal'), "
        f"{json.dumps(options)}).render()</script>",
        scripts=["fullcalendar/index.global.min.js"],
    )


def _datatable() -> str:
    chance = random.Random(57)
    rows = "".join(
        f"<tr><td>Keeper {number:02d}</td><td>{chance.choice(['Pilot', 'Cook', 'Clerk'])}</td>"
        f"<td>{chance.randrange(20, 66)}</td><td>20{chance.randrange(10, 26)}-03-{number % 28 + 1:02d}</td></tr>"
        for number in range(57)
    )
    head = "".join(f"<th>{name}</th>" for name in ("Name", "Position", "Age", "Start date"))
    return _page(
        "Keepers",
        f"<h1>Keepers</h1><table id=t class=display><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
        "<script>new DataTable('#t')</script>",
        styles=["datatables.net-dt/css/dataTables.dataTables.min.css"],
        scripts=[
            "jquery/dist/jquery.min.js",
            "datatables.net/js/dataTables.min.js",
            "datatables.net-dt/js/dataTables.dataTables.min.js",
        ],
    )


def _select2() -> str:
    options = "".join(f"<option>Harbour {number}</option>" for number in range(1, 40))
    return _page(
        "Booking",
        f"""<h1>Booking</h1><form><p><label for=one>Harbour</label> <select id=one style="width:20em">{options}</select></p>
        <p><label for=many>Further stops</label> <select id=many multiple style="width:20em">{options}</select></p>
        <p><label>Boat's name <input name=boat required></label></p>
        <p><label><input type=checkbox name=night> Stay overnight</label></p><button>Book</button></form>
        <script>$('#one').select2(); $('#many').val(['Harbour 3', 'Harbour 7']); $('#many').select2()</script>""",
        styles=["select2/dist/css/select2.min.css"],
        scripts=["jquery/dist/jquery.min.js", "select2/dist/js/select2.min.js"],
    )


def _page(
    title: str,
    content: str,
    *,
    styles: list[str] | None = None,
    scripts: list[str] | None = None,
    body: str = "",
) -> str:
    head = [f"<link rel=stylesheet href='/npm/{path}'>" for path in styles or []]
    head += [f"<script src='/npm/{path}'></script>" for path in scripts or []]
    return (
        f"<!doctype html><html lang=en><head><meta charset=utf-8><title>{html.escape(title)}</title>"
        f"{''.join(head)}</head><body {body}>{content}</body></html>"
    )


def _python_docs() -> str:
    maker = pydoc.HTMLDoc()
    return maker.page("argparse", maker.document(importlib.import_module("argparse"), "argparse"))


# Path: how to make it, and the packages in `node_modules` it needs.
PAGES: Final = {
    "/govuk": (_govuk, ("govuk-frontend",)),
    "/swagger": (_swagger, ("swagger-ui-dist",)),
    "/jstree": (_jstree, ("jquery", "jstree")),
    "/calendar": (_calendar, ("fullcalendar",)),
    "/datatable": (_datatable, ("jquery", "datatables.net", "datatables.net-dt")),
    "/select2": (_select2, ("jquery", "select2")),
    "/pydoc": (_python_docs, ()),
    "/npm/jquery-ui-dist/index.html": (None, ("jquery-ui-dist",)),
}


def missing_packages(path: str) -> list[str]:
    """The packages of a page that are not installed."""
    return [package for package in PAGES[path][1] if not (MODULES / package / "package.json").is_file()]


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        make = PAGES.get(path, (None, ()))[0]
        if make is not None:
            self._answer(make().encode(), "text/html; charset=utf-8")
            return
        prefix, _, rest = path.removeprefix("/").partition("/")
        file = (MODULES / rest).resolve()
        if prefix == "npm" and file.is_file() and file.is_relative_to(MODULES):
            self._answer(file.read_bytes(), mimetypes.guess_type(file.name)[0] or "application/octet-stream")
        else:
            self._answer(b"", "text/plain", 404)

    def _answer(self, body: bytes, kind: str, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass  # pytest's output is no access log


@contextlib.contextmanager
def host_pages() -> Iterator[str]:
    """Serve them; yields the address without a slash."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
