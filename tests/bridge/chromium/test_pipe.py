"""`pipe`: framing, answers, bounds and ends, against the other ends of real pipes."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from browsercell.bridge.chromium import pipe as module
from browsercell.bridge.chromium.pipe import MAX_MESSAGE, CommandRefused, Pipe, PipeClosed


class Browser:
    """The browser's side: what it was sent, what it says."""

    def __init__(self) -> None:
        self.commands, commands_fd = os.pipe()
        replies_fd, self.replies = os.pipe()
        self.events: list[tuple[str, dict[str, Any], str]] = []
        self.closes = 0
        self.pipe = Pipe(
            commands_fd,
            replies_fd,
            on_event=lambda method, params, session: self.events.append((method, params, session)),
            on_closed=self._closed,
        )
        self.fds = (commands_fd, replies_fd)

    def _closed(self) -> None:
        self.closes += 1

    def say(self, *messages: object) -> None:
        os.write(self.replies, b"".join(json.dumps(message).encode() + b"\0" for message in messages))

    def read(self) -> list[dict[str, Any]]:
        return [json.loads(message) for message in os.read(self.commands, 1 << 20).split(b"\0") if message]

    def hang_up(self) -> None:
        os.close(self.replies)
        self.replies = -1

    def end(self) -> None:
        self.pipe.close()
        for fd in (self.commands, self.replies):
            if fd >= 0:
                os.close(fd)


def with_browser(scenario: Callable[[Browser], Awaitable[None]]) -> None:
    async def run() -> None:
        browser = Browser()
        try:
            await scenario(browser)
        finally:
            browser.end()
        await asyncio.sleep(0)
        assert browser.closes == 1
        for fd in browser.fds:
            with pytest.raises(OSError, match="Bad file descriptor"):
                os.fstat(fd)

    asyncio.run(run())


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.005)


def test_a_call_and_its_answer() -> None:
    async def scenario(browser: Browser) -> None:
        call = asyncio.create_task(browser.pipe.call("A.b", {"x": 1}, session="s", seconds=5))
        await asyncio.sleep(0)
        assert browser.read() == [{"id": 1, "method": "A.b", "params": {"x": 1}, "sessionId": "s"}]
        browser.say({"id": 1, "result": {"y": 2}, "sessionId": "s"})
        assert await call == {"y": 2}

    with_browser(scenario)


def test_answers_in_any_order_pieces_and_events_between() -> None:
    async def scenario(browser: Browser) -> None:
        first, second = browser.pipe.post("A.a"), browser.pipe.post("A.b")
        data = b"".join(
            json.dumps(message).encode() + b"\0"
            for message in (
                {"id": 2, "result": {}},
                {"method": "E.e", "params": {"k": "v"}, "sessionId": "t"},
                {"id": 1},
                {"method": "E.f"},
            )
        )
        for at in range(0, len(data), 7):
            os.write(browser.replies, data[at : at + 7])
            await asyncio.sleep(0.001)
        assert (await first, await second) == ({}, {})
        await until(lambda: len(browser.events) == 2)
        assert browser.events == [("E.e", {"k": "v"}, "t"), ("E.f", {}, "")]

    with_browser(scenario)


def test_a_refusal_carries_its_number_and_no_text() -> None:
    async def scenario(browser: Browser) -> None:
        call = browser.pipe.post("A.b")
        browser.say({"id": 1, "error": {"code": -32000, "message": "text of a page", "data": "more"}})
        with pytest.raises(CommandRefused) as refusal:
            await call
        assert refusal.value.code == -32000
        assert "page" not in str(refusal.value)

    with_browser(scenario)


def test_a_deadline_ends_a_call_and_a_late_answer_is_harmless() -> None:
    async def scenario(browser: Browser) -> None:
        with pytest.raises(TimeoutError):
            await browser.pipe.call("A.b", seconds=0.02)
        browser.say({"id": 1, "result": {}}, {"method": "E.e"})
        await until(lambda: len(browser.events) == 1)
        assert not browser.pipe.closed

    with_browser(scenario)


@pytest.mark.parametrize(
    "said",
    [
        b"no json\0",
        b"[1]\0",
        b"\xff\0",
        b'{"id": 99, "result": {}}\0',
        b'{"id": "1"}\0',
        b"[" * 100_000 + b"\0",
    ],
)
def test_what_breaks_the_protocol_closes_the_pipe(said: bytes) -> None:
    async def scenario(browser: Browser) -> None:
        call = browser.pipe.post("A.b")
        await asyncio.to_thread(os.write, browser.replies, said)
        with pytest.raises(PipeClosed):
            await call
        assert browser.pipe.closed

    with_browser(scenario)


@pytest.mark.parametrize("ended", [True, False])
def test_a_message_over_the_bound_closes_the_pipe(monkeypatch: pytest.MonkeyPatch, ended: bool) -> None:
    monkeypatch.setattr(module, "MAX_MESSAGE", 1000)

    async def scenario(browser: Browser) -> None:
        call = browser.pipe.post("A.b")
        os.write(browser.replies, b"x" * 1001 + (b"\0" if ended else b""))
        with pytest.raises(PipeClosed):
            await call

    with_browser(scenario)


def test_a_large_message_within_the_bound_arrives() -> None:
    async def scenario(browser: Browser) -> None:
        call = browser.pipe.post("A.b")
        text = "x" * (MAX_MESSAGE // 4)
        message = json.dumps({"id": 1, "result": {"text": text}}).encode() + b"\0"

        def write() -> None:
            view = memoryview(message)
            while view:
                view = view[os.write(browser.replies, view) :]

        await asyncio.gather(asyncio.to_thread(write), call)
        assert (await call)["text"] == text

    with_browser(scenario)


def test_the_browsers_end_fails_what_is_open_and_what_comes() -> None:
    async def scenario(browser: Browser) -> None:
        call = browser.pipe.post("A.b")
        browser.hang_up()
        with pytest.raises(PipeClosed):
            await call
        with pytest.raises(PipeClosed):
            await browser.pipe.call("A.b", seconds=1)

    with_browser(scenario)


def test_a_browser_that_reads_nothing_is_written_to_up_to_a_bound() -> None:
    async def scenario(browser: Browser) -> None:
        text = "x" * 100_000
        calls = [browser.pipe.post("A.b", {"text": text})]
        assert not browser.pipe.closed
        while not browser.pipe.closed:
            calls.append(browser.pipe.post("A.b", {"text": text}))
        assert len(calls) < 20
        for call in calls:
            with pytest.raises(PipeClosed):
                await call

    with_browser(scenario)


def test_a_slow_reader_gets_everything_in_order() -> None:
    async def scenario(browser: Browser) -> None:
        calls = [browser.pipe.post("A.b", {"n": number, "fill": "x" * 50_000}) for number in range(10)]
        data = bytearray()
        while data.count(0) < 10:
            data += await asyncio.to_thread(os.read, browser.commands, 1 << 16)
        assert [json.loads(message)["params"]["n"] for message in data.split(b"\0")[:-1]] == list(range(10))
        browser.say(*({"id": number + 1, "result": {}} for number in range(10)))
        await asyncio.gather(*calls)

    with_browser(scenario)


def test_open_calls_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_OPEN", 3)

    async def scenario(browser: Browser) -> None:
        calls = [browser.pipe.post("A.b") for _ in range(4)]
        assert browser.pipe.closed
        for call in calls:
            with pytest.raises(PipeClosed):
                await call

    with_browser(scenario)


def test_a_browser_that_is_gone_is_noticed_when_writing() -> None:
    async def scenario(browser: Browser) -> None:
        os.close(browser.commands)
        browser.commands = -1
        with pytest.raises(PipeClosed):
            await browser.pipe.post("A.b")

    with_browser(scenario)


def test_an_event_handler_may_close_the_pipe() -> None:
    async def scenario(browser: Browser) -> None:
        browser.pipe._on_event = lambda *_event: browser.pipe.close()
        call = browser.pipe.post("A.b")
        browser.say({"method": "E.e"}, {"id": 1, "result": {}})
        with pytest.raises(PipeClosed):
            await call

    with_browser(scenario)


def test_descriptors_that_are_none_are_a_closed_pipe() -> None:
    async def run() -> None:
        closes: list[int] = []
        read_fd, write_fd = os.pipe()
        os.close(read_fd)
        made = Pipe(write_fd, read_fd, on_event=lambda *_event: None, on_closed=lambda: closes.append(1))
        assert made.closed
        await asyncio.sleep(0)
        assert closes == [1]
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(write_fd)

    asyncio.run(run())
