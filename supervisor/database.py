"""Opening one of the supervisor's SQLite files: one 0600 file in WAL mode, never through a link, never another version's.

Raises Unavailable with the next step; holds nothing. What is in a file is its owner's affair (`grants`, `recorded`).
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Final

from ..protocol.errors import Unavailable

_LOCKED: Final = 2.0  # seconds to wait for another connection's lock: there is none in an orderly run


def open_database(path: Path, name: str, schema: str, version: int, *, durable: bool) -> sqlite3.Connection:
    """Open or create the file at `path`. `name`: what a person reads, with its article.

    `durable`: a commit outlives the machine's power, at the price of a disk's flush each; without it the newest may be lost.
    """
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        os.chmod(path, 0o600)
        db = sqlite3.connect(path, isolation_level=None, timeout=_LOCKED)
    except (OSError, sqlite3.Error):
        raise broken(path, name) from None
    try:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
        found = int(db.execute("PRAGMA user_version").fetchone()[0])
        if found not in (0, version):
            raise Unavailable(
                f"{name} was written by another version", next_step=f"Move {path} away, or use that version."
            )
        db.executescript(schema)
        db.execute(f"PRAGMA user_version={version}")
    except sqlite3.Error:
        db.close()
        raise broken(path, name) from None
    except Unavailable:
        db.close()
        raise
    return db


def broken(path: Path, name: str) -> Unavailable:
    """The file can't be used."""
    return Unavailable(
        f"{name} can't be opened",
        next_step=f"Free some space if its disk is full; else check {path}, or move the file away.",
    )
