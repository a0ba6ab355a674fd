"""`identity`: the id of a known key, and manifests that have none (facts: SHA-256 of the key, digits as letters)."""

from __future__ import annotations

import base64
import hashlib
import json

import pytest
from browsercell.bridge.chromium.identity import extension_id


def test_the_id_is_the_keys_digest_in_letters() -> None:
    key = b"any bytes stand for a key here"
    digest = hashlib.sha256(key).hexdigest()
    made = extension_id(json.dumps({"key": base64.b64encode(key).decode()}).encode())
    assert len(made) == 32
    assert "".join(f"{ord(letter) - ord('a'):x}" for letter in made) == digest[:32]


@pytest.mark.parametrize(
    "manifest", [b"", b"[]", b"{}", b'{"key": 5}', b'{"key": "*"}', b"\xff", b'{"key": null}']
)
def test_no_usable_key(manifest: bytes) -> None:
    with pytest.raises(ValueError, match="no usable key"):
        extension_id(manifest)
