"""Shared ground of all suites: markers by folder, a private place for state, the bookshop.

Invariants: no test sees the user's configuration, model key or proxy; everything under `live/` and `chaos/`
carries the marker of that name, so that a suite can't be run by accident with another one's limits.

It starts no process and imports no product module before a fixture is asked for, so that coverage sees every import.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from browsercell.supervisor.demo.server import Bookshop

_TESTS = Path(__file__).parent
_MARKED_FOLDERS = ("live", "chaos")
# Kills of each kind in one run: 5 find a broken path within minutes; `make chaos` asks for 50.
_CHAOS_RUNS = 5
# A task drives a browser in its test: seconds here, but the machine may have one slow core. Quick tests keep the
# default of pyproject.toml.
_SLOW_TIMEOUT_S = 600
_KEPT_FROM_TESTS = ("BROWSERCELL_", "OPENAI_", "ANTHROPIC_", "DEEPSEEK_", "OPENROUTER_")
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
# What the machine, not the user, says about itself: where its Chromium and the test material are.
_MACHINE = ("BROWSERCELL_CHROMIUM", "BROWSERCELL_MATERIAL")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--chaos-runs`: how often each kill is repeated."""
    parser.addoption("--chaos-runs", type=int, default=_CHAOS_RUNS, help="repeats of each kill (default 5)")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark by folder; must run before pytest deselects by `-m`."""
    for item in items:
        parts = item.path.relative_to(_TESTS).parts if item.path.is_relative_to(_TESTS) else ()
        if parts and parts[0] in _MARKED_FOLDERS:
            item.add_marker(getattr(pytest.mark, parts[0]))
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(_SLOW_TIMEOUT_S))


@pytest.fixture(scope="session")
def chaos_runs(request: pytest.FixtureRequest) -> int:
    """How often a chaos test repeats its kill: 5, or `--chaos-runs`."""
    runs = request.config.getoption("--chaos-runs")
    assert isinstance(runs, int)
    assert runs > 0
    return runs


@pytest.fixture(scope="session", autouse=True)
def private_places() -> Iterator[Path]:
    """Point every XDG folder into a fresh one and hide the user's settings, for this process and its children.

    Yields the folder. It lies right under the temporary folder, because a socket's path holds 107 bytes at most, and
    has mode 0711, because the parents of a worker's socket folder must let its uid through (design 2, rule 2).
    """
    place = Path(tempfile.mkdtemp(prefix="bct-"))
    place.chmod(0o711)
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            settings = name.startswith(_KEPT_FROM_TESTS) and name not in _MACHINE
            if settings or name.lower() in _PROXIES:
                patch.delenv(name)
        for name in ("RUNTIME_DIR", "STATE_HOME", "CONFIG_HOME", "CACHE_HOME", "DATA_HOME"):
            folder = place / name.partition("_")[0].lower()
            folder.mkdir(mode=0o700 if name != "RUNTIME_DIR" else 0o711)
            patch.setenv(f"XDG_{name}", str(folder))
        yield place
    # Other uids may have left files behind; what can't be removed here is the system's to clean, not a test's failure.
    shutil.rmtree(place, ignore_errors=True)


@pytest.fixture(autouse=True)
def own_umask() -> Iterator[None]:
    """Undo what a product shell sets for its process (077): a test process runs many of them."""
    before = os.umask(0o022)
    os.umask(before)
    yield
    os.umask(before)


@pytest.fixture
def bookshop() -> Iterator[Bookshop]:
    """A fresh demo bookshop on loopback; its counters are the server's truth about side effects."""
    from browsercell.supervisor.demo.server import Bookshop

    with Bookshop() as shop:
        yield shop
