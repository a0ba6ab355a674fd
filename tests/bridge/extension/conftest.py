"""Every test of the listener sees its whole log, so that it can be searched for what a peer sent."""

from __future__ import annotations

import logging

import pytest


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """The log from debug level up."""
    caplog.set_level(logging.DEBUG)
    logging.getLogger("asyncio").setLevel(logging.INFO)
    return caplog
