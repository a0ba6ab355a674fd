"""The rules of the layout, as functions from sources to complaints.

Pure functions of text, so that a test can show each of them failing on a made-up source (`test_rules.py`) before
`test_layout.py` applies them to this repository. A complaint is one line: what is wrong, and where.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

NAMESPACE = "browsercell"
PACKAGES = ("bridge", "protocol", "supervisor", "worker")
# Hard limit of a module's length (style, rule 9): past it, nobody reads a module as a whole.
MAX_LINES = 600
# Modules that may be longer, each with its reason, and then up to this many lines.
MAX_LINES_WITH_REASON = 1000
LONG_WITH_REASON = {"protocol/frames.py": "whatever is on the wire is declared in one file (style, rule 4)"}
# What a pure module may not touch: it is handed `now`, bytes and ids, and returns effects (style, rule 2).
IMPURE = frozenset(
    {
        "_socket", "asyncio", "ctypes", "datetime", "fcntl", "http", "logging", "mmap", "multiprocessing", "os",
        "pathlib", "psutil", "random", "requests", "secrets", "select", "selectors", "shutil", "signal", "socket",
        "sqlite3", "ssl", "subprocess", "tempfile", "threading", "time", "urllib.request", "uuid", "uvloop",
        "websockets", "zmq",
    }
)  # fmt: skip
# The only modules that may know ZeroMQ (design 13).
ZMQ_MODULES = re.compile(r"protocol/transport[a-z_]*\.py|protocol/transport/[a-z_/]+\.py")
README_HEADINGS = 3

# Written in pieces: this file is itself among the tracked files that are searched.
_REGISTRIES = ("pypi" + ".org", "python" + "hosted.org", "registry." + "npmjs", "npmjs" + ".com/", "deb." + "debian.org",
               "archive." + "ubuntu.com", "crates" + ".io", "proxy.golang" + ".org", "nodejs" + ".org/dist")  # fmt: skip
_MACHINE_PATH = re.compile(r"(?<![\w.}$-])/(?:wor" + r"k|roo" + r"t)/")
_UNFINISHED = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X)\b")


def imports(source: str, module: str) -> Iterator[tuple[int, str]]:
    """Yield (line, absolute dotted name) for each import anywhere in `source`, function bodies included.

    `module` is the dotted name of the source's module (`browsercell.bridge.app`; packages end in `.__init__`);
    relative imports are resolved against it. `from a import b` yields `a.b`, since `b` may be a module.
    """
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = module.split(".")[: -node.level]
                base = ".".join([*parents, base] if base else parents)
            for alias in node.names:
                yield node.lineno, f"{base}.{alias.name}"


def dotted(path: str) -> str:
    """Turn `bridge/app.py` into `browsercell.bridge.app`."""
    return f"{NAMESPACE}." + path.removesuffix(".py").replace("/", ".")


def _within(name: str, roots: Iterable[str]) -> bool:
    return any(name == root or name.startswith(root + ".") for root in roots)


def foreign_imports(path: str, source: str) -> list[str]:
    """protocol imports nothing of ours; the other three import themselves and protocol (style, rule 1)."""
    own = path.partition("/")[0]
    allowed = {f"{NAMESPACE}.{own}", f"{NAMESPACE}.protocol"}
    complaints = []
    for line, name in imports(source, dotted(path)):
        if name.partition(".")[0] in PACKAGES:
            complaints.append(f"{path}:{line}: '{name}' is imported without the namespace")
        elif _within(name, [NAMESPACE]) and not _within(name, allowed):
            complaints.append(f"{path}:{line}: {own} imports '{name}'")
    return complaints


def absolute_imports(path: str, source: str) -> list[str]:
    """Product code imports its own packages relatively, or editors lose the real file (design 13)."""
    return [
        f"{path}:{node.lineno}: absolute import of our own package; make it relative"
        for node in ast.walk(ast.parse(source))
        if (isinstance(node, ast.Import) and any(_within(alias.name, [NAMESPACE]) for alias in node.names))
        or (isinstance(node, ast.ImportFrom) and node.level == 0 and _within(node.module or "", [NAMESPACE]))
    ]


def impure_imports(path: str, source: str) -> list[str]:
    """A pure module imports no socket, clock, random, os, asyncio or logging (style, rule 2)."""
    return [
        f"{path}:{line}: a pure module imports '{name}'"
        for line, name in imports(source, dotted(path))
        if _within(name, IMPURE)
    ]


def pure_importing_shell(path: str, source: str, pure: frozenset[str], shells: frozenset[str]) -> list[str]:
    """A pure module imports no module of ours that is itself impure: purity through a detour is none.

    `pure` are the paths that say `Pure:`, `shells` the paths of ours whose own imports are impure.
    """
    complaints = []
    for line, name in imports(source, dotted(path)):
        if not _within(name, [NAMESPACE]):
            continue
        parts = name.split(".")[1:]
        # The last part may be a name inside the module, or the module itself.
        candidates = {"/".join(parts) + ".py", "/".join(parts[:-1]) + ".py"}
        complaints += [
            f"{path}:{line}: a pure module imports the shell '{found}'"
            for found in sorted(candidates & shells - pure)
        ]
    return complaints


def zmq_imports(path: str, source: str) -> list[str]:
    """One transport is the only ZeroMQ user (design 13)."""
    if ZMQ_MODULES.fullmatch(path):
        return []
    return [f"{path}:{line}: only protocol/transport may import zmq" for line, name in imports(source, dotted(path))
            if _within(name, ["zmq"])]  # fmt: skip


def too_long(path: str, source: str) -> list[str]:
    """No module over 600 lines without a reason that is listed here (style, rule 9)."""
    lines = len(source.splitlines())
    most = MAX_LINES_WITH_REASON if path in LONG_WITH_REASON else MAX_LINES
    return [f"{path}: {lines} lines, more than {most}"] if lines > most else []


def undocumented(path: str, source: str) -> list[str]:
    """Every module with code begins with a docstring (style, rule 9); an empty `__init__.py` has nothing to say."""
    tree = ast.parse(source)
    if tree.body and ast.get_docstring(tree) is None:
        return [f"{path}: no docstring"]
    return []


def says_pure(source: str) -> bool:
    """Whether a module declares itself pure: a line of its docstring begins with `Pure:`.

    The declaration is what the layout tests and the coverage gate hold a module to.
    """
    text = ast.get_docstring(ast.parse(source)) or ""
    return any(line.strip().startswith("Pure:") for line in text.splitlines())


def readme_headings(path: str, text: str) -> list[str]:
    """Each folder's README has three headings of the second level at least: what, why so, how to change it."""
    found = len(re.findall(r"^## \S", text, re.MULTILINE))
    return (
        [f"{path}: {found} headings '## ...', fewer than {README_HEADINGS}"]
        if found < README_HEADINGS
        else []
    )


def forbidden_words(path: str, text: str) -> list[str]:
    """No registry host, no path of one machine, no note of unfinished work in any tracked file."""
    complaints = []
    for number, line in enumerate(text.splitlines(), 1):
        complaints += [f"{path}:{number}: names a package registry" for host in _REGISTRIES if host in line]
        if _MACHINE_PATH.search(line):
            complaints.append(f"{path}:{number}: names a path of one machine")
        if _UNFINISHED.search(line):
            complaints.append(f"{path}:{number}: leaves work for later")
    return complaints


def careless_shell(path: str, text: str) -> list[str]:
    """Shell scripts stop at the first failure, at an unset variable and inside pipes."""
    if not re.match(r"#!.*\b(?:ba)?sh\b", text):
        return []
    return (
        [] if re.search(r"^set -euo pipefail$", text, re.MULTILINE) else [f"{path}: no 'set -euo pipefail'"]
    )
