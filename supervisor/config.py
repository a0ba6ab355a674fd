"""Configuration from TOML files, environment and flags into one frozen Struct (design 12).

    user file < project browsercell.toml < BROWSERCELL_<SECTION>_<KEY> < flags

Invariants: an unknown section or key is refused with the nearest known one; a value is checked against its type and
bounds, and the relations between values are checked too; every error is one sentence that names the source and the
key, never a value; the source of every value is remembered (`config show`). Nothing here is a secret: the model key is
the name of a file. This module reads the files it is told and nothing else.
"""

from __future__ import annotations

import difflib
import ipaddress
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

import msgspec
import platformdirs
from msgspec import Meta

from ..protocol import limits as L
from ..protocol.errors import UsageError
from ..protocol.frames import SandboxLevel
from ..protocol.places import RUNTIME_VARIABLE, default_runtime_folder
from ..protocol.settings import (
    BridgeSettings,
    InputMode,
    ModelSettings,
    NetworkMode,
    NetworkSettings,
    Settings,
)
from ..protocol.tools import without_value
from .settings import (
    ChromiumSettings,
    LimitSettings,
    LogSettings,
    MemorySettings,
    SupervisorSettings,
)

PREFIX: Final = "BROWSERCELL_"
PROJECT_FILE: Final = "browsercell.toml"
# Variables with our prefix that are not settings: places for clients, tools and tests of this project.
CHROMIUM_VARIABLE: Final = "BROWSERCELL_CHROMIUM"
NOT_SETTINGS: Final = frozenset({RUNTIME_VARIABLE, CHROMIUM_VARIABLE, "BROWSERCELL_MATERIAL"})
MAX_FILE_BYTES: Final = 256 * L.KIB  # a configuration file; more is a mistake
DEFAULT: Final = "default"
LOOPBACK_HOSTS: Final = ("127.0.0.1", "::1", "localhost")
_EXTENSION_ID: Final = re.compile(r"[a-p]{32}")


def _said(text: str, **bounds: Any) -> Meta:
    return Meta(description=text, **bounds)


class Places(Settings, frozen=True):
    """[places]"""

    runtime_folder: Annotated[
        str,
        _said("Sockets and what lives no longer than a run; at most 60 bytes. Empty: by the system's rules"),
    ] = ""
    state_folder: Annotated[
        str, _said("Pairing token, artifacts, grants, logs. Empty: the user's state folder")
    ] = ""


class Bridge(Settings, frozen=True):
    """[bridge]"""

    port: Annotated[
        int, _said("Loopback port of the extension's socket; 0 takes any free one", ge=0, le=65_535)
    ] = L.DEFAULT_PORT
    host: Annotated[str, _said("127.0.0.1, ::1 or localhost")] = "127.0.0.1"
    allowed_extensions: Annotated[
        tuple[str, ...], _said("Extension ids that may connect; empty: any that proves the token")
    ] = ()
    input: Annotated[
        InputMode, _said("Trusted input: auto where the debugger is attached anyway, always, never")
    ] = InputMode.AUTO
    artifact_quota: Annotated[
        int, _said("Bytes of all artifacts together", ge=L.MIB, le=64 * 1024 * L.MIB)
    ] = L.ARTIFACT_QUOTA
    artifact_ttl: Annotated[int, _said("Seconds an artifact is kept", ge=60, le=30 * 24 * 3600)] = (
        L.ARTIFACT_TTL_SECONDS
    )


class Workers(Settings, frozen=True):
    """[workers]"""

    pool_size: Annotated[int, _said("Sealed spares kept ready", ge=1, le=16)] = 2
    max_tasks: Annotated[int, _said("Delegations that run at once", ge=1, le=16)] = 4
    max_queue: Annotated[int, _said("Delegations that wait behind them; more are refused", ge=0, le=64)] = 8


class Sandbox(Settings, frozen=True):
    """[sandbox]"""

    min_level: Annotated[SandboxLevel, _said("A worker sealed less than this is not used")] = (
        SandboxLevel.FILTERED
    )
    allow_unsandboxed: Annotated[bool, _said("Let a worker without any seal see pages: dangerous")] = False


class Debug(Settings, frozen=True):
    """[debug]"""

    inspection: Annotated[
        bool, _said("Let processes of the same user read the supervisor's memory (for the memory proof)")
    ] = False


class Configuration(Settings, frozen=True):
    """The whole file."""

    places: Places = Places()
    bridge: Bridge = Bridge()
    network: NetworkSettings = NetworkSettings()
    model: ModelSettings = ModelSettings()
    chromium: ChromiumSettings = ChromiumSettings()
    workers: Workers = Workers()
    memory: MemorySettings = MemorySettings()
    limits: LimitSettings = LimitSettings()
    sandbox: Sandbox = Sandbox()
    debug: Debug = Debug()
    log: LogSettings = LogSettings()


SECTIONS: Final[Mapping[str, type[Settings]]] = {
    field.name: field.type for field in msgspec.structs.fields(Configuration)
}


@dataclass(frozen=True, slots=True)
class Loaded:
    """The effective configuration and where each value that is not a default came from ("section.key": source)."""

    configuration: Configuration
    sources: Mapping[str, str]

    def source(self, key: str) -> str:
        return self.sources.get(key, DEFAULT)


def user_file() -> Path:
    """The user's file, whether it exists or not."""
    return Path(platformdirs.user_config_dir("browsercell")) / "config.toml"


def load(
    *,
    directory: Path,
    environment: Mapping[str, str],
    flags: Mapping[str, str] | None = None,
    file: Path | None = None,
) -> Loaded:
    """Reads and checks everything. `file` replaces the two default files. Raises UsageError (one sentence)."""
    values: dict[str, dict[str, Any]] = {}
    sources: dict[str, str] = {}
    if file is not None:
        _merge(values, sources, _read(file, required=True), str(file), strict=True)
    else:
        for path in (user_file(), directory / PROJECT_FILE):
            _merge(values, sources, _read(path, required=False), str(path), strict=True)
    for name, value in _from_environment(environment):
        key = _split_variable(name)
        _merge(values, sources, {key[0]: {key[1]: _listed(key, value)}}, name, strict=False)
    for flag, value in (flags or {}).items():
        section, _, name = flag.partition(".")
        _merge(
            values, sources, {section: {name: _listed((section, name), value)}}, f"--set {flag}", strict=False
        )
    sections: dict[str, Any] = {name: _section(name, part, sources) for name, part in values.items()}
    configuration = Configuration(**sections)
    _check_relations(configuration, sources)
    return Loaded(configuration, sources)


def _read(path: Path, *, required: bool) -> Mapping[str, Any]:
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        if required:
            raise UsageError(f"there is no configuration file {path}") from None
        return {}
    except OSError as error:
        raise UsageError(
            f"{path} can't be read ({error.strerror})", next_step="Check its owner and mode"
        ) from None
    if len(data) > MAX_FILE_BYTES:
        raise UsageError(f"{path} is larger than {MAX_FILE_BYTES} bytes; that is no configuration file")
    try:
        return tomllib.loads(data.decode("utf-8"))
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not UTF-8 text") from None
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path} is not valid TOML: {error}") from None


def _from_environment(environment: Mapping[str, str]) -> list[tuple[str, str]]:
    found = {
        name: text
        for name, text in environment.items()
        if name.startswith(PREFIX) and name not in NOT_SETTINGS
    }
    if CHROMIUM_VARIABLE in environment:  # what set-up scripts call it
        found.setdefault(f"{PREFIX}CHROMIUM_EXECUTABLE", environment[CHROMIUM_VARIABLE])
    return sorted(found.items())


def _split_variable(name: str) -> tuple[str, str]:
    section, _, key = name.removeprefix(PREFIX).lower().partition("_")
    return section, key


def _listed(key: tuple[str, str], value: str) -> Any:
    """Text from environment or flags: a comma-separated list where the setting is a list."""
    kind = SECTIONS.get(key[0])
    if kind is None:
        return value
    types = {field.name: field.type for field in msgspec.structs.fields(kind)}
    if "tuple" in str(types.get(key[1], "")):
        return [item.strip() for item in value.split(",") if item.strip()]
    return value


def _merge(
    values: dict[str, dict[str, Any]],
    sources: dict[str, str],
    new: Mapping[str, Any],
    source: str,
    *,
    strict: bool,
) -> None:
    for section, part in new.items():
        kind = SECTIONS.get(section)
        if kind is None:
            raise UsageError(
                f"{source}: there is no section [{_shown(section)}]{_nearest(section, SECTIONS)}"
            )
        if not isinstance(part, Mapping):
            raise UsageError(f"{source}: [{section}] is a section, not a value")
        known = kind.__struct_fields__
        for key, value in part.items():
            if key not in known:
                raise UsageError(f"{source}: [{section}] has no key {_shown(key)}{_nearest(key, known)}")
            checked = _checked(kind, section, key, value, source, strict=strict)
            values.setdefault(section, {})[key] = checked
            sources[f"{section}.{key}"] = source


def _shown(key: str) -> str:
    """A key as written by a person, safe to print."""
    return "".join(letter if letter.isprintable() else "?" for letter in key[:60])


def _nearest(key: str, known: Any) -> str:
    near = difflib.get_close_matches(key, list(known), n=1)
    return f"; did you mean {near[0]}?" if near else f"; known: {', '.join(known)}"


def _checked(kind: type[Settings], section: str, key: str, value: Any, source: str, *, strict: bool) -> Any:
    field = next(field for field in msgspec.structs.fields(kind) if field.name == key)
    try:
        return msgspec.convert(value, field.type, strict=strict)
    except msgspec.ValidationError as error:
        reason = re.sub(r" - at `\$.*", "", without_value(str(error)))
        raise UsageError(f"{source}: {section}.{key}: {reason}{_choices(field.type)}") from None


def _choices(kind: Any) -> str:
    """The values of an enum setting, for a sentence about a wrong one."""
    enum = kind.__origin__ if hasattr(kind, "__metadata__") else kind
    return f": {', '.join(enum)}" if isinstance(enum, type) and issubclass(enum, StrEnum) else ""


def _section(name: str, part: Mapping[str, Any], sources: Mapping[str, str]) -> Settings:
    try:
        return SECTIONS[name](**part)
    except (TypeError, msgspec.ValidationError) as error:
        where = ", ".join(sorted({sources[f"{name}.{key}"] for key in part}))
        raise UsageError(f"{where}: [{name}] is not valid: {error}") from None


def _check_relations(configuration: Configuration, sources: Mapping[str, str]) -> None:
    def fail(key: str, sentence: str, next_step: str = "") -> None:
        section = key.partition(".")[0] + "."
        where = sources.get(key) or ", ".join(
            sorted({sources[name] for name in sources if name.startswith(section)})
        )
        raise UsageError(f"{where or DEFAULT}: {key} {sentence}", next_step=next_step)

    model = configuration.model
    if not model.soft_tokens < model.hard_tokens < model.window:
        fail("model.hard_tokens", "must lie between model.soft_tokens and model.window")
    if model.api_key_file and not os.path.isabs(os.path.expanduser(model.api_key_file)):
        fail("model.api_key_file", "must be an absolute path")
    if model.base_url:
        _check_base_url(model.base_url, fail)
    if model.model and not model.base_url:
        fail("model.base_url", "is missing although model.model is set", "Set the endpoint's address")
    if configuration.bridge.host not in LOOPBACK_HOSTS:
        fail("bridge.host", f"must be one of {', '.join(LOOPBACK_HOSTS)}")
    for extension in configuration.bridge.allowed_extensions:
        if not _EXTENSION_ID.fullmatch(extension):
            fail("bridge.allowed_extensions", "holds something that is no extension id (32 letters a to p)")
    for key in ("allow_cidrs", "deny_cidrs"):
        for cidr in getattr(configuration.network, key):
            try:
                ipaddress.ip_network(cidr)
            except ValueError:
                fail(f"network.{key}", "holds something that is no network, such as 10.0.0.0/8")
    network = configuration.network
    if network.mode is NetworkMode.STRICT and (network.allow_hosts or network.allow_cidrs):
        key = "network.allow_hosts" if network.allow_hosts else "network.allow_cidrs"
        fail(key, "has no effect while network.mode is strict", 'Set network.mode to "allowlist"')
    for host in network.allow_hosts:
        if not host or (any(letter in host for letter in "/:@ ") and not _is_address(host)):
            fail("network.allow_hosts", "holds something that is no host name (no scheme, port or path)")
    for key in ("runtime_folder", "state_folder"):
        folder = getattr(configuration.places, key)
        if folder and not os.path.isabs(os.path.expanduser(folder)):
            fail(f"places.{key}", "must be an absolute path")


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True


def _check_base_url(url: str, fail: Any) -> None:
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        _ = parts.port
    except ValueError:
        fail("model.base_url", "is not a URL")
        return
    if parts.scheme not in ("https", "http") or not host:
        fail("model.base_url", "must be an https URL (http on loopback)")
    if parts.username or parts.password:
        fail("model.base_url", "must not hold user name or password", "Put the key into model.api_key_file")
    if parts.scheme == "http" and host not in LOOPBACK_HOSTS:
        fail("model.base_url", "must be https; http is for loopback only")


def supervisor_settings(configuration: Configuration) -> SupervisorSettings:
    """The settings a `Supervisor` takes. Raises UsageError if the runtime folder's path is too long for a socket."""
    places = configuration.places
    runtime = os.path.expanduser(places.runtime_folder) or default_runtime_folder()
    state = os.path.expanduser(places.state_folder) or platformdirs.user_state_dir("browsercell")
    bridge = configuration.bridge
    model = msgspec.structs.replace(
        configuration.model, api_key_file=os.path.expanduser(configuration.model.api_key_file)
    )
    raw = {
        "runtime_folder": runtime,
        "state_folder": state,
        "bridge": BridgeSettings(
            state_folder=state,
            network=configuration.network,
            **{key: getattr(bridge, key) for key in bridge.__struct_fields__},
        ),
        "model": model,
        "chromium": configuration.chromium,
        **{key: getattr(configuration.workers, key) for key in Workers.__struct_fields__},
        "memory": configuration.memory,
        "limits": configuration.limits,
        "min_sandbox": configuration.sandbox.min_level,
        "allow_unsandboxed": configuration.sandbox.allow_unsandboxed,
        "inspection": configuration.debug.inspection,
        "log": configuration.log,
    }
    if len(runtime.encode()) > 60:
        raise UsageError(
            "the runtime folder's path is over 60 bytes, so its sockets would not fit",
            next_step="Set places.runtime_folder to a shorter one",
        )
    return SupervisorSettings(**raw)


def schema() -> dict[str, Any]:
    """JSON Schema of the file."""
    return msgspec.json.schema(Configuration)
