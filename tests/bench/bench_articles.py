"""Articles: what `browser_page_extract` makes of forty saved pages, as F1 of the words against the article others have marked.

Reads the test material in place (`tests/support/material.py` says where); a few pages of it are a test of every run.
"""

from __future__ import annotations

import statistics
import sys
from typing import Final

from tests.bench.harness import FloorUnavailable, Ratio, main
from tests.support.articles import scores
from tests.support.material import material

GOAL_F1: Final = 0.94


def run() -> list[Ratio]:
    """The mean over all pages; about ten seconds."""
    folder = material("readability")
    if folder is None:
        raise FloorUnavailable(
            "the material 'readability' is not here; BROWSERCELL_MATERIAL names its folder"
        )
    found = scores(folder, sorted(page.name for page in folder.iterdir() if page.is_dir()))
    worst = min(found, key=lambda page: found[page])
    note = f"{len(found)} pages; worst: {worst} {found[worst]:.3f}; median {statistics.median(found.values()):.3f}"
    return [Ratio("articles: F1 of words, mean", statistics.mean(found.values()), GOAL_F1, ">=", note)]


if __name__ == "__main__":
    sys.exit(main(run))
