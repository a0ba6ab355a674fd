"""Datasette on a generated SQLite file: 1,500 invented measuring stations.

The file is the truth that a test compares with; `stations` reads it in any order.
"""

from __future__ import annotations

import contextlib
import random
import sqlite3
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .process import free_port, serving

ROWS: Final = 1_500
PAGE: Final = 50  # rows of one page of the table
COLUMNS: Final = ("id", "name", "region", "height", "note")
_REGIONS: Final = ("coast", "forest", "moor", "ridge", "valley")


@dataclass(frozen=True, slots=True)
class Datasette:
    """A running Datasette. `url`: address of the table."""

    url: str
    database: Path

    def stations(self, order: str, offset: int = 0, limit: int = PAGE) -> list[list[str]]:
        """Rows as text, straight from the file."""
        with contextlib.closing(sqlite3.connect(self.database)) as link:
            found = link.execute(
                f"select {', '.join(COLUMNS)} from stations order by {order} limit ? offset ?",
                (limit, offset),
            )
            return [[str(value) for value in row] for row in found]


def make_database(path: Path) -> None:
    """The same stations at every call; heights are unique, so every order is one order."""
    chance = random.Random(1500)
    heights = chance.sample(range(1, 9_000), ROWS)
    with contextlib.closing(sqlite3.connect(path)) as link, link:
        link.execute(
            "create table stations (id integer primary key, name text, region text, height integer, note text)"
        )
        link.executemany(
            "insert into stations values (?, ?, ?, ?, ?)",
            (
                (
                    number,
                    f"Station {number:04d}",
                    chance.choice(_REGIONS),
                    heights[number - 1],
                    f'read by "{chance.choice(_REGIONS)}", twice a day',
                )
                for number in range(1, ROWS + 1)
            ),
        )


@contextlib.contextmanager
def datasette(folder: Path) -> Iterator[Datasette]:
    """Run it on a database made in `folder`."""
    database = folder / "weather.db"
    make_database(database)
    port = free_port()
    command = [
        sys.executable, "-m", "datasette", "serve", str(database), "--host", "127.0.0.1", "--port", str(port),
        "--setting", "default_page_size", str(PAGE), "--setting", "num_sql_threads", "1",
    ]  # fmt: skip
    with serving(command, port, folder) as url:
        yield Datasette(f"{url}/weather/stations", database)
