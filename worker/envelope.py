"""The untrusted envelope: page data as a model sees it, in marks that no page can write (design 6).

    ⟦untrusted page data 5f0c…⟧
    whatever the page said
    ⟦end of untrusted page data 5f0c…⟧

Invariants, for every text and boundary: the two bracket characters occur exactly twice each in a wrapped text, in the
first and the last line, so nothing between them is or closes a mark; the boundary occurs only in those two lines; no
invisible instructions survive (Unicode tag characters, control characters); ordinary text is unchanged.

Why brackets and boundary: the brackets make forging impossible by construction; the boundary, fresh at every step, lets
the model tell the real end from text that merely resembles it. What it does not do: judge or shorten the text.

Pure: the boundary's random text comes in.
"""

from __future__ import annotations

import re
from typing import Final

OPEN: Final = "\u27e6"  # ⟦ and ⟧: rare in text, and no other character becomes one of them by normalisation
CLOSE: Final = "\u27e7"
_WORDS: Final = "untrusted page data"
_BOUNDARY: Final = re.compile(r"[0-9a-f]{16,64}")

# Line ends and tabs stay. U+E0000..E007F mirror ASCII invisibly: instructions that a person can't see.
_INVISIBLE: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\U000e0000-\U000e007f]")
_BRACKETS: Final = str.maketrans({OPEN: "[", CLOSE: "]"})
_WITHHELD: Final = (
    "[…]"  # holds no hexadecimal digit, so what is left on its sides can't join to the boundary
)


def neutralise(text: str, boundary: str) -> str:
    """`text` without anything that could belong to an envelope with this boundary, and without invisible characters."""
    visible = _INVISIBLE.sub("", text).translate(_BRACKETS)
    return re.sub(re.escape(boundary), _WITHHELD, visible, flags=re.IGNORECASE)


def wrap(text: str, boundary: str) -> str:
    """`text` inside its envelope. `boundary`: 16 to 64 lower-case hexadecimal digits from a cryptographic source.

    Raises ValueError for another boundary: it would be guessable, or not be found again.
    """
    if _BOUNDARY.fullmatch(boundary) is None:
        raise ValueError("a boundary is 16 to 64 lower-case hexadecimal digits")
    inside = neutralise(text, boundary)
    return f"{OPEN}{_WORDS} {boundary}{CLOSE}\n{inside}\n{OPEN}end of {_WORDS} {boundary}{CLOSE}"
