"""One browser, one peer and one site for all live tests of the extension; each test opens its own tab."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from browsercell.protocol import frames
from browsercell.protocol.errors import ToolErrorCode
from browsercell.protocol.settings import InputMode

from .launcher import DIST, Chromium
from .peer import Peer, ToolFailed, until
from .site import Site

_numbers = itertools.count(1)


class World:
    """Browser, peer and site together."""

    def __init__(self) -> None:
        if not (DIST / "manifest.json").is_file():
            pytest.fail("extension/dist is not built; run: npm --prefix extension run build")
        self.site = Site()
        self.peer = Peer()
        self.chromium = Chromium()
        self.chromium.pair(self.peer.port, self.peer.token)
        until(self.peer.connected.is_set, 20, "the extension's connection")

    def mode(self, mode: InputMode) -> None:
        """Reconnects with another input mode."""
        if self.peer.mode == mode:
            return
        self.peer.mode = mode
        self.peer.drop()
        until(lambda: not self.peer.connected.is_set(), 5, "the end of the connection")
        until(self.peer.connected.is_set, 10, "the new connection")

    def close(self) -> None:
        self.chromium.close()
        self.peer.close()
        self.site.close()


class Tab:
    """One tab of the task, with the tools as methods."""

    def __init__(self, world: World, path: str) -> None:
        self.world = world
        self.url = f"{world.site.base}{path}?n={next(_numbers)}"  # its target is found by this
        self.id = world.peer.open(self.url)
        self.target = world.chromium.page_target(self.url)

    def run(self, op: str, **args: Any) -> frames.PageReply:
        return self.world.peer.run(op, self.id, **args)

    def fails(self, op: str, code: ToolErrorCode, **args: Any) -> frames.PageError:
        """The error of a call that must fail with `code`."""
        with pytest.raises(ToolFailed) as caught:
            self.run(op, **args)
        assert caught.value.error.code == code, caught.value
        return caught.value.error

    def observe(self, mode: str = "summary", **args: Any) -> str:
        return self.run("page_observe", mode=mode, **args).text

    def ref(self, line_part: str, mode: str = "interactive") -> str:
        """The ref of the first observed line that holds `line_part`."""
        for line in self.observe(mode).splitlines():
            at = line.find(line_part)
            if at >= 0:
                start = line.rindex("[", 0, at) if "[" in line[:at] else line.index("[")
                return line[start + 1 : line.index("]", start)]
        raise LookupError(line_part)

    def js(self, expression: str) -> Any:
        """Evaluates in the page's own world, past the extension."""
        return self.world.chromium.evaluate(self.target, expression)

    @property
    def out(self) -> Any:
        return self.js("document.getElementById('out').textContent")

    def close(self) -> None:
        error = self.world.peer.attempt("browser_tabs_close", self.id)
        assert error is None or error.code == ToolErrorCode.NO_TAB, error  # the test closed it


@pytest.fixture(scope="session")
def world() -> Iterator[World]:
    world = World()
    yield world
    world.close()


@pytest.fixture
def open_tab(world: World) -> Iterator[Any]:
    """Opens tabs with trusted input; closes them after the test."""
    world.mode(InputMode.ALWAYS)
    tabs: list[Tab] = []

    def make(path: str) -> Tab:
        tabs.append(Tab(world, path))
        return tabs[-1]

    yield make
    until(world.peer.connected.is_set, 10, "the connection")
    for tab in tabs:
        tab.close()
