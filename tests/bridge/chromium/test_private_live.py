"""A real private Chromium with the real extension: pairing, the guard of its navigations, ends (design 10).

The denied address is 127.0.0.2: what is asserted is that its server was never asked.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import uvloop
from browsercell.bridge.extension.hub import ExtensionHub, make_hub
from browsercell.bridge.ports import BrowserPort, PageFailure
from browsercell.bridge.urls import BadUrl, parse_destination
from browsercell.protocol.bundle import extension_folder
from browsercell.protocol.errors import ToolErrorCode
from browsercell.protocol.frames import PageReply, PortProblem
from browsercell.protocol.settings import BridgeSettings, InputMode, NetworkMode, NetworkSettings

from ..test_urls import ACCEPTED, REFUSED, TRAILING_DOT
from . import launcher, tiny
from .site import GOOD, Site, serving

pytestmark = [pytest.mark.live, pytest.mark.timeout(120)]

TOKEN = "the token of the user's browser"
PAIR_MS = 30_000  # usually 500; the machine may be busy with other tests


class Private:
    """A hub with one private browser in it."""

    def __init__(
        self, hub: ExtensionHub, port: BrowserPort, spawned: launcher.Spawned, lost: list[BrowserPort]
    ) -> None:
        self.hub, self.port, self.spawned, self.lost = hub, port, spawned, lost

    async def run(self, op: str, *, tab: int | None = None, seconds: float = 15, **args: Any) -> PageReply:
        return await self.port.call(op, json.dumps(args).encode(), tab=tab, deadline_ms=round(seconds * 1000))

    async def open(self, url: str) -> PageReply:
        return await self.run("browser_tabs_open", url=url)

    async def tabs(self) -> list[str]:
        """URLs of every page, as Chromium tells them."""
        found = await self.cdp("Target.getTargets", {"filter": [{"type": "page"}]})
        return [info["url"] for info in found["targetInfos"]]

    async def cdp(
        self, method: str, params: dict[str, Any] | None = None, session: str = ""
    ) -> dict[str, Any]:
        pipe = self.hub._private["task-1"].browser._pipe
        return await pipe.call(method, params, session=session, seconds=10)

    @property
    def denials(self) -> dict[str, int]:
        counts = self.hub._private["task-1"].browser._guard.denials
        return {denial.value: count for denial, count in counts.items()}


def play(scenario: Callable[[Private], Awaitable[None]], *, folder: Any = None) -> None:
    """Start a hub and a private browser, run, and see that nothing is left."""

    async def run() -> None:
        lost: list[BrowserPort] = []
        settings = BridgeSettings(
            state_folder="/nonexistent",
            port=0,
            input=InputMode.ALWAYS,
            network=NetworkSettings(mode=NetworkMode.ALLOWLIST, allow_hosts=(GOOD, "localhost")),
        )
        hub = make_hub(settings, TOKEN, on_extensions=lambda: None, on_lost=lost.append, folder=folder)
        assert (await hub.start()).problem is PortProblem.NONE
        spawned = launcher.spawn(folder or extension_folder())
        try:
            port = await hub.adopt_private(
                "task-1", spawned.pid, spawned.commands_fd, spawned.replies_fd, PAIR_MS
            )
            print(f"spawned to authenticated: {time.monotonic() - spawned.started:.2f} s")
            await scenario(Private(hub, port, spawned, lost))
        finally:
            await hub.stop()
            spawned.end()
        assert not spawned.folder.exists()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())


async def until(condition: Callable[[], object], seconds: float = 10) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.02)


async def settled(site: Site, path: str) -> None:
    """Wait until the page that was asked for first is there, and then for what it might do next."""
    await until(lambda: site.asked(path))
    await asyncio.sleep(0.7)  # nothing to wait for: the assertion is that something does not happen


# ---------------------------------------------------------------------- pairing


def test_it_is_paired_without_a_human_and_knows_its_own_tabs() -> None:
    async def scenario(private: Private) -> None:
        assert private.port.pairing.startswith("private-")
        [info] = private.hub.extensions()
        assert info.private
        assert private.hub.user_port() is None
        await private.run("browser_tabs_list")

    play(scenario)


def test_nobody_is_attached_to_its_service_worker() -> None:
    async def scenario(private: Private) -> None:
        found = await private.cdp("Target.getTargets", {"filter": [{"type": "service_worker"}]})
        assert [info["attached"] for info in found["targetInfos"]] == [False]

    play(scenario)


def test_its_service_worker_may_be_stopped_and_comes_back() -> None:
    async def scenario(private: Private) -> None:
        found = await private.cdp("Target.getTargets", {"filter": [{"type": "service_worker"}]})
        await private.cdp("Target.closeTarget", {"targetId": found["targetInfos"][0]["targetId"]})
        await until(lambda: not private.hub.extensions())
        with serving({}) as site:
            # Anything that happens in the browser wakes it; the connection it makes then is the same browser's.
            await private.cdp("Target.createTarget", {"url": site.good("/wake")})
            await until(private.hub.extensions)
        await private.run("browser_tabs_list")
        assert private.lost == []

    play(scenario)


def test_an_extension_that_never_comes_is_a_lost_browser(tmp_path: Any) -> None:
    async def run() -> None:
        hub = make_hub(
            BridgeSettings(state_folder="/nonexistent", port=0),
            TOKEN,
            on_extensions=lambda: None,
            on_lost=lambda _port: None,
        )
        await hub.start()
        spawned = launcher.spawn(
            tiny.write(tmp_path / "other")
        )  # another extension than the one that is waited for
        try:
            begun = time.monotonic()
            with pytest.raises(PageFailure) as failure:
                await hub.adopt_private("task-1", spawned.pid, spawned.commands_fd, spawned.replies_fd, 2_500)
            assert failure.value.error.code is ToolErrorCode.BROWSER_LOST
            assert time.monotonic() - begun < 6
            assert not hub._private
            with pytest.raises(OSError, match="Bad file descriptor"):
                os.fstat(spawned.commands_fd)
        finally:
            await hub.stop()
            spawned.end()

    asyncio.run(run())


# ---------------------------------------------------------------------- navigations

PAGES = {
    "/plain": "<title>plain</title>",
    "/redirect": "-> BAD/secret",
    "/hops": "-> GOOD/redirect",
    "/frame": '<iframe src="BAD/secret"></iframe>',
    "/frame-redirect": '<iframe src="/redirect"></iframe>',
    "/nested": '<iframe src="http://localhost:PORT/frame"></iframe>',
    "/object": '<object data="BAD/secret"></object><embed src="BAD/secret">',
    "/meta": '<meta http-equiv="refresh" content="0;url=BAD/secret">',
    "/script": '<script>location = "BAD/secret"</script>',
    "/replace": '<script>location.replace("BAD/secret")</script>',
    "/form": '<form method="post" action="BAD/secret"></form><script>document.forms[0].submit()</script>',
    "/form-get": '<form action="BAD/secret"></form><script>document.forms[0].submit()</script>',
    "/form-frame": '<iframe name="f"></iframe><form method="post" target="f" action="BAD/secret"></form>'
    "<script>document.forms[0].submit()</script>",
    "/srcdoc": "<iframe srcdoc='<iframe src=\"BAD/secret\"></iframe>'></iframe>",
    "/script-frame": '<script>f = document.createElement("iframe"); f.src = "BAD/secret"; '
    "addEventListener('load', () => document.body.append(f))</script>",
    "/frame-top": "<iframe srcdoc='<script>parent.location = \"BAD/secret\"</script>'></iframe>",
}  # fmt: skip


@pytest.mark.parametrize("path", [path for path in PAGES if path != "/plain"])
def test_a_document_at_a_denied_address_is_never_asked_for(path: str) -> None:
    async def scenario(private: Private) -> None:
        with serving(PAGES) as site:
            site.pages["/nested"] = PAGES["/nested"].replace("PORT", str(site.port))
            with contextlib.suppress(
                PageFailure
            ):  # that the page could not be loaded is one of its right outcomes
                await private.open(site.good(path))
            await settled(site, path)
            assert site.bad_hits() == []
            assert sum(private.denials.get(kind, 0) for kind in ("navigation", "frame")) >= 1
            assert (await private.open(site.good("/plain"))).url == site.good("/plain")

    play(scenario)


def test_the_first_request_of_a_new_tab_is_judged_and_the_worker_told() -> None:
    async def scenario(private: Private) -> None:
        with serving(PAGES) as site:
            for path in ("/secret", "/"):
                with pytest.raises(PageFailure) as failure:
                    await private.open(f"http://127.0.0.2:{site.port}{path}")
                assert failure.value.error.code is ToolErrorCode.POLICY_DENIED
            with pytest.raises(PageFailure) as failure:
                await private.open(site.good("/redirect"))
            assert failure.value.error.code is ToolErrorCode.POLICY_DENIED
            assert site.bad_hits() == []
            assert private.denials == {"navigation": 3}

    play(scenario)


def test_the_control_without_a_guard_the_denied_server_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("browsercell.bridge.chromium.private.START", ())

    async def scenario(private: Private) -> None:
        with serving(PAGES) as site:
            with contextlib.suppress(PageFailure):
                await private.open(site.good("/frame"))
            await until(site.bad_hits)

    play(scenario)


@pytest.mark.parametrize(
    "url", ["file:///etc/hostname", "chrome://version/", "data:text/html,x", "view-source:http://127.0.0.1/"]
)
def test_other_schemes_are_no_destination(url: str) -> None:
    async def scenario(private: Private) -> None:
        with contextlib.suppress(PageFailure):
            await private.open(url)
        assert await private.hub.check_url(url) == "scheme"

    play(scenario)


# ---------------------------------------------------------------------- popups, downloads, permissions, files

OPENERS = {
    "window": "window.open('GOOD/popup')",
    "noopener": "window.open('GOOD/popup', '_blank', 'noopener')",
    "sized": "window.open('GOOD/popup', 'x', 'width=300,height=300')",
    "blank-first": "w = window.open(''); w.location = 'GOOD/popup'",
    "link": "a = document.createElement('a'); a.href = 'GOOD/popup'; a.target = '_blank'; a.click()",
    "form": "f = document.createElement('form'); f.action = 'GOOD/popup'; f.method = 'post'; f.target = '_blank'; "
    "document.body.append(f); f.submit()",
}


def button(script: str) -> str:
    return f"<button onclick=\"{script}; document.title = 'clicked'\">press</button>"


async def press(private: Private, page: PageReply) -> None:
    assert page.tab is not None
    await private.run("browser_page_click", tab=page.tab, name="press", role="button")


@pytest.mark.parametrize("kind", OPENERS)
def test_a_popup_is_closed_and_loads_nothing_and_the_click_does_not_hang(kind: str) -> None:
    async def scenario(private: Private) -> None:
        with serving({"/page": button(OPENERS[kind])}) as site:
            page = await private.open(site.good("/page"))
            begun = time.monotonic()
            await press(private, page)
            assert time.monotonic() - begun < 5
            await until(lambda: private.denials.get("popup"))
            await asyncio.sleep(0.5)  # for what must not happen
            assert not site.asked("/popup")
            assert sorted(await private.tabs()) == sorted(["about:blank", site.good("/page")])
            assert private.denials == {"popup": 1}

    play(scenario)


def test_downloads_are_denied() -> None:
    async def scenario(private: Private) -> None:
        with serving({"/page": button("location = 'GOOD/file'"), "/file": "download"}) as site:
            await press(private, await private.open(site.good("/page")))
            await until(lambda: private.denials.get("download"))
            await asyncio.sleep(0.3)
            names = [path.name for path in private.spawned.folder.rglob("*") if "file.bin" in path.name]
            assert names == []

    play(scenario)


def test_permissions_are_denied_and_a_file_chooser_stays_shut() -> None:
    asked = ["geolocation", "notifications", "camera", "microphone", "clipboard-read", "midi"]
    page = (
        f"<script>Promise.all({json.dumps(asked)}.map(name => navigator.permissions.query({{name}}).then(r => r.state)))"
        ".then(states => fetch('/states?' + states.join()))</script>"
        '<input type="file" id="f"><button onclick="f.click(); fetch(\'/pressed\')">press</button>'
    )

    async def scenario(private: Private) -> None:
        with serving({"/page": page}) as site:
            opened = await private.open(site.good("/page"))
            await until(lambda: site.asked("/states"))
            states = next(path.partition("?")[2] for _, path in site.hits if path.startswith("/states"))
            assert states.split(",") == ["denied"] * len(asked)
            await press(private, opened)
            await until(lambda: site.asked("/pressed"))
            await press(private, opened)  # nothing modal is in the way

    play(scenario)


# ---------------------------------------------------------------------- others


def test_a_page_on_loopback_gets_nowhere_near_the_bridge() -> None:
    page = """<script>
      const tell = (what) => fetch('/tell?' + what);
      for (const path of ['/extension', '/']) {
        const ws = new WebSocket('ws://127.0.0.1:BRIDGE' + path);
        ws.onopen = () => tell('open'); ws.onclose = (e) => tell('closed-' + e.code);
      }
      fetch('http://127.0.0.1:BRIDGE/extension').then(r => tell('read-' + r.status), () => tell('unreadable'));
      fetch('http://127.0.0.1:BRIDGE/', {mode: 'no-cors'}).then(r => tell('opaque-' + r.type), () => tell('failed'));
    </script><iframe src="http://127.0.0.1:BRIDGE/extension"></iframe>"""

    async def scenario(private: Private) -> None:
        listener = private.hub._listener
        assert listener is not None
        before = private.hub.refused
        with serving({"/page": page.replace("BRIDGE", str(listener.port))}) as site:
            await private.open(site.good("/page"))
            await until(lambda: sum(path.startswith("/tell") for _, path in site.hits) == 4)
            told = sorted(path.partition("?")[2] for _, path in site.hits if path.startswith("/tell"))
        assert [word for word in told if word.startswith(("open", "read"))] == []
        assert told.count("closed-1006") == 2
        assert private.hub.refused >= before + 3
        assert private.denials.get("frame") == 1  # the frame never got as far as the listener
        assert len(private.hub.extensions()) == 1

    play(scenario)


def test_a_killed_browser_is_lost_and_its_calls_fail_at_once() -> None:
    async def scenario(private: Private) -> None:
        with serving({"/page": "<title>page</title>"}) as site:
            page = await private.open(site.good("/page"))
            call = asyncio.create_task(
                private.run(
                    "browser_page_wait",
                    tab=page.tab,
                    until="text",
                    text="never there",
                    timeout_ms=20_000,
                    seconds=25,
                )
            )
            await asyncio.sleep(0.3)
            begun = time.monotonic()
            os.kill(private.spawned.pid, 9)
            with pytest.raises(PageFailure) as failure:
                await call
            assert time.monotonic() - begun < 3
            assert failure.value.error.code in (ToolErrorCode.BROWSER_LOST, ToolErrorCode.EXTENSION_LOST)
            await until(lambda: private.lost)
            assert private.lost == [private.port]
            with pytest.raises(PageFailure) as failure:
                await private.run("browser_tabs_list")
            assert failure.value.error.code is ToolErrorCode.BROWSER_LOST
            assert not private.hub.extensions()

    play(scenario)


def test_close_ends_chromium_and_its_pairing() -> None:
    async def scenario(private: Private) -> None:
        await private.port.close()
        await until(lambda: not private.spawned.alive())
        assert private.lost == []  # nobody is told what he did himself
        assert (
            private.hub.registry.token_for(private.port.pairing, private.hub._own_extension() or "") is None
        )
        await private.port.close()
        with pytest.raises(PageFailure):
            await private.run("browser_tabs_list")

    play(scenario)


def test_hosts_are_read_as_this_chromium_reads_them() -> None:
    accepted = [url for url, _, _ in ACCEPTED] + [url for url, _ in TRAILING_DOT]
    refused = [url for url, code in REFUSED if code != "bad-url"]
    script = (
        "JSON.stringify(URLS.map(u => { try { const x = new URL(u); return [x.protocol, x.hostname, x.port, x.username] }"
        " catch { return null } }))"
    )

    async def scenario(private: Private) -> None:
        found = await private.cdp("Target.getTargets", {"filter": [{"type": "page"}]})
        attached = await private.cdp(
            "Target.attachToTarget", {"targetId": found["targetInfos"][0]["targetId"], "flatten": True}
        )
        expression = script.replace("URLS", json.dumps(accepted + refused))
        answer = await private.cdp("Runtime.evaluate", {"expression": expression}, attached["sessionId"])
        theirs = json.loads(answer["result"]["value"])
        for url, row in zip(accepted, theirs, strict=False):
            ours = parse_destination(url)
            assert row is not None, url
            port = int(row[2]) if row[2] else {"http:": 80, "https:": 443}[row[0]]
            host = row[1].strip("[]").removesuffix(".")
            assert (ours.scheme + ":", ours.host, ours.port) == (row[0], host, port), url
        for url in refused:
            with pytest.raises(BadUrl):
                parse_destination(url)

    play(scenario)
