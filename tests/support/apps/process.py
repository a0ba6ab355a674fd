"""Starts a web server as a process of its own and waits until it answers; ends it by its pid.

Invariants: it listens on 127.0.0.1 only; its output goes to a file in its own folder, which is shown when it does not start.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

START_SECONDS: Final = 40.0  # importing a web framework on a busy core
END_SECONDS: Final = 10.0


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def serving(
    command: Sequence[str], port: int, folder: Path, environment: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Run `command` until the block ends; yields its address. Raises RuntimeError with its output if it does not come up."""
    log = folder / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        _wait(process, port, log)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        link = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            link.request("GET", "/")
            link.getresponse().read()
        except OSError:
            time.sleep(0.05)
        else:
            return
        finally:
            link.close()
    raise RuntimeError(f"the server did not start:\n{log.read_text(errors='replace')[-2000:]}")
