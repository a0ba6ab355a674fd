"""Chromium's own accessibility tree beside what the page runtime says of the same elements.

`both` pairs them by tree order: the debugger's view of the document and the bundle in `probe.py` walk the same elements, light
children and open shadow roots. A page that changes between the two looks is looked at again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from .probe import Probe

# Chromium's own words for roles that ARIA calls otherwise, or that ARIA has no word for.
ROLES: Final = {
    "image": "img",
    "Iframe": "iframe",
    "IframePresentational": "iframe",
    "DisclosureTriangle": "button",
    "MathMLMath": "math",
    "LayoutTable": "table",
    "LayoutTableRow": "row",
    "LayoutTableCell": "cell",
}
_LOOKS: Final = 8  # at a page that is still changing
_STATES: Final = ("disabled", "required", "readonly")


@dataclass(frozen=True, slots=True)
class Said:
    """One element. `states`: words; `line`: all that the runtime prints after the name, for Chromium the value."""

    role: str
    name: str
    states: frozenset[str]
    line: str


@dataclass(frozen=True, slots=True)
class Pair:
    """`chromium` is None where its tree leaves the element out; `html`: its start tag, shortened."""

    html: str
    tag: str
    seen: str
    ours: Said
    chromium: Said | None


def flat(text: str) -> str:
    """White space collapsed."""
    return " ".join(text.split())


def both(probe: Probe) -> list[Pair]:
    """Every element of the page, said twice."""
    for _ in range(_LOOKS):
        pairs = _look(probe)
        if pairs is not None:
            return pairs
        time.sleep(0.5)
    raise AssertionError("the page does not stand still")


def _look(probe: Probe) -> list[Pair] | None:
    send, session = probe.chromium.send, probe.session
    send("Accessibility.enable", session)
    before = probe.ask("everything()")
    root = send("DOM.getDocument", session, 60, depth=-1, pierce=True)["root"]
    elements = [node for child in root["children"] for node in _elements(child)]
    tree = send("Accessibility.getFullAXTree", session, 60)["nodes"]
    ours = probe.ask("everything()")
    # Names and states may change where no element does: what the runtime says is the same on both sides of Chromium's look.
    if before != ours or [node["localName"] for node in elements] != [said["tag"] for said in ours]:
        return None
    native = {
        node["backendDOMNodeId"]: node for node in tree if "backendDOMNodeId" in node and not node["ignored"]
    }
    return [
        Pair(
            _start_tag(node),
            said["tag"],
            said["seen"],
            Said(said["role"], flat(said["name"]), frozenset(said["states"]), said["line"]),
            _chromium(native.get(node["backendNodeId"])),
        )
        for node, said in zip(elements, ours, strict=True)
    ]


def _elements(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if node["nodeType"] == 1:
        yield node
    for root in node.get("shadowRoots", ()):
        if root["shadowRootType"] == "open":
            for child in root.get("children", ()):
                yield from _elements(child)
    for child in node.get("children", ()):
        yield from _elements(child)


def _start_tag(node: dict[str, Any]) -> str:
    flat_list = node.get("attributes", [])
    pairs = zip(flat_list[::2], flat_list[1::2], strict=True)
    return f"<{node['localName']}{''.join(f' {key}={value[:40]!r}' for key, value in pairs)}>"[:300]


def _chromium(node: dict[str, Any] | None) -> Said | None:
    if node is None:
        return None
    native = str(node["role"]["value"])
    has = {entry["name"]: entry["value"].get("value") for entry in node.get("properties", ())}
    states = {word for word in _STATES if has.get(word) is True}
    if has.get("checked") in ("true", True):
        states.add("checked")
    if has.get("checked") == "mixed":
        states.add("mixed")
    if has.get("selected") is True:
        states.add("selected")
    if has.get("pressed") in ("true", "mixed", True):
        states.add("pressed")
    if "expanded" in has:
        states.add("expanded" if has["expanded"] else "collapsed")
    if has.get("invalid") not in (None, "false", False):
        states.add("invalid")
    if "level" in has:
        states.add(f"level {has['level']}")
    value = node.get("value", {}).get("value")
    return Said(
        ROLES.get(native, native),
        flat(node["name"]["value"]),
        frozenset(states),
        "" if value is None else str(value),
    )
