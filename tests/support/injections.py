"""Texts that try to give a model orders: `bastioncorpus`, and the goals of AgentDojo's web suite (its `slack`).

Neither package is imported: the corpus is a file of JSON lines, and the goals are read out of the suite's source, because
AgentDojo's own requirements (half a dozen SDKs of model vendors) have no place here. `agentdojo` is therefore no requirement
of ours: `pip install --no-deps agentdojo` adds its goals.
"""

from __future__ import annotations

import ast
import importlib.util
import json
from pathlib import Path

_CORPUS = ("corpus", "injections.jsonl")
_SUITE = ("default_suites", "v1", "slack", "injection_tasks.py")


def _folder(package: str) -> Path | None:
    found = importlib.util.find_spec(package)
    return None if found is None or found.origin is None else Path(found.origin).parent


def corpus() -> list[str]:
    """Every text of `bastioncorpus`, benign ones included; empty if it is not installed."""
    folder = _folder("bastioncorpus")
    if folder is None:
        return []
    lines = folder.joinpath(*_CORPUS).read_text("utf-8").splitlines()
    return [str(json.loads(line)["text"]) for line in lines if line.strip()]


def goals() -> list[str]:
    """The goals of AgentDojo's web suite; empty if it is not installed."""
    folder = _folder("agentdojo")
    if folder is None:
        return []
    tree = ast.parse(folder.joinpath(*_SUITE).read_text("utf-8"))
    found: list[str] = []
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            known: dict[str, str] = {}
            for item in node.body:
                if isinstance(item, ast.Assign) and isinstance(item.targets[0], ast.Name):
                    text = _text(item.value, known)
                    if text is not None:
                        known[item.targets[0].id] = text
            if "GOAL" in known:
                found.append(known["GOAL"])
    return found


def _text(node: ast.expr, known: dict[str, str]) -> str | None:
    """A string literal, or an f-string of strings known so far."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        parts = [
            _text(part.value if isinstance(part, ast.FormattedValue) else part, known) for part in node.values
        ]
        return None if None in parts else "".join(part for part in parts if part is not None)
    return known.get(node.id) if isinstance(node, ast.Name) else None
