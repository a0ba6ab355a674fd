"""Opening the place where an artifact goes, without following anything and without overwriting anything (design 2, rule 4).

The supervisor opens, a bridge writes through the descriptor it is handed, the supervisor publishes. No byte of content
comes here, not even to compare: what was delivered is recognised by device, inode and size.

Invariants: the destination lies beneath the session's working directory, which is the very directory (device and
inode) the session was opened with; no component of the path is a symbolic link; the temporary file is new, regular,
write-only for the bridge; an existing name is never replaced, whoever made it and whenever; nothing is left behind by a
failed delivery, nor by a supervisor that is killed in one where the file system has files without a name (O_TMPFILE).

`openat2` does the resolving in the kernel (Linux 5.6); without it the path is walked component by component with
O_NOFOLLOW, which gives the same refusals.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..protocol import limits as L
from ..protocol.errors import UsageError

_OPENAT2: Final = 437  # the same number on every architecture (it is younger than the unified table)
_RESOLVE_NO_MAGICLINKS: Final = 0x02
_RESOLVE_NO_SYMLINKS: Final = 0x04
_RESOLVE_BENEATH: Final = 0x08
_RENAME_NOREPLACE: Final = 1
_NAMELESS: Final = os.O_WRONLY | os.O_TMPFILE | os.O_CLOEXEC
_NO_NAMELESS: Final = frozenset(
    {errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT}
)  # file system, old kernel
_FOLDER: Final = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_MAX_NAME: Final = 255  # bytes of one component (NAME_MAX)

_CODES: Final = {
    errno.ELOOP: "symlink",
    errno.EXDEV: "parent-path",
    errno.ENOTDIR: "not-a-directory",
    errno.ENOENT: "no-such-directory",
    errno.EEXIST: "exists",
    errno.EACCES: "no-permission",
    errno.EPERM: "no-permission",
    errno.EROFS: "no-permission",
    errno.ENOSPC: "disk-full",
    errno.EDQUOT: "disk-full",
    errno.ENAMETOOLONG: "invalid-path",
}
_libc = ctypes.CDLL(None, use_errno=True)


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


class Refusal(Exception):
    """A delivery is refused; `code` is a key of `messages.DELIVERIES`."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@dataclass(frozen=True, slots=True)
class DirectoryGrant:
    """A session's working directory as it was when the session opened."""

    path: str
    device: int
    inode: int


def grant_directory(path: str) -> DirectoryGrant:
    """Remember an absolute, existing, writable directory. Raises UsageError with the next step.

    Links in `path` itself are the host's own choice and are resolved here, once.
    """
    if not os.path.isabs(path) or "\0" in path:
        raise UsageError("the working directory is not an absolute path", next_step="Give an absolute one.")
    try:
        real = Path(path).resolve(strict=True)
        info = real.stat()
    except (OSError, RuntimeError):
        raise UsageError("the working directory does not exist", next_step="Create it first.") from None
    if not stat.S_ISDIR(info.st_mode):
        raise UsageError("the working directory is not a directory", next_step="Give a directory.")
    if not os.access(real, os.W_OK | os.X_OK):
        raise UsageError("the working directory can't be written", next_step="Check its permissions.")
    return DirectoryGrant(str(real), info.st_dev, info.st_ino)


def check_path(path: str) -> tuple[str, ...]:
    """The components of a declared path. Raises Refusal: absolute, `..`, `.`, empty or unprintable parts, too long."""
    if path.startswith("/"):
        raise Refusal("absolute-path")
    parts = tuple(path.split("/"))
    if any(part in ("", ".", "..") for part in parts):
        raise Refusal("parent-path")
    try:
        sizes = [len(part.encode()) for part in parts]
    except UnicodeEncodeError:
        raise Refusal("invalid-path") from None
    if len(path) > L.MAX_PATH_CHARS or max(sizes) > _MAX_NAME or not path.isprintable():
        raise Refusal("invalid-path")
    return parts


class Destination:
    """An open temporary file beside its final name; `temporary` "" if it has no name. Publish it or abort it, exactly once."""

    def __init__(self, folder: int, temporary: str, name: str, descriptor: int) -> None:
        self._folder = folder
        self._temporary = temporary
        self._name = name
        self.fd = descriptor  # write-only, for the bridge
        self._open = True

    def publish(self, size: int) -> tuple[int, int]:
        """Give it its name; `size`: bytes it must have. Returns device and inode. Raises Refusal; then nothing is left."""
        try:
            info = os.fstat(self.fd)
            if (
                not stat.S_ISREG(info.st_mode)
                or info.st_size != size
                or info.st_nlink != bool(self._temporary)
            ):
                raise Refusal("size-mismatch")
            if self._temporary:
                _rename_new(self._folder, self._temporary, self._name)
            else:  # the link is followed to the file; a name that exists is an error
                os.link(f"/proc/self/fd/{self.fd}", self._name, dst_dir_fd=self._folder, follow_symlinks=True)
            _sync_folder(self._folder)
        except OSError as error:
            raise Refusal(_CODES.get(error.errno or 0, "write-failed")) from None
        else:
            return info.st_dev, info.st_ino
        finally:
            self.abort()

    def abort(self) -> None:
        """Close everything; the temporary name goes, if it is still there. Harmless when repeated."""
        if not self._open:
            return
        self._open = False
        os.close(self.fd)
        if self._temporary:
            with contextlib.suppress(OSError):  # published, or removed by somebody else
                os.unlink(self._temporary, dir_fd=self._folder)
        os.close(self._folder)


def open_destination(directory: DirectoryGrant, path: str, token: str) -> Destination:
    """Open a place for `path` beneath `directory`; `token` makes the temporary name unique. Raises Refusal."""
    parts = check_path(path)
    folder = _open_parent(directory, parts[:-1])
    name = parts[-1]
    try:
        if _exists(folder, name):
            raise Refusal("exists")
        temporary, descriptor = _temporary(folder, token)
    except OSError as error:
        os.close(folder)
        raise Refusal(_CODES.get(error.errno or 0, "write-failed")) from None
    except Refusal:
        os.close(folder)
        raise
    return Destination(folder, temporary, name, descriptor)


def _temporary(folder: int, token: str) -> tuple[str, int]:
    """A new file in `folder`: its name, "" if it has none, and its descriptor."""
    try:
        return "", _nameless(folder)
    except OSError as error:
        if error.errno not in _NO_NAMELESS:
            raise
    name = f".{token}.part"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return name, os.open(name, flags, 0o600, dir_fd=folder)


def _nameless(folder: int) -> int:
    return os.open(".", _NAMELESS, 0o600, dir_fd=folder)


def probe(directory: DirectoryGrant, path: str) -> None:
    """Whether `path` could be delivered to now. Creates nothing, reserves nothing. Raises Refusal.

    What changes until the delivery is found there: `open_destination` asks the same again.
    """
    parts = check_path(path)
    folder = _open_parent(directory, parts[:-1])
    try:
        if _exists(folder, parts[-1]):
            raise Refusal("exists")
        if not os.access(".", os.W_OK | os.X_OK, dir_fd=folder):
            raise Refusal("no-permission")
    except OSError as error:
        raise Refusal(_CODES.get(error.errno or 0, "no-permission")) from None
    finally:
        os.close(folder)


def is_delivered(directory: DirectoryGrant, path: str, device: int, inode: int, size: int) -> bool:
    """Whether `path` still names the very file that was published (its content is not looked at)."""
    try:
        parts = check_path(path)
        folder = _open_parent(directory, parts[:-1])
    except Refusal:
        return False
    try:
        info = os.stat(parts[-1], dir_fd=folder, follow_symlinks=False)
    except OSError:
        return False
    finally:
        os.close(folder)
    return stat.S_ISREG(info.st_mode) and (info.st_dev, info.st_ino, info.st_size) == (device, inode, size)


def _open_parent(directory: DirectoryGrant, parts: tuple[str, ...]) -> int:
    try:
        root = os.open(directory.path, _FOLDER | os.O_NOFOLLOW)
    except OSError:
        raise Refusal("directory-changed") from None
    try:
        info = os.fstat(root)
        if (info.st_dev, info.st_ino) != (directory.device, directory.inode):
            raise Refusal("directory-changed")
        if not parts:
            return os.dup(root)
        try:
            return _open_beneath(root, "/".join(parts))
        except NotImplementedError:
            return _walk(root, parts)
    except OSError as error:
        raise Refusal(_CODES.get(error.errno or 0, "no-permission")) from None
    finally:
        os.close(root)


def _open_beneath(root: int, path: str) -> int:
    """`openat2`; NotImplementedError where the kernel (or a container's filter) has none."""
    resolve = _RESOLVE_BENEATH | _RESOLVE_NO_SYMLINKS | _RESOLVE_NO_MAGICLINKS
    how = _OpenHow(_FOLDER, 0, resolve)
    result = _libc.syscall(
        ctypes.c_long(_OPENAT2),
        ctypes.c_int(root),
        ctypes.c_char_p(path.encode()),
        ctypes.byref(how),
        ctypes.c_size_t(ctypes.sizeof(how)),
    )
    if result >= 0:
        return int(result)
    number = ctypes.get_errno()
    if number in (errno.ENOSYS, errno.EPERM):  # EPERM: how a container's filter refuses what it does not know
        raise NotImplementedError
    raise OSError(number, os.strerror(number))


def _walk(root: int, parts: tuple[str, ...]) -> int:
    current = os.dup(root)
    for part in parts:
        try:
            if stat.S_ISLNK(os.stat(part, dir_fd=current, follow_symlinks=False).st_mode):
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
            following = os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=current)
        finally:
            os.close(current)
        current = following
    return current


def _exists(folder: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _rename_new(folder: int, old: str, new: str) -> None:
    """Rename that fails with EEXIST instead of replacing. File systems without that flag get a hard link instead."""
    result = _libc.renameat2(folder, old.encode(), folder, new.encode(), _RENAME_NOREPLACE)
    if result == 0:
        return
    number = ctypes.get_errno()
    if number not in (errno.EINVAL, errno.ENOSYS):
        raise OSError(number, os.strerror(number))
    os.link(old, new, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)


def _sync_folder(folder: int) -> None:
    descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
