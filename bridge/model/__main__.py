"""Entry point: `python -I -B -m browsercell.bridge.model --control-fd 3 [--memory BYTES]`.

Exit status: 0 after Shutdown, 1 when the control link ends or something broke, 2 for wrong options.
"""

from __future__ import annotations

import argparse
import logging
import sys

from .app import serve


def main(argv: list[str]) -> int:
    """Parses the options and runs. Log lines go to stderr, a 0600 file, without content."""
    parser = argparse.ArgumentParser(prog="browsercell model bridge")
    parser.add_argument("--control-fd", type=int, required=True)
    parser.add_argument("--memory", type=int, default=None)
    options = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s model-bridge %(message)s")
    return serve(options.control_fd, options.memory)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
