"""Pages about input: gestures, drags, sliders, fields of every type, and widgets and editors from npm around a few lines."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path
from typing import Final

MODULES: Final = Path(__file__).resolve().parents[2] / "extension" / "node_modules"

GESTURE_PAGES: Final[dict[str, str]] = {
    "/gestures": """<style>#menu ul {display:none} #menu:hover ul {display:block}</style>
        <button ondblclick="say('double ' + event.isTrusted + ' ' + clicks)" onclick="clicks++">Twice</button>
        <button oncontextmenu="say('context ' + event.button); return false">Right</button>
        <div id=menu style="width:200px"><button aria-haspopup=true>Products</button><ul><li><a href=#tea onclick="say('tea')">Tea</a></ul></div>
        <div id=lazy tabindex=0 role=button onmouseenter="say('entered'); extra.hidden = false">Account</div>
        <button id=extra hidden onclick="say('signed out')">Sign out</button>
        <button style="position:relative"  onclick="say('under')">Under</button>
        <script>let clicks = 0;</script>""",
    "/drags": """<style>.box {width:120px;height:60px;border:1px solid;margin:8px} #canvas {border:1px solid}</style>
        <div id=card class=box draggable=true role=button aria-label=Card>Card</div>
        <div id=bin class=box role=group aria-label=Bin tabindex=0>Bin</div>
        <div id=knob class=box role=button tabindex=0 aria-label=Knob>Knob</div>
        <div id=goal class=box role=group tabindex=0 aria-label=Goal>Goal</div>
        <svg width=200 height=120><circle id=spot cx=100 cy=60 r=30 tabindex=0 role=button aria-label=Spot fill=red></circle></svg>
        <ol id=list><li tabindex=0>One<li tabindex=0>Two<li tabindex=0>Three</ol>
        <script src=/npm/sortablejs/Sortable.min.js></script>
        <script>
        card.ondragstart = e => e.dataTransfer.setData('text/plain', 'the card');
        bin.ondragover = e => e.preventDefault();
        bin.ondrop = e => { e.preventDefault(); say('dropped ' + e.dataTransfer.getData('text/plain')); };
        let moves = 0, held = false;
        knob.onpointerdown = e => { held = true; if (e.isTrusted) knob.setPointerCapture(e.pointerId); };
        document.addEventListener('pointermove', () => { if (held) moves++; });
        document.addEventListener('pointerup', e => { if (!held) return; held = false;
          const at = document.elementsFromPoint(e.clientX, e.clientY).find(n => n.id && n.id !== 'knob');
          say('knob to ' + (at && at.id) + ' ' + (moves > 4)); });
        Sortable.create(list, {animation: 0});
        </script>""",
    "/sliders": """<div role=slider id=aria tabindex=0 aria-label=Volume aria-valuemin=0 aria-valuemax=50 aria-valuenow=10 style="width:100px;height:20px;border:1px solid">v</div>
        <div style="width:300px;height:20px;border:1px solid;position:relative"><div role=slider id=mouse aria-label=Balance tabindex=0 aria-valuemin=0 aria-valuemax=100
          aria-valuenow=0 style="position:absolute;left:0;width:10px;height:20px;background:red"></div></div>
        <label>Level <input id=level type=range min=0 max=10 step=2 value=4></label>
        <label>Count <input id=count type=number value=1></label>
        <link rel=stylesheet href=/npm/jquery-ui-dist/jquery-ui.min.css>
        <script src=/npm/jquery/dist/jquery.min.js></script><script src=/npm/jquery-ui-dist/jquery-ui.min.js></script>
        <div id=jq style="width:300px;margin:20px"></div><p id=val>0</p>
        <script>
        aria.onkeydown = e => { const d = {ArrowRight: 5, ArrowLeft: -5}[e.key]; if (d) aria.setAttribute('aria-valuenow', +aria.getAttribute('aria-valuenow') + d); };
        let down = false;
        mouse.onmousedown = () => down = true;
        document.addEventListener('mousemove', e => { if (!down) return; const r = mouse.parentNode.getBoundingClientRect();
          const v = Math.round(100 * (e.clientX - r.left) / r.width); mouse.setAttribute('aria-valuenow', Math.max(0, Math.min(100, v))); mouse.style.left = v * 2.9 + 'px'; });
        document.addEventListener('mouseup', () => down = false);
        $('#jq').slider({min: 0, max: 20, slide: (e, ui) => val.textContent = ui.value});
        </script>""",
    "/fields": """<label>Day <input id=day type=date></label> <label>Time <input id=time type=time></label>
        <label>When <input id=when type=datetime-local></label> <label>Month <input id=month type=month></label>
        <label>Week <input id=week type=week></label> <label>Amount <input id=amount type=range min=0 max=100 step=5></label>
        <label>Colour <input id=colour type=color></label>
        <script>for (const f of document.querySelectorAll('input')) for (const kind of ['input', 'change']) f.addEventListener(kind, () => log.push(f.id + ' ' + kind));</script>""",
    "/keys": """<label>Line <input id=line value="some words"></label><label>Area <textarea id=area></textarea></label>
        <button id=combo onkeydown="say([event.ctrlKey && 'ctrl', event.altKey && 'alt', event.shiftKey && 'shift', event.key].filter(Boolean).join('+'))">Combo</button>""",
    "/blur": """<div id=cell role=button tabindex=0 onclick="edit()">Cell</div> <p style="position:absolute;top:200px"><button onclick="say('saved ' + kept)">Save</button></p>
        <script>let kept = 'old'; function edit() { const i = document.createElement('input'); i.setAttribute('aria-label', 'Edit');
        cell.after(i); i.focus(); i.onblur = () => { kept = i.value; i.remove(); }; }</script>""",
    "/downloads": """<a href=/file download=report.txt>Report</a> <a href=/none>Nothing</a> <button>Idle</button>""",
    "/flatpickr": """<link rel=stylesheet href=/npm/flatpickr/dist/flatpickr.min.css><label>Date <input id=d placeholder=Pick></label>
        <label>Strict <input id=strict></label><script src=/npm/flatpickr/dist/flatpickr.min.js></script>
        <script>flatpickr('#d', {defaultDate: '2026-05-10', onChange: (_, text) => say(text)}).input.setAttribute('readonly', '');
        strict.onkeydown = e => e.preventDefault(); strict.oninput = () => strict.value = '';</script>""",
    "/complete": """<link rel=stylesheet href=/npm/jquery-ui-dist/jquery-ui.min.css><label>Port <input id=port></label>
        <script src=/npm/jquery/dist/jquery.min.js></script><script src=/npm/jquery-ui-dist/jquery-ui.min.js></script>
        <label>City <input id=city></label><ul role=listbox id=hits></ul>
        <script>$('#port').autocomplete({source: ['Rotterdam', 'Rostock', 'Riga'], delay: 0, select: (e, ui) => say(ui.item.value)});
        city.onkeyup = e => { if (!/^[a-z]$/i.test(e.key)) return; hits.innerHTML = ['Berlin', 'Bern'].filter(c => c.toLowerCase().startsWith(city.value.toLowerCase()))
          .map(c => `<li role=option onclick="say('${c}')">${c}</li>`).join(''); };</script>""",
    "/select2": """<link rel=stylesheet href=/npm/select2/dist/css/select2.min.css><script src=/npm/jquery/dist/jquery.min.js></script>
        <script src=/npm/select2/dist/js/select2.min.js></script><label for=s>Harbour</label>
        <select id=s style="width:200px" onchange="say(this.value)"><option>Alpha<option>Beta<option>Gamma</select><script>$('#s').select2()</script>""",
    "/jstree": """<link rel=stylesheet href=/npm/jstree/dist/themes/default/style.min.css><script src=/npm/jquery/dist/jquery.min.js></script>
        <script src=/npm/jstree/dist/jstree.min.js></script><div id=t></div><script>$('#t').on('select_node.jstree', (e, d) => say(d.node.text))
        .jstree({core: {animation: 0, data: [{text: 'North', children: ['Bergen', 'Tromso']}, 'South']}})</script>""",
    "/tabulator": """<link rel=stylesheet href=/npm/tabulator-tables/dist/css/tabulator.min.css><script src=/npm/tabulator-tables/dist/js/tabulator.min.js></script>
        <div id=g></div><script>new Tabulator('#g', {height: 200, data: [{id: 1, name: 'Ann'}, {id: 2, name: 'Bob'}],
        columns: [{title: 'Id', field: 'id'}, {title: 'Name', field: 'name', editor: 'input', cellEdited: c => say('edited ' + c.getValue())}]})</script>""",
    "/tinymce": """<script src=/npm/tinymce/tinymce.min.js></script><textarea id=x>old</textarea>
        <script>tinymce.init({selector: '#x', license_key: 'gpl', promotion: false, height: 300, plugins: '', iframe_aria_text: 'Story'})</script>""",
    "/quill": """<link rel=stylesheet href=/npm/quill/dist/quill.snow.css><div id=q></div><script src=/npm/quill/dist/quill.js></script>
        <script>window.q = new Quill('#q', {theme: 'snow'}); q.setText('old'); q.root.setAttribute('aria-label', 'Story'); window.told = () => q.getText().trim();</script>""",
    "/prosemirror": "<div id=editor></div><script src=/bundle/prosemirror.js></script>",
    "/lexical": "<div id=editor contenteditable=true aria-label=Story style='min-height:40px'></div><script src=/bundle/lexical.js></script>",
    "/react": "<div id=root></div><script src=/bundle/react.js></script>",
}

_SOURCES: Final = {
    "prosemirror": """
        import {EditorState} from "prosemirror-state"; import {EditorView} from "prosemirror-view";
        import {schema} from "prosemirror-schema-basic"; import {exampleSetup} from "prosemirror-example-setup";
        const doc = schema.node("doc", null, [schema.node("paragraph", null, [schema.text("old")])]);
        const view = new EditorView(document.querySelector("#editor"), {state: EditorState.create({doc, plugins: exampleSetup({schema})}), attributes: {"aria-label": "Story"}});
        window.told = () => view.state.doc.textContent;""",
    "lexical": """
        import {createEditor, $getRoot, $createParagraphNode, $createTextNode} from "lexical"; import {registerRichText} from "@lexical/rich-text";
        const editor = createEditor({namespace: "t", onError: e => { throw e; }});
        editor.setRootElement(document.querySelector("#editor")); registerRichText(editor);
        editor.update(() => $getRoot().append($createParagraphNode().append($createTextNode("old"))));
        window.told = () => editor.getEditorState().read(() => $getRoot().getTextContent());""",
    "react": """
        import React from "react"; import {createRoot} from "react-dom/client";
        function App() {
          const [name, setName] = React.useState("Ada"); const [on, setOn] = React.useState(false); const [size, setSize] = React.useState("s"); const [day, setDay] = React.useState("");
          window.told = () => JSON.stringify([name, on, size, day]);
          const h = React.createElement;
          return h("form", {onSubmit: e => { e.preventDefault(); say("sent " + name); }},
            h("label", null, "Name", h("input", {value: name, onChange: e => setName(e.target.value.toUpperCase())})),
            h("label", null, h("input", {type: "checkbox", checked: on, onChange: e => setOn(e.target.checked)}), "On"),
            h("label", null, "Size", h("select", {value: size, onChange: e => setSize(e.target.value)}, h("option", {value: "s"}, "Small"), h("option", {value: "l"}, "Large"))),
            h("label", null, "Day", h("input", {type: "date", value: day, onChange: e => setDay(e.target.value)})),
            h("button", null, "Send"));
        }
        createRoot(document.querySelector("#root")).render(React.createElement(App));""",
}


@cache
def bundle(name: str) -> bytes:
    """A page's script with the libraries it imports, by esbuild."""
    command = [
        str(MODULES / ".bin" / "esbuild"),
        "--bundle",
        "--format=iife",
        "--loader=js",
        "--log-level=error",
    ]
    define = ['--define:process.env.NODE_ENV="production"']
    done = subprocess.run(
        [*command, *define],
        input=_SOURCES[name].encode(),
        cwd=MODULES.parent,
        capture_output=True,
        timeout=60,
        check=True,
    )
    return done.stdout


def package_file(path: str) -> bytes | None:
    """A file below `/npm/`; None if there is none."""
    file = (MODULES / path.removeprefix("/npm/")).resolve()
    return file.read_bytes() if file.is_file() and file.is_relative_to(MODULES) else None
