"""Imports and uses what the standard library loads lazily, while files can still be opened.

Importing is not enough: the idna codec loads punycode at its first non-ASCII label, and formatting a traceback reads
source files. After the seal both would fail, late and far away. The worker's own modules warm up what they use themselves.
"""

from __future__ import annotations

import linecache
import sys
import time
import traceback
from datetime import UTC, datetime

import msgspec

_CODECS = ("ascii", "latin-1", "utf-8", "utf-8-sig", "utf-16", "utf-32", "cp1252", "idna", "punycode")


class _Sample(msgspec.Struct):
    when: datetime
    text: str


def warm_up() -> None:
    """Runs every lazily loaded path once; step 2 of the seal, needs no privilege, takes a few milliseconds."""
    for codec in _CODECS:
        "a".encode(codec).decode(codec)
    "bücher.example".encode("idna").decode("idna")
    time.tzset()
    time.strftime("%Z", time.localtime())
    sample = _Sample(datetime.now(UTC).astimezone(), "ä")
    for encode, decode in (
        (msgspec.msgpack.encode, msgspec.msgpack.decode),
        (msgspec.json.encode, msgspec.json.decode),
    ):
        decode(encode(sample), type=_Sample)
        try:
            decode(b"", type=_Sample)
        except msgspec.DecodeError:
            traceback.format_exception(*sys.exc_info())
    # Source lines are page cache for nobody: tracebacks go to /dev/null after the seal.
    linecache.clearcache()
