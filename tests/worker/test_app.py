"""The worker's shell: the real program, sealed, against two scripted bridges over real sockets."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import runpy
import sys
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest
from browsercell.protocol.errors import PeerUnreachable, PeerViolation, SandboxError
from browsercell.protocol.frames import (
    Assignment,
    ChatRole,
    ChatToolCall,
    Finish,
    Frame,
    Hello,
    Infer,
    Inference,
    SandboxLevel,
    Sealed,
    SealReport,
    ToolCall,
    ToolResult,
)
from browsercell.protocol.results import ArtifactClaim, ClaimStatus, PlannerKind
from browsercell.worker.app import main, parse_arguments
from browsercell.worker.loop import Exit
from browsercell.worker.seal import Fences

from tests.worker.fake_bridges import FakeBridges, finishing


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(test)


def assignment(planner: PlannerKind, playbook: list[dict[str, Any]] | None = None) -> Assignment:
    return Assignment(
        task="task-aaaa",
        generation=1,
        planner=planner,
        goal="buy tea",
        constraints=(),
        start_url=None,
        deliverables=(),
        steps=8,
        tool_calls=20,
        playbook=None if playbook is None else json.dumps(playbook).encode(),
    )


PLAYBOOK: list[dict[str, Any]] = [
    {"tool": "browser_page_navigate", "args": {"url": "http://shop.example/search"}},
    {"expect": {"text": "results"}},
    {"tool": "browser_page_screenshot", "args": {}, "purpose": "picture"},
    {"finish": {"status": "completed", "summary": "Done"}},
]


def all_well(call: ToolCall) -> ToolResult:
    artifact = "art-aaaa" if call.tool == "browser_page_screenshot" else ""
    return ToolResult(
        call=call.call, ok=True, content="page text", artifact=artifact, calls_left=20 - call.call
    )


def calls_of(bridges: FakeBridges) -> list[ToolCall]:
    return [frame for frame in bridges.heard if isinstance(frame, ToolCall)]


def test_a_sealed_worker_runs_a_playbook_and_leaves_with_0() -> None:
    async def body() -> None:
        async with FakeBridges(finishing(all_well)) as bridges:
            sealed = await bridges.sealed()
            assert sealed.report.level is not SandboxLevel.UNSANDBOXED
            assert [type(frame) for frame in bridges.heard] == [Hello, Hello, Sealed]
            bridges.assign(assignment(PlannerKind.PLAYBOOK, PLAYBOOK))
            finish = await bridges.until(Finish)
            assert isinstance(finish, Finish)
            assert finish.claim.status is ClaimStatus.COMPLETED
            assert finish.claim.summary == "Done"
            assert finish.claim.artifacts == (ArtifactClaim(artifact_id="art-aaaa", purpose="picture"),)
            assert [call.tool for call in calls_of(bridges)] == [
                "browser_page_navigate",
                "browser_page_wait",
                "browser_page_screenshot",
            ]
            assert [call.call for call in calls_of(bridges)] == [1, 2, 3]
            assert await bridges.status() == Exit.OK
            assert bridges.log.read_bytes() == b""

    run(body())


def test_a_playbook_survives_the_model_bridge_and_stops_with_the_bridge() -> None:
    async def body() -> None:
        async with FakeBridges(finishing(all_well)) as bridges:
            await bridges.sealed()
            bridges.page_script = lambda _frame: ()
            bridges.assign(assignment(PlannerKind.PLAYBOOK, PLAYBOOK))
            await bridges.until(ToolCall)
            bridges.model.close()
            await asyncio.sleep(0.1)
            bridges.page_script = finishing(all_well)
            bridges.send("page", all_well(calls_of(bridges)[0]))
            await bridges.until(Finish)
            assert await bridges.status() == Exit.OK

    run(body())


def test_a_models_task_runs_over_both_links() -> None:
    replies = [
        [
            ChatToolCall("a", "browser_page_observe", "{}"),
            ChatToolCall("b", "browser_page_click", '{"ref":"e1"}'),
        ],
        [ChatToolCall("c", "structured_output", '{"status":"completed","summary":"Read it"}')],
    ]

    def model(frame: Frame) -> Sequence[Frame]:
        if isinstance(frame, Infer):
            return [Inference(call=frame.call, tool_calls=tuple(replies[frame.call - 1]))]
        return []

    async def body() -> None:
        async with FakeBridges(finishing(all_well), model) as bridges:
            await bridges.sealed()
            bridges.assign(assignment(PlannerKind.LLM))
            finish = await bridges.until(Finish)
            assert isinstance(finish, Finish)
            assert finish.claim.summary == "Read it"
            assert [call.tool for call in calls_of(bridges)] == ["browser_page_observe", "browser_page_click"]
            first, second = [frame for frame in bridges.heard if isinstance(frame, Infer)]
            assert "page text" not in repr(first)
            answers = [message.content for message in second.messages if message.role is ChatRole.TOOL]
            assert len(answers) == 2
            boundaries = {answer.split()[4].rstrip("\u27e7") for answer in answers}
            assert len(boundaries) == 1
            assert all("page text" in answer for answer in answers)
            assert await bridges.status() == Exit.OK

    run(body())


def test_each_step_gets_another_boundary() -> None:
    def model(frame: Frame) -> Sequence[Frame]:
        if isinstance(frame, Infer):
            return [Inference(call=frame.call, tool_calls=(ChatToolCall("a", "browser_page_observe", "{}"),))]
        return []

    async def body() -> None:
        async with FakeBridges(finishing(all_well), model) as bridges:
            await bridges.sealed()
            bridges.assign(assignment(PlannerKind.LLM))
            await bridges.until(Infer, 4)
            surfaces = [frame for frame in bridges.heard if isinstance(frame, Infer)][1:4]
            marks = {surface.messages[-1].content.splitlines()[1] for surface in surfaces}
            assert len(marks) == 3

    run(body())


def test_pings_are_answered_while_a_call_is_open() -> None:
    async def body() -> None:
        async with FakeBridges() as bridges:
            await bridges.sealed()
            bridges.ping("model", 1)
            bridges.assign(assignment(PlannerKind.PLAYBOOK, PLAYBOOK))
            await bridges.until(ToolCall)
            for nonce in range(2, 40):
                bridges.ping("page" if nonce % 2 else "model", nonce)
            async with asyncio.timeout(10):
                while len(bridges.pongs()) < 39:
                    await asyncio.sleep(0.01)
            assert sorted(bridges.pongs()) == list(range(1, 40))

    run(body())


@pytest.mark.parametrize(
    ("what", "status"),
    [
        ("garbage", Exit.VIOLATION),
        ("version", Exit.VIOLATION),
        ("bridge-gone", Exit.LINK_LOST),
        ("unreachable", Exit.UNREACHABLE),
    ],
)
def test_how_a_spare_ends_when_a_bridge_fails_it(what: str, status: Exit) -> None:
    async def body() -> None:
        async with FakeBridges() as bridges:
            if what == "version":
                bridges.welcome_version = 99
            if what == "unreachable":
                bridges.model.close()
            if what in ("version", "unreachable"):
                bridges.spawn()
            else:
                await bridges.sealed()
            if what == "garbage":
                bridges.send_raw("page", b"\x01garbage")
            if what == "bridge-gone":
                bridges.page.close()
            assert await bridges.status() == status
            assert bridges.log.read_bytes() == b""

    run(body())


CRASH = """
import sys
from browsercell.worker import app, loop

def crash(self, *args):
    sys.stderr.write("MARKER before\\n")
    print("MARKER printed", flush=True)
    raise RuntimeError("MARKER raised")

loop.Loop._assigned = crash
loop.TABLE = {**loop.TABLE, (loop.State.SPARE, loop.Kind.ASSIGNED): crash}
app.main(sys.argv[1:])
"""


def test_a_worker_that_raises_after_the_seal_says_nothing_but_its_status() -> None:
    async def body() -> None:
        async with FakeBridges() as bridges:
            bridges.spawn([sys.executable, "-I", "-B", "-c", CRASH])
            await bridges.until(Sealed)
            bridges.assign(assignment(PlannerKind.PLAYBOOK, PLAYBOOK))
            assert await bridges.status() == Exit.CRASHED
            assert bridges.log.read_bytes() == b""

    run(body())


def test_a_bad_command_line_is_one_line_and_a_status() -> None:
    async def body() -> None:
        async with FakeBridges() as bridges:
            bridges.spawn([*bridges.command(), "--surprise", "1"])
            assert await bridges.status() == Exit.USAGE
            assert bridges.log.read_text().startswith("browsercell worker: --folder F")

    run(body())


GOOD = ["--folder", "/f", "--parent", "1", "--uid", "-1", "--memory", "2", "--cpu", "3"]


def test_the_options_may_come_in_any_order() -> None:
    assert parse_arguments(GOOD) == ("/f", 1, -1, 2, 3)
    assert parse_arguments([*GOOD[2:], *GOOD[:2]]) == ("/f", 1, -1, 2, 3)


@pytest.mark.parametrize(
    "argv",
    [
        [],
        GOOD[2:],
        [*GOOD, "--uid"],
        [*GOOD, "--uid", "1"],
        ["--folder", "f", *GOOD[2:]],
        [*GOOD[:2], "--parent", "x", *GOOD[4:]],
        [*GOOD[:2], "--parent", "0", *GOOD[4:]],
        [*GOOD[:4], "--uid", "-2", *GOOD[6:]],
        [*GOOD[:8], "--cpu", "0"],
    ],
)
def test_wrong_options_are_refused(argv: list[str]) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_arguments(argv)


class Exited(BaseException):
    """Stands for the end of the process."""


def in_process(
    monkeypatch: pytest.MonkeyPatch,
    argv: list[str],
    start: Callable[[list[str]], object] = main,
    **seal: Any,
) -> int:
    """The worker in this process, with a seal that does nothing but what is given; returns the exit status."""
    statuses: list[int] = []

    def leave(status: int) -> None:
        statuses.append(int(status))
        raise Exited

    layers = {
        "begin": lambda _ppid: None,
        "warm_up": lambda: None,
        "enter_fences": lambda **_: Fences(
            empty_root=False, layers=(), landlock_abi=0, null_fd=-1, off=frozenset()
        ),
        "drop_to_allow_list": lambda _fences: SealReport(SandboxLevel.UNSANDBOXED, ()),
        **seal,
    }
    for name, function in layers.items():
        monkeypatch.setattr(f"browsercell.worker.seal.{name}", function)
    monkeypatch.setattr(os, "_exit", leave)
    monkeypatch.setattr(gc, "freeze", lambda: None)
    with pytest.raises(Exited):
        start(argv)
    return statuses[0]


def raising(error: BaseException) -> Any:
    def function(*_args: Any, **_fields: Any) -> Any:
        raise error

    return function


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (SandboxError("landlock", "EIO"), Exit.SEAL_FAILED),
        (PeerUnreachable("gone"), Exit.UNREACHABLE),
        (PeerViolation("nonsense"), Exit.VIOLATION),
        (MemoryError(), Exit.CRASHED),
        (KeyboardInterrupt(), Exit.CRASHED),
    ],
)
def test_every_end_has_its_status(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], error: BaseException, status: Exit
) -> None:
    assert in_process(monkeypatch, GOOD, enter_fences=raising(error)) == status
    said = capfd.readouterr().err
    assert said == (
        "browsercell worker: sealing the worker failed at landlock (EIO)\n"
        if status is Exit.SEAL_FAILED
        else ""
    )


def test_the_shell_carries_a_task_in_this_process_too(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body() -> None:
        async with FakeBridges(finishing(all_well), same_uid=True) as bridges:
            work = asyncio.create_task(asyncio.to_thread(in_process, monkeypatch, bridges.options()))
            await bridges.until(Sealed)
            bridges.ping("model", 3)
            bridges.assign(assignment(PlannerKind.PLAYBOOK, PLAYBOOK))
            await bridges.until(Finish)
            assert await work == Exit.OK

    run(body())


def test_the_shell_ends_when_the_bridge_is_lost_in_this_process_too(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body() -> None:
        async with FakeBridges(same_uid=True) as bridges:
            work = asyncio.create_task(asyncio.to_thread(in_process, monkeypatch, bridges.options()))
            await bridges.until(Sealed)
            bridges.assign(assignment(PlannerKind.PLAYBOOK, PLAYBOOK))
            await bridges.until(ToolCall)
            bridges.model.close()
            bridges.page.close()
            assert await work == Exit.LINK_LOST

    run(body())


def test_without_stderr_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    assert in_process(monkeypatch, []) == Exit.USAGE


def test_the_module_is_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["worker"])
    assert (
        in_process(monkeypatch, [], lambda _: runpy.run_module("browsercell.worker", run_name="__main__"))
        == Exit.USAGE
    )
