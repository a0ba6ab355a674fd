"""MiniWoB++ pages on loopback: a fresh seed for each episode, started by the page itself, the reward posted back.

    with Site(pages_folder()) as site:
        episode = site.episode("click-test", "a seed")
        ...  # a worker solves what lies at episode.url
        episode.wait(5)  # True when the episode ended; episode.reward is 1.0 when it was solved

The pages come from the wheel `miniwob` (MIT), fetched once by the registry's ordinary client into a folder that git ignores. The seed
and the way back are closures of one inline script: the page has no name by which anything else could reach them, a worker has no tool
that runs a script, and a reward counts only with the episode's secret, once.
"""

from __future__ import annotations

import json
import re
import secrets
import subprocess
import sys
import threading
import zipfile
from dataclasses import dataclass, field
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

PACKAGE: Final = "miniwob==1.1.0"
CACHE: Final = Path(__file__).resolve().parents[2] / "build" / "miniwob"
FETCH_SECONDS: Final = 90.0
MAX_POST: Final = 64 * 1024  # bytes of a report: a task's text and a few numbers

# `ended` wraps the one function every task ends by, so that the report leaves in the same moment. The clock of 10 s
# belongs to other benchmarks; here a task has the product's own limits.
HOOK: Final = """<script>(function () {
  var report = function (what) {
    what.secret = %(secret)s;
    fetch("/__report", { method: "POST", body: JSON.stringify(what), keepalive: true });
  };
  addEventListener("load", function () {
    setTimeout(function () {
      try {
        Math.seedrandom(%(seed)s);
        core.EPISODE_MAX_TIME = 1e8;
        var end = core.endEpisode;
        core.endEpisode = function (reward) {
          var open = core.EP_TIMER !== null;
          end.apply(core, arguments);
          if (open) report({ done: true, reward: reward, why: String(WOB_REWARD_REASON || "") });
        };
        core.startEpisodeReal();
        report({ started: true, task: String(core.getUtterance()) });
      } catch (error) {
        report({ error: String(error) });
      }
    }, %(delay_ms)d);
  });
})();</script>"""
START_DELAY_MS: Final = (
    60  # as in other harnesses of this benchmark: tasks set up widgets in handlers of `load`
)


class Unobtainable(Exception):
    """The pages can't be had here; the text says why."""


def pages_folder() -> Path:
    """The folder `html` of the wheel, fetched on first use. Raises Unobtainable."""
    html = CACHE / "miniwob" / "html"
    if (html / "core" / "core.js").is_file():
        return html
    CACHE.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(CACHE), PACKAGE]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise Unobtainable(f"{PACKAGE} did not come within {FETCH_SECONDS:g} s") from None
    wheels = sorted(CACHE.glob("miniwob-*.whl"))
    if not wheels:
        raise Unobtainable(f"pip could not fetch {PACKAGE}: exit status {done.returncode}")
    with zipfile.ZipFile(wheels[0]) as wheel:
        wheel.extractall(CACHE, [name for name in wheel.namelist() if name.startswith("miniwob/html/")])
    if not (html / "core" / "core.js").is_file():
        raise Unobtainable(f"{PACKAGE} holds no pages where they were expected")
    return html


def task_names(pages: Path) -> list[str]:
    """Every task that the pages hold."""
    return sorted(page.stem for page in (pages / "miniwob").glob("*.html"))


@dataclass(slots=True)
class Episode:
    """One page load that counts. `reward`: what the task gave, None before its end; `problem`: why it did not start."""

    task: str
    seed: str
    url: str
    secret: str
    utterance: str = ""
    reward: float | None = None
    why: str = ""
    problem: str = ""
    loads: int = 0
    _ended: threading.Event = field(default_factory=threading.Event)

    def wait(self, seconds: float) -> bool:
        """Whether the episode ended within that time."""
        return self._ended.wait(seconds)

    @property
    def solved(self) -> bool:
        return self.reward is not None and self.reward >= 1.0

    def take(self, what: dict[str, Any]) -> None:
        """A report with the right secret; only the first end counts."""
        self.utterance = str(what.get("task", self.utterance))
        self.problem = str(what.get("error", self.problem))
        if what.get("done") and not self._ended.is_set():
            self.reward, self.why = float(what["reward"]), str(what.get("why", ""))
            self._ended.set()


class Site:
    """The server; a context manager. `refused`: reports that named no episode by its secret."""

    def __init__(self, pages: Path) -> None:
        self.pages = pages
        self.refused = 0
        self._episodes: dict[str, Episode] = {}
        self._lock = threading.Lock()
        site = self

        class Handler(SimpleHTTPRequestHandler):
            timeout = 30

            def __init__(self, *args: Any) -> None:
                super().__init__(*args, directory=str(pages))

            def do_GET(self) -> None:
                split = urlsplit(self.path)
                named = re.fullmatch(r"/miniwob/([a-z0-9-]+)\.html", split.path)
                key = parse_qs(split.query).get("episode", [""])[0]
                episode = site._episodes.get(key)
                if named is None or episode is None or named.group(1) != episode.task:
                    super().do_GET()
                    return
                data = site._page(episode)
                self.send_response(200)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def do_POST(self) -> None:
                length = min(int(self.headers.get("Content-Length") or 0), MAX_POST)
                site._posted(self.rfile.read(length))
                self.send_response(204)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                """Say nothing: reports are kept."""

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: Any, client_address: Any) -> None:
                """A browser that closes in the middle of a page is the ordinary end of an episode."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
        )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Site:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    def episode(self, task: str, seed: str) -> Episode:
        """A new episode of that task. Raises KeyError for a task without a page."""
        if not (self.pages / "miniwob" / f"{task}.html").is_file():
            raise KeyError(task)
        key = secrets.token_hex(8)
        made = Episode(task, seed, f"{self.url}/miniwob/{task}.html?episode={key}", secrets.token_hex(16))
        with self._lock:
            self._episodes[key] = made
        return made

    def _page(self, episode: Episode) -> bytes:
        episode.loads += 1
        page = self.pages / "miniwob" / f"{episode.task}.html"
        html = page.read_text(encoding="utf-8", errors="replace")
        hook = HOOK % {
            "secret": json.dumps(episode.secret),
            "seed": json.dumps(episode.seed),
            "delay_ms": START_DELAY_MS,
        }
        head = html.find("</head>")
        return (hook + html if head < 0 else html[:head] + hook + html[head:]).encode()

    def _posted(self, raw: bytes) -> None:
        try:
            what = json.loads(raw)
        except ValueError:
            what = {}
        self.report(what if isinstance(what, dict) else {})

    def report(self, what: dict[str, Any]) -> None:
        """What a page reports; without an episode's secret it is only counted."""
        secret = what.get("secret")
        with self._lock:
            for episode in self._episodes.values():
                if secret == episode.secret:
                    episode.take(what)
                    return
            self.refused += 1
