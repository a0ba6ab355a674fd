"""`resolver`: verdicts with a look-up, its deadline and its bound; no name server is asked (hosts file and stand-ins)."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from typing import Any

import pytest
from browsercell.bridge import resolver
from browsercell.bridge.network import NetworkPolicy
from browsercell.bridge.resolver import LOOKUPS, Resolver
from browsercell.protocol.settings import NetworkMode, NetworkSettings

STRICT = NetworkPolicy(NetworkSettings())


def answers(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    def found(*_args: Any, **_named: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0)) for address in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", found)


def test_text_alone_asks_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_args: Any, **_named: Any) -> list[Any]:
        raise AssertionError("asked")

    monkeypatch.setattr(socket, "getaddrinfo", never)

    async def scenario() -> None:
        check = Resolver(STRICT).check
        assert await check("http://1.1.1.1/") == ""
        assert await check("http://127.0.0.1/") == "not-public"
        assert await check("file:///etc/passwd") == "scheme"

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("addresses", "verdict"),
    [
        (("1.1.1.1",), ""),
        (("1.1.1.1", "1.1.1.1"), ""),
        (("1.1.1.1", "10.0.0.1"), "not-public"),
        (("fe80::1%eth0",), "not-public"),
        ((), "unresolvable"),
        (("1.1.1.1", "nonsense"), "unresolvable"),
    ],
)
def test_every_address_counts(
    monkeypatch: pytest.MonkeyPatch, addresses: tuple[str, ...], verdict: str
) -> None:
    answers(monkeypatch, *addresses)
    assert asyncio.run(Resolver(STRICT).check("http://shop.example/")) == verdict


@pytest.mark.parametrize("error", [socket.gaierror(-2, "unknown"), UnicodeError("label too long")])
def test_a_failed_look_up_is_unresolvable(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fails(*_args: Any, **_named: Any) -> list[Any]:
        raise error

    monkeypatch.setattr(socket, "getaddrinfo", fails)
    unrestricted = NetworkPolicy(NetworkSettings(mode=NetworkMode.UNRESTRICTED))
    assert asyncio.run(Resolver(unrestricted).check("http://shop.example/")) == "unresolvable"


def test_a_look_up_that_hangs_ends_at_its_deadline_and_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    release, running = threading.Event(), []

    def hangs(*_args: Any, **_named: Any) -> list[Any]:
        running.append(threading.current_thread())
        release.wait(20)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", hangs)

    async def scenario() -> None:
        checker = Resolver(STRICT, seconds=0.3)
        begun = time.monotonic()
        verdicts = await asyncio.gather(*(checker.check("http://shop.example/") for _ in range(3 * LOOKUPS)))
        assert time.monotonic() - begun < 5
        assert set(verdicts) == {"unresolvable"}
        assert len(running) == LOOKUPS
        assert all(thread.daemon for thread in running)  # they must not keep the bridge from exiting
        release.set()
        answers(monkeypatch, "1.1.1.1")
        deadline = time.monotonic() + 5
        while await checker.check("http://shop.example/") and time.monotonic() < deadline:
            await asyncio.sleep(0.01)
        assert await checker.check("http://shop.example/") == ""  # the places are free again

    asyncio.run(scenario())


def test_a_loop_that_has_ended_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()
    failures: list[object] = []
    monkeypatch.setattr(threading, "excepthook", failures.append)
    threads: list[threading.Thread] = []

    def hangs(*_args: Any, **_named: Any) -> list[Any]:
        threads.append(threading.current_thread())
        release.wait(20)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", hangs)
    assert asyncio.run(Resolver(STRICT, seconds=0.1).check("http://shop.example/")) == "unresolvable"
    release.set()
    threads[0].join(10)
    assert failures == []


def test_no_thread_to_be_had_is_unresolvable(monkeypatch: pytest.MonkeyPatch) -> None:
    class NoThread:
        def __init__(self, **_named: Any) -> None:
            pass

        def start(self) -> None:
            raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading, "Thread", NoThread)
    assert asyncio.run(Resolver(STRICT).check("http://shop.example/")) == "unresolvable"


def test_the_real_resolver_knows_this_machine() -> None:
    unrestricted = NetworkPolicy(NetworkSettings(mode=NetworkMode.UNRESTRICTED))
    assert asyncio.run(Resolver(unrestricted).check("http://localhost:1/")) == ""
    assert {str(address) for address in resolver._addresses("localhost")} & {"127.0.0.1", "::1"}
