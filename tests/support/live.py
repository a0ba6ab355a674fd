"""Live tests' ground: a whole supervisor of the test's own in a private place, and short words for playbook steps.

    with own_supervisor({"network.mode": "strict"}) as live, live.client(folder) as host:
        result = host.delegate("…", browser="private", playbook=[navigate("http://…"), done()])

Invariants: a supervisor started here has its own runtime and state folder (short paths: a socket's holds 107 bytes), a free port,
and ends with the client that started it; nothing of the user's settings is read (see `private_places`).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from browsercell.protocol.client import Client
from browsercell.protocol.frames import SessionKind
from browsercell.protocol.results import BrowserDelegateResult

SUPERVISOR: Final = (sys.executable, "-B", "-m", "browsercell.supervisor")
LOOPBACK: Final[Mapping[str, str]] = {"network.mode": "allowlist", "network.allow_cidrs": "127.0.0.0/8"}
CLI_SECONDS: Final = 90.0  # one command that starts a supervisor and runs a task

Step = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Live:
    """A running supervisor. `pid`: its process; `settings`: what it was started with."""

    place: Path
    pid: int
    settings: Mapping[str, str]

    @property
    def runtime(self) -> str:
        return f"{self.place}/run"

    @property
    def state(self) -> Path:
        return self.place / "state"

    def client(self, directory: Path | None = None, kind: SessionKind = SessionKind.TOP) -> Client:
        """One more host of this supervisor."""
        return Client(directory=directory, runtime_folder=self.runtime, kind=kind)


@contextlib.contextmanager
def private_place() -> Iterator[Path]:
    """A temporary folder that worker accounts may pass through."""
    place = Path(tempfile.mkdtemp(prefix="bcl-"))
    place.chmod(0o711)
    try:
        yield place
    finally:
        shutil.rmtree(
            place, ignore_errors=True
        )  # what another account left is the temporary folder's to clean


def sets(settings: Mapping[str, str]) -> list[str]:
    """Settings as command line options."""
    return [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]


def own_settings(place: Path, settings: Mapping[str, str]) -> dict[str, str]:
    """`settings` over those of a supervisor that lives in `place` on a free port."""
    return {"places.state_folder": f"{place}/state", "bridge.port": "0", **settings}


@contextlib.contextmanager
def own_supervisor(settings: Mapping[str, str] = LOOPBACK, place: Path | None = None) -> Iterator[Live]:
    """Start a supervisor, end it and everything of it afterwards."""
    with contextlib.ExitStack() as stack:
        where = place or stack.enter_context(private_place())
        whole = own_settings(where, settings)
        starter = stack.enter_context(
            Client(runtime_folder=f"{where}/run", start=True, start_arguments=sets(whole))
        )
        pid = starter.supervisor_pid
        assert pid is not None, "another supervisor answers in this test's place"
        yield Live(where, pid, whole)


# ------------------------------------------------------------ playbook steps


def tool(name: str, purpose: str | None = None, **args: Any) -> Step:
    """One call of a worker tool, named without `browser_`."""
    step: Step = {"tool": f"browser_{name}", "args": args}
    return step if purpose is None else {**step, "purpose": purpose}


def navigate(url: str) -> Step:
    return tool("page_navigate", url=url)


def observe(mode: str = "summary") -> Step:
    return tool("page_observe", mode=mode)


def click(role: str, name: str, nth: int | None = None) -> Step:
    return tool("page_click", target=target(role, name, nth))


def type_in(role: str, name: str, text: str, *, submit: bool = False) -> Step:
    return tool("page_type", target=target(role, name), text=text, submit=submit)


def target(role: str, name: str | None = None, nth: int | None = None) -> dict[str, Any]:
    given = {"role": role, "name": name, "nth": nth}
    return {key: value for key, value in given.items() if value is not None}


def table_to(purpose: str, name: str | None = None, *, form: str = "csv") -> Step:
    """Extract the named table, or the page's largest, into an artifact."""
    where = {} if name is None else {"target": target("table", name)}
    return tool("page_extract", purpose, kind="table", to_artifact=form, **where)


def expect(timeout_ms: int | None = None, **condition: str) -> Step:
    step: Step = {"expect": condition}
    return step if timeout_ms is None else {**step, "timeout_ms": timeout_ms}


def done(summary: str = "Done", status: str = "completed") -> Step:
    return {"finish": {"status": status, "summary": summary}}


def wanted(purpose: str, path: str, kind: str = "table") -> dict[str, Any]:
    return {"purpose": purpose, "kind": kind, "path": path}


def said(result: BrowserDelegateResult) -> str:
    """What to show when an assertion about a result fails."""
    return f"{result.status} {result.blocker_code} {result.summary!r} {result.deliveries}"


# ------------------------------------------------------------ the command line, and waiting


def cli(
    *arguments: str, runtime: str | None = None, timeout: float = CLI_SECONDS, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run one command to its end."""
    environment = {**os.environ, **options.pop("env", {})}
    if runtime is not None:
        environment["BROWSERCELL_RUNTIME_DIR"] = runtime
    return subprocess.run(
        [*options.pop("before", ()), *SUPERVISOR, *arguments],
        env=environment,
        text=True,
        capture_output=True,
        timeout=timeout,
        check=False,
        stdin=subprocess.DEVNULL,
        **options,
    )


def until(condition: Callable[[], bool], seconds: float, what: str) -> None:
    """Wait for a condition. Raises TimeoutError naming it."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} did not come true within {seconds:g} s")
        time.sleep(0.02)


def roles(processes: Sequence[Any]) -> list[str]:
    """The roles of a process list, sorted."""
    return sorted(process.role for process in processes)
