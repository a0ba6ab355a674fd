"""A real supervisor over stand-in bridges and workers: every end of a task, every death, nothing left behind."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from browsercell.protocol.errors import BlockerCode as B
from browsercell.protocol.frames import TaskPhase
from browsercell.protocol.results import (
    ArtifactKind,
    Browser,
    DelegateRequest,
    Deliverable,
    DeliveryStatus,
    SideEffects,
    Status,
    TaskLimits,
)
from browsercell.protocol.settings import ModelSettings
from browsercell.protocol.tools import DeliverItem, DeliverRequest
from browsercell.supervisor import coordinator, messages
from browsercell.supervisor.core import Supervisor
from browsercell.supervisor.delivery import grant_directory
from browsercell.supervisor.settings import MemorySettings

from tests.support import supervised as s
from tests.support.supervised import gone, next_task_works, pid_of, supervise, until

TABLE = Deliverable("prices", ArtifactKind.TABLE, True, "out.csv")
CONTENT = b"name,price\ntea,3\n"


# ---------------------------------------------------------------------------------------------------- ordinary


def test_a_task_runs_is_delivered_and_leaves_nothing(tmp_path: Path) -> None:
    session = tmp_path / "session"
    session.mkdir()

    async def work(supervisor: Supervisor) -> None:
        directory = grant_directory(str(session))
        seen: list[tuple[Any, ...]] = []
        request = DelegateRequest("finish", deliverables=(TABLE,), playbook=(s.FINISH,))
        handle = supervisor.delegate(
            request, directory=directory, session="s-aaaa", on_progress=lambda *a: seen.append(a)
        )
        result = await handle.result()
        assert (result.status, result.delivery_status) == (Status.COMPLETED, DeliveryStatus.COMPLETED)
        assert result.task_id == handle.task
        assert (session / "out.csv").read_bytes() == CONTENT
        assert [p.name for p in session.iterdir()] == ["out.csv"]
        assert list(dict.fromkeys(one[0] for one in seen)) == [
            phase for phase in TaskPhase if phase is not TaskPhase.QUEUED
        ]
        assert (TaskPhase.RUNNING, 1, "browser_page_observe", True) in [(one[0], *one[2:5]) for one in seen]
        assert result.usage.steps == 1  # counted by the model bridge, whose word may come later
        handle.cancel()  # over: harmless

        # Delivered again: recognised, not repeated. Elsewhere: delivered there. Onto something: refused.
        [artifact] = result.artifacts

        async def again(path: str | None, session: str = "s-aaaa") -> Any:
            item = DeliverItem(artifact.artifact_id, path)
            [delivery] = await supervisor.deliver(
                DeliverRequest((item,)), session=session, directory=directory
            )
            return delivery

        inode = (session / "out.csv").stat().st_ino
        assert (await again(None)).delivered
        assert (session / "out.csv").stat().st_ino == inode
        assert (await again("second.csv")).delivered
        assert (session / "second.csv").read_bytes() == CONTENT
        assert (await again("out.csv")).code == "exists"
        assert (await again("../out.csv")).code == "parent-path"
        assert (await again("x.csv", "s-bbbb")).code == "unknown-grant"
        [lost] = await supervisor.deliver(
            DeliverRequest((DeliverItem(artifact.artifact_id, "y"),)), session="s-aaaa", directory=None
        )
        assert lost.code == "no-directory"

    supervise(tmp_path, work)


def test_a_file_that_appears_during_the_task_makes_it_partial(tmp_path: Path) -> None:
    async def work(supervisor: Supervisor) -> None:
        request = DelegateRequest("finish", deliverables=(TABLE,), playbook=(s.FINISH,))

        def appears(*_: Any) -> None:
            (tmp_path / "out.csv").write_text("mine")

        handle = supervisor.delegate(
            request, directory=grant_directory(str(tmp_path)), session="s-aaaa", on_progress=appears
        )
        result = await handle.result()
        assert (result.status, result.delivery_status) == (Status.PARTIAL, DeliveryStatus.FAILED)
        assert result.deliveries[0].code == "exists"
        assert (tmp_path / "out.csv").read_text() == "mine"

    supervise(tmp_path, work)


@pytest.mark.parametrize(
    ("path", "fault", "next_step"),
    [
        ("mine.csv", "the file exists", "Remove the file, or name another path."),
        (
            "nowhere/out.csv",
            "a folder of the path does not exist",
            "Create the folder, or name another path.",
        ),
        ("link/out.csv", "a folder of the path is a symbolic link", "Name a path of real folders."),
        ("mine.csv/out.csv", "a folder of the path is no folder", "Name a path of real folders."),
        ("../out.csv", "the path holds '..'", "Give a plain relative path."),
        ("/out.csv", "the path is absolute", "Give one relative to the working directory."),
    ],
)
def test_a_path_that_can_not_be_delivered_to_is_refused_before_anything_runs(
    tmp_path: Path, path: str, fault: str, next_step: str
) -> None:
    session = tmp_path / "session"
    session.mkdir()
    (session / "mine.csv").write_text("mine")
    (session / "link").symlink_to(tmp_path)
    before = sorted(one.name for one in session.iterdir())

    async def work(supervisor: Supervisor) -> None:
        seen: list[Any] = []
        fine = Deliverable("fine", ArtifactKind.TEXT, True, "fine.txt")
        bad = Deliverable("prices", ArtifactKind.TABLE, False, path)
        request = DelegateRequest("finish", deliverables=(fine, bad), playbook=(s.FINISH,))
        directory = grant_directory(str(session))
        handle = supervisor.delegate(
            request, directory=directory, session="s-aaaa", on_progress=lambda *a: seen.append(a)
        )
        result = await handle.result()
        assert (result.status, result.blocker_code) == (Status.FAILED, B.INVALID_REQUEST)
        assert result.summary.startswith(f"Deliverable prices can't be delivered: {fault}")
        assert (result.next_step, result.usage.generations, seen) == (next_step, 0, [])
        assert sorted(one.name for one in session.iterdir()) == before
        assert (session / "mine.csv").read_text() == "mine"

    supervise(tmp_path, work)


def test_grants_outlive_a_supervisor(tmp_path: Path) -> None:
    settings = s.settings(tmp_path)
    artifacts: list[str] = []

    async def first() -> None:
        supervisor = Supervisor(settings, s.programs())
        await supervisor.start()
        artifacts.extend(one.artifact_id for one in (await s.delegate(supervisor, "finish")).artifacts)
        await supervisor.stop(2.0)
        await supervisor.stop(2.0)  # harmless

    async def second() -> None:
        supervisor = Supervisor(settings, s.programs())
        await supervisor.start()
        [delivery] = await supervisor.deliver(
            DeliverRequest((DeliverItem(artifacts[0]),)),
            session="s-aaaa",
            directory=grant_directory(str(tmp_path)),
        )
        assert delivery.code == "no-path"
        [delivery] = await supervisor.deliver(
            DeliverRequest((DeliverItem(artifacts[0], "late.csv"),)),
            session="s-aaaa",
            directory=grant_directory(str(tmp_path)),
        )
        assert delivery.delivered
        await supervisor.stop(2.0)

    s.run(first)
    s.run(second)
    assert (tmp_path / "late.csv").read_bytes() == CONTENT


# ---------------------------------------------------------------------------------------------------- ends


@pytest.mark.parametrize(
    ("goal", "code", "effects"),
    [
        ("guard:no-progress", B.NO_PROGRESS, SideEffects.POSSIBLE),
        ("guard:tool-call-limit", B.TOOL_CALL_LIMIT, SideEffects.POSSIBLE),
        ("guard:browser-lost", B.BROWSER_UNAVAILABLE, SideEffects.POSSIBLE),
        ("fault:overdraft", B.WORKER_CRASHED, SideEffects.POSSIBLE),
        ("crash", B.WORKER_CRASHED, SideEffects.POSSIBLE),
        ("sigsys", B.SANDBOX_VIOLATION, SideEffects.POSSIBLE),
        ("die", B.BRIDGE_LOST, SideEffects.POSSIBLE),
        ("violate", B.BRIDGE_LOST, SideEffects.POSSIBLE),
        ("foreign", B.BRIDGE_LOST, SideEffects.POSSIBLE),
        ("oversize", B.BRIDGE_LOST, SideEffects.POSSIBLE),
    ],
)
def test_every_end_has_its_code_and_the_next_task_works(
    tmp_path: Path, goal: str, code: B, effects: SideEffects
) -> None:
    async def work(supervisor: Supervisor) -> None:
        result = await s.delegate(supervisor, goal)
        assert (result.blocker_code, result.side_effects) == (code, effects)
        assert result.usage.generations == 1
        await next_task_works(supervisor)
        assert supervisor.status()["sandbox"]["incidents"] == (goal == "sigsys")

    supervise(tmp_path, work)


def test_a_result_that_is_sent_only_after_the_worker_exited_still_counts(tmp_path: Path) -> None:
    async def work(supervisor: Supervisor) -> None:
        assert (await s.delegate(supervisor, "late")).status is Status.COMPLETED

    supervise(tmp_path, work)


@pytest.mark.parametrize(
    ("url", "code"),
    [("http://fake.test/refuse", B.POLICY_DENIED), ("http://fake.test/private", B.BROWSER_UNAVAILABLE)],
)
def test_opening_that_fails_has_its_code(tmp_path: Path, url: str, code: B) -> None:
    async def work(supervisor: Supervisor) -> None:
        browser = Browser.PRIVATE if url.endswith("private") else Browser.CHROME
        result = await s.delegate(supervisor, "finish", url=url, browser=browser)
        assert (result.blocker_code, result.side_effects) == (code, SideEffects.NONE)
        await next_task_works(supervisor)

    supervise(tmp_path, work)


def test_a_browser_that_never_stands_ready_ends_the_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coordinator, "OPEN", 0.2)

    async def work(supervisor: Supervisor) -> None:
        result = await s.delegate(supervisor, "finish", url="http://fake.test/never")
        assert result.summary == messages.BROWSER_LATE.happened + "."

    supervise(tmp_path, work)


def test_a_cancelled_task_ends_cancelled_and_its_worker_is_gone(tmp_path: Path) -> None:
    async def work(supervisor: Supervisor) -> None:
        phases: list[TaskPhase] = []
        request = DelegateRequest("hang", playbook=(s.FINISH,))
        handle = supervisor.delegate(
            request, directory=None, session="s-aaaa", on_progress=lambda *a: phases.append(a[0])
        )
        await until(lambda: TaskPhase.RUNNING in phases)
        worker = next(row.pid for row in supervisor.processes() if row.state == "working")
        handle.cancel()
        result = await handle.result()
        assert (result.blocker_code, result.side_effects) == (B.CANCELLED, SideEffects.POSSIBLE)
        assert gone(worker)
        await next_task_works(supervisor)

    supervise(tmp_path, work)


@pytest.mark.parametrize("announced", [True, False])
def test_a_shutdown_during_a_task_is_told_as_one(tmp_path: Path, announced: bool) -> None:
    async def work(supervisor: Supervisor) -> None:
        phases: list[TaskPhase] = []
        request = DelegateRequest("hang", playbook=(s.FINISH,))
        handle = supervisor.delegate(
            request, directory=None, session="s-aaaa", on_progress=lambda *a: phases.append(a[0])
        )
        await until(lambda: TaskPhase.RUNNING in phases)
        if announced:  # hosts are let go in between, which cancels
            supervisor.begin_stop()
            handle.cancel()
            late = await s.delegate(supervisor, "finish")
            assert late.summary == messages.STOPPING.happened + "."
        await supervisor.stop(5.0)
        result = await handle.result()
        assert (result.blocker_code, result.status) == (B.SUPERVISOR_RESTARTED, Status.FAILED)
        assert result.retryable
        assert result.summary == "The supervisor was shut down while the task ran."
        assert (result.next_step or "").startswith("Delegate again")

    supervise(tmp_path, work)


def test_a_task_over_its_time_is_ended(tmp_path: Path) -> None:
    async def work(supervisor: Supervisor) -> None:
        result = await s.delegate(supervisor, "hang", limits=TaskLimits(seconds=1))
        assert result.blocker_code is B.TIME_LIMIT
        assert 1.0 <= result.usage.seconds < 5.0

    supervise(tmp_path, work)


@pytest.mark.parametrize("role", ["bridge", "model-bridge", "worker"])
def test_a_process_killed_during_a_task_ends_it_honestly_and_the_next_one_works(
    tmp_path: Path, role: str
) -> None:
    codes = {"bridge": B.BRIDGE_LOST, "model-bridge": B.MODEL_UNAVAILABLE, "worker": B.WORKER_CRASHED}

    async def work(supervisor: Supervisor) -> None:
        phases: list[TaskPhase] = []
        handle = supervisor.delegate(
            DelegateRequest("hang"),
            directory=None,
            session="s-aaaa",
            on_progress=lambda *a: phases.append(a[0]),
        )
        await until(lambda: TaskPhase.RUNNING in phases)
        rows = [
            row for row in supervisor.processes() if row.role == role and row.state in ("working", "ready")
        ]
        victim = next(row.pid for row in rows if role != "worker" or row.state == "working")
        os.kill(victim, signal.SIGKILL)
        result = await handle.result()
        assert (result.blocker_code, result.side_effects) == (codes[role], SideEffects.POSSIBLE)
        await next_task_works(supervisor)
        restarts = {row.role: row.restarts for row in supervisor.processes()}
        assert restarts.get(role, 0) == (role != "worker")

    supervise(tmp_path, work, model=ModelSettings(model="m", base_url="http://127.0.0.1:1/v1"))


def test_a_playbook_outlives_the_model_bridge(tmp_path: Path) -> None:
    async def work(supervisor: Supervisor) -> None:
        task = asyncio.ensure_future(s.delegate(supervisor, "hang", limits=TaskLimits(seconds=2)))
        await until(lambda: any(row.state == "working" for row in supervisor.processes()))
        os.kill(pid_of(supervisor, "model-bridge"), signal.SIGKILL)
        assert (await task).blocker_code is B.TIME_LIMIT
        await next_task_works(supervisor)

    supervise(tmp_path, work)


def test_a_bridge_that_hangs_is_noticed_by_its_pings_and_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("browsercell.supervisor.child._PINGS", 0.1)

    async def work(supervisor: Supervisor) -> None:
        result = await s.delegate(supervisor, "stop")
        assert result.blocker_code is B.BRIDGE_LOST
        await next_task_works(supervisor)
        assert supervisor.status()["bridge"]["restarts"] == 1

    supervise(tmp_path, work)


@pytest.mark.parametrize(
    ("scenario", "code"),
    [
        ("fault:step-limit", B.STEP_LIMIT),
        ("fault:model-unavailable", B.MODEL_UNAVAILABLE),
        ("fault:cancelled", B.MODEL_UNAVAILABLE),
    ],
)
def test_what_the_model_bridge_says_ends_a_task(tmp_path: Path, scenario: str, code: B) -> None:
    """A code that is not the model bridge's to give is a violation: it is ended, and the task with it."""

    async def work(supervisor: Supervisor) -> None:
        assert (await s.delegate(supervisor, "hang", playbook=None)).blocker_code is code

    supervise(
        tmp_path,
        work,
        stand_ins={"model": scenario},
        model=ModelSettings(model="m", base_url="http://127.0.0.1:1/v1"),
    )


def test_a_model_bridge_that_never_answers_ends_the_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coordinator, "BIND", 0.2)

    async def work(supervisor: Supervisor) -> None:
        assert (await s.delegate(supervisor, "finish")).blocker_code is B.MODEL_UNAVAILABLE

    supervise(tmp_path, work, stand_ins={"model": "never"})


def test_a_worker_that_floods_a_bridge_is_ended_before_the_bridge_is(tmp_path: Path) -> None:
    async def work(supervisor: Supervisor) -> None:
        before = next(row.memory for row in supervisor.processes() if row.role == "supervisor")
        bridge = pid_of(supervisor, "bridge")
        result = await s.delegate(supervisor, "flood")
        assert (result.blocker_code, result.summary) == (
            B.WORKER_CRASHED,
            messages.WORKER_FAULT.happened + ".",
        )
        assert pid_of(supervisor, "bridge") == bridge
        after = next(row.memory for row in supervisor.processes() if row.role == "supervisor")
        assert after - before < 8 << 20

    supervise(tmp_path, work, memory=MemorySettings(bridge=256 << 20))


# ---------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"goal": "password: hunter2"}, B.SECRET_IN_GOAL),
        ({"playbook": None}, B.MODEL_UNCONFIGURED),
        ({"browser": Browser.PRIVATE}, B.BROWSER_UNAVAILABLE),
        ({"deliverables": (Deliverable("a", ArtifactKind.TEXT, path="../x"),)}, B.INVALID_REQUEST),
        ({"deliverables": (Deliverable("a", ArtifactKind.TEXT, path="x"),)}, B.INVALID_REQUEST),
    ],
)
def test_a_refused_delegation_is_a_result_and_used_nothing(
    tmp_path: Path, fields: dict[str, Any], code: B
) -> None:
    async def work(supervisor: Supervisor) -> None:
        asked: dict[str, Any] = {"goal": "finish"} | fields
        result = await s.delegate(supervisor, **asked)
        assert (result.blocker_code, result.usage.generations) == (code, 0)
        assert result.next_step

    supervise(tmp_path, work)


def test_tasks_wait_in_a_bounded_queue_and_more_are_refused(tmp_path: Path) -> None:
    async def work(supervisor: Supervisor) -> None:
        phases: list[Any] = []

        def ask(goal: str) -> Any:
            request = DelegateRequest(goal, playbook=(s.FINISH,))
            return supervisor.delegate(
                request, directory=None, session="s-aaaa", on_progress=lambda *a: phases.append(a)
            )

        running, waiting, third = ask("hang"), ask("finish"), ask("finish")
        assert (await third.result()).blocker_code is B.OVERLOADED
        assert phases[-1][0] is TaskPhase.QUEUED or phases[0][0] is not TaskPhase.QUEUED
        capacity = supervisor.status()["capacity"]
        assert (capacity["running"], capacity["queued"]) == (1, 1)
        running.cancel()
        assert (await running.result()).blocker_code is B.CANCELLED
        assert (await waiting.result()).status is Status.COMPLETED

    supervise(tmp_path, work, max_tasks=1, max_queue=1)


def test_a_progress_listener_that_fails_costs_nothing(tmp_path: Path) -> None:
    async def work(supervisor: Supervisor) -> None:
        def broken(*_: object) -> None:
            raise RuntimeError("the host's own fault")

        request = DelegateRequest("finish", playbook=(s.FINISH,))
        handle = supervisor.delegate(request, directory=None, session="s-aaaa", on_progress=broken)
        assert (await handle.result()).status is Status.COMPLETED

    supervise(tmp_path, work)
