"""Which host session may have which artifact, kept over restarts (design 11): SQLite in WAL mode, one 0600 file.

Device and inode numbers are text: some file systems use all 64 bits, SQLite's integers are signed. A row holds ids, numbers, the declared path and the working directory's identity; never content, never a title or URL.

Invariants: a grant belongs to one session and is invisible to every other; it is over when it expires; the state moves
granted -> delivered or failed, and failed -> delivered; a task that was running when a supervisor died is marked
interrupted by the next one.

Blocking calls of well under a millisecond; a full or broken disk is `sqlite3.Error`, which the owner turns into a code.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..protocol.results import ArtifactKind, ResolvedArtifact
from .database import broken, open_database

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS grants (
    artifact TEXT PRIMARY KEY,
    session TEXT NOT NULL,
    task TEXT NOT NULL,
    purpose TEXT NOT NULL,
    kind TEXT NOT NULL,
    media_type TEXT NOT NULL,
    size INTEGER NOT NULL,
    sha256 TEXT NOT NULL,
    expires INTEGER NOT NULL,
    path TEXT NOT NULL,
    directory TEXT NOT NULL,
    device TEXT NOT NULL,
    inode TEXT NOT NULL,
    state TEXT NOT NULL DEFAULT 'granted',
    code TEXT NOT NULL DEFAULT '',
    file_device TEXT NOT NULL DEFAULT '0',
    file_inode TEXT NOT NULL DEFAULT '0'
) STRICT;
CREATE INDEX IF NOT EXISTS grants_by_session ON grants (session, expires);
CREATE TABLE IF NOT EXISTS tasks (
    task TEXT PRIMARY KEY,
    session TEXT NOT NULL,
    started INTEGER NOT NULL,
    state TEXT NOT NULL
) STRICT;
"""
_NAME: Final = "the record of deliveries"
_VERSION: Final = 1  # of the schema; another one is refused, not guessed at
_KEPT_TASKS: Final = 7 * 24 * 3600  # seconds an ended task is remembered


@dataclass(frozen=True, slots=True)
class Grant:
    """One artifact of one session. `expires`: Unix seconds. `path` "": none was declared. Device and inode of the working
    directory; `file_*` of what was published (0: nothing)."""

    artifact: ResolvedArtifact
    session: str
    task: str
    expires: int
    path: str = ""
    directory: str = ""
    device: int = 0
    inode: int = 0
    state: str = "granted"
    code: str = ""
    file_device: int = 0
    file_inode: int = 0


class Grants:
    """The store. `open` before use, `close` at the end."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._db: sqlite3.Connection | None = None

    def open(self, now: int) -> int:
        """Open or create it, drop what has expired, mark running tasks as interrupted; returns how many those were.

        Raises Unavailable with the next step.
        """
        db = open_database(self._path, _NAME, _SCHEMA, _VERSION, durable=False)
        try:
            interrupted = db.execute(
                "UPDATE tasks SET state = 'interrupted' WHERE state = 'running'"
            ).rowcount
        except sqlite3.Error:
            db.close()
            raise broken(self._path, _NAME) from None
        self._db = db
        self.expire(now)
        return interrupted

    def close(self) -> None:
        """Harmless when closed already."""
        if self._db is not None:
            self._db.close()
            self._db = None

    def task_started(self, task: str, session: str, now: int) -> None:
        self._run("INSERT OR REPLACE INTO tasks VALUES (?, ?, ?, 'running')", task, session, now)

    def task_ended(self, task: str, state: str) -> None:
        self._run("UPDATE tasks SET state = ? WHERE task = ?", state, task)

    def move(self, task: str, session: str) -> None:
        """The host of `task` came back with another session."""
        self._run("UPDATE grants SET session = ? WHERE task = ?", session, task)

    def add(self, grant: Grant) -> None:
        """Grant it; an id that is granted already keeps its first grant."""
        a = grant.artifact
        self._run(
            "INSERT OR IGNORE INTO grants (artifact, session, task, purpose, kind, media_type, size, sha256, expires, path,"
            " directory, device, inode) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            a.artifact_id, grant.session, grant.task, a.purpose, a.kind.value, a.media_type, a.size, a.sha256,
            grant.expires, grant.path, grant.directory, str(grant.device), str(grant.inode),
        )  # fmt: skip

    def find(self, artifact: str, session: str, now: int) -> Grant | None:
        """The living grant of `artifact` to `session`."""
        cursor = self._connection().execute(
            "SELECT artifact, purpose, kind, size, sha256, media_type, session, task, expires, path, directory, device, inode,"
            " state, code, file_device, file_inode FROM grants WHERE artifact = ? AND session = ? AND expires > ?",
            (artifact, session, now),
        )
        row = cursor.fetchone()
        if row is None:
            return None
        artifact_row = ResolvedArtifact(row[0], row[1], ArtifactKind(row[2]), *row[3:6])
        session_row, task, expires, path, directory, device, inode, state, code, file_device, file_inode = (
            row[6:]
        )
        return Grant(
            artifact_row, session_row, task, expires, path, directory, int(device), int(inode), state, code,
            int(file_device), int(file_inode),
        )  # fmt: skip

    def delivered(self, artifact: str, path: str, file_device: int, file_inode: int) -> None:
        self._run(
            "UPDATE grants SET state = 'delivered', code = '', path = ?, file_device = ?, file_inode = ? WHERE artifact = ?",
            path, str(file_device), str(file_inode), artifact,
        )  # fmt: skip

    def failed(self, artifact: str, code: str) -> None:
        """A delivery failed; one that had succeeded stays delivered."""
        self._run(
            "UPDATE grants SET state = 'failed', code = ? WHERE artifact = ? AND state != 'delivered'",
            code,
            artifact,
        )

    def expire(self, now: int) -> int:
        """Drop what is over; returns how many grants that were."""
        dropped = self._connection().execute("DELETE FROM grants WHERE expires <= ?", (now,)).rowcount
        self._run("DELETE FROM tasks WHERE state != 'running' AND started < ?", now - _KEPT_TASKS)
        return dropped

    def _run(self, statement: str, *values: str | int) -> None:
        self._connection().execute(statement, values)

    def _connection(self) -> sqlite3.Connection:
        if self._db is None:
            raise sqlite3.ProgrammingError("the grants are not open")
        return self._db
