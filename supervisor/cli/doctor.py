"""`supervisor doctor`: every check with ok, warn or fail, and the remedy. Each has a deadline.

The checks that only a running supervisor can answer (sandbox level, bridges) are put to the one that runs; where none
runs, to one started for this in a folder of its own, with any free port, and ended afterwards. Nothing is changed.
"""

from __future__ import annotations

import base64
import hashlib
import os
import platform
import shutil
import socket
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

import msgspec
import typer
from rich.markup import escape

from ...protocol.bundle import bundle_digest, extension_folder
from ...protocol.client import Client
from ...protocol.errors import BrowsercellError
from ...protocol.frames import SessionKind
from ...protocol.places import host_socket
from ...protocol.settings import NetworkMode
from .. import config
from ..settings import SupervisorSettings
from ..spawn import BASE_ENVIRONMENT
from . import UNAVAILABLE
from .common import load, out, print_json, start_arguments

MIN_PYTHON: Final = (3, 11)
MIN_FREE: Final = 512 << 20  # bytes: a Chromium profile and a full artifact quota's beginning
SPARE_SECONDS: Final = 15.0  # until the first spare of a fresh supervisor is sealed
PACKAGES: Final = ("pyzmq", "msgspec", "websockets", "cryptography", "psutil", "uvloop", "openai")


class Verdict(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the report."""

    name: str
    verdict: Verdict
    detail: str
    remedy: str = ""


def doctor(file: Path | None, sets: Sequence[str] | None, *, json: bool) -> None:
    """Prints the report; exit code 3 if anything fails."""
    loaded = load(file, sets)
    settings = config.supervisor_settings(loaded.configuration)
    checks: list[Check] = []
    console = out()
    for check in _all(settings, file, sets):
        checks.append(check)
        if not json:
            console.print(_line(check))
    failed = any(check.verdict is Verdict.FAIL for check in checks)
    if json:
        print_json({"ok": not failed, "checks": [_plain(check) for check in checks]})
    if failed:
        raise typer.Exit(UNAVAILABLE)


def _plain(check: Check) -> dict[str, str]:
    return {"name": check.name, "verdict": check.verdict, "detail": check.detail, "remedy": check.remedy}


def _line(check: Check) -> str:
    mark = {Verdict.OK: "[green]✓[/]", Verdict.WARN: "[yellow]![/]", Verdict.FAIL: "[red]✗[/]"}[check.verdict]
    remedy = f"\n  [bold]→[/] {escape(check.remedy)}" if check.remedy else ""
    return f"{mark} [bold]{escape(check.name)}[/]  {escape(check.detail)}{remedy}"


def _all(settings: SupervisorSettings, file: Path | None, sets: Sequence[str] | None) -> Iterator[Check]:
    simple: tuple[Callable[[SupervisorSettings], Check], ...] = (
        _python, _packages, _extension, _chromium, _state, _token, _runtime, _disk, _port, _network, _model, _inspection,
    )  # fmt: skip
    for check in simple:
        yield _guarded(check, settings)
    yield from _running(settings, file, sets)


def _guarded(check: Callable[[SupervisorSettings], Check], settings: SupervisorSettings) -> Check:
    name = check.__name__.strip("_")
    try:
        return check(settings)
    except BrowsercellError as error:
        return Check(name, Verdict.FAIL, error.message, error.next_step)
    except OSError as error:
        return Check(
            name,
            Verdict.FAIL,
            f"the system refused something ({error.strerror})",
            "Check owner and mode of its folder",
        )


def _python(_: SupervisorSettings) -> Check:
    text = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    if sys.version_info < MIN_PYTHON:
        return Check("python", Verdict.FAIL, text, "Install Python 3.11 or newer")
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        return Check("python", Verdict.WARN, text, "Workers can be sealed on Linux x86-64 only")
    return Check("python", Verdict.OK, text)


def _packages(_: SupervisorSettings) -> Check:
    found, missing = [], []
    for name in PACKAGES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            missing.append(name)
    if missing:
        return Check("packages", Verdict.FAIL, f"missing: {', '.join(missing)}", "Install browsercell again")
    return Check("packages", Verdict.OK, f"browsercell {version('browsercell')}, {', '.join(found)}")


def _extension(_: SupervisorSettings) -> Check:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_der_public_key

    folder = extension_folder()
    try:
        manifest = msgspec.json.decode((folder / "manifest.json").read_bytes())
        key = base64.b64decode(manifest["key"], validate=True)
        load_der_public_key(key)
        release = str(manifest["version"])
    except (msgspec.DecodeError, KeyError, TypeError, ValueError, UnsupportedAlgorithm):
        return Check("extension", Verdict.FAIL, "its manifest is damaged", "Build it again with: make setup")
    digits = hashlib.sha256(key).hexdigest()[:32]
    identity = "".join(chr(ord("a") + int(digit, 16)) for digit in digits)
    return Check(
        "extension", Verdict.OK, f"version {release}, id {identity}, digest {bundle_digest(folder)[:16]}…"
    )


def _chromium(settings: SupervisorSettings) -> Check:
    from ..chromium import find_executable

    found = find_executable(settings.chromium)
    if not found:
        return Check(
            "chromium", Verdict.WARN, "no Chromium was found: private browsers are unavailable",
            "Install the chromium package of your distribution, or set chromium.executable",
        )  # fmt: skip
    if shutil.which("setpriv", path=BASE_ENVIRONMENT["PATH"]) is None:
        return Check(
            "chromium", Verdict.FAIL, f"{found}, but setpriv is missing", "Install the package util-linux"
        )
    if settings.chromium.chromium_no_sandbox:
        return Check(
            "chromium",
            Verdict.WARN,
            f"{found}, its own sandbox is switched off",
            "Unset chromium.chromium_no_sandbox",
        )
    return Check("chromium", Verdict.OK, str(found))


def _folder(name: str, path: str, open_modes: int) -> Check:
    try:
        state = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return Check(name, Verdict.OK, "will be made at the first start")
    if not stat.S_ISDIR(state.st_mode):
        return Check(name, Verdict.FAIL, "is no folder", "Move it away, or configure another place")
    if state.st_uid != os.getuid():
        return Check(name, Verdict.FAIL, "belongs to another user", "Configure a place of your own")
    if stat.S_IMODE(state.st_mode) & open_modes:
        return Check(
            name, Verdict.FAIL, f"has mode {stat.S_IMODE(state.st_mode):04o}", "Close it with: chmod 700"
        )
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        return Check(name, Verdict.FAIL, "is not readable and writable", "Restore its mode with: chmod 700")
    return Check(name, Verdict.OK, "private")


def _state(settings: SupervisorSettings) -> Check:
    return _folder("state folder", settings.state_folder, 0o077)


def _runtime(settings: SupervisorSettings) -> Check:
    return _folder("runtime folder", settings.runtime_folder, 0o066 if os.getuid() == 0 else 0o077)


def _token(settings: SupervisorSettings) -> Check:
    path = os.path.join(settings.bridge.state_folder, "pairing-token")
    try:
        state = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return Check("pairing token", Verdict.OK, "will be made at the first start")
    if not stat.S_ISREG(state.st_mode) or state.st_uid != os.getuid() or stat.S_IMODE(state.st_mode) & 0o077:
        return Check(
            "pairing token",
            Verdict.FAIL,
            "is not a private file of this user",
            "Remove it; a new one is made at the next start",
        )
    return Check("pairing token", Verdict.OK, "private file")


def _disk(settings: SupervisorSettings) -> Check:
    lowest = min(
        shutil.disk_usage(_existing(place)).free for place in (settings.state_folder, settings.runtime_folder)
    )
    text = f"{lowest / (1 << 30):.1f} GiB free"
    if lowest < MIN_FREE:
        return Check("disk", Verdict.FAIL, text, "Free at least 0.5 GiB where state and runtime folders lie")
    return Check("disk", Verdict.OK, text)


def _existing(path: str) -> str:
    while not os.path.exists(path):
        path = os.path.dirname(path)
    return path


def _port(settings: SupervisorSettings) -> Check:
    port = settings.bridge.port
    if port == 0:
        return Check("port", Verdict.OK, "any free one")
    if os.path.exists(host_socket(settings.runtime_folder)):
        return Check("port", Verdict.OK, f"{port} (a supervisor seems to run)")
    family = socket.AF_INET6 if settings.bridge.host == "::1" else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((settings.bridge.host, port))
        except OSError as error:
            return Check(
                "port", Verdict.WARN, f"{port} can't be used ({_port_owner(port) or error.strerror}): your own Chrome can't connect",
                "End the program that has it, or set bridge.port",
            )  # fmt: skip
    return Check("port", Verdict.OK, f"{port} is free")


def _port_owner(port: int) -> str:
    """Who listens there, as far as this user may know; else nothing."""
    import psutil

    try:
        for connection in psutil.net_connections(kind="tcp"):
            listens = (
                connection.status == psutil.CONN_LISTEN and connection.laddr and connection.laddr.port == port
            )
            if listens and connection.pid:
                return f"{psutil.Process(connection.pid).name()}, pid {connection.pid}, has it"
    except psutil.Error:  # gone meanwhile, or not ours to know
        return ""
    return ""


def _network(settings: SupervisorSettings) -> Check:
    network = settings.bridge.network
    if network.mode is NetworkMode.UNRESTRICTED:
        return Check(
            "network policy",
            Verdict.WARN,
            "unrestricted: pages may reach private addresses",
            "Prefer strict or allowlist",
        )
    allowed = len(network.allow_hosts) + len(network.allow_cidrs)
    return Check("network policy", Verdict.OK, f"{network.mode}, exceptions: {allowed}")


def _model(settings: SupervisorSettings) -> Check:
    model = settings.model
    if not model.model:
        return Check(
            "model", Verdict.WARN, "not configured: only playbooks run",
            "Set model.base_url, model.model and model.api_key_file",
        )  # fmt: skip
    if not model.api_key_file:
        return Check("model", Verdict.OK, f"{model.model}, endpoint without a key (not asked)")
    try:
        state = os.stat(model.api_key_file)
    except OSError as error:
        return Check(
            "model",
            Verdict.FAIL,
            f"the key file can't be read ({error.strerror})",
            "Put the key into the file of model.api_key_file",
        )
    if stat.S_IMODE(state.st_mode) & 0o077:
        return Check("model", Verdict.FAIL, "the key file is readable by others", "Close it with: chmod 600")
    return Check("model", Verdict.OK, f"{model.model}, key file private (endpoint not asked)")


def _inspection(settings: SupervisorSettings) -> Check:
    if settings.inspection:
        return Check(
            "inspection",
            Verdict.WARN,
            "processes of this user may read the supervisor's memory",
            "Unset debug.inspection",
        )
    return Check("inspection", Verdict.OK, "off")


def _running(settings: SupervisorSettings, file: Path | None, sets: Sequence[str] | None) -> Iterator[Check]:
    """What only a living supervisor can say."""
    if os.path.exists(host_socket(settings.runtime_folder)):
        try:
            with Client(kind=SessionKind.CHILD, runtime_folder=settings.runtime_folder) as client:
                yield Check("supervisor", Verdict.OK, "one is running")
                yield from _parts(client)
                return
        except BrowsercellError:
            yield Check(
                "supervisor", Verdict.OK, "an earlier one left its socket behind; the next start sweeps it"
            )
    with tempfile.TemporaryDirectory(prefix="bcdoc-") as place:
        os.chmod(place, 0o711)
        arguments = [
            *start_arguments(file, sets),
            "--set", "bridge.port=0", "--set", f"places.state_folder={place}/state",
        ]  # fmt: skip
        try:
            with Client(
                kind=SessionKind.CHILD, runtime_folder=f"{place}/run", start=True, start_arguments=arguments
            ) as client:
                yield Check("supervisor", Verdict.OK, "starts and answers")
                yield from _parts(client)
        except BrowsercellError as error:
            yield Check("supervisor", Verdict.FAIL, error.message, error.next_step)


def _parts(client: Client) -> Iterator[Check]:
    deadline = time.monotonic() + SPARE_SECONDS
    status = client.status()
    while not _level(status) and time.monotonic() < deadline:
        time.sleep(0.1)
        status = client.status()
    yield _sandbox(status)


def _level(status: dict[str, Any]) -> str:
    sandbox = status.get("sandbox")
    return str(sandbox.get("level") or "") if isinstance(sandbox, dict) else ""


def _sandbox(status: dict[str, Any]) -> Check:
    level = _level(status)
    if not level:
        return Check(
            "sandbox",
            Verdict.FAIL,
            "no worker could be sealed in time",
            "Look into the logs of the state folder",
        )
    off = [
        f"{layer.get('name')} off ({layer.get('reason') or 'unknown'})"
        for layer in status["sandbox"].get("layers", [])
        if not layer.get("on")
    ]
    detail = ", ".join([level, *off])
    if level in ("contained", "sealed"):
        return Check("sandbox", Verdict.OK, detail)
    verdict = Verdict.WARN if level == "filtered" else Verdict.FAIL
    return Check("sandbox", verdict, detail, "Run on a kernel with Landlock, or with user namespaces allowed")
