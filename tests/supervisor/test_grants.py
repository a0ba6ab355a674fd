"""Grants on disk: one session's, over restarts, until they expire."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from browsercell.protocol.errors import Unavailable
from browsercell.protocol.results import ArtifactKind, ResolvedArtifact
from browsercell.supervisor.grants import Grant, Grants

ARTIFACT = ResolvedArtifact("a_" + "b" * 26, "prices", ArtifactKind.TABLE, 17, "0" * 64, "text/csv")
GRANT = Grant(ARTIFACT, "s-one", "t-one", 1000, "out.csv", "/home/me", 2**63 + 5, 2**64 - 1)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "grants.sqlite"


def opened(path: Path, now: int = 0) -> Grants:
    grants = Grants(path)
    grants.open(now)
    return grants


def test_a_grant_survives_a_restart_with_numbers_of_64_bits(path: Path) -> None:
    first = opened(path)
    first.add(GRANT)
    first.close()
    first.close()
    second = opened(path)
    assert second.find(ARTIFACT.artifact_id, "s-one", 0) == GRANT
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_grant_is_invisible_to_every_other_session_and_after_its_time(path: Path) -> None:
    grants = opened(path)
    grants.add(GRANT)
    assert grants.find(ARTIFACT.artifact_id, "s-two", 0) is None
    assert grants.find("a_other", "s-one", 0) is None
    assert grants.find(ARTIFACT.artifact_id, "s-one", 1000) is None


def test_an_artifact_keeps_its_first_grant(path: Path) -> None:
    grants = opened(path)
    grants.add(GRANT)
    grants.add(replace(GRANT, session="s-thief"))
    assert grants.find(ARTIFACT.artifact_id, "s-thief", 0) is None
    assert grants.find(ARTIFACT.artifact_id, "s-one", 0) == GRANT


def test_a_failed_delivery_may_succeed_later_but_never_the_other_way_round(path: Path) -> None:
    grants = opened(path)
    grants.add(GRANT)
    grants.failed(ARTIFACT.artifact_id, "exists")
    found = grants.find(ARTIFACT.artifact_id, "s-one", 0)
    assert found is not None
    assert (found.state, found.code) == ("failed", "exists")
    grants.delivered(ARTIFACT.artifact_id, "other.csv", 1, 2**64 - 2)
    grants.failed(ARTIFACT.artifact_id, "exists")
    found = grants.find(ARTIFACT.artifact_id, "s-one", 0)
    assert found == replace(GRANT, state="delivered", path="other.csv", file_device=1, file_inode=2**64 - 2)


def test_what_has_expired_is_dropped_at_the_next_start(path: Path) -> None:
    grants = opened(path)
    grants.add(GRANT)
    other = msgspec.structs.replace(ARTIFACT, artifact_id="a_" + "c" * 26)
    grants.add(replace(GRANT, artifact=other, expires=5000))
    assert grants.expire(1000) == 1
    grants.close()
    assert opened(path, 4999).find(other.artifact_id, "s-one", 0) is not None


def test_tasks_that_ran_when_a_supervisor_died_are_interrupted(path: Path) -> None:
    grants = opened(path)
    for task in ("t-a", "t-b", "t-c"):
        grants.task_started(task, "s-one", 0)
    grants.task_ended("t-b", "completed")
    grants.close()
    second = Grants(path)
    assert second.open(0) == 2
    second.close()
    third = Grants(path)
    assert third.open(0) == 0


def test_an_unusable_file_is_told_with_what_to_do(path: Path) -> None:
    path.write_bytes(b"this is no database, " * 100)
    with pytest.raises(Unavailable, match="can't be opened") as caught:
        Grants(path).open(0)
    assert "move the file away" in caught.value.next_step


def test_a_link_in_its_place_is_not_followed(path: Path, tmp_path: Path) -> None:
    path.symlink_to(tmp_path / "victim")
    with pytest.raises(Unavailable):
        Grants(path).open(0)
    assert not (tmp_path / "victim").exists()


def test_another_versions_file_is_left_alone(path: Path) -> None:
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version=99")
    db.close()
    with pytest.raises(Unavailable, match="another version"):
        Grants(path).open(0)


def test_a_closed_store_says_so() -> None:
    with pytest.raises(sqlite3.ProgrammingError):
        Grants(Path("/nowhere")).expire(0)
