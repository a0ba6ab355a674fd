"""How an origin is written and matched, and what a result without free text says (protocol/policies.py)."""

from __future__ import annotations

import pytest
from browsercell.protocol.errors import UsageError
from browsercell.protocol.policies import (
    Origin,
    answer_missing,
    answer_wrong,
    is_named,
    missing_text,
    parse_origin,
    parse_origins,
    plain_texts,
)
from browsercell.protocol.results import ArtifactKind, Policy, Status


@pytest.mark.parametrize(
    ("text", "origin"),
    [
        ("https://shop.example", Origin("https", "shop.example", 443)),
        ("HTTPS://Shop.Example./", Origin("https", "shop.example", 443)),
        ("http://127.0.0.1:8080", Origin("http", "127.0.0.1", 8080)),
        ("http://[::1]:80", Origin("http", "::1", 80)),
        ("https://*.shop.example", Origin("https", "shop.example", 443, below=True)),
        ("https://xn--bcher-kva.example", Origin("https", "xn--bcher-kva.example", 443)),
    ],
)
def test_an_origin_has_one_reading(text: str, origin: Origin) -> None:
    assert parse_origin(text) == origin


@pytest.mark.parametrize(
    "text",
    [
        "shop.example", "ftp://shop.example", "https://shop.example/path", "https://user@shop.example", "https://bücher.example",
        "https://shop..example", "https://*", "https://*.127.0.0.1", "https://[::1", "https://[:::]", "http://127.1",
        "http://0x7f.0x1", "https://shop.example:99999", "https://shop.example:", "https://a*.example", "data:text/html,x", "",
        "https://shop.example\\@evil.example",
    ],
)  # fmt: skip
def test_what_could_be_read_twice_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_origin(text)
    assert caught.value.message == "an origin of the policy can't be read"


def test_none_named_is_none_and_no_list() -> None:
    assert parse_origins(None) is None
    assert parse_origins(["http://a.example"]) == (Origin("http", "a.example", 80),)


@pytest.mark.parametrize(
    ("destination", "exact", "below"),
    [
        (("https", "shop.example", 443), True, False),
        (("https", "www.shop.example", 443), False, True),
        (("https", "evilshop.example", 443), False, False),
        (("https", "shop.example.evil.example", 443), False, False),
        (("http", "shop.example", 443), False, False),
        (("https", "shop.example", 8443), False, False),
    ],
)
def test_scheme_host_and_port_are_compared_whole(
    destination: tuple[str, str, int], exact: bool, below: bool
) -> None:
    assert parse_origin("https://shop.example").covers(*destination) is exact
    assert parse_origin("https://*.shop.example").covers(*destination) is below


@pytest.mark.parametrize(
    ("origin", "origins", "start", "named"),
    [
        ("https://shop.example", ("https://shop.example",), "", True),
        ("https://shop.example", None, "https://shop.example/a?b", True),
        ("https://shop.example", None, "", False),
        ("https://shop.example", None, "https://other.example/", False),
        ("https://say.this.shop.example", ("https://*.shop.example",), "", False),
        ("not an origin", ("https://shop.example",), "", False),
        ("https://shop.example", None, "https://[half/", False),
    ],
)
def test_only_what_the_host_has_written_is_named(
    origin: str, origins: tuple[str, ...] | None, start: str, named: bool
) -> None:
    assert is_named(origin, Policy(origins=origins), start) is named


def test_the_texts_are_constants() -> None:
    for status in (Status.COMPLETED, Status.BLOCKED, Status.FAILED):
        assert plain_texts(status).summary
        assert plain_texts(status).question is None
    assert plain_texts(Status.NEEDS_USER_INPUT).question
    assert missing_text("prices", ArtifactKind.TABLE) == "deliverable prices (table) is missing"
    assert (answer_missing("a"), answer_wrong("a")) == ("answer.a is missing", "answer.a does not hold")
