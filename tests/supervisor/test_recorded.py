"""Delegations by idempotency key: one request a key, one result, over restarts."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import msgspec
import pytest
from browsercell.protocol.client_core import delegate_request
from browsercell.protocol.errors import BlockerCode, Unavailable
from browsercell.protocol.results import BrowserDelegateResult, SideEffects, Status
from browsercell.supervisor import recorded
from browsercell.supervisor.recorded import Earlier, Known, Recorded, digest_of

KEY = "host-7/turn-3"
REQUEST = delegate_request("Read the prices", variables={"a": "1", "b": "2"}, idempotency_key=KEY)
DONE = BrowserDelegateResult(
    task_id="t_one", status=Status.COMPLETED, execution_status=Status.COMPLETED, summary="Read them"
)
TTL = 100


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "delegations.sqlite"


def opened(path: Path, now: int = 0) -> Recorded:
    store = Recorded(path, TTL)
    store.open(now)
    return store


def test_a_key_gives_its_result_also_after_a_restart(path: Path) -> None:
    first = opened(path)
    assert first.find(KEY, REQUEST) == Earlier(Known.NEW)
    first.started(KEY, REQUEST, "t_one", 0)
    assert first.find(KEY, REQUEST) == Earlier(Known.RUNNING, "t_one")
    first.ended("t_one", DONE)
    assert first.find(KEY, REQUEST) == Earlier(Known.ENDED, "t_one", DONE)
    first.close()
    first.close()
    assert opened(path).find(KEY, REQUEST) == Earlier(Known.ENDED, "t_one", DONE)
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(("assigned", "effects"), [(False, SideEffects.NONE), (True, SideEffects.POSSIBLE)])
def test_what_a_dead_supervisor_ran_ends_honestly(path: Path, assigned: bool, effects: SideEffects) -> None:
    first = opened(path)
    first.started(KEY, REQUEST, "t_one", 0)
    if assigned:
        first.assigned("t_one")
    first.close()
    second = Recorded(path, TTL)
    assert second.open(1) == 1
    result = second.find(KEY, REQUEST).result
    assert result is not None
    assert (result.task_id, result.status, result.side_effects) == ("t_one", Status.FAILED, effects)
    assert result.blocker_code is BlockerCode.SUPERVISOR_RESTARTED
    second.close()
    assert Recorded(path, TTL).open(2) == 0


def test_another_request_under_the_same_key_is_known_as_such(path: Path) -> None:
    store = opened(path)
    store.started(KEY, REQUEST, "t_one", 0)
    other = msgspec.structs.replace(REQUEST, goal="Buy everything")
    assert store.find(KEY, other) == Earlier(Known.OTHER_REQUEST, "t_one")
    assert store.find("another", REQUEST) == Earlier(Known.NEW)


def test_the_order_of_fields_is_of_no_account_but_every_value_is() -> None:
    turned = delegate_request("Read the prices", variables={"b": "2", "a": "1"})
    assert digest_of(turned) == digest_of(REQUEST)
    changed = delegate_request("Read the prices", variables={"b": "2", "a": "2"})
    assert digest_of(changed) != digest_of(REQUEST)


def test_no_key_and_no_request_is_on_disk(path: Path) -> None:
    store = opened(path)
    store.started(KEY, REQUEST, "t_one", 0)
    store.close()
    written = b"".join(file.read_bytes() for file in path.parent.iterdir())
    assert b"t_one" in written
    assert KEY.encode() not in written
    assert b"prices" not in written


def test_ended_keys_are_forgotten_in_time_and_running_ones_never(path: Path) -> None:
    store = opened(path)
    store.started("ended", REQUEST, "t_one", 0)
    store.ended("t_one", DONE)
    store.started("running", REQUEST, "t_two", 0)
    store.expire(TTL - 1)
    assert store.find("ended", REQUEST).known is Known.ENDED
    store.expire(TTL)
    assert store.find("ended", REQUEST).known is Known.NEW
    assert store.find("running", REQUEST).known is Known.RUNNING


def test_the_oldest_go_when_there_are_too_many(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorded, "MAX_ROWS", 3)
    store = opened(path)
    for number in range(5):
        store.started(f"key-{number}", REQUEST, f"t_{number}", number)
        store.ended(f"t_{number}", DONE)
    known = [store.find(f"key-{number}", REQUEST).known for number in range(5)]
    assert known == [Known.NEW, Known.NEW, Known.ENDED, Known.ENDED, Known.ENDED]


def test_tasks_without_a_key_leave_nothing(path: Path) -> None:
    store = opened(path)
    store.assigned("t_other")
    store.ended("t_other", DONE)
    store.close()
    assert sqlite3.connect(path).execute("SELECT count(*) FROM delegations").fetchone() == (0,)


def test_a_result_that_cannot_be_read_counts_as_interrupted(path: Path) -> None:
    store = opened(path)
    store.started(KEY, REQUEST, "t_one", 0)
    store.assigned("t_one")
    store.ended("t_one", DONE)
    store._run("UPDATE delegations SET result = ?", b'{"of": "another version"}')
    result = store.find(KEY, REQUEST).result
    assert result is not None
    assert result.side_effects is SideEffects.POSSIBLE


def test_a_broken_file_another_version_and_a_link_are_refused_with_what_to_do(
    path: Path, tmp_path: Path
) -> None:
    path.write_bytes(b"no database at all, and long enough to be looked at as one" * 20)
    with pytest.raises(Unavailable, match="can't be opened"):
        opened(path)
    path.unlink()
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version=9")
    db.close()
    with pytest.raises(Unavailable, match="another version"):
        opened(path)
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Unavailable):
        opened(path)
    with pytest.raises(sqlite3.ProgrammingError):
        Recorded(path, TTL).find(KEY, REQUEST)
