"""From layers to a level, and from an errno to a reason.

Pure: no call is made here.

A layer is on, or off with the errno that the host answered. A level sums them up (facts measured per layer: the filter
alone stops every attempt that is not about resources; the others are what is left if the filter has a hole).
"""

from __future__ import annotations

import errno
from collections.abc import Iterable

from ...protocol.frames import SandboxLevel, SealLayer, SealLayerName

LACKING = frozenset(
    {errno.EPERM, errno.EACCES, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSPC},
)
"""What a host answers when it has a layer not or not for us. Anything else is a fault, and a fault is no degradation."""


def is_lack(code: int | None) -> bool:
    """Whether this errno, from a layer's first call, means that the host lacks the layer."""
    return code in LACKING


def judge(layers: Iterable[SealLayer]) -> SandboxLevel:
    """The level these layers amount to; a layer that is not listed counts as off."""
    on = {layer.name for layer in layers if layer.on}
    if not {SealLayerName.SECCOMP, SealLayerName.CANARIES} <= on:
        return SandboxLevel.UNSANDBOXED
    if {SealLayerName.LANDLOCK, SealLayerName.NAMESPACES, SealLayerName.EMPTY_ROOT} <= on:
        return SandboxLevel.CONTAINED
    if on & {SealLayerName.LANDLOCK, SealLayerName.EMPTY_ROOT}:
        return SandboxLevel.SEALED
    return SandboxLevel.FILTERED
