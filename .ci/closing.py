"""Prints the closing line of each pytest log named as argument, and then the sum of all of them as the last line.

It counts only what pytest itself printed; a log without a closing line counts as one failure.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

_CLOSING = re.compile(r"^=* ?(?:\d+ [a-z]+(?:, )?)+ in [\d.]+s.*$")
_COUNT = re.compile(r"(\d+) (passed|failed|errors?|skipped|xfailed|xpassed)\b")
_FAILURES = ("failed", "error", "errors", "xpassed")


def main(paths: list[str]) -> None:
    """Read the logs and print the lines."""
    passed = failed = skipped = 0
    for path in paths:
        log = Path(path)
        lines = log.read_text("utf-8", "replace").splitlines() if log.is_file() else []
        closing = next((line for line in reversed(lines) if _CLOSING.match(line)), None)
        print(f"{log.stem}: {closing or 'pytest did not finish'}")
        if closing is None:
            failed += 1
            continue
        for count, kind in _COUNT.findall(closing):
            if kind in _FAILURES:
                failed += int(count)
            elif kind in ("skipped", "xfailed"):
                skipped += int(count)
            else:
                passed += int(count)
    print(f"total: {passed} passed, {failed} failed, {skipped} skipped")


main(sys.argv[1:])
