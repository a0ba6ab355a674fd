"""Peers that break the protocol: each is cut off with one closed word, and nothing of what they sent is logged.

Design 2, rules 1, 2 and 6; the kinds are those of `WorkerFaultKind`.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable

import msgspec
import pytest
import zmq
from browsercell.bridge.workers import Cut, WorkerLink
from browsercell.protocol import limits as L
from browsercell.protocol.codec import encode
from browsercell.protocol.errors import Backpressure
from browsercell.protocol.frames import (
    Assignment,
    CloseTask,
    ConfigureBridge,
    Deliver,
    Finish,
    Finished,
    ForgetWorker,
    Hello,
    OpenTask,
    Ping,
    Pong,
    SandboxLevel,
    Sealed,
    SealReport,
    TaskFinished,
    ToolCall,
    WantedDeliverable,
    WorkerFault,
    WorkerFaultKind,
    WorkerForgotten,
    WorkerSpawned,
)
from browsercell.protocol.results import (
    ArtifactClaim,
    ArtifactKind,
    Browser,
    ClaimStatus,
    PlannerKind,
    ResultClaim,
)
from browsercell.protocol.settings import BridgeSettings

from .harness import MARKER, Stage, WorkerPeer, run

SEALED = Sealed(SealReport(SandboxLevel.SEALED, ()))


async def cut_off(stage: Stage, worker: str, kind: WorkerFaultKind) -> None:
    """The worker loses its link, the supervisor hears why, and the bridge goes on."""
    assert await stage.expect(WorkerFault) == WorkerFault(worker, kind)
    stage.send(Ping(1))
    await stage.expect(Pong)
    stage.send(ForgetWorker(worker))
    assert (await stage.expect(WorkerForgotten)).worker == worker
    line = next(line for line in stage.log.getvalue().splitlines() if "worker-cut" in line)
    assert kind.value in line
    assert MARKER not in stage.log.getvalue()


def hostile(
    prepare: Callable[[Stage], Awaitable[tuple[str, WorkerPeer]]],
    attack: Callable[[WorkerPeer], None],
    kind: WorkerFaultKind,
) -> None:
    async def scenario(stage: Stage) -> None:
        await stage.configure()
        worker, peer = await prepare(stage)
        attack(peer)
        await cut_off(stage, worker, kind)
        await asyncio.wait_for(peer.lost.wait(), 5)
        assert not os.path.exists(os.path.join(peer.folder, "page"))

    run(scenario)


async def spawned(stage: Stage) -> tuple[str, WorkerPeer]:
    worker, peer = await stage.prepare()
    stage.send(WorkerSpawned(worker, os.getpid()))
    return worker, peer


async def assigned(stage: Stage) -> tuple[str, WorkerPeer]:
    _, worker, peer = await stage.working()
    return worker, peer


def raw(*parts: bytes) -> Callable[[WorkerPeer], None]:
    def attack(peer: WorkerPeer) -> None:
        peer.link._sock.send_multipart(parts, zmq.NOBLOCK)

    return attack


def frames(*sent: msgspec.Struct) -> Callable[[WorkerPeer], None]:
    def attack(peer: WorkerPeer) -> None:
        for frame in sent:
            peer.send(frame)  # type: ignore[arg-type]

    return attack


CALL = ToolCall(1, "browser_page_observe", b"{}")
TEXT = MARKER.encode()


@pytest.mark.parametrize(
    ("prepare", "attack", "kind"),
    [
        pytest.param(spawned, frames(CALL), WorkerFaultKind.WRONG_PHASE, id="call-before-greeting"),
        pytest.param(spawned, frames(SEALED), WorkerFaultKind.WRONG_PHASE, id="sealed-before-greeting"),
        pytest.param(
            spawned, frames(Hello(99)), WorkerFaultKind.WRONG_VERSION, id="hello-of-another-version"
        ),
        pytest.param(
            spawned, raw(b"\x63" + TEXT), WorkerFaultKind.WRONG_VERSION, id="wire-of-another-version"
        ),
        pytest.param(spawned, raw(b"\x01" + TEXT), WorkerFaultKind.BAD_FRAME, id="no-frame"),
        pytest.param(spawned, raw(b"\x01\x81\xa1t\xa4nope"), WorkerFaultKind.BAD_FRAME, id="unknown-frame"),
        pytest.param(
            spawned,
            raw(encode(ForgetWorker("w_aaaa"), L.KIB)),
            WorkerFaultKind.BAD_FRAME,
            id="frame-of-another-link",
        ),
        pytest.param(Stage.greeted, frames(CALL), WorkerFaultKind.WRONG_PHASE, id="call-before-seal"),
        pytest.param(Stage.spare, frames(CALL), WorkerFaultKind.WRONG_PHASE, id="call-of-a-spare"),
        pytest.param(Stage.spare, frames(SEALED), WorkerFaultKind.WRONG_PHASE, id="sealed-twice"),
        pytest.param(Stage.spare, frames(Hello(1)), WorkerFaultKind.WRONG_PHASE, id="hello-replayed"),
        pytest.param(Stage.spare, frames(Pong(99)), WorkerFaultKind.BAD_FRAME, id="pong-to-no-ping"),
        pytest.param(Stage.spare, raw(TEXT, TEXT), WorkerFaultKind.MULTIPART, id="multipart"),
        pytest.param(
            Stage.spare, raw(b"\x01" * (L.MAX_WORKER_TO_BRIDGE + 1)), WorkerFaultKind.OVERSIZE, id="oversize"
        ),
        pytest.param(Stage.spare, raw(b"\x01" * (L.MIB)), WorkerFaultKind.DISCONNECTED, id="far-oversize"),
        pytest.param(
            assigned,
            frames(ToolCall(2, "browser_page_observe", b"{}")),
            WorkerFaultKind.BAD_FRAME,
            id="call-id-skipped",
        ),
        pytest.param(
            assigned,
            frames(ToolCall(1, "browser_run_script", b"{}")),
            WorkerFaultKind.BAD_FRAME,
            id="no-such-tool",
        ),
        pytest.param(assigned, frames(Hello(1)), WorkerFaultKind.WRONG_PHASE, id="hello-while-assigned"),
    ],
)
def test_a_broken_rule_ends_the_link(
    prepare: Callable[[Stage], Awaitable[tuple[str, WorkerPeer]]],
    attack: Callable[[WorkerPeer], None],
    kind: WorkerFaultKind,
) -> None:
    hostile(prepare, attack, kind)


@pytest.mark.parametrize(
    ("attack", "kind"),
    [
        pytest.param(
            frames(CALL, ToolCall(2, "browser_page_observe", b"{}")),
            WorkerFaultKind.WRONG_PHASE,
            id="second-call-in-flight",
        ),
        pytest.param(
            frames(CALL, Finish(ResultClaim(status=ClaimStatus.COMPLETED, summary=MARKER))),
            WorkerFaultKind.WRONG_PHASE,
            id="finish-in-flight",
        ),
    ],
)
def test_while_a_call_is_in_flight(attack: Callable[[WorkerPeer], None], kind: WorkerFaultKind) -> None:
    async def scenario(stage: Stage) -> None:
        await stage.configure()
        assert stage.hub.user is not None
        task, worker, peer = await stage.working()
        stage.hub.user.hold.clear()
        attack(peer)
        assert await stage.expect(WorkerFault) == WorkerFault(worker, kind)
        stage.hub.user.hold.set()
        assert task

    run(scenario)


def test_a_message_of_another_process_is_a_wrong_pid() -> None:
    """The kernel's pid counts, whatever the frame says (design 2, rule 2)."""

    async def scenario(stage: Stage) -> None:
        await stage.configure()
        worker, peer = await stage.prepare()
        stage.send(WorkerSpawned(worker, os.getpid()))
        code = (
            "import sys, zmq\n"
            "s = zmq.Context().socket(zmq.DEALER)\n"
            "s.connect('ipc://' + sys.argv[1]); s.send(bytes.fromhex(sys.argv[2]))\n"
            "sys.stdin.read()"
        )
        path = os.path.join(peer.folder, "page")
        hello = encode(Hello(L.WIRE_VERSION), L.KIB).hex()
        other = subprocess.Popen([sys.executable, "-c", code, path, hello], stdin=subprocess.PIPE)
        try:
            await cut_off(stage, worker, WorkerFaultKind.WRONG_PID)
        finally:
            other.communicate(b"", timeout=10)

    run(scenario)


def test_a_second_connection_of_the_worker_itself_is_refused() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.configure()
        worker, peer = await stage.spare()
        second = WorkerPeer(stage.links, peer.folder)
        await second.link.wait_ready(5)
        second.send(Hello(L.WIRE_VERSION))
        await cut_off(stage, worker, WorkerFaultKind.WRONG_PHASE)

    run(scenario)


def test_overdraft() -> None:
    """More unread bytes than the window: here the page call hangs and nothing is granted back."""
    machine = WorkerLink()
    machine.spawned(2, 0.0)
    machine.received(b"r", encode(Hello(1), L.KIB), 0.0)
    machine.received(b"r", encode(SEALED, L.KIB), 0.0)
    machine.assign(Assignment("task_aaaa", 1, PlannerKind.LLM, "g", (), None, (), 1, 1), 0.0)
    machine._credit.received(L.PAGE_CREDIT - 10)
    effects = machine.received(b"r", encode(CALL, L.KIB), 0.0)
    assert effects == [Cut(WorkerFaultKind.OVERDRAFT)]


def test_a_worker_that_goes_away_or_hangs() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.configure()
        worker, peer = await stage.spare()
        peer.link.close()
        await cut_off(stage, worker, WorkerFaultKind.DISCONNECTED)
        worker, peer = await stage.spare()
        peer.answer_pings = False
        await cut_off_slowly(stage, worker)

    async def cut_off_slowly(stage: Stage, worker: str) -> None:
        frame = await asyncio.wait_for(stage.frames.get(), 12)
        assert frame == WorkerFault(worker, WorkerFaultKind.SILENT)

    run(scenario)


def test_a_worker_that_finished_may_go() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.configure()
        _, worker, peer = await stage.working()
        peer.send(Finish(ResultClaim(status=ClaimStatus.COMPLETED, summary="")))
        await peer.expect(Finished)
        await stage.expect(TaskFinished)
        peer.link.close()
        stage.send(Ping(1))
        await stage.expect(Pong)
        stage.send(ForgetWorker(worker))
        await stage.expect(WorkerForgotten)

    run(scenario)


def test_claims_of_foreign_artifacts_are_dropped() -> None:
    """Another task's artifact id is as good as an invented one (design 4)."""

    async def scenario(stage: Stage) -> None:
        await stage.configure()
        _, _, first = await stage.working()
        foreign = (await first.call("browser_page_screenshot")).artifact
        await stage.frames.get()
        task, _, second = await stage.working(
            deliverables=(WantedDeliverable("shot", ArtifactKind.SCREENSHOT),)
        )
        claims = (ArtifactClaim(foreign, "shot"), ArtifactClaim(MARKER, "shot"))
        second.send(Finish(ResultClaim(status=ClaimStatus.COMPLETED, summary="ok", artifacts=claims)))
        result = (await stage.expect(TaskFinished)).result
        assert (result.task_id, result.artifacts) == (task, ())
        assert result.unmet_requirements == ("deliverable shot (screenshot) is missing",)
        assert '"claims-dropped"' in stage.log.getvalue()

    run(scenario)


@pytest.mark.parametrize(
    "nonsense", ["no-frame", "phase", "no-fd", "fd", "twice", "oversize", "opened-twice", "early"]
)
def test_nonsense_on_the_control_link_ends_the_bridge_loudly(nonsense: str) -> None:
    async def scenario(stage: Stage) -> int:
        if nonsense != "early":
            await stage.configure()
        reading, writing = os.pipe()
        if nonsense == "no-frame":
            stage.control.send(b"\x01" + TEXT)
        elif nonsense == "phase":
            stage.control.send(encode(Hello(1), L.KIB))
        elif nonsense == "no-fd":
            stage.send(Deliver("del_aaaa", "art_aaaa", 1))
        elif nonsense == "fd":
            stage.send(Ping(1), (writing,))
        elif nonsense == "twice":
            stage.send(ConfigureBridge(BridgeSettings(str(stage.state))))
        elif nonsense == "oversize":
            stage.control.send(b"\x01" * (L.MAX_FROM_SUPERVISOR + 1))
        elif nonsense == "early":
            stage.send(Ping(1))
        else:
            stage.send(OpenTask("task_aaaa", Browser.CHROME, None, (), 5))
            stage.send(OpenTask("task_aaaa", Browser.CHROME, None, (), 5))
        status = await stage.ended()
        os.close(writing)
        assert await asyncio.to_thread(os.read, reading, 1) == b""  # the bridge kept no descriptor
        os.close(reading)
        assert "control-" in stage.log.getvalue()
        return status

    assert run(scenario) == 76


def test_a_bug_ends_the_process_and_its_text_is_not_logged() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.configure()
        _, _, peer = await stage.working()
        assert stage.hub.user is not None

        def bug(*_: object) -> None:
            raise ValueError(MARKER)

        stage.hub.user.answers["browser_page_observe"] = bug
        peer.ask("browser_page_observe")
        for _ in range(500):
            if stage.deaths:
                break
            await asyncio.sleep(0.01)
        assert set(stage.deaths) == {70}  # `die` returns to the loop here, and is asked again
        assert "ValueError:test_hostile.py" in stage.log.getvalue()

    run(scenario)


def test_out_of_memory_ends_the_process_without_a_word() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.configure()

        def exhausted(*_: object) -> None:
            raise MemoryError

        stage.hub.check_url = exhausted  # type: ignore[method-assign, assignment]
        stage.send(OpenTask("task_aaaa", Browser.CHROME, "https://shop.example/", (), 5))
        for _ in range(500):
            if stage.deaths:
                break
            await asyncio.sleep(0.01)
        assert set(stage.deaths) == {70}  # `die` returns to the loop here, and is asked again
        stage.send(CloseTask("task_aaaa"))

    run(scenario)


def test_a_worker_that_reads_nothing_is_cut_off() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.configure()
        _, worker, peer = await stage.working()
        entry = stage.bridge._workers[worker]

        def full(*_: object) -> None:
            raise Backpressure("full")

        entry.link.send = full  # type: ignore[method-assign, assignment]
        peer.ask("browser_status")
        assert await stage.expect(WorkerFault) == WorkerFault(worker, WorkerFaultKind.SILENT)

    run(scenario)


def test_a_supervisor_that_reads_nothing_ends_the_bridge() -> None:
    async def scenario(stage: Stage) -> int:
        await stage.configure()
        assert stage.bridge._control is not None

        def full(*_: object) -> None:
            raise Backpressure("full")

        stage.bridge._control.send = full  # type: ignore[method-assign, assignment]
        stage.send(Ping(1))
        return await stage.ended()

    assert run(scenario) == 75
