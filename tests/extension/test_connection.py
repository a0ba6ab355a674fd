"""Pairing, handshake, sleep and loss: the connection in a real Chromium."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Iterator

import pytest
from browsercell.protocol import frames
from browsercell.protocol.settings import InputMode

from .conftest import Tab, World
from .launcher import EXTENSION_ID, Chromium
from .peer import Peer, until

pytestmark = [pytest.mark.live, pytest.mark.timeout(120)]
Open = Callable[[str], Tab]
ATTACHED = "chrome.debugger.getTargets().then(all => all.some(t => t.tabId === TAB && t.attached))"


@pytest.fixture
def lone() -> Iterator[Chromium]:
    """A browser of its own, not paired."""
    chromium = Chromium()
    yield chromium
    chromium.close()


def _status(chromium: Chromium) -> dict[str, object]:
    """What the popup is told."""
    target = _open_popup(chromium)
    answer = chromium.evaluate(target, "chrome.runtime.sendMessage({ask: 'status'})")
    chromium.send("Target.closeTarget", targetId=target)
    assert isinstance(answer, dict)
    return answer


def _open_popup(chromium: Chromium) -> str:
    target = str(
        chromium.send("Target.createTarget", url=f"chrome-extension://{EXTENSION_ID}/popup.html")["targetId"]
    )
    until(
        lambda: bool(
            chromium.evaluate(target, "document.readyState === 'complete' && !!window.chrome?.storage")
        ),
        10,
    )
    return target


def test_hello_says_who_it_is(world: World) -> None:
    hello = world.peer.hellos[0]
    assert hello.version == 1
    assert hello.pairing == "private-test"
    assert hello.extension_version
    assert "trusted-input" in hello.capabilities
    assert world.peer.origins[0] == f"chrome-extension://{EXTENSION_ID}"
    assert len({h.nonce for h in world.peer.hellos}) == len(world.peer.hellos)
    assert len({h.profile for h in world.peer.hellos}) == 1


def test_a_ping_is_answered(world: World) -> None:
    world.mode(InputMode.ALWAYS)
    world.peer.send(frames.ExtPing(4711))
    until(lambda: 4711 in world.peer.pongs, 5, "the pong")


def test_a_bridge_without_the_token_gets_no_proof(lone: Chromium) -> None:
    peer = Peer(token="b" * 40)
    try:
        lone.pair(peer.port, "a" * 40)
        until(lambda: bool(peer.closes), 10, "the refusal")
        assert peer.hellos
        assert peer.proofs == 0
        assert peer.closes[0] == 4001
        assert _status(lone)["imposter"] is True
        assert not peer.connected.is_set()
    finally:
        peer.close()


def test_a_refused_extension_does_not_fight(lone: Chromium) -> None:
    peer = Peer()
    peer.refuse = frames.ExtRefusal.REPLACED
    try:
        lone.pair(peer.port, peer.token)
        until(lambda: bool(peer.closes), 10, "the refusal")
        time.sleep(4)
        assert len(peer.hellos) == 1
        status = _status(lone)
        assert status["state"] == "refused"
        assert status["refusal"] == "replaced"
        peer.refuse = None
        lone.pair(peer.port, peer.token, "another-name")  # a new pairing does not wait
        until(peer.connected.is_set, 5, "the connection")
    finally:
        peer.close()


def test_frames_that_do_not_belong_end_the_connection(world: World) -> None:
    world.mode(InputMode.ALWAYS)
    count = len(world.peer.closes)
    world.peer.send(frames.ExtChallenge("0" * 64, "0" * 64, "0" * 64))
    until(lambda: len(world.peer.closes) > count, 5, "the end of the connection")
    assert world.peer.closes[-1] in (4001, 4002)
    until(world.peer.connected.is_set, 10, "the new connection")


def test_a_restarted_worker_reconnects_and_keeps_tabs_refs_and_debugger(open_tab: Open, world: World) -> None:
    tab = open_tab("/refs")
    ref = tab.ref('"Buy"')
    tab.run("page_press", key="Tab")  # attaches
    first = world.chromium.worker_target()
    world.chromium.send("Target.closeTarget", targetId=first)
    until(lambda: not world.peer.connected.is_set(), 5, "the end of the connection")
    world.chromium.send("Target.createTarget", url=f"{world.site.base}/home")  # any navigation wakes it
    until(world.peer.connected.is_set, 10, "the reconnection")
    reply = tab.run("page_click", ref=ref)
    assert reply.input == frames.InputKind.TRUSTED
    assert tab.out == "first"
    tab.run("release")
    assert world.chromium.in_worker(ATTACHED.replace("TAB", str(tab.id))) is False


def test_a_sleeping_worker_is_woken_by_its_alarm_when_the_bridge_is_back(lone: Chromium) -> None:
    peer = Peer()
    try:
        lone.pair(peer.port, peer.token)
        until(peer.connected.is_set, 10, "the connection")
        lone.send("Target.closeTarget", targetId=lone.worker_target())
        until(lambda: not peer.connected.is_set(), 5, "the end of the connection")
        took = until(peer.connected.is_set, 40, "the alarm")  # nothing else happens in this browser
        assert took < 35
    finally:
        peer.close()


def test_a_lost_bridge_is_found_again_within_seconds(lone: Chromium) -> None:
    peer = Peer()
    port, token = peer.port, peer.token
    lone.pair(port, token)
    until(peer.connected.is_set, 10, "the connection")
    peer.close()
    time.sleep(3)
    again = Peer(token, port=port)
    try:
        assert until(again.connected.is_set, 10, "the reconnection") < 5
    finally:
        again.close()


def test_commands_of_a_lost_connection_are_answered_to_nobody(open_tab: Open, world: World) -> None:
    tab = open_tab("/home")
    future = world.peer.start("page_wait", tab.id, until="text", text="never", timeout_ms=9_000)
    time.sleep(0.2)
    world.peer.drop()
    with pytest.raises(ConnectionError):
        future.result(5)
    until(world.peer.connected.is_set, 10, "the new connection")
    assert tab.observe()  # the tab's queue is free


def test_storage_is_closed_to_content_scripts(open_tab: Open, world: World) -> None:
    tab = open_tab("/home")
    tab.observe()
    probe = (
        "chrome.scripting.executeScript({target: {tabId: TAB}, func: async () => {"
        " try { return JSON.stringify(await chrome.storage.local.get()); } catch (e) { return 'closed: ' + e.message; } }})"
        ".then(r => r[0].result)"
    )
    assert str(world.chromium.in_worker(probe.replace("TAB", str(tab.id)))).startswith("closed: ")


def test_pages_cannot_reach_the_runtime(open_tab: Open) -> None:
    tab = open_tab("/home")
    tab.observe()
    assert tab.js("typeof __browsercell") == "undefined"
    assert tab.js("typeof chrome === 'undefined' || chrome.runtime === undefined")


def test_in_the_users_chrome_only_own_tabs_are_touched(lone: Chromium, world: World) -> None:
    peer = Peer()
    try:
        lone.pair(peer.port, peer.token, "user")
        until(peer.connected.is_set, 10, "the connection")
        lone.send("Target.createTarget", url=f"{world.site.base}/shop")
        theirs = lone.in_worker("chrome.tabs.query({url: '*://127.0.0.1/*'}).then(all => all[0].id)")
        future = peer.start("page_observe", theirs)
        error = future.result(10).error
        assert error is not None
        assert error.code == "tab-not-shared"
        mine = peer.open(f"{world.site.base}/home")
        assert "Page /home" in peer.run("page_observe", mine).text
        peer.run("release", mine)
        assert peer.start("page_observe", mine).result(10).error.code == "tab-not-shared"
    finally:
        peer.close()


# ---------------------------------------------------------------- the popup


def test_pairing_by_the_popup(lone: Chromium) -> None:
    peer = Peer(secrets.token_hex(20))
    target = _open_popup(lone)

    def shown(selector: str) -> str:
        return str(lone.evaluate(target, f"document.querySelector({json.dumps(selector)}).textContent"))

    try:
        until(lambda: shown("#headline") == "Not paired", 5, "the first state")
        assert lone.evaluate(target, "document.getElementById('token').type") == "password"
        lone.evaluate(
            target,
            f"document.getElementById('port').value = {peer.port}; document.getElementById('token').value = 'short';"
            "document.getElementById('pair').dispatchEvent(new Event('submit', {cancelable: true})), true",
        )
        until(lambda: "16" in shown("#problem"), 5, "the complaint")
        lone.evaluate(
            target,
            f"document.getElementById('token').value = {json.dumps(peer.token)};"
            "document.querySelector('button.primary').click(), true",
        )
        until(peer.connected.is_set, 10, "the connection")
        assert peer.hellos[-1].pairing == "user"
        until(lambda: shown("#headline") == "Connected", 5, "the state")
        assert f"127.0.0.1:{peer.port}" in shown("#detail")
        assert lone.evaluate(target, "document.getElementById('token').value") == ""
        assert lone.evaluate(target, "document.getElementById('pair').hidden")
        port, token = peer.port, peer.token
        peer.close()
        until(lambda: shown("#headline") == "Not connected", 5, "the truth about a dead bridge")
        peer = Peer(token, port=port)
        until(lambda: shown("#headline") == "Connected", 10, "the return")
        lone.evaluate(target, "document.getElementById('forget').click(), true")
        until(lambda: shown("#headline") == "Not paired", 5, "the end of the pairing")
        until(lambda: not peer.connected.is_set(), 5, "the end of the connection")
        assert lone.in_worker("chrome.storage.local.get().then(all => Object.keys(all).join())") == "profile"
    finally:
        peer.close()
