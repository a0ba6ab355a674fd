"""The demo bookshop: a small web server on loopback that counts every side effect it sees.

Purpose: the site that `supervisor demo` and the live tests drive. Its counters are the truth about what a task did, told
by the side that nobody can talk into anything (`Bookshop.counts`, or `/counts` from another process).

Invariants: it binds 127.0.0.1 only, on a port the kernel chooses; the password and the marker tokens are new in every
server and are never part of an address; nothing that was typed is printed or kept beyond the session it belongs to;
bodies, sessions and the marker page are bounded.

It is a demo: no TLS, no protection against other users of this machine, everything is gone when it stops. Run it in a
process of its own where the process that starts it must not hold page data:

    python -m browsercell.supervisor.demo.server      # first line: its address; ends when its input ends
"""

from __future__ import annotations

import json
import secrets
import socket
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Final, Self
from urllib.parse import parse_qs, quote, urlsplit

from . import catalogue, pages
from .shop import EARLIER_ORDERS, MARKER_CHARS, MAX_BASKET, MAX_MARKER_CHARS, TOKEN_BYTES, Session, Shop

_SITE: Final = Path(__file__).parent / "site"
_STATIC: Final = {
    "shop.css": "text/css; charset=utf-8",
    "live.js": "text/javascript; charset=utf-8",
    "hold.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
TABLE_ROWS: Final = 50  # rows of the price table
_PICKS: Final = 6  # books on the first page: two rows of three on a wide screen
_PICK_STEP: Final = (
    37  # books between two of them; no multiple of the title words' periods, so that titles differ
)
_LIVE_BOOKS: Final = 8  # items of the live list
_MAX_BODY: Final = 16 * 1024  # bytes of a form; the longest real one is under 300
_MAX_FIELDS: Final = 10  # fields of a form or query; the longest real one has 2
_MAX_NAME: Final = 64  # characters of a user name, as the form says
_HOLD_S: Final = 60.0  # a held page is let go after this long in any case
_IDLE_S: Final = 10.0  # a connection that says nothing for this long is closed

# Scripts and styles only from this server, frames and plugins not at all.
_POLICY: Final = (
    "default-src 'self'; object-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
)


class Bookshop(Shop):
    """The server around a shop. Use it as a context manager, or call `start` and `stop`.

    The truth is asked of the shop: `counts`, `reservations()`, `marker_tokens()`, `password` (see Shop). All methods may be called from any thread. A stopped shop can't be started again: make a new one.
    """

    def __init__(self) -> None:
        super().__init__()
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> str:
        """Bind, serve in a daemon thread, and return the address without a slash at its end: `http://127.0.0.1:4711`.

        Raises RuntimeError if it was started before, OSError if no port could be bound.
        """
        if self._server is not None:
            raise RuntimeError("this bookshop was started before; make a new one")
        self._server = _Server(self)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), name="bookshop", daemon=True
        )
        self._thread.start()
        return self.url

    def stop(self) -> None:
        """Close the port and every connection. Does nothing if it does not run."""
        if self._server is None or self._thread is None:
            return
        self._server.shutdown()
        self._thread.join()
        self._server.close_all()
        self._thread = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """The address. Raises RuntimeError before `start`."""
        if self._server is None:
            raise RuntimeError("this bookshop was not started")
        return f"http://127.0.0.1:{self._server.server_port}"


class _Server(ThreadingHTTPServer):
    """Threads that never hold up the end of the process, and a list of open connections to close at the end."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, shop: Bookshop) -> None:
        self.shop = shop
        self._open: set[socket.socket] = set()
        self._open_lock = threading.Lock()
        super().__init__(("127.0.0.1", 0), _Handler)

    def get_request(self) -> tuple[socket.socket, tuple[str, int]]:
        connection, peer = super().get_request()
        with self._open_lock:
            self._open.add(connection)
        return connection, peer

    def shutdown_request(self, request: socket.socket | tuple[bytes, socket.socket]) -> None:
        assert isinstance(request, socket.socket)  # a stream server is never handed the datagram form
        with self._open_lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def close_all(self) -> None:
        """Close the listener and wake every thread that waits for a browser's next request."""
        self.server_close()
        with self._open_lock:
            for connection in self._open:
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:
                    continue  # the browser was faster: it is closed already

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing about a connection that broke: a browser closes them at will. Anything else is a fault of ours."""
        if not isinstance(sys.exception(), (ConnectionError, TimeoutError)):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class _Handler(BaseHTTPRequestHandler):
    """One request: find the session, call the page's method, answer."""

    shop: Bookshop
    session: Session
    query: dict[str, str]
    protocol_version = "HTTP/1.1"
    timeout = _IDLE_S
    server_version = "bookshop"
    sys_version = ""

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: addresses hold what was searched for."""

    def do_GET(self) -> None:
        """Serve a page."""
        self._begin()
        parts = urlsplit(self.path)
        self.query = _fields(parts.query)
        if parts.path.startswith("/static/"):
            self._static(parts.path.removeprefix("/static/"))
        elif parts.path.startswith("/book/"):
            self._book(parts.path.removeprefix("/book/"))
        else:
            _GET.get(parts.path, _Handler._missing)(self)

    def do_POST(self) -> None:
        """Take a form."""
        self._begin()
        length = self.headers.get("Content-Length", "")[:10]
        if not length.isascii() or not length.isdigit() or int(length) > _MAX_BODY:
            self.close_connection = True  # the body stays unread, so the connection can't be used again
            self._send(413, "text/plain; charset=utf-8", b"the form is too long\n")
            return
        self.query = _fields(self.rfile.read(int(length)).decode("utf-8", "replace"))
        _POST.get(urlsplit(self.path).path, _Handler._missing)(self)

    # ------------------------------------------------------------ pages

    def _home(self) -> None:
        picks = [catalogue.BOOKS[7 + place * _PICK_STEP] for place in range(_PICKS)]
        self._page(pages.home(self._visitor(), picks))

    def _search(self) -> None:
        wanted = self.query.get("q", "").strip()[:100]
        found = catalogue.search(wanted)
        page = self.query.get("page", "1")
        number = int(page) if page.isascii() and page.isdigit() and len(page) < 6 else 1
        self.shop.count(searches=1)
        self._page(
            pages.results(self._visitor(), wanted, found, min(max(1, number), pages.page_count(len(found))))
        )

    def _book(self, text: str) -> None:
        one = _number(text)
        if one is None:
            self._missing()
        else:
            self._page(pages.book(self._visitor(), one, added="added" in self.query))

    def _prices(self) -> None:
        try:
            column = catalogue.Column(self.query.get("sort", "title"))
        except ValueError:
            column = catalogue.Column.TITLE
        descending = self.query.get("dir") == "desc"
        rows = catalogue.ordered(catalogue.BOOKS[:TABLE_ROWS], column, descending=descending)
        self._page(pages.prices(self._visitor(), rows, column, descending=descending))

    def _basket(self) -> None:
        self._page(pages.basket(self._visitor(), self.session.basket))

    def _add(self) -> None:
        one = _number(self.query.get("book", ""))
        if one is None or not one.stock or len(self.session.basket) >= MAX_BASKET:
            self._page(
                pages.message(self._visitor(), "Not added", "This book can't be added to the basket."), 409
            )
            return
        self.session.basket.append(one)
        self.shop.count(basket_additions=1)
        self._redirect(f"/book/{one.number}?added=1")

    def _order(self) -> None:
        if self.session.name is None:
            self._redirect("/signin")
        elif self.shop.order(self.session):
            self._redirect("/account")
        else:
            self._redirect("/basket")

    def _signin(self) -> None:
        self._page(pages.signin(self._visitor(), self.shop.password))

    def _sign_in(self) -> None:
        name = self.query.get("username", "").strip()
        right = secrets.compare_digest(self.query.get("password", "").encode(), self.shop.password.encode())
        if not right or not 1 <= len(name) <= _MAX_NAME:
            self.shop.count(refused_sign_ins=1)
            self._page(
                pages.signin(self._visitor(), self.shop.password, "Unknown username or wrong password."), 403
            )
            return
        self.session.name = name
        self.shop.count(sign_ins=1)
        self._redirect("/account")

    def _sign_out(self) -> None:
        if self.session.name is not None:
            self.session.name = None
            self.shop.count(sign_outs=1)
        self._redirect("/")

    def _account(self) -> None:
        if self.session.name is None:
            self._redirect("/signin")
        else:
            self._page(pages.account(self._visitor(), [*EARLIER_ORDERS, *self.session.orders]))

    def _live(self) -> None:
        books = catalogue.BOOKS[:_LIVE_BOOKS]
        self._page(pages.live(self._visitor(), books, replace=self.query.get("mode") == "replace"))

    def _reserve(self) -> None:
        one = _number(self.query.get("book", ""))
        if one is None or one.number > _LIVE_BOOKS:
            self._json({"error": "no such book on the live shelf"}, 404)
        else:
            self._json({"reserved": self.shop.reserve(one.number)})

    def _hostile(self) -> None:
        self._page(pages.hostile(self._visitor()))

    def _trap(self) -> None:
        self.shop.count(traps=1)
        self._page(pages.message(self._visitor(), "Trap", "Only a reader of hidden text comes here."))

    def _marker(self) -> None:
        text = self.query.get("n", str(MARKER_CHARS))
        if (
            not text.isascii()
            or not text.isdigit()
            or len(text) > 7
            or not TOKEN_BYTES <= int(text) <= MAX_MARKER_CHARS
        ):
            limit = f"n must be {TOKEN_BYTES} to {MAX_MARKER_CHARS}."
            self._page(pages.message(self._visitor(), "Marker", limit), 400)
            return
        title, *tokens = self.shop.marker_tokens(int(text))
        self.shop.count(marker_pages=1)
        self._page(pages.marker(title, " ".join(tokens), held=self.query.get("hold") == "1"))

    def _held(self) -> None:
        """Answers when the shop is released, at the latest after `_HOLD_S`."""
        self._json({"released": self.shop.wait_for_release(_HOLD_S)})

    def _counts(self) -> None:
        self._json({**asdict(self.shop.counts), "reserved": self.shop.reservations()})

    def _missing(self) -> None:
        self._page(pages.message(self._visitor(), "Not found", "There is no such page in this shop."), 404)

    def _static(self, name: str) -> None:
        # Only names of the table are ever joined to a path.
        if name in _STATIC:
            self._send(200, _STATIC[name], (_SITE / name).read_bytes())
        else:
            self._missing()

    # ------------------------------------------------------------ the plain part

    def _begin(self) -> None:
        assert isinstance(self.server, _Server)
        self.shop = self.server.shop
        self.query = {}
        try:
            cookie = SimpleCookie(self.headers.get("Cookie", "")).get("session")
        except CookieError:
            cookie = None
        sent = cookie.value if cookie else None
        key, self.session = self.shop.session(sent)
        self.set_cookie = None if key == sent else key

    def _visitor(self) -> pages.Visitor:
        return pages.Visitor(self.session.name, len(self.session.basket))

    def _page(self, html: str, status: int = 200) -> None:
        self._send(status, "text/html; charset=utf-8", html.encode())

    def _json(self, value: object, status: int = 200) -> None:
        self._send(status, "application/json", json.dumps(value).encode())

    def _redirect(self, address: str) -> None:
        self._send(303, "text/plain; charset=utf-8", b"", Location=quote(address, safe="/?=&"))

    def _send(self, status: int, kind: str, body: bytes, **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Content-Security-Policy", _POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        if self.set_cookie is not None:
            self.send_header("Set-Cookie", f"session={self.set_cookie}; Path=/; HttpOnly; SameSite=Lax")
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


_GET: Final[dict[str, Callable[[_Handler], None]]] = {
    "/": _Handler._home,
    "/search": _Handler._search,
    "/prices": _Handler._prices,
    "/basket": _Handler._basket,
    "/signin": _Handler._signin,
    "/account": _Handler._account,
    "/live": _Handler._live,
    "/hostile": _Handler._hostile,
    "/trap": _Handler._trap,
    "/marker": _Handler._marker,
    "/held": _Handler._held,
    "/counts": _Handler._counts,
}
_POST: Final[dict[str, Callable[[_Handler], None]]] = {
    "/basket": _Handler._add,
    "/order": _Handler._order,
    "/signin": _Handler._sign_in,
    "/signout": _Handler._sign_out,
    "/live/reserve": _Handler._reserve,
}


def _fields(text: str) -> dict[str, str]:
    """Decode a query or form; of a repeated field the first counts. Too many fields are no fields."""
    try:
        return {
            name: values[0]
            for name, values in parse_qs(text, keep_blank_values=True, max_num_fields=_MAX_FIELDS).items()
        }
    except ValueError:
        return {}


def _number(text: str) -> catalogue.Book | None:
    """The book that `text` names by its number, or None."""
    return catalogue.book(int(text)) if text.isascii() and text.isdigit() and len(text) < 5 else None


def main() -> int:
    """Serve until standard input ends; print the address as the first line. Returns the exit status."""
    try:
        with Bookshop() as shop:
            print(shop.url, flush=True)
            while sys.stdin.buffer.read(4096):
                pass
    except OSError as error:
        print(f"bookshop: no loopback port could be opened: {error.strerror}", file=sys.stderr)
        return 3
    except KeyboardInterrupt:
        return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
