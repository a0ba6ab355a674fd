"""The locators a task has: by random id, bounded, in memory, gone with the task.

A worker is given an id and nothing else (design 5): selectors are made of what a page's author wrote, and a worker that could
name one would have a way around its refs. The bridge sends the bundle back to the page when the worker names the id. The
file that a host may want is an artifact of kind `locator`, under the same id.

Invariants: an id is known to the task that got it only; at most `limits.MAX_LOCATORS_PER_TASK`, the oldest gives way.

Pure: data in, data out.
"""

from __future__ import annotations

from typing import Final

import msgspec

from ..protocol import limits as L
from ..protocol.frames import Locator
from .redaction import redact_url

MEDIA_TYPE: Final = "application/json"


class Locators:
    """One task's locators."""

    def __init__(self) -> None:
        self._kept: dict[str, Locator] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def keep(self, locator_id: str, locator: Locator) -> None:
        """Remember `locator` under a fresh id."""
        while len(self._kept) >= L.MAX_LOCATORS_PER_TASK:
            del self._kept[next(iter(self._kept))]
        self._kept[locator_id] = locator

    def get(self, locator_id: str) -> Locator | None:
        """The locator, None for an id this task has not got, or no longer."""
        return self._kept.get(locator_id)


def render(locator: Locator, url: str) -> bytes:
    """The artifact: the bundle and the page it was tested on, as JSON in UTF-8."""
    content = {"url": redact_url(url, L.MAX_URL_CHARS), **msgspec.to_builtins(locator)}
    return msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n"


def describe(locator: Locator) -> str:
    """One line without a word of the page: what it holds on to."""
    kinds = dict.fromkeys(candidate.by.value for candidate in locator.candidates)
    where = (" in a child frame" if locator.frame is not None else "") + (
        " in a shadow root" if locator.hosts else ""
    )
    return f"locator by {', '.join(kinds)}{where}, the only match each"
