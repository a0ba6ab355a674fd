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
from .places import RUNTIME_VARIABLE, is_held

START_SECONDS: Final = 30.0  # cold start of three interpreters on a busy machine
SHARED_SECONDS: Final = 2.0  # one that still answers this long after its lifeline was cut serves others
POLL_SECONDS: Final = 0.02  # between two tries to connect
STOP_SECONDS: Final = 10.0
MAX_ERROR_BYTES: Final = 4096  # of the child's standard error


class OwnSupervisor:
    """A supervisor of this client's own. `close` ends it; so does the end of this process."""

    def __init__(
        self, runtime_folder: str, answers: Callable[[], bool], arguments: Sequence[str] = ()
    ) -> None:
        """Starts it and waits until `answers` (a socket file alone may be a dead one's). Raises Unavailable with its own
        error line. If another one wins the race for the folder, that one is used and nothing here is left to end."""
        self._runtime_folder = runtime_folder
        environment = {**os.environ, RUNTIME_VARIABLE: runtime_folder}
        self._answers = answers
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
                # Last, so that it wins: whatever the configuration says, this is where its client looks for it.
                "--set",
                f"places.runtime_folder={runtime_folder}",
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )
        try:
            self._wait()
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        """False if it has ended, as one that lost the race for the folder."""
        return self._process.poll() is None

    def _wait(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            if self._process.poll() is not None:
                if self._found_another():
                    return
                raise Unavailable(self._error_line())
            if time.monotonic() > deadline:
                raise Unavailable(
                    f"the supervisor did not listen within {START_SECONDS:g} s",
                    next_step="Run: supervisor doctor",
                )
            time.sleep(POLL_SECONDS)

    def _found_another(self) -> bool:
        """Somebody else started one at the same moment: wait until that one listens."""
        deadline = time.monotonic() + START_SECONDS
        while is_held(self._runtime_folder) and time.monotonic() < deadline:
            if self._answers():
                return True
            time.sleep(POLL_SECONDS)
        return False

    def _error_line(self) -> str:
        pipe = self._process.stderr
        text = b"" if pipe is None else os.read(pipe.fileno(), MAX_ERROR_BYTES)
        lines = text.decode("utf-8", "replace").strip().splitlines()
        return lines[-1].removeprefix("supervisor: ") if lines else "the supervisor ended at its start"

    def close(self) -> None:
        """Close the lifeline and wait for the end; kill what neither ends nor answers. Reaps. Harmless when closed already.

        One that goes on answering serves other hosts that found it; it ends by itself when the last has left.
        """
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):  # it may be gone already
                self._process.stdin.close()
        deadline = time.monotonic() + STOP_SECONDS
        while self._process.poll() is None:
            left = deadline - time.monotonic()
            if left < STOP_SECONDS - SHARED_SECONDS and self._answers():
                break
            if left <= 0:
                self._process.kill()
                self._process.wait()
                break
            time.sleep(POLL_SECONDS)
        if self._process.stderr is not None:
            self._process.stderr.close()
