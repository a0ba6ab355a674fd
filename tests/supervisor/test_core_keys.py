"""Idempotency keys on a real supervisor over stand-in bridges: one run a key, whatever dies or comes back."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from browsercell.protocol.errors import BlockerCode as B
from browsercell.protocol.frames import TaskPhase
from browsercell.protocol.results import (
    ArtifactKind,
    DelegateRequest,
    Deliverable,
    SideEffects,
    Status,
)
from browsercell.protocol.tools import DeliverItem, DeliverRequest
from browsercell.supervisor.core import Supervisor, TaskHandle
from browsercell.supervisor.delivery import grant_directory

from tests.support import supervised as s
from tests.support.supervised import supervise, until

KEY = "k-1"


def ask(supervisor: Supervisor, goal: str = "finish", session: str = "s-aaaa", **fields: Any) -> TaskHandle:
    asked: dict[str, Any] = {"playbook": (s.FINISH,), "idempotency_key": KEY} | fields
    phases = asked.pop("phases", [])
    return supervisor.delegate(
        DelegateRequest(goal, **asked),
        directory=None,
        session=session,
        on_progress=lambda *a: phases.append(a[0]),
    )


def test_a_repeated_key_gives_the_recorded_result_and_never_a_second_run(tmp_path: Path) -> None:
    async def work(supervisor: Supervisor) -> None:
        first = await ask(supervisor).result()
        assert first.status is Status.COMPLETED
        again = ask(supervisor, session="s-bbbb")
        again.cancel()  # over: harmless
        assert await again.result() == first
        assert again.task == first.task_id
        other = await ask(supervisor, idempotency_key="k-2").result()
        assert other.task_id != first.task_id
        wrong = await ask(supervisor, url="https://elsewhere.example/").result()
        assert wrong.blocker_code is B.INVALID_REQUEST
        assert "another request" in wrong.summary

    supervise(tmp_path, work)


def test_while_the_task_runs_a_repeated_key_waits_for_the_same_result(tmp_path: Path) -> None:
    async def work(supervisor: Supervisor) -> None:
        phases: list[TaskPhase] = []
        first = ask(supervisor, "hang", phases=phases)
        await until(lambda: TaskPhase.RUNNING in phases)
        second = ask(supervisor, "hang", session="s-bbbb")
        assert second.task == first.task
        second.cancel()
        assert await first.result() == await second.result()
        assert (await first.result()).blocker_code is B.CANCELLED
        assert (await ask(supervisor, "hang").result()).blocker_code is B.CANCELLED

    supervise(tmp_path, work)


def test_a_refusal_is_not_recorded(tmp_path: Path) -> None:
    async def work(supervisor: Supervisor) -> None:
        assert (await ask(supervisor, url="ftp://x/").result()).blocker_code is B.INVALID_REQUEST
        assert (await ask(supervisor).result()).status is Status.COMPLETED

    supervise(tmp_path, work)


def test_the_host_that_comes_back_may_deliver_what_its_task_made(tmp_path: Path) -> None:
    session = tmp_path / "session"
    session.mkdir()
    table = Deliverable("prices", ArtifactKind.TABLE, True)

    async def work(supervisor: Supervisor) -> None:
        await ask(supervisor, deliverables=(table,)).result()
        result = await ask(supervisor, session="s-bbbb", deliverables=(table,)).result()
        request = DeliverRequest((DeliverItem(result.artifacts[0].artifact_id, "out.csv"),))
        directory = grant_directory(str(session))
        [delivery] = await supervisor.deliver(request, session="s-bbbb", directory=directory)
        assert delivery.delivered
        [refused] = await supervisor.deliver(request, session="s-aaaa", directory=directory)
        assert refused.code == "unknown-grant"

    supervise(tmp_path, work)


@pytest.mark.parametrize("goal", ["finish", "hang"])
def test_after_the_supervisors_death_the_key_tells_what_may_have_been_done(tmp_path: Path, goal: str) -> None:
    """The state folder as it was at the moment of the death is what the next supervisor finds."""
    taken = tmp_path / "taken.sqlite"

    async def before(supervisor: Supervisor) -> None:
        phases: list[TaskPhase] = []
        running = ask(supervisor, goal, phases=phases)
        if goal == "hang":
            await until(lambda: TaskPhase.RUNNING in phases)
        with (
            closing(sqlite3.connect(supervisor._places.recorded)) as db,
            closing(sqlite3.connect(taken)) as copy,
        ):
            db.backup(copy)
        running.cancel()
        await running.result()

    async def after(supervisor: Supervisor) -> None:
        result = await ask(supervisor, goal).result()
        assert (result.status, result.blocker_code) == (Status.FAILED, B.SUPERVISOR_RESTARTED)
        assert result.side_effects is (SideEffects.POSSIBLE if goal == "hang" else SideEffects.NONE)

    place = tmp_path / "one"
    place.mkdir()
    supervise(place, before)
    other = tmp_path / "two"
    other.mkdir()
    state = Path(s.settings(other).state_folder)
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    shutil.copy(taken, state / "delegations.sqlite")
    supervise(other, after)


def test_what_cannot_be_recorded_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(supervisor: Supervisor) -> None:
        def full(*_: object) -> None:
            raise sqlite3.OperationalError("database or disk is full")

        with monkeypatch.context() as patched:
            patched.setattr(supervisor._recorded, "started", full)
            result = await ask(supervisor).result()
            assert result.blocker_code is B.OVERLOADED
            assert "twice" in result.summary
        with monkeypatch.context() as patched:
            patched.setattr(supervisor._recorded, "ended", full)
            assert (await ask(supervisor).result()).status is Status.COMPLETED
        again = await ask(supervisor).result()  # it ran; its result could not be kept
        assert again.blocker_code is B.OVERLOADED
        assert msgspec.json.encode(again)

    supervise(tmp_path, work)
