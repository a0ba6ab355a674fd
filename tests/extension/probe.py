"""The page runtime's own judgement of elements, asked in an isolated world of a page, past the tools.

The bundle is `extension/test/probe.ts`. In the extension's own world (`world="extension"`, after the extension has looked at the
page once) closed shadow roots are open to it; in a world made by the debugger they are not.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any, Final

from .launcher import Chromium

_EXTENSION: Final = Path(__file__).resolve().parents[2] / "extension"
_BUNDLE: Final = _EXTENSION / "build" / "test" / "probe.js"
_lock = threading.Lock()


def bundle() -> str:
    """The bundle's source, built once a run."""
    with _lock:
        if not getattr(bundle, "built", False):
            node = shutil.which("node")
            assert node is not None, "Node builds the extension; it is not on PATH"
            subprocess.run([node, "build.mjs", "--test"], cwd=_EXTENSION, check=True, timeout=120)
            bundle.built = True  # type: ignore[attr-defined]
        return _BUNDLE.read_text(encoding="utf-8")


class Probe:
    """One page with the bundle in it. `ask` evaluates an expression that begins at the object `probe`."""

    def __init__(self, chromium: Chromium, target: str) -> None:
        self.chromium = chromium
        self.session = chromium.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        tree = chromium.send("Page.getFrameTree", self.session)["frameTree"]
        made = chromium.send("Page.createIsolatedWorld", self.session, frameId=tree["frame"]["id"], worldName="probe")
        self._context = made["executionContextId"]
        self._evaluate(bundle() + ";0")

    def _evaluate(self, expression: str) -> Any:
        answer = self.chromium.send(
            "Runtime.evaluate", self.session, 60, expression=expression, contextId=self._context, returnByValue=True
        )
        assert "exceptionDetails" not in answer, json.dumps(answer["exceptionDetails"])[:1000]
        return answer["result"].get("value")

    def ask(self, expression: str) -> Any:
        return self._evaluate(f"probe.{expression}")

    def close(self) -> None:
        self.chromium.send("Target.detachFromTarget", sessionId=self.session)
