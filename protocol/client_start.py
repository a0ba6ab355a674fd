"""Starts a supervisor that lives as long as its client, when asked to and none answers.

The child holds the read end of a pipe as standard input and ends when it closes (`supervisor run --lifeline`), so
it can't outlive its client, however that ends. Its one-line error is what the client reports. Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Final

from .errors import Unavailable
from .places import RUNTIME_VARIABLE

START_SECONDS: Final = 30.0  # cold start of three interpreters on a busy machine
POLL_SECONDS: Final = 0.02  # between two tries to connect
STOP_SECONDS: Final = 10.0
MAX_ERROR_BYTES: Final = 4096  # of the child's standard error


class OwnSupervisor:
    """A supervisor of this client's own. `close` ends it; so does the end of this process."""

    def __init__(
        self, runtime_folder: str, answers: Callable[[], bool], arguments: Sequence[str] = ()
    ) -> None:
        """Starts it and waits until `answers` (a socket file alone may be a dead one's). Raises Unavailable with its own
        error line."""
        environment = {**os.environ, RUNTIME_VARIABLE: runtime_folder}
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-B",
                "-m",
                "browsercell.supervisor",
                "run",
                "--lifeline",
                "--quiet",
                *arguments,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )
        try:
            self._wait(answers)
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    def _wait(self, answers: Callable[[], bool]) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not answers():
            if self._process.poll() is not None:
                raise Unavailable(self._error_line())
            if time.monotonic() > deadline:
                raise Unavailable(
                    f"the supervisor did not listen within {START_SECONDS:g} s",
                    next_step="Run: supervisor doctor",
                )
            time.sleep(POLL_SECONDS)

    def _error_line(self) -> str:
        pipe = self._process.stderr
        text = b"" if pipe is None else os.read(pipe.fileno(), MAX_ERROR_BYTES)
        lines = text.decode("utf-8", "replace").strip().splitlines()
        return lines[-1].removeprefix("supervisor: ") if lines else "the supervisor ended at its start"

    def close(self) -> None:
        """Close the lifeline, wait, kill what does not end in time. Reaps. Harmless when closed already."""
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):  # it may be gone already
                self._process.stdin.close()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stderr is not None:
            self._process.stderr.close()
