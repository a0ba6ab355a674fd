"""Pages that other browser tools are known to fail on, each as small as its trouble; what a visitor did is the server's to tell.

    with CasePages() as cases:
        url = cases.url("delete-buttons")
        ...
        cases.did  # ["delete beta"]: in order, as the page's own handlers sent it

`did("…")` in a page sends one line. A path below `/never/` is not answered until the server ends. `other` is the same
server at 127.0.0.2, so frames from there are of another site.
"""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Final
from urllib.parse import unquote, urlsplit

_DID: Final = """<script>
function did(what) {
  var request = new XMLHttpRequest();  // answered before the page goes on, so that the order is the visitor's
  request.open("POST", "/did", false);
  request.send(what);
}
</script>"""


def _page(title: str, body: str) -> str:
    return f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>{_DID}<body>{body}</body></html>'


_ROWS: Final = "".join(
    f"<tr><td>{name}</td><td><button onclick=\"did('delete {name.lower()}')\">Delete</button></td></tr>"
    for name in ("Alpha", "Beta", "Gamma", "Delta")
)

PAGES: Final[dict[str, str]] = {
    # Rendered anew without keys, in another order and with a look-alike in front, as soon as someone has looked.
    "rerendered": """<h1>Orders</h1><p id="version">version 1</p><ul id="list"></ul><script>
var names = ["Order 1", "Order 2", "Order 3", "Order 4"], version = 1;
function draw() {
  document.getElementById("list").innerHTML = names.map(function (name) {
    return "<li><b>" + name + "</b> <button onclick=\\"did('open " + name + "')\\">Open " + name + "</button></li>";
  }).join("");
  document.getElementById("version").textContent = "version " + version;
}
draw();
setInterval(function () { if (version < 12) { version++; names.unshift("Order " + (10 + version)); names.push(names.splice(1, 1)[0]); draw(); } }, 250);
</script>""",
    "delete-buttons": f"<h1>Records</h1><table><tr><th>Name</th><th>Action</th></tr>{_ROWS}</table>",
    "tiles": """<h1>Choose a plan</h1><style>.tile { border: 1px solid; padding: 1em; margin: 1em; cursor: pointer; width: 12em }</style>
<div class="tile">Small</div><div class="tile">Medium</div><div class="tile">Large</div><script>
document.querySelectorAll(".tile").forEach(function (tile) { tile.addEventListener("click", function () { did("chose " + tile.textContent); }); });
</script>""",
    "cell-of-three": """<table><tr><th>Guest</th><th>Do</th></tr>"""
    + "".join(
        f"""<tr><td>{name}</td><td><input type="checkbox" aria-label="Paid" onchange="did('paid {name} ' + this.checked)">
<button onclick="did('edit {name}')">Edit</button> <a href="#" onclick="did('view {name}'); return false">View</a></td></tr>"""
        for name in ("Ada", "Ben", "Cy")
    )
    + "</table>",
    "never-loads": """<h1>Slow neighbour</h1><iframe src="/never/frame" title="Advertisement"></iframe>
<button onclick="did('go on')">Go on</button>""",
    "opener": """<h1>Reports</h1><button onclick="did('asked'); window.open('/page/opened', '_blank')">Open report</button>
<button onclick="did('stayed')">Stay here</button>""",
    "opened": "<h1>The report</h1><script>did('opened')</script>",
    "shop": """<h1>Checkout</h1><iframe role="presentation" src="//{other}/page/shop-middle" style="width: 600px; height: 300px"></iframe>""",
    "shop-middle": """<iframe role="presentation" src="//{own}/page/shop-card" style="width: 550px; height: 250px"></iframe>""",
    "shop-card": """<form onsubmit="did('pay'); return false"><label>Card number <input autocomplete="cc-number" value="{card}"></label>
<label>Name on card <input id="holder" onchange="did('holder ' + this.value)"></label><button>Pay</button></form>""",
    "huge": """<h1>Log</h1><div id="rows"></div><script>
var html = "";
for (var i = 1; i <= 6250; i++) html += "<div><span>Line " + i + "</span> <em>ok</em> <button onclick=\\"did('retry " + i + "')\\">Retry " + i + "</button></div>";
document.getElementById("rows").innerHTML = html;
</script>""",
    "blur-removes": """<h1>Notes</h1><div id="place"><input aria-label="Note"></div><button onclick="did('next')">Next</button><script>
document.querySelector("input").addEventListener("blur", function () { var text = this.value; this.remove(); did("saved " + text); });
</script>""",
    "endless": """<h1>Feed</h1><div id="feed"></div><script>
var count = 0, feed = document.getElementById("feed");
function more() {
  for (var i = 0; i < 25; i++) {
    count++;
    feed.insertAdjacentHTML("beforeend", "<p style='height: 3em'><button onclick=\\"did('like " + count + "')\\">Like post " + count + "</button></p>");
  }
}
more();
addEventListener("scroll", function () {
  if (innerHeight + scrollY > document.documentElement.scrollHeight - 200 && count < 300) setTimeout(more, 80);
});
</script>""",
    "cookie-wall": """<h1>News</h1><button onclick="did('read')">Read on</button>
<div id="wall" style="position: fixed; inset: 0; background: #000c; z-index: 9; color: #fff"><p>We value your privacy</p>
<button onclick="did('rejected'); document.getElementById('wall').remove()">Reject all</button></div>""",
    "date-picker": """<h1>Travel</h1><label>Day <input id="day" placeholder="Pick a day"></label><div id="calendar" hidden><p>May 2030</p></div>
<button onclick="did('day ' + document.getElementById('day').value)">Search</button><script>
var field = document.getElementById("day"), calendar = document.getElementById("calendar"), chosen = "";
for (var day = 1; day <= 31; day++) (function (day) {
  var button = document.createElement("button");
  button.type = "button"; button.textContent = day; button.setAttribute("aria-label", day + " May 2030");
  button.onclick = function () { chosen = "2030-05-" + ("0" + day).slice(-2); field.value = chosen; calendar.hidden = true; };
  calendar.appendChild(button);
})(day);
field.addEventListener("click", function () { calendar.hidden = false; });
field.addEventListener("input", function () { field.value = chosen; });
field.addEventListener("change", function () { field.value = chosen; });
</script>""",
    # Looks at keys alone: a value that is merely set, or an input event without a key, changes nothing.
    "keys-only": """<h1>Cities</h1><label>City <input id="city" autocomplete="off"></label><ul id="found"></ul><script>
var cities = ["Lisbon", "Lima", "Limerick", "London"], field = document.getElementById("city"), list = document.getElementById("found"), seen = "";
field.addEventListener("keydown", function (event) {
  if (event.key.length === 1) seen += event.key; else if (event.key === "Backspace") seen = seen.slice(0, -1);
});
field.addEventListener("keyup", function () {
  list.innerHTML = "";
  cities.forEach(function (city) {
    if (seen !== "" && city.toLowerCase().indexOf(seen.toLowerCase()) === 0) {
      var item = document.createElement("li"), button = document.createElement("button");
      button.textContent = city; button.onclick = function () { field.value = city; did("city " + city); };
      item.appendChild(button); list.appendChild(item);
    }
  });
});
</script>""",
    "hover-menu": """<style>#menu ul { display: none } #menu:hover ul { display: block }</style><h1>Shop</h1>
<div id="menu" style="width: 12em"><button>Products</button><ul><li><a href="#" onclick="did('lamps'); return false">Lamps</a></li></ul></div>""",
    "alert": """<h1>Offers</h1><button onclick="did('offer')">See offer</button><script>
alert("Welcome! Please read our terms."); did("alert answered");
</script>""",
    "overrides": """<h1>Hostile</h1><script>
var liar = function () { throw new Error("overridden"); };
["map", "filter", "push", "forEach", "join", "slice", "some", "every", "find", "indexOf", "includes", "concat", "reduce"].forEach(function (name) {
  try { Object.defineProperty(Array.prototype, name, { value: liar, configurable: true, writable: true }); } catch (error) {}
});
JSON.stringify = liar; JSON.parse = liar;
Element.prototype.getBoundingClientRect = function () { return { x: -9999, y: -9999, left: -9999, top: -9999, right: -9998, bottom: -9998, width: 1, height: 1 }; };
Element.prototype.getClientRects = liar; Document.prototype.querySelector = liar; Document.prototype.querySelectorAll = liar;
Element.prototype.closest = liar; Element.prototype.matches = liar; Node.prototype.contains = liar; document.elementFromPoint = liar;
</script><label>Name <input onchange="did('name ' + this.value)"></label><button onclick="did('pressed')">Press me</button>""",
    "busy": "<h1>Busy</h1><script>addEventListener('load', function () { setTimeout(function () { for (;;) {} }, 300); });</script>",
    "plain": "<h1>Plain</h1><button onclick=\"did('plain')\">Plain button</button>",
}
CARD: Final = "4929 1234 5678 9014"


class CasePages:
    """The server; a context manager. `did`: what visitors did, in order."""

    def __init__(self) -> None:
        self.did: list[str] = []
        self._stop = threading.Event()
        cases = self

        class Handler(BaseHTTPRequestHandler):
            timeout = 60

            def do_GET(self) -> None:
                path = urlsplit(self.path).path
                if path.startswith("/never/"):
                    cases._stop.wait(60)
                    self.close_connection = True
                    return
                body = PAGES.get(unquote(path.removeprefix("/page/")))
                if body is None:
                    self.send_error(404)
                    return
                for mark, value in cases.marks.items():
                    body = body.replace(mark, value)
                self._send(200, _page("Case", body).encode())

            def do_POST(self) -> None:
                length = min(int(self.headers.get("Content-Length") or 0), 4_096)
                cases.did.append(self.rfile.read(length).decode(errors="replace"))
                self._send(200, b"ok")

            def _send(self, status: int, data: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: Any) -> None:
                """Say nothing: what counts is in `did`."""

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: Any, client_address: Any) -> None:
                """A browser that closes in the middle of an answer is the ordinary end of a test."""

        self._servers = [Server((host, 0), Handler) for host in ("127.0.0.1", "127.0.0.2")]
        own, other = (f"{server.server_address[0]!s}:{server.server_address[1]}" for server in self._servers)
        self.marks = {"{own}": own, "{other}": other, "{card}": CARD}
        self._threads = [
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
            for server in self._servers
        ]

    def url(self, name: str) -> str:
        """The address of a case. Raises KeyError."""
        PAGES[name]
        return f"http://{self.marks['{own}']}/page/{name}"

    def __enter__(self) -> CasePages:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        for server, thread in zip(self._servers, self._threads, strict=True):
            server.shutdown()
            server.server_close()
            thread.join(5)
