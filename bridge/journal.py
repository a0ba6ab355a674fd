"""The bridge's log: one JSON line per effect on stderr (a 0600 file), without content by construction.

A line of ours is an event name and fields; a field is a number, a boolean, or a short text of letters, digits and
`._:-` (ids, codes); anything else is replaced by its type's name, so page data can't slip in through a careless call.
Of other libraries only the logger, the level and the exception's type are written: their messages may quote a peer.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import time
import traceback
from typing import Final

_OURS: Final = "browsercell."
_FIELDS: Final = "fields"
_PLAIN: Final = re.compile(r"[A-Za-z0-9._:-]{0,80}")


def setup(level: int = logging.INFO) -> None:
    """Send all logging of this process through here. Other libraries: warnings and worse."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(ContentFree())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger(_OURS.removesuffix(".")).setLevel(level)


def note(log: logging.Logger, event: str, level: int = logging.INFO, **fields: object) -> None:
    """One effect. `event`: what happened, in words of ours; `fields`: ids, codes and numbers."""
    if log.isEnabledFor(level):
        log.log(level, event, extra={_FIELDS: fields})


def where(error: BaseException) -> str:
    """Type and innermost place of an exception, as in `ValueError:app.py:120`; never its text."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f":{frames[-1].filename.rsplit('/', 1)[-1]}:{frames[-1].lineno}" if frames else ""
    return type(error).__name__ + place


class ContentFree(logging.Formatter):
    """Formats a record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "at": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "actor": record.name.removeprefix(_OURS),
        }
        if record.name.startswith(_OURS):
            line["event"] = record.msg if isinstance(record.msg, str) else type(record.msg).__name__
            fields = getattr(record, _FIELDS, None)
            if isinstance(fields, dict):
                line.update({str(name): _plain(value) for name, value in fields.items()})
        if record.exc_info and record.exc_info[1] is not None:
            line["error"] = where(record.exc_info[1])
        return json.dumps(line, ensure_ascii=True)


def _plain(value: object) -> object:
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str) and _PLAIN.fullmatch(value):
        return str(value)
    return f"<{type(value).__name__}>"
