"""`python -I -B -m browsercell.bridge.model --control-fd 3`: the model bridge process, as the supervisor starts it.

Options: `--control-fd N` (the inherited control link), `--memory BYTES` (address space beyond what is mapped at the
start; default 1 GiB), `--parent PID` (end at once if that is not the parent), `--dumpable` (readable by other processes
of the same user; for the memory proof only). Exit status as the bridge's (bridge/__main__.py): 0 told to, or the
supervisor is gone; 64 usage; 70 a bug or no memory; 75 the supervisor does not read; 76 nonsense on the control
link; 78 after SetupFailed.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import Sequence
from typing import Final, NoReturn

import uvloop

from ..journal import note, setup, where
from ..process import DEFAULT_MEMORY, EXIT_CRASH, MIN_MEMORY, ParentGone, harden
from .app import ModelBridge

EXIT_USAGE: Final = 64  # EX_USAGE of sysexits.h
log = logging.getLogger("browsercell.bridge.model")


def main(arguments: Sequence[str]) -> int:
    """Run the model bridge; the exit status."""
    setup()
    try:
        options = _options(arguments)
    except ValueError:
        note(log, "usage", logging.ERROR)
        return EXIT_USAGE
    try:
        harden(memory=options.memory, parent=options.parent, dumpable=options.dumpable)
    except (OSError, ParentGone) as error:
        note(log, "not-hardened", logging.ERROR, error=where(error))
        return EXIT_CRASH
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_serve(options.control_fd))
    except MemoryError:
        return EXIT_CRASH
    except Exception as error:  # noqa: BLE001 - the last place that can say what ended the process
        note(log, "crashed", logging.CRITICAL, error=where(error))
        return EXIT_CRASH


async def _serve(control_fd: int) -> NoReturn:
    status = await ModelBridge(control_fd).run()
    os._exit(status)  # a thread may still be importing, and the runner would wait for it


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ValueError(message)  # its text may repeat an argument: never logged


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = _Parser(prog="browsercell.bridge.model", add_help=False)
    parser.add_argument("--control-fd", type=int, required=True)
    parser.add_argument("--memory", type=int, default=DEFAULT_MEMORY)
    parser.add_argument("--parent", type=int, default=0)
    parser.add_argument("--dumpable", action="store_true")
    options = parser.parse_args(arguments)
    if options.control_fd < 0 or options.memory < MIN_MEMORY or options.parent < 0:
        raise ValueError("out of bounds")
    return options


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
