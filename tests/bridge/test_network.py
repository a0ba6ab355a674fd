"""`network`: every rule of the policy, in every mode (design 10; settings `[network]`)."""

from __future__ import annotations

from ipaddress import ip_address

import msgspec
import pytest
from browsercell.bridge.network import NetworkPolicy, Refusal, Resolve, is_public, parse_address, unwrap
from browsercell.bridge.urls import Destination
from browsercell.protocol.errors import UsageError
from browsercell.protocol.settings import NetworkMode, NetworkSettings

OWN_PORT = 17_321
NAME = Destination("http", "shop.example", 80, None)


def policy(mode: NetworkMode = NetworkMode.STRICT, **settings: tuple[str, ...]) -> NetworkPolicy:
    return NetworkPolicy(NetworkSettings(mode=mode, **settings), own_ports=(OWN_PORT,))


PUBLIC = ("1.1.1.1", "93.184.216.34", "172.15.0.1", "172.32.0.1", "100.63.0.1", "2606:4700::1111", "2a00::1")
NOT_PUBLIC = (
    "0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.127.255.255", "127.0.0.1", "127.255.255.254", "169.254.169.254",
    "172.16.0.1", "172.31.255.255", "192.0.0.1", "192.0.2.1", "192.88.99.1", "192.168.0.1", "198.18.0.1", "198.19.255.255",
    "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255", "::", "::1", "fc00::1",
    "fd12::1", "fe80::1", "fec0::1", "ff02::1", "100::1", "2001::1", "2001:10::1", "2001:20::1", "2001:db8::1", "2002::1",
    "2002:7f00:1::", "3fff::1", "4000::1", "64:ff9b:1::1", "5f00::1",
)  # fmt: skip


@pytest.mark.parametrize("text", PUBLIC)
def test_public_addresses(text: str) -> None:
    assert is_public(ip_address(text))


@pytest.mark.parametrize("text", NOT_PUBLIC)
def test_addresses_that_are_not_public(text: str) -> None:
    assert not is_public(ip_address(text))


@pytest.mark.parametrize(
    ("text", "reached"),
    [
        ("::ffff:127.0.0.1", "127.0.0.1"),
        ("::ffff:1.1.1.1", "1.1.1.1"),
        ("64:ff9b::a00:1", "10.0.0.1"),
        ("64:ff9b::101:101", "1.1.1.1"),
        ("::127.0.0.1", "127.0.0.1"),
        ("::1", "::1"),
        ("::", "::"),
        ("2606:4700::1111", "2606:4700::1111"),
        ("1.1.1.1", "1.1.1.1"),
    ],
)
def test_ipv4_inside_ipv6_is_unwrapped(text: str, reached: str) -> None:
    assert unwrap(ip_address(text)) == ip_address(reached)


@pytest.mark.parametrize(
    ("url", "verdict"),
    [
        ("http://1.1.1.1/", None),
        ("https://[2606:4700::1111]/", None),
        ("http://127.0.0.1/", Refusal.NOT_PUBLIC),
        ("http://2130706433/", Refusal.NOT_PUBLIC),
        ("http://0x7f.1/", Refusal.NOT_PUBLIC),
        ("http://[::1]/", Refusal.NOT_PUBLIC),
        ("http://[::ffff:10.0.0.1]/", Refusal.NOT_PUBLIC),
        ("http://[64:ff9b::a00:1]/", Refusal.NOT_PUBLIC),
        ("http://localhost/", Refusal.NOT_PUBLIC),
        ("http://LOCALHOST./", Refusal.NOT_PUBLIC),
        ("http://a.localhost/", Refusal.NOT_PUBLIC),
        ("http://169.254.169.254/latest/meta-data/", Refusal.NOT_PUBLIC),
        ("http://user@1.1.1.1/", Refusal.USER_INFO),
        ("file:///etc/passwd", Refusal.SCHEME),
        ("http://", Refusal.BAD_URL),
    ],
)
def test_strict_by_text_alone(url: str, verdict: Refusal | None) -> None:
    assert policy().prepare(url) is verdict


def test_a_name_has_to_be_resolved_first() -> None:
    assert policy().prepare("http://shop.example/") == Resolve(NAME)
    assert policy().prepare("http://notlocalhost/") == Resolve(Destination("http", "notlocalhost", 80, None))


@pytest.mark.parametrize("mode", NetworkMode)
def test_a_name_without_an_address_is_unresolvable(mode: NetworkMode) -> None:
    assert policy(mode, allow_hosts=("shop.example",)).judge(NAME, ()) is Refusal.UNRESOLVABLE


def test_every_address_has_to_pass() -> None:
    good, bad = ip_address("1.1.1.1"), ip_address("10.0.0.1")
    assert policy().judge(NAME, (good, good)) is None
    assert policy().judge(NAME, (good, bad)) is Refusal.NOT_PUBLIC
    assert policy().judge(NAME, (bad, good)) is Refusal.NOT_PUBLIC


@pytest.mark.parametrize("mode", NetworkMode)
@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.9.9.9", "localhost", "[::1]", "0.0.0.0", "[::]", "[::ffff:127.0.0.1]"]
)
def test_our_own_listener_is_refused_in_every_mode(mode: NetworkMode, host: str) -> None:
    open_to_all = policy(mode, allow_hosts=("localhost", "127.0.0.1"), allow_cidrs=("0.0.0.0/0", "::/0"))
    assert open_to_all.prepare(f"http://{host}:{OWN_PORT}/extension") is Refusal.OWN_LISTENER


def test_our_port_elsewhere_is_not_ours() -> None:
    assert policy().prepare(f"http://1.1.1.1:{OWN_PORT}/") is None


def test_our_listener_by_a_name_that_resolves_to_loopback() -> None:
    own = Destination("http", "shop.example", OWN_PORT, None)
    assert policy(NetworkMode.UNRESTRICTED).judge(own, (ip_address("127.0.0.1"),)) is Refusal.OWN_LISTENER


@pytest.mark.parametrize("mode", NetworkMode)
@pytest.mark.parametrize("url", ["http://1.2.3.4/", "http://[::ffff:1.2.3.4]/", "http://[2a00::5]/"])
def test_denied_networks_win_over_everything(mode: NetworkMode, url: str) -> None:
    rules = policy(
        mode,
        deny_cidrs=("1.2.3.0/24", "2a00::/16"),
        allow_cidrs=("0.0.0.0/0", "::/0"),
        allow_hosts=("1.2.3.4",),
    )
    assert rules.prepare(url) is Refusal.DENIED


def test_unrestricted_lets_the_rest_through() -> None:
    rules = policy(NetworkMode.UNRESTRICTED)
    assert rules.prepare("http://127.0.0.1:8000/") is None
    assert rules.prepare("http://10.0.0.1/") is None
    assert rules.prepare("file:///etc/passwd") is Refusal.SCHEME


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("http://localhost:8000/", True),
        ("http://localhost./", True),
        ("http://127.0.0.1/", False),
        ("http://10.1.2.3/", True),
        ("http://[::ffff:10.1.2.3]/", True),
        ("http://10.2.0.1/", False),
        ("http://1.1.1.1/", True),
    ],
)
def test_allowlist_adds_hosts_and_networks(url: str, allowed: bool) -> None:
    rules = policy(NetworkMode.ALLOWLIST, allow_hosts=("LOCALHOST.",), allow_cidrs=("10.1.0.0/16",))
    assert rules.prepare(url) is (None if allowed else Refusal.NOT_PUBLIC)


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ("a.corp.example", True),
        ("b.a.corp.example", True),
        ("corp.example", False),
        ("evilcorp.example", False),
    ],
)
def test_a_leading_dot_matches_all_below(host: str, allowed: bool) -> None:
    rules = policy(NetworkMode.ALLOWLIST, allow_hosts=(".corp.example",))
    verdict = rules.judge(Destination("https", host, 443, None), (ip_address("10.0.0.1"),))
    assert verdict is (None if allowed else Refusal.NOT_PUBLIC)


def test_a_bare_dot_matches_nothing() -> None:
    rules = policy(NetworkMode.ALLOWLIST, allow_hosts=(".", ""))
    assert rules.judge(NAME, (ip_address("10.0.0.1"),)) is Refusal.NOT_PUBLIC


def test_the_allow_lists_mean_nothing_in_strict_mode() -> None:
    rules = policy(NetworkMode.STRICT, allow_hosts=("localhost",), allow_cidrs=("127.0.0.0/8",))
    assert rules.prepare("http://localhost/") is Refusal.NOT_PUBLIC
    assert rules.prepare("http://127.0.0.1/") is Refusal.NOT_PUBLIC


@pytest.mark.parametrize("setting", ["allow_cidrs", "deny_cidrs"])
def test_an_unreadable_network_is_a_usage_error_without_its_value(setting: str) -> None:
    with pytest.raises(UsageError) as error:
        NetworkPolicy(msgspec.structs.replace(NetworkSettings(), **{setting: ("not-a-network",)}))
    assert setting in str(error.value)
    assert "not-a-network" not in str(error.value)


def test_addresses_as_the_resolver_spells_them() -> None:
    assert parse_address("fe80::1%eth0") == ip_address("fe80::1")
    assert parse_address("1.2.3.4") == ip_address("1.2.3.4")
    assert parse_address("nonsense") is None
