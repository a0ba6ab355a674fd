"""What Chromium would make of a URL's text: scheme, host and port, as the URL Standard parses them (url.spec.whatwg.org).

Two parsers that disagree about one URL are a hole in a policy, so this one follows the browser's for what it
accepts (dropped tabs and line breaks, back-slashes, decimal, octal and hexadecimal IPv4, IPv6 in brackets, percent
escapes and full-width letters in host names, trailing dots) and refuses what is only ever written to confuse.

Invariants: `Destination.host` is lower-case ASCII; a host that the browser would read as an address is in
`Destination.address`; nothing is resolved here, and whether a destination is allowed is `network`'s business.

Pure: functions of text. Raises BadUrl with a code, never with the text.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Final
from urllib.parse import unquote_to_bytes

from ..protocol.limits import MAX_URL_CHARS

Address = IPv4Address | IPv6Address

_DEFAULT_PORT: Final = {"http": 80, "https": 443}
_MAX_PORT: Final = 65_535
_MAX_HOST: Final = 253  # characters of a host name in DNS (RFC 1035, 2.3.4), without the trailing dot
_MAX_LABEL: Final = 63

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_EDGES: Final = "".join(map(chr, range(0x21)))  # C0 controls and space are cut from both ends
_DROPPED: Final = dict.fromkeys(map(ord, "\t\n\r"))
# Names that DNS or a hosts file can hold. The browser also passes a few signs that no public name contains.
_LABEL: Final = re.compile(r"[a-z0-9_-]+")
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
_DOTS: Final = str.maketrans("\u3002\uff0e\uff61", "...")
# Letters that UTS 46 drops, or that Unicode versions map differently: a name that needs them is refused.
_INVISIBLE: Final = re.compile(
    "[\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u1e9e\u3164\ufe00-\ufe0f\uffa0\U000e0000-\U000e0fff]"
)
_BAD_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zs", "Zl", "Zp"})


class BadUrl(ValueError):
    """The text is no URL a page may be loaded from. `code`: "bad-url", "scheme" or "user-info"."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@dataclass(frozen=True, slots=True)
class Destination:
    """Where a URL leads. `host` is a name without its trailing dot, or the address's own spelling."""

    scheme: str
    host: str
    port: int
    address: Address | None


def parse_destination(text: str) -> Destination:
    """Parse an absolute http or https URL of at most MAX_URL_CHARS characters. Raises BadUrl."""
    if len(text) > MAX_URL_CHARS:
        raise BadUrl("bad-url")
    url = text.strip(_EDGES).translate(_DROPPED)
    match = _SCHEME.match(url)
    if match is None:
        raise BadUrl("bad-url")
    scheme = match[1].lower()
    if scheme not in _DEFAULT_PORT:
        raise BadUrl("scheme")
    rest = url[match.end() :].lstrip("/\\")  # the browser takes any number of either for "//"
    authority = re.split(r"[/\\?#]", rest, maxsplit=1)[0]
    if "@" in authority:
        raise BadUrl("user-info")
    raw_host, port = _split_port(authority, _DEFAULT_PORT[scheme])
    host, address = _parse_host(raw_host)
    return Destination(scheme, host, port, address)


def _split_port(authority: str, default: int) -> tuple[str, int]:
    end = authority.find("]") + 1 if authority.startswith("[") else 0
    colon = authority.find(":", end)
    if colon < 0:
        return authority, default
    digits = authority[colon + 1 :]
    if not digits:
        return authority[:colon], default
    # isascii: str.isdigit is true for digits of other scripts, which the browser refuses.
    if not (digits.isascii() and digits.isdigit()) or len(digits.lstrip("0")) > 5 or int(digits) > _MAX_PORT:
        raise BadUrl("bad-url")
    return authority[:colon], int(digits)


def _parse_host(raw: str) -> tuple[str, Address | None]:
    if raw.startswith("["):
        if not raw.endswith("]") or "%" in raw:  # a zone id has no meaning outside this machine
            raise BadUrl("bad-url")
        try:
            address = IPv6Address(raw[1:-1])
        except AddressValueError:
            raise BadUrl("bad-url") from None
        return str(address), address
    name = _ascii_name(raw)
    labels = name.removesuffix(".").split(".")
    if _NUMBER.fullmatch(labels[-1]):
        v4 = _parse_ipv4(labels)
        return str(v4), v4
    if sum(map(len, labels)) + len(labels) - 1 > _MAX_HOST:
        raise BadUrl("bad-url")
    if not all(_LABEL.fullmatch(label) and len(label) <= _MAX_LABEL for label in labels):
        raise BadUrl("bad-url")
    return ".".join(labels), None


def _ascii_name(raw: str) -> str:
    """Percent-decode, map as UTS 46 does (compatibility forms, case, dots) and encode in punycode (RFC 3492)."""
    try:
        decoded = unquote_to_bytes(raw).decode("utf-8")
    except UnicodeError:  # escapes that are no UTF-8, or half of a surrogate pair
        raise BadUrl("bad-url") from None
    if decoded.isascii():
        return decoded.lower()
    if _INVISIBLE.search(decoded):
        raise BadUrl("bad-url")
    # Letter by letter: str.lower turns a final sigma into another letter than the browser does.
    folded = "".join(letter.lower() for letter in unicodedata.normalize("NFKC", decoded.translate(_DOTS)))
    mapped = unicodedata.normalize("NFKC", folded)
    if any(unicodedata.category(letter) in _BAD_CATEGORIES for letter in mapped):
        raise BadUrl("bad-url")
    return ".".join(
        label if label.isascii() else "xn--" + label.encode("punycode").decode("ascii")
        for label in mapped.split(".")
    )


def _parse_ipv4(parts: list[str]) -> IPv4Address:
    """The URL Standard's IPv4 parser: one to four parts, each decimal, octal or hexadecimal; the last fills the rest."""
    if len(parts) > 4 or not all(_NUMBER.fullmatch(part) for part in parts):
        raise BadUrl("bad-url")
    numbers = [_ipv4_number(part) for part in parts]
    room = 256 ** (5 - len(numbers))  # values that the last part may take
    if any(number > 255 for number in numbers[:-1]) or numbers[-1] >= room:
        raise BadUrl("bad-url")
    value = numbers[-1]
    for index, number in enumerate(numbers[:-1]):
        value += number << (8 * (3 - index))
    return IPv4Address(value)


def _ipv4_number(part: str) -> int:
    if part.startswith("0x"):
        return int(part[2:] or "0", 16)
    if part.startswith("0") and len(part) > 1:
        if set(part) & {"8", "9"}:
            raise BadUrl("bad-url")
        return int(part, 8)
    if len(part) > 10:  # 2**32 has 10 digits; int() of thousands would be slow
        raise BadUrl("bad-url")
    return int(part)
