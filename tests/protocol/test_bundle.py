"""Where the built extension is, and what its digest depends on."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
from browsercell.protocol import bundle


def fill(folder: Path, **files: str) -> Path:
    """Write files; `__` in a name stands for a slash."""
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def test_the_first_folder_with_a_manifest_is_taken(tmp_path: Path) -> None:
    empty = fill(tmp_path / "a", other="x")
    full = tmp_path / "b"
    full.mkdir()
    (full / "manifest.json").write_text("{}")
    assert bundle.extension_folder((tmp_path / "none", empty, full)) == full


def test_a_missing_extension_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(bundle.ExtensionMissing, match=r"missing\. Build it with: make setup$"):
        bundle.extension_folder((tmp_path,))


def test_an_installed_copy_without_extension_says_something_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundle, "_IN_CHECKOUT", tmp_path / "none" / "dist")
    with pytest.raises(bundle.ExtensionMissing, match=r"Install browsercell again, from a complete wheel$"):
        bundle.extension_folder((tmp_path,))


def test_the_checkout_is_found_through_the_link() -> None:
    assert Path(__file__).resolve().parents[2] / "extension" / "dist" == bundle._IN_CHECKOUT


def test_digest_depends_on_names_and_contents_only(tmp_path: Path) -> None:
    one = fill(tmp_path / "one", a="1", b__c="2")
    two = fill(tmp_path / "two", b__c="2", a="1")
    os.utime(two / "a", (0, 0))
    (two / "a").chmod(0o600)
    (two / "empty").mkdir()
    assert bundle.bundle_digest(one) == bundle.bundle_digest(two)
    assert len(bundle.bundle_digest(one)) == 64


def test_digest_tells_every_change(tmp_path: Path) -> None:
    digests = {
        bundle.bundle_digest(fill(tmp_path / "a", a="1", b="2")),
        bundle.bundle_digest(fill(tmp_path / "b", a="1", b="3")),
        bundle.bundle_digest(fill(tmp_path / "c", a="1", c="2")),
        bundle.bundle_digest(fill(tmp_path / "d", a="1", b="2", c="")),
        bundle.bundle_digest(fill(tmp_path / "e", a="1b2")),
        bundle.bundle_digest(fill(tmp_path / "f", a__b="2")),
        bundle.bundle_digest(fill(tmp_path / "g", ab="2")),
    }
    assert len(digests) == 7


def test_digest_of_one_file_by_hand(tmp_path: Path) -> None:
    """Pins the format: 8 bytes of length, name, 8 bytes of length, content."""
    text = "x" * 200_000
    by_hand = (1).to_bytes(8, "big") + b"a" + len(text).to_bytes(8, "big") + text.encode()
    assert bundle.bundle_digest(fill(tmp_path, a=text)) == hashlib.sha256(by_hand).hexdigest()


def test_links_and_special_files_are_refused(tmp_path: Path) -> None:
    linked = fill(tmp_path / "linked", a="1")
    (linked / "b").symlink_to("a")
    with pytest.raises(bundle.ExtensionUnreadable, match=r"no plain file: b\. "):
        bundle.bundle_digest(linked)
    piped = fill(tmp_path / "piped", a="1")
    os.mkfifo(piped / "p")
    with pytest.raises(bundle.ExtensionUnreadable, match=r"no plain file: p\. "):
        bundle.bundle_digest(piped)


def test_digest_of_no_folder(tmp_path: Path) -> None:
    with pytest.raises(bundle.ExtensionMissing):
        bundle.bundle_digest(tmp_path / "none")
