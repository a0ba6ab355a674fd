"""Where a supervisor listens by default, and how a client finds it. Standard library only.

`BROWSERCELL_RUNTIME_DIR` wins; else `$XDG_RUNTIME_DIR/browsercell` where that folder exists and is ours; else a
folder of this user in the system's temporary folder. This module creates nothing and trusts nothing: whoever uses
the folder checks owner and mode.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from typing import Final

HOST_SOCKET: Final = (
    "host/socket"  # in a 0700 folder of its own: as root the runtime folder itself lets workers through
)
RUNTIME_VARIABLE: Final = "BROWSERCELL_RUNTIME_DIR"


def default_runtime_folder(environment: Mapping[str, str] | None = None) -> str:
    """Absolute path of the runtime folder (see protocol/README.md, Processes and places)."""
    env = os.environ if environment is None else environment
    chosen = env.get(RUNTIME_VARIABLE, "")
    if chosen:
        return os.path.abspath(chosen)
    xdg = env.get("XDG_RUNTIME_DIR", "")
    if xdg and os.path.isabs(xdg) and _is_mine(xdg):
        return os.path.join(xdg, "browsercell")
    return os.path.join(tempfile.gettempdir(), f"browsercell-{os.getuid()}")


def _is_mine(folder: str) -> bool:
    try:
        return os.stat(folder).st_uid == os.getuid()
    except OSError:
        return False


def is_held(runtime_folder: str) -> bool:
    """Whether the process that last locked the folder lives (it may not listen yet). Takes no lock itself: that could
    turn away a supervisor that is about to start."""
    try:
        lock = os.open(os.path.join(runtime_folder, "lock"), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        owner = os.read(lock, 20).strip()
    finally:
        os.close(lock)
    return owner.isdigit() and os.path.exists(f"/proc/{int(owner)}")


def host_socket(runtime_folder: str) -> str:
    """Path of the host socket inside a runtime folder."""
    return os.path.join(runtime_folder, HOST_SOCKET)
