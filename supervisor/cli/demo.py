"""`supervisor demo`: the main job on the embedded default, and the proof that page data was never in the supervisor.

A bookshop on loopback (this process), a supervisor of its own with everything in a temporary folder, the playbook
planner, a private Chromium with the real extension. It delivers two files, prints every process, the result, and what a
search of the supervisor's memory, logs and state found while a marker page was being read and after it. The same search
must find the markers in the bridge; otherwise the proof is vacuous and the demo fails.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec
import typer
from rich.console import Console
from rich.markup import escape

from ...protocol.client import Client
from ...protocol.errors import Unavailable, UsageError
from ...protocol.frames import HostProgress, ProcessInfo, TaskPhase
from ...protocol.results import BrowserDelegateResult, Status
from ..demo import tasks
from ..demo.place import temporary_place
from ..demo.server import Bookshop
from ..memory_search import MarkerIndex, SearchReport, search_bytes, search_process
from . import NOT_COMPLETED
from .common import err, out, print_json, process_table, size
from .delegate import live, show

HOLD_SECONDS: Final = 55.0  # the page is let go before the playbook's last wait and the shop's own limit end
MAX_SEARCHED_FILE: Final = 64 << 20  # bytes of one log or state file that are read
BRIDGE: Final = "bridge"
SUPERVISOR: Final = "supervisor"


@dataclass(slots=True)
class Proof:
    """What the searches found. `while_running` and `afterwards` are of the supervisor, `control` of the bridge."""

    while_running: SearchReport | None = None
    afterwards: SearchReport | None = None
    control: SearchReport | None = None
    files: int = 0
    file_hits: int = 0
    result_hits: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        """No hit in the supervisor, its files and the result, and a search that is not vacuous."""
        mine = (self.while_running, self.afterwards)
        clean = all(report is not None and report.total == 0 and report.bytes > 0 for report in mine)
        control = self.control is not None and self.control.total > 0
        return clean and control and not self.file_hits and not self.result_hits and not self.problems


def demo(directory: Path, *, json: bool) -> None:
    """Exit code 0 if the files were delivered and the proof holds, else 1."""
    console, remarks = out(), err()
    _prepare(directory)
    with temporary_place() as place, Bookshop() as shop:
        arguments = supervisor_arguments(place)
        remarks.print("Starting a bookshop on loopback and a supervisor of its own …")
        started = time.monotonic()
        with Client(
            directory=directory, runtime_folder=f"{place}/run", start=True, start_arguments=arguments
        ) as client:
            remarks.print(f"[dim]ready after {time.monotonic() - started:.1f} s[/]")
            with live(remarks, tasks.MAIN_GOAL) as on_progress:
                result = client.delegate(
                    tasks.MAIN_GOAL,
                    browser="private",
                    deliverables=tasks.DELIVERABLES,
                    playbook=tasks.MAIN,
                    variables={"site": shop.url},
                    on_progress=on_progress,
                )
            if not json:
                show(remarks, result)
            with remarks.status("Reading the marker page and searching every process's memory for it …"):
                proof, processes = prove(client, shop, f"{place}/state")
    done = result.status is Status.COMPLETED and proof.holds
    if json:
        print_json({"ok": done, "result": result, "processes": processes, "proof": _plain(proof)})
    else:
        _report(console, directory, result, processes, proof)
    if not done:
        raise typer.Exit(NOT_COMPLETED)


def supervisor_arguments(place: str) -> list[str]:
    """Settings of the demo's supervisor: loopback allowed for the bookshop, memory open to the search, state apart."""
    settings = {
        "places.state_folder": f"{place}/state",
        "bridge.port": "0",
        "network.mode": "allowlist",
        "network.allow_cidrs": "127.0.0.0/8",
        "debug.inspection": "true",
    }
    return [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]


def _prepare(directory: Path) -> None:
    """Make the folder and take away what an earlier demo delivered: a delivery never overwrites."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name in (tasks.PRICES_FILE, tasks.PICTURE_FILE):
            path = directory / name
            if path.exists() and stat.S_ISREG(path.lstat().st_mode):
                path.unlink()
    except OSError as error:
        raise UsageError(
            f"the folder {directory} can't be used ({error.strerror})", next_step="Name another with --output"
        ) from None


def prove(client: Client, shop: Bookshop, state: str) -> tuple[Proof, tuple[ProcessInfo, ...]]:
    """Read the marker page in a task; search while its last command runs, and again after it."""
    index = MarkerIndex(shop.marker_tokens(tasks.MARKER_CHARS))
    proof = Proof()
    processes: list[ProcessInfo] = []
    searcher = threading.Thread(
        target=_search_running, args=(client, shop, index, proof, processes), daemon=True
    )

    def watch(progress: HostProgress) -> None:
        settled = progress.phase is TaskPhase.RUNNING and progress.tool_calls >= tasks.PROOF_CALLS
        if settled and not searcher.is_alive() and searcher.ident is None:
            searcher.start()

    result = client.delegate(
        tasks.PROOF_GOAL,
        browser="private",
        playbook=tasks.PROOF,
        variables={"site": shop.url},
        on_progress=watch,
    )
    if searcher.ident is None:
        proof.problems.append("the marker page was not read")
        return proof, client.processes()
    searcher.join(HOLD_SECONDS)
    if result.status is not Status.COMPLETED:
        proof.problems.append(f"the marker task ended {result.status} ({result.blocker_code or 'no code'})")
    proof.result_hits = search_bytes(msgspec.json.encode(result), index).total()
    pid = _pid(processes, SUPERVISOR)
    if pid:
        proof.afterwards = search_process(pid, index)
    _search_files(Path(state), index, proof)
    return proof, tuple(processes)


def _search_running(
    client: Client, shop: Bookshop, index: MarkerIndex, proof: Proof, processes: list[ProcessInfo]
) -> None:
    """In a thread of its own, with a session of its own: the task's client is busy waiting for its result."""
    try:
        with Client(runtime_folder=client.runtime_folder) as second:
            processes.extend(second.processes())
        proof.while_running = search_process(_pid(processes, SUPERVISOR), index)
        proof.control = search_process(_pid(processes, BRIDGE), index)
    except Unavailable as error:
        proof.problems.append(str(error))
    finally:
        shop.release()


def _pid(processes: Sequence[ProcessInfo], role: str) -> int:
    return next((process.pid for process in processes if process.role == role), 0)


def _search_files(state: Path, index: MarkerIndex, proof: Proof) -> None:
    """Everything in the state folder but the artifacts, which are the bridge's page data by purpose."""
    for folder, names, files in os.walk(state):
        names[:] = [name for name in names if name != "artifacts"]
        for name in files:
            with open(os.path.join(folder, name), "rb") as stream:
                proof.files += 1
                proof.file_hits += search_bytes(stream.read(MAX_SEARCHED_FILE), index).total()


def _plain(proof: Proof) -> dict[str, Any]:
    def report(one: SearchReport | None) -> dict[str, Any] | None:
        if one is None:
            return None
        return {"pid": one.pid, "mappings": one.mappings, "bytes": one.bytes, "hits": dict(one.hits)}

    return {
        "holds": proof.holds,
        "markers": (tasks.MARKER_CHARS + 1) // 25,
        "supervisorWhileRunning": report(proof.while_running),
        "supervisorAfterwards": report(proof.afterwards),
        "bridge": report(proof.control),
        "files": proof.files,
        "fileHits": proof.file_hits,
        "resultHits": proof.result_hits,
        "problems": proof.problems,
    }


def _report(
    console: Console,
    directory: Path,
    result: BrowserDelegateResult,
    processes: Sequence[ProcessInfo],
    proof: Proof,
) -> None:
    console.print("\n[bold]Processes[/] while the marker page was being read")
    console.print(process_table(processes))
    console.print("\n[bold]Result[/] as the host got it")
    console.print_json(msgspec.json.encode(result).decode())
    console.print("[bold]Memory proof[/]")
    console.print(
        f"  a page of {tasks.MARKER_CHARS:,} characters, unique markers in UTF-8, UTF-16 and base64 at every offset"
    )
    console.print(_finding("supervisor, while the task ran", proof.while_running, wanted=False))
    console.print(_finding("supervisor, after it", proof.afterwards, wanted=False))
    console.print(_finding("bridge (the search works)", proof.control, wanted=True))
    console.print(_count(f"logs and state ({proof.files} files)", proof.file_hits))
    console.print(_count("the host's result", proof.result_hits))
    for problem in proof.problems:
        console.print(f"  [red]✗[/] {escape(problem)}")
    verdict = (
        "[green bold]page data was never in the supervisor[/]"
        if proof.holds
        else "[red bold]the proof failed[/]"
    )
    console.print(f"  {verdict}")
    if result.deliveries:
        console.print(f"\nTwo files lie in [bold]{escape(str(directory))}[/]")


def _finding(where: str, report: SearchReport | None, *, wanted: bool) -> str:
    if report is None:
        return f"  [red]✗[/] {escape(where)}: not searched"
    good = (report.total > 0) is wanted and report.bytes > 0
    mark = "[green]✓[/]" if good else "[red]✗[/]"
    encodings = ", ".join(f"{count} {name}" for name, count in sorted(report.hits.items()))
    detail = f" ({encodings})" if encodings else ""
    return f"  {mark} {escape(where)}: {report.total} hits{detail} in {size(report.bytes)} of {report.mappings} mappings"


def _count(where: str, hits: int) -> str:
    return f"  {'[green]✓[/]' if not hits else '[red]✗[/]'} {escape(where)}: {hits} hits"
