"""`supervisor mcp`: the MCP server, over standard input and output or over HTTP on loopback."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from ...protocol.errors import UsageError
from .. import config
from .common import load, start_arguments


def mcp(
    file: Path | None,
    sets: Sequence[str] | None,
    *,
    http: bool,
    port: int | None,
    directory: Path | None,
    child: bool,
    json: bool,
) -> None:
    """Returns when the client has left (stdio) or on a signal (HTTP). Raises UsageError, Unavailable."""
    from ..mcp.host import Options

    if not http and (port is not None or json):
        raise UsageError("--port and --json go with --http", next_step="Add --http, or leave them out")
    settings = config.supervisor_settings(load(file, sets).configuration)
    if directory is not None and not directory.is_dir():
        raise UsageError("--directory is no folder", next_step="Name an existing folder")
    options = Options(
        runtime_folder=settings.runtime_folder,
        start_arguments=start_arguments(file, sets),
        directory="" if directory is None else os.path.abspath(directory),
        child=child,
    )
    if http:
        from ..mcp import over_http

        over_http.run(options, state_folder=settings.state_folder, port=port, json=json)
    else:
        from ..mcp import stdio

        stdio.run(options)
