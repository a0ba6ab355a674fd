"""`port`: each call settles once, in time, with an honest word on its effect; nothing is sent twice."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from browsercell.bridge.extension import port as module
from browsercell.bridge.extension.port import MAX_OPEN, Port
from browsercell.bridge.ports import PageFailure
from browsercell.protocol.errors import FrameTooLarge, ToolErrorCode
from browsercell.protocol.frames import ExtCancel, ExtCommand, ExtFrame, ExtReply, PageError, PageReply

READ, EFFECT = "browser_page_observe", "browser_page_click"


class FakeWire:
    """Keeps what it is given; `error`: what sending raises; `stuck`: sending never ends; `prompt`: it takes frames at once."""

    def __init__(self) -> None:
        self.sent: list[ExtFrame] = []
        self.error: Exception | None = None
        self.stuck = False
        self.prompt = False

    def send_now(self, frame: ExtFrame) -> bool:
        if self.prompt:
            self.sent.append(frame)
        return self.prompt

    async def send(self, frame: ExtFrame) -> None:
        if self.error is not None:
            raise self.error
        self.sent.append(frame)
        if self.stuck:
            await asyncio.sleep(60)

    @property
    def commands(self) -> list[ExtCommand]:
        return [frame for frame in self.sent if isinstance(frame, ExtCommand)]


def play(scenario: Callable[[Port, FakeWire], Awaitable[None]], **options: Any) -> None:
    async def run() -> None:
        made, wire = Port("user", **options), FakeWire()
        made.connected(wire)
        await scenario(made, wire)
        assert not made._waiting
        assert not made._ops
        assert len(made._table) == 0

    asyncio.run(run())


async def begin(made: Port, op: str = READ, deadline_ms: int = 5_000, **more: Any) -> asyncio.Task[PageReply]:
    task = asyncio.create_task(made.call(op, b'{"x":1}', deadline_ms=deadline_ms, **more))
    await asyncio.sleep(0.01)
    return task


async def failure(call: Awaitable[PageReply]) -> PageError:
    with pytest.raises(PageFailure) as raised:
        await call
    return raised.value.error


@pytest.mark.parametrize("early", [True, False])
def test_an_answer_in_the_turn_of_the_deadline_or_of_a_cancellation_breaks_nothing(early: bool) -> None:
    """The await is over, its task has not run yet, and the answer arrives."""

    async def scenario(port: Port, wire: FakeWire) -> None:
        call = asyncio.create_task(port.call(READ, b"{}", tab=1, deadline_ms=60_000))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        reply = ExtReply(id=wire.commands[0].id, ok=PageReply(text="seen"))
        if early:
            assert port.reply(reply)
            call.cancel()
        else:
            call.cancel()
            assert port.reply(reply)
        with contextlib.suppress(asyncio.CancelledError):
            await call
        assert not port.reply(reply)  # a second answer is one to nothing

    play(scenario)


def test_a_wire_that_takes_the_command_at_once_is_not_waited_for() -> None:
    async def scenario(port: Port, wire: FakeWire) -> None:
        wire.prompt = True
        wire.error = ConnectionError("never asked to wait")
        call = asyncio.create_task(port.call(READ, b"{}", tab=1, deadline_ms=1_000))
        await asyncio.sleep(0)
        assert port.reply(ExtReply(id=wire.commands[0].id, ok=PageReply(text="seen")))
        assert (await call).text == "seen"

    play(scenario)


def test_a_command_and_its_answer() -> None:
    async def scenario(made: Port, wire: FakeWire) -> None:
        call = await begin(made, tab=7, tabs=(7, 8))
        [command] = wire.commands
        assert (command.id, command.op, bytes(command.args), command.tab, command.tabs) == (
            1,
            READ,
            b'{"x":1}',
            7,
            (7, 8),
        )
        assert 4_900 <= command.deadline_ms <= 5_000
        assert made.reply(ExtReply(id=1, ok=PageReply(text="hello")))
        assert (await call).text == "hello"
        assert made.pairing == "user"

    play(scenario)


def test_an_error_is_the_extensions_own() -> None:
    async def scenario(made: Port, _wire: FakeWire) -> None:
        call = await begin(made, EFFECT)
        error = PageError(code=ToolErrorCode.STALE_REF, message="The element is gone.", retryable=True)
        assert made.reply(ExtReply(id=1, error=error))
        assert await failure(call) == error

    play(scenario)


@pytest.mark.parametrize(
    "reply", [ExtReply(id=1), ExtReply(id=1, ok=PageReply(), error=PageError(ToolErrorCode.INTERNAL, "x"))]
)
@pytest.mark.parametrize("op", [READ, EFFECT])
def test_an_answer_that_is_none_breaks_the_protocol(reply: ExtReply, op: str) -> None:
    async def scenario(made: Port, _wire: FakeWire) -> None:
        call = await begin(made, op)
        assert not made.reply(reply)
        error = await failure(call)
        assert (error.code, error.may_have_effect) == (ToolErrorCode.INTERNAL, op == EFFECT)
        assert not made.reply(reply)

    play(scenario)


def test_invented_and_repeated_answers_break_the_protocol() -> None:
    async def scenario(made: Port, _wire: FakeWire) -> None:
        assert not made.reply(ExtReply(id=5, ok=PageReply()))
        call = await begin(made)
        assert made.reply(ExtReply(id=1, ok=PageReply()))
        await call
        assert not made.reply(ExtReply(id=1, ok=PageReply()))

    play(scenario)


@pytest.mark.parametrize(
    ("op", "effect"), [(READ, False), (EFFECT, True), ("release", False), ("unheard_of", True)]
)
def test_at_the_deadline_the_extension_is_told_and_the_effect_is_honest(
    monkeypatch: pytest.MonkeyPatch, op: str, effect: bool
) -> None:
    monkeypatch.setattr(module, "SLACK_MS", 20)

    async def scenario(made: Port, wire: FakeWire) -> None:
        error = await failure(await begin(made, op, deadline_ms=30))
        assert (error.code, error.may_have_effect, error.retryable) == (
            ToolErrorCode.TIMEOUT,
            effect,
            not effect,
        )
        assert wire.sent[1:] == [ExtCancel(id=1)]
        assert made.reply(ExtReply(id=1, ok=PageReply()))  # late: nobody's fault
        assert not made.reply(ExtReply(id=1, ok=PageReply()))

    play(scenario)


def test_a_cancelled_call_tells_the_extension() -> None:
    async def scenario(made: Port, wire: FakeWire) -> None:
        call = await begin(made, EFFECT)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert wire.sent[1:] == [ExtCancel(id=1)]

    play(scenario)


def test_cancelled_while_its_answer_is_being_handed_over() -> None:
    async def scenario(made: Port, wire: FakeWire) -> None:
        call = await begin(made, EFFECT)
        made.reply(ExtReply(id=1, ok=PageReply()))
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert len(wire.sent) == 1

    play(scenario)


@pytest.mark.parametrize("stuck", [True, False])
def test_a_cancel_that_can_not_be_sent_holds_nobody_up(monkeypatch: pytest.MonkeyPatch, stuck: bool) -> None:
    monkeypatch.setattr(module, "SLACK_MS", 20)

    async def scenario(made: Port, wire: FakeWire) -> None:
        call = await begin(made, deadline_ms=30)
        wire.stuck, wire.error = stuck, None if stuck else ConnectionError()
        assert (await failure(call)).code is ToolErrorCode.TIMEOUT

    play(scenario)


@pytest.mark.parametrize(("op", "effect"), [(READ, False), (EFFECT, True)])
def test_a_lost_connection_fails_what_is_under_way(op: str, effect: bool) -> None:
    async def scenario(made: Port, wire: FakeWire) -> None:
        call = await begin(made, op)
        made.disconnected(FakeWire())  # another, older one: nothing happens
        assert not call.done()
        made.disconnected(wire)
        error = await failure(call)
        assert (error.code, error.may_have_effect, error.retryable) == (
            ToolErrorCode.EXTENSION_LOST,
            effect,
            not effect,
        )

    play(scenario)


def test_a_newer_connection_takes_over_and_the_older_ones_calls_are_lost() -> None:
    async def scenario(made: Port, wire: FakeWire) -> None:
        call = await begin(made, EFFECT)
        newer = FakeWire()
        made.connected(newer)
        assert (await failure(call)).code is ToolErrorCode.EXTENSION_LOST
        made.disconnected(wire)
        again = await begin(made)
        assert [command.id for command in newer.commands] == [2]
        made.reply(ExtReply(id=2, ok=PageReply()))
        await again
        assert len(wire.sent) == 1

    play(scenario)


def test_without_a_connection_a_call_waits_for_the_next() -> None:
    async def scenario(made: Port, wire: FakeWire) -> None:
        made.disconnected(wire)
        call = await begin(made, EFFECT)
        await asyncio.sleep(0.05)
        newer = FakeWire()
        made.connected(newer)
        await asyncio.sleep(0.01)
        [command] = newer.commands
        assert 4_000 < command.deadline_ms <= 4_960  # what is left of it
        made.reply(ExtReply(id=command.id, ok=PageReply()))
        await call

    play(scenario)


def test_nobody_comes_back_in_time() -> None:
    async def scenario(made: Port, wire: FakeWire) -> None:
        made.disconnected(wire)
        error = await failure(made.call(EFFECT, b"{}", deadline_ms=30))
        assert (error.code, error.may_have_effect, error.retryable) == (
            ToolErrorCode.EXTENSION_LOST,
            False,
            True,
        )

    play(scenario)


@pytest.mark.parametrize("code", [ToolErrorCode.BROWSER_LOST, ToolErrorCode.EXTENSION_LOST])
def test_a_lost_browser_fails_everything_for_good(code: ToolErrorCode) -> None:
    async def scenario(made: Port, wire: FakeWire) -> None:
        call = await begin(made, EFFECT)
        assert made.lose(code)
        assert made.lost
        assert not made.lose(code)
        error = await failure(call)
        assert (error.code, error.may_have_effect, error.retryable) == (code, True, False)
        error = await failure(made.call(EFFECT, b"{}", deadline_ms=5_000))
        assert (error.code, error.may_have_effect) == (code, False)
        assert len(wire.sent) == 1

    play(scenario)


def test_a_call_that_waits_hears_of_the_loss_at_once() -> None:
    async def scenario(made: Port, wire: FakeWire) -> None:
        made.disconnected(wire)
        call = await begin(made)
        made.lose(ToolErrorCode.BROWSER_LOST)
        assert (await failure(call)).code is ToolErrorCode.BROWSER_LOST

    play(scenario)


def test_a_connection_that_ends_while_sending() -> None:
    async def scenario(made: Port, wire: FakeWire) -> None:
        wire.error = ConnectionError()
        error = await failure(made.call(EFFECT, b"{}", deadline_ms=5_000))
        assert (error.code, error.may_have_effect) == (ToolErrorCode.EXTENSION_LOST, True)

    play(scenario)


def test_a_socket_that_takes_nothing_ends_the_call_at_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SLACK_MS", 20)

    async def scenario(made: Port, wire: FakeWire) -> None:
        wire.stuck = True
        error = await failure(made.call(EFFECT, b"{}", deadline_ms=30))
        assert (error.code, error.may_have_effect) == (ToolErrorCode.TIMEOUT, True)

    play(scenario)


def test_a_command_over_the_bound_was_never_sent() -> None:
    async def scenario(made: Port, wire: FakeWire) -> None:
        wire.error = FrameTooLarge("over the bound")
        error = await failure(made.call(EFFECT, b"{}", deadline_ms=5_000))
        assert (error.code, error.may_have_effect) == (ToolErrorCode.TOO_LARGE, False)

    play(scenario)


def test_open_calls_are_bounded() -> None:
    async def scenario(made: Port, wire: FakeWire) -> None:
        calls = [await begin(made) for _ in range(MAX_OPEN)]
        error = await failure(made.call(EFFECT, b"{}", deadline_ms=5_000))
        assert (error.code, error.may_have_effect) == (ToolErrorCode.QUOTA_EXCEEDED, False)
        made.disconnected(wire)
        for call in calls:
            await failure(call)

    play(scenario)


@pytest.mark.parametrize(
    ("code", "denied", "seen"),
    [
        (ToolErrorCode.NAVIGATION_FAILED, 1, ToolErrorCode.POLICY_DENIED),
        (ToolErrorCode.ERROR_PAGE, 1, ToolErrorCode.POLICY_DENIED),
        (ToolErrorCode.NAVIGATION_FAILED, 0, ToolErrorCode.NAVIGATION_FAILED),
        (ToolErrorCode.STALE_REF, 1, ToolErrorCode.STALE_REF),
    ],
)
def test_a_navigation_that_our_policy_stopped_says_so(
    code: ToolErrorCode, denied: int, seen: ToolErrorCode
) -> None:
    count = [3]

    async def scenario(made: Port, _wire: FakeWire) -> None:
        call = await begin(made, "browser_page_navigate")
        count[0] += denied
        made.reply(
            ExtReply(id=1, error=PageError(code=code, message="x", retryable=True, may_have_effect=True))
        )
        error = await failure(call)
        assert error.code is seen
        assert error.may_have_effect
        assert error.retryable is (seen is not ToolErrorCode.POLICY_DENIED)

    play(scenario, denials=lambda: count[0])


def test_close_does_what_the_hub_set() -> None:
    async def scenario(made: Port, _wire: FakeWire) -> None:
        await made.close()  # the user's browser: nothing
        done: list[str] = []

        async def close() -> None:
            done.append("closed")

        made.on_close = close
        await made.close()
        assert done == ["closed"]

    play(scenario)
