"""Pages for the live tests of extraction: tables of every kind, articles, lists, what surrounds them."""

from __future__ import annotations

from typing import Final

_STORY: Final = "".join(
    f"<p>Paragraph {i} of the story goes on for a while, with commas, and words, so that it counts as one, and more.</p>"
    for i in range(1, 13)
)

# Draws only the rows in view, in a box of its own, and says nothing of their number.
_DRAWN: Final = """<div id=box style="height:200px;overflow:auto"><table id=t><caption>Drawn</caption><thead><tr><th>No<th>Name</thead>
<tbody id=body></tbody></table></div>
<script>
const N = 400, H = 20;
function draw() {
  const first = Math.max(0, Math.floor(box.scrollTop / H) - 3), last = Math.min(N, first + 18);
  let html = `<tr style="height:${first * H}px"></tr>`;
  for (let i = first; i < last; i++) html += `<tr style="height:${H}px"><td style="padding:0;height:${H}px">${i + 1}</td><td style="padding:0">Name ${i % 3}</td></tr>`;
  body.innerHTML = html + `<tr style="height:${(N - last) * H}px"></tr>`;
}
box.addEventListener('scroll', draw); draw();
</script>"""

# An ARIA grid with rows placed by style, two parts a row (a fixed column), numbered from 1 with its header.
_GRID: Final = """<div role=grid aria-label=Grid aria-rowcount=301 aria-colcount=3 style="position:relative">
<div role=row aria-rowindex=1><span role=columnheader aria-colindex=1>Id</span><span role=columnheader aria-colindex=2>City</span><span role=columnheader aria-colindex=3>Sum</span></div>
<div id=box style="height:150px;overflow-y:scroll;position:relative"><div id=all style="height:6000px;position:relative"></div></div></div>
<script>
function part(i, html) { return `<div role=row aria-rowindex=${i + 2} style="position:absolute;top:${i * 20}px;height:20px">${html}</div>`; }
function draw() {
  const first = Math.floor(box.scrollTop / 20), rows = [];
  for (let i = Math.min(299, first + 9); i >= first; i--) {
    rows.push(part(i, `<span role=gridcell aria-colindex=1>#${i + 1}</span>`));
    rows.push(part(i, `<span role=gridcell aria-colindex=2 style="margin-left:90px">City ${i + 1}</span><span role=gridcell aria-colindex=3>${i * 2}</span>`));
  }
  all.innerHTML = rows.join('');
}
let due = 0;
box.addEventListener('scroll', () => { clearTimeout(due); due = setTimeout(draw, 20); }); draw();
</script>"""

EXTRACT_PAGES: Final[dict[str, str]] = {
    "/long-framed": "<h1>Long</h1>"
    + "".join(f"<p>Paragraph {i} of a page that goes on and on, as pages do.</p>" for i in range(150))
    + "<iframe srcdoc='<button>Framed</button><a href=/in>Inner link</a>'></iframe>",
    "/pages": """<div><a href=/a>One</a></div><ul class=pager><li><a href=?p=1>1</a><li><a href=?p=2>2</a><li><a href=?p=3>3</a><li><a href=?p=9>下一页</a></ul>
    <p>Version <a href=/v/7>7</a> of 2026</p><button>加载更多</button><p><a href=/del>Delete</a> <a href=/news>News</a></p>""",
    "/grouped": """<table><caption>Trains</caption>
        <tr><th scope=col>From<th scope=col>To<th scope=col>Takes</tr>
        <tr><th colspan=3>Morning</tr><tr><td>A<td>B<td>1 h</tr><tr><td>A<td>C<td>2 h</tr>
        <tr><th>From<th>To<th>Takes</tr>
        <tr><th colspan=3 scope=colgroup>Evening</tr><tr><th scope=row>D<td rowspan=9>E<td>3 h</tr><tr><th scope=row>F<td>4 h</tr>
        <tbody><tr><td>G<td>H<td>5 h</tr></tbody></table>""",
    "/thead": """<table><thead><tr><td>Name</td><td></td><td>Age</td></tr></thead>
        <tr><td>Ann</td><td></td><td>7</td></tr><tr><td>Ben</td><td></td><td>9</td></tr></table>""",
    "/headers": """<table><tr><td></td><th id=q1>Q1</th><th id=q2>Q2</th></tr><tr><th id=n>North</th><td headers="q1 n">1</td><td headers="q2 n">2</td></tr>
        <tr><th id=s>South</th><td headers="q1 s">3</td><td headers="q2 s">4</td></tr></table>""",
    "/sorted": """<table><thead><tr><th><span>Name</span><button aria-label="Name: sort down"></button></th><th><button aria-label="Sort by age">Age</button></th>
        <th><a href=?o=1 title="Toggle sorting"></a><a href=?o=2>City</a></th><th>Paid ▲</th></tr></thead><tr><td>Ann<td>7<td>Ulm<td><input type=password value=hunter2></tr>
        <tr><td>Ben<td><select><option>8<option selected>9</select><td>Bonn<td><input value=yes></tr></table>""",
    "/nested": """<div role=grid aria-label=Month><table role=presentation><tr role=presentation><td role=presentation><table role=presentation>
        <tr role=row><th role=columnheader>Mon<th role=columnheader>Tue</tr><tr role=row><td role=gridcell>1<td role=gridcell>2</tr>
        <tr role=row><td role=gridcell>3<td role=gridcell>4</tr></table></td></tr></table></div>""",
    "/panels": """<div><section class=panel>One panel <a href=/x>x</a></section><section class=panel hidden>Two <a href=/x>x</a></section><section class=panel hidden>Three <a href=/x>x</a></section></div>
        <ul role=tree aria-label=Ports><li role=treeitem>Ulm</li><li role=treeitem>Bonn</li><li role=treeitem>Kiel</li></ul>""",
    "/drawn": _DRAWN,
    "/virtual-grid": _GRID,
    "/story": f"""<header><nav><a href=/>Home</a> <a href=/news>News</a></nav></header><main><article><h1>A long story</h1>
        <p class=byline>By <a rel=author href=/ann>Ann Author</a></p>{_STORY}<h2>Later</h2>
        <ul><li>First thing that happened in the story, as told</li><li>Second thing that happened in the story, as told</li></ul>
        <p style="display:none">Nobody sees this sentence of the story.</p><pre>keep   these
  spaces</pre>{_STORY}</article></main><aside>Buy our tea</aside><footer>Imprint</footer>
        <form><input name=parentNode><input name=attributes><input name=children></form><img name=body><img name=head>""",
    "/shadow-story": f"""<nav><a href=/>Home</a></nav><my-story></my-story><script>
        document.querySelector('my-story').attachShadow({{mode: 'closed'}}).innerHTML = `<article><h1>Told in the shadow</h1>{_STORY}</article>`;
        </script>""",
    "/no-article": "<h1>Login</h1><form><label>Name <input></label><button>Go</button></form>",
    "/around": """<div class=site-header><a href=/>Logo</a></div><div id=cookie-banner>We use cookies. <button>Accept</button></div>
        <ul><li><a href=/a>A page</a><li><a href=/b>B page</a><li><a href=/c>C page</a><li><a href=/d>D page</a></ul>
        <div class=content><h1>Opening</h1><p>The museum opens at nine, see the <a href=/plan>plan</a>.</p>
        <article class=share-holders><header><p>Of the holders</p></header><p>Every holder of a share gets a seat, and that is all there is to say.</p></article></div>
        <div class="sidebar"><p>Ads</p></div><footer>Imprint <a href=/imprint>here</a></footer>""",
    "/around-main": """<div><p>Before main</p></div><main><nav><a href=#x>On this page</a></nav><p>The content itself.</p><ul><li><a href=/1>One</a><li><a href=/2>Two</a>
        <li><a href=/3>Three</a><li><a href=/4>Four</a></ul></main><p>After main</p>""",
}
