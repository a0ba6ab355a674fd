"""Own namespaces, an empty root directory, no privilege.

Two ways to the same place. With real privilege (root) the namespaces are made first and the user id is dropped last. An
ordinary user makes a user namespace too, which grants the capabilities to change root inside it; they are dropped right after.
No uid map is written and no loopback brought up: nothing here needs either.

Invariants: on return the process has no capability, effective or permitted; dropping the ids can't be undone.
Changing ids clears the death signal and dumpable flag: the caller re-arms them.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct

from ...protocol.frames import SealLayer, SealLayerName
from .numbers import PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, PR_CAPBSET_DROP
from .steps import first_call, must
from .syscalls import call, prctl

_NEW_CGROUP, _NEW_UTS, _NEW_IPC, _NEW_USER, _NEW_NET = (
    0x0200_0000,
    0x0400_0000,
    0x0800_0000,
    0x1000_0000,
    0x4000_0000,
)
_SET_UP = _NEW_NET | _NEW_IPC | _NEW_UTS | _NEW_CGROUP
_CAPABILITY_VERSION_3 = 0x2008_0522
_CAPABILITIES = 64  # the width of a capability set; the kernel answers EINVAL behind its last one


def enter_namespaces(*, user: bool, off: frozenset[str]) -> SealLayer:
    """New net, ipc, uts and cgroup namespaces, in a new user namespace too if `user`. The process must have one thread."""
    flags = _SET_UP | (_NEW_USER if user else 0)
    return first_call(SealLayerName.NAMESPACES, lambda: call("unshare", flags), off)


def enter_empty_root(root_dir: str, off: frozenset[str]) -> SealLayer:
    """Makes `root_dir` (absolute; holds the two socket files and nothing else) the root directory."""
    layer = first_call(SealLayerName.EMPTY_ROOT, lambda: os.chroot(root_dir), off)
    with must("working-directory"):
        os.chdir("/")
    return layer


def _clear_bounding_set() -> None:
    """Empties the bounding and the ambient set as far as we may; without CAP_SETPCAP no_new_privs does the same job."""
    for capability in range(_CAPABILITIES):
        try:
            prctl(PR_CAPBSET_DROP, capability)
        except OSError as error:
            if error.errno in (errno.EINVAL, errno.EPERM):  # behind the last capability; not ours to drop
                break
            raise
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)


def _change_ids(uid: int) -> None:
    os.setgroups([])
    with must("ids"):
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)


def drop_privileges(uid: int | None, off: frozenset[str]) -> SealLayer:
    """Drops groups, ids (to `uid` and the group of that number; None keeps them) and every capability.

    The layer is on if the process is no longer root and holds no capability; capabilities go in any case.
    """
    with must("bounding-set"):
        _clear_bounding_set()
    layer = SealLayer(SealLayerName.PRIVILEGES, True)
    if uid is not None:
        layer = first_call(SealLayerName.PRIVILEGES, lambda: _change_ids(uid), off)
    elif os.geteuid() == 0:
        layer = SealLayer(SealLayerName.PRIVILEGES, False, "EPERM")
    header = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
    with must("capabilities"):
        call("capset", ctypes.create_string_buffer(header, len(header)), ctypes.create_string_buffer(24))
    return layer
