"""Redaction: what may not leave in a text or a URL is replaced, never a reason to lose the text (design 4).

Replaced in texts: markup, credentials by their form (bearer and API tokens, JSON web tokens, private keys), values
assigned to a credential's name (English and Chinese), e-mail addresses, numbers of payment cards (13 to 19 digits of
a card network's range that pass its check sum), user info and sensitive parameters of URLs;
control and direction-changing characters are dropped, runs of white space collapse to one space.

Invariants: a result is never longer than asked for, and is cut at a character boundary, never inside a replacement;
the time is linear in the input, whatever a page author wrote: every repetition in a pattern is bounded, and the input
itself is cut before it is searched.

It recognises forms, not meanings: a password without a name beside it looks like any word. What must not leave at all
is kept back elsewhere (the page runtime never returns the value of a sensitive field).

Pure: text in, text out.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote, urlsplit, urlunsplit

MARKUP: Final = "[markup]"
SECRET: Final = "[secret]"
EMAIL: Final = "[e-mail]"
CARD: Final = "[card]"
ADDRESS: Final = "[address]"
CUT: Final = "…"
# Read at most this many times the wanted length: what was replaced may have been longer than its replacement.
_SLACK: Final = 4

# Words whose value is a credential wherever it stands; the weak ones only before something that has a digit.
_STRONG: Final = (
    r"passw(?:or)?ds?|passwd|pwd|passphrase|passcode|secrets?|tokens?|api[ _-]?keys?|access[ _-]?keys?"
    r"|private[ _-]?keys?|otp|totp|cvv2?|cvc|(?:verification|security|one[ _-]?time)[ _-]?codes?"
)
_WEAK: Final = r"credentials?|authorization|auth|sess(?:ion)?(?:[ _-]?ids?)?|sid|cookies?|pin|jwt|csrf|xsrf|signature|sig"
_CHINESE: Final = "密码|口令|密钥|令牌|验证码|校验码|安全码|动态码"
_WORD: Final = r"(?<![A-Za-z])(?:[A-Za-z0-9]{1,20}[_-]){0,3}"
_VALUE: Final = r"(?:\"[^\"\n]{1,400}\"?|'[^'\n]{1,400}'?|[^\s\"',;&<>]{1,400})"
_DIGIT: Final = r"(?=\S{0,60}?[0-9!@#$%^&*_])"
_NOT_YET: Final = r"(?!\[secret\])"

# In the order they run: the forms that contain others first.
_PATTERNS: Final = (
    (
        re.compile(
            r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----[^-]{0,20000}(?:-----END [A-Z ]{0,40}PRIVATE KEY-----)?"
        ),
        SECRET,
    ),
    # A tag, a comment or a declaration, its end cut off perhaps; the lone "<" of a comparison stays.
    (re.compile(r"<(?:[A-Za-z]|[!/?][A-Za-z\[-])[^<>]{0,4000}(?:>|$)"), MARKUP),
    (re.compile(r"\b(?i:bearer|basic)[ \t]{1,4}[A-Za-z0-9._~+/=-]{8,4000}"), SECRET),
    (
        re.compile(r"\beyJ[A-Za-z0-9_-]{5,2000}\.[A-Za-z0-9_-]{2,4000}(?:\.[A-Za-z0-9_-]{0,4000})?"),
        SECRET,
    ),
    (
        re.compile(
            r"\b(?:sk|pk|rk)[-_](?:[A-Za-z0-9]{1,16}[-_]){0,3}[A-Za-z0-9_-]{16,400}"
            r"|\bgh[pousr]_[A-Za-z0-9]{20,255}|\bgithub_pat_[A-Za-z0-9_]{20,255}|\bglpat-[A-Za-z0-9_-]{16,255}"
            r"|\bxox[abeoprs]-[A-Za-z0-9-]{10,255}|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|\bAIza[A-Za-z0-9_-]{30,60}"
            r"|\bnpm_[A-Za-z0-9]{30,60}|\bya29\.[A-Za-z0-9_-]{20,400}"
        ),
        SECRET,
    ),
    (
        re.compile(rf"(?i:({_WORD}(?:{_STRONG})[\"']?[ \t]{{0,4}}[:=][ \t]{{0,4}})){_NOT_YET}{_VALUE}"),
        rf"\1{SECRET}",
    ),
    (
        re.compile(
            rf"(?i:({_WORD}(?:(?:{_STRONG}|{_WEAK})[ \t]{{1,4}}is[ \t]{{1,4}}|(?:{_WEAK})[\"']?[ \t]{{0,4}}[:=][ \t]{{0,4}})))"
            rf"{_NOT_YET}{_DIGIT}{_VALUE}"
        ),
        rf"\1{SECRET}",
    ),
    (
        re.compile(rf"((?:{_CHINESE})[ \t]{{0,4}}[:=：是为][ \t]{{0,4}}){_NOT_YET}[^\s,，。;；]{{1,400}}"),
        rf"\1{SECRET}",
    ),
    (re.compile(r"[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,8}"), EMAIL),
)
# First digits of the networks (Visa, Mastercard, American Express, Diners, JCB, Discover, Maestro, UnionPay), written in one
# or in groups; a longer run of digits is no card's.
_CARD: Final = re.compile(
    r"(?<![0-9A-Za-z.])(?:4|5[0-8]|2[2-7]|3[0-9]|6[0-9])(?:[ -]?[0-9]){11,17}(?![ -]?[0-9])(?![A-Za-z])",
    re.ASCII,
)
_URL: Final = re.compile(r"\b(?i:https?)://[^\s<>\"'`]{1,4096}")
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_PARAMETER: Final = re.compile(
    rf"(?:^|[^a-z])(?:{_STRONG}|{_WEAK}|code|state|key|ticket|saml(?:request|response)?|nonce|hash|hmac"
    r"|e?mail|user(?:name)?|phone|x-(?:amz|goog)-[a-z-]{1,40})(?:$|[^a-z])"
)
_DROPPED: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)
_SPACE: Final = re.compile(r"\s+")


def redact_text(text: str, max_chars: int) -> str:
    """`text` on one line, without what may not leave, at most `max_chars` characters (then it ends in "…")."""
    out = text[: max_chars * _SLACK + 256]
    out = _SPACE.sub(" ", _DROPPED.sub("", out)).strip()
    out = _URL.sub(lambda match: _url_in_text(match.group()), out)
    for pattern, replacement in _PATTERNS:
        out = pattern.sub(replacement, out)
    out = _CARD.sub(_card, out)
    return cut(out, max_chars)


def cut(text: str, max_chars: int) -> str:
    """`text`, or its beginning and "…", in at most `max_chars` (>= 1) characters; no replacement is cut in half."""
    if len(text) <= max_chars:
        return text
    head = text[: max_chars - 1]
    for mark in (MARKUP, SECRET, EMAIL, CARD, ADDRESS):
        for size in range(len(mark) - 1, 0, -1):
            if head.endswith(mark[:size]):
                head = head[: len(head) - size]
                break
    return head.rstrip() + CUT


def redact_url(url: str, max_chars: int) -> str:
    """`url` without user info and fragment, with the values of sensitive parameters replaced.

    "" if it is no http or https URL or would be longer than `max_chars`: half an address is worse than none.
    """
    try:
        parts = urlsplit(_DROPPED.sub("", url).strip())
        port = parts.port
    except ValueError:
        return ""
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return ""
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    netloc = host if port is None else f"{host}:{port}"
    path = "/".join(_segment(segment) for segment in parts.path.split("/"))
    query = "&".join(_parameter(pair) for pair in parts.query.split("&")) if parts.query else ""
    out = urlunsplit((parts.scheme, netloc, path, query, ""))
    return out if len(out) <= max_chars else ""


def _url_in_text(url: str) -> str:
    trailing = url[len(url.rstrip(".,;:!?)]}")) :]
    return (redact_url(url[: len(url) - len(trailing)], 4096) or ADDRESS) + trailing


def _segment(segment: str) -> str:
    """A path segment: `;name=value` parameters and tokens in the path are credentials, too."""
    return SECRET if _holds_secret(unquote(segment)) else segment


def _parameter(pair: str) -> str:
    name, equals, value = pair.partition("=")
    if not equals or not value or value == SECRET:
        return pair
    plain = _HUMP.sub("_", unquote(name)).lower()
    if _PARAMETER.search(plain) or _holds_secret(unquote(value.replace("+", " "))):
        return f"{name}={SECRET}"
    return pair


def _holds_secret(text: str) -> bool:
    return any(pattern.search(text) for pattern, _ in _PATTERNS) or any(
        _card(match) == CARD for match in _CARD.finditer(text)
    )


def _card(match: re.Match[str]) -> str:
    """`CARD` for a card's number (ISO/IEC 7812: Luhn's check sum), else what stood there: most long numbers are none."""
    digits = [ord(sign) - 48 for sign in match.group() if sign.isdigit()]
    doubled = [digit * 2 - 9 * (digit > 4) for digit in digits[-2::-2]]
    return CARD if (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0 else match.group()
