"""What is taken for a secret, and what ordinary sentences, addresses and variables are not."""

from __future__ import annotations

import pytest
from browsercell.supervisor.secret_words import (
    address_has_secret,
    has_secret,
    is_secret_name,
    variable_has_secret,
    variables_with_secret,
)


@pytest.mark.parametrize(
    "text",
    [
        "Log in, password: hunter2!",
        "use PASSWORD=abcd",
        "my api key is 8f3a92bc",
        'the token: "abcdefgh"',
        "secret => s3cr3t-value",
        "access_key=AKxyz123",
        "密码：abc12345",
        "密码:abc",
        "登录，口令是 abc12345",
        "密码是hunter",
        "密碼為 Geheim",
        "我的密码是abc123，请登录",
        "call with sk-abcdefghijklmnop1234",
        "key sk-abc123def456",
        "ghp_abcdefghijklmnopqrstuvwx",
        "Authorization: Bearer abcdefghijklmnopqrst",
        "AKIAABCDEFGHIJKLMNOP",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0",
        "passwort ist Geheim123",
        "Das Passwort ist Sonnenblume",
        "Melde dich an, Passwort: Sonne",
        "pin is 4711",
        "PIN: 4711",
        "my PIN code is 4711.",
        "my password is hunter",
        'My password is "swordfish", log in',
        "Log in; the password is swordfish.",
        "Log in as bob with password hunter2",
        "user admin password admin123",
        "enter pin 4711",
        "Open https://example.com/?token=abcd and read it",
        "Open https://bob:hunter@example.com/",
        "-----BEGIN RSA PRIVATE KEY-----",
    ],
)
def test_secrets_are_found(text: str) -> None:
    assert has_secret(text)


@pytest.mark.parametrize(
    "text",
    [
        "Say whether the password field is shown",
        "The password is required there",
        "Explain what an API key is",
        "Change the password: ${new}",
        "The password is ${new}",
        "Read the article 'Tokens: a history'",
        "Find the docs about secret: https://example.com",
        "Compare the token prices",
        "the secretary: Miller",
        "Find the password reset page",
        "Read about token ring history",
        "List the key features",
        "key features: speed, price",
        "Find out why my password is wrong",
        "Say whether the password is too short or not",
        "The password is not accepted; find the help page",
        "What to do if my password is forgotten?",
        "Das Passwort ist abgelaufen, finde die Hilfe",
        "Read how a passphrase is generated",
        "Find a hotel with pin board and spinning wheels",
        "The pin is 3 mm wide",
        "my pin is blue",
        "Find this pin: enamel, round",
        "Read about password SHA256 and password 2FA",
        "The password is eight characters long",
        "Check whether the password is case sensitive",
        "Compare password managers with 2FA",
        "The secret is out: summarise the article",
        "The token is fungible",
        "查找密码重置页面",
        "密码是什么",
        "密码是必填的吗",
        "Visit https://example.com/password/reset?page=2 and stop",
        "Use sk-learn-documentation as the search word",
        "Which passports are needed",
    ],
)
def test_ordinary_sentences_are_no_secrets(text: str) -> None:
    assert not has_secret(text)


@pytest.mark.parametrize(
    "query",
    [
        "token=abcd", "a=1&password=hunter", "api_key=xyz", "apiKey=xyz", "key=AB12cd34", "client_secret=abc",
        "accessToken=abc", "csrftoken=abc", "pwd=abc", "pin=4711", "q=sk-abcdefgh1234", "X-Amz-Security-Token=abcd",
        "userPassword2=abc",
    ],
)  # fmt: skip
def test_secrets_of_an_address_are_found(query: str) -> None:
    assert address_has_secret(f"https://example.com/?{query}")
    assert address_has_secret(f"https://example.com/#{query}")
    assert address_has_secret(f"https://example.com/#/page?{query}")


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com/password/reset",
        "https://example.com/?q=password",
        "https://example.com/?key=features",
        "https://example.com/?sort_key=name1",
        "https://example.com/?pageToken=CAUQAA",
        "https://example.com/?next_page_token=CAUQAA",
        "https://example.com/?token=1",
        "https://example.com/?token=${token}",
        "https://example.com/?password_reset=true",
        "https://example.com/?secretary=miller",
        "https://example.com/?1=2",
        "http://[broken/?token=abcd",
    ],
)
def test_ordinary_addresses_are_no_secrets(url: str) -> None:
    assert not address_has_secret(url)


@pytest.mark.parametrize(
    "name", ["password", "PASSWORD", "db_password", "apiKey", "API_KEY", "token", "pin", "passwords"]
)
def test_a_variable_named_like_a_secret_is_one_unless_it_is_empty(name: str) -> None:
    assert is_secret_name(name)
    assert variable_has_secret(name, "x")
    assert not variable_has_secret(name, "")


@pytest.mark.parametrize(
    "name", ["site", "keyword", "key", "token_count", "passport", "spin", "page_token", "_", "secretary"]
)
def test_an_ordinary_variable_is_none_unless_its_value_looks_like_one(name: str) -> None:
    assert not variable_has_secret(name, "password reset")
    assert variable_has_secret(name, "sk-abcdefgh1234")


def test_the_first_variable_with_a_secret_is_named() -> None:
    assert variables_with_secret({"a": "b", "c": "token=abcd1", "password": "x"}) == "c"
    assert variables_with_secret({"a": "b"}) is None
