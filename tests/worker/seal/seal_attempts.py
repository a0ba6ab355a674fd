"""The escape list: what hostile code in a worker would try, as data.

Each attempt is a function of the targets that a real host prepared (`seal_host.py`). It returns a short note when it got
through and raises `OSError` or `MemoryError` when it was stopped. Every attempt is harmless to the machine and bounded:
writes go to decoys, signals are 0 or SIGCONT, what is opened is closed.

An attempt proves something only where it succeeds without a seal on the same account; the tests run that control and count
the others as vacuous, never as passed. `harmless` marks the ones a sealed worker may succeed at.
"""

from __future__ import annotations

import errno
import os
import signal

import msgspec

from .seal_attempts_host import EXECUTION, KERNEL, RESOURCES, UNDO
from .seal_attempts_reach import FILES, NETWORK, PROCESSES
from .seal_targets import Attempt, Targets, data, raw

__all__ = ["ATTEMPTS", "Attempt", "Outcome", "Targets", "data", "isolated", "outcome", "raw"]

ATTEMPTS: tuple[Attempt, ...] = (
    *FILES, *PROCESSES, *NETWORK, *EXECUTION, *RESOURCES, *KERNEL, *UNDO,
)  # fmt: skip


class Outcome(msgspec.Struct, frozen=True):
    """How one attempt ended: "open", "blocked" (by an OSError or MemoryError), or "broken" (a bug of the attempt)."""

    name: str
    verdict: str
    detail: str = ""


def outcome(attempt: Attempt, targets: Targets) -> Outcome:
    """Tries one attempt in this process."""
    try:
        note = attempt.run(targets)
    except OSError as error:
        return Outcome(attempt.name, "blocked", errno.errorcode.get(error.errno or 0, type(error).__name__))
    except MemoryError:
        return Outcome(attempt.name, "blocked", "MemoryError")
    except Exception as error:  # noqa: BLE001 - whatever it is, it is a bug of the attempt and makes the test fail
        return Outcome(attempt.name, "broken", f"{type(error).__name__}: {error}"[:200])
    return Outcome(attempt.name, "open", note if isinstance(note, str) else "")


def isolated(attempt: Attempt, targets: Targets) -> Outcome:
    """Tries one attempt in a child of its own, so that a success (a new session, another root) does not help the next one."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        os.write(writer, msgspec.msgpack.encode(outcome(attempt, targets)))
        os._exit(0)
    os.close(writer)
    signal.alarm(10)  # an attempt that hangs ends the control run, loudly
    try:
        with os.fdopen(reader, "rb") as stream:
            answer = stream.read()
        os.waitpid(pid, 0)
    finally:
        signal.alarm(0)
    if not answer:
        return Outcome(attempt.name, "broken", "the child died")
    return msgspec.msgpack.decode(answer, type=Outcome)
