"""Which extension the hub takes for its own: the bundled one's key, or none."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from browsercell.bridge.chromium.identity import extension_id
from browsercell.bridge.extension import hub as hub_module
from browsercell.bridge.extension.hub import make_hub
from browsercell.protocol.bundle import ExtensionMissing
from browsercell.protocol.errors import UsageError
from browsercell.protocol.settings import BridgeSettings, NetworkSettings

SETTINGS = BridgeSettings(state_folder="/nonexistent")


def own(folder: Path | None) -> str | None:
    made = make_hub(
        SETTINGS, "a token of sixteen", on_extensions=lambda: None, on_lost=lambda _port: None, folder=folder
    )
    return made._own_extension()


def test_it_is_the_one_with_the_manifests_key(tmp_path: Path) -> None:
    manifest = json.dumps({"key": base64.b64encode(b"key").decode()})
    (tmp_path / "manifest.json").write_text(manifest)
    assert own(tmp_path) == extension_id(manifest.encode())


def test_without_a_key_or_a_folder_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert own(tmp_path) is None
    (tmp_path / "manifest.json").write_text("{}")
    assert own(tmp_path) is None

    def missing() -> Path:
        raise ExtensionMissing("not built")

    monkeypatch.setattr(hub_module, "extension_folder", missing)
    assert own(None) is None


def test_a_network_that_can_not_be_read_is_told_at_once() -> None:
    settings = BridgeSettings(state_folder="/nonexistent", network=NetworkSettings(deny_cidrs=("x",)))
    with pytest.raises(UsageError):
        make_hub(settings, "a token of sixteen", on_extensions=lambda: None, on_lost=lambda _port: None)
