"""The artifact store on a real file system (bridge/artifacts.py; design 11)."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from browsercell.bridge.artifacts import ArtifactStore, DeliveryRefused, NoRoom, Record
from browsercell.protocol.frames import DeliveryProblem
from browsercell.protocol.results import ArtifactKind

DATA = b"some bytes" * 10


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def make(tmp_path: Path, clock: Clock) -> Callable[..., ArtifactStore]:
    def made(quota: int = 1_000, task_quota: int = 500) -> ArtifactStore:
        store = ArtifactStore(
            str(tmp_path / "artifacts"), quota=quota, task_quota=task_quota, ttl=100, clock=clock
        )
        store.open()
        return store

    return made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "artifacts"


def put(
    store: ArtifactStore, name: str, task: str = "task_aaaa", data: bytes = DATA, **more: object
) -> Record:
    return store.put(name, task, ArtifactKind.TEXT, "text/plain", data, **more)  # type: ignore[arg-type]


def destination(tmp_path: Path, name: str = "out") -> tuple[Path, int]:
    path = tmp_path / name
    return path, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)


def refused(store: ArtifactStore, artifact: str, fd: int, max_bytes: int = 1_000) -> DeliveryProblem:
    with pytest.raises(DeliveryRefused) as caught:
        store.deliver(artifact, fd, max_bytes)
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(fd)  # closed in any case
    return caught.value.problem


def test_kept_delivered_and_private(make: Callable[..., ArtifactStore], folder: Path, tmp_path: Path) -> None:
    store = make()
    record = put(store, "art_aaaa")
    assert record.sha256 == hashlib.sha256(DATA).hexdigest()
    assert (record.size, store.used, store.get("art_aaaa")) == (100, 100, record)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    path, fd = destination(tmp_path)
    assert store.deliver("art_aaaa", fd, 100) == record
    assert path.read_bytes() == DATA
    kept = store.get("art_aaaa")
    assert kept is not None
    assert kept.delivered


def test_the_index_outlives_the_bridge(make: Callable[..., ArtifactStore], tmp_path: Path) -> None:
    record = put(make(), "art_aaaa")
    again = make()
    assert again.get("art_aaaa") == record
    path, fd = destination(tmp_path)
    again.deliver("art_aaaa", fd, 100)
    assert path.read_bytes() == DATA


def test_leftovers_of_a_crash_are_swept(make: Callable[..., ArtifactStore], folder: Path) -> None:
    store = make()
    for name in ("art_aaaa", "art_bbbb", "art_cccc", "art_dddd"):
        put(store, name)
    (folder / "art_bbbb.json").unlink()  # data without a record
    (folder / "art_cccc.data").unlink()  # a record without data
    (folder / "art_dddd.data").write_bytes(b"shorter")
    (folder / "art_eeee.json").write_bytes(b"{not a record")
    (folder / "art_ffff.json").write_bytes((folder / "art_aaaa.json").read_bytes())  # under another's name
    (folder / "art_gggg.data.tmp").write_bytes(b"half")
    (folder / "a-stranger").write_bytes(b"stays")
    again = make()
    assert sorted(path.name for path in folder.iterdir()) == ["a-stranger", "art_aaaa.data", "art_aaaa.json"]
    assert again.used == 100


def test_nothing_expired_is_handed_out(
    make: Callable[..., ArtifactStore], clock: Clock, folder: Path, tmp_path: Path
) -> None:
    store = make()
    put(store, "art_aaaa")
    clock.now += 100
    _, fd = destination(tmp_path)
    assert refused(store, "art_aaaa", fd) is DeliveryProblem.EXPIRED
    assert store.purge() == 1
    assert list(folder.iterdir()) == []
    put(store, "art_bbbb")
    clock.now += 100
    assert make().get("art_bbbb") is None


def test_a_tasks_quota_and_the_whole(make: Callable[..., ArtifactStore], folder: Path) -> None:
    store = make(quota=350, task_quota=200)
    put(store, "art_aaaa")
    put(store, "art_bbbb")
    with pytest.raises(NoRoom, match="this task"):
        put(store, "art_cccc")
    put(store, "art_dddd", "task_bbbb")
    with pytest.raises(NoRoom, match="together"):
        put(store, "art_eeee", "task_cccc")
    assert len(list(folder.iterdir())) == 6  # nothing was left behind


def test_delivered_artifacts_of_closed_tasks_give_way_oldest_first(
    make: Callable[..., ArtifactStore], clock: Clock, tmp_path: Path
) -> None:
    store = make(quota=300)
    for number, name in enumerate(("art_aaaa", "art_bbbb", "art_cccc")):
        clock.now += 1
        put(store, name, f"task_{'abc'[number]}aaa")
    for name in ("art_bbbb", "art_cccc", "art_aaaa"):
        _, fd = destination(tmp_path, name)
        store.deliver(name, fd, 100)
    put(store, "art_dddd", "task_daaa", open_tasks=["task_aaaa"])  # the oldest one's task is open
    assert [store.get(name) is not None for name in ("art_aaaa", "art_bbbb", "art_cccc")] == [
        True,
        False,
        True,
    ]
    put(store, "art_eeee", "task_eaaa")
    assert store.get("art_aaaa") is None
    assert store.get("art_cccc") is not None


def test_what_is_not_delivered(make: Callable[..., ArtifactStore], folder: Path, tmp_path: Path) -> None:
    store = make()
    put(store, "art_aaaa")
    _, fd = destination(tmp_path, "1")
    assert refused(store, "art_zzzz", fd) is DeliveryProblem.UNKNOWN_ARTIFACT
    _, fd = destination(tmp_path, "2")
    assert refused(store, "art_aaaa", fd, max_bytes=99) is DeliveryProblem.TOO_LARGE
    path, fd = destination(tmp_path, "3")
    path.write_bytes(b"not empty")
    assert refused(store, "art_aaaa", fd) is DeliveryProblem.WRITE_FAILED
    reading, writing = os.pipe()
    assert refused(store, "art_aaaa", writing) is DeliveryProblem.WRITE_FAILED
    os.close(reading)
    assert refused(store, "art_aaaa", os.open(tmp_path / "1", os.O_RDONLY)) is DeliveryProblem.WRITE_FAILED
    (folder / "art_aaaa.data").write_bytes(b"X" * 100)
    path, fd = destination(tmp_path, "4")
    assert refused(store, "art_aaaa", fd) is DeliveryProblem.DAMAGED
    assert path.read_bytes() == b""  # checked before the first byte
    (folder / "art_aaaa.data").unlink()
    _, fd = destination(tmp_path, "5")
    assert refused(store, "art_aaaa", fd) is DeliveryProblem.DAMAGED


@pytest.mark.parametrize(
    ("number", "problem"),
    [
        (errno.ENOSPC, DeliveryProblem.DISK_FULL),
        (errno.EDQUOT, DeliveryProblem.DISK_FULL),
        (errno.EFBIG, DeliveryProblem.TOO_LARGE),
        (errno.EIO, DeliveryProblem.WRITE_FAILED),
    ],
)
def test_a_destination_that_fails(
    make: Callable[..., ArtifactStore],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    problem: DeliveryProblem,
) -> None:
    store = make()
    put(store, "art_aaaa")
    _, fd = destination(tmp_path)

    def failing(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "write", failing)
    assert refused(store, "art_aaaa", fd) is problem


def test_bytes_that_change_while_they_are_copied(
    make: Callable[..., ArtifactStore], folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = make()
    put(store, "art_aaaa")
    _, fd = destination(tmp_path)
    intact = store._intact

    def intact_once(record: Record) -> bool:
        answer = intact(record)
        (folder / "art_aaaa.data").write_bytes(b"Y" * 100)
        return answer

    monkeypatch.setattr(store, "_intact", intact_once)
    assert refused(store, "art_aaaa", fd) is DeliveryProblem.DAMAGED


@pytest.mark.parametrize("step", ["data", "record"])
def test_a_full_disk_leaves_nothing(
    make: Callable[..., ArtifactStore], folder: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    store = make()
    real = os.replace

    def full(source: str, target: str) -> None:
        if (step == "data") == target.endswith(".data"):
            raise OSError(errno.ENOSPC, "full")
        real(source, target)

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(NoRoom, match="disk is full"):
        put(store, "art_aaaa")
    assert list(folder.iterdir()) == []
    assert store.used == 0


def test_other_errors_of_the_disk_are_not_hidden(
    make: Callable[..., ArtifactStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise OSError(errno.EIO, "broken")

    store = make()
    monkeypatch.setattr(os, "replace", broken)
    with pytest.raises(OSError, match="broken"):
        put(store, "art_aaaa")


def test_the_folder_must_be_ours(tmp_path: Path, make: Callable[..., ArtifactStore], folder: Path) -> None:
    folder.symlink_to(tmp_path)
    with pytest.raises(NotADirectoryError):
        make()
    folder.unlink()
    folder.mkdir(mode=0o755)
    make()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    with pytest.raises(FileNotFoundError):
        ArtifactStore(str(tmp_path / "no" / "where")).open()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_another_users_folder_is_refused(make: Callable[..., ArtifactStore], folder: Path) -> None:
    folder.mkdir()
    os.chown(folder, 65_534, -1)
    with pytest.raises(PermissionError):
        make()
