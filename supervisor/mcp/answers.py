"""What a tool call answers: the supervisor's JSON as it is, or an error with one of our codes. Never a traceback.

Invariants: an error's text is JSON with `code`, `message` and `nextStep`; an exception that is not one of ours tells its
type's name and nothing else, since its text could be anything.

Pure: values in, values out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from ...protocol.errors import (
    ActorRaised,
    Backpressure,
    BrowsercellError,
    CallTimeout,
    FrameTooLarge,
    LocalMisuse,
    Unavailable,
    UsageError,
)


@dataclass(frozen=True, slots=True)
class Answer:
    """Content of one tool result. `structured` is None for errors: they don't fit the tool's output schema."""

    text: str
    structured: dict[str, Any] | None
    is_error: bool


def success(value: Mapping[str, Any]) -> Answer:
    return Answer(json.dumps(value, ensure_ascii=False), dict(value), False)


def failure(error: BaseException) -> Answer:
    """The answer that an exception becomes."""
    if isinstance(error, BrowsercellError):
        return _error(_code(error), error.message, error.next_step)
    return _error("internal", f"An internal fault ({type(error).__name__}).", "Run: supervisor doctor")


def refusal(code: str, message: str, next_step: str) -> Answer:
    return _error(code, message, next_step)


def _code(error: BrowsercellError) -> str:
    match error:
        case ActorRaised():
            return error.code
        case UsageError() | LocalMisuse() | FrameTooLarge():
            return "invalid-request"
        case Unavailable():
            return "unavailable"
        case CallTimeout():
            return "timeout"
        case Backpressure():
            return "overloaded"
        case _:
            return "supervisor-lost"


def _error(code: str, message: str, next_step: str) -> Answer:
    return Answer(
        json.dumps({"code": code, "message": message, "nextStep": next_step}, ensure_ascii=False), None, True
    )


def first_folder(uris: Sequence[str]) -> str:
    """The path of the first root that is a folder of this machine, "" if none is: `file:` with an absolute path and no
    foreign host (RFC 8089)."""
    for uri in uris:
        try:
            parts = urlsplit(uri)
        except ValueError:
            continue
        path = unquote(parts.path)
        if (
            parts.scheme == "file"
            and parts.netloc in ("", "localhost")
            and path.startswith("/")
            and "\0" not in path
        ):
            return path
    return ""
