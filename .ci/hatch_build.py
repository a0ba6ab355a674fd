"""Hatchling build hook: puts the built extension into the wheel and the sdist, or refuses to build.

Purpose: `extension/dist` is built, not committed, so it can't be a static `force-include` (hatchling fails on a missing
path, which would break the editable install of a fresh clone). This hook adds it for standard wheels and sdists only
and fails with the next step when it is missing or incomplete. Editable installs need nothing: in a checkout
`protocol/bundle.py` finds `extension/dist` itself.

It does not run Node: building the extension is `make setup`'s work, so that building a wheel from an sdist needs none.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# Where `protocol/bundle.py` looks in an installed wheel.
IN_WHEEL = "browsercell/protocol/_extension"
IN_CHECKOUT = "extension/dist"


def named_files(manifest: dict[str, Any]) -> list[str]:
    """List the files that a Manifest V3 names and Chrome refuses to start without."""
    names: list[str] = []
    worker = manifest.get("background", {}).get("service_worker")
    if worker:
        names.append(worker)
    for script in manifest.get("content_scripts", []):
        names.extend(script.get("js", []))
        names.extend(script.get("css", []))
    popup = manifest.get("action", {}).get("default_popup")
    if popup:
        names.append(popup)
    options = manifest.get("options_ui", {}).get("page") or manifest.get("options_page")
    if options:
        names.append(options)
    names.extend(manifest.get("icons", {}).values())
    locale = manifest.get("default_locale")
    if locale:
        names.append(f"_locales/{locale}/messages.json")
    return names


def check(folder: Path) -> None:
    """Raise RuntimeError, with the next step in its text, unless `folder` is a complete built extension."""
    path = folder / "manifest.json"
    if not path.is_file():
        raise RuntimeError(
            f"{IN_CHECKOUT} is not built, and a wheel without the extension is useless; run: make build"
        )
    manifest = json.loads(path.read_text("utf-8"))
    missing = [name for name in named_files(manifest) if not (folder / name).is_file()]
    if missing:
        raise RuntimeError(
            f"{IN_CHECKOUT} lacks {', '.join(missing)}, named in its manifest; run: make build"
        )


class CustomBuildHook(BuildHookInterface[Any]):
    """Called by hatchling once per target; `version` is "editable" for editable wheels, else "standard"."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the built extension to `build_data`; raises RuntimeError if there is none."""
        if self.target_name == "wheel" and version == "editable":
            return
        source = Path(self.root) / IN_CHECKOUT
        check(source)
        target = IN_WHEEL if self.target_name == "wheel" else IN_CHECKOUT
        build_data["force_include"][str(source)] = target
