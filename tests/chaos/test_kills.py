"""Every process of the product is killed while a page command runs, again and again (`--chaos-runs`).

After each kill: the running delegation ends in time, with the right code and honest side effects; the next task works;
nothing is left of what was killed; descriptors of what lives are back at their number.
"""

from __future__ import annotations

import contextlib
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

import pytest
from browsercell.protocol.errors import BlockerCode
from browsercell.protocol.frames import HostProgress
from browsercell.protocol.results import BrowserDelegateResult, SideEffects, Status
from browsercell.supervisor.demo.server import Bookshop

from tests.support import chaos
from tests.support.chaos import HELD, HELD_CALLS, Process, Product, Timings, kill, running_calls
from tests.support.openai_server import OpenAIServer, Reply, Request, finish

ENDS_S = 10.0  # from the kill to the result: 0.1 is usual
JITTER_S = 0.15  # a kill comes at any moment of the command's first part
RESTARTS = (
    5  # bridges may be restarted so often in a minute (supervisor/tree.py): then a fresh supervisor is taken
)
# Descriptors come and go with timers of the loop; a leak of one a kill is a slope of 1.
MAX_SLOPE = 0.3
FEW = 3  # runs below which a slope means nothing

CLICKING = (
    {"tool": "browser_page_navigate", "args": {"url": "${site}/search?q=sea"}},
    {
        "tool": "browser_page_type",
        "args": {"target": {"role": "searchbox", "name": "Search"}, "text": "the", "submit": True},
    },
    {"expect": {"text": "Never on this page"}, "timeout_ms": 30_000},
    {"finish": {"status": "completed", "summary": "Searched"}},
)


@dataclass
class Run:
    """One task with a kill in it."""

    result: BrowserDelegateResult
    gone: frozenset[Process]  # what must not live any more
    seconds: float  # from the kill to the result
    killed_at: float
    story: list[str] = field(default_factory=list)


def strike(
    product: Product,
    shop: Bookshop,
    target: Callable[[], Process],
    also_gone: Callable[[frozenset[Process], Process], frozenset[Process]],
    after: Callable[[], object] = lambda: None,
) -> Run:
    """Run the held playbook and kill `target` while its wait runs; `after` comes right after the kill."""
    moment: list[float] = []
    gone: list[frozenset[Process]] = []

    def on_progress(progress: HostProgress) -> None:
        if running_calls(progress) == HELD_CALLS and not moment:
            time.sleep(random.uniform(0, JITTER_S))
            everything = product.record()
            victim = target()
            gone.append(also_gone(everything, victim))
            moment.append(time.monotonic())
            kill(victim)
            after()

    with product.client() as client:
        result = client.delegate(
            "Wait on the marker page",
            browser="private",
            playbook=HELD,
            variables={"site": shop.url},
            on_progress=on_progress,
            timeout=60,
        )
        ended = time.monotonic()
    assert moment, f"the task ended before its wait: {chaos.described(result)}"
    return Run(result, gone[0], ended - moment[0], moment[0])


def browser_of(product: Product, everything: frozenset[Process]) -> frozenset[Process]:
    """The whole tree of the one private browser."""
    tree = chaos.family(product.one("chromium").pid)
    assert len(tree) > 3, f"a Chromium of {len(tree)} processes"
    assert tree <= everything | tree
    return tree


@pytest.fixture
def shop() -> Iterator[Bookshop]:
    with Bookshop() as shop:
        yield shop


def settle(product: Product, run: Run, timings: Timings, site: str) -> None:
    """What holds after every kill."""
    assert run.seconds < ENDS_S, f"the delegation ended {run.seconds:.1f} s after the kill"
    timings.add("kill to result", run.seconds)
    chaos.assert_next_task_works(product, site)
    timings.add("kill to the end of the next task", time.monotonic() - run.killed_at)
    product.assert_only_the_living(run.gone)
    for what, pid in (
        ("supervisor", product.pid),
        ("bridge", product.one("bridge").pid),
        ("model bridge", product.one("model-bridge").pid),
    ):
        # An ordinary user can't look into undumpable processes, not even its own; as root all are counted.
        with contextlib.suppress(PermissionError):
            timings.count(what, len(chaos.descriptors(pid)))


def assert_no_slope(timings: Timings, runs: int) -> None:
    timings.report()
    assert timings.counted or os.getuid() != 0
    if runs > FEW:
        for what in timings.counted:
            assert timings.slope(what) < MAX_SLOPE, f"the {what} keeps descriptors"


def test_worker(chaos_runs: int) -> None:
    timings = Timings("worker")
    with Product() as product:
        for _ in range(chaos_runs):
            with Bookshop() as shop:
                run = strike(
                    product,
                    shop,
                    lambda: product.one("worker"),
                    lambda everything, victim: browser_of(product, everything) | {victim},
                )
                assert run.result.blocker_code is BlockerCode.WORKER_CRASHED, chaos.described(run.result)
                assert run.result.side_effects is SideEffects.NONE  # a page was opened and waited on
                settle(product, run, timings, shop.url)
    assert_no_slope(timings, chaos_runs)


def test_chromium(chaos_runs: int) -> None:
    timings = Timings("chromium")
    with Product() as product:
        for _ in range(chaos_runs):
            with Bookshop() as shop:
                run = strike(
                    product,
                    shop,
                    lambda: product.one("chromium"),
                    lambda everything, _: browser_of(product, everything) | {product.one("worker")},
                )
                assert run.result.blocker_code is BlockerCode.BROWSER_UNAVAILABLE, chaos.described(run.result)
                assert run.result.retryable
                settle(product, run, timings, shop.url)
    assert_no_slope(timings, chaos_runs)


def test_bridge(chaos_runs: int) -> None:
    timings = Timings("bridge")
    for batch in batches(chaos_runs):
        with Product() as product:
            for _ in range(batch):
                with Bookshop() as shop:
                    model = product.one("model-bridge")
                    run = strike(
                        product,
                        shop,
                        lambda: product.one("bridge"),
                        lambda everything, _, model=model: without(everything, product.pid, model.pid),  # type: ignore[misc]
                    )
                    assert run.result.blocker_code is BlockerCode.BRIDGE_LOST, chaos.described(run.result)
                    assert run.result.side_effects is SideEffects.POSSIBLE  # nobody is left who knows better
                    assert model.alive
                    settle(product, run, timings, shop.url)
    assert_no_slope(timings, chaos_runs)


def test_model_bridge_a_playbook_goes_on(chaos_runs: int) -> None:
    timings = Timings("model bridge, playbook")
    for batch in batches(chaos_runs):
        with Product() as product:
            for _ in range(batch):
                with Bookshop() as shop:
                    bridge = product.one("bridge")
                    run = strike(
                        product,
                        shop,
                        lambda: product.one("model-bridge"),
                        lambda _, victim: frozenset({victim}),
                        after=lambda shop=shop: threading.Timer(0.5, shop.release).start(),  # type: ignore[misc]
                    )
                    assert run.result.status is Status.COMPLETED, chaos.described(run.result)
                    assert bridge.alive
                    settle(product, run, timings, shop.url)
    assert_no_slope(timings, chaos_runs)


def test_model_bridge_a_models_task_ends(chaos_runs: int) -> None:
    """It is killed while an inference runs; the one of the next task is answered at once."""
    timings = Timings("model bridge, model")
    answer_now = threading.Event()

    def answer(_: Request) -> Reply:
        answer_now.wait(20)
        return finish("Nothing to do")

    for batch in batches(chaos_runs):
        with OpenAIServer([answer]) as endpoint:
            settings = {"model.base_url": endpoint.url, "model.model": "scripted"}
            with Product(settings) as product, Bookshop() as shop:
                for _ in range(batch):
                    answer_now.clear()
                    run = _during_inference(product, shop, endpoint)
                    answer_now.set()
                    assert run.result.blocker_code is BlockerCode.MODEL_UNAVAILABLE, chaos.described(
                        run.result
                    )
                    assert run.result.side_effects is SideEffects.NONE
                    with product.client() as client:
                        following = client.delegate("Do nothing", url=shop.url, browser="private", timeout=60)
                    assert following.status is Status.COMPLETED, chaos.described(following)
                    settle(product, run, timings, shop.url)
    assert_no_slope(timings, chaos_runs)


def _during_inference(product: Product, shop: Bookshop, endpoint: OpenAIServer) -> Run:
    asked = len(endpoint.requests)
    moment: list[float] = []
    gone: list[frozenset[Process]] = []

    def strike_once_asked() -> None:
        endpoint.wait_for(asked + 1, 30)
        everything = product.record()
        victim = product.one("model-bridge")
        gone.append(browser_of(product, everything) | {victim, product.one("worker")})
        moment.append(time.monotonic())
        kill(victim)

    striker = threading.Thread(target=strike_once_asked, daemon=True)
    striker.start()
    with product.client() as client:
        result = client.delegate("Read the first page", url=shop.url, browser="private", timeout=60)
        ended = time.monotonic()
    striker.join(5)
    assert moment, f"no inference was asked for: {chaos.described(result)}"
    return Run(result, gone[0], ended - moment[0], moment[0])


def test_supervisor(chaos_runs: int) -> None:
    """All of its processes go with it; a new one in the same folder sweeps what it left and works."""
    timings = Timings("supervisor")
    with Product() as product:
        for _ in range(chaos_runs):
            with Bookshop() as shop:
                run = strike(
                    product,
                    shop,
                    lambda: chaos.process(product.pid),
                    lambda everything, _: everything,
                )
                assert run.result.blocker_code is BlockerCode.SUPERVISOR_RESTARTED, chaos.described(
                    run.result
                )
                assert run.result.side_effects is SideEffects.POSSIBLE
                chaos.none_left("processes", partial(chaos.survivors, run.gone))
                timings.add("kill to nothing left", time.monotonic() - run.killed_at)
                assert not chaos.unix_sockets(product.runtime), "sockets of a dead supervisor are held"
                product.restart()
                settle(product, run, timings, shop.url)
    assert_no_slope(timings, chaos_runs)


@pytest.mark.parametrize("role", ["worker", "bridge", "chromium", "supervisor"])
def test_during_an_effect(role: str, chaos_runs: int) -> None:
    """Killed while a form is being sent, right after the server has counted it: never called `none`."""
    timings = Timings(f"{role}, effect")
    done = 0
    for batch in batches(chaos_runs):
        with Product() as product:
            for _ in range(batch):
                with Bookshop() as shop:
                    run = _during_effect(product, shop, role)
                    assert shop.counts.searches == 2, "the form was sent twice or never"
                    assert run.result.side_effects is not SideEffects.NONE, chaos.described(run.result)
                    assert run.result.status is not Status.COMPLETED
                    if role == "supervisor":
                        chaos.none_left("processes", partial(chaos.survivors, run.gone))
                        product.restart()
                    settle(product, run, timings, shop.url)
                    done += 1
    assert done == chaos_runs
    assert_no_slope(timings, chaos_runs)


def _during_effect(product: Product, shop: Bookshop, role: str) -> Run:
    moment: list[float] = []
    gone: list[frozenset[Process]] = []
    armed = threading.Event()
    targets: list[Process] = []

    def on_progress(progress: HostProgress) -> None:
        if running_calls(progress) == 1 and not armed.is_set():  # the search page is open, the typing begins
            everything = product.record()
            victim = chaos.process(product.pid) if role == "supervisor" else product.one(role)
            tree = browser_of(product, everything)
            lost = {
                "worker": tree | {victim},
                "chromium": tree,
                "bridge": tree | {victim},
                "supervisor": everything,
            }
            gone.append(frozenset(lost[role]))
            targets.append(victim)
            armed.set()

    def strike_once_counted() -> None:
        armed.wait(30)
        deadline = time.monotonic() + 20
        while shop.counts.searches < 2:  # the first one was opened, the second one is the form
            if time.monotonic() > deadline:
                return
            time.sleep(0.001)
        moment.append(time.monotonic())
        kill(targets[0])

    striker = threading.Thread(target=strike_once_counted, daemon=True)
    striker.start()
    with product.client() as client:
        result = client.delegate(
            "Search",
            browser="private",
            playbook=CLICKING,
            variables={"site": shop.url},
            on_progress=on_progress,
            timeout=60,
        )
        ended = time.monotonic()
    striker.join(5)
    assert moment, f"the form was never sent: {chaos.described(result)}"
    return Run(result, gone[0], ended - moment[0], moment[0])


def test_too_many_kills_end_in_order() -> None:
    """A bridge that dies again and again ends the supervisor: exit code 3, one line, nothing left."""
    everything: frozenset[Process] = frozenset()
    with Product() as product:
        for _ in range(RESTARTS + 1):
            everything = product.record()
            victim = product.one("bridge")
            kill(victim)
            chaos.none_left("the bridge", partial(chaos.survivors, frozenset({victim})))
            if _ < RESTARTS:
                chaos.until("another bridge", partial(another, product, victim))
                product.until_idle()
        assert product.ended() == 3
        words = product.last_words()
        assert len(words.strip().splitlines()) == 1, words
        assert "Traceback" not in words
        chaos.none_left("processes", lambda: chaos.survivors(everything))
        product.assert_nothing_left()
        product.start()
        with Bookshop() as shop:
            chaos.assert_next_task_works(product, shop.url)


def test_chromium_holds_nothing_of_ours(shop: Bookshop) -> None:
    """Its open descriptors: the two ends of its pipe, its own log, files of its own folder and of the system."""
    seen: list[str] = []

    def look(product: Product) -> None:
        browser = product.one("chromium")
        tree = chaos.family(browser.pid)
        ours = _our_objects(product, tree)
        for one in sorted(tree, key=lambda each: each.pid):
            for number, what in sorted(chaos.descriptors(one.pid).items()):
                shared = what in ours
                if one == browser and number in (3, 4):
                    assert what.startswith("pipe:["), what
                    assert what in ours or os.getuid() != 0, "nobody holds the other end"
                    holders = ours.get(what, {"bridge"})
                    assert holders == {"bridge"}, f"the debugging pipe is held by {holders}"
                else:
                    assert not shared, f"{one.name} ({one.pid}) holds {what} of the {ours[what]} as {number}"
                if what.startswith(f"{product.place}/"):
                    assert what.startswith(f"{product.runtime}/b/"), f"{one.name} holds {what}"
                for place in ("/dev/shm/", "/tmp/", "/var/tmp/"):
                    foreign = what.startswith(place) and not what.startswith(f"{product.runtime}/b/")
                    assert not foreign, f"{one.name} holds {what}"
                seen.append(what)
        kinds = {what.split(":")[0].split("/")[0] or "file" for what in seen}
        print(f"\nChromium: {len(tree)} processes, {len(seen)} descriptors of {len(kinds)} kinds")

    with Product({"debug.inspection": "true"}) as product:
        looked: list[bool] = []

        def on_progress(progress: HostProgress) -> None:
            if running_calls(progress) == HELD_CALLS and not looked:
                looked.append(True)
                look(product)
                shop.release()

        with product.client() as client:
            result = client.delegate(
                "Wait",
                browser="private",
                playbook=HELD,
                variables={"site": shop.url},
                on_progress=on_progress,
                timeout=60,
            )
        assert looked
        assert result.status is Status.COMPLETED, chaos.described(result)
    assert len(seen) > 20, "the listing is vacuous"


def _our_objects(product: Product, browser: frozenset[Process]) -> dict[str, set[str]]:
    """Every socket and pipe of our own processes, and who holds it."""
    roles = {row.pid: row.role for row in product.observer.processes() if row.role != "chromium"}
    held: dict[str, set[str]] = {}
    readable = 0
    for pid, role in roles.items():
        assert pid not in {one.pid for one in browser}
        try:
            objects = chaos.kernel_objects(pid)
        except PermissionError:
            continue  # an ordinary user can't look into undumpable ones; as root all are read
        readable += 1
        for one in objects:
            held.setdefault(one, set()).add(role)
    assert readable, "none of our processes could be read"
    return held


def without(processes: frozenset[Process], *pids: int) -> frozenset[Process]:
    return frozenset(one for one in processes if one.pid not in pids)


def another(product: Product, victim: Process) -> bool:
    return any(row.pid != victim.pid for row in product.rows("bridge"))


def batches(runs: int) -> Iterator[int]:
    """`runs` in portions that stay within the restarts a minute allows."""
    while runs > 0:
        yield min(runs, RESTARTS)
        runs -= RESTARTS
