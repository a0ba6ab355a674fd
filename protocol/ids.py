"""Opaque ids: `<prefix>_<26 characters>`, 128 random bits in lower-case base32 (RFC 4648 alphabet, no padding).

Invariants: one value has exactly one spelling (the two spare bits of the last character are zero), so ids
compare as text; an id carries no time, counter, pid or meaning beyond its prefix; ids of an earlier process
are never met again (128 bits), so a dead peer's name cannot be taken by its successor (facts: a ROUTER gives a
reused identity away without an event).

Pure: the random bytes come in; shells draw them with `new_id.new_id`. An id is a name, not a credential.
"""

from __future__ import annotations

import base64
import re
from typing import Final

from .errors import LocalMisuse, PeerViolation

RANDOM_BYTES: Final = 16  # 128 bits: guessing or colliding is out of reach
ENCODED_CHARS: Final = 26  # ceil(128 / 5)
MAX_PREFIX_CHARS: Final = 8  # keeps an id, its separator included, within 35 characters
MAX_ID_CHARS: Final = MAX_PREFIX_CHARS + 1 + ENCODED_CHARS

_PREFIX: Final = re.compile(r"[a-z]{1,8}")
_BODY: Final = re.compile(r"[a-z2-7]{26}")


def make_id(prefix: str, random: bytes) -> str:
    """The id of `random` (exactly 16 bytes from a cryptographic source) under `prefix` (1-8 letters a-z).

    Raises LocalMisuse for a malformed prefix or another number of bytes.
    """
    if _PREFIX.fullmatch(prefix) is None:
        raise LocalMisuse(f"an id prefix is 1 to {MAX_PREFIX_CHARS} lower-case letters")
    if len(random) != RANDOM_BYTES:
        raise LocalMisuse(f"an id is made from {RANDOM_BYTES} random bytes, not {len(random)}")
    return f"{prefix}_{base64.b32encode(random).decode('ascii').rstrip('=').lower()}"


def parse_id(text: str, prefix: str) -> str:
    """`text` itself if it is a canonical id under `prefix`; else PeerViolation (which never quotes `text`)."""
    if not is_id(text, prefix):
        raise PeerViolation(f"malformed {prefix} id")
    return text


def is_id(text: str, prefix: str) -> bool:
    """Whether `text` is a canonical id under `prefix`."""
    head, separator, body = text.partition("_")
    if not separator or head != prefix or _PREFIX.fullmatch(head) is None or _BODY.fullmatch(body) is None:
        return False
    raw = base64.b32decode(body.upper() + "======")  # the pattern admits decodable text only
    return make_id(prefix, raw) == text
