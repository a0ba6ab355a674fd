"""Starts a real headless Chromium with the built extension and speaks the debugger protocol over its pipe.

For tests of the extension alone; the product's own way to start a Chromium is not used here. No session stays attached
to the service worker: one would keep it awake and hide sleep bugs.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Final

EXTENSION_ID: Final = "bgoeedfepbpnlnmfagjkkmhgihmnncfh"
DIST: Final = Path(__file__).resolve().parents[2] / "extension" / "dist"
_LOW_FDS: Final = 50  # our ends are moved above this, so that 3 and 4 are free in the child
_FLAGS: Final = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--headless=new",
    "--remote-debugging-pipe",
    "--test-type",
    "--silent-debugger-extension-api",
)


class CdpError(Exception):
    """The browser answered a command with an error."""


class Chromium:
    """One browser with a fresh profile; `close` ends it and removes the profile, unless `keep` was set.

    `loads`: it starts with the built extension in it.
    """

    def __init__(self, *flags: str, environment: Mapping[str, str] | None = None, loads: bool = True) -> None:
        self.keep = False
        self.profile = Path(tempfile.mkdtemp(prefix="bct-chromium-"))
        commands_out, commands_in = os.pipe()
        replies_out, replies_in = os.pipe()
        ours = [_move_up(fd) for fd in (commands_out, commands_in, replies_out, replies_in)]
        binary = os.environ.get("BROWSERCELL_CHROMIUM") or shutil.which("chromium") or "chromium"
        argv = [
            binary,
            *_FLAGS,
            f"--user-data-dir={self.profile}",
            *([f"--load-extension={DIST}"] if loads else []),
            *flags,
            "about:blank",
        ]
        actions: list[Any] = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)]
        actions += [(os.POSIX_SPAWN_DUP2, ours[0], 3), (os.POSIX_SPAWN_DUP2, ours[3], 4)]
        self.pid = os.posix_spawnp(
            binary,
            argv,
            {**os.environ, **(environment or {})},
            file_actions=actions,
            setsid=True,
        )
        os.close(ours[0])
        os.close(ours[3])
        self._in, self._out = ours[1], ours[2]
        self._lock = threading.Lock()
        self._waiting: dict[int, Future[dict[str, Any]]] = {}
        self._next = 0
        self.events: list[dict[str, Any]] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        buffer = b""
        while chunk := os.read(self._out, 1 << 20):
            *messages, buffer = (buffer + chunk).split(b"\0")
            for raw in messages:
                message = json.loads(raw)
                future = self._waiting.pop(message.get("id"), None)
                if future is None:
                    self.events.append(message)
                elif "error" in message:
                    future.set_exception(CdpError(message["error"].get("message", "")))
                else:
                    future.set_result(message["result"])
        for future in self._waiting.values():
            future.set_exception(CdpError("the browser is gone"))

    def send(self, method: str, session: str | None = None, timeout: float = 15, **params: Any) -> Any:
        """One command; raises CdpError or TimeoutError."""
        future: Future[dict[str, Any]] = Future()
        with self._lock:
            self._next += 1
            message: dict[str, Any] = {"id": self._next, "method": method, "params": params}
            if session is not None:
                message["sessionId"] = session
            self._waiting[self._next] = future
            data = json.dumps(message).encode() + b"\0"
            while data:
                data = data[os.write(self._in, data) :]
        return future.result(timeout)

    def targets(self) -> list[dict[str, Any]]:
        infos: list[dict[str, Any]] = self.send("Target.getTargets")["targetInfos"]
        return infos

    def worker_target(self, timeout: float = 15) -> str:
        """The target id of the extension's service worker."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            for info in self.targets():
                if info["type"] == "service_worker" and EXTENSION_ID in info["url"]:
                    return str(info["targetId"])
            time.sleep(0.02)
        raise TimeoutError("no service worker")

    def evaluate(self, target: str, expression: str) -> Any:
        """The value of an expression (a promise is awaited) in a target, with a session of its own."""
        session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        try:
            answer = self.send(
                "Runtime.evaluate",
                session,
                expression=expression,
                awaitPromise=True,
                returnByValue=True,
                userGesture=True,
            )
            if "exceptionDetails" in answer:
                raise CdpError(json.dumps(answer["exceptionDetails"])[:500])
            return answer["result"].get("value")
        finally:
            self.send("Target.detachFromTarget", sessionId=session)

    def in_worker(self, expression: str, timeout: float = 10) -> Any:
        """Evaluates in the service worker, as soon as it has `chrome.storage`."""
        deadline = time.monotonic() + timeout
        while True:
            target = self.worker_target()
            try:
                if self.evaluate(target, "typeof chrome !== 'undefined' && !!chrome.storage"):
                    return self.evaluate(target, expression)
            except CdpError:
                if time.monotonic() > deadline:
                    raise
            if time.monotonic() > deadline:
                raise TimeoutError("the service worker did not come up")
            time.sleep(0.02)

    def pair(self, port: int, token: str, name: str = "private-test") -> None:
        """Hands the pairing over as a private Chromium gets it."""
        value = json.dumps({"pairing": {"port": port, "token": token, "pairing": name}})
        self.in_worker(f"chrome.storage.local.set({value}).then(() => true)")

    def page_target(self, url_part: str) -> str:
        """The target id of the page whose URL holds `url_part`."""
        for info in self.targets():
            if info["type"] == "page" and url_part in info["url"]:
                return str(info["targetId"])
        raise LookupError(url_part)

    def close(self) -> None:
        """Asks, waits, kills; then nothing of it is left."""
        with contextlib.suppress(CdpError, TimeoutError, OSError):  # gone or hanging: it is killed below
            self.send("Browser.close", timeout=5)
        deadline = time.monotonic() + 5
        while os.waitpid(self.pid, os.WNOHANG) == (0, 0):
            if time.monotonic() > deadline:
                os.killpg(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
                break
            time.sleep(0.02)
        self._reader.join(5)
        os.close(self._in)
        os.close(self._out)
        if not self.keep:
            shutil.rmtree(self.profile, ignore_errors=True)  # a late child may still write; the system cleans


def _move_up(fd: int) -> int:
    moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _LOW_FDS)
    os.close(fd)
    return moved
