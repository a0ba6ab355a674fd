"""Pages with things to click that have neither role nor name: drawn squares, icons, shapes."""

from __future__ import annotations

from typing import Final

_SAY: Final = """<script>window.log = []; addEventListener('click', (e) => { const at = e.target.closest('[data-say]');
if (at) log.push(at.dataset.say); });</script>"""

MARK_PAGES: Final[dict[str, str]] = {
    "/marks": f"""<!doctype html><meta charset=utf-8><title>Marks</title>
<style>
  .colour {{ width: 30px; height: 30px; display: inline-block }}
  .thread {{ cursor: pointer; width: 300px; height: 40px }}
  .trash, .star {{ width: 16px; height: 16px; display: inline-block;
                   background-image: url("data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg'/>") }}
  .stripe {{ height: 40px; background: silver }}
  .spacer {{ width: 20px; height: 20px }}
  .field {{ width: 30px; height: 30px; display: inline-block; border: 1px solid black }}
  .icon {{ width: 16px; height: 16px;
           content: url("data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg' width='16' height='16'/>") }}
  .sample {{ width: 12px; height: 12px; border: 1px solid black; display: inline-block; background: yellow }}
  .css-1q2w3e4r5t {{ width: 20px; height: 20px; display: inline-block; background: orange }}
</style>
<div class=colour style="background-color: red" data-say=red></div>
<div class=colour style="background-color: #3a5fcd" data-say=blue></div>
<div style="cursor: pointer; width: 200px"><span class=answer data-say=answer><b class="icon back"></b>Answer</span>
  <span class=pass data-say=pass><b class="icon onward"></b>Pass on</span></div>
<div class=thread>Mail from Ada <span class=trash data-say=trash></span><span class=star data-say=star></span></div>
<div class=stripe></div><div class=spacer></div>
<span class=field id=ttt-0 data-say=field></span>
<span class="css-1q2w3e4r5t" data-say=generated></span>
<span class="icon like" data-say=like></span>
<div style="background: yellow"><span class=sample data-say=sample></span></div>
<div draggable=true data-say=drag>Drag me</div><div class="box ui-draggable" data-say=library>L</div>
<div style="cursor: move; width: 40px" data-say=move>Move <span>me</span></div>
<button class="ql-bold" style="width: 20px; height: 20px" data-say=bold></button>
{_SAY}""",
    "/handle": """<!doctype html><meta charset=utf-8><title>Handle</title>
<div style="position: relative; width: 200px; height: 20px">
  <span tabindex=0 style="position: absolute; left: 10px; width: 12px; height: 12px; background: teal"></span></div>
<p id=value>10</p>
<script>
  document.querySelector('[tabindex]').addEventListener('keydown', (e) => {
    if (e.key !== 'ArrowRight') return;
    const left = parseInt(e.target.style.left) + 1;
    e.target.style.left = `${left}px`;
    value.textContent = left;
  });
</script>""",
    "/shapes": f"""<!doctype html><meta charset=utf-8><title>Shapes</title>
<svg width=200 height=160>
  <defs><rect id=template width=50 height=50></rect></defs>
  <rect x=5 y=5 width=40 height=30 fill=red data-say=rect></rect>
  <circle cx=100 cy=40 r=20 fill=blue data-say=circle></circle>
  <path d="M 100 100 L 190 100 A 90 90 0 0 1 100 155 Z" fill=green data-say=slice></path>
  <rect x=0 y=0 width=10 height=10 fill=none></rect>
  <text x=20 y=100 data-say=seven>7</text>
</svg>
<svg width=20 height=20><circle cx=10 cy=10 r=8></circle></svg>
<svg width=300 height=300>{"".join(f"<circle cx={i} cy={i} r=5 />" for i in range(100))}</svg>
{_SAY}""",
}
