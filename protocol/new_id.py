"""Fresh ids for shells: the one place where an id's random bytes are drawn (see `ids` for their form).

Impure by purpose: it reads the kernel's random source. Modules that decide get ids as arguments instead.
"""

from __future__ import annotations

import secrets

from .ids import RANDOM_BYTES, make_id


def new_id(prefix: str) -> str:
    """A fresh opaque id under `prefix` (1-8 letters a-z)."""
    return make_id(prefix, secrets.token_bytes(RANDOM_BYTES))
