"""A stand-in for Chromium at the other ends of the debugging pipe, for quick tests of what speaks to it."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Callable
from typing import Any

EXTENSION_URL = "chrome-extension://{id}/background.js"


class Refuse(Exception):
    """Answer with an error."""


class FakeChromium:
    """Answers every command; `answers[method]` replaces the usual answer. Give `fds` to whoever owns the pipe."""

    def __init__(self, extension_id: str) -> None:
        self.extension_id = extension_id
        self._commands, ours = os.pipe()
        theirs, self._replies = os.pipe()
        self.fds = (ours, theirs)
        self.calls: list[tuple[str, dict[str, Any], str]] = []
        self.pairing: dict[str, Any] = {}
        self.paired = asyncio.Event()
        self.answers: dict[str, Callable[[dict[str, Any]], dict[str, Any] | None]] = {}
        self._buffer = b""
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._commands, self._read)

    @property
    def methods(self) -> list[str]:
        return [method for method, _, _ in self.calls]

    def params(self, method: str) -> list[dict[str, Any]]:
        return [params for called, params, _ in self.calls if called == method]

    def emit(self, method: str, params: dict[str, Any]) -> None:
        """Send an event."""
        os.write(self._replies, json.dumps({"method": method, "params": params}).encode() + b"\0")

    def pause(self, request: str, url: str, frame: str = "page-1") -> None:
        """A document request stops."""
        self.emit("Fetch.requestPaused", {"requestId": request, "frameId": frame, "request": {"url": url}})

    def end(self) -> None:
        """The process is gone."""
        if self._commands >= 0:
            self._loop.remove_reader(self._commands)
            os.close(self._commands)
            os.close(self._replies)
            self._commands = -1

    def _read(self) -> None:
        data = os.read(self._commands, 1 << 16)
        if not data:
            self.end()  # our side has let go, as Chromium ends when its pipe does
            return
        *messages, self._buffer = (self._buffer + data).split(b"\0")
        for message in messages:
            self._answer(json.loads(message))

    def _answer(self, message: dict[str, Any]) -> None:
        method, params = message["method"], message["params"]
        self.calls.append((method, params, message.get("sessionId", "")))
        answer: dict[str, Any] = {"id": message["id"]}
        try:
            result = self.answers.get(method, self._usual(method))(params)
        except Refuse:
            answer["error"] = {"code": -32000, "message": "refused"}
        else:
            if result is None:
                return  # never answered
            answer["result"] = result
        os.write(self._replies, json.dumps(answer).encode() + b"\0")
        if method == "Browser.close":
            self.end()

    def _usual(self, method: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
        if method == "Target.getTargets":
            return lambda _params: {"targetInfos": self.targets()}
        if method == "Target.attachToTarget":
            return lambda _params: {"sessionId": "session-1"}
        if method == "Runtime.evaluate":
            return self.evaluate
        return lambda _params: {}

    def targets(self) -> list[dict[str, str]]:
        """The extension's service worker."""
        url = EXTENSION_URL.format(id=self.extension_id)
        return [{"targetId": "worker", "type": "service_worker", "url": url}]

    def evaluate(self, params: dict[str, Any]) -> dict[str, Any]:
        """Take the pairing out of the expression, as the extension's storage would."""
        found = re.search(r"pairing: (\{.*?\})\}", params["expression"])
        assert found is not None
        self.pairing = json.loads(found[1])
        self.paired.set()
        return {"result": {"type": "boolean", "value": True}}
