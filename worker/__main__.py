"""Entry point of a worker process: `python -I -B -m browsercell.worker` (app.py says with what options)."""

from __future__ import annotations

import sys

from .app import main

if __name__ == "__main__":
    main(sys.argv[1:])
