"""Log lines of the MCP process on standard error, without content.

Invariants: of a record of ours the event and its own fields are written; of the libraries' only severity, place and the
exception's type, since their texts can hold what was sent to us.
"""

from __future__ import annotations

import logging
import sys
from typing import Final

OURS: Final = __name__.rpartition(".")[0]
_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class ContentFree(logging.Formatter):
    """One line a record."""

    def format(self, record: logging.LogRecord) -> str:
        parts = [self.formatTime(record, "%H:%M:%S"), record.levelname.lower()]
        if record.name.startswith(OURS):
            parts.append(record.getMessage())
            parts += [f"{key}={value}" for key, value in vars(record).items() if key not in _STANDARD]
        else:
            parts.append(f"{record.name}:{record.lineno}")
        if record.exc_info and record.exc_info[0] is not None:
            parts.append(record.exc_info[0].__name__)
        return " ".join(parts)


def log_to_stderr(level: int = logging.WARNING) -> None:
    """Replaces whatever handlers there were."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(ContentFree())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    logging.raiseExceptions = False  # a closed standard error must not become a traceback
