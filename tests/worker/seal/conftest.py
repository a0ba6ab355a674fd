"""Places to run a host from, one per account, built once per session."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import seal_lab


@pytest.fixture(scope="session")
def seal_places() -> Iterator[dict[str, seal_lab.Place]]:
    """account -> place; the ordinary user's copy is removed at the end."""
    if not seal_lab.IS_ROOT:
        yield {"user": seal_lab.own_place()}
        return
    folder = Path(tempfile.mkdtemp(prefix="bcs-user-"))
    try:
        yield {"root": seal_lab.own_place(), "user": seal_lab.build_user_place(folder)}
    finally:
        shutil.rmtree(folder)
