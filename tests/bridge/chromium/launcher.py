"""Starts a Chromium as the supervisor does (facts: launcher recipe and dropped uid), for live tests of the bridge.

`posix_spawn` without any code between fork and exec; the pipe's ends become descriptors 3 and 4; as root, `setpriv`
drops to a spare uid so that Chromium's own sandbox stays on. `Spawned.end` leaves no process behind.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

UID = 64_317  # nobody's
FLAGS = (
    "--headless=new",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-features=Prerender2,MediaRouter,Translate,DeferRendererTasksAfterInput",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    # A task's tabs are in the background, where timers are slowed to one a second: a click would take that long.
    "--disable-background-timer-throttling",
    "--disable-renderer-backgrounding",
    "--disable-backgrounding-occluded-windows",
    "--remote-debugging-pipe",
    "--test-type",
    "--silent-debugger-extension-api",
)


@dataclass
class Spawned:
    """A running browser: write commands to `commands_fd`, read replies from `replies_fd`."""

    pid: int
    commands_fd: int
    replies_fd: int
    folder: Path
    started: float  # monotonic seconds

    def alive(self) -> bool:
        """Whether the process has not ended yet."""
        return os.waitpid(self.pid, os.WNOHANG) == (0, 0)

    def end(self) -> None:
        """Kill the process group, wait for the browser, remove its folder."""
        try:
            os.killpg(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass  # it ended by itself and was waited for in `alive`
        deadline = time.monotonic() + 5
        while self.folder.exists() and time.monotonic() < deadline:
            shutil.rmtree(self.folder, ignore_errors=True)


def spawn(extension: Path, *flags: str, same_uid: bool = False) -> Spawned:
    """Start Chromium with a copy of `extension` and a fresh profile.

    `same_uid`: keep our uid, as the user's own browser has it; root's then runs without Chromium's sandbox.
    """
    folder = Path(tempfile.mkdtemp(prefix="bcc-"))
    for name in ("profile", "home"):
        (folder / name).mkdir(mode=0o700)
    shutil.copytree(extension, folder / "extension")
    command: list[str] = []
    if os.getuid() == 0 and same_uid:
        flags = (*flags, "--no-sandbox")
    elif os.getuid() == 0:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, UID, UID)
        command = [
            "setpriv",
            "--pdeathsig",
            "KILL",
            "--reuid",
            str(UID),
            "--regid",
            str(UID),
            "--clear-groups",
        ]
    command += [os.environ.get("BROWSERCELL_CHROMIUM", "/usr/bin/chromium"), *FLAGS, *flags]
    command += [f"--user-data-dir={folder}/profile", f"--load-extension={folder}/extension", "about:blank"]
    environment = {
        "PATH": os.environ["PATH"],
        "LANG": "C.UTF-8",
        "HOME": f"{folder}/home",
        "TMPDIR": str(folder),
    }
    ends = [*os.pipe(), *os.pipe()]
    # High numbers, so that no duplicate onto 3 or 4 hits an end that is still needed.
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 50) for fd in ends]
    for fd in ends:
        os.close(fd)
    their_commands, our_commands, our_replies, their_replies = high
    log = os.open(folder / "log", os.O_CREAT | os.O_WRONLY, 0o600)
    started = time.monotonic()
    pid = os.posix_spawnp(
        command[0],
        command,
        environment,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_DUP2, log, 1),
            (os.POSIX_SPAWN_DUP2, log, 2),
            (os.POSIX_SPAWN_DUP2, their_commands, 3),
            (os.POSIX_SPAWN_DUP2, their_replies, 4),
        ],
        setsid=True,
    )
    for fd in (their_commands, their_replies, log):
        os.close(fd)
    return Spawned(pid, our_commands, our_replies, folder, started)
