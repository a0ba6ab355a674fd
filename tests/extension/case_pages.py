"""Pages that made other tools stumble, for the extension's live tests: each says in `#out` what really happened to it."""

from __future__ import annotations

from typing import Final

_DELETES: Final = "".join(
    f"<div><span>Invoice {i}</span> <button onclick=\"say('deleted {i}')\">Delete</button></div>"
    for i in range(1, 6)
)
_MANY: Final = "".join(
    f"<tr><td>Row {i}</td><td><a href=/row/{i}>Open {i}</a></td><td><button>Edit {i}</button></td></tr>"
    for i in range(5_000)
)

CASE_PAGES: Final[dict[str, str]] = {
    "/case/rerender": """<ul id=list></ul><script>
        function draw(n) { list.innerHTML = ''; for (let i = 0; i < 3; i++) { const b = document.createElement('button');
          b.textContent = 'Choose ' + 'ABC'[i]; b.onclick = () => say('chose ' + 'ABC'[i] + ' of drawing ' + n); const li = document.createElement('li'); li.append(b); list.append(li); } }
        draw(1); let n = 1; document.addEventListener('pointermove', () => draw(++n)); setInterval(() => draw(++n), 400);</script>""",
    "/case/deletes": _DELETES,
    "/case/tiles": """<style>.tile{display:inline-block;padding:20px;cursor:pointer}</style>
        <div class=tile>Monthly plan</div><div class=tile>Yearly plan</div>
        <script>for (const t of document.querySelectorAll('.tile')) t.addEventListener('click', () => say('picked ' + t.textContent));</script>""",
    "/case/cell": """<table><caption>Stock</caption><tr><th>Item<th>Actions<tr><td>Lamp<td><button onclick="say('lamp edit')">Edit</button>
        <button onclick="say('lamp copy')">Copy</button> <button onclick="say('lamp remove')">Remove</button></table>""",
    "/case/blur": """<input id=a aria-label=Code><button onclick="say('sent')">Send</button>
        <script>a.addEventListener('blur', () => { a.remove(); say('field gone'); });</script>""",
    "/case/infinite": """<div id=feed></div><script>let n = 0; function more() { for (let i = 0; i < 20; i++) { const p = document.createElement('p');
        p.style.height = '80px'; p.textContent = 'Post number ' + (++n); feed.append(p); } } more();
        addEventListener('scroll', () => { if (n < 200 && scrollY + innerHeight > document.documentElement.scrollHeight - 300) setTimeout(more, 80); });</script>""",
    "/case/wall": """<button onclick="say('bought')">Buy now</button><div role=dialog aria-label=Cookies style="position:fixed;inset:0;background:#fffd">
        <p>We use cookies</p><button onclick="this.parentNode.remove()">Reject all</button></div>""",
    "/case/picker": """<label>Arrival <input id=d readonly onclick="cal.hidden = false" onkeydown="event.preventDefault()"></label>
        <table id=cal hidden aria-label=Calendar><tr><td><button onclick="d.value = '2026-03-14'; cal.hidden = true; say('arrival ' + d.value)">14</button><td><button>15</button></table>""",
    "/case/autocomplete": """<label>City <input id=c role=combobox aria-expanded=false aria-controls=opts autocomplete=off></label><ul id=opts role=listbox hidden></ul>
        <script>c.addEventListener('input', () => { opts.innerHTML = ''; for (const t of ['Berlin', 'Bern', 'Bergen'].filter(t => c.value && t.startsWith(c.value)))
          { const li = document.createElement('li'); li.setAttribute('role', 'option'); li.textContent = t; li.onmousedown = () => { c.value = t; opts.hidden = true; say('city ' + t); }; opts.append(li); }
          opts.hidden = !opts.children.length; });
        c.addEventListener('keydown', e => { if (e.key === 'ArrowDown' && e.isTrusted) { opts.firstChild?.setAttribute('aria-selected', 'true'); }
          if (e.key === 'Enter' && e.isTrusted) { const o = opts.querySelector('[aria-selected]'); if (o) o.onmousedown(); } });</script>""",
    "/case/alert": "<script>alert('welcome')</script><h1>After the welcome</h1>",
    "/case/hostile": """<button onclick="out.textContent = 'pressed'">Press me</button> <label>Word <input id=w oninput="out.textContent = 'word ' + w.value"></label><script>
        Array.prototype.map = Array.prototype.push = Array.prototype.filter = () => { throw new Error('no'); };
        Array.prototype[Symbol.iterator] = function* () {}; JSON.stringify = JSON.parse = () => 'fooled'; Map.prototype.get = () => 'fooled';
        Element.prototype.getBoundingClientRect = () => ({x: -9, y: -9, width: 0, height: 0}); Element.prototype.closest = () => null;
        Node.prototype.contains = () => false; document.elementFromPoint = () => null; Promise.prototype.then = () => {};</script>""",
    "/case/large": f"<table><caption>Everything</caption>{_MANY}</table>",
    "/case/secrets": """<form onsubmit="say('sent ' + p.value.length); return false"><label>Password <input id=p type=password value=sesame77></label>
        <label>一次性密码 <input value=482913></label> <label>API token <input value=tok-5551></label> <button>Sign in</button></form>""",
    "/case/editor": """<div id=e contenteditable=true aria-label=Story>old</div><script>e.addEventListener('input', () => say('story ' + e.textContent));</script>""",
    "/case/late": """<script>setTimeout(() => { const b = document.createElement('button'); b.textContent = 'At last'; b.onclick = () => say('late'); document.body.append(b); }, 700)</script>""",
    "/case/tall": "<h1>Top</h1>"
    + "".join(f"<p style='height:180px;background:hsl({i * 9},60%,60%)'>Band {i}</p>" for i in range(40)),
    "/case/spin": "<div id=s>0</div><script>setInterval(() => s.textContent = +s.textContent + 1, 10)</script><button onclick=\"say('calm')\">Press</button>",
}
