"""`urls`: hosts are read as the browser reads them, and what only confuses is refused (URL Standard, host parsing)."""

from __future__ import annotations

import pytest
from browsercell.bridge.urls import BadUrl, parse_destination
from browsercell.protocol.limits import MAX_URL_CHARS

# What Chromium's own parser must agree with; `tests/bridge/chromium/test_private_live.py` asks it about each row.
ACCEPTED: tuple[tuple[str, str, int], ...] = (
    ("http://example.org", "example.org", 80),
    ("https://example.org", "example.org", 443),
    ("https://example.org:8443/a?b#c", "example.org", 8443),
    ("HTTPS://EXAMPLE.ORG/", "example.org", 443),
    ("  http://example.org/  ", "example.org", 80),
    ("\x00\x1fhttp://example.org/", "example.org", 80),
    ("ht\ntp://exa\tmple.o\rrg/", "example.org", 80),
    ("http:example.org", "example.org", 80),
    ("http:/example.org", "example.org", 80),
    ("http:////example.org", "example.org", 80),
    ("http:\\\\example.org\\path", "example.org", 80),
    ("http://example.org\\@evil.example/", "example.org", 80),
    ("http://example.org?@evil.example/", "example.org", 80),
    ("http://example.org#@evil.example/", "example.org", 80),
    ("http://example.org:/", "example.org", 80),
    ("http://example.org:00080/", "example.org", 80),
    ("http://example.org:0/", "example.org", 0),
    ("http://example.org:65535/", "example.org", 65535),
    ("http://a_b.example/", "a_b.example", 80),
    ("http://ex%61mple.org/", "example.org", 80),
    ("http://%65%78ample%2Eorg/", "example.org", 80),
    ("http://xn--bcher-kva.example/", "xn--bcher-kva.example", 80),
    ("http://b\u00fccher.example/", "xn--bcher-kva.example", 80),
    ("http://B\u00dcCHER.example/", "xn--bcher-kva.example", 80),
    ("http://b%C3%BCcher.example/", "xn--bcher-kva.example", 80),
    ("http://stra\u00dfe.example/", "xn--strae-oqa.example", 80),
    ("http://\u03a3\u03a3.example/", "xn--4xaa.example", 80),
    ("http://\u4f8b\u3048\u3002jp/", "xn--r8jz45g.jp", 80),
    ("http://\uff45xample\uff0eorg/", "example.org", 80),
    ("http://127.0.0.1/", "127.0.0.1", 80),
    ("http://127.1/", "127.0.0.1", 80),
    ("http://127.0.1/", "127.0.0.1", 80),
    ("http://2130706433/", "127.0.0.1", 80),
    ("http://0x7f000001/", "127.0.0.1", 80),
    ("http://0X7F.1/", "127.0.0.1", 80),
    ("http://0177.0.0.01/", "127.0.0.1", 80),
    ("http://017700000001/", "127.0.0.1", 80),
    ("http://0x/", "0.0.0.0", 80),
    ("http://0/", "0.0.0.0", 80),
    ("http://1.2.3/", "1.2.0.3", 80),
    ("http://1.2.65535/", "1.2.255.255", 80),
    ("http://4294967295/", "255.255.255.255", 80),
    ("http://\uff11\uff12\uff17.0.0.1/", "127.0.0.1", 80),
    ("http://127\u30020\u30020\u30021/", "127.0.0.1", 80),
    ("http://%31%32%37.0.0.1/", "127.0.0.1", 80),
    ("http://\u2460.0.0.1/", "1.0.0.1", 80),
    ("http://[::1]/", "::1", 80),
    ("http://[::1]:8080/", "::1", 8080),
    ("http://[0:0:0:0:0:0:0:1]/", "::1", 80),
    ("http://[::FFFF:127.0.0.1]/", "::ffff:7f00:1", 80),
    ("http://[2001:DB8::A]/", "2001:db8::a", 80),
)  # fmt: skip
TRAILING_DOT: tuple[tuple[str, str], ...] = (
    ("http://example.org./", "example.org"),
    ("http://127.0.0.1./", "127.0.0.1"),
)
REFUSED: tuple[tuple[str, str], ...] = (
    ("", "bad-url"),
    ("example.org", "bad-url"),
    ("//example.org/", "bad-url"),
    ("1http://example.org/", "bad-url"),
    ("http://", "bad-url"),
    ("http:///", "bad-url"),
    ("http://:80/", "bad-url"),
    ("http://./", "bad-url"),
    ("http://../", "bad-url"),
    ("http://a..b/", "bad-url"),
    ("http://exa mple.org/", "bad-url"),
    ("http://exa<mple.org/", "bad-url"),
    ("http://exa%00mple.org/", "bad-url"),
    ("http://exa%2Fmple.org/", "bad-url"),
    ("http://exa%40mple.org/", "bad-url"),
    ("http://ex%FFample.org/", "bad-url"),
    ("http://ex%zzample.org/", "bad-url"),
    ("http://ex\ud800ample.org/", "bad-url"),
    ("http://exa\u00admple.org/", "bad-url"),
    ("http://exa\u200bmple.org/", "bad-url"),
    ("http://exa\u200dmple.org/", "bad-url"),
    ("http://exa\u1e9emple.org/", "bad-url"),
    ("http://exa\ufe0fmple.org/", "bad-url"),
    ("http://exa\ue000mple.org/", "bad-url"),
    ("http://exa\u2003mple.org/", "bad-url"),
    ("http://exa\u2100mple.org/", "bad-url"),
    ("http://" + "a" * 64 + ".org/", "bad-url"),
    ("http://" + "a." * 127 + "org/", "bad-url"),
    ("http://example.org:65536/", "bad-url"),
    ("http://example.org:123456/", "bad-url"),
    ("http://example.org:8a/", "bad-url"),
    ("http://example.org:-1/", "bad-url"),
    ("http://example.org:\u0661/", "bad-url"),
    ("http://example.org:80:80/", "bad-url"),
    ("http://256.0.0.1/", "bad-url"),
    ("http://1.2.3.256/", "bad-url"),
    ("http://1.2.65536/", "bad-url"),
    ("http://4294967296/", "bad-url"),
    ("http://99999999999/", "bad-url"),
    ("http://1.2.3.4.5/", "bad-url"),
    ("http://example.1/", "bad-url"),
    ("http://09.0.0.1/", "bad-url"),
    ("http://1.2.3.09/", "bad-url"),
    ("http://1..2/", "bad-url"),
    ("http://[::1/", "bad-url"),
    ("http://[::1]x/", "bad-url"),
    ("http://[::g]/", "bad-url"),
    ("http://[fe80::1%25eth0]/", "bad-url"),
    ("http://[1.2.3.4]/", "bad-url"),
    ("http://[]/", "bad-url"),
    ("http://user@example.org/", "user-info"),
    ("http://user:secret@example.org/", "user-info"),
    ("http://@example.org/", "user-info"),
    ("http:\\\\user@example.org/", "user-info"),
    ("http://example.org%2F@evil.example/", "user-info"),
    ("chrome://settings/", "scheme"),
    ("chrome-extension://abcdefghijklmnopabcdefghijklmnop/", "scheme"),
    ("devtools://devtools/", "scheme"),
    ("view-source:http://example.org/", "scheme"),
    ("file:///etc/passwd", "scheme"),
    ("data:text/html,x", "scheme"),
    ("javascript:alert(1)", "scheme"),
    ("java\nscript:alert(1)", "scheme"),
    ("blob:http://example.org/x", "scheme"),
    ("about:blank", "scheme"),
    ("ftp://example.org/", "scheme"),
    ("ws://example.org/", "scheme"),
    ("mailto:someone@example.org", "scheme"),
    ("filesystem:http://example.org/", "scheme"),
)  # fmt: skip


@pytest.mark.parametrize(("url", "host", "port"), ACCEPTED, ids=repr)
def test_accepted(url: str, host: str, port: int) -> None:
    destination = parse_destination(url)
    assert (destination.host, destination.port) == (host, port)
    is_address = host.replace(".", "").isdigit() or ":" in host
    assert (destination.address is not None) == is_address


@pytest.mark.parametrize(("url", "host"), TRAILING_DOT, ids=repr)
def test_a_trailing_dot_names_the_same_host(url: str, host: str) -> None:
    assert parse_destination(url).host == host


@pytest.mark.parametrize(("url", "code"), REFUSED, ids=repr)
def test_refused(url: str, code: str) -> None:
    with pytest.raises(BadUrl) as refusal:
        parse_destination(url)
    assert refusal.value.code == code
    assert str(refusal.value) == code  # never the text


def test_length_is_bounded() -> None:
    longest = "http://example.org/".ljust(MAX_URL_CHARS, "a")
    assert parse_destination(longest).scheme == "http"
    with pytest.raises(BadUrl, match="bad-url"):
        parse_destination(longest + "a")
