"""The network policy: which URL a page may be loaded from (design 5 and 10; settings `[network]`).

The verdict needs two steps around a name look-up: `prepare` says at once what is wrong with a URL, or which name is
to be resolved; `judge` takes every address the name has, and one bad address is enough to refuse.

Rules, first match wins: http and https without user info; never a listener of our own, in any mode; never
an address in `deny_cidrs`; `unrestricted` lets the rest through; `allowlist` lets `allow_hosts` and `allow_cidrs`
through; everything else must be a public address. IPv4 inside IPv6 (mapped, compatible, NAT64) is judged as
what it reaches. Until connections go through a proxy of ours, the browser resolves the name a second time: a name
server that answers twice differently is not caught here.

Pure: resolves nothing (`resolver` does), logs nothing. Codes are closed (`Refusal`) and hold no part of the URL.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

from ..protocol.errors import UsageError
from ..protocol.settings import NetworkMode, NetworkSettings
from .urls import Address, BadUrl, Destination, parse_destination

Network = IPv4Network | IPv6Network


class Refusal(StrEnum):
    """Why a URL is refused."""

    BAD_URL = "bad-url"
    SCHEME = "scheme"
    USER_INFO = "user-info"
    OWN_LISTENER = "own-listener"
    DENIED = "denied"
    NOT_PUBLIC = "not-public"
    UNRESOLVABLE = "unresolvable"


@dataclass(frozen=True, slots=True)
class Resolve:
    """`prepare`'s other answer: look this destination's name up and `judge` the addresses."""

    destination: Destination


# What is not the public internet (IANA special-purpose registries, RFC 6890 and successors).
_NOT_PUBLIC_V4: Final = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",  # this network; Linux connects to loopback
            "10.0.0.0/8",
            "100.64.0.0/10",  # carrier-grade NAT
            "127.0.0.0/8",
            "169.254.0.0/16",  # link-local, cloud metadata
            "172.16.0.0/12",
            "192.0.0.0/24",
            "192.0.2.0/24",  # documentation
            "192.88.99.0/24",  # 6to4 relays
            "192.168.0.0/16",
            "198.18.0.0/15",  # benchmarks
            "198.51.100.0/24",
            "203.0.113.0/24",
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",  # reserved, broadcast
        ),
    )
)
_PUBLIC_V6: Final = IPv6Network("2000::/3")  # all that has been given out; the rest is special or unassigned
_NOT_PUBLIC_V6: Final = tuple(
    map(
        IPv6Network,
        (
            "2001::/23",  # protocol assignments: Teredo, ORCHID, benchmarks
            "2001:db8::/32",  # documentation
            "2002::/16",  # 6to4: wraps an IPv4 address that nobody can vouch for
            "3fff::/20",  # documentation
        ),
    )
)
_V4_IN_V6: Final = tuple(map(IPv6Network, ("::ffff:0:0/96", "64:ff9b::/96", "::/96")))
_V6_SPECIAL: Final = frozenset({IPv6Address("::"), IPv6Address("::1")})
_LOOPBACK: Final[tuple[Address, ...]] = (IPv4Address("127.0.0.1"), IPv6Address("::1"))


class NetworkPolicy:
    """The rules of one bridge. `own_ports`: TCP ports of our listeners on this machine's loopback."""

    __slots__ = ("_allow", "_deny", "_hosts", "_mode", "_own_ports", "_suffixes")

    def __init__(self, settings: NetworkSettings, own_ports: Iterable[int] = ()) -> None:
        """Raises UsageError if a network can't be read (the text names the setting, not the value's owner)."""
        self._mode = settings.mode
        self._allow = _networks(settings.allow_cidrs, "allow_cidrs")
        self._deny = _networks(settings.deny_cidrs, "deny_cidrs")
        names = [name.lower().removesuffix(".") for name in settings.allow_hosts]
        self._hosts = frozenset(name for name in names if not name.startswith("."))
        self._suffixes = tuple(name for name in names if name.startswith("."))
        self._own_ports = frozenset(own_ports)

    def prepare(self, url: str) -> Refusal | Resolve | None:
        """Judge as far as the text goes: refused, allowed (None), or a name to resolve first."""
        try:
            destination = parse_destination(url)
        except BadUrl as error:
            return Refusal(error.code)
        if destination.address is not None:
            return self.judge(destination, (destination.address,))
        if _is_localhost(destination.host):  # the browser answers these itself, whatever DNS says (RFC 6761)
            return self.judge(destination, _LOOPBACK)
        return Resolve(destination)

    def judge(self, destination: Destination, addresses: Iterable[Address]) -> Refusal | None:
        """Judge the addresses that `destination`'s host has. None: allowed. No address at all: unresolvable."""
        verdicts = [self._judge_address(destination, address) for address in addresses]
        if not verdicts:
            return Refusal.UNRESOLVABLE
        return next((verdict for verdict in verdicts if verdict is not None), None)

    def _judge_address(self, destination: Destination, address: Address) -> Refusal | None:
        reached = unwrap(address)
        if destination.port in self._own_ports and (reached.is_loopback or reached.is_unspecified):
            return Refusal.OWN_LISTENER
        if _within(address, self._deny) or _within(reached, self._deny):
            return Refusal.DENIED
        if self._mode is NetworkMode.UNRESTRICTED or is_public(reached):
            return None
        if self._mode is NetworkMode.ALLOWLIST and (
            destination.host in self._hosts
            # The dot guards against `evilexample.org`; a bare `.` would match every name.
            or any(len(suffix) > 1 and destination.host.endswith(suffix) for suffix in self._suffixes)
            or _within(reached, self._allow)
        ):
            return None
        return Refusal.NOT_PUBLIC


def unwrap(address: Address) -> Address:
    """The IPv4 address that an IPv6 one of a translating form reaches; any other address unchanged."""
    if isinstance(address, IPv6Address) and address not in _V6_SPECIAL:
        for network in _V4_IN_V6:
            if address in network:
                return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address


def is_public(address: Address) -> bool:
    """Whether an unwrapped address is one of the public internet."""
    if isinstance(address, IPv4Address):
        return not _within(address, _NOT_PUBLIC_V4)
    return address in _PUBLIC_V6 and not _within(address, _NOT_PUBLIC_V6)


def parse_address(text: str) -> Address | None:
    """An address as the resolver spells it (a zone after `%` is cut); None if it is none."""
    try:
        return ip_address(text.partition("%")[0])
    except ValueError:
        return None


def _is_localhost(host: str) -> bool:
    return host == "localhost" or host.endswith(".localhost")


def _within(address: Address, networks: Iterable[Network]) -> bool:
    return any(address in network for network in networks)


def _networks(texts: Iterable[str], setting: str) -> tuple[Network, ...]:
    try:
        return tuple(ip_network(text, strict=False) for text in texts)
    except ValueError:
        raise UsageError(
            f"a network in network.{setting} can't be read",
            next_step="write it like 192.0.2.0/24 or 2001:db8::/32",
        ) from None
