"""Pages for the extension's live tests, served from loopback; `localhost` is a second origin for frames."""

from __future__ import annotations

import mimetypes
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final, cast
from urllib.parse import urlsplit

from .case_pages import CASE_PAGES
from .cases import CASES
from .extract_pages import EXTRACT_PAGES
from .frame_pages import FRAME_PAGES, inner
from .input_pages import GESTURE_PAGES, bundle, package_file
from .mark_pages import MARK_PAGES

BOOKS: Final = "".join(
    f'<li class="book"><a href="/book/{i}">Book {i}</a> <span class="price">£{i}.50</span> '
    f"<a href='/author/{i}'>Author {i}</a> <button onclick=\"say('added {i}')\">Add</button></li>"
    for i in range(1, 13)
)

_SCRIPT: Final = """<script>
window.log = [];
function say(text) { log.push(text); document.getElementById('out').textContent = text; }
</script>"""


def page(title: str, body: str) -> str:
    return f"<!doctype html><html lang=en><meta charset=utf-8><title>{title}</title>{_SCRIPT}<body>{body}<p id=out></p></body></html>"


PAGES: Final[dict[str, str]] = {
    **{path: page(path, body) for path, body in EXTRACT_PAGES.items()},
    **{path: page(path, body) for path, body in GESTURE_PAGES.items()},
    **FRAME_PAGES,
    **MARK_PAGES,
    **{path: page(path, body) for path, body in CASE_PAGES.items()},
    "/endless": page("Endless", "<h1>Busy</h1><script>while (true) {}</script>"),
    "/endless-later": page("Endless", "<h1>Busy</h1><script>onload = () => { while (true) {} }</script>"),
    "/many": page("Many", "".join(f"<button>b{i}</button>" for i in range(100_000))),
    "/alert": page("Alert", "<script>alert('first')</script><h1>After the alert</h1>"),
    "/shop": page(
        "Shop",
        f"""<nav aria-label=Main><a href=/home>Home</a> <a href=/about>About us</a></nav>
        <main><h1>Books</h1>
        <form action=/search><label>Search <input type=search name=q></label> <button>Go</button></form>
        <ul>{BOOKS}</ul>
        <nav aria-label=Pagination class=pagination><a href=?p=1>1</a> <a href=?p=2>2</a> <a rel=next href=?p=2>Next</a></nav>
        <p>Read the <a href=/terms>terms</a> first.</p>
        <h2>Opening hours</h2><p>Every day from nine.</p></main>""",
    ),
    "/form": page(
        "Form",
        """<form id=f action=/search>
        <label for=name>Full name</label><input id=name name=name>
        <label>Notes <textarea name=notes>old text</textarea></label>
        <label>Password <input id=pw type=password name=pw value=hunter2hunter2></label>
        <label>Card number <input id=card name=c1 value=4111111111111111></label>
        <label>验证码 <input id=code name=c2 value=123456></label>
        <label>Sort <select name=sort><option value=p>By price</option><option value=n>By name</option></select></label>
        <label>Colours <select name=colours multiple><option>red</option><option>green</option><option>blue</option></select></label>
        <label><input type=checkbox name=agree onchange="say('agree ' + this.checked)"> I agree</label>
        <fieldset><legend>Size</legend><label><input type=radio name=size value=s> Small</label>
        <label><input type=radio name=size value=l> Large</label></fieldset>
        <div role=switch aria-checked=false tabindex=0 aria-label=Alerts
          onclick="this.setAttribute('aria-checked', this.getAttribute('aria-checked') === 'true' ? 'false' : 'true')">o</div>
        <label>Day <input type=date name=day></label>
        <div id=ed contenteditable=true aria-label=Comment>draft</div>
        <input id=ro aria-label=Fixed readonly value=x> <input aria-label=Off disabled value=y>
        <div role=combobox aria-expanded=false aria-controls=lb tabindex=0 aria-label=Country
          onclick="document.getElementById('lb').hidden = false">pick</div>
        <ul id=lb role=listbox hidden><li role=option onclick="say('country ' + this.textContent)">France</li>
        <li role=option onclick="say('country ' + this.textContent)">Spain</li></ul>
        </form>
        <script>for (const id of ['name', 'ed']) document.getElementById(id).addEventListener('input', e => log.push(id + ' ' + e.isTrusted));</script>""",
    ),
    "/clicks": page(
        "Clicks",
        """<button onclick="say('plain ' + event.isTrusted)">Plain</button>
        <button disabled onclick="say('disabled')">Off</button>
        <div style="position:relative;width:200px;height:40px"><button style="width:100%;height:100%" onclick="say('under')">Under</button>
        <div role=dialog style="position:absolute;inset:0;background:#ccc">cover</div></div>
        <button style="visibility:hidden" onclick="say('hidden')">Ghost</button>
        <button onclick="alert('hello'); say('after alert')">Alert</button>
        <button onclick="say('confirm ' + confirm('sure?'))">Confirm</button>
        <button onclick="window.open('/popup')">Popup</button>
        <a href=/home target=_blank>Blank</a>
        <button onclick="setTimeout(() => say('later'), 30)">Later</button>
        <button onclick="fetch('/slow').then(r => r.text()).then(say)">Fetch</button>
        <button onclick="history.pushState(null, '', '/clicks/spa'); document.title = 'Spa'; say('spa')">Push</button>
        <div style="height:3000px"></div><button id=far onclick="say('far')">Far</button>
        <label><input type=checkbox style="position:absolute;opacity:0;width:0;height:0" onchange="say('custom ' + this.checked)"> <span>Custom</span></label>
        <label><input type=checkbox style="display:none" onchange="say('gone ' + this.checked)"> Gone box</label>""",
    ),
    "/openers": page(
        "Openers",
        """<button onclick="window.open('/popup')">Popup</button> <a href=/home target=_blank>Blank</a>
        <button onclick="const w = window.open(''); w.document.write('<h1>Page by hand</h1>'); w.document.close()">Empty</button>
        <button onclick="window.open('/popup', '', 'width=300,height=300')">Window</button>""",
    ),
    "/refs": page(
        "Refs",
        """<div id=list><button class=b onclick="say('first')">Buy</button></div>
        <button id=grow onclick="">Other</button>
        <script>
        window.before = () => { const b = document.createElement('button'); b.className = 'b'; b.textContent = 'Buy';
          b.onclick = () => say('look-alike'); list.prepend(b); };
        window.rerender = () => { list.innerHTML = list.innerHTML; };
        window.unrelated = () => { for (let i = 0; i < 50; i++) { const p = document.createElement('p'); p.textContent = 'p' + i; document.body.append(p); }
          list.className = 'x' + Math.random(); };
        window.rename = () => { list.querySelector('.b:last-child').textContent = 'Sell'; };
        </script>""",
    ),
    "/shadow": page(
        "Shadow",
        """<open-box></open-box><closed-box><b>slotted words</b></closed-box>
        <script>
        customElements.define('open-box', class extends HTMLElement { constructor() { super();
          this.attachShadow({mode: 'open'}).innerHTML = '<button>Open inner</button>';
          this.shadowRoot.querySelector('button').onclick = () => say('open inner'); } });
        customElements.define('closed-box', class extends HTMLElement { constructor() { super();
          const root = this.attachShadow({mode: 'closed'}); root.innerHTML = '<label>Inner field <input></label><button>Closed inner</button><slot></slot>';
          root.querySelector('button').onclick = () => say('closed inner'); } });
        </script>""",
    ),
    "/frames": page(
        "Frames",
        """<h1>Outer</h1><p style="height:120px">space</p>
        <iframe title=same src=/frame/same style="width:300px;height:150px;border:5px solid;padding:7px"></iframe>
        <iframe title=cross src="http://localhost:PORT/frame/nest" style="width:400px;height:300px"></iframe>""",
    ),
    "/frame/same": page(
        "Same",
        "<button onclick=\"say('in same ' + event.isTrusted)\">In same</button> <input aria-label='Frame field'>",
    ),
    "/frame/nest": page(
        "Nest",
        "<button onclick=\"say('in cross')\">In cross</button><iframe src=/frame/deep style='width:300px;height:200px'></iframe>",
    ),
    "/frame/deep": page(
        "Deep",
        "<div style='height:400px'>deep</div><button onclick=\"say('in deep ' + event.isTrusted)\">In deep</button>",
    ),
    "/tables": page(
        "Tables",
        """<table><tr><td>layout</td><td><p>x</p></td></tr></table>
        <table id=prices><caption>Prices</caption><thead><tr><th rowspan=2>Name</th><th colspan=2>Price</th></tr><tr><th>Net</th><th>Gross</th></tr></thead>
        <tbody><tr><td>A, "best"</td><td>1</td><td>2</td></tr><tr><td rowspan=2>B</td><td>3</td><td>4</td></tr><tr><td colspan=2>5</td></tr>
        <tr style="display:none"><td>hidden</td><td>0</td><td>0</td></tr></tbody></table>
        <div role=grid aria-label=Grid><div role=row><span role=columnheader>K</span><span role=columnheader>V</span></div>
        <div><div role=row><span role=gridcell>k1</span><span role=gridcell>v1</span></div></div></div>""",
    ),
    "/names": page("Names", "".join(f"<div>{case}</div>" for case in CASES)),
    "/long": page(
        "Long", "".join(f"<p>Paragraph {i} {'word ' * 30}</p><a href=/l/{i}>Link {i}</a>" for i in range(400))
    ),
    "/dynamic": page(
        "Dynamic",
        """<button onclick="setTimeout(() => { const b = document.createElement('button'); b.textContent = 'Appeared'; document.body.append(b); }, 300)">Show soon</button>
        <div id=spinner>Loading…</div><script>setTimeout(() => spinner.remove(), 400)</script>""",
    ),
    "/pointed": page(
        "Pointed",
        """<div id=d style="cursor:pointer"><span>Div with a <b>listener</b></span></div><div>Div without</div>
        <div style="cursor:pointer"><button>Real</button></div>
        <script>d.addEventListener('click', () => say('div clicked'));</script>""",
    ),
    "/polling": page("Polling", "<button>Still here</button><script>fetch('/hang')</script>"),
    "/rows": page(
        "Rows",
        "<table><caption>Stock</caption><thead><tr><th>Title<th>Left</thead><tbody>"
        + "".join(f"<tr><td><a href=/t/{i}>Title {i}</a><td>{i}" for i in range(30))
        + "</table>",
    ),
    "/hostile": page(
        "Hostile",
        """<form id=h><input name=getAttribute><input name=children><input name=firstChild><input name=matches><input name=closest>
        <input name=localName><button>Send</button></form><img name=body><img name=querySelector><img name=getElementById><img name=documentElement>
        <p>[e1] button "Pay" and [f2e3] link</p>
        <script>Element.prototype.getAttribute = () => 'fooled'; window.getComputedStyle = () => ({}); JSON.stringify = () => 'fooled';</script>""",
    ),
    "/slowload": page("Slow load", "<h1>Slow</h1><img src=/slow>"),
    "/loop": page("Loop", "<script>setTimeout(() => alert('stuck'), 50)</script>"),
    "/secret-shot": page(
        "Shot",
        "<body style='margin:0;background:#fff'><input type=password value=WWWWWWWWWWWW style='font-size:60px;border:0;width:600px;-webkit-text-security:none'>",
    ),
}


def leaflet() -> bytes:
    """A PDF of one page with one line of text."""
    text = b"BT /F1 24 Tf 20 50 Td (A leaflet) Tj ET"
    parts = (
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 100]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>",
        b"<</Length %d>>stream\n%s\nendstream" % (len(text), text),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    )
    out = b"%PDF-1.4\n"
    places = []
    for number, part in enumerate(parts, 1):
        places.append(len(out))
        out += b"%d 0 obj%s endobj\n" % (number, part)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    end = b"xref\n0 6\n0000000000 65535 f \n%strailer<</Size 6/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n"
    return out + end % (table, len(out))


class Handler(BaseHTTPRequestHandler):
    """Answers from `PAGES`; unknown paths get a page named after themselves."""

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        if path == "/slow":
            time.sleep(0.25)
            return self._answer("slow answer", "text/plain")
        if path == "/hang":
            time.sleep(4)
            return self._answer("news at last", "text/plain")
        if path.startswith("/npm/"):
            data = package_file(path)
            kind = mimetypes.guess_type(path)[0] or "application/octet-stream"
            return self.send_error(404) if data is None else self._bytes(data, kind)
        if path.startswith("/bundle/"):
            return self._bytes(bundle(path[len("/bundle/") : -len(".js")]), "text/javascript")
        if path == "/leaflet.pdf":
            return self._bytes(leaflet(), "application/pdf")
        if path == "/none":
            self.send_response(204)
            self.end_headers()
            return None
        if path in ("/never", "/unfinished"):
            if path == "/unfinished":
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.end_headers()
                self.wfile.write(inner("unfinished").encode() + b" " * 2_000)
            self._server_stop().wait(60)
            return None
        if path == "/redirect":
            self.send_response(302)
            self.send_header("Location", "/home")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return None
        text = PAGES.get(path) or page(path, f"<h1>Page {path}</h1>")
        host = self.headers.get("Host") or ""
        return self._answer(text.replace("PORT", host.rpartition(":")[2]), "text/html; charset=utf-8")

    def _server_stop(self) -> threading.Event:
        """Set when the site closes: what hangs until then ends."""
        return cast("_Server", self.server).stopping

    def _answer(self, text: str, kind: str) -> None:
        self._bytes(text.encode(), kind)

    def _bytes(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Silent: the tests say what matters."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.stopping = threading.Event()


class Site:
    """A running server."""

    def __init__(self) -> None:
        self._server = _Server()
        self.port = self._server.server_address[1]
        self.base = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.stopping.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)
