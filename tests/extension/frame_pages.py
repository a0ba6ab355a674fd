"""Pages made of frames of every kind, for the extension's live tests; `localhost` is their second origin."""

from __future__ import annotations

from typing import Final

KINDS: Final = (
    "plain",
    "cross",
    "sandboxed",
    "scriptless",
    "srcdoc",
    "unfinished",
    "data",
    "blob",
    "written",
    "object",
    "shadow",
    "nested",
    "deepest",
)


def inner(kind: str, more: str = "") -> str:
    """One frame's document: a heading, a button, a field, a table, and what its button was pressed by."""
    return (
        f"<!doctype html><title>{kind}</title><h2>Head {kind}</h2>"
        f'<button onclick="this.nextSibling.textContent = `{kind} pressed ` + event.isTrusted">Press {kind}</button><p></p>'
        f"<label>Field {kind} <input></label><table><caption>Table {kind}</caption><tr><th>A<th>B<tr><td>{kind} one<td>{kind} two</table>{more}"
    )


_SRCDOC: Final = inner("srcdoc").replace('"', "&quot;")
_SCRIPT: Final = f"""
b.src = URL.createObjectURL(new Blob([{inner("blob")!r}], {{type: 'text/html'}}));
w.contentDocument.write({inner("written")!r}); w.contentDocument.close();
s.attachShadow({{mode: 'closed'}}).innerHTML = '<iframe src="http://localhost:PORT/kinds/shadow"></iframe><iframe name=second width=200 src="http://localhost:PORT/kinds/shadow2"></iframe>';
"""

FRAME_PAGES: Final[dict[str, str]] = {
    "/kinds": f"""<!doctype html><html lang=en><meta charset=utf-8><title>Kinds</title><h1>Kinds</h1><button>Outer</button>
        <iframe src=/kinds/plain style="transform:scale(.5);padding:9px;border:7px solid"></iframe>
        <iframe src="http://localhost:PORT/kinds/cross" style="height:900px"></iframe>
        <iframe sandbox=allow-scripts src=/kinds/sandboxed></iframe>
        <iframe sandbox src=/kinds/scriptless></iframe>
        <iframe srcdoc="{_SRCDOC}"></iframe>
        <iframe src=/never></iframe>
        <iframe src="http://localhost:PORT/unfinished"></iframe>
        <iframe src="http://localhost:1/"></iframe>
        <iframe src="data:text/html,{inner("data").replace('"', "%22").replace("#", "%23")}"></iframe>
        <iframe id=b></iframe><iframe id=w></iframe>
        <object type=text/html data=/kinds/object></object><div id=s></div>
        <script>{_SCRIPT.replace("</", "<" + chr(92) + "/")}</script>""",
    **{
        f"/kinds/{name}": inner(name)
        for name in ("plain", "sandboxed", "scriptless", "object", "shadow", "shadow2")
    },
    "/kinds/cross": inner(
        "cross",
        "<div style='height:300px'></div><iframe src='http://127.0.0.1:PORT/kinds/nested' style='margin:9px;border:3px solid'></iframe>",
    ),
    "/kinds/nested": inner("nested", "<iframe src='http://localhost:PORT/kinds/deepest'></iframe>"),
    "/kinds/deepest": inner("deepest"),
    "/busy-frame": """<!doctype html><title>Busy frame</title><h1>Around</h1><button onclick="this.textContent = 'Pressed'">Press</button>
        <iframe src="http://localhost:PORT/kinds/plain"></iframe><iframe src="http://busy.localhost:PORT/busy-soon"></iframe>
        <iframe src=/kinds/object></iframe>""",
    "/busy-soon": "<!doctype html><title>Busy</title><button>Lost</button><script>setTimeout(() => { while (true) {} }, 300)</script>",
    "/covered-frame": """<!doctype html><title>Covered</title><div style="position:relative"><iframe src="http://localhost:PORT/kinds/plain"></iframe>
        <div role=dialog style="position:absolute;inset:0;background:#ccc">cover</div></div>""",
    "/card": """<!doctype html><html lang=en><title>Pay</title><h1>Checkout</h1>
        <div role=presentation><iframe role=presentation title="" src="http://localhost:PORT/card/outer" style="height:400px"></iframe></div><p>Total 12.50</p>""",
    "/card/outer": "<!doctype html><title>o</title><iframe role=presentation src='http://127.0.0.1:PORT/card/inner' style='height:300px'></iframe>",
    "/card/inner": """<!doctype html><title>i</title><form onsubmit="out.textContent = 'paid by ' + holder.value; return false">
        <label>Name on card <input id=holder autocomplete=cc-name></label> <label>Card number <input autocomplete=cc-number value=4111111111111111></label>
        <label>CVV <input value=987></label> <button>Pay</button></form><p id=out></p>""",
}
