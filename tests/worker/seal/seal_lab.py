"""Starts `seal_host.py` under an account and reads its results: what the tests of the seal stand on.

Accounts: "root" (the worker drops to a uid of its own) and "user". When the suite runs as root, "user" is an unused uid that gets
a readable copy of the interpreter, the two binary packages and our code in a temporary folder, because a dropped uid can't
enter a private home. When it runs as an ordinary user, "user" is that user and "root" does not exist.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import zmq

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[2]
WORKER_UID = 60101  # outside the ranges of people, distributions and systemd's dynamic users
USER_UID = 60199
MEMORY = 512 << 20
DEADLINE_S = 90

IS_ROOT = os.geteuid() == 0
ACCOUNTS = ("root", "user") if IS_ROOT else ("user",)


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One worker: how it seals itself, what its host refuses (number, errno, bits), what it is ordered to do."""

    name: str
    mode: str = "sealed"
    off: tuple[str, ...] = ()
    attack: str = "errno"
    threads: bool = True
    memory: int = MEMORY
    cpu: int = 30
    refused: tuple[tuple[int, int, int], ...] = ()
    orders: tuple[dict[str, Any], ...] = ()
    loop: bool = False
    hold: bool = False
    wrong_parent: int = 0


class Place(msgspec.Struct, frozen=True):
    """How to start a host: argument prefix, site folder ("" for the interpreter's own), folder of the harness, temporary folder."""

    prefix: tuple[str, ...]
    site: str
    scripts: str
    temporary: str


def _open_to_others(path: Path) -> bool:
    """Whether any account may enter this folder and read what is in it."""
    return all(place.stat().st_mode & 0o001 for place in (path, *path.parents))


def _copy_interpreter(folder: Path) -> str:
    """The interpreter and the standard library, without what no worker uses; returns the program's path."""
    base = Path(sys.base_prefix)
    program = Path(sys.executable).resolve()
    library = Path(sysconfig.get_paths()["stdlib"])
    target = folder / "python"
    (target / "bin").mkdir(parents=True)
    shutil.copy(program, target / "bin" / program.name)
    skipped = shutil.ignore_patterns(
        "test", "tests", "site-packages", "idlelib", "lib2to3", "ensurepip", "tkinter", "config-*", "*.a", "pydoc_data"
    )  # fmt: skip
    shutil.copytree(library, target / library.relative_to(base), ignore=skipped)
    copy = target / "bin" / program.name
    for shared in (base / "lib").glob("libpython*.so*"):
        shutil.copy(shared, target / "lib" / shared.name)
        # The program looks for it in the place it was built for, by an absolute path that the account can't enter; it
        # would find another version in the system's folder, or none.
        built_for, here = os.fsencode(base / "lib") + b"\0", b"$ORIGIN/../lib"
        copy.write_bytes(copy.read_bytes().replace(built_for, here.ljust(len(built_for), b"\0")))
    return str(copy)


def build_user_place(folder: Path) -> Place:
    """A place in `folder` that an account without a home can run from."""
    folder.chmod(0o755)
    site, scripts = folder / "site", folder / "tests" / "seal"
    (site / "browsercell").mkdir(parents=True)
    bare = shutil.ignore_patterns("__pycache__", "tests", "README.md")
    for package in ("protocol", "worker"):
        shutil.copytree(REPOSITORY / package, site / "browsercell" / package, ignore=bare)
    for module in (zmq, msgspec):
        source = Path(str(module.__file__)).parent
        shutil.copytree(source, site / source.name, ignore=bare)
        for libraries in source.parent.glob(f"*{source.name}.libs"):
            shutil.copytree(libraries, site / libraries.name)
    scripts.mkdir(parents=True)
    for script in HERE.glob("seal_*.py"):
        shutil.copy(script, scripts / script.name)
    readable = _open_to_others(Path(sys.base_prefix)) and _open_to_others(
        Path(sys.executable).resolve().parent
    )
    python = str(Path(sys.executable).resolve()) if readable else _copy_interpreter(folder)
    ids = (f"--reuid={USER_UID}", f"--regid={USER_UID}", "--clear-groups")
    return Place(("setpriv", *ids, "--", python), str(site), str(scripts), _temporary(folder))


def _temporary(folder: Path) -> str:
    """A folder in `folder` where any account may make its own, like /tmp, but gone after the tests."""
    folder.chmod(0o755)
    temporary = folder / "tmp"
    temporary.mkdir()
    temporary.chmod(0o1777)
    return str(temporary)


def own_place(folder: Path) -> Place:
    """The present account with the present interpreter."""
    return Place((sys.executable,), "", str(HERE), _temporary(folder))


def job(account: str, place: Place, runs: Iterable[Run], *, targets: bool) -> bytes:
    """The host's orders."""
    uid = WORKER_UID if account == "root" else None
    return json.dumps(
        {
            "site": place.site,
            "worker_uid": uid,
            "targets": targets,
            "runs": [msgspec.to_builtins(run) for run in runs],
        }
    ).encode()


def start(place: Place) -> subprocess.Popen[bytes]:
    """A host that waits for its job."""
    return subprocess.Popen(
        [*place.prefix, "-I", f"{place.scripts}/seal_host.py"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=place.temporary,
        env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "TMPDIR": place.temporary},
    )


class Results(msgspec.Struct, frozen=True):
    """What a host saw: its own thread status, and each run by name."""

    host_status: str
    runs: Mapping[str, dict[str, Any]]


def probe(place: Place) -> dict[str, str]:
    """Layer -> errno name for what this machine refuses this account, found without the product's code."""
    output = subprocess.run(
        [*place.prefix, "-I", f"{place.scripts}/seal_probe.py"], capture_output=True, check=True, timeout=30
    ).stdout
    return {layer: reason for layer, reason in json.loads(output).items() if reason}


def conduct(account: str, place: Place, runs: Iterable[Run], *, targets: bool = False) -> Results:
    """Runs a whole job; raises AssertionError with the host's own words when the host failed."""
    host = start(place)
    try:
        output, errors = host.communicate(job(account, place, runs, targets=targets), timeout=DEADLINE_S)
    finally:
        if host.poll() is None:
            host.kill()
            host.wait()
    assert host.returncode == 0, errors.decode("utf-8", "replace")[-3000:]
    first, *rest = [json.loads(line) for line in output.splitlines()]
    return Results(first["self"], {result["name"]: result for result in rest})
