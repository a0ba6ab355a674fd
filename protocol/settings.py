"""What each process is told at its start, as frozen Structs decoded once at the edge (design 12).

The supervisor builds these from TOML, environment and flags (`supervisor/config.py`) and sends each child its
own over the control link; no child reads a configuration file. Credentials are not in here: the bridge keeps
the pairing token in a 0600 file of its state folder, the model bridge reads its key from `api_key_file`.

Pure: data only.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from . import limits as L


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    """Base of all settings (snake_case)."""


class NetworkMode(StrEnum):
    """`strict`: public addresses only. `allowlist`: the same plus the allowed ones. `unrestricted`: all but denied."""

    STRICT = "strict"
    ALLOWLIST = "allowlist"
    UNRESTRICTED = "unrestricted"


class NetworkSettings(Settings, frozen=True):
    """Where a page may be loaded from (design 10). `deny_cidrs` wins over everything in every mode.

    `allow_hosts`: exact host names; one that starts with a dot also matches all below it.
    """

    mode: NetworkMode = NetworkMode.STRICT
    allow_hosts: Annotated[tuple[str, ...], Meta(max_length=256)] = ()
    allow_cidrs: Annotated[tuple[str, ...], Meta(max_length=256)] = ()
    deny_cidrs: Annotated[tuple[str, ...], Meta(max_length=256)] = ()


class InputMode(StrEnum):
    """`auto`: trusted where the debugger is attached anyway. `always`: attach for it. `never`: synthetic only."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


class BridgeSettings(Settings, frozen=True):
    """All the bridge needs. Folders exist, are absolute, owned by its uid and 0700."""

    state_folder: str  # pairing token, artifacts
    port: Annotated[int, Meta(ge=0, le=65_535)] = L.DEFAULT_PORT  # 0: any free one (demo, tests)
    host: str = "127.0.0.1"  # 127.0.0.1, ::1 or localhost
    allowed_extensions: tuple[str, ...] = ()  # 32 letters a-p each; empty: any id that proves the token
    network: NetworkSettings = NetworkSettings()
    input: InputMode = InputMode.AUTO
    artifact_quota: int = L.ARTIFACT_QUOTA  # bytes
    artifact_ttl: int = L.ARTIFACT_TTL_SECONDS  # seconds


class ModelSettings(Settings, frozen=True):
    """The model endpoint. `model` empty: not configured, only playbooks run."""

    base_url: str = ""  # https, or http on loopback
    model: str = ""
    api_key_file: str = ""  # absolute path of a 0600 file; empty: the endpoint needs none
    window: Annotated[int, Meta(ge=8_000)] = 200_000  # tokens; soft < hard < window is checked at start
    soft_tokens: Annotated[int, Meta(ge=1_000)] = L.SOFT_TOKENS
    hard_tokens: Annotated[int, Meta(ge=1_000)] = L.HARD_TOKENS
    max_output_tokens: Annotated[int, Meta(ge=64)] = 4_096
    timeout_seconds: Annotated[float, Meta(gt=0, le=600)] = 60.0  # one request
    attempts: Annotated[int, Meta(ge=1, le=10)] = 4  # of one inference, with back-off
