"""The network policy through the whole product: what is not allowed is not loaded, read or handed on.

Two loopback servers stand for two sites: one is allowed by name, the other not. The other one's page holds a secret word
and counts who asked for it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec
import pytest
from browsercell.protocol.client import Client
from browsercell.protocol.errors import BlockerCode
from browsercell.protocol.results import Status
from browsercell.supervisor.demo.server import Bookshop

from tests.support.live import (
    Live,
    Step,
    click,
    done,
    expect,
    navigate,
    observe,
    own_supervisor,
    said,
    tool,
    wanted,
)

ALLOWED, DENIED = "127.0.0.1", "127.0.0.2"
WORD = "velvethammer"  # what the denied site says; must not reach anybody
_DOOR = """<!doctype html><title>Door</title><h1>Door</h1><a href="{other}/inside">Walk in</a>
<form action="{other}/inside"><button>Send</button></form><p>Nothing else here.</p>"""
_FRAMED = """<!doctype html><title>Framed</title><h1>Framed</h1><iframe src="{other}/inside" title="Inside"></iframe>
<p>Below the frame</p>"""


class Site:
    """A server of the test on one loopback address. `asked`: paths that were requested."""

    def __init__(self, address: str) -> None:
        self.asked: list[str] = []
        self.other = ""
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                owner.asked.append(self.path)
                if self.path == "/jump":
                    self.send_response(302)
                    self.send_header("Location", f"{owner.other}/inside")
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                pages = {"/door": _DOOR, "/framed": _FRAMED}
                text = pages.get(self.path, f"<!doctype html><title>{WORD}</title><h1>{WORD}</h1>")
                data = text.format(other=owner.other).encode() if self.path in pages else text.encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing: requests are recorded."""

        self._server = ThreadingHTTPServer((address, 0), Handler)
        self.url = f"http://{address}:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)


@pytest.fixture
def sites() -> Iterator[tuple[Site, Site]]:
    """(allowed, denied); each knows the other."""
    allowed, denied = Site(ALLOWED), Site(DENIED)
    allowed.other, denied.other = denied.url, allowed.url
    yield allowed, denied
    allowed.close()
    denied.close()


@pytest.fixture(scope="module")
def choosy(private_places: Path) -> Iterator[Live]:  # noqa: ARG001 - the user's settings are hidden before it starts
    """A supervisor that allows one loopback address."""
    with own_supervisor({"network.mode": "allowlist", "network.allow_hosts": ALLOWED}) as running:
        yield running


@pytest.fixture
def guest(choosy: Live, outbox: Path) -> Iterator[Client]:
    with choosy.client(outbox) as client:
        yield client


def test_strict_is_the_default_and_refuses_loopback(bookshop: Bookshop) -> None:
    with own_supervisor({}) as live, live.client() as client:
        first = client.delegate("Look", browser="private", url=bookshop.url, playbook=[observe(), done()])
        second = client.delegate(
            "Look", browser="private", playbook=[navigate(bookshop.url), observe(), done()]
        )
    for result in (first, second):
        assert result.status is Status.BLOCKED, said(result)
        assert result.blocker_code is BlockerCode.POLICY_DENIED
        assert "network.mode" in (result.next_step or "")
        assert not result.retryable
    assert bookshop.counts.searches == 0


def test_an_allowed_address_is_loaded(guest: Client, sites: tuple[Site, Site]) -> None:
    allowed, _ = sites
    result = guest.delegate(
        "Look",
        browser="private",
        playbook=[navigate(f"{allowed.url}/door"), expect(text="Nothing else"), done()],
    )
    assert result.status is Status.COMPLETED, said(result)
    assert allowed.asked[0] == "/door"


@pytest.mark.parametrize(
    "way",
    [
        pytest.param([navigate("${other}/inside")], id="navigation"),
        pytest.param([tool("tabs_open", url="${other}/inside")], id="tab"),
        pytest.param([navigate("${site}/jump")], id="redirect"),
        pytest.param([navigate("${site}/door"), click("link", "Walk in")], id="link"),
        pytest.param([navigate("${site}/door"), click("button", "Send")], id="form"),
    ],
)
def test_no_way_leads_to_a_denied_page(
    guest: Client, choosy: Live, sites: tuple[Site, Site], outbox: Path, way: list[Step]
) -> None:
    allowed, denied = sites
    result = guest.delegate(
        "Go there",
        browser="private",
        deliverables=[wanted("text", "text.md", "text")],
        playbook=[
            *way,
            expect(text=WORD, timeout_ms=1_500),
            tool("page_extract", "text", kind="text", to_artifact="markdown"),
            done(),
        ],
        variables={"site": allowed.url, "other": denied.url},
    )
    assert result.status is Status.BLOCKED, said(result)
    assert denied.asked == [], "the denied site was asked"
    assert WORD.encode() not in msgspec.json.encode(result)
    assert list(outbox.iterdir()) == []
    for path in (choosy.state / "logs").iterdir():
        assert WORD.encode() not in path.read_bytes()


def test_a_denied_frame_is_not_read(guest: Client, sites: tuple[Site, Site], outbox: Path) -> None:
    allowed, denied = sites
    result = guest.delegate(
        "Read the page with the frame",
        browser="private",
        deliverables=[wanted("text", "text.md", "text")],
        playbook=[
            navigate("${site}/framed"),
            expect(text="Below the frame"),
            observe("document"),
            tool("page_extract", "text", kind="text", to_artifact="markdown"),
            done(),
        ],
        variables={"site": allowed.url},
    )
    assert result.status is Status.COMPLETED, said(result)
    assert denied.asked == [], "the denied site was asked"
    text = (outbox / "text.md").read_text()
    assert "Below the frame" in text
    assert WORD not in text
