"""Hostile workers against the whole product: what they can't reach, who notices, who survives.

The worker program is a stand-in that seals itself for real and then attacks (`hostile_worker`); everything else is the
product.
"""

from __future__ import annotations

import re
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from browsercell.protocol.errors import BlockerCode
from browsercell.protocol.frames import HostProgress
from browsercell.protocol.limits import MIB, PING_MISSES, PING_MS
from browsercell.protocol.results import BrowserDelegateResult, SideEffects, Status
from browsercell.supervisor.demo.server import Bookshop
from browsercell.supervisor.memory_search import MarkerIndex, search_bytes, search_process

from tests.support import chaos
from tests.support.chaos import HELD, HELD_CALLS, QUICK, Product, kill, running_calls
from tests.support.openai_server import OpenAIServer, Reply

HERE = Path(__file__).parent
ANSWER_S = 20.0  # of the model: longer than any flood may last
NOTICED_S = 20.0  # from the assignment to the end of a flooding task: 1 to 3 are usual
FLOODED = 64 * MIB  # how much a flood must have put into its reader to be called one
LINKS = {"bridge": "page", "model-bridge": "model"}
FLAT = 8 * MIB  # how much the supervisor may grow
SILENCE_S = PING_MS / 1000 * PING_MISSES
SLACK_S = 6.0  # of a busy machine, and for ending what was found silent


def stand_in(*options: str) -> tuple[str, ...]:
    return (sys.executable, "-B", str(HERE / "stand_in_supervisor.py"), *options, "--")


class Memory:
    """The highest resident size of some processes, looked at every 20 ms while in use."""

    def __init__(self, **pids: int) -> None:
        self.first = {name: chaos.resident(pid) for name, pid in pids.items()}
        self.most = dict(self.first)
        self._pids = pids
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Memory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(5)

    def _look(self) -> None:
        while not self._over.wait(0.02):
            for name, pid in self._pids.items():
                try:
                    self.most[name] = max(self.most[name], chaos.resident(pid))
                except OSError:  # it has ended: its mark stays
                    continue

    def growth(self, name: str) -> int:
        return self.most[name] - self.first[name]


@contextmanager
def attacked() -> Iterator[tuple[Product, Bookshop]]:
    """A product with hostile workers, a model that takes its time, and a memory that may be searched."""
    with OpenAIServer([lambda _: Reply(delay=ANSWER_S)]) as endpoint:
        settings = {"debug.inspection": "true", "model.base_url": endpoint.url, "model.model": "scripted"}
        with Product(settings, script=stand_in()) as product, Bookshop() as shop:
            yield product, shop


def delegate(product: Product, shop: Bookshop, mode: str) -> tuple[BrowserDelegateResult, float]:
    """A task whose worker turns hostile; its result and how long it took."""
    plan = None if mode == "infer" else QUICK
    with product.client() as client:
        begun = time.monotonic()
        result = client.delegate(
            f"MODE:{mode} please", browser="private", playbook=plan, variables={"site": shop.url}, timeout=90
        )
        return result, time.monotonic() - begun


def test_the_stand_in_works_when_honest() -> None:
    """Otherwise the other tests would prove nothing."""
    with attacked() as (product, shop):
        result, _ = delegate(product, shop, "honest")
        assert result.status is Status.COMPLETED, chaos.described(result)


@pytest.mark.parametrize(
    ("mode", "role"),
    [
        ("multipart", "bridge"),
        ("multipart-model", "model-bridge"),
        ("calls", "bridge"),
        ("infer", "model-bridge"),
    ],
)
def test_flood(mode: str, role: str) -> None:
    """Noticed and ended; the supervisor stays flat; the task beside it goes on, or ends with its bridge."""
    with attacked() as (product, shop):
        delegate(product, shop, "honest")  # what a first task makes everybody allocate is not the flood's
        product.until_idle()
        reader = product.one(role)
        beside: list[BrowserDelegateResult] = []
        running = threading.Event()

        def wait_beside() -> None:
            def on_progress(progress: HostProgress) -> None:
                if running_calls(progress) == HELD_CALLS:
                    running.set()

            with product.client() as client:
                beside.append(
                    client.delegate(
                        "Wait", browser="private", playbook=HELD, variables={"site": shop.url},
                        on_progress=on_progress, timeout=90,
                    )
                )  # fmt: skip

        neighbour = threading.Thread(target=wait_beside, daemon=True)
        neighbour.start()
        assert running.wait(30)
        everything = product.record()
        with Memory(supervisor=product.pid, reader=reader.pid) as memory:
            result, seconds = delegate(product, shop, mode)
        shop.release()
        neighbour.join(60)
        print(
            f"\n{mode}: ended after {seconds:.1f} s as {result.blocker_code}; supervisor {memory.growth('supervisor') / MIB:+.1f} MiB, "
            f"{role} {memory.growth('reader') / MIB:+.1f} MiB, {'survived' if reader.alive else 'restarted'}; "
            f"the task beside it: {beside[0].status} {beside[0].blocker_code}"
        )
        if mode.startswith("multipart"):
            assert memory.growth("reader") > FLOODED or not reader.alive, "nothing was flooded"
            assert f"floods the {LINKS[role]} link" in log_of(product) or not reader.alive
        ends = {BlockerCode.WORKER_CRASHED, BlockerCode.BRIDGE_LOST, BlockerCode.MODEL_UNAVAILABLE}
        assert result.blocker_code in ends, chaos.described(result)
        assert seconds < NOTICED_S
        assert memory.growth("supervisor") < FLAT
        if reader.alive or role == "model-bridge":
            assert beside[0].status is Status.COMPLETED, chaos.described(beside[0])
        else:
            assert beside[0].blocker_code is BlockerCode.BRIDGE_LOST, chaos.described(beside[0])
        chaos.assert_next_task_works(product, shop.url)
        workers_and_browsers = frozenset(
            one
            for one in everything
            if one.pid not in {row.pid for row in product.observer.processes()} and one.pid != product.pid
        )
        product.assert_only_the_living(workers_and_browsers)


@pytest.mark.parametrize("mode", ["silent", "spin"])
def test_a_worker_that_answers_nothing(mode: str) -> None:
    """Found by the bridge's application ping, killed, and its task told."""
    with attacked() as (product, shop):
        result, seconds = delegate(product, shop, mode)
        print(f"\n{mode}: ended after {seconds:.1f} s")
        assert result.blocker_code is BlockerCode.WORKER_CRASHED, chaos.described(result)
        assert result.side_effects is SideEffects.NONE
        assert SILENCE_S - PING_MS / 1000 < seconds < SILENCE_S + PING_MS / 1000 + SLACK_S
        assert "silent" in log_of(product)
        chaos.assert_next_task_works(product, shop.url)


def test_a_marker_in_a_traceback_goes_nowhere() -> None:
    """Page data printed to both outputs and raised, after the seal: not in the supervisor, a log or the state."""
    with attacked() as (product, shop):
        chars = 20_000
        index = MarkerIndex(shop.marker_tokens(chars))
        playbook = (
            {"tool": "browser_page_navigate", "args": {"url": f"${{site}}/marker?n={chars}"}},
            {"tool": "browser_page_observe", "args": {"mode": "document", "max_chars": 20_000}},
            {"finish": {"status": "completed", "summary": "Not reached"}},
        )
        bridge = product.one("bridge")
        with product.client() as client:
            result = client.delegate(
                "MODE:traceback please", browser="private", playbook=playbook, variables={"site": shop.url}
            )
        assert result.blocker_code is BlockerCode.WORKER_CRASHED, chaos.described(result)
        assert search_process(bridge.pid, index).total > 0, "the search is vacuous: the page never came"
        report = search_process(product.pid, index)
        assert report.bytes > 10 * MIB
        assert report.total == 0, report.hits
        assert search_bytes(msgspec.json.encode(result), index).total() == 0
        searched = 0
        for path in product.state.rglob("*"):
            if path.is_file() and "artifacts" not in path.parts:
                searched += 1
                assert search_bytes(path.read_bytes(), index).total() == 0, path.name
        assert searched >= 3
        assert "Traceback" not in (product.state / "logs" / "worker.log").read_text()
        chaos.assert_next_task_works(product, shop.url)


def test_a_seal_that_is_only_claimed() -> None:
    """The supervisor looks for itself: no such worker ever stands ready, and the supervisor says why it does not start."""
    product = Product(script=stand_in("--unsealed"))
    try:
        with pytest.raises(AssertionError, match=r"outside-check:") as ended:
            product.start()
        assert re.search(r"no sealed browser worker could be made", str(ended.value))
        assert product.ended() == 3
        product.assert_nothing_left()
    finally:
        product.discard()


def test_workers_that_say_nothing_from_the_start() -> None:
    product = Product(script=stand_in("--mute"))
    try:
        with pytest.raises(AssertionError, match="no sealed browser worker could be made"):
            product.start()
        assert product.ended() == 3
        product.assert_nothing_left()
    finally:
        product.discard()


@pytest.mark.parametrize(
    ("role", "code"),
    [
        ("worker", BlockerCode.WORKER_CRASHED),
        ("bridge", BlockerCode.BRIDGE_LOST),
        ("model-bridge", None),
    ],
)
def test_a_stopped_process_is_found(role: str, code: BlockerCode | None) -> None:
    """SIGSTOP: its links stay open and libzmq's thread stands still too; only the application ping tells."""
    with Product() as product, Bookshop() as shop:
        stopped: list[chaos.Process] = []
        moments: list[float] = []

        def on_progress(progress: HostProgress) -> None:
            if running_calls(progress) == HELD_CALLS and not stopped:
                product.record()
                stopped.append(product.one(role))
                moments.append(time.monotonic())
                kill(stopped[0], signal.SIGSTOP)
                if code is None:
                    threading.Thread(target=release_when_found, daemon=True).start()

        def release_when_found() -> None:
            chaos.none_left(role, lambda: chaos.survivors(frozenset(stopped)), 2 * SILENCE_S + SLACK_S)
            moments.append(time.monotonic())
            shop.release()

        with product.client() as client:
            result = client.delegate(
                "Wait", browser="private", playbook=HELD, variables={"site": shop.url},
                on_progress=on_progress, timeout=90,
            )  # fmt: skip
            moments.append(time.monotonic())
        assert stopped, chaos.described(result)
        found = moments[1] - moments[0]
        print(f"\n{role}: found {found:.1f} s after it was stopped")
        assert SILENCE_S - PING_MS / 1000 < found < SILENCE_S + PING_MS / 1000 + SLACK_S
        if code is None:
            assert result.status is Status.COMPLETED, chaos.described(result)
        else:
            assert result.blocker_code is code, chaos.described(result)
        chaos.assert_next_task_works(product, shop.url)
        product.assert_only_the_living(frozenset(stopped))


def test_stopped_bridges_die_with_the_supervisor() -> None:
    """They can't read the end of their control link, so the kernel has to end them."""
    with Product() as product:
        everything = product.record()
        for role in ("bridge", "model-bridge"):
            kill(product.one(role), signal.SIGSTOP)
        kill(chaos.process(product.pid))
        chaos.none_left("processes", lambda: chaos.survivors(everything))
        product.restart()


def log_of(product: Product) -> str:
    return (product.state / "logs" / "supervisor.log").read_text()
