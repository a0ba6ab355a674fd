"""A private Chromium on disk and on the command line: executable, lease folder, flags, sandbox check (design 10).

    <runtime>/b/<id>/      0700, owned by the uid Chromium runs under
      profile/ home/ tmp/  everything it writes (no /dev/shm, no /tmp: nothing outlives the folder)
      extension/           a copy: that uid can't read a checkout or an environment in a private home
      log                  0600, its stdout and stderr; gone with the folder

Invariants: the child's environment is PATH, LANG, HOME and TMPDIR (and DISPLAY, XAUTHORITY when it has a window);
Chromium's own sandbox stays on unless the settings say `chromium_no_sandbox`.

It starts nothing (`spawn.py`) and waits for nothing (`browsers.py`). The copying blocks: call it off the loop.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..protocol.bundle import extension_folder
from ..protocol.errors import Unavailable
from . import messages
from .places import Places
from .settings import ChromiumSettings
from .spawn import BASE_ENVIRONMENT

NONE: Final = "none"  # the setting that says: never
# Branded Chrome is left out: it has dropped --load-extension (facts/chromium.md).
_NAMES: Final = ("chromium", "chromium-browser", "ungoogled-chromium")
_SETUID_HELPERS: Final = ("/usr/lib/chromium/chrome-sandbox", "/usr/lib/chromium-browser/chrome-sandbox")
_SANDBOX_WORDS: Final = (b"No usable sandbox", b"setuid_sandbox_host", b"zygote_host_impl_linux")

# Order and reasons: facts/chromium.md 0. The dev-shm flag moves shared memory into TMPDIR, so a kill leaves none behind.
_FLAGS: Final = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-breakpad",
    "--disable-crash-reporter",
    "--disable-dev-shm-usage",
    "--password-store=basic",
    # A task's tabs are in the background: their timers would run once a second, and so would every synthetic click.
    "--disable-background-timer-throttling",
    "--disable-renderer-backgrounding",
    "--disable-backgrounding-occluded-windows",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",  # design 10: no direct WebRTC
    # Nothing loads a page that no task asked for; and after a click a page's own tasks are not kept back until it has
    # drawn, which made every answer to a click 12 ms later (19 against 7).
    "--disable-features=Prerender2,MediaRouter,Translate,DeferRendererTasksAfterInput",
    "--window-size=1280,900",  # what most sites are made for
)
_PIPE_FLAGS: Final = ("--remote-debugging-pipe", "--test-type", "--silent-debugger-extension-api")


@dataclass(frozen=True, slots=True)
class Lease:
    """A prepared folder. `uid`: who Chromium will be."""

    folder: Path
    uid: int

    @property
    def log(self) -> Path:
        return self.folder / "log"

    @property
    def marker(self) -> bytes:
        """What the command line of each of its processes holds, and of no other."""
        return os.fsencode(self.folder)


def find_executable(settings: ChromiumSettings) -> str | None:
    """Absolute path of the configured or of an installed Chromium; None if there is none."""
    if settings.executable == NONE:
        return None
    if settings.executable:
        return settings.executable if os.access(settings.executable, os.X_OK) else None
    for name in _NAMES:
        found = shutil.which(name, path=BASE_ENVIRONMENT["PATH"]) or shutil.which(name)
        if found:
            return os.path.abspath(found)
    return None


def sandbox_problem(settings: ChromiumSettings) -> messages.Sentence | None:
    """Why Chromium's own sandbox can't work for an unprivileged account here, as far as the kernel says; None if it can."""
    if settings.chromium_no_sandbox or any(_is_setuid(path) for path in _SETUID_HELPERS):
        return None
    switches = ("/proc/sys/user/max_user_namespaces", "/proc/sys/kernel/unprivileged_userns_clone")
    return messages.NO_NAMESPACES if any(_reads_zero(path) for path in switches) else None


def prepare(places: Places, name: str, uid: int) -> Lease:
    """Make the lease folder with everything in it. Blocks for some ms. Raises Unavailable or ExtensionMissing."""
    folder = places.make_private(places.browsers, name, uid)
    try:
        for part in ("profile", "home", "tmp"):
            (folder / part).mkdir(mode=0o700)
        shutil.copytree(extension_folder(), folder / "extension")
        if uid != os.getuid():
            for path in folder.rglob("*"):
                os.chown(path, uid, uid, follow_symlinks=False)
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise Unavailable(
            f"the private browser's folder can't be filled ({os.strerror(error.errno or 0)})",
            next_step="Check the disk of the runtime folder.",
        ) from None
    except Unavailable:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return Lease(folder, uid)


def command_line(executable: str, lease: Lease, settings: ChromiumSettings) -> tuple[str, ...]:
    """`setpriv` arms the death signal after it has changed the uid (a uid change clears it), then becomes Chromium."""
    setpriv = shutil.which("setpriv", path=BASE_ENVIRONMENT["PATH"])
    if setpriv is None:
        raise Unavailable("setpriv is missing, which ends a browser with us", next_step="Install util-linux.")
    switch = (
        ("--reuid", str(lease.uid), "--regid", str(lease.uid), "--clear-groups")
        if lease.uid != os.getuid()
        else ()
    )
    return (
        setpriv,
        "--pdeathsig",
        "KILL",
        *switch,
        executable,
        *(("--no-sandbox",) if settings.chromium_no_sandbox else ()),
        *_FLAGS,
        *(("--headless=new",) if settings.headless else ()),
        f"--user-data-dir={lease.folder / 'profile'}",
        *_PIPE_FLAGS,
        f"--load-extension={lease.folder / 'extension'}",
        "about:blank",
    )


def environment(lease: Lease, settings: ChromiumSettings) -> Mapping[str, str]:
    """Four names; two more when it has a window to show."""
    made = {**BASE_ENVIRONMENT, "HOME": str(lease.folder / "home"), "TMPDIR": str(lease.folder / "tmp")}
    if not settings.headless:
        made |= {name: os.environ[name] for name in ("DISPLAY", "XAUTHORITY") if name in os.environ}
    return made


def start_failure(lease: Lease) -> messages.Sentence:
    """What to tell when it ended before any page was loaded: its log is looked at for one known cause, never quoted."""
    try:
        with lease.log.open("rb") as stream:
            text = stream.read(64 * 1024)
    except OSError:
        text = b""
    return (
        messages.NO_NAMESPACES
        if any(word in text for word in _SANDBOX_WORDS)
        else messages.BROWSER_NOT_STARTED
    )


def _is_setuid(path: str) -> bool:
    try:
        info = os.stat(path)
    except OSError:
        return False
    return info.st_uid == 0 and bool(info.st_mode & 0o4000)


def _reads_zero(path: str) -> bool:
    try:
        return Path(path).read_text("ascii").strip() == "0"
    except (OSError, UnicodeDecodeError):  # no such switch in this kernel: nothing is switched off
        return False
