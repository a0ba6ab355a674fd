"""Roles and names as Chromium's own accessibility tree has them, asked element by element."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from .cases import CASES, ROLE_NAMES
from .conftest import Tab
from .peer import ToolFailed

pytestmark = [pytest.mark.live, pytest.mark.timeout(120)]


def test_every_role_and_name_is_chromiums(open_tab: Callable[[str], Tab]) -> None:
    tab = open_tab("/names")
    chromium = tab.world.chromium
    session = chromium.send("Target.attachToTarget", targetId=tab.target, flatten=True)["sessionId"]
    chromium.send("Accessibility.enable", session)
    root = chromium.send("DOM.getDocument", session)["root"]["nodeId"]
    nodes = chromium.send("DOM.querySelectorAll", session, nodeId=root, selector=".case")["nodeIds"]
    assert len(nodes) == len(CASES) > 100
    misses: list[tuple[str, str, str]] = []
    for html, node in zip(CASES, nodes, strict=True):
        answer = chromium.send("Accessibility.getPartialAXTree", session, nodeId=node, fetchRelatives=False)
        tree = answer["nodes"][0]
        if tree["ignored"]:
            misses.append((html, "ignored by Chromium", ""))
            continue
        native = str(tree["role"]["value"])
        role = ROLE_NAMES.get(native, native)
        name = " ".join(tree["name"]["value"].split())
        wanted = {"role": role, "nth": 1} | ({"name": name} if name else {})
        try:
            tab.run("page_wait", until="visible", target=wanted, timeout_ms=100)
        except ToolFailed:
            misses.append((html, role, name))
    chromium.send("Target.detachFromTarget", sessionId=session)
    assert misses == [], "\n".join(map(str, misses))
