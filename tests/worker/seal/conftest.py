"""Places to run a host from, one per account, built once per session."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from . import seal_lab


@pytest.fixture(scope="session")
def seal_places() -> Iterator[dict[str, seal_lab.Place]]:
    """account -> place; the ordinary user's copy is removed at the end."""
    with contextlib.ExitStack() as cleanup:

        def folder(account: str) -> Path:
            path = Path(tempfile.mkdtemp(prefix=f"bcs-{account}-"))
            cleanup.callback(shutil.rmtree, path)
            return path

        if seal_lab.IS_ROOT:
            root, user = folder("root"), folder("user")
            yield {"root": seal_lab.own_place(root), "user": seal_lab.build_user_place(user)}
        else:
            yield {"user": seal_lab.own_place(folder("user"))}
