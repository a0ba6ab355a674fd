"""The rule of degradation, in one place: how one layer's first call may fail, and how every other failure ends the worker.

Only the first call of a layer may find that the host lacks it (`levels.LACKING`). Everything after it has to work: a layer
that is half on is reported by nobody, so it is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ...protocol.errors import SandboxError
from ...protocol.frames import SealLayer, SealLayerName
from .levels import is_lack
from .syscalls import errno_name

PRETENDED = "ECANCELED"
"""The reason of a layer that a test switched off; no host answers this."""


@contextmanager
def must(step: str) -> Iterator[None]:
    """Turns any `OSError` inside into `SandboxError(step, errno)`."""
    try:
        yield
    except OSError as error:
        raise SandboxError(step, errno_name(error.errno)) from None


def first_call(name: SealLayerName, call: Callable[[], object], off: frozenset[str]) -> SealLayer:
    """Makes the first call of a layer: on, or off with the reason. Raises `SandboxError` when it fails in another way."""
    if name in off:
        return SealLayer(name, False, PRETENDED)
    try:
        call()
    except OSError as error:
        reason = errno_name(error.errno)
        if not is_lack(error.errno):
            raise SandboxError(name, reason) from None
        return SealLayer(name, False, reason)
    return SealLayer(name, True)
