"""Who may speak to the HTTP listener: decided from the head of a request, before anything of it is read.

A web page the user has open can send requests to loopback, under a name of its own (DNS rebinding) or across sites. So a
request needs exactly one Host that is ours, no foreign Origin, no foreign Sec-Fetch-Site, the one path, and the token. The
order is such that a page learns nothing about the token.

Pure: bytes in, verdict out.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

PATH: Final = "/mcp"
METHODS: Final = frozenset({"GET", "POST", "DELETE"})
_NAMES: Final = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True, slots=True)
class Refusal:
    """HTTP status and one sentence."""

    status: int
    sentence: str


class Guard:
    """Of one listener. `token`: what the Authorization header has to carry."""

    def __init__(self, port: int, token: str) -> None:
        self.hosts = tuple(f"{name}:{port}" for name in _NAMES)
        self.origins = tuple(f"http://{host}" for host in self.hosts)
        self._hosts = frozenset(host.encode() for host in self.hosts)
        self._origins = frozenset(origin.encode() for origin in self.origins)
        self._bearer = f"Bearer {token}".encode()

    def judge(self, method: str, path: str, headers: Iterable[tuple[bytes, bytes]]) -> Refusal | None:
        """None lets the request through. `headers`: names in lower case, as ASGI gives them."""
        found: dict[bytes, list[bytes]] = {}
        for name, value in headers:
            found.setdefault(name, []).append(value)
        hosts = found.get(b"host", [])
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return Refusal(421, "This listener answers to its own loopback name only.")
        if not all(origin.lower() in self._origins for origin in found.get(b"origin", [])):
            return Refusal(403, "Requests of web pages are refused.")
        if not all(site in (b"same-origin", b"none") for site in found.get(b"sec-fetch-site", [])):
            return Refusal(403, "Requests of web pages are refused.")
        if path != PATH:
            return Refusal(404, "There is nothing here.")
        if method not in METHODS:
            return Refusal(405, "Only GET, POST and DELETE.")
        tokens = found.get(b"authorization", [])
        if len(tokens) != 1 or not hmac.compare_digest(tokens[0], self._bearer):
            return Refusal(401, "The token is missing or wrong.")
        return None
