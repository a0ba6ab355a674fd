"""Delegations by their idempotency keys, kept over restarts: SQLite in WAL mode, one 0600 file (design 3, `idempotencyKey`).

A host that lost its connection, or its supervisor, asks again with the same key and gets what became of the first request;
nothing runs twice. A row holds hashes of key and request, the task's id, whether a worker was ever assigned, and the one
result that customs let through (design 4); no goal, no URL of the request, no key.

Invariants: a key names one request, another one under it is refused; a row that is `running` when a supervisor starts was
interrupted and gets its result there and then; rows live for `ttl` seconds from their start and are MAX_ROWS at most.

Blocking calls of well under a millisecond. A full or broken disk is `sqlite3.Error`; the owner turns it into a refusal: a
delegation that can't be recorded can't be promised to run only once.
"""

from __future__ import annotations

import hashlib
import sqlite3
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

import msgspec

from ..protocol.errors import BlockerCode
from ..protocol.results import BrowserDelegateResult, DelegateRequest, SideEffects, Usage
from .database import broken, open_database
from .verdict import Cause, conclude

MAX_ROWS: Final = 2_000  # of 16 KiB at most each; the oldest ended ones go first
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS delegations (
    key TEXT PRIMARY KEY,
    request TEXT NOT NULL,
    task TEXT NOT NULL,
    started INTEGER NOT NULL,
    assigned INTEGER NOT NULL DEFAULT 0,
    result BLOB
) STRICT;
CREATE UNIQUE INDEX IF NOT EXISTS delegations_by_task ON delegations (task);
"""
_NAME: Final = "the record of delegations"
_VERSION: Final = 1


class Known(Enum):
    """What is known of a key."""

    NEW = "new"
    OTHER_REQUEST = "other-request"
    RUNNING = "running"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Earlier:
    """What became of a key; `result` only of an ended one, `task` "" of a new one."""

    known: Known
    task: str = ""
    result: BrowserDelegateResult | None = None


class Recorded:
    """The store. `open` before use, `close` at the end. `ttl`: seconds a key is remembered."""

    def __init__(self, path: Path, ttl: int) -> None:
        self._path = path
        self._ttl = ttl
        self._db: sqlite3.Connection | None = None

    def open(self, now: int) -> int:
        """Open or create it, forget what is old, end what was interrupted; returns how many those were.

        Raises Unavailable with the next step.
        """
        # Durable: a row that is lost with the machine's power is a second run.
        db = open_database(self._path, _NAME, _SCHEMA, _VERSION, durable=True)
        try:
            interrupted = db.execute("SELECT task, assigned FROM delegations WHERE result IS NULL").fetchall()
            for task, assigned in interrupted:
                db.execute(
                    "UPDATE delegations SET result = ? WHERE task = ?",
                    (msgspec.json.encode(_interrupted(task, assigned=bool(assigned))), task),
                )
        except sqlite3.Error:
            db.close()
            raise broken(self._path, _NAME) from None
        self._db = db
        self.expire(now)
        return len(interrupted)

    def close(self) -> None:
        """Harmless when closed already."""
        if self._db is not None:
            self._db.close()
            self._db = None

    def find(self, key: str, request: DelegateRequest) -> Earlier:
        """What became of `key`. A result that another version wrote and this one can't read counts as interrupted."""
        row = (
            self._connection()
            .execute(
                "SELECT request, task, assigned, result FROM delegations WHERE key = ?",
                (_hash(key.encode()),),
            )
            .fetchone()
        )
        if row is None:
            return Earlier(Known.NEW)
        digest, task, assigned, result = row
        if digest != digest_of(request):
            return Earlier(Known.OTHER_REQUEST, task)
        if result is None:
            return Earlier(Known.RUNNING, task)
        try:
            return Earlier(Known.ENDED, task, msgspec.json.decode(result, type=BrowserDelegateResult))
        except (msgspec.DecodeError, msgspec.ValidationError):
            return Earlier(Known.ENDED, task, _interrupted(task, assigned=bool(assigned)))

    def started(self, key: str, request: DelegateRequest, task: str, now: int) -> None:
        """The task of a new key is about to begin."""
        self.expire(now)
        self._run(
            "INSERT INTO delegations (key, request, task, started) VALUES (?, ?, ?, ?)",
            _hash(key.encode()), digest_of(request), task, now,
        )  # fmt: skip

    def assigned(self, task: str) -> None:
        """From now on the task may have had effects. Of no consequence for a task without a key."""
        self._run("UPDATE delegations SET assigned = 1 WHERE task = ?", task)

    def ended(self, task: str, result: BrowserDelegateResult) -> None:
        """The task's one result. Of no consequence for a task without a key."""
        self._run("UPDATE delegations SET result = ? WHERE task = ?", msgspec.json.encode(result), task)

    def expire(self, now: int) -> None:
        """Forget what is older than the ttl, and the oldest ended ones above MAX_ROWS."""
        self._run("DELETE FROM delegations WHERE result IS NOT NULL AND started <= ?", now - self._ttl)
        self._run(
            "DELETE FROM delegations WHERE result IS NOT NULL AND key NOT IN"
            " (SELECT key FROM delegations ORDER BY started DESC, rowid DESC LIMIT ?)",
            MAX_ROWS - 1,
        )

    def _run(self, statement: str, *values: str | int | bytes) -> None:
        self._connection().execute(statement, values)

    def _connection(self) -> sqlite3.Connection:
        if self._db is None:
            raise sqlite3.ProgrammingError("the recorded delegations are not open")
        return self._db


def digest_of(request: DelegateRequest) -> str:
    """Hash of what was asked, the key left out, so that the order of a JSON object's fields is of no account."""
    plain = msgspec.json.encode(msgspec.structs.replace(request, idempotency_key=None))
    return _hash(msgspec.json.encode(msgspec.json.decode(plain), order="sorted"))


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _interrupted(task: str, *, assigned: bool) -> BrowserDelegateResult:
    effects = SideEffects.POSSIBLE if assigned else SideEffects.NONE
    return conclude(task, None, Cause(BlockerCode.SUPERVISOR_RESTARTED), effects, (), (), Usage())
