"""Golden files: a test compares against a committed file; `GOLDEN=write` writes it anew."""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "layout" / "golden"


def check(name: str, text: str) -> None:
    """Fails with the way to accept the change when `text` differs from the golden file `name`."""
    path = FOLDER / name
    if os.environ.get("GOLDEN") == "write":
        path.write_text(text, encoding="utf-8")
    golden = path.read_text(encoding="utf-8") if path.exists() else ""
    assert text == golden, (
        f"{name} changed; if that is meant, run the test with GOLDEN=write and review the diff"
    )
