"""Starts JupyterLab over a small folder of files, with its settings, data and runtime files in a folder of its own."""

from __future__ import annotations

import contextlib
import json
import secrets
import sys
from collections.abc import Iterator
from pathlib import Path

from .process import free_port, serving

_CELLS = ("# Tide tables", "heights = [3, 1, 4, 1, 5]\nmax(heights)", "sum(heights) / len(heights)")


def _make_files(work: Path) -> None:
    work.mkdir()
    (work / "readings").mkdir()
    (work / "notes.md").write_text("# Notes\n\nHigh water at **six**.\n")
    (work / "heights.csv").write_text("day,height\nMonday,3\nTuesday,1\n")
    cells: list[dict[str, object]] = [
        {
            "cell_type": "markdown" if text.startswith("#") else "code",
            "id": f"c{number}",
            "metadata": {},
            "source": text,
        }
        | ({} if text.startswith("#") else {"outputs": [], "execution_count": None})
        for number, text in enumerate(_CELLS)
    ]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    book = {"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}
    (work / "tides.ipynb").write_text(json.dumps(book))


@contextlib.contextmanager
def jupyter_lab(folder: Path) -> Iterator[tuple[str, str]]:
    """Run it in `folder`; yields its address without a slash, and the token that `?token=` takes."""
    work = folder / "work"
    _make_files(work)
    overrides = folder / "config" / "labconfig"
    overrides.mkdir(parents=True)
    settings = {
        "@jupyterlab/apputils-extension:notification": {"fetchNews": "false"}
    }  # else it asks in a dialog
    (overrides / "default_setting_overrides.json").write_text(json.dumps(settings))
    token = secrets.token_urlsafe(18)
    port = free_port()
    command = [
        sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ServerApp.ip=127.0.0.1",
        f"--ServerApp.port={port}", "--ServerApp.port_retries=0", f"--ServerApp.root_dir={work}",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    ]  # fmt: skip
    places = {f"JUPYTER_{kind}_DIR": str(folder / kind.lower()) for kind in ("CONFIG", "DATA", "RUNTIME")}
    with serving(command, port, folder, {**places, "JUPYTER_TOKEN": token, "HOME": str(folder)}) as url:
        yield url, token
