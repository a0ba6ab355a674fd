"""Folders, lock, sweep and uids: nothing of a living run and nothing outside is ever removed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from browsercell.protocol.errors import SpawnError, Unavailable
from browsercell.supervisor import uids
from browsercell.supervisor.places import MAX_RUNTIME_BYTES, Places, remove
from browsercell.supervisor.uids import SLOTS, WORKER_BASE, UidSlots

ROOT = os.geteuid() == 0


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Places:
    # pytest's own folders are longer than a socket's path may be; no socket is made here.
    monkeypatch.setattr("browsercell.supervisor.places.MAX_RUNTIME_BYTES", 1000)
    return Places(tmp_path / "run", tmp_path / "state")


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o7777


def test_folders_are_made_private_and_passable_only_as_root(places: Places) -> None:
    places.prepare()
    expected = 0o711 if ROOT else 0o700
    assert [mode(p) for p in (places.runtime, places.workers, places.browsers)] == [expected] * 3
    assert [mode(p) for p in (places.state, places.logs)] == [0o700] * 2


def test_a_folder_that_others_could_read_is_closed(places: Places) -> None:
    places.prepare()
    places.state.chmod(0o755)
    places.prepare()
    assert mode(places.state) == 0o700


def test_a_link_in_place_of_a_folder_is_refused(places: Places, tmp_path: Path) -> None:
    places.runtime.symlink_to(tmp_path)
    with pytest.raises(Unavailable, match="not a real folder"):
        places.prepare()


def test_a_file_in_place_of_a_folder_is_refused(places: Places) -> None:
    places.state.write_text("")
    with pytest.raises(Unavailable, match="can't be made"):
        places.prepare()


@pytest.mark.skipif(not ROOT, reason="only root can give a folder to another user")
def test_a_folder_of_another_user_is_refused(places: Places) -> None:
    places.runtime.mkdir()
    os.chown(places.runtime, 65534, 65534)
    with pytest.raises(Unavailable, match="another user"):
        places.prepare()


def test_a_runtime_folder_whose_sockets_would_have_too_long_a_path_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="longer than"):
        Places(tmp_path / ("x" * MAX_RUNTIME_BYTES), tmp_path).prepare()


def test_a_second_supervisor_is_told_who_has_the_lock(places: Places) -> None:
    places.prepare()
    places.lock()
    with pytest.raises(Unavailable, match=f"pid {os.getpid()}"):
        Places(places.runtime, places.state).lock()
    places.unlock()
    places.unlock()
    second = Places(places.runtime, places.state)
    second.lock()
    second.unlock()


def test_a_lock_that_is_a_link_is_refused(places: Places, tmp_path: Path) -> None:
    places.prepare()
    (places.runtime / "lock").symlink_to(tmp_path / "victim")
    with pytest.raises(Unavailable, match="lock file"):
        places.lock()
    assert not (tmp_path / "victim").exists()


def test_the_lock_dies_with_its_owner_and_no_child_inherits_it(places: Places) -> None:
    places.prepare()
    code = (
        "import sys, time, pathlib; from browsercell.supervisor.places import Places\n"
        "import browsercell.supervisor.places as m; m.MAX_RUNTIME_BYTES = 1000\n"
        "import subprocess; p = Places(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])); p.lock()\n"
        "c = subprocess.Popen(['sleep', '60'], close_fds=False); print(c.pid, flush=True); time.sleep(60)"
    )
    owner = subprocess.Popen(
        [sys.executable, "-c", code, str(places.runtime), str(places.state)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert owner.stdout is not None
    grandchild = int(owner.stdout.readline())
    try:
        with pytest.raises(Unavailable, match=f"pid {owner.pid}"):
            places.lock()
        owner.kill()
        owner.wait(10)
        places.lock()
        places.unlock()
    finally:
        os.kill(grandchild, signal.SIGKILL)
        owner.stdout.close()


def test_a_sweep_removes_a_dead_runs_leftovers_and_follows_no_link(places: Places, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("kept")
    places.prepare()
    with pytest.raises(Unavailable, match="not locked"):
        places.sweep()
    places.lock()
    (places.workers / "w_dead").mkdir()
    (places.workers / "w_dead" / "page").write_text("")
    (places.workers / "w_dead" / "link").symlink_to(outside)
    (places.browsers / "b_link").symlink_to(outside)
    (places.browsers / "b_dead" / "profile").mkdir(parents=True)
    (places.browsers / "stray").write_text("")
    places.host_socket.parent.mkdir(mode=0o700)
    places.host_socket.write_text("")
    (places.runtime / "not-ours").write_text("")
    assert places.sweep() == 5
    assert places.sweep() == 0
    places.unlock()
    assert sorted(p.name for p in places.runtime.iterdir()) == ["b", "host", "lock", "not-ours", "w"]
    assert (outside / "precious").read_text() == "kept"


def test_a_private_folder_belongs_to_its_uid_and_is_made_once(places: Places) -> None:
    places.prepare()
    uid = 60_199 if ROOT else os.getuid()
    folder = places.make_private(places.workers, "w_x", uid)
    assert (mode(folder), folder.stat().st_uid) == (0o700, uid)
    with pytest.raises(Unavailable, match="can't be made"):
        places.make_private(places.workers, "w_x", uid)
    remove(folder)
    remove(folder)
    assert not folder.exists()


# ---------------------------------------------------------------------------------------------------- uids


def test_an_ordinary_user_has_no_slots() -> None:
    slots = UidSlots(None)
    assert (slots.switching, slots.acquire(), slots.acquire()) == (False, os.getuid(), os.getuid())
    slots.release(os.getuid())


def test_a_slot_is_given_once_until_it_is_given_back() -> None:
    slots = UidSlots(WORKER_BASE)
    first, second = slots.acquire(), slots.acquire()
    assert first != second
    slots.release(first)
    assert slots.acquire() == first


def test_uids_that_live_on_this_machine_are_left_out_and_there_is_an_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(uids, "_living_uids", lambda: {WORKER_BASE, WORKER_BASE + 1})
    slots = UidSlots(WORKER_BASE)
    assert slots.acquire() == WORKER_BASE + 2
    for _ in range(SLOTS - 3):
        slots.acquire()
    with pytest.raises(SpawnError, match="every uid"):
        slots.acquire()


def test_our_own_uid_is_seen_living() -> None:
    assert os.geteuid() in uids._living_uids()
    assert UidSlots.for_this_process(WORKER_BASE).switching == ROOT
