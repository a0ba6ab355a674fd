"""Workers that break the rules of the MODEL link: each is cut off, named, and holds up nobody else."""

from __future__ import annotations

import asyncio
import os

import pytest
from browsercell.protocol import limits as L
from browsercell.protocol.codec import encode
from browsercell.protocol.frames import (
    Hello,
    Infer,
    Pong,
    ToolCall,
    WorkerFault,
    WorkerFaultKind,
    WorkerForgotten,
)

from tests.bridge.model.rig import FakeWorker, Rig, run, settings, surface
from tests.support.openai_server import OpenAIServer, Reply


def raw_infer(call: int, size: int) -> bytes:
    return encode(Infer(call=call, messages=surface("x" * size)), 4 * L.MIB)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("garbage", WorkerFaultKind.BAD_FRAME),
        ("other-version", WorkerFaultKind.WRONG_VERSION),
        ("early-inference", WorkerFaultKind.WRONG_PHASE),
        ("second-hello", WorkerFaultKind.WRONG_PHASE),
        ("frame-of-another-link", WorkerFaultKind.BAD_FRAME),
        ("forged-pong", WorkerFaultKind.BAD_FRAME),
        ("oversize", WorkerFaultKind.OVERSIZE),
        ("far-oversize", WorkerFaultKind.DISCONNECTED),
        ("second-connection", WorkerFaultKind.WRONG_PHASE),
        ("gone", WorkerFaultKind.DISCONNECTED),
    ],
)
def test_a_hostile_spare_is_cut_off_and_named(name: str, kind: WorkerFaultKind) -> None:
    async def misbehave(worker: FakeWorker) -> None:
        match name:
            case "garbage":
                worker.send_raw(b"\x01garbage")
            case "other-version":
                worker.send_raw(b"\x02\x80")
            case "early-inference":
                worker.infer(1, "page")
            case "second-hello":
                worker.send(Hello(version=L.WIRE_VERSION))
            case "frame-of-another-link":
                worker.send(ToolCall(call=1, tool="browser_status", args=b"{}"))
            case "forged-pong":
                worker.send(Pong(nonce=99))
            case "oversize":
                worker.send_raw(b"\x01" * (L.MAX_WORKER_TO_MODEL + 1))
            case "far-oversize":
                worker.send_raw(b"\x01" * (2 * L.MAX_WORKER_TO_MODEL))
            case "second-connection":
                other = worker.connect()
                await other.wait_ready(5)
                other.send(encode(Hello(version=L.WIRE_VERSION), L.MIB))
            case "gone":
                worker.link.close()

    async def body() -> None:
        with OpenAIServer([]) as server:
            async with Rig(settings(server)) as rig:
                worker = await rig.spare()
                await misbehave(worker)
                assert await rig.until(WorkerFault) == WorkerFault(worker=worker.name, kind=kind)
                # Its link is gone, the next worker is served, and the supervisor's last word is answered.
                assert not (rig.place / worker.name / "model").exists()
                await rig.spare("worker-bbbb")
                rig.forget(worker)
                await rig.until(WorkerForgotten)
                assert sum(isinstance(frame, WorkerFault) for frame in rig.frames) == 1

    run(body())


@pytest.mark.parametrize(
    ("frames", "kind"),
    [
        ([raw_infer(1, 10), raw_infer(2, 10)], WorkerFaultKind.WRONG_PHASE),
        ([raw_infer(2, 10)], WorkerFaultKind.BAD_FRAME),
        ([raw_infer(1, 500_000), raw_infer(2, 500_000), raw_infer(3, 500_000)], WorkerFaultKind.WRONG_PHASE),
    ],
)
def test_a_hostile_assigned_worker_is_cut_off_and_its_request_cancelled(
    frames: list[bytes], kind: WorkerFaultKind
) -> None:
    async def body() -> None:
        with OpenAIServer([Reply(delay=2.0)]) as server:
            async with Rig(settings(server)) as rig:
                worker = await rig.assigned()
                for data in frames:
                    worker.send_raw(data)
                assert await rig.until(WorkerFault) == WorkerFault(worker=worker.name, kind=kind)
                rig.forget(worker)
                await rig.until(WorkerForgotten)

    run(body())


def test_a_message_of_another_process_cuts_the_worker_off() -> None:
    async def body() -> None:
        with OpenAIServer([]) as server:
            async with Rig(settings(server)) as rig:
                worker = await rig.connected(pid=os.getppid())
                worker.send(Hello(version=L.WIRE_VERSION))
                assert await rig.until(WorkerFault) == WorkerFault(
                    worker=worker.name, kind=WorkerFaultKind.WRONG_PID
                )
                assert worker.frames == []

    run(body())


def test_a_mute_worker_is_noticed() -> None:
    async def body() -> None:
        with OpenAIServer([]) as server:
            async with Rig(settings(server)) as rig:
                worker = await rig.spare()
                worker.mute = True
                assert await rig.until(WorkerFault) == WorkerFault(
                    worker=worker.name, kind=WorkerFaultKind.SILENT
                )

    run(body())


def test_an_assigned_worker_may_leave_without_a_word() -> None:
    async def body() -> None:
        with OpenAIServer([]) as server:
            async with Rig(settings(server)) as rig:
                worker = await rig.assigned()
                worker.link.close()
                await asyncio.sleep(0.3)
                rig.forget(worker)
                await rig.until(WorkerForgotten)
                assert not any(isinstance(frame, WorkerFault) for frame in rig.frames)

    run(body())
