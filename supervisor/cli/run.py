"""`supervisor run`: the supervisor in the foreground."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from ...protocol.places import host_socket
from .. import config
from ..core import Supervisor
from ..service import serve
from .common import load


def run(file: Path | None, sets: Sequence[str] | None, *, lifeline: bool, quiet: bool, json: bool) -> None:
    """Returns after an orderly end; raises Unavailable or RestartsExhausted (exit code 3)."""
    settings = config.supervisor_settings(load(file, sets).configuration)

    def ready(supervisor: Supervisor) -> None:
        if json:
            from .common import print_json

            print_json(
                {"ready": True, "socket": host_socket(settings.runtime_folder), "status": supervisor.status()}
            )
        elif not quiet:
            print(
                f"supervisor: ready, hosts connect at {host_socket(settings.runtime_folder)}; stop with Ctrl+C",
                flush=True,
            )
            listener = supervisor.status()["bridge"]["listener"]
            if "problem" in listener:  # private browsers work all the same; one's own Chrome can't connect
                print(
                    f"supervisor: {listener['problem']}. {listener['nextStep']}", file=sys.stderr, flush=True
                )

    serve(settings, lifeline=lifeline, on_ready=ready)
