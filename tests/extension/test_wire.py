"""What is generated or fixed: wire types, icons, the extension id, the manifest's permissions, both languages."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .launcher import EXTENSION_ID

EXTENSION = Path(__file__).resolve().parents[2] / "extension"


def test_wire_types_are_what_protocol_says() -> None:
    done = subprocess.run(
        [sys.executable, str(EXTENSION / "tools" / "generate_wire.py"), "--check"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_the_check_notices_a_difference(tmp_path: Path) -> None:
    script = (EXTENSION / "tools" / "generate_wire.py").read_text("utf-8")
    (tmp_path / "tools").mkdir()
    (tmp_path / "src").mkdir()
    (tmp_path / "tools" / "generate_wire.py").write_text(script, "utf-8")
    (tmp_path / "src" / "wire.ts").write_text("// old\n", "utf-8")
    done = subprocess.run(
        [sys.executable, str(tmp_path / "tools" / "generate_wire.py"), "--check"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "out of date" in done.stderr


def test_the_id_follows_from_the_key() -> None:
    manifest = json.loads((EXTENSION / "manifest.json").read_text("utf-8"))
    digest = hashlib.sha256(base64.b64decode(manifest["key"])).hexdigest()[:32]
    assert "".join(chr(ord("a") + int(digit, 16)) for digit in digest) == EXTENSION_ID


def test_every_permission_has_its_reason_in_the_readme() -> None:
    manifest = json.loads((EXTENSION / "manifest.json").read_text("utf-8"))
    readme = (EXTENSION / "README.md").read_text("utf-8")
    for name in (*manifest["permissions"], *manifest["host_permissions"]):
        assert f"| `{name}` |" in readme
    assert "content_scripts" not in manifest
    assert manifest["minimum_chrome_version"] == "125"
    assert "unsafe" not in manifest["content_security_policy"]["extension_pages"]


def test_both_languages_say_everything() -> None:
    english, chinese = (
        json.loads((EXTENSION / "_locales" / name / "messages.json").read_text("utf-8"))
        for name in ("en", "zh_CN")
    )
    assert english.keys() == chinese.keys()
    sources = (EXTENSION / "src" / "popup" / "popup.ts").read_text("utf-8")
    sources += (EXTENSION / "src" / "popup" / "popup.html").read_text("utf-8")
    for name in re.findall(r'text\("(\w+)"', sources) + re.findall(r'data-text="(\w+)"', sources):
        assert name in english
    for name, entry in english.items():
        assert ("$VALUE$" in entry["message"]) == ("$VALUE$" in chinese[name]["message"]), name


def test_icons_are_drawn_by_the_script(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    shutil.copy(EXTENSION / "tools" / "draw_icons.py", tmp_path / "tools")
    subprocess.run([sys.executable, str(tmp_path / "tools" / "draw_icons.py")], check=True)
    for size in (16, 32, 48, 128):
        assert (tmp_path / "icons" / f"{size}.png").read_bytes() == (
            EXTENSION / "icons" / f"{size}.png"
        ).read_bytes()


def test_no_page_script_has_a_network_or_eval_door() -> None:
    for path in EXTENSION.glob("src/**/*.ts"):
        text = path.read_text("utf-8")
        assert not re.search(r"\beval\(|new Function\(|XMLHttpRequest|\bfetch\(", text), path.name
        if "page" in path.parts:
            assert "WebSocket" not in text, path.name


@pytest.mark.skipif(shutil.which("npm") is None, reason="without Node there is nothing to build or test")
def test_the_pure_parts_pass_their_own_tests() -> None:
    done = subprocess.run(
        ["npm", "--prefix", str(EXTENSION), "test", "--silent"], capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
