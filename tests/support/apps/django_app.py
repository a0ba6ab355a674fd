"""Starts the Django admin of `django_site.py` and reads its database, the truth that a test compares with."""

from __future__ import annotations

import contextlib
import secrets
import sqlite3
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import django_site
from .process import free_port, serving


@dataclass(frozen=True, slots=True)
class DjangoAdmin:
    """A running admin. `url` has no slash at its end; `password` is what its sign-in form holds."""

    url: str
    folder: Path
    password: str

    def select(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """Rows of its database."""
        with contextlib.closing(sqlite3.connect(self.folder / django_site.DATABASE)) as link:
            return link.execute(query, values).fetchall()


@contextlib.contextmanager
def django_admin(folder: Path, *, open_door: bool = False) -> Iterator[DjangoAdmin]:
    """Run it with a fresh database and a fresh password in `folder`; with `open_door`, `/enter?next=` signs in by itself."""
    password = secrets.token_urlsafe(18)
    (folder / django_site.PASSWORD_FILE).write_text(password)
    port = free_port()
    command = [
        sys.executable,
        str(Path(django_site.__file__)),
        str(folder),
        str(port),
        *(["open"] if open_door else []),
    ]
    with serving(command, port, folder) as url:
        yield DjangoAdmin(url, folder, password)
