"""The page runtime's own judgement of elements, asked in an isolated world of a page, past the tools.

The bundle is `extension/test/probe.ts`. In the extension's own world (`world="extension"`, after the extension has looked at the
page once) closed shadow roots are open to it; in a world made by the debugger they are not.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from .launcher import CdpError, Chromium

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
        made = chromium.send(
            "Page.createIsolatedWorld", self.session, frameId=tree["frame"]["id"], worldName="probe"
        )
        self._context = made["executionContextId"]
        self._evaluate(bundle() + ";0")

    def _evaluate(self, expression: str) -> Any:
        answer = self.chromium.send(
            "Runtime.evaluate",
            self.session,
            60,
            expression=expression,
            contextId=self._context,
            returnByValue=True,
        )
        assert "exceptionDetails" not in answer, json.dumps(answer["exceptionDetails"])[:1000]
        return answer["result"].get("value")

    def ask(self, expression: str) -> Any:
        return self._evaluate(f"probe.{expression}")

    def close(self) -> None:
        self.chromium.send("Target.detachFromTarget", sessionId=self.session)


_LOADED: Final = "location.href !== 'about:blank' && document.readyState === 'complete'"


@contextlib.contextmanager
def probed(chromium: Chromium, url: str) -> Iterator[Probe]:
    """A tab of its own with `url` in it, loaded and probed; closed afterwards."""
    target = chromium.send("Target.createTarget", url=url)["targetId"]
    try:
        deadline = time.monotonic() + 20
        while not _loaded(chromium, target):
            assert time.monotonic() < deadline, f"{url} does not load"
            time.sleep(0.05)
        probe = Probe(chromium, target)
        yield probe
        probe.close()
    finally:
        chromium.send("Target.closeTarget", targetId=target)


def _loaded(chromium: Chromium, target: str) -> bool:
    with contextlib.suppress(CdpError):  # the document was left while it was asked
        return bool(chromium.evaluate(target, _LOADED))
    return False
