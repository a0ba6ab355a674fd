"""Deliveries over a bridge that answers well, badly, late or not at all."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from browsercell.protocol.frames import Deliver, Delivered, DeliveryFailed, DeliveryProblem, Frame, Pong
from browsercell.protocol.results import ArtifactKind, Delivery, ResolvedArtifact
from browsercell.protocol.tools import DeliverItem, DeliverRequest
from browsercell.supervisor import deliveries as module
from browsercell.supervisor.deliveries import Deliveries
from browsercell.supervisor.delivery import DirectoryGrant, grant_directory
from browsercell.supervisor.grants import Grants
from browsercell.supervisor.messages import DELIVERIES
from browsercell.supervisor.verdict import Wanted

CONTENT = b"data"
HASH = "a" * 64
ARTIFACT = ResolvedArtifact("a_" + "b" * 26, "prices", ArtifactKind.TABLE, len(CONTENT), HASH, "text/csv")
Answer = Callable[[Deliver, int], Frame | None]


class Bench:
    """Grants, a session's directory, and deliveries whose bridge answers by `answer` (None: never)."""

    def __init__(self, place: Path) -> None:
        self.session = place / "session"
        self.session.mkdir()
        self.directory: DirectoryGrant = grant_directory(str(self.session))
        self.grants = Grants(place / "grants.sqlite")
        self.grants.open(0)
        self.there = True

    def run(self, answer: Answer, work: Callable[[Deliveries], Coroutine[Any, Any, Any]]) -> Any:
        async def main() -> Any:
            def send(frame: Frame, fds: Sequence[int]) -> bool:
                assert isinstance(frame, Deliver)
                reply = answer(frame, fds[0]) if self.there else None
                if reply is not None:
                    asyncio.get_running_loop().call_soon(shell.received, reply)
                return self.there

            shell = Deliveries(self.grants, send, ttl=3600)
            made = await work(shell)
            assert shell.under_way == 0
            return made

        made = asyncio.run(main())
        assert [p for p in self.session.rglob("*") if p.name.endswith(".part")] == []
        return made

    def deliver(self, answer: Answer, path: str = "out.csv") -> Delivery:
        [made] = self.run(
            answer,
            lambda shell: shell.after_task("t", "s-one", [Wanted(ARTIFACT, path, True)], self.directory),
        )
        assert isinstance(made, Delivery)
        return made


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.grants.close()


def good(frame: Deliver, descriptor: int) -> Frame:
    assert frame.max_bytes == len(CONTENT)
    os.write(descriptor, CONTENT)
    return Delivered(frame.delivery, len(CONTENT), HASH)


def test_a_good_answer_publishes_the_file(bench: Bench) -> None:
    made = bench.deliver(good)
    assert (made.delivered, made.size, made.sha256, made.code) == (True, 4, HASH, "")
    assert (bench.session / "out.csv").read_bytes() == CONTENT


@pytest.mark.parametrize("problem", list(DeliveryProblem))
def test_each_problem_of_the_bridge_is_told_with_its_sentence(bench: Bench, problem: DeliveryProblem) -> None:
    made = bench.deliver(lambda frame, _fd: DeliveryFailed(frame.delivery, problem))
    assert (made.delivered, made.code) == (False, problem.value)
    assert made.message.startswith(DELIVERIES[problem.value].happened)
    assert list(bench.session.iterdir()) == []


@pytest.mark.parametrize(
    "answer",
    [
        lambda frame, fd: (os.write(fd, CONTENT), Delivered(frame.delivery, 4, "b" * 64))[1],
        lambda frame, fd: (os.write(fd, CONTENT), Delivered(frame.delivery, 5, HASH))[1],
        lambda frame, fd: (os.write(fd, b"more than said"), Delivered(frame.delivery, 4, HASH))[1],
        lambda frame, _fd: Delivered(frame.delivery, 4, HASH),
    ],
)
def test_what_was_not_granted_is_not_published(bench: Bench, answer: Answer) -> None:
    assert bench.deliver(answer).code == "size-mismatch"
    assert list(bench.session.iterdir()) == []


def test_a_bridge_that_does_not_answer_is_not_waited_for_for_ever(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TIMEOUT", 0.05)
    assert bench.deliver(lambda *_: None).code == "timeout"


def test_a_bridge_that_is_not_there_or_goes_is_told(bench: Bench) -> None:
    async def lose(shell: Deliveries) -> Any:
        loop = asyncio.get_running_loop()
        loop.call_later(0.05, shell.bridge_lost)
        loop.call_later(0.05, shell.bridge_lost)  # said twice
        return await shell.after_task("t", "s-one", [Wanted(ARTIFACT, "x", True)], bench.directory)

    assert bench.run(lambda *_: None, lose)[0].code == "bridge-lost"
    bench.there = False
    assert bench.deliver(good).code == "bridge-lost"


def test_answers_nobody_waits_for_and_other_frames_are_left_alone(bench: Bench) -> None:
    async def work(shell: Deliveries) -> Any:
        assert shell.received(Delivered("d_" + "a" * 26, 1, HASH))
        assert not shell.received(Pong(1))

    bench.run(good, work)


def test_a_second_answer_changes_nothing(bench: Bench) -> None:
    async def work(shell: Deliveries) -> Any:
        sent: list[str] = []

        def twice(frame: Frame, fds: Sequence[int]) -> bool:
            assert isinstance(frame, Deliver)
            sent.append(frame.delivery)
            assert shell.received(good(frame, fds[0]))
            assert shell.received(DeliveryFailed(frame.delivery, DeliveryProblem.DAMAGED))
            return True

        shell._send = twice
        return await shell.after_task("t", "s-one", [Wanted(ARTIFACT, "x", True)], bench.directory)

    assert bench.run(good, work)[0].delivered


def again(bench: Bench, path: str | None = None, session: str = "s-one", answer: Answer = good) -> Delivery:
    request = DeliverRequest((DeliverItem(ARTIFACT.artifact_id, path),))
    [made] = bench.run(answer, lambda shell: shell.again(request, session, bench.directory))
    assert isinstance(made, Delivery)
    return made


def test_a_failed_delivery_can_be_retried_to_its_declared_path(bench: Bench) -> None:
    bench.there = False
    bench.deliver(good)
    bench.there = True
    assert again(bench).delivered
    assert (bench.session / "out.csv").read_bytes() == CONTENT


def test_a_delivery_that_succeeded_is_recognised_without_asking_the_bridge(bench: Bench) -> None:
    bench.deliver(good)

    def never(*_: object) -> None:
        raise AssertionError("the bridge is asked again")

    assert again(bench, answer=never).delivered
    (bench.session / "out.csv").unlink()
    assert again(bench).delivered  # gone from there: made again


def test_another_working_directory_than_the_grants_is_refused(bench: Bench, tmp_path: Path) -> None:
    bench.deliver(good)
    other = tmp_path / "other"
    other.mkdir()
    bench.directory = grant_directory(str(other))
    assert again(bench).code == "directory-changed"
    assert list(other.iterdir()) == []


def test_without_a_directory_an_artifact_is_granted_only(bench: Bench) -> None:
    made = bench.run(good, lambda shell: shell.after_task("t", "s-one", [Wanted(ARTIFACT, "", False)], None))
    assert made == ()
    assert again(bench).code == "no-path"
    assert again(bench, session="s-two").code == "unknown-grant"
    assert again(bench, "elsewhere.csv").delivered


def test_a_broken_grants_file_is_told_and_loses_no_task(bench: Bench) -> None:
    bench.grants.close()
    assert bench.deliver(good).code == "grants-unavailable"
    made = bench.run(good, lambda shell: shell.after_task("t", "s-one", [Wanted(ARTIFACT, "", False)], None))
    assert made == ()
    assert again(bench).code == "grants-unavailable"


def test_a_delivery_that_can_not_be_recorded_says_so(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(bench.grants, "delivered", broken)
    monkeypatch.setattr(bench.grants, "failed", broken)
    assert bench.deliver(good).code == "grants-unavailable"
