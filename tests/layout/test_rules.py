"""Each rule of the layout complains about a source that breaks it, and is silent about one that does not."""

from __future__ import annotations

import pytest

from . import rules

SLASH = "/"  # paths of one machine, put together here: this file is searched for them too


def test_imports_resolves_relative_names_and_finds_inner_ones() -> None:
    source = (
        "import a.b\nfrom ..protocol.frames import Hello\nfrom . import x\ndef f():\n    from .y import z\n"
    )
    assert list(rules.imports(source, "browsercell.bridge.app")) == [
        (1, "a.b"),
        (2, "browsercell.protocol.frames.Hello"),
        (3, "browsercell.bridge.x"),
        (5, "browsercell.bridge.y.z"),
    ]


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("protocol/a.py", "from ..bridge import app"),
        ("protocol/a.py", "from .. import worker"),
        ("bridge/a.py", "from ..worker.loop import run"),
        ("bridge/model/a.py", "from ...supervisor import app"),
        ("worker/a.py", "def f():\n    import browsercell.supervisor.app"),
        ("worker/a.py", "import browsercell"),
        ("supervisor/a.py", "from bridge import app"),
        ("supervisor/a.py", "import worker"),
    ],
)
def test_foreign_imports_are_seen(path: str, source: str) -> None:
    assert rules.foreign_imports(path, source)


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("protocol/a.py", "from .b import c\nimport msgspec"),
        ("bridge/a.py", "from ..protocol.frames import Hello\nfrom .b import c"),
        ("bridge/model/a.py", "from ..app import x\nfrom ...protocol import frames"),
        ("worker/a.py", "from .bridge import x\nimport workerlib"),
    ],
)
def test_own_and_protocol_imports_are_allowed(path: str, source: str) -> None:
    assert rules.foreign_imports(path, source) == []


def test_absolute_imports_of_our_own_packages() -> None:
    assert rules.absolute_imports("bridge/a.py", "import browsercell.protocol.frames")
    assert rules.absolute_imports("bridge/a.py", "from browsercell.protocol import frames")
    assert (
        rules.absolute_imports("bridge/a.py", "from ..protocol import frames\nimport browsercellular") == []
    )


@pytest.mark.parametrize(
    "name", ["socket", "time", "random", "os", "asyncio", "logging", "os.path", "zmq.utils"]
)
def test_impure_imports_are_seen(name: str) -> None:
    assert rules.impure_imports("bridge/a.py", f"import {name}")
    assert rules.impure_imports("bridge/a.py", f"def f():\n    from {name} import x")


def test_pure_imports_are_allowed() -> None:
    assert (
        rules.impure_imports("bridge/a.py", "import enum, msgspec, re\nfrom .time import x\nimport oslo")
        == []
    )


def test_a_pure_module_may_not_reach_a_shell_by_a_detour() -> None:
    shells = frozenset({"bridge/app.py"})
    for source in ("from .app import run", "from . import app", "from ..bridge.app import run"):
        assert rules.pure_importing_shell("bridge/a.py", source, frozenset(), shells)
    assert (
        rules.pure_importing_shell("bridge/a.py", "from .leases import x\nimport re", frozenset(), shells)
        == []
    )


def test_zmq_is_for_the_transport_alone() -> None:
    assert rules.zmq_imports("bridge/a.py", "import zmq")
    assert rules.zmq_imports("protocol/client.py", "from zmq.utils import monitor")
    assert rules.zmq_imports("protocol/transport.py", "import zmq") == []
    assert rules.zmq_imports("protocol/transport_monitor.py", "import zmq") == []


def test_long_modules() -> None:
    assert rules.too_long("bridge/a.py", "x = 1\n" * 601)
    assert rules.too_long("bridge/a.py", "x = 1\n" * 600) == []
    assert rules.too_long("protocol/frames.py", "x = 1\n" * 1000) == []
    assert rules.too_long("protocol/frames.py", "x = 1\n" * 1001)


def test_modules_without_docstring() -> None:
    assert rules.undocumented("bridge/a.py", "x = 1")
    assert rules.undocumented("bridge/a.py", '"""Says."""\nx = 1') == []
    assert rules.undocumented("bridge/__init__.py", "") == []


def test_a_module_says_pure_in_its_docstring() -> None:
    assert rules.says_pure('"""Decides.\n\nPure: takes events.\n"""')
    assert not rules.says_pure('"""Pure nonsense."""\n# Pure: no')
    assert not rules.says_pure("x = 1")


def test_readme_headings() -> None:
    assert rules.readme_headings("a/README.md", "# a\n## b\n## c\n### d\n")
    assert rules.readme_headings("a/README.md", "# a\n## b\n## c\n## d\n") == []


@pytest.mark.parametrize(
    "line",
    [
        "see https://" + "pypi" + ".org/simple",
        "registry=https://registry." + "npmjs.org",
        "cd " + SLASH + "wor" + "k/main",
        'open("' + SLASH + "roo" + 't/x")',
        "# TO" + "DO: later",
        "// FIX" + "ME",
    ],
)
def test_forbidden_words_are_seen(line: str) -> None:
    assert rules.forbidden_words("a.md", f"fine\n{line}\n") != []


def test_ordinary_words_are_allowed() -> None:
    text = "PyPI and npm; $ROOT/work; net/work/x; a worker/rootless path; ~/root; the to-do list; s6/root\n"
    assert rules.forbidden_words("a.md", text) == []


def test_careless_shell_scripts() -> None:
    assert rules.careless_shell("x", "#!/bin/sh\necho\n")
    assert rules.careless_shell("x", "#!/usr/bin/env bash\nset -e\n")
    assert rules.careless_shell("x", "#!/usr/bin/env bash\nset -euo pipefail\n") == []
    assert rules.careless_shell("x.py", "#!/usr/bin/env python3\n") == []
