"""`supervisor status`: every process, and what each part says of itself."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from rich.markup import escape

from ...protocol.client import Client
from ...protocol.frames import SessionKind
from .. import config
from .common import age, load, out, print_json, process_table


def status(file: Path | None, sets: Sequence[str] | None, *, json: bool) -> None:
    """Raises Unavailable (exit code 3) when no supervisor runs."""
    settings = config.supervisor_settings(load(file, sets).configuration)
    with Client(kind=SessionKind.CHILD, runtime_folder=settings.runtime_folder) as client:
        processes = client.processes()
        parts = client.status()
    if json:
        print_json({"processes": msgspec.to_builtins(processes), "status": parts})
        return
    console = out()
    console.print(process_table(processes))
    console.print()
    for line in _lines(parts):
        console.print(line)


def _lines(value: Any, indent: int = 0) -> list[str]:
    """A nested mapping as indented lines; nothing in it is longer than a screen."""
    pad = "  " * indent
    lines: list[str] = []
    for key, item in value.items():
        if key.endswith("Ms") and isinstance(item, int):
            key, item = key.removesuffix("Ms"), age(item)
        name = f"{pad}[bold]{escape(str(key))}[/]"
        if isinstance(item, dict):
            lines += [name, *_lines(item, indent + 1)]
        elif key == "layers" and isinstance(item, list):
            marks = [
                f"{layer['name']} {'on' if layer['on'] else 'off (' + layer['reason'] + ')'}"
                for layer in item
            ]
            lines.append(f"{name}  {escape(', '.join(marks))}")
        elif isinstance(item, list) and item and isinstance(item[0], dict):
            for entry in item:
                text = ", ".join(
                    f"{part} {shown(entry[part])}" for part in entry if entry[part] not in ("", None)
                )
                lines.append(f"{name}  {escape(text)}")
        else:
            lines.append(f"{name}  {escape(shown(item))}")
    return lines


def shown(item: Any) -> str:
    if isinstance(item, bool):
        return "yes" if item else "no"
    if isinstance(item, list):
        return ", ".join(map(str, item)) or "none"
    return str(item)
