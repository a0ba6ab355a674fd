"""Opening destinations under attack: links, `..`, existing files, swapped folders. Nothing outside, nothing overwritten."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from browsercell.protocol.errors import UsageError
from browsercell.supervisor import delivery
from browsercell.supervisor.delivery import (
    DirectoryGrant,
    Refusal,
    check_path,
    grant_directory,
    is_delivered,
    open_destination,
    probe,
)

ROOT = os.geteuid() == 0


@pytest.fixture(params=["openat2", "walk", "named"])
def directory(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> DirectoryGrant:
    """Every attack is tried against the kernel's resolver and its fallback, nameless files and theirs."""
    if request.param == "named":
        only_named(monkeypatch)
    if request.param == "walk":

        def missing(root: int, path: str) -> int:
            raise NotImplementedError

        monkeypatch.setattr(delivery, "_open_beneath", missing)
    here = tmp_path / "session"
    (here / "sub" / "deep").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    return grant_directory(str(here))


def only_named(monkeypatch: pytest.MonkeyPatch, number: int = errno.EOPNOTSUPP) -> None:
    """A file system without nameless files."""

    def refused(_folder: int) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(delivery, "_nameless", refused)


def here(directory: DirectoryGrant) -> Path:
    return Path(directory.path)


def put(directory: DirectoryGrant, path: str, content: bytes = b"data") -> tuple[int, int]:
    destination = open_destination(directory, path, "d_x")
    os.write(destination.fd, content)
    return destination.publish(len(content))


def refusal(work: Callable[[], object]) -> str:
    with pytest.raises(Refusal) as caught:
        work()
    return caught.value.code


def leftovers(directory: DirectoryGrant) -> list[str]:
    return [p.name for p in here(directory).rglob("*") if p.name.endswith(".part")]


@pytest.mark.parametrize("path", ["out.csv", "sub/out.csv", "sub/deep/结果.csv"])
def test_a_file_is_delivered_beneath_the_directory(directory: DirectoryGrant, path: str) -> None:
    device, inode = put(directory, path)
    made = here(directory) / path
    assert made.read_bytes() == b"data"
    assert made.stat().st_mode & 0o777 == 0o600
    assert (made.stat().st_dev, made.stat().st_ino) == (device, inode)
    assert is_delivered(directory, path, device, inode, 4)
    assert leftovers(directory) == []


def test_the_descriptor_is_for_writing_only(directory: DirectoryGrant) -> None:
    destination = open_destination(directory, "x", "d_x")
    with pytest.raises(OSError, match="Bad file"):
        os.read(destination.fd, 1)
    destination.abort()
    destination.abort()
    assert leftovers(directory) == []
    assert not (here(directory) / "x").exists()


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/etc/passwd", "absolute-path"),
        ("../outside/x", "parent-path"),
        ("sub/../../outside/x", "parent-path"),
        ("sub/..", "parent-path"),
        ("..", "parent-path"),
        (".", "parent-path"),
        ("./x", "parent-path"),
        ("", "parent-path"),
        ("sub//x", "parent-path"),
        ("sub/", "parent-path"),
        ("a\0b", "invalid-path"),
        ("a\nb", "invalid-path"),
        ("a\x1b[31m", "invalid-path"),
        ("\ud800", "invalid-path"),
        ("x" * 256, "invalid-path"),
        ("界" * 100, "invalid-path"),
        ("/".join("x" * 100 for _ in range(6)), "invalid-path"),
    ],
)
def test_paths_that_are_refused_by_their_text(directory: DirectoryGrant, path: str, code: str) -> None:
    assert refusal(lambda: open_destination(directory, path, "d_x")) == code
    assert refusal(lambda: check_path(path)) == code


@pytest.mark.parametrize("target", ["../../outside", "deep"])
def test_a_link_among_the_folders_is_refused_wherever_it_leads(
    directory: DirectoryGrant, target: str
) -> None:
    (here(directory) / "sub" / "link").symlink_to(target)
    assert refusal(lambda: open_destination(directory, "sub/link/x", "d_x")) == "symlink"
    assert list((here(directory).parent / "outside").iterdir()) == []


def test_a_link_in_place_of_the_file_is_not_followed_and_not_replaced(directory: DirectoryGrant) -> None:
    victim = here(directory).parent / "outside" / "victim"
    (here(directory) / "x").symlink_to(victim)
    assert refusal(lambda: put(directory, "x")) == "exists"
    assert not victim.exists()
    assert (here(directory) / "x").is_symlink()


def test_a_missing_folder_and_a_file_in_its_place_are_refused(directory: DirectoryGrant) -> None:
    (here(directory) / "file").write_text("")
    assert refusal(lambda: open_destination(directory, "none/x", "d_x")) == "no-such-directory"
    assert refusal(lambda: open_destination(directory, "file/x", "d_x")) == "not-a-directory"


@pytest.mark.parametrize("kind", ["file", "folder", "fifo"])
def test_what_exists_is_never_overwritten(directory: DirectoryGrant, kind: str) -> None:
    target = here(directory) / "x"
    if kind == "file":
        target.write_text("mine")
    elif kind == "folder":
        target.mkdir()
    else:
        os.mkfifo(target)
    before = target.lstat()
    assert refusal(lambda: put(directory, "x")) == "exists"
    assert target.lstat() == before


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/out.csv", "absolute-path"),
        ("../out.csv", "parent-path"),
        ("nowhere/out.csv", "no-such-directory"),
        ("link/out.csv", "symlink"),
        ("sub/link/out.csv", "symlink"),
        ("mine/out.csv", "not-a-directory"),
        ("mine", "exists"),
        ("sub", "exists"),
        ("link", "exists"),
        ("n" * 256, "invalid-path"),
    ],
)
def test_a_probe_refuses_what_opening_would_refuse(directory: DirectoryGrant, path: str, code: str) -> None:
    (here(directory) / "mine").write_text("mine")
    (here(directory) / "link").symlink_to(here(directory).parent / "outside")
    (here(directory) / "sub" / "link").symlink_to("deep")
    assert refusal(lambda: probe(directory, path)) == code
    assert refusal(lambda: open_destination(directory, path, "d_x")) == code


def test_a_probe_makes_nothing_and_leaves_nothing_open(directory: DirectoryGrant) -> None:
    before, opened = sorted(here(directory).rglob("*")), len(os.listdir("/proc/self/fd"))
    probe(directory, "out.csv")
    probe(directory, "sub/deep/out.csv")
    assert sorted(here(directory).rglob("*")) == before
    assert len(os.listdir("/proc/self/fd")) == opened


def test_a_probe_sees_a_folder_that_can_not_be_written(
    directory: DirectoryGrant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_args, **_more: False)  # root may write everywhere
    assert refusal(lambda: probe(directory, "out.csv")) == "no-permission"


def test_a_probe_tells_a_failure_to_look(directory: DirectoryGrant, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_folder: int, _name: str) -> bool:
        raise PermissionError(errno.EACCES, "no")

    monkeypatch.setattr(delivery, "_exists", broken)
    assert refusal(lambda: probe(directory, "out.csv")) == "no-permission"


def test_a_file_that_appears_while_the_bridge_writes_is_not_overwritten(directory: DirectoryGrant) -> None:
    destination = open_destination(directory, "x", "d_x")
    os.write(destination.fd, b"data")
    (here(directory) / "x").write_text("theirs")
    assert refusal(lambda: destination.publish(4)) == "exists"
    assert (here(directory) / "x").read_text() == "theirs"
    assert leftovers(directory) == []


def test_a_folder_swapped_for_a_link_while_the_bridge_writes_changes_nothing_outside(
    directory: DirectoryGrant,
) -> None:
    outside = here(directory).parent / "outside"
    destination = open_destination(directory, "sub/x", "d_x")
    os.write(destination.fd, b"data")
    (here(directory) / "sub").rename(here(directory) / "moved")
    (here(directory) / "sub").symlink_to(outside)
    destination.publish(4)
    assert list(outside.iterdir()) == []
    assert (here(directory) / "moved" / "x").read_bytes() == b"data"


@pytest.mark.parametrize("swap", ["other", "link", "gone"])
def test_a_working_directory_that_is_another_one_by_now_is_refused(
    directory: DirectoryGrant, swap: str
) -> None:
    here(directory).rename(here(directory).parent / "old")
    if swap == "other":
        here(directory).mkdir()
    elif swap == "link":
        here(directory).symlink_to(here(directory).parent / "old")  # even one that leads to the right place
    assert refusal(lambda: open_destination(directory, "x", "d_x")) == "directory-changed"
    assert not is_delivered(directory, "x", 1, 1, 1)


def test_nothing_is_there_before_it_is_published(directory: DirectoryGrant) -> None:
    """So nothing stays of a supervisor that is killed meanwhile."""
    destination = open_destination(directory, "x", "d_x")
    named = delivery._nameless.__module__ != delivery.__name__
    assert leftovers(directory) == ([".d_x.part"] if named else [])
    os.write(destination.fd, b"data")
    destination.publish(4)
    assert [p.name for p in here(directory).iterdir() if p.is_file()] == ["x"]
    assert (here(directory) / "x").read_bytes() == b"data"


def test_a_name_that_appears_meanwhile_is_not_replaced(directory: DirectoryGrant) -> None:
    destination = open_destination(directory, "x", "d_x")
    (here(directory) / "x").write_text("theirs")
    assert refusal(lambda: destination.publish(0)) == "exists"
    assert (here(directory) / "x").read_text() == "theirs"


def test_another_failure_than_a_missing_feature_is_told(
    directory: DirectoryGrant, monkeypatch: pytest.MonkeyPatch
) -> None:
    only_named(monkeypatch, errno.ENOSPC)
    assert refusal(lambda: open_destination(directory, "x", "d_x")) == "disk-full"


def test_a_temporary_name_that_is_taken_is_not_used(
    directory: DirectoryGrant, monkeypatch: pytest.MonkeyPatch
) -> None:
    only_named(monkeypatch)
    (here(directory) / ".d_x.part").write_text("theirs")
    assert refusal(lambda: open_destination(directory, "x", "d_x")) == "exists"
    assert (here(directory) / ".d_x.part").read_text() == "theirs"


@pytest.mark.parametrize("size", [3, 5])
def test_another_size_than_granted_is_not_published(directory: DirectoryGrant, size: int) -> None:
    destination = open_destination(directory, "x", "d_x")
    os.write(destination.fd, b"data")
    assert refusal(lambda: destination.publish(size)) == "size-mismatch"
    assert list(here(directory).glob("*x*")) == []


def test_a_file_that_got_a_second_name_is_not_published(
    directory: DirectoryGrant, monkeypatch: pytest.MonkeyPatch
) -> None:
    only_named(monkeypatch)
    destination = open_destination(directory, "x", "d_x")
    os.link(here(directory) / ".d_x.part", here(directory) / "second")
    assert refusal(lambda: destination.publish(0)) == "size-mismatch"


@pytest.mark.skipif(ROOT, reason="root may write everywhere")
def test_a_folder_without_permission_is_refused(directory: DirectoryGrant) -> None:
    (here(directory) / "sub").chmod(0o500)
    assert refusal(lambda: open_destination(directory, "sub/x", "d_x")) == "no-permission"


def test_recognising_a_delivery_needs_the_same_file_of_the_same_size(directory: DirectoryGrant) -> None:
    device, inode = put(directory, "x")
    assert not is_delivered(directory, "x", device, inode, 5)
    assert not is_delivered(directory, "x", device, inode + 1, 4)
    assert not is_delivered(directory, "y", device, inode, 4)
    assert not is_delivered(directory, "../x", device, inode, 4)


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOSYS])
def test_without_the_rename_flag_a_hard_link_gives_the_same_guarantee(
    directory: DirectoryGrant, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    only_named(monkeypatch)

    class Old:
        @staticmethod
        def renameat2(*_: object) -> int:
            ctypes.set_errno(number)
            return -1

        syscall = delivery._libc.syscall

    monkeypatch.setattr(delivery, "_libc", Old)
    put(directory, "x")
    assert (here(directory) / "x").stat().st_nlink == 1
    destination = open_destination(directory, "y", "d_x")
    (here(directory) / "y").write_text("theirs")
    assert refusal(lambda: destination.publish(0)) == "exists"
    assert (here(directory) / "y").read_text() == "theirs"
    assert leftovers(directory) == []


def test_another_failure_of_the_rename_is_told(
    directory: DirectoryGrant, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    only_named(monkeypatch)
    monkeypatch.setattr(delivery, "_rename_new", full)
    assert refusal(lambda: put(directory, "x")) == "disk-full"
    assert leftovers(directory) == []


def test_openat2_is_what_this_kernel_offers(tmp_path: Path) -> None:
    """Otherwise every test above ran the fallback twice."""
    (tmp_path / "a").mkdir()
    root = os.open(tmp_path, os.O_PATH | os.O_DIRECTORY)
    descriptor = delivery._open_beneath(root, "a")
    assert os.path.samestat(os.fstat(descriptor), (tmp_path / "a").stat())
    os.close(descriptor)
    with pytest.raises(OSError, match="No such file"):
        delivery._open_beneath(root, "b")
    os.close(root)


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EPERM])
def test_a_kernel_or_filter_without_openat2_is_noticed(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    class Old:
        @staticmethod
        def syscall(*_: object) -> int:
            ctypes.set_errno(number)
            return -1

    monkeypatch.setattr(delivery, "_libc", Old)
    with pytest.raises(NotImplementedError):
        delivery._open_beneath(0, "a")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda _base: "relative", "absolute"),
        (lambda base: str(base) + "\0", "absolute"),
        (lambda base: str(base / "none"), "does not exist"),
        (lambda base: str(base / "file"), "not a directory"),
    ],
)
def test_a_session_needs_a_real_working_directory(
    tmp_path: Path, make: Callable[[Path], str], words: str
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=words):
        grant_directory(make(tmp_path))


def test_links_in_the_working_directorys_own_path_are_the_hosts_choice(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    grant = grant_directory(str(tmp_path / "link"))
    assert grant == grant_directory(str(tmp_path / "real"))
    put(grant, "x")
    assert (tmp_path / "real" / "x").exists()


@pytest.mark.skipif(ROOT, reason="root may write everywhere")
def test_a_working_directory_that_can_not_be_written_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(UsageError, match="can't be written"):
            grant_directory(str(tmp_path))
    finally:
        tmp_path.chmod(0o700)
