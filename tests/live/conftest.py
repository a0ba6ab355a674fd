"""Fixtures of the live tests: one supervisor for all tests that need nothing special, a host session for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from browsercell.protocol.client import Client

from tests.support.live import Live, own_supervisor


@pytest.fixture(scope="session")
def live(private_places: Path) -> Iterator[Live]:  # noqa: ARG001 - the user's settings are hidden before it starts
    """The shared supervisor: loopback allowed, no model."""
    with own_supervisor() as running:
        yield running


@pytest.fixture
def outbox(tmp_path: Path) -> Path:
    """Where this test's host lets files be delivered."""
    folder = tmp_path / "out"
    folder.mkdir()
    return folder


@pytest.fixture
def host(live: Live, outbox: Path) -> Iterator[Client]:
    """A host session of this test."""
    with live.client(outbox) as client:
        yield client
