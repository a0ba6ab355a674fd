"""Playwright beside the product in one browser: `Aria` asks `aria.mjs` for snapshots, times and tokens.

Playwright and the token counter are npm packages of this folder (`.ci/setup bench` installs them); nothing else needs them.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tests.bench.harness import FloorUnavailable

HERE: Final = Path(__file__).resolve().parent


class Aria:
    """A running `aria.mjs`, connected to the browser at a debugging port."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def tokens(self, text: str) -> int:
        """How many tokens of o200k `text` is."""
        return int(self._ask(count=text)["tokens"])

    def snapshot(self, url_part: str, times: int = 1, mode: str = "default") -> tuple[str, list[float]]:
        """Playwright's aria snapshot of the page whose URL holds `url_part`, and the milliseconds each took."""
        answer = self._ask(aria=url_part, times=times, mode=mode)
        return str(answer["text"]), [float(ms) for ms in answer["ms"]]

    def _ask(self, **request: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("Playwright's side has ended")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise RuntimeError(answer["error"][:300])
        return answer


def debugging_port(profile: Path) -> int:
    """The port that a Chromium started with `--remote-debugging-port=0` has taken."""
    return int((profile / "DevToolsActivePort").read_text().splitlines()[0])


@contextlib.contextmanager
def aria(port: int) -> Iterator[Aria]:
    """Connect Playwright to the browser. Raises FloorUnavailable where it is not installed."""
    node = shutil.which("node")
    if node is None or not (HERE / "node_modules" / "playwright-core").is_dir():
        raise FloorUnavailable("Playwright is not installed; run: .ci/setup bench")
    command = [node, str(HERE / "aria.mjs"), str(port)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Aria(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
