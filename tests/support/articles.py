"""Article extraction against pages whose article others have marked: the score is the F1 of the words (bag of tokens).

The material (folder `readability`, 40 saved pages of Mozilla's Readability) is read in place and never copied. A page is served from
loopback as it is, its scripts run, and nothing it names outside can be reached. What the worker's tool writes into a
Markdown artifact is compared with the expected page's text.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from browsercell.bridge.pagecalls import Command, Keep, to_keep
from browsercell.protocol.errors import ToolErrorCode
from browsercell.protocol.settings import InputMode
from browsercell.protocol.tools import ArtifactFormat, ExtractArgs, ExtractKind

from tests.extension.launcher import Chromium
from tests.extension.peer import Peer, ToolFailed, until

OFFLINE: Final = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"
_WORD: Final = re.compile(r"\w+")
_SILENT: Final = frozenset({"script", "style", "noscript", "template"})


class _Text(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self._silent = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:  # noqa: ARG002 - as the base class has it
        self._silent += tag in _SILENT
        self.parts.append("" if tag in _INLINE else " ")

    def handle_endtag(self, tag: str) -> None:
        self._silent -= tag in _SILENT
        self.parts.append("" if tag in _INLINE else " ")

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self.parts.append(data)


_TIGHT = "a abbr b bdi bdo cite code em font i ins kbd mark q s small span strong sub sup time u var"
_INLINE: Final = frozenset(_TIGHT.split())


def words(text: str) -> Counter[str]:
    return Counter(_WORD.findall(text.lower()))


def expected_words(page: str) -> Counter[str]:
    """The words of an HTML text."""
    parser = _Text()
    parser.feed(page)
    return words("".join(parser.parts))


def f1(found: Counter[str], expected: Counter[str]) -> float:
    """Harmonic mean of precision and recall over tokens, each counted as often as it stands."""
    shared = (found & expected).total()
    return 0.0 if shared == 0 else 2 * shared / (found.total() + expected.total())


def scores(folder: Path, names: Sequence[str]) -> dict[str, float]:
    """The score of each page, by one browser; about half a second a page."""
    out: dict[str, float] = {}
    with _served(folder) as base, contextlib.ExitStack() as stack:
        peer = Peer(mode=InputMode.AUTO)
        stack.callback(peer.close)
        chromium = Chromium(OFFLINE)
        stack.callback(chromium.close)
        chromium.pair(peer.port, peer.token)
        until(peer.connected.is_set, 20, "the extension's connection")
        for name in names:
            tab = peer.open(f"{base}/{name}/source.html")
            expected = expected_words((folder / name / "expected.html").read_text("utf-8"))
            out[name] = f1(words(_article(peer, tab)), expected)
            peer.attempt("browser_tabs_close", tab)
    return out


def _article(peer: Peer, tab: int) -> str:
    """What the artifact holds; "" where the tool finds no article."""
    try:
        reply = peer.run("page_extract", tab, kind="article", to_artifact="markdown")
    except ToolFailed as failure:
        if failure.error.code is not ToolErrorCode.NOT_FOUND:
            raise
        return ""
    args = ExtractArgs(ExtractKind.ARTICLE, to_artifact=ArtifactFormat.MARKDOWN)
    kept = to_keep(Command("browser_page_extract", args, b"", 0), reply)
    assert isinstance(kept, Keep), kept
    return kept.data.decode()


@contextlib.contextmanager
def _served(folder: Path) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = (folder / unquote(urlsplit(self.path).path).lstrip("/")).resolve()
            found = path.is_relative_to(folder.resolve()) and path.is_file()
            body = path.read_bytes() if found else b""
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Silent: the scores say what matters."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
