"""The id that Chromium gives an extension with a fixed key (facts/chromium.md 2).

The manifest's `key` is base64 of a DER SubjectPublicKeyInfo; the id is the first 32 hexadecimal digits of its SHA-256,
0-f written as a-p.

Pure: functions of bytes.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from typing import Final

_LETTERS: Final = str.maketrans("0123456789abcdef", "abcdefghijklmnop")
_ID_CHARS: Final = 32


def extension_id(manifest: bytes) -> str:
    """The id of the extension with this `manifest.json`. Raises ValueError if it has no usable key."""
    try:
        decoded = json.loads(manifest)
        key = decoded["key"]
        der = base64.b64decode(key, validate=True)
    except (ValueError, KeyError, TypeError, binascii.Error):
        raise ValueError("the extension's manifest has no usable key") from None
    return hashlib.sha256(der).hexdigest()[:_ID_CHARS].translate(_LETTERS)
