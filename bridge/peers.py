"""Who is at the other end of a loopback TCP connection, and who has a port: the kernel's socket table tells.

A TCP socket carries no credentials, but both of its ends are rows of `/proc/net/tcp` (`tcp6`), each with the uid that
made it (proc(5)). A row is found by both addresses, so it can't be confused with another connection while this one
is open.

Invariants: nothing is guessed: no row, or one that can't be read, is None (an unknown peer is a refused one). Only
established rows count: the kernel shows those that wait for their end with uid 0.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Final

_ESTABLISHED: Final = "01"
_LISTEN: Final = "0A"
_UID_COLUMN: Final = 7
_INODE_COLUMN: Final = 9
_PROC: Final = Path("/proc")


@dataclass(frozen=True, slots=True)
class Row:
    """One socket: its own and its peer's address as the kernel spells them, state, uid, inode."""

    local: str
    remote: str
    state: str
    uid: int
    inode: int


def spell(host: str, port: int, byteorder: str = sys.byteorder) -> str:
    """An address as in `/proc/net/tcp`: 32-bit words in the machine's byte order, then the port, all hexadecimal.

    `host`: a literal IPv4 or IPv6 address without a zone.
    """
    packed = ip_address(host).packed
    words = [packed[at : at + 4] for at in range(0, len(packed), 4)]
    ordered = [word[::-1] if byteorder == "little" else word for word in words]
    return b"".join(ordered).hex().upper() + f":{port:04X}"


def rows(table: str) -> Iterator[Row]:
    """Parse the text of `/proc/net/tcp` or `tcp6`; lines of another shape are left out."""
    for line in table.splitlines()[1:]:
        fields = line.split()
        if len(fields) > _INODE_COLUMN and fields[_UID_COLUMN].isdigit() and fields[_INODE_COLUMN].isdigit():
            yield Row(fields[1], fields[2], fields[3], int(fields[_UID_COLUMN]), int(fields[_INODE_COLUMN]))


def peer_uid(own: tuple[str, int], peer: tuple[str, int]) -> int | None:
    """The uid that made the socket at `peer` which is connected to `own` on this machine; None if unknown."""
    mine, theirs = spell(*own), spell(*peer)
    for row in rows(_read_table(own[0])):
        if row.state == _ESTABLISHED and row.local == theirs and row.remote == mine:
            return row.uid
    return None


def uid_of_process(pid: int) -> int | None:
    """The real uid of a living process (`Uid:` of its status; the folder's owner would be root's for some)."""
    try:
        text = (_PROC / str(pid) / "status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    for line in text.splitlines():
        if line.startswith("Uid:"):
            return int(line.split()[1])
    return None


def port_owner(host: str, port: int) -> int:
    """The pid that listens on `port` at `host` or at any address of its family; 0 if the kernel doesn't tell us.

    Walks the descriptors of every process we may look at: tens of milliseconds, not for the event loop.
    """
    suffix = f":{port:04X}"
    inodes = {
        f"socket:[{row.inode}]"
        for name in ("tcp", "tcp6")  # a dual-stack listener shows in the second table only
        for row in rows(_read(name))
        if row.state == _LISTEN and row.local.endswith(suffix) and _covers(row.local.partition(":")[0], host)
    }
    if not inodes:
        return 0
    for process in _PROC.iterdir():
        if process.name.isdigit() and _holds(process, inodes):
            return int(process.name)
    return 0


def _covers(local: str, host: str) -> bool:
    return set(local) == {"0"} or local == spell(host, 0).partition(":")[0]


def _holds(process: Path, inodes: set[str]) -> bool:
    try:
        names = os.listdir(process / "fd")
    except OSError:  # gone, or another user's
        return False
    for name in names:
        try:
            if os.readlink(process / "fd" / name) in inodes:
                return True
        except OSError:  # closed while we looked
            continue
    return False


def _read_table(host: str) -> str:
    return _read("tcp6" if ":" in host else "tcp")


def _read(name: str) -> str:
    try:
        return (_PROC / "net" / name).read_text(encoding="ascii", errors="replace")
    except OSError:  # no IPv6 here, or no /proc: unknown
        return ""
