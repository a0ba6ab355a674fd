"""The task's policy at the bridge: which tool may run, which page may be (design 3; protocol/policies.py has the words).

Two questions are asked of it: before every command, may this tool run; and of every URL that a page is, was, or is about to
be at, is it of an allowed origin. The second is asked by the runner for each command's own URL, for the page a
command is about to act on and for the page every reply comes from, and by the guard of a private Chromium for each
document request before it is sent: typed addresses, links, redirects hop by hop, form targets, frames and popups alike.
`data:`, `blob:`, `javascript:` and every other scheme but http and https are of no origin, so no page can be there.
With `read`, no effect tool runs, and a document request with a method other than GET or HEAD is a form and is not sent.

Not covered: requests of a page that load no document (scripts, images, fetch) go where the network policy lets them.

Pure: functions of text and settings.
"""

from __future__ import annotations

from typing import Final

from ..protocol.policies import Origin, is_named, parse_origins
from ..protocol.results import Actions, Policy
from .urls import BadUrl, Destination, parse_destination

# Tools that may change something on the other side. `effect` in the catalogue is wider: it also marks what changes tabs.
EFFECT_TOOLS: Final = frozenset(
    {"browser_page_click", "browser_page_type", "browser_page_press", "browser_page_select"}
)
NOT_ALLOWED: Final = "not-in-origins"  # beside the codes of network.Refusal
FORM: Final = "form-in-read-only"
_READING: Final = frozenset({"GET", "HEAD"})


class TaskPolicy:
    """One task's. Raises UsageError for origins that can't be read (the supervisor has checked them)."""

    __slots__ = ("_origins", "_reads")

    def __init__(self, policy: Policy) -> None:
        self._origins: tuple[Origin, ...] | None = parse_origins(policy.origins)
        self._reads = policy.actions is Actions.READ

    def allows_tool(self, tool: str) -> bool:
        """Whether `tool` may run at all."""
        return not self._reads or tool not in EFFECT_TOOLS

    def refuses_url(self, url: str) -> str:
        """Why no page may be at `url`, "" if one may: as far as this policy goes, the network policy is asked besides."""
        if self._origins is None:
            return ""
        try:
            to = parse_destination(url)
        except BadUrl as error:
            return error.code
        covered = any(origin.covers(to.scheme, _host(to), to.port) for origin in self._origins)
        return "" if covered else NOT_ALLOWED

    def refuses_request(self, url: str, method: str) -> str:
        """The same for a document request that is about to be sent with `method`."""
        if self._reads and method.upper() not in _READING:
            return FORM
        return self.refuses_url(url)


def named_origin(url: str, policy: Policy, start_url: str) -> str:
    """The origin of `url` where the host has written that very origin, else ""."""
    try:
        to = parse_destination(url)
    except BadUrl:
        return ""
    host = f"[{_host(to)}]" if ":" in to.host else _host(to)
    usual = (to.scheme, to.port) in (("http", 80), ("https", 443))
    origin = f"{to.scheme}://{host}" if usual else f"{to.scheme}://{host}:{to.port}"
    return origin if is_named(origin, policy, start_url) else ""


def _host(to: Destination) -> str:
    return to.host if to.address is None else str(to.address)
