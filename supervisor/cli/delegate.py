"""`supervisor delegate`: one task from the shell, with live progress on a terminal."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from ...protocol.client import Client, DelegationInterrupted
from ...protocol.client_core import Progress as OnProgress
from ...protocol.client_core import delegate_request
from ...protocol.errors import BlockerCode, UsageError
from ...protocol.frames import HostProgress, TaskPhase
from ...protocol.limits import MAX_ANSWER_SCHEMA, MAX_PLAYBOOK_BYTES
from ...protocol.results import BrowserDelegateResult, DelegateRequest, Status
from .. import config
from . import INTERRUPTED, NOT_COMPLETED, OK, UNAVAILABLE, USAGE
from .common import err, load, out, print_json, size, start_arguments

_PHASES = {
    TaskPhase.QUEUED: "waiting for its turn",
    TaskPhase.OPENING_BROWSER: "opening the browser",
    TaskPhase.ASSIGNING: "handing over to a sealed worker",
    TaskPhase.RUNNING: "working",
    TaskPhase.CLOSING: "closing",
    TaskPhase.DELIVERING: "delivering files",
}
_USAGE_CODES = frozenset({BlockerCode.INVALID_REQUEST, BlockerCode.SECRET_IN_GOAL})
_UNAVAILABLE_CODES = frozenset(
    {
        BlockerCode.BROWSER_UNAVAILABLE,
        BlockerCode.MODEL_UNCONFIGURED,
        BlockerCode.MODEL_UNAVAILABLE,
        BlockerCode.BRIDGE_LOST,
        BlockerCode.SUPERVISOR_RESTARTED,
        BlockerCode.OVERLOADED,
    }
)
_COLOURS = {Status.COMPLETED: "green", Status.PARTIAL: "yellow", Status.NEEDS_USER_INPUT: "yellow"}


@dataclass(frozen=True, slots=True)
class Wanted:
    """The options as typed."""

    goal: str
    url: str | None
    browser: str
    constraints: Sequence[str] | None
    deliverables: Sequence[str] | None
    playbook: Path | None
    variables: Sequence[str] | None
    steps: int | None
    calls: int | None
    seconds: int | None
    key: str | None = None
    answer: str | None = None
    origins: Sequence[str] | None = None
    read_only: bool = False
    plain: bool = False


def delegate(
    wanted: Wanted, directory: Path, file: Path | None, sets: Sequence[str] | None, *, json: bool
) -> None:
    """Prints the result; exit code by design 12."""
    request = build(wanted)
    # A bad configuration is said here, once, not by a supervisor started for this.
    settings = config.supervisor_settings(load(file, sets).configuration)
    with Client(
        directory=directory,
        runtime_folder=settings.runtime_folder,
        start=True,
        start_arguments=start_arguments(file, sets),
    ) as client:
        if client.supervisor_pid is None and (file or sets):
            err().print(
                "a supervisor is running already; its own settings apply, not those given here",
                style="yellow",
            )
        try:
            with live(err(), wanted.goal) as on_progress:
                result = client.delegate(request, on_progress=on_progress)
        except DelegationInterrupted as interrupted:
            result, code = interrupted.result, INTERRUPTED
        else:
            code = exit_code(result)
    if json:
        print_json(result)
    else:
        show(out(), result)
    raise typer.Exit(code)


def build(wanted: Wanted) -> DelegateRequest:
    """Checks the options. Raises UsageError naming the option."""
    limits = {"steps": wanted.steps, "toolCalls": wanted.calls, "seconds": wanted.seconds}
    return delegate_request(
        wanted.goal,
        url=wanted.url,
        browser=wanted.browser,
        constraints=list(wanted.constraints or ()),
        deliverables=[_deliverable(item) for item in wanted.deliverables or ()],
        playbook=None if wanted.playbook is None else read_playbook(wanted.playbook),
        variables=dict(_variable(item) for item in wanted.variables or ()),
        answer=None if wanted.answer is None else read_answer(wanted.answer),
        policy=policy(wanted),
        limits={key: value for key, value in limits.items() if value is not None},
        idempotency_key=wanted.key,
    )


def policy(wanted: Wanted) -> dict[str, Any]:
    """The `policy` of a request from its options."""
    made: dict[str, Any] = {}
    if wanted.origins:
        made["origins"] = list(wanted.origins)
    if wanted.read_only:
        made["actions"] = "read"
    if wanted.plain:
        made["freeText"] = "none"
    return made


_SHORT = {"boolean", "integer", "number"}


def read_answer(text: str) -> dict[str, Any]:
    """The schema that --answer means: a JSON file, JSON itself, or `name:kind, ...`. Raises UsageError.

    Kinds of the short form: boolean, integer, number, date, text (500 characters), and `a|b|c` for an enumeration.
    """
    if text.lstrip().startswith("{"):
        return _answer_json(text.encode(), "--answer")
    if ":" not in text or Path(text).is_file():
        path = Path(text)
        try:
            with path.open("rb") as stream:
                data = stream.read(MAX_ANSWER_SCHEMA + 1)
        except OSError as error:
            raise UsageError(f"the answer schema {path} can't be read ({error.strerror})") from None
        return _answer_json(data, str(path))
    properties: dict[str, Any] = {}
    for item in text.split(","):
        name, _, kind = (part.strip() for part in item.partition(":"))
        if not name or not kind or name in properties:
            raise UsageError(
                "--answer takes NAME:KIND,... each name once, such as found:boolean,price:number"
            )
        properties[name] = _short(kind)
    return {"type": "object", "properties": properties, "required": list(properties)}


def _short(kind: str) -> dict[str, Any]:
    if kind in _SHORT:
        return {"type": kind}
    if kind == "date":
        return {"type": "string", "format": "date"}
    if kind == "text":
        return {"type": "string", "maxLength": 500}
    if "|" in kind:
        return {"type": "string", "enum": [value.strip() for value in kind.split("|")]}
    raise UsageError(f"--answer knows {', '.join(sorted(_SHORT))}, date, text and a|b|c, not {kind[:40]}")


def _answer_json(data: bytes, where: str) -> dict[str, Any]:
    if len(data) > MAX_ANSWER_SCHEMA:
        raise UsageError(f"the answer schema in {where} is over {MAX_ANSWER_SCHEMA // 1024} KiB")
    try:
        schema = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        raise UsageError(f"the answer schema in {where} is not valid JSON") from None
    if not isinstance(schema, dict):
        raise UsageError(f"the answer schema in {where} is no JSON object")
    return schema


def _deliverable(item: str) -> dict[str, Any]:
    parts = item.split(":", 2)
    if len(parts) < 2:
        raise UsageError("--deliver takes PURPOSE:KIND:PATH, such as prices:table:out/prices.csv")
    wanted: dict[str, Any] = {"purpose": parts[0], "kind": parts[1]}
    if len(parts) == 3:
        wanted["path"] = parts[2]
    return wanted


def _variable(item: str) -> tuple[str, str]:
    name, equals, value = item.partition("=")
    if not equals or not name:
        raise UsageError("--var takes NAME=VALUE")
    return name, value


def read_playbook(path: Path) -> list[dict[str, Any]]:
    """Steps from a JSON list or from `[[steps]]` of a TOML file. Raises UsageError."""
    try:
        if not path.is_file():  # a pipe would be waited for
            path.stat()
            raise UsageError(f"the playbook {path} is no regular file")
        with path.open("rb") as stream:
            data = stream.read(MAX_PLAYBOOK_BYTES + 1)
    except OSError as error:
        raise UsageError(f"the playbook {path} can't be read ({error.strerror})") from None
    if len(data) > MAX_PLAYBOOK_BYTES:
        raise UsageError(f"the playbook {path} is over {MAX_PLAYBOOK_BYTES // 1024} KiB")
    try:
        if path.suffix.lower() == ".toml":
            steps = tomllib.loads(data.decode("utf-8")).get("steps")
        else:
            steps = msgspec.json.decode(data)
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, msgspec.DecodeError, RecursionError):
        raise UsageError(
            f"the playbook {path} is neither valid JSON nor (ending in .toml) valid TOML"
        ) from None
    if not isinstance(steps, list):
        raise UsageError(f"the playbook {path} holds no list of steps")
    return steps


def exit_code(result: BrowserDelegateResult) -> int:
    if result.status is Status.COMPLETED:
        return OK
    if result.blocker_code in _USAGE_CODES:
        return USAGE
    if result.blocker_code in _UNAVAILABLE_CODES:
        return UNAVAILABLE
    return NOT_COMPLETED


@contextmanager
def live(console: Console, title: str) -> Iterator[OnProgress]:
    """A live line on a terminal; one plain line a phase elsewhere."""
    if not console.is_terminal:
        seen: set[TaskPhase] = set()

        def plain(progress: HostProgress) -> None:
            if progress.phase not in seen:
                seen.add(progress.phase)
                console.print(f"… {_PHASES[progress.phase]}", markup=False)

        yield plain
        return
    columns = (
        SpinnerColumn(), TextColumn("{task.description}"), BarColumn(bar_width=24),
        TextColumn("{task.fields[calls]}"), TimeElapsedColumn(),
    )  # fmt: skip
    with Progress(*columns, console=console, transient=True) as bar:
        line = bar.add_task(escape(title[:60]), total=None, calls="")

        def update(progress: HostProgress) -> None:
            doing = _PHASES[progress.phase]
            if progress.phase is TaskPhase.RUNNING and progress.tool:
                mark = "" if progress.ok else " [red]✗[/]"
                doing = f"{escape(progress.tool)}{mark}"
            steps = f", step {progress.steps}" if progress.steps else ""
            bar.update(
                line,
                total=progress.max_tool_calls,
                completed=progress.tool_calls,
                description=f"{doing}{steps}",
                calls=f"{progress.tool_calls}/{progress.max_tool_calls} calls",
            )

        yield update


def show(console: Console, result: BrowserDelegateResult) -> None:
    """A result for a person."""
    colour = _COLOURS.get(result.status, "red")
    code = f" ({result.blocker_code})" if result.blocker_code else ""
    console.print(f"[{colour} bold]{escape(str(result.status))}[/]{escape(code)}  {escape(result.summary)}")
    for name, value in (result.answer or {}).items():
        console.print(f"[bold]{escape(name)}[/]: {escape(msgspec.json.encode(value).decode())}")
    if result.question:
        console.print(f"question: {escape(result.question)}")
    if result.next_step:
        console.print(f"next: {escape(result.next_step)}")
    for delivery in result.deliveries:
        if delivery.delivered:
            console.print(
                f"[green]✓[/] {escape(delivery.path)}  {size(delivery.size)}  sha256 {delivery.sha256[:16]}…"
            )
        else:
            console.print(
                f"[red]✗[/] {escape(delivery.path)}  {escape(delivery.code)} {escape(delivery.message)}"
            )
    for requirement in result.unmet_requirements:
        console.print(f"[yellow]missing:[/] {escape(requirement)}")
    usage = result.usage
    console.print(
        f"[dim]{usage.tool_calls} calls, {usage.steps} steps, {usage.tokens} tokens, {usage.seconds:.1f} s, "
        f"side effects: {result.side_effects}[/]"
    )
