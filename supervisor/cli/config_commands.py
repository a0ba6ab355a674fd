"""`supervisor config show | schema | check`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
from rich.markup import escape
from rich.table import Table

from .. import config
from .common import load, out, print_json


def show(file: Path | None, sets: Sequence[str] | None, *, json: bool) -> None:
    """Every setting, its value, and its source."""
    loaded = load(file, sets)
    values = msgspec.to_builtins(loaded.configuration)
    effective = config.supervisor_settings(loaded.configuration)
    values["places"] = {"runtime_folder": effective.runtime_folder, "state_folder": effective.state_folder}
    rows = [
        {"key": f"{section}.{key}", "value": value, "source": loaded.source(f"{section}.{key}")}
        for section, part in values.items()
        for key, value in part.items()
    ]
    if json:
        print_json({"settings": rows})
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("SETTING", "VALUE", "FROM"):
        table.add_column(heading, overflow="fold")
    for row in rows:
        shown = escape(msgspec.json.encode(row["value"]).decode())
        source = escape(str(row["source"]))
        changed = row["source"] != config.DEFAULT
        table.add_row(
            str(row["key"]),
            f"[bold]{shown}[/]" if changed else shown,
            source if changed else f"[dim]{source}[/]",
        )
    out().print(table)


def schema(*, json: bool) -> None:
    """JSON either way: a schema has no other form."""
    del json
    print_json(config.schema())


def check(file: Path | None, sets: Sequence[str] | None, *, json: bool) -> None:
    """Raises UsageError (exit code 2) when something is wrong."""
    loaded = load(file, sets)
    config.supervisor_settings(loaded.configuration)
    if json:
        print_json({"ok": True, "sources": sorted(set(loaded.sources.values()))})
        return
    sources = ", ".join(sorted(set(loaded.sources.values()))) or "defaults only"
    out().print(f"[green]✓[/] the configuration is valid ({escape(sources)})")
