"""What all commands share: options, configuration, and how things look on a terminal.

Colours and live lines only where standard error is a terminal; JSON is printed plain, one document, on standard output.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.markup import escape

from ...protocol import frames as f
from ...protocol.errors import UsageError
from .. import config

JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
ConfigFile = Annotated[
    Path | None, typer.Option("--config", help="Read this TOML file instead of the user's and the project's.")
]
Sets = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Override one setting; may be repeated."),
]

_UNITS = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))
LEVEL_COLOURS = {"contained": "green", "sealed": "green", "filtered": "yellow", "unsandboxed": "red"}


def out() -> Console:
    """For results."""
    return Console(highlight=False, emoji=False)


def err() -> Console:
    """For progress and remarks."""
    return Console(stderr=True, highlight=False, emoji=False)


def print_json(value: Any) -> None:
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n")


def parse_sets(sets: Sequence[str] | None) -> dict[str, str]:
    """`--set a.b=c` options as a mapping. Raises UsageError."""
    found: dict[str, str] = {}
    for item in sets or ():
        key, equals, value = item.partition("=")
        if not equals or "." not in key:
            raise UsageError("--set takes SECTION.KEY=VALUE", next_step="See: supervisor config show")
        found[key.strip()] = value
    return found


def load(file: Path | None, sets: Sequence[str] | None) -> config.Loaded:
    return config.load(directory=Path.cwd(), environment=os.environ, flags=parse_sets(sets), file=file)


def start_arguments(file: Path | None, sets: Sequence[str] | None) -> list[str]:
    """The same settings for a supervisor that this command starts."""
    arguments = [] if file is None else ["--config", os.path.abspath(file)]
    for key, value in parse_sets(sets).items():
        arguments += ["--set", f"{key}={value}"]
    return arguments


def size(count: int) -> str:
    for unit, factor in _UNITS:
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count} B"


def age(milliseconds: int) -> str:
    seconds = milliseconds / 1000
    if seconds < 60:
        return f"{seconds:.1f} s"
    if seconds < 3600:
        return f"{int(seconds // 60)} min {int(seconds % 60):02d} s"
    return f"{int(seconds // 3600)} h {int(seconds % 3600 // 60):02d} min"


def level(text: str) -> str:
    """A sandbox level in its colour (rich markup)."""
    colour = LEVEL_COLOURS.get(text)
    return f"[{colour}]{escape(text)}[/]" if colour else escape(text)


def process_table(processes: Sequence[f.ProcessInfo]) -> Any:
    """Every process with role, pid, state, age, memory and sandbox level."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
    for heading, justify in (
        ("PROCESS", "left"), ("PID", "right"), ("STATE", "left"), ("AGE", "right"), ("MEMORY", "right"),
        ("SANDBOX", "left"), ("RESTARTS", "right"),
    ):  # fmt: skip
        table.add_column(heading, justify="right" if justify == "right" else "left", no_wrap=True)
    for process in processes:
        table.add_row(
            escape(process.role), str(process.pid), escape(process.state), age(process.age_ms), size(process.memory),
            level(process.sandbox) if process.sandbox else "-", str(process.restarts),
        )  # fmt: skip
    return table
