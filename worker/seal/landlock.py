"""Landlock without any rule: this thread and its later children may open, connect (TCP) and signal nothing.

Covers the calling thread only (before ABI 8), so it has to run while the process has one thread. Every right and scope
the kernel's ABI knows is handled and none is granted back. The ABI is capped at `MAX_ABI`, the newest one tested: from
ABI 9 on, handling the unix-socket right would refuse the worker's own two connections.

It does not restrict: unix sockets by path (below ABI 9), UDP, stat, chmod. The filter does.
"""

from __future__ import annotations

import ctypes
import os
import struct

from .syscalls import call

MAX_ABI = 7

_VERSION_QUERY = 1

# Rights by the ABI that introduced them (linux/landlock.h).
_FILE_RIGHTS = {1: (1 << 13) - 1, 2: 1 << 13, 3: 1 << 14, 5: 1 << 15}
_TCP_RIGHTS = {4: 0b11}
_SCOPES = {6: 0b11}  # abstract unix sockets, signals


def supported_abi() -> int:
    """The kernel's Landlock ABI (>= 1), not capped; raises `OSError` (ENOSYS, EOPNOTSUPP) when there is none."""
    return call("landlock_create_ruleset", None, 0, _VERSION_QUERY)


def ruleset_attributes(abi: int) -> bytes:
    """`struct landlock_ruleset_attr` as this ABI (1..7) knows it: 8, 16 or 24 bytes, everything handled. Pure."""
    fields = [_FILE_RIGHTS]
    if abi >= 4:
        fields.append(_TCP_RIGHTS)
    if abi >= 6:
        fields.append(_SCOPES)
    masks = [sum(bits for since, bits in field.items() if since <= abi) for field in fields]
    return struct.pack(f"={len(masks)}Q", *masks)


def restrict(abi: int) -> None:
    """Restricts the calling thread at this ABI (1..7); no_new_privs must be set. Raises `OSError`."""
    attributes = ruleset_attributes(abi)
    buffer = ctypes.create_string_buffer(attributes, len(attributes))
    ruleset = call("landlock_create_ruleset", buffer, len(attributes), 0)
    try:
        call("landlock_restrict_self", ruleset, 0)
    finally:
        os.close(ruleset)
