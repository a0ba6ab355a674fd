"""What may not leave in a text or a URL (bridge/redaction.py; design 4)."""

from __future__ import annotations

import time

import pytest
from browsercell.bridge.redaction import CUT, EMAIL, MARKUP, SECRET, cut, redact_text, redact_url
from hypothesis import given
from hypothesis import strategies as st

JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Password: hunter2!", f"Password: {SECRET}"),
        ("the password is hunter2", f"the password is {SECRET}"),
        ("password is required", "password is required"),
        ("your token is valid", "your token is valid"),
        ("PIN is 4711", f"PIN is {SECRET}"),
        ("pin: 4711, ok", f"pin: {SECRET}, ok"),
        ("Session: Keynote at noon", "Session: Keynote at noon"),
        ('{"api_key": "abc def"}', f'{{"api_key": {SECRET}}}'),
        ("DB_PASSWORD='p w'", f"DB_PASSWORD={SECRET}"),
        ("verification code = 123456", f"verification code = {SECRET}"),
        ("monkey: banana", "monkey: banana"),
        ("密码：abc123，好", f"密码：{SECRET}，好"),
        ("验证码是 4711", f"验证码是 {SECRET}"),
        ("Authorization: Bearer abcdefgh12345", f"Authorization: {SECRET}"),
        (f"jwt {JWT} end", f"jwt {SECRET} end"),
        ("key sk-proj-abcdefghijklmnop1234", f"key {SECRET}"),
        ("ghp_" + "a" * 36, SECRET),
        ("AKIAIOSFODNN7EXAMPLE", SECRET),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----", SECRET),
        ("write to jane.doe+x@mail.example.org now", f"write to {EMAIL} now"),
        ("<b>bold</b> <!-- c --> </p x='1'>", f"{MARKUP}bold{MARKUP} {MARKUP} {MARKUP}"),
        ("<script src=x", MARKUP),
        ("5 < 6 and 7 > 3", "5 < 6 and 7 > 3"),
        ("two\n\n lines\tand \u202ehidden\u202c\x00", "two lines and hidden"),
        ("", ""),
        (
            "see https://u:pw@x.example/a?token=t&q=tea#frag.",
            f"see https://x.example/a?token={SECRET}&q=tea.",
        ),
        ("see https://[bad now", "see [address] now"),
    ],
)
def test_texts(text: str, expected: str) -> None:
    assert redact_text(text, 500) == expected
    assert redact_text(expected, 500) == expected  # nothing more to replace


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://shop.example/books?q=tea&page=2#top", "https://shop.example/books?q=tea&page=2"),
        ("https://user:secret@shop.example/", "https://shop.example/"),
        ("https://shop.example:8443/a", "https://shop.example:8443/a"),
        ("http://[2001:db8::1]:80/", "http://[2001:db8::1]:80/"),
        ("https://a.example/?accessToken=x&monkey=1", f"https://a.example/?accessToken={SECRET}&monkey=1"),
        ("https://a.example/?X-Amz-Signature=x", f"https://a.example/?X-Amz-Signature={SECRET}"),
        ("https://a.example/?code=abc&state=d&flag", f"https://a.example/?code={SECRET}&state={SECRET}&flag"),
        ("https://a.example/?session_id=&q=", "https://a.example/?session_id=&q="),
        ("https://a.example/?to=jane%40mail.example", f"https://a.example/?to={SECRET}"),
        (f"https://a.example/reset/{JWT}/x", f"https://a.example/reset/{SECRET}/x"),
        ("https://a.example/p;token=abc", f"https://a.example/{SECRET}"),
        ("javascript:alert(1)", ""),
        ("https:///nowhere", ""),
        ("https://a.example:99999/", ""),
        ("https://a.example/" + "x" * 100, ""),
        ("", ""),
    ],
)
def test_urls(url: str, expected: str) -> None:
    assert redact_url(url, 100) == expected
    assert redact_url(expected, 100) == expected


def test_a_text_is_cut_at_a_character_and_never_inside_a_replacement() -> None:
    assert cut("abcdef", 6) == "abcdef"
    assert cut("abcdef", 4) == "abc" + CUT
    assert cut("日本語テキスト", 4) == "日本語" + CUT
    for mark in (SECRET, MARKUP, EMAIL):
        for size in range(3, len(mark) + 2):
            assert cut(f"x {mark} tail", size) in ("x" + CUT, f"x {mark}{CUT}")


@given(st.text(max_size=400), st.integers(1, 60))
def test_a_result_keeps_its_bound_and_holds_no_controls(text: str, bound: int) -> None:
    out = redact_text(text, bound)
    assert len(out) <= bound
    assert out == out.strip()
    assert not any(ord(character) < 32 or 0xD800 <= ord(character) <= 0xDFFF for character in out)


@pytest.mark.parametrize(
    "evil",
    [
        "<a",
        "<",
        "eyJ-",
        "eyJ-.",
        "a@",
        "password ",
        "password:",
        "a_",
        "sk-",
        "http://",
        "https://a?",
        "a",
        "-----BEGIN A",
    ],
)
def test_no_input_costs_much(evil: str) -> None:
    """Half a second is a hundred times what the slowest takes here; a pattern that backtracks takes minutes."""
    started = time.perf_counter()
    redact_text(evil * 100_000, 4_000)
    redact_url("https://a.example/" + evil * 2_000, 4_096)
    assert time.perf_counter() - started < 0.5


@pytest.mark.parametrize(
    "number",
    [
        "4111111111111111", "4111 1111 1111 1111", "4111-1111-1111-1111", "5500 0000 0000 0004", "2223003122003222",
        "378282246310005", "3782 822463 10005", "30569309025904", "6011111111111117", "3530111333300000", "6200000000000005",
        "4222222222222",
    ],
)  # fmt: skip
def test_card_numbers_are_replaced(number: str) -> None:
    assert redact_text(f"paid with {number}, thanks", 200) == "paid with [card], thanks"
    assert number not in redact_url(f"https://shop.example/pay/{number}?n={number}", 200)


@pytest.mark.parametrize(
    "number",
    [
        "4111111111111112", "1234567890123456", "9780306406157", "411111111111", "41111111111111111111", "A4111111111111111",
        "4111111111111111B", "0.4111111111111111", "2026-12-01 10:20:30", "+49 30 1234567 89 10",
    ],
)  # fmt: skip
def test_other_long_numbers_stay(number: str) -> None:
    assert redact_text(f"order {number} is on its way", 200) == f"order {number} is on its way"
