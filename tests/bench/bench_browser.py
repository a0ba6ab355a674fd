"""A click and an observation through worker, bridge and extension, against the same done by the debugger's protocol directly.

One browser, one tab for both ways, rounds interleaved. The click: a checkbox of a small page; the page counts what reaches it
and every click must arrive, by both ways, trusted. Directly it is the usual three commands: the element's box, pressed, released.
What the extension waits for a click's consequences is taken off, as it says so itself (`settle_us`); the sum is printed too.
The observation: a page of 5,000 elements; directly it is the same page runtime, evaluated in an isolated world of its own,
the whole answer returned. Playwright's aria snapshot of that page is taken last, when nothing else is measured any more.
`browser_ground.py` says how either way goes.
"""

from __future__ import annotations

import asyncio
import json
import re
import statistics
import sys
import time
from pathlib import Path

import uvloop
from browsercell.protocol import limits as L

from tests.bench.aria import aria, debugging_port
from tests.bench.browser_ground import Direct, Ground, ground, served
from tests.bench.harness import FloorUnavailable, Ratio, load, main, median_ratio, missing
from tests.bridge.harness import WorkerPeer
from tests.extension.launcher import DIST
from tests.support.live import private_place

GOAL_CLICK = 2.0
GOAL_OBSERVE = 1.3
GOAL_ARIA = 0.25
SNAPSHOTS = 8
TASKS = 4  # each may make 40 calls
WARM_UP = 4  # calls at the start of a tab: attaching, injecting, compiling
OBSERVATIONS = (
    17  # a task; between two of them something is clicked, or the task would be ended for standing still
)
ELEMENTS = 5_000
BOX = "(() => { const r = document.getElementById('box').getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()"
# Seconds before each click of either way: what the last one set going is over, and every process on the way sleeps, as it does
# while a model thinks. Without it one way would find awake what the other has just used.
REST = 0.05

# Looks the same checked or not: drawing is no part of dispatching, and on few cores it would hold up whatever comes next.
_COUNT = """<style>#box { appearance: none; width: 20px; height: 20px; background: gray; outline: none }</style>
<label><input type="checkbox" id="box"> Count</label>
<script>window.seen = 0; document.getElementById("box").addEventListener("click", (e) => { if (e.isTrusted) window.seen++; });</script>"""
SMALL = f"<!doctype html><title>Clicks</title><h1>Clicks</h1>{_COUNT}"


def large() -> str:
    """A shop's list: 625 records of eight elements, of which three can be acted on."""
    record = (
        '<li><article><h3><a href="/b/{n}">Book number {n}</a></h3><p>By <span>Author {n}</span></p>'
        '<p>{n} crowns</p><button type="button">Add {n}</button></article></li>'
    )
    records = "".join(record.format(n=n) for n in range(ELEMENTS // 8))
    return f"<!doctype html><title>Large</title><main><h1>Large</h1>{_COUNT}<ul>{records}</ul></main>"


def run() -> list[Ratio]:
    """All ratios of this module; about half a minute."""
    with (
        private_place() as place,
        served({"/small": SMALL.encode(), "/large": large().encode()}) as site,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        return runner.run(_measure(place, site))


async def _measure(place: Path, site: str) -> list[Ratio]:
    with ground(place, site) as stage:
        await stage.start()
        clicks = Clicks()
        observations = Observations()
        for _ in range(TASKS):
            await _clicking(stage, clicks)
            await _observing(stage, observations)
        await _snapshots(stage, observations)
    return [*clicks.ratios(), *observations.ratios()]


class Clicks:
    """Milliseconds, round by round."""

    def __init__(self) -> None:
        self.whole: list[float] = []
        self.settling: list[float] = []
        self.direct: list[float] = []

    def ratios(self) -> list[Ratio]:
        ours = [whole - settling for whole, settling in zip(self.whole, self.settling, strict=True)]
        mid = statistics.median
        return [
            Ratio("browser: dispatch of a click / direct", median_ratio(ours, self.direct), GOAL_CLICK, "<=",
                  f"{mid(ours):.2f} ms / {mid(self.direct):.2f} ms, p50 of {len(ours)}, all arrived; {load()}"),
            Ratio("browser: the same with settling / direct", median_ratio(self.whole, self.direct), None, "<=",
                  f"{mid(self.whole):.2f} ms, of which {mid(self.settling):.2f} ms wait for consequences"),
        ]  # fmt: skip


class Observations:
    """Milliseconds, round by round."""

    def __init__(self) -> None:
        self.ours: list[float] = []
        self.direct: list[float] = []
        self.aria: list[float] = []
        self.aria_missing = ""

    def ratios(self) -> list[Ratio]:
        ours, direct = statistics.median(self.ours), statistics.median(self.direct)
        name = "browser: observe 5,000 elements / aria snapshot"
        return [
            Ratio("browser: observe 5,000 elements / direct", median_ratio(self.ours, self.direct), GOAL_OBSERVE, "<=",
                  f"{ours:.1f} ms / {direct:.1f} ms, p50 of {len(self.ours)}; {load()}"),
            missing(name, GOAL_ARIA, "<=", self.aria_missing) if not self.aria else
            Ratio(name, ours / statistics.median(self.aria), GOAL_ARIA, "<=",
                  f"{ours:.1f} ms / {statistics.median(self.aria):.0f} ms, Playwright's, p50 of {len(self.aria)}"),
        ]  # fmt: skip


async def _clicking(stage: Ground, figures: Clicks) -> None:
    task, worker, peer, session = await stage.working("/small")
    direct = stage.direct
    ref = await _ref(peer)
    rounds = L.MAX_TOOL_CALLS - 1
    for number in range(rounds):
        await asyncio.sleep(REST)
        ours = await _click(peer, ref)
        await asyncio.sleep(REST)
        theirs = _direct_click(direct, session)
        if number >= WARM_UP:
            figures.whole.append(ours)
            figures.direct.append(theirs)
    seen = direct.evaluate(session, "window.seen")
    assert seen == 2 * rounds, f"{seen} of {2 * rounds} clicks reached the page"
    await stage.ended(task, worker)
    settling = stage.settling(task)
    settling = settling[1:]  # the first call was an observation
    assert len(settling) == rounds, len(settling)
    assert all(settling), "the extension did not tell how long it waited; is it built from these sources?"
    figures.settling += settling[WARM_UP:]


async def _ref(peer: WorkerPeer) -> str:
    """The box's ref, as a model gets it."""
    seen = await peer.call("browser_page_observe", mode="interactive")
    found = re.search(r'\[(e[0-9]+)\] checkbox "Count"', seen.content)
    assert found, seen.content
    return found.group(1)


async def _click(peer: WorkerPeer, ref: str) -> float:
    result = await peer.call("browser_page_click", ref=ref)
    assert result.ok, result.content
    return (peer.answered_at - peer.sent_at) * 1000


def _direct_click(direct: Direct, session: str) -> float:
    began = time.perf_counter()
    x, y = direct.evaluate(session, BOX)
    at = {"x": x, "y": y, "button": "left", "clickCount": 1}
    direct.call("Input.dispatchMouseEvent", session, type="mousePressed", buttons=1, **at)
    direct.call("Input.dispatchMouseEvent", session, type="mouseReleased", buttons=0, **at)
    return (time.perf_counter() - began) * 1000


async def _observing(stage: Ground, figures: Observations) -> None:
    task, worker, peer, session = await stage.working("/large")
    direct = stage.direct
    elements = direct.evaluate(session, "document.querySelectorAll('*').length")
    assert elements >= ELEMENTS, elements
    world = _world(direct, session)
    ref = await _ref(peer)
    for number in range(OBSERVATIONS):
        # The click before has left the page something to compute: whoever comes first pays for it, so they take turns.
        theirs, text = _direct_observe(direct, session, world) if number % 2 else (0.0, "")
        began = time.perf_counter()
        result = await peer.call("browser_page_observe")
        ours = (time.perf_counter() - began) * 1000
        assert result.ok, result.content
        if not number % 2:
            theirs, text = _direct_observe(direct, session, world)
        if number >= WARM_UP:
            figures.ours.append(ours)
            figures.direct.append(theirs)
        assert _same(result.content, text)
        await _click(peer, ref)
    await stage.ended(task, worker)


async def _snapshots(stage: Ground, figures: Observations) -> None:
    """Playwright's way of observing, in the same browser and a tab of its own."""
    task, worker, peer, _session = await stage.working("/large")
    url = (await peer.call("browser_page_observe")).content
    part = url[url.index("/large?n=") :].split()[0]
    try:
        with aria(debugging_port(stage.direct.profile)) as theirs:
            text, _ = theirs.snapshot(part, times=2)
            assert "Book number 7" in text
            figures.aria = theirs.snapshot(part, times=SNAPSHOTS)[1]
    except FloorUnavailable as error:
        figures.aria_missing = str(error)
    await stage.ended(task, worker)


def _world(direct: Direct, session: str) -> int:
    """An isolated world with the page runtime in it, its messages passed by hand: its number."""
    frame = direct.call("Page.getFrameTree", session)["frameTree"]["frame"]["id"]
    world: int = direct.call("Page.createIsolatedWorld", session, frameId=frame)["executionContextId"]
    runtime = (DIST / "page.js").read_text()
    stand_in = """
        globalThis.chrome = { runtime: { id: "bench", onConnect: { addListener(listener) { globalThis.connect = listener; } } } };
    """
    port = """
        connect({ name: "browsercell", sender: { id: "bench" }, postMessage([, text]) { answered(text); },
                  onMessage: { addListener(listener) { globalThis.ask = listener; } } });
    """
    direct.evaluate(session, stand_in + runtime + ";" + port + "; true", contextId=world)
    return world


def _direct_observe(direct: Direct, session: str, world: int) -> tuple[float, str]:
    args = {"mode": "summary", "maxElements": L.MAX_ELEMENTS, "maxChars": 12_000, "header": True}
    call = json.dumps(
        {"call": 1, "op": "observe", "args": args, "frame": 0, "first": 1, "id": 1, "limit": 10_000}
    )
    expression = f"new Promise((done) => {{ globalThis.answered = done; ask({call}); }})"
    began = time.perf_counter()
    answer = json.loads(direct.evaluate(session, expression, contextId=world))
    taken = (time.perf_counter() - began) * 1000
    assert "ok" in answer, answer
    return taken, answer["ok"]["text"]


def _same(ours: str, direct: str) -> bool:
    """Whether both ways told of the same records; numbers of refs and cursors are each world's own."""
    return ours.count("Book number") == direct.count("Book number") > 0


if __name__ == "__main__":
    sys.exit(main(run))
