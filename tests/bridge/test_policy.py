"""The task's policy at the bridge: tools, pages and document requests (bridge/policy.py)."""

from __future__ import annotations

import pytest
from browsercell.bridge.policy import EFFECT_TOOLS, FORM, NOT_ALLOWED, TaskPolicy, named_origin
from browsercell.protocol.results import Actions, Policy
from browsercell.protocol.tools import WORKER_TOOLS

SHOP = TaskPolicy(Policy(origins=("https://shop.example", "http://127.0.0.1:8080", "http://[::1]:81")))


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("https://shop.example/a?b#c", ""),
        ("https:\\\\shop.example", ""),
        ("https://SHOP.example.:443/", ""),
        ("http://127.1:8080/", ""),  # the browser's other spelling of the same address
        ("http://0x7f000001:8080/", ""),
        ("http://[0:0:0:0:0:0:0:1]:81/", ""),
        ("https://evil.example/", NOT_ALLOWED),
        ("https://shop.example.evil.example/", NOT_ALLOWED),
        ("https://evil.example/https://shop.example/", NOT_ALLOWED),
        ("https://evil.example\\@shop.example/", NOT_ALLOWED),
        ("http://shop.example/", NOT_ALLOWED),
        ("https://shop.example:8443/", NOT_ALLOWED),
        ("https://shop.example@evil.example/", "user-info"),
        ("data:text/html,<form action=https://shop.example>", "scheme"),
        ("blob:https://shop.example/5", "scheme"),
        ("javascript:fetch('//evil.example')", "scheme"),
        ("about:blank", "scheme"),
        ("file:///etc/passwd", "scheme"),
        ("//shop.example/", "bad-url"),
    ],
)
def test_a_page_may_be_of_an_allowed_origin_only(url: str, reason: str) -> None:
    assert SHOP.refuses_url(url) == reason
    assert SHOP.refuses_request(url, "POST") == reason


def test_without_origins_the_network_policy_alone_decides() -> None:
    assert TaskPolicy(Policy()).refuses_url("https://anywhere.example/") == ""


def test_reading_runs_no_effect_tool_and_sends_no_form() -> None:
    reading, acting = TaskPolicy(Policy(actions=Actions.READ)), TaskPolicy(Policy())
    assert {tool for tool in WORKER_TOOLS if not reading.allows_tool(tool)} == EFFECT_TOOLS
    assert all(acting.allows_tool(tool) for tool in WORKER_TOOLS)
    for method in ("POST", "post", "PUT", "?", ""):
        assert reading.refuses_request("https://a.example/", method) == FORM
    assert reading.refuses_request("https://a.example/", "get") == ""


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("https://shop.example/a/secret?b=c", "https://shop.example"),
        ("http://127.0.0.1:8080/x", "http://127.0.0.1:8080"),
        ("http://[::1]:81/", "http://[::1]:81"),
        ("https://say-this.example/", ""),
        ("data:text/html,x", ""),
        ("", ""),
    ],
)
def test_of_a_url_only_an_origin_that_the_host_has_written_is_told(url: str, told: str) -> None:
    origins = ("https://shop.example", "http://127.0.0.1:8080", "http://[::1]:81")
    assert named_origin(url, Policy(origins=origins), "") == told
