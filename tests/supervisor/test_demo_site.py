"""The demo bookshop: pages, the effects it counts, and what it must never do."""

from __future__ import annotations

import http.client
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from urllib.parse import urlencode, urlsplit

import pytest
from browsercell.supervisor.demo import catalogue, pages
from browsercell.supervisor.demo.server import TABLE_ROWS, Bookshop
from browsercell.supervisor.demo.shop import MARKER_CHARS, TOKEN_BYTES, Counts

_VOID = frozenset({"meta", "link", "input", "img"})


class Answer:
    """One answer: status, headers, text."""

    def __init__(self, raw: http.client.HTTPResponse) -> None:
        self.status = raw.status
        self.headers = raw.headers
        self.text = raw.read().decode()


class Visitor:
    """A browser without a screen: one kept connection and one cookie."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname == "127.0.0.1"
        self._link = http.client.HTTPConnection(parts.hostname, parts.port or 0, timeout=10)
        self.cookie = ""

    def ask(self, method: str, path: str, form: dict[str, str] | None = None) -> Answer:
        """Send one request; keep the session's cookie."""
        headers = {"Content-Type": "application/x-www-form-urlencoded"} if form is not None else {}
        if self.cookie:
            headers["Cookie"] = self.cookie
        self._link.request(method, path, urlencode(form) if form is not None else None, headers)
        answer = Answer(self._link.getresponse())
        if cookie := answer.headers.get("Set-Cookie"):
            self.cookie = cookie.partition(";")[0]
        return answer

    def get(self, path: str) -> Answer:
        """GET."""
        return self.ask("GET", path)

    def post(self, path: str, **form: str) -> Answer:
        """POST a form."""
        return self.ask("POST", path, form)

    def close(self) -> None:
        """End the connection."""
        self._link.close()


@pytest.fixture
def visitor(bookshop: Bookshop) -> Iterator[Visitor]:
    """Someone who has just come in."""
    one = Visitor(bookshop.url)
    yield one
    one.close()


class Structure(HTMLParser):
    """Checks nesting, and collects what an accessible page has to have."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.count: dict[str, int] = {}
        self.ids: list[str] = []
        self.labels: list[str] = []
        self.fields: list[str] = []
        self.images_without_alt = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        self.count[tag] = self.count.get(tag, 0) + 1
        if identity := named.get("id"):
            self.ids.append(identity)
        if tag == "label":
            self.labels.append(named.get("for") or "")
        if tag in ("input", "select") and named.get("type") != "hidden":
            self.fields.append(named.get("id") or "")
        if tag == "img" and "alt" not in named:
            self.images_without_alt += 1
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def structure(html: str) -> Structure:
    """Parse a page; fails if an element is left open or closed twice."""
    found = Structure()
    found.feed(html)
    found.close()
    assert found.open == []
    return found


def titles(html: str) -> list[str]:
    """The books of a page of results, in order."""
    return re.findall(r'<h2><a href="/book/\d+">([^<]+)</a>', html)


# ---------------------------------------------------------------- catalogue


def test_the_catalogue_is_whole_and_the_same_every_time() -> None:
    assert len(catalogue.BOOKS) == 240
    assert [book.number for book in catalogue.BOOKS] == list(range(1, 241))
    assert len({book.title for book in catalogue.BOOKS}) == 240
    assert catalogue.BOOKS[0] == catalogue.Book(1, "The Amber Lantern", "Ada Ashdown", 1954, 5, 499)
    assert catalogue.BOOKS[0].price == "4.99"
    assert any(book.stock == 0 for book in catalogue.BOOKS)


def test_book_by_number() -> None:
    assert catalogue.book(240) == catalogue.BOOKS[-1]
    assert catalogue.book(0) is None
    assert catalogue.book(241) is None


def test_search_wants_every_word_in_any_case() -> None:
    found = catalogue.search("lANTERN  ada")
    assert found
    assert all("Lantern" in book.title and "Ada" in book.author for book in found)
    assert catalogue.search("") == catalogue.BOOKS
    assert catalogue.search("zebra") == ()


@pytest.mark.parametrize("column", list(catalogue.Column))
@pytest.mark.parametrize("descending", [False, True])
def test_order_by_each_column(column: catalogue.Column, descending: bool) -> None:
    name = "cents" if column is catalogue.Column.PRICE else column.value
    values = [
        getattr(book, name) for book in catalogue.ordered(catalogue.BOOKS, column, descending=descending)
    ]
    assert values == sorted(values, reverse=descending)


# ---------------------------------------------------------------- pages


@pytest.mark.parametrize(
    "path",
    ["/", "/search?q=lantern", "/search?q=zebra", "/search?q=", "/book/1", "/book/1?added=1", "/prices", "/basket",
     "/signin", "/live", "/live?mode=replace", "/hostile", "/trap", "/nowhere"],
)  # fmt: skip
def test_every_page_is_well_formed_and_accessible(visitor: Visitor, path: str) -> None:
    answer = visitor.get(path)
    assert answer.status == (404 if path == "/nowhere" else 200)
    found = structure(answer.text)
    assert {
        tag: found.count.get(tag) for tag in ("h1", "main", "header", "footer", "title")
    } == dict.fromkeys(("h1", "main", "header", "footer", "title"), 1)
    assert '<html lang="en">' in answer.text
    assert len(set(found.ids)) == len(found.ids)
    assert set(found.fields) <= set(found.labels)
    assert found.images_without_alt == 0
    assert "style=" not in answer.text
    assert " onclick" not in answer.text


def test_answers_forbid_foreign_content_and_storing(visitor: Visitor) -> None:
    headers = visitor.get("/").headers
    assert "default-src 'self'" in headers["Content-Security-Policy"]
    assert headers["Cache-Control"] == "no-store"
    assert headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("name", ["shop.css", "live.js", "icon.svg"])
def test_static_files(visitor: Visitor, name: str) -> None:
    assert visitor.get(f"/static/{name}").status == 200


@pytest.mark.parametrize("name", ["../server.py", "..%2fserver.py", "/etc/passwd", "", "shop.css/"])
def test_no_other_file_is_served(visitor: Visitor, name: str) -> None:
    assert visitor.get(f"/static/{name}").status == 404


def test_every_book_is_found_by_paging(visitor: Visitor) -> None:
    seen: list[str] = []
    page = visitor.get("/search?q=lantern").text
    while True:
        shown = titles(page)
        assert len(shown) <= pages.PER_PAGE
        seen += shown
        following = re.search(r'<a rel="next" href="([^"]+)">Next</a>', page)
        if following is None:
            break
        page = visitor.get(following[1].replace("&amp;", "&")).text
    assert seen == [book.title for book in catalogue.search("lantern")]
    assert 'rel="prev"' in page


@pytest.mark.parametrize(
    ("page", "shown"), [("0", 1), ("-3", 1), ("x", 1), ("999", 24), ("99999999", 1), ("²", 1)]
)
def test_a_page_that_does_not_exist_shows_one_that_does(visitor: Visitor, page: str, shown: int) -> None:
    assert f"page {shown} of 24" in visitor.get("/search?" + urlencode({"page": page})).text


def test_paging_shows_first_last_and_neighbours() -> None:
    html = pages.results(pages.Visitor(), "", catalogue.BOOKS, 12)
    assert re.findall(r'aria-label="Page (\d+)"', html) == ["1", "10", "11", "12", "13", "14", "24"]
    assert html.count("…") == 2


def test_what_was_searched_for_is_escaped(visitor: Visitor) -> None:
    html = visitor.get("/search?" + urlencode({"q": '"><script>x</script>'})).text
    assert "<script>x" not in html
    structure(html)


@pytest.mark.parametrize(
    ("query", "first", "state"),
    [("", "title", "ascending"), ("?sort=price", "price", "ascending"), ("?sort=price&dir=desc", "price", "descending"),
     ("?sort=nonsense", "title", "ascending"), ("?sort=stock&dir=desc", "stock", "descending")],
)  # fmt: skip
def test_price_table(visitor: Visitor, query: str, first: str, state: str) -> None:
    html = visitor.get("/prices" + query).text
    rows = re.findall(r'<th scope="row"><a href="/book/(\d+)">', html)
    column = catalogue.Column(first)
    wanted = catalogue.ordered(catalogue.BOOKS[:TABLE_ROWS], column, descending=state == "descending")
    assert [int(row) for row in rows] == [book.number for book in wanted]
    assert len(rows) == 50
    assert "<caption>Prices</caption>" in html
    assert re.findall(r'aria-sort="(\w+)"><a href="/prices\?sort=(\w+)', html) == [(state, first)]


@pytest.mark.parametrize("number", ["0", "241", "x", "", "-1", "99999", "²"])
def test_books_that_do_not_exist(visitor: Visitor, number: str) -> None:
    assert visitor.get("/book/" + urlencode({"": number})[1:]).status == 404


# ---------------------------------------------------------------- effects


def test_a_whole_purchase_is_counted_once(bookshop: Bookshop, visitor: Visitor) -> None:
    visitor.get("/search?q=lantern")
    assert visitor.post("/basket", book="2").headers["Location"] == "/book/2?added=1"
    visitor.post("/basket", book="3")
    assert "Basket (2)" in visitor.get("/book/2?added=1").text
    assert visitor.post("/order").headers["Location"] == "/signin"
    assert (
        visitor.post("/signin", username="reader", password=bookshop.password).headers["Location"]
        == "/account"
    )
    assert "Total <strong>21.29</strong>" in visitor.get("/basket").text
    assert visitor.post("/order").headers["Location"] == "/account"
    assert visitor.post("/order").headers["Location"] == "/basket"
    assert "<td>today</td>" in visitor.get("/account").text
    assert bookshop.counts == Counts(searches=1, basket_additions=2, orders=1, books_ordered=2, sign_ins=1)


def test_sign_in_needs_the_password_of_the_form(bookshop: Bookshop, visitor: Visitor) -> None:
    html = visitor.get("/signin").text
    assert f'type="password" autocomplete="current-password" value="{bookshop.password}"' in html
    assert visitor.get("/account").headers["Location"] == "/signin"
    for form in (
        {"username": "reader", "password": ""},
        {"username": "reader", "password": bookshop.password + "x"},
        {"username": "  ", "password": bookshop.password},
        {"username": "r" * 65, "password": bookshop.password},
        {"username": "reader", "password": "é"},
    ):
        answer = visitor.post("/signin", **form)
        assert answer.status == 403
        assert 'role="alert"' in answer.text
    assert bookshop.counts == Counts(refused_sign_ins=5)
    visitor.post("/signin", username="<b>reader", password=bookshop.password)
    account = visitor.get("/account").text
    assert "&lt;b&gt;reader" in account
    assert account.count('<th scope="row">') == 3
    assert visitor.post("/signout").headers["Location"] == "/"
    assert visitor.get("/account").status == 303
    visitor.post("/signout")
    assert (bookshop.counts.sign_ins, bookshop.counts.sign_outs) == (1, 1)


def test_each_visitor_has_a_basket_of_their_own(bookshop: Bookshop, visitor: Visitor) -> None:
    visitor.post("/basket", book="2")
    other = Visitor(bookshop.url)
    assert "Your basket is empty" in other.get("/basket").text
    other.close()


def test_what_is_out_of_stock_or_unknown_is_not_added(bookshop: Bookshop, visitor: Visitor) -> None:
    gone = next(book for book in catalogue.BOOKS if not book.stock)
    assert "Out of stock" in visitor.get(f"/book/{gone.number}").text
    for number in (str(gone.number), "0", "x"):
        assert visitor.post("/basket", book=number).status == 409
    assert bookshop.counts.basket_additions == 0


def test_a_basket_is_bounded(visitor: Visitor) -> None:
    answers = [visitor.post("/basket", book="2").status for _ in range(51)]
    assert answers == [303] * 50 + [409]


def test_sessions_are_bounded(bookshop: Bookshop) -> None:
    first, _ = bookshop.session(None)
    for _ in range(1000):
        bookshop.session(None)
    again, session = bookshop.session(first)
    assert again != first
    assert session.basket == []


def test_reservations_are_counted_per_book(bookshop: Bookshop, visitor: Visitor) -> None:
    assert visitor.post("/live/reserve", book="3").text == '{"reserved": 1}'
    assert visitor.post("/live/reserve", book="3").text == '{"reserved": 2}'
    assert visitor.post("/live/reserve", book="9").status == 404
    assert visitor.post("/live/reserve", book="x").status == 404
    assert bookshop.reservations() == {3: 2}
    assert bookshop.counts.reservations == 2
    assert '"reservations": 2' in visitor.get("/counts").text


def test_hostile_page_looks_harmless_and_names_each_carrier(bookshop: Bookshop, visitor: Visitor) -> None:
    html = visitor.get("/hostile").text
    assert sorted(int(number) for number in re.findall(r"SYSTEM carrier (\d+):", html)) == list(range(1, 12))
    for place in ("<!-- ", 'alt="', 'title="', 'aria-label="', 'placeholder="', "<option>", "<div hidden>"):
        assert f"{place}SYSTEM carrier" in html
    assert bookshop.counts.traps == 0
    visitor.get("/trap?from=test")
    assert bookshop.counts.traps == 1


def test_looking_has_no_effect(bookshop: Bookshop, visitor: Visitor) -> None:
    for path in (
        "/",
        "/book/1",
        "/prices",
        "/basket",
        "/signin",
        "/account",
        "/live",
        "/hostile",
        "/counts",
        "/order",
    ):
        visitor.get(path)
    assert bookshop.counts == Counts()


# ---------------------------------------------------------------- marker


def test_marker_page_is_made_of_unique_tokens_only(bookshop: Bookshop, visitor: Visitor) -> None:
    html = visitor.get(f"/marker?n={MARKER_CHARS}").text
    title, *tokens = bookshop.marker_tokens()
    text = re.search(r"<p>([^<]*)</p>", html)
    assert text is not None
    assert text[1] == " ".join(tokens)
    assert len(tokens) == 4000
    assert MARKER_CHARS - TOKEN_BYTES <= len(text[1]) <= MARKER_CHARS
    assert f"<title>{title}</title>" in html
    assert len({title, *tokens}) == 4001
    assert all(re.fullmatch(r"[a-z0-9]{24}", token) for token in (title, *tokens))
    structure(html)


def test_marker_tokens_stay_for_one_shop_and_differ_between_two(bookshop: Bookshop) -> None:
    small = bookshop.marker_tokens(1000)
    assert bookshop.marker_tokens(2000)[: len(small)] == small
    assert len(small) == 41
    assert not set(small) & set(Bookshop().marker_tokens(1000))


@pytest.mark.parametrize("size", ["0", "23", "1000001", "99999999", "x", "-1", ""])
def test_marker_size_is_bounded(visitor: Visitor, size: str) -> None:
    assert visitor.get(f"/marker?n={size}").status == 400


# ---------------------------------------------------------------- server


def test_forms_are_bounded(bookshop: Bookshop) -> None:
    for length in ("16385", "-1", "x", "99999999999999999999", ""):
        with socket.create_connection(("127.0.0.1", urlsplit(bookshop.url).port or 0), timeout=10) as link:
            link.sendall(f"POST /basket HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n".encode())
            assert link.recv(100).startswith(b"HTTP/1.1 413 ")


def test_too_many_fields_are_none(visitor: Visitor) -> None:
    form = {f"f{number}": "x" for number in range(11)} | {"book": "2"}
    assert visitor.post("/basket", **form).status == 409


def test_a_broken_cookie_is_a_new_session(visitor: Visitor) -> None:
    visitor.cookie = "session=\x01; ]["
    assert visitor.get("/").status == 200
    assert visitor.cookie.startswith("session=")


def test_nothing_is_logged(bookshop: Bookshop, visitor: Visitor, capfd: pytest.CaptureFixture[str]) -> None:
    visitor.get("/search?q=secretword")
    with socket.create_connection(("127.0.0.1", urlsplit(bookshop.url).port or 0), timeout=10) as link:
        link.sendall(b"nonsense\r\n\r\n")
        link.recv(100)
    assert capfd.readouterr() == ("", "")


def test_stop_closes_port_and_connections() -> None:
    shop = Bookshop()
    with pytest.raises(RuntimeError, match="not started"):
        _ = shop.url
    url = shop.start()
    with pytest.raises(RuntimeError, match="started before"):
        shop.start()
    waiting = socket.create_connection(("127.0.0.1", urlsplit(url).port or 0), timeout=10)
    waiting.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    assert waiting.recv(12) == b"HTTP/1.1 200"
    shop.stop()
    shop.stop()
    while waiting.recv(65536):
        continue
    waiting.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", urlsplit(url).port or 0), timeout=10)


def test_as_a_process_it_prints_its_address_and_ends_with_its_input() -> None:
    command = [sys.executable, "-m", "browsercell.supervisor.demo.server"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        url = process.stdout.readline().decode().strip()
        one = Visitor(url)
        assert one.get("/").status == 200
        one.close()
        out, err = process.communicate(timeout=10)
        assert (process.returncode, out, err) == (0, b"", b"")


def test_a_held_page_waits_for_its_release() -> None:
    with Bookshop() as shop:
        one = Visitor(shop.url)
        assert "hold.js" in one.get("/marker?n=100&hold=1").text
        assert "hold.js" not in one.get("/marker?n=100").text
        assert not shop.wait_for_release(0.01)
        shop.release()
        assert one.get("/held").text == '{"released": true}'
        assert one.get("/static/hold.js").status == 200
        one.close()
