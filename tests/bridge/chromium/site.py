"""A small site for live tests: one server on two loopback addresses, of which a policy allows the first.

`GOOD` and `BAD` in a page's text become the two origins. Every request is recorded as (address, path).
"""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

GOOD, BAD = "127.0.0.1", "127.0.0.2"


class Site:
    """The running site; `hits`: what was asked for, in order."""

    def __init__(self, pages: Mapping[str, str]) -> None:
        self.pages = dict(pages)
        self.hits: list[tuple[str, str]] = []
        self.port = 0

    def good(self, path: str) -> str:
        return f"http://{GOOD}:{self.port}{path}"

    def bad_hits(self) -> list[str]:
        """Paths that were asked for at the denied address."""
        return [path for address, path in self.hits if address == BAD]

    def asked(self, path: str) -> bool:
        return any(hit.partition("?")[0] == path for _, hit in self.hits)


@contextmanager
def serving(pages: Mapping[str, str]) -> Iterator[Site]:
    """Serve `pages` (path: HTML, or `-> URL` for a redirect, or `download`) until the block ends."""
    site = Site(pages)

    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            """Silent."""

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.do_GET()

        def do_GET(self) -> None:
            site.hits.append((self.connection.getsockname()[0], self.path))
            text = site.pages.get(self.path.partition("?")[0], "<title>plain</title>plain")
            text = text.replace("GOOD", f"http://{GOOD}:{site.port}").replace(
                "BAD", f"http://{BAD}:{site.port}"
            )
            moved = text.startswith("-> ")
            self.send_response(302 if moved else 200)
            if moved:
                self.send_header("Location", text.removeprefix("-> "))
            if text == "download":
                self.send_header("Content-Disposition", "attachment; filename=file.bin")
            body = b"" if moved else text.encode()
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    class Server(http.server.ThreadingHTTPServer):
        daemon_threads = True

    first = Server((GOOD, 0), Handler)
    site.port = int(first.server_address[1])
    second = Server((BAD, site.port), Handler)
    threads = [
        threading.Thread(target=one.serve_forever, args=(0.05,), daemon=True) for one in (first, second)
    ]
    for thread in threads:
        thread.start()
    try:
        yield site
    finally:
        for one in (first, second):
            one.shutdown()
            one.server_close()
