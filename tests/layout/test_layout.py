"""The rules of the layout hold for this repository (design 13; style, rules 1, 2, 9 and 12)."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from . import rules

TOP = Path(__file__).resolve().parents[2]
# Folders whose README a reader needs before the code.
FOLDERS = (*rules.PACKAGES, "extension", "tests")


def tracked() -> list[str]:
    """Return the files of the checkout that git tracks or would, sorted; outside a checkout, all of the four folders."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    answer = subprocess.run(command, cwd=TOP, capture_output=True, check=True, timeout=30)
    names = {name for name in answer.stdout.decode().split("\0") if name}
    return sorted(name for name in names if (TOP / name).is_file() and not (TOP / name).is_symlink())


def text_of(name: str) -> str | None:
    """Return a file's text, or None if it is not UTF-8 (an image)."""
    try:
        return (TOP / name).read_text("utf-8")
    except UnicodeDecodeError:
        return None


FILES = tracked()
PRODUCT = {
    name: (TOP / name).read_text("utf-8")
    for name in FILES
    if name.endswith(".py") and name.split("/")[0] in rules.PACKAGES
}
PYTHON = {name: (TOP / name).read_text("utf-8") for name in FILES if name.endswith(".py")}
PURE = frozenset(name for name, source in PRODUCT.items() if rules.says_pure(source))
SHELLS = frozenset(name for name, source in PRODUCT.items() if rules.impure_imports(name, source))


def none(complaints: list[str]) -> None:
    """Fail with every complaint on a line of its own."""
    assert not complaints, "\n" + "\n".join(complaints)


def test_the_walk_sees_the_product() -> None:
    """Else every other test here would be empty."""
    for package in rules.PACKAGES:
        assert f"{package}/__init__.py" in PRODUCT
    assert "tests/layout/rules.py" in PYTHON


@pytest.mark.parametrize(
    "rule",
    [rules.foreign_imports, rules.absolute_imports, rules.zmq_imports, rules.too_long, rules.undocumented],
    ids=lambda rule: rule.__name__,
)
def test_product_modules(rule: Callable[[str, str], list[str]]) -> None:
    none([complaint for name, source in PRODUCT.items() for complaint in rule(name, source)])


@pytest.mark.parametrize("rule", [rules.too_long, rules.undocumented], ids=lambda rule: rule.__name__)
def test_test_modules(rule: Callable[[str, str], list[str]]) -> None:
    """Tests are read as often as the product."""
    own = {name: source for name, source in PYTHON.items() if name not in PRODUCT}
    none([complaint for name, source in own.items() for complaint in rule(name, source)])


def test_each_package_decides_in_pure_modules() -> None:
    """A package whose decisions have all moved into shells has lost the architecture (style, rules 2 and 3)."""
    assert {name.partition("/")[0] for name in PURE} == set(rules.PACKAGES)


def test_pure_modules_are_pure() -> None:
    complaints = []
    for name in sorted(PURE):
        complaints += rules.impure_imports(name, PRODUCT[name])
        complaints += rules.pure_importing_shell(name, PRODUCT[name], PURE, SHELLS)
    none(complaints)


def test_each_folder_has_a_readme_with_three_headings() -> None:
    complaints = []
    for folder in FOLDERS:
        path = TOP / folder / "README.md"
        if not path.is_file():
            complaints.append(f"{folder}/README.md: missing")
        else:
            complaints += rules.readme_headings(f"{folder}/README.md", path.read_text("utf-8"))
    none(complaints)


def test_no_tracked_file_holds_forbidden_words() -> None:
    complaints = []
    for name in FILES:
        text = text_of(name)
        if text is not None:
            complaints += rules.forbidden_words(name, text)
    none(complaints)


def test_shell_scripts_stop_at_failures() -> None:
    scripts = {name: text for name in FILES if (text := text_of(name)) is not None and text.startswith("#!")}
    assert ".ci/setup" in scripts
    none([complaint for name, text in scripts.items() for complaint in rules.careless_shell(name, text)])


def test_scripts_are_executable() -> None:
    assert [
        name
        for name in FILES
        if (text_of(name) or "").startswith("#!") and not os.access(TOP / name, os.X_OK)
    ] == []


def test_namespace_is_four_relative_links() -> None:
    """Design 13: no `__init__.py` beside them, or the namespace would be ours alone."""
    folder = TOP / ".pkg" / rules.NAMESPACE
    assert {path.name: os.readlink(path) for path in folder.iterdir()} == {
        name: f"../../{name}" for name in rules.PACKAGES
    }
