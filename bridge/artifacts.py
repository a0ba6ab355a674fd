"""The artifact store: bytes made from pages, in a 0700 folder of the bridge, until they are delivered or expire.

Each artifact is two files: `<id>.data` and, written after it, `<id>.json` with its record; together the second ones are
the index, which is read at the start, so artifacts outlive the bridge. Every file appears whole under its name
(temporary file, fsync, rename, fsync of the folder); what a crash left behind is removed at the next start.

Invariants: an artifact belongs to one task for ever; all together stay within the quota, each task's within its own;
what is read is compared with the SHA-256 taken when it was written; when there is no room, artifacts that were
delivered already and whose task is closed give way, oldest first, undelivered ones never; nothing expired is handed out.

Blocking calls, one at a time: the app runs them in one thread of their own. Knows no loop, no frame on a link.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
import time
from collections.abc import Callable, Collection
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from ..protocol import limits as L
from ..protocol.frames import DeliveryProblem, Id
from ..protocol.results import ArtifactKind

_CHUNK: Final = 256 * L.KIB  # bytes read at once: memory stays flat whatever is delivered
_MAX_RECORD: Final = 4 * L.KIB
_DATA: Final = ".data"
_RECORD: Final = ".json"
_TEMPORARY: Final = ".tmp"
_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT)


class Record(Struct, frozen=True, forbid_unknown_fields=True):
    """One artifact. `created`: seconds since the epoch."""

    artifact: Id
    task: Id
    kind: ArtifactKind
    size: Annotated[int, Meta(ge=0)]
    sha256: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$")]
    media_type: Annotated[str, Meta(max_length=64)]
    created: float
    delivered: bool = False


class NoRoom(Exception):
    """It was not kept: over the task's quota, the whole quota, or the disk is full. The text says which."""


class DeliveryRefused(Exception):
    """Nothing usable was written; `problem` says why."""

    def __init__(self, problem: DeliveryProblem) -> None:
        super().__init__(problem.value)
        self.problem = problem


class ArtifactStore:
    """The store in `folder`. Quotas in bytes, `ttl` in seconds, `clock` in seconds since the epoch."""

    def __init__(
        self,
        folder: str,
        *,
        quota: int = L.ARTIFACT_QUOTA,
        task_quota: int = L.ARTIFACT_TASK_QUOTA,
        ttl: float = L.ARTIFACT_TTL_SECONDS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._folder = folder
        self._quota = quota
        self._task_quota = task_quota
        self._ttl = ttl
        self._clock = clock
        self._records: dict[str, Record] = {}

    def open(self) -> int:
        """Make or check the folder, read the index, sweep leftovers; returns how many artifacts there are.

        Raises OSError: the folder is a link, another user's, or can't be used.
        """
        with contextlib.suppress(FileExistsError):
            os.mkdir(self._folder, 0o700)
        status = os.lstat(self._folder)
        if not stat.S_ISDIR(status.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        if status.st_uid != os.geteuid():
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
        if status.st_mode & 0o077:
            os.chmod(self._folder, 0o700)
        self._records = {}
        names = set(os.listdir(self._folder))
        for name in sorted(names):
            if name.endswith(_RECORD):
                record = self._load(name)
                if record is not None:
                    self._records[record.artifact] = record
        kept = {record + suffix for record in self._records for suffix in (_DATA, _RECORD)}
        for name in names - kept:
            if name.endswith((_DATA, _RECORD, _TEMPORARY)):
                self._unlink(name)
        self.purge()
        return len(self._records)

    @property
    def used(self) -> int:
        """Bytes of all artifacts."""
        return sum(record.size for record in self._records.values())

    def get(self, artifact: str) -> Record | None:
        """The record, expired or not."""
        return self._records.get(artifact)

    def put(
        self,
        artifact: str,
        task: str,
        kind: ArtifactKind,
        media_type: str,
        data: bytes,
        open_tasks: Collection[str] = (),
    ) -> Record:
        """Keep `data` under the fresh id `artifact`. `open_tasks`: tasks whose artifacts may not give way.

        Raises NoRoom; nothing is left behind then. Other OSErrors are the caller's.
        """
        self.purge()
        of_task = sum(record.size for record in self._records.values() if record.task == task)
        if of_task + len(data) > self._task_quota:
            raise NoRoom("this task's artifacts are over their quota")
        self._make_room(len(data), {task, *open_tasks})
        record = Record(
            artifact, task, kind, len(data), hashlib.sha256(data).hexdigest(), media_type, self._clock()
        )
        try:
            self._write(artifact + _DATA, data)
            self._write(artifact + _RECORD, msgspec.json.encode(record))
        except OSError as error:
            self._unlink(artifact + _DATA)
            if error.errno in _NO_ROOM:
                raise NoRoom("the disk is full") from None
            raise
        self._records[artifact] = record
        return record

    def deliver(self, artifact: str, fd: int, max_bytes: int) -> Record:
        """Write the artifact into `fd` (an empty regular file, open for writing), sync, and close it in any case.

        The stored bytes are checked before the first is written, and what was written is checked again.
        Raises DeliveryRefused.
        """
        try:
            record = self._records.get(artifact)
            if record is None:
                raise DeliveryRefused(DeliveryProblem.UNKNOWN_ARTIFACT)
            if self._expired(record):
                raise DeliveryRefused(DeliveryProblem.EXPIRED)
            if record.size > max_bytes:
                raise DeliveryRefused(DeliveryProblem.TOO_LARGE)
            if not self._intact(record):
                raise DeliveryRefused(DeliveryProblem.DAMAGED)
            self._fill(record, fd)
        finally:
            with contextlib.suppress(OSError):  # EIO of a network file: sync has told already
                os.close(fd)
        self._mark_delivered(record)
        return record

    def purge(self) -> int:
        """Remove what has expired; returns how many."""
        gone = [record for record in self._records.values() if self._expired(record)]
        for record in gone:
            self._remove(record)
        return len(gone)

    def _expired(self, record: Record) -> bool:
        return self._clock() - record.created >= self._ttl

    def _make_room(self, size: int, keep: Collection[str]) -> None:
        surplus = self.used + size - self._quota
        if surplus <= 0:
            return
        movable = sorted(
            (record for record in self._records.values() if record.delivered and record.task not in keep),
            key=lambda record: record.created,
        )
        if sum(record.size for record in movable) < surplus:
            raise NoRoom("all artifacts together are over their quota")
        for record in movable:
            if surplus <= 0:
                break
            self._remove(record)
            surplus -= record.size

    def _fill(self, record: Record, fd: int) -> None:
        try:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode) or status.st_size != 0:
                raise DeliveryRefused(DeliveryProblem.WRITE_FAILED)
            written = self._copy(record, fd)
            os.fsync(fd)
        except OSError as error:
            if error.errno in _NO_ROOM:
                raise DeliveryRefused(DeliveryProblem.DISK_FULL) from None
            if error.errno == errno.EFBIG:
                raise DeliveryRefused(DeliveryProblem.TOO_LARGE) from None
            raise DeliveryRefused(DeliveryProblem.WRITE_FAILED) from None
        if written != record.sha256:
            raise DeliveryRefused(DeliveryProblem.DAMAGED)

    def _intact(self, record: Record) -> bool:
        try:
            return self._copy(record, None) == record.sha256
        except OSError:
            return False

    def _copy(self, record: Record, fd: int | None) -> str:
        """Read the artifact whole, write it to `fd` if there is one; SHA-256 of what was read."""
        digest = hashlib.sha256()
        source = os.open(self._path(record.artifact + _DATA), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(source, "rb", buffering=0) as stream:
            while chunk := stream.read(_CHUNK):
                digest.update(chunk)
                view = memoryview(chunk)
                while fd is not None and view:
                    view = view[os.write(fd, view) :]
        return digest.hexdigest()

    def _mark_delivered(self, record: Record) -> None:
        marked = msgspec.structs.replace(record, delivered=True)
        self._records[record.artifact] = marked
        # Only who gives way first depends on it, so a disk that is full now must not fail a delivery that succeeded.
        with contextlib.suppress(OSError):
            self._write(record.artifact + _RECORD, msgspec.json.encode(marked))

    def _load(self, name: str) -> Record | None:
        """A record whose data is there, else None (both files are swept then)."""
        try:
            with open(self._path(name), "rb") as stream:
                record = msgspec.json.decode(stream.read(_MAX_RECORD), type=Record)
            size = os.lstat(self._path(record.artifact + _DATA)).st_size
        except (OSError, msgspec.DecodeError):
            return None
        return record if record.artifact + _RECORD == name and record.size == size else None

    def _write(self, name: str, data: bytes) -> None:
        temporary = self._path(name + _TEMPORARY)
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(fd, "wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(temporary, self._path(name))
        except BaseException:
            self._unlink(name + _TEMPORARY)
            raise
        folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _remove(self, record: Record) -> None:
        self._records.pop(record.artifact, None)
        self._unlink(record.artifact + _RECORD)
        self._unlink(record.artifact + _DATA)

    def _unlink(self, name: str) -> None:
        with contextlib.suppress(OSError):  # gone already, or swept at the next start
            os.unlink(self._path(name))

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, name)
