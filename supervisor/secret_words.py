"""Does a request hold a password, token, API key or other secret: text, address or variable -> bool (design 3).

Found are assignments ("password: hunter2", "passwort ist X", "密码是…", `?token=…`), the well-known shapes of keys, and
variables that are named like a secret. A word alone ("the password reset page"), or one that is only spoken of
("password is required"), is none; a `${name}` is a reference.

It is a net for what people write without thinking, not a proof: a secret that nothing announces is not recognised.
Pure: text in, a truth value out; it never returns what it found.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qsl, urlsplit

_PASSWORD: Final = (
    r"(?:pass(?:word|wd|phrase|code)s?|passwort|kennwort|pwd|contraseña|"
    r"mot de passe|senha|密码|密碼|口令)"
)
_NAME: Final = (
    rf"(?:{_PASSWORD}|(?:secret|token|api[ _-]?key|access[ _-]?key|private[ _-]?key|secret[ _-]?key|credential|otp|"
    r"令牌|密钥|密鑰|验证码|驗證碼)s?)"
)
_IS: Final = r"(?:\s+(?:is|are|ist|lautet|es|est|é)\s+|\s*(?:为|為|是)\s*)"
_ASSIGNED: Final = re.compile(
    rf"(?i)(?<![a-z]){_NAME}[\"'`]?\s*(?:=|:|：|:=|=>)\s*(?![$<{{]|https?:)[\"'`]?(?=\S{{4}})"
)
_TOLD: Final = re.compile(
    rf"(?i)(?<![a-z]){_NAME}{_IS}[\"'`“„]?(?=\S{{4}})(?=\S*[0-9!@#%^&*_+=])(?![$<{{])\S"
)
# "the password is swordfish": any word that does not describe a password.
_TOLD_WORD: Final = re.compile(rf"(?i)(?<![a-z]){_PASSWORD}{_IS}[\"'`“„]?([^\s\"'`”“$<{{]{{3,}})")
_DESCRIBING: Final = re.compile(
    r"(?i)(?:\w+(?:ed|en|ing|able|ible|ly|lich)|not|wrong|right|correct|incorrect|lost|sent|set|put|kept|invalid|valid|weak|"
    r"strong|secure|safe|empty|blank|optional|mandatory|necessary|secret|private|public|good|bad|fine|new|old|short|long|"
    r"longer|shorter|too|the|this|that|there|here|also|still|already|always|never|now|only|just|for|from|what|where|when|"
    r"which|why|how|and|but|case|case-sensitive|more|less|hard|easy|any|all|some|part|your|his|"
    r"her|their|its|six|seven|eight|nine|ten|eleven|twelve|visible|present|absent|available|unique|one|same|different|required|"
    r"nicht|falsch|richtig|korrekt|leer|erforderlich|notwendig|abgelaufen|gesperrt|sicher|unsicher|schwach|stark|das|der|"
    r"die|noch|schon|bereits|immer|nie|nur|auch|ein|eine|gleich|zwingend|bekannt|unbekannt|gültig|ungültig)"
)
# "log in with password hunter2": said after a word of use, and with a digit.
_USED: Final = re.compile(
    rf"(?i)\b(?:with|use|using|enter|type|mit|and|und)\s+(?:(?:the|my|das|meinem)\s+)?(?:{_PASSWORD}|pin)\s+[\"'`“„]?"
    r"(?=\S*[0-9])(?![$<{])\S{4,}"
)
# "user admin password admin123": small letters and digits mixed, which no name of a method ("SHA256") has.
_BESIDE: Final = re.compile(
    r"(?i:(?<![a-z])(?:password|passwort|kennwort|passphrase|passwd|pwd))\s+[\"'`“„]?(?=[^\s/]*[a-z])(?=[^\s/]*[0-9])"
    r"(?![$<{])[^\s/]{6,}"
)
# A Chinese sentence has no spaces: what follows must be Latin letters, digits or signs.
_TOLD_CHINESE: Final = re.compile(
    r"(?:密码|密碼|口令|令牌|密钥|密鑰|验证码|驗證碼)\s*(?:[:：=]|是|为|為)\s*(?![$<{]|https?:)[\"'“「]?[!-~]{3}"
)
_PIN: Final = re.compile(
    r"(?i)(?<![a-z])pin(?:[ -]?(?:code|number|nummer))?\s*(?:=|:|：|is|ist|lautet|是|为)\s*[0-9]{3,}"
)
_KNOWN: Final = re.compile(
    r"\bsk[-_](?=[A-Za-z_-]*[0-9])[A-Za-z0-9_-]{8,}|\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}"
    r"|glpat-[A-Za-z0-9_-]{16,}|hf_[A-Za-z0-9]{20,}|A[KS]IA[0-9A-Z]{16}|xox[abprs]-[A-Za-z0-9-]{10,}"
    r"|eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{5,}|AIza[0-9A-Za-z_-]{30,}|Bearer\s+[A-Za-z0-9._~+/-]{16,})"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY|(?i:https?)://[^\s/?#:@]+:[^\s/?#@]+@"
)
_ADDRESS: Final = re.compile(r"(?i)https?://[^\s\"'<>`]+")

# The last word of a name says what it is: `user_password`, `accessToken`; but `password_reset` and `token_ring` are none.
_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\dA-Za-z_]+")
_SECRET_WORD: Final = re.compile(
    r".*(?:password|passwort|kennwort|passwd|passphrase|passcode|secret|token|apikey|accesskey|privatekey|credential)s?"
    r"|pwd|pass|pw|psw|pin|otp|totp|jwt|contraseña|senha|密码|密碼|口令|令牌|密钥|密鑰|验证码|驗證碼"
)
_KEY_BEFORE: Final = frozenset(
    {"api", "access", "private", "secret", "signing", "auth", "encryption", "app", "client"}
)
# A token that only says where a list goes on.
_CURSORS: Final = frozenset({"page", "next", "continuation", "sync", "cursor", "resume", "start"})
_MIN_VALUE: Final = 3  # characters: `token=1` is a switch, not a secret


def has_secret(text: str) -> bool:
    """Whether `text` holds an assignment-like password, token, API key or secret, or a well-known kind of key."""
    found = (_ASSIGNED, _TOLD, _USED, _BESIDE, _TOLD_CHINESE, _PIN, _KNOWN)
    if any(pattern.search(text) for pattern in found):
        return True
    words = (match.group(1).rstrip(".,;:!?)") for match in _TOLD_WORD.finditer(text))
    if any(len(word) >= _MIN_VALUE and word.isascii() and not _DESCRIBING.fullmatch(word) for word in words):
        return True
    return any(address_has_secret(match.group()) for match in _ADDRESS.finditer(text))


def address_has_secret(url: str) -> bool:
    """Whether a parameter of the query or the fragment of `url` is a secret, or any part has the shape of a key."""
    if _KNOWN.search(url):
        return True
    try:
        parts = urlsplit(url)
        # More parameters than that are not looked at one by one: the address is no longer than a few thousand characters.
        pairs = [*parse_qsl(parts.query), *parse_qsl(parts.fragment.partition("?")[2] or parts.fragment)]
    except ValueError:
        return False  # no address; it is refused as one elsewhere
    return any(_is_secret(name, value) for name, value in pairs)


def variable_has_secret(name: str, value: str) -> bool:
    """Whether a variable is named like a secret, or its value looks like one."""
    return (bool(value) and is_secret_name(name)) or has_secret(value)


def variables_with_secret(variables: Mapping[str, str]) -> str | None:
    """The name of the first variable that is, or holds, a secret; used or not."""
    return next((name for name, value in variables.items() if variable_has_secret(name, value)), None)


def is_secret_name(name: str) -> bool:
    """Whether a variable or parameter of that name holds a secret, going by its last word."""
    words = [word.lower() for word in _WORDS.findall(name)]
    if not words:
        return False
    before = words[-2] if len(words) > 1 else ""
    if words[-1] in ("key", "keys"):
        return before in _KEY_BEFORE
    if before in _CURSORS or any(words[-1] == f"{cursor}token" for cursor in _CURSORS):
        return False
    return _SECRET_WORD.fullmatch(words[-1]) is not None


def _is_secret(name: str, value: str) -> bool:
    if len(value) < _MIN_VALUE or value.startswith("${"):
        return False
    # A bare `key` is a key of an API or of a sort order: only the value tells them apart.
    bare = name.lower() in ("key", "auth", "sig", "signature", "code_verifier")
    return is_secret_name(name) or (bare and any(letter.isdigit() for letter in value))
