"""What a host allows a task: origins, actions, free text (design 3), and the words of a result without free text (design 7).

An origin is written `https://shop.example` or `http://127.0.0.1:8080`, as a browser writes it; `https://*.shop.example` stands
for every name below `shop.example` and not for itself. Without `origins` the network policy alone decides.

Invariants: an origin pattern that `parse_origin` accepted has exactly one reading; matching compares scheme, host and port
exactly, never a part of a name; the texts of `plain_texts` are constants, so a result made of them repeats no page.

Pure: values in, values out. URLs are parsed by the bridge (`bridge/urls.py`), which alone enforces this.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Final
from urllib.parse import urlsplit

from .errors import UsageError
from .results import ArtifactKind, Policy, Status

_ORIGIN: Final = re.compile(
    r"(https?)://(\*\.)?(\[[0-9a-f:.]{2,45}\]|[a-z0-9._-]{1,253})(?::([0-9]{1,5}))?/?", re.IGNORECASE
)
_DEFAULT_PORT: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Origin:
    """One allowed origin. `below`: every host below `host` instead of `host`."""

    scheme: str
    host: str
    port: int
    below: bool = False

    def covers(self, scheme: str, host: str, port: int) -> bool:
        """Whether a destination, in the bridge's normal form, is of this origin."""
        if scheme != self.scheme or port != self.port:
            return False
        return host.endswith("." + self.host) if self.below else host == self.host


def parse_origin(text: str) -> Origin:
    """Read one pattern. Raises UsageError, which does not repeat it."""
    match = _ORIGIN.fullmatch(text) if text.isascii() else None
    if match is None:
        raise _bad()
    scheme, host = match[1].lower(), match[3].lower().removesuffix(".")
    port = _DEFAULT_PORT[scheme] if match[4] is None else int(match[4])
    if host.startswith("["):
        try:
            host = str(IPv6Address(host[1:-1]))
        except AddressValueError:
            raise _bad() from None
        is_address = True
    else:
        labels = host.split(".")
        is_address = labels[-1].isdigit() or labels[-1].startswith("0x")
        if is_address:
            host = _dotted(host)
        elif not all(labels):
            raise _bad()
    if port > 65_535 or (match[2] is not None and is_address):
        raise _bad()
    return Origin(scheme, host, port, match[2] is not None)


def _dotted(host: str) -> str:
    try:
        return str(IPv4Address(host))
    except AddressValueError:
        raise _bad() from None


def parse_origins(texts: Iterable[str] | None) -> tuple[Origin, ...] | None:
    """All of them, None for none named. Raises UsageError."""
    return None if texts is None else tuple(parse_origin(text) for text in texts)


def _bad() -> UsageError:
    return UsageError(
        "an origin of the policy can't be read",
        next_step="Write it like https://shop.example, http://127.0.0.1:8080 or https://*.shop.example: no path, names in punycode.",
    )


# What a result says where nothing a page may have written is let through.
_SUMMARIES: Final[Mapping[Status, str]] = {
    Status.COMPLETED: "The worker reports the goal as reached.",
    Status.NEEDS_USER_INPUT: "The worker reports that only the user can decide how to go on.",
    Status.BLOCKED: "The worker reports that the site or a rule stands in the way.",
    Status.FAILED: "The worker reports that the goal was not reached.",
}
_QUESTION: Final = "Look at the page yourself: its words are withheld by the policy (freeText: none)."


@dataclass(frozen=True, slots=True)
class PlainTexts:
    """The texts of one result, all ours."""

    summary: str
    question: str | None


def plain_texts(execution: Status) -> PlainTexts:
    """For an execution status (one of the four a worker can claim)."""
    question = _QUESTION if execution is Status.NEEDS_USER_INPUT else None
    return PlainTexts(_SUMMARIES[execution], question)


def is_named(origin: str, policy: Policy, start_url: str) -> bool:
    """Whether the host itself has written this origin, in its policy or as the start URL's.

    A pattern with `*` names no host: below it, whoever may have a name there chooses the words.
    """
    try:
        wanted = parse_origin(origin)
        named = {one for one in parse_origins(policy.origins) or () if not one.below}
        parts = urlsplit(start_url)
        if start_url:
            named.add(parse_origin(f"{parts.scheme}://{parts.netloc}"))
    except (UsageError, ValueError):
        return False
    return wanted in named


def answer_missing(name: str) -> str:
    """How a required field without a value is told; the name is the host's own."""
    return f"answer.{name} is missing"


def answer_wrong(name: str) -> str:
    """How a field whose value was dropped is told."""
    return f"answer.{name} does not hold"


def missing_text(purpose: str, kind: ArtifactKind) -> str:
    """How an unmet deliverable is told; every word is the host's or ours."""
    return f"deliverable {purpose} ({kind.value}) is missing"
