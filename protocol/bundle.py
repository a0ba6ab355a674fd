"""Where the built browser extension is, and which build it is.

Purpose: the one place that knows both homes of the built extension: the wheel's copy (`_extension` beside this
module, put there by `.ci/hatch_build.py`) and, in a checkout, `extension/dist` (design 13). Any process may ask.

Invariants: the folder returned holds a `manifest.json`; the digest depends on relative names and contents only, so a
copy of the folder elsewhere, unpacked by another user at another time, has the same digest.

It does not build, copy, change or validate the extension, and it follows no symbolic link: a link inside the folder
is refused, because what it points to could change without the digest changing.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

from .errors import Unavailable

_PACKAGE: Final = Path(__file__).resolve().parent
# The wheel's copy; `.ci/hatch_build.py` writes to the same place.
_IN_WHEEL: Final = _PACKAGE / "_extension"
# A checkout: `.pkg/browsercell/protocol` is a link to the folder at the top, so one level up is the checkout.
_IN_CHECKOUT: Final = _PACKAGE.parent / "extension" / "dist"

_MANIFEST: Final = "manifest.json"
# Lengths are written in 8 bytes before each name and content, so that no two folders share one byte stream.
_LENGTH_BYTES: Final = 8
_MISSING: Final = "The built browser extension is missing"
_BUILD: Final = "Build it with: make setup"
_CHUNK: Final = 1 << 16  # bytes read at once: one pipe buffer's worth, memory stays flat for any file size


class ExtensionMissing(Unavailable):
    """No built extension was found; the next step says how to get one."""


class ExtensionUnreadable(Unavailable):
    """The built extension holds something that can't be part of it (a link, a device); the message names the entry."""


def extension_folder(candidates: tuple[Path, ...] = (_IN_WHEEL, _IN_CHECKOUT)) -> Path:
    """Return the folder with the built extension: absolute, with a `manifest.json` inside.

    `candidates` are tried in order; the default is the wheel's copy, then the checkout's `extension/dist`.
    Raises ExtensionMissing if none of them holds a manifest.
    """
    for folder in candidates:
        if (folder / _MANIFEST).is_file():
            return folder
    if _IN_CHECKOUT.parent.is_dir():
        raise ExtensionMissing(_MISSING, next_step=_BUILD)
    raise ExtensionMissing(_MISSING, next_step="Install browsercell again, from a complete wheel")


def bundle_digest(folder: Path) -> str:
    """Return the SHA-256 (64 hex digits) over the sorted relative names and contents of all files in `folder`.

    Names are POSIX paths in UTF-8; empty folders, times, owners and modes do not count.
    Raises ExtensionMissing if `folder` is no folder, ExtensionUnreadable at a link or special file, OSError if a file
    can't be read.
    """
    if not folder.is_dir():
        raise ExtensionMissing(_MISSING, next_step=_BUILD)
    files: list[tuple[bytes, Path]] = []
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            raise ExtensionUnreadable(
                f"The built browser extension holds something that is no plain file: {name}", next_step=_BUILD
            )
        if path.is_file():
            files.append((name.encode(), path))
    total = hashlib.sha256()
    for encoded, path in sorted(files):
        total.update(len(encoded).to_bytes(_LENGTH_BYTES, "big"))
        total.update(encoded)
        total.update(path.stat().st_size.to_bytes(_LENGTH_BYTES, "big"))
        with path.open("rb") as stream:
            while chunk := stream.read(_CHUNK):
                total.update(chunk)
    return total.hexdigest()
