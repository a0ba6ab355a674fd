"""The user's own browser: a Chromium that nobody debugs, with the extension in it, paired through its popup.

The debugging pipe is open only to press the popup's button as a person would, and no session stays attached to anything; so
the service worker sleeps, wakes and reconnects as in a user's browser. Everything else goes the product's own way: a fixed
port, the state folder's pairing token, `browser="chrome"`.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browsercell.protocol.client import Client
from browsercell.protocol.errors import BlockerCode
from browsercell.protocol.results import SideEffects, Status
from browsercell.supervisor.demo.server import Bookshop

from tests.extension.launcher import _FLAGS as FLAGS
from tests.extension.launcher import DIST, EXTENSION_ID, CdpError, Chromium
from tests.support.apps.process import free_port
from tests.support.live import (
    LOOPBACK,
    Live,
    Step,
    click,
    done,
    expect,
    navigate,
    own_supervisor,
    said,
    table_to,
    tool,
    type_in,
    until,
    wanted,
)

CONNECT_SECONDS = 20.0  # from the press of the button, or the bridge's return, to a connection
SHOP: list[Step] = [
    navigate("${site}/"),
    type_in("searchbox", "Search", "lantern", submit=True),
    expect(text="page 1 of"),
    click("link", "Next"),
    expect(text="page 2 of"),
    navigate("${site}/prices"),
    table_to("prices", "Prices"),
    tool("page_screenshot", "picture"),
    done("Shopped"),
]


@pytest.fixture(scope="module")
def desk(private_places: Path) -> Iterator[Live]:  # noqa: ARG001 - the user's settings are hidden before it starts
    """A supervisor on a port that the user could have typed."""
    with own_supervisor({**LOOPBACK, "bridge.port": str(free_port())}) as live:
        yield live


@pytest.fixture(scope="module")
def chrome(desk: Live) -> Iterator[Chromium]:
    """The user's browser, not yet paired."""
    del desk  # it must be there first: the extension's first attempt to connect shall find it
    browser = Chromium()
    try:
        yield browser
    finally:
        browser.close()


def connected(client: Client) -> int:
    return int(client.status()["extension"]["connected"])


def press_pair(browser: Chromium, port: str, token: str) -> None:
    """Open the popup's page, fill it in and press its button, as a person does."""
    url = f"chrome-extension://{EXTENSION_ID}/popup.html"
    target = str(browser.send("Target.createTarget", url=url)["targetId"])
    fill = f"""(async () => {{
      for (let i = 0; i < 100 && document.getElementById("pair").hidden; i++) await new Promise((go) => setTimeout(go, 50));
      document.getElementById("port").value = {json.dumps(port)};
      document.getElementById("token").value = {json.dumps(token)};
      document.querySelector("#pair button").click();
      return document.getElementById("pair").hidden;
    }})()"""
    deadline = time.monotonic() + 15
    while True:
        try:
            browser.evaluate(target, fill)
            break
        except CdpError:  # the page is not there yet
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
    browser.send("Target.closeTarget", targetId=target)


@pytest.fixture(scope="module")
def paired(desk: Live, chrome: Chromium) -> Live:
    """The browser is paired through its popup and connected."""
    with desk.client() as client:
        assert connected(client) == 0
        press_pair(chrome, desk.settings["bridge.port"], (desk.state / "pairing-token").read_text().strip())
        until(lambda: connected(client) == 1, CONNECT_SECONDS, "the connection of the user's browser")
    return desk


def shop_with(client: Client, shop: Bookshop, folder: Path, browser: str) -> None:
    """The whole job in the user's browser, checked at the server and on disk."""
    before = shop.counts.searches
    result = client.delegate(
        "Search, page, export",
        browser=browser,
        deliverables=[wanted("prices", "prices.csv"), wanted("picture", "shop.png", "screenshot")],
        playbook=SHOP,
        variables={"site": shop.url},
    )
    assert result.status is Status.COMPLETED, said(result)
    assert result.side_effects is not SideEffects.NONE
    assert shop.counts.searches == before + 2
    assert len((folder / "prices.csv").read_text().splitlines()) == 51
    assert (folder / "shop.png").read_bytes().startswith(b"\x89PNG")
    assert not [one for one in client.processes() if one.role == "chromium"], "a private browser was started"


def test_without_a_paired_browser_chrome_is_unavailable(desk: Live) -> None:
    with desk.client() as client:
        result = client.delegate("Look", browser="chrome", playbook=[tool("tabs_list"), done()])
        assert "pair" in client.extension_status()["nextStep"]
    assert (result.status, result.blocker_code) == (Status.BLOCKED, BlockerCode.BROWSER_UNAVAILABLE), said(
        result
    )
    assert result.retryable
    assert "extension" in (result.next_step or "")


def test_a_task_in_the_users_browser(paired: Live, bookshop: Bookshop, outbox: Path) -> None:
    with paired.client(outbox) as client:
        (extension,) = client.extension_status()["connected"]
        assert extension["id"] == EXTENSION_ID
        shop_with(client, bookshop, outbox, "chrome")


def test_auto_takes_the_connected_browser(paired: Live, bookshop: Bookshop, outbox: Path) -> None:
    with paired.client(outbox) as client:
        shop_with(client, bookshop, outbox, "auto")


def test_a_task_leaves_none_of_its_tabs_and_takes_none_of_the_users(
    paired: Live, chrome: Chromium, bookshop: Bookshop
) -> None:
    mine = str(chrome.send("Target.createTarget", url=f"{bookshop.url}/basket")["targetId"])
    with paired.client() as client:
        result = client.delegate(
            "Look around",
            browser="chrome",
            playbook=[navigate(f"{bookshop.url}/prices"), tool("tabs_list"), done()],
        )
        assert result.status is Status.COMPLETED, said(result)

        def pages() -> list[str]:
            return [
                one["url"] for one in chrome.targets() if one["type"] == "page" and bookshop.url in one["url"]
            ]

        until(lambda: pages() == [f"{bookshop.url}/basket"], 10, "only the user's tab")
    chrome.send("Target.closeTarget", targetId=mine)


def test_a_killed_bridge_is_survived_and_the_next_task_works(
    paired: Live, bookshop: Bookshop, outbox: Path
) -> None:
    with paired.client(outbox) as client:
        bridge = next(one.pid for one in client.processes() if one.role == "bridge")
        os.kill(bridge, signal.SIGKILL)
        until(
            lambda: any(one.role == "bridge" and one.pid != bridge for one in client.processes()),
            15,
            "a new bridge",
        )
        until(lambda: connected(client) == 1, CONNECT_SECONDS, "the extension's return")
        shop_with(client, bookshop, outbox, "chrome")


def popup_says(browser: Chromium) -> dict[str, Any]:
    """What the service worker tells the popup."""
    target = str(
        browser.send("Target.createTarget", url=f"chrome-extension://{EXTENSION_ID}/popup.html")["targetId"]
    )
    try:
        said = browser.evaluate(target, 'chrome.runtime.sendMessage({ ask: "status" })')
    except CdpError:  # the page is not there yet
        return {}
    finally:
        browser.send("Target.closeTarget", targetId=target)
    return said if isinstance(said, dict) else {}


def test_a_wrong_token_never_connects(paired: Live) -> None:
    stranger = Chromium()
    states: set[str] = set()

    def turned_away() -> bool:
        status = popup_says(stranger)
        states.add(str(status.get("state")))
        return bool(status.get("imposter"))

    try:
        with paired.client() as client:
            stranger.pair(int(paired.settings["bridge.port"]), "wrong-token-wrong-token", "user")
            until(turned_away, CONNECT_SECONDS, "the extension's distrust of a bridge with another token")
            assert "ready" not in states
            assert connected(client) == 1  # the paired browser's
    finally:
        stranger.close()
    for path in (paired.state / "logs").iterdir():
        assert b"wrong-token-wrong-token" not in path.read_bytes(), path.name


@contextlib.contextmanager
def plain_browser(profile: Path) -> Iterator[None]:
    """The same profile in a Chromium that no debugger protocol can reach: neither pipe nor port."""
    flags = [flag for flag in FLAGS if not flag.startswith("--remote-debugging")]
    binary = os.environ.get("BROWSERCELL_CHROMIUM") or shutil.which("chromium") or "chromium"
    process = subprocess.Popen(
        [binary, *flags, f"--user-data-dir={profile}", f"--load-extension={DIST}", "about:blank"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def test_a_paired_profile_works_in_a_browser_that_nobody_can_debug(
    private_places: Path,  # noqa: ARG001 - the user's settings are hidden before the supervisor starts
    bookshop: Bookshop,
    outbox: Path,
) -> None:
    settings = {**LOOPBACK, "bridge.port": str(free_port())}
    with own_supervisor(settings) as live, live.client(outbox) as client:
        first = Chromium()
        profile, kept = first.profile, first.profile / "kept"
        try:
            press_pair(first, settings["bridge.port"], (live.state / "pairing-token").read_text().strip())
            until(lambda: connected(client) == 1, CONNECT_SECONDS, "the first connection")
            first.profile = kept  # `close` removes a profile; this one goes on
            first.close()
            until(lambda: connected(client) == 0, 15, "the end of the first browser")
            with plain_browser(profile):
                until(lambda: connected(client) == 1, CONNECT_SECONDS, "the paired profile's return")
                shop_with(client, bookshop, outbox, "chrome")
                for path in outbox.iterdir():
                    path.unlink()
                bridge = next(one.pid for one in client.processes() if one.role == "bridge")
                os.kill(bridge, signal.SIGKILL)
                until(lambda: connected(client) == 0, 15, "the loss of the bridge")
                until(lambda: connected(client) == 1, CONNECT_SECONDS, "the extension's return")
                shop_with(client, bookshop, outbox, "chrome")
        finally:
            shutil.rmtree(profile, ignore_errors=True)
