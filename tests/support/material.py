"""Test material written by others (saved pages, conformance cases): read in place, never copied into the project."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]


def material(name: str) -> Path | None:
    """The folder of that name beside the project, or below `BROWSERCELL_MATERIAL`; None where there is none."""
    base = Path(os.environ.get("BROWSERCELL_MATERIAL", ROOT.parent / "shared" / "material"))
    folder = base / name
    return folder if folder.is_dir() else None


def needed(name: str) -> Path:
    """The same for a test, which is skipped where the material is absent: it is no part of the project."""
    folder = material(name)
    if folder is None:
        pytest.skip(f"the test material {name!r} is not here; BROWSERCELL_MATERIAL names its folder")
    return folder
