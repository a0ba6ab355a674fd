"""A Chromium that nobody debugs: no debugging pipe, no port, no switch that loads an extension; as a user has it.

The extension gets into the profile as a person puts it there: developer mode, load unpacked, the popup's two fields and
its button (facts of the browser: `Extensions.loadUnpacked` stays only with developer mode on and one reload of the
extension). That takes one start with a debugging pipe; every later start of the profile has none.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from .launcher import DIST, EXTENSION_ID, CdpError, Chromium

_FLAGS = (
    "--no-sandbox",
    "--headless=new",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
)


def installed_profile(port: int, token: str) -> Path:
    """A profile with the extension installed for good and paired with that port through its popup."""
    first = Chromium(loads=False)
    profile = first.profile
    first.keep = True
    try:
        settings = str(first.send("Target.createTarget", url="chrome://extensions")["targetId"])
        _patiently(
            first,
            settings,
            "chrome.developerPrivate.updateProfileConfiguration({inDeveloperMode: true}).then(() => true)",
        )
        first.send("Extensions.loadUnpacked", path=str(DIST))
        # Later, so that the answer does not go down with the worker.
        first.in_worker("setTimeout(() => chrome.runtime.reload(), 50), true")
        time.sleep(1)  # the reload takes some 150 ms and says nothing
        popup = str(
            first.send("Target.createTarget", url=f"chrome-extension://{EXTENSION_ID}/popup.html")["targetId"]
        )
        _patiently(
            first,
            popup,
            f"""(async () => {{
              for (let i = 0; i < 100 && document.getElementById('pair').hidden; i++) await new Promise(go => setTimeout(go, 50));
              document.getElementById('port').value = {port};
              document.getElementById('token').value = {json.dumps(token)};
              document.querySelector('#pair button').click();
              for (let i = 0; i < 100; i++) {{
                if (document.getElementById('headline').textContent === 'Connected') return true;
                await new Promise(go => setTimeout(go, 50));
              }}
              return false;
            }})()""",
        )
    finally:
        first.close()
    return profile


def _patiently(browser: Chromium, target: str, expression: str) -> None:
    """Evaluate to true, once the page is there."""
    deadline = time.monotonic() + 15
    while True:
        with contextlib.suppress(CdpError):
            if browser.evaluate(target, expression) is True:
                return
        if time.monotonic() > deadline:
            raise TimeoutError(expression[:80])
        time.sleep(0.1)


@contextlib.contextmanager
def started(profile: Path) -> Iterator[int]:
    """The profile's browser, without any debugging; its pid."""
    binary = os.environ.get("BROWSERCELL_CHROMIUM") or shutil.which("chromium") or "chromium"
    process = subprocess.Popen(
        [binary, *_FLAGS, f"--user-data-dir={profile}", "about:blank"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield process.pid
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
