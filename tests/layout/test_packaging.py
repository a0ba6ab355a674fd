"""The wheel and the sdist hold what an installed browsercell needs, and are not built without the extension.

Each test builds from a copy of the tracked files with a small made-up extension, by the build backend itself: no network,
no Node. What a wheel does once it is installed is checked by `.ci/wheel`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from browsercell.protocol.bundle import bundle_digest

from . import rules
from .test_layout import FILES, TOP

MANIFEST = {
    "manifest_version": 3,
    "background": {"service_worker": "background.js"},
    "action": {"default_popup": "popup.html"},
    "icons": {"16": "icon.png"},
    "default_locale": "en",
}
PARTS = ("background.js", "popup.html", "icon.png", "_locales/en/messages.json")
IN_WHEEL = "browsercell/protocol/_extension"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the files that git tracks, links as links."""
    folder = tmp_path / "checkout"
    for name in FILES:
        if name.partition("/")[0] in ("tests", "extension"):
            continue
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(TOP / name, target)
    namespace = folder / ".pkg" / rules.NAMESPACE
    namespace.mkdir(parents=True)
    for package in rules.PACKAGES:
        (namespace / package).symlink_to(f"../../{package}")
    return folder


def add_extension(checkout: Path) -> Path:
    """Put a made-up built extension into a checkout."""
    folder = checkout / "extension" / "dist"
    for name in PARTS:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"content of {name}")
    (folder / "manifest.json").write_text(json.dumps(MANIFEST))
    return folder


def build(folder: Path, target: str, out: Path) -> subprocess.CompletedProcess[str]:
    """Build one target of the project in `folder` into `out`."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(out)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HATCH")}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60)


def the_one(out: Path, pattern: str) -> Path:
    """The only file that was built."""
    (found,) = out.glob(pattern)
    return found


@pytest.mark.parametrize("target", ["wheel", "sdist"])
def test_without_the_built_extension_nothing_is_built(checkout: Path, tmp_path: Path, target: str) -> None:
    answer = build(checkout, target, tmp_path / "out")
    assert answer.returncode != 0
    assert "extension/dist is not built" in answer.stderr
    assert "make build" in answer.stderr
    assert list(tmp_path.glob("out/*")) == []


@pytest.mark.parametrize("missing", PARTS)
def test_an_incomplete_extension_is_refused_by_name(checkout: Path, tmp_path: Path, missing: str) -> None:
    (add_extension(checkout) / missing).unlink()
    answer = build(checkout, "wheel", tmp_path / "out")
    assert answer.returncode != 0
    assert f"lacks {missing}" in answer.stderr


def test_the_wheel_holds_the_extension_and_every_file_of_the_packages(checkout: Path, tmp_path: Path) -> None:
    source = add_extension(checkout)
    assert build(checkout, "wheel", tmp_path / "out").returncode == 0
    with zipfile.ZipFile(the_one(tmp_path, "out/*.whl")) as wheel:
        names = set(wheel.namelist())
        wheel.extractall(tmp_path / "site")
    ours = {f"browsercell/{name}" for name in FILES if name.partition("/")[0] in rules.PACKAGES}
    assert ours <= names
    assert {name for name in names if ".dist-info/" not in name} == ours | {
        f"{IN_WHEEL}/{name}" for name in (*PARTS, "manifest.json")
    }
    assert bundle_digest(tmp_path / "site" / IN_WHEEL) == bundle_digest(source)


def test_the_wheel_from_the_sdist_is_the_same(checkout: Path, tmp_path: Path) -> None:
    add_extension(checkout)
    assert build(checkout, "wheel", tmp_path / "direct").returncode == 0
    assert build(checkout, "sdist", tmp_path / "out").returncode == 0
    with tarfile.open(the_one(tmp_path, "out/*.tar.gz")) as packed:
        assert not any(member.issym() or member.islnk() for member in packed)
    (tmp_path / "unpacked").mkdir()
    # By tar: what tarfile's extraction filters are called depends on Python's patch level.
    command = ["tar", "-xzf", str(the_one(tmp_path, "out/*.tar.gz")), "-C", str(tmp_path / "unpacked")]
    subprocess.run(command, check=True, timeout=60)
    assert build(the_one(tmp_path, "unpacked/*"), "wheel", tmp_path / "again").returncode == 0
    with (
        zipfile.ZipFile(the_one(tmp_path, "direct/*.whl")) as direct,
        zipfile.ZipFile(the_one(tmp_path, "again/*.whl")) as again,
    ):
        assert {info.filename: info.CRC for info in direct.infolist()} == {
            info.filename: info.CRC for info in again.infolist()
        }


def test_the_editable_install_does_not_wait_for_the_extension(checkout: Path, tmp_path: Path) -> None:
    script = "import hatchling.build, sys; hatchling.build.build_editable(sys.argv[1])"
    (tmp_path / "out").mkdir()
    command = [sys.executable, "-c", script, str(tmp_path / "out")]
    subprocess.run(command, cwd=checkout, check=True, capture_output=True, timeout=60)
    with zipfile.ZipFile(the_one(tmp_path, "out/*.whl")) as wheel:
        (path_file,) = [name for name in wheel.namelist() if name.endswith(".pth")]
        assert wheel.read(path_file).decode().strip() == str(checkout / ".pkg")
