"""Several tasks and several hosts at once, and every way a task ends early."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from browsercell.protocol.client import AsyncClient, Client
from browsercell.protocol.errors import BlockerCode, UsageError
from browsercell.protocol.frames import HostProgress, SessionKind, TaskPhase
from browsercell.protocol.results import BrowserDelegateResult, Status
from browsercell.supervisor.demo import catalogue
from browsercell.supervisor.demo.server import Bookshop

from tests.support.live import (
    Live,
    click,
    done,
    expect,
    navigate,
    observe,
    roles,
    said,
    table_to,
    until,
    wanted,
)

NEVER = "this text never comes"


def waiting(shop: Bookshop, milliseconds: int = 20_000) -> dict[str, Any]:
    """A task that waits for a text in vain."""
    return {
        "browser": "private",
        "playbook": [navigate(f"{shop.url}/"), expect(timeout_ms=milliseconds, text=NEVER), done()],
    }


def browsers_of(live: Live) -> int:
    with live.client() as client:
        return roles(client.processes()).count("chromium")


def test_two_hosts_delegate_side_by_side(live: Live, bookshop: Bookshop, tmp_path: Path) -> None:
    books = catalogue.BOOKS[:2]

    async def reserve(
        folder: Path, book: catalogue.Book, other: asyncio.Event, own: asyncio.Event
    ) -> BrowserDelegateResult:
        folder.mkdir()

        def running(progress: HostProgress) -> None:
            if progress.phase is TaskPhase.RUNNING:
                own.set()

        async with AsyncClient(directory=folder, runtime_folder=live.runtime) as client:
            result = await client.delegate(
                "Reserve a book",
                browser="private",
                deliverables=[wanted("prices", "prices.csv")],
                playbook=[
                    navigate("${site}/live"),
                    click("button", f"Reserve {book.title}"),
                    expect(text=f"Reserved: {book.title}"),
                    navigate("${site}/prices"),
                    table_to("prices", "Prices"),
                    done(),
                ],
                variables={"site": bookshop.url},
                on_progress=running,
            )
            async with asyncio.timeout(30):
                await other.wait()
            return result

    async def both() -> list[BrowserDelegateResult]:
        one, two = asyncio.Event(), asyncio.Event()
        return list(
            await asyncio.gather(
                reserve(tmp_path / "one", books[0], two, one), reserve(tmp_path / "two", books[1], one, two)
            )
        )

    results = asyncio.run(both())
    for result in results:
        assert result.status is Status.COMPLETED, said(result)
    assert results[0].task_id != results[1].task_id
    assert bookshop.reservations() == {book.number: 1 for book in books}
    assert (tmp_path / "one" / "prices.csv").read_bytes() == (tmp_path / "two" / "prices.csv").read_bytes()


def test_one_host_delegates_twice_at_once(live: Live, bookshop: Bookshop) -> None:
    async def both() -> list[BrowserDelegateResult]:
        async with AsyncClient(runtime_folder=live.runtime) as client:
            playbook = [navigate(f"{bookshop.url}/prices"), observe(), done()]
            return await asyncio.gather(
                *(client.delegate(f"Look {n}", browser="private", playbook=playbook) for n in range(2))
            )

    results = asyncio.run(both())
    assert [result.status for result in results] == [Status.COMPLETED] * 2, [said(one) for one in results]


def test_a_cancelled_task_is_over_and_its_browser_gone(live: Live, bookshop: Bookshop) -> None:
    seen: list[TaskPhase] = []

    async def cancelled() -> BrowserDelegateResult:
        async with AsyncClient(runtime_folder=live.runtime) as client:
            running = asyncio.Event()

            def progress(one: HostProgress) -> None:
                seen.append(one.phase)
                if one.phase is TaskPhase.RUNNING and one.tool_calls:
                    running.set()

            # `timeout` ends a delegation as a host's cancel does, and still returns its result.
            call = asyncio.create_task(
                client.delegate("Wait", on_progress=progress, timeout=4, **waiting(bookshop))
            )
            async with asyncio.timeout(30):
                await running.wait()
            return await call

    result = asyncio.run(cancelled())
    assert (result.status, result.blocker_code) == (Status.FAILED, BlockerCode.CANCELLED), said(result)
    until(lambda: browsers_of(live) == 0, 10, "the end of the browser")


def test_cancelling_the_awaiting_task_cancels_the_delegation(live: Live, bookshop: Bookshop) -> None:
    async def cancelled() -> None:
        async with AsyncClient(runtime_folder=live.runtime) as client:
            running = asyncio.Event()
            call = asyncio.create_task(
                client.delegate(
                    "Wait",
                    on_progress=lambda one: running.set() if one.tool_calls else None,
                    **waiting(bookshop),
                )
            )
            async with asyncio.timeout(30):
                await running.wait()
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call

    begun = time.monotonic()
    asyncio.run(cancelled())
    assert time.monotonic() - begun < 15, "the delegation ran on"
    until(lambda: browsers_of(live) == 0, 10, "the end of the browser")


def test_a_host_that_leaves_takes_its_task_along(live: Live, bookshop: Bookshop) -> None:
    async def leave() -> None:
        client = AsyncClient(runtime_folder=live.runtime)
        await client.open()
        running = asyncio.Event()
        call = asyncio.create_task(
            client.delegate(
                "Wait", on_progress=lambda one: running.set() if one.tool_calls else None, **waiting(bookshop)
            )
        )
        async with asyncio.timeout(30):
            await running.wait()
        await client.close()
        result = await call
        assert result.blocker_code is BlockerCode.SUPERVISOR_RESTARTED  # all that this side can know

    asyncio.run(leave())
    until(lambda: browsers_of(live) == 0, 15, "the end of the browser")


def test_a_task_out_of_time_ends_with_its_code(host: Client, bookshop: Bookshop) -> None:
    result = host.delegate("Wait", limits={"seconds": 4}, **waiting(bookshop))
    assert (result.status, result.blocker_code) == (Status.BLOCKED, BlockerCode.TIME_LIMIT), said(result)
    assert result.usage.seconds < 12
    assert not result.retryable


def test_a_condition_that_never_comes_true_names_its_step(host: Client, bookshop: Bookshop) -> None:
    result = host.delegate("Wait", **waiting(bookshop, 500))
    assert (result.status, result.blocker_code) == (Status.BLOCKED, BlockerCode.EXPECTATION_FAILED), said(
        result
    )
    assert "Step 2" in result.summary
    assert NEVER not in result.summary


def test_a_playbook_longer_than_its_limit_never_starts(host: Client, bookshop: Bookshop) -> None:
    result = host.delegate(
        "Look three times",
        browser="private",
        playbook=[navigate(bookshop.url), observe(), observe(), done()],
        limits={"toolCalls": 2},
    )
    assert (result.status, result.blocker_code) == (Status.FAILED, BlockerCode.INVALID_REQUEST), said(result)
    assert result.usage.generations == 0


def test_a_child_session_may_look_and_nothing_else(live: Live, bookshop: Bookshop) -> None:
    with live.client(kind=SessionKind.CHILD) as child:
        assert child.status()["supervisor"]["state"] == "running"
        with pytest.raises(UsageError):
            child.delegate("Look", browser="private", playbook=[navigate(bookshop.url), done()])
        with pytest.raises(UsageError):
            child.deliver(["a_unknown"])


def test_worker_tools_are_refused_to_a_host(host: Client) -> None:
    for name in ("browser_page_observe", "browser_page_click", "structured_output"):
        with pytest.raises(UsageError):
            host.call(name, b"{}")


def test_a_secret_in_the_goal_is_refused_and_not_repeated(host: Client) -> None:
    result = host.delegate("Log in with password: hunter2hunter2", browser="private", playbook=[done()])
    assert (result.status, result.blocker_code) == (Status.FAILED, BlockerCode.SECRET_IN_GOAL), said(result)
    assert "hunter2" not in result.summary + (result.next_step or "")


def test_after_all_of_that_nothing_is_left_but_the_resting_processes(live: Live, host: Client) -> None:
    until(lambda: browsers_of(live) == 0, 10, "the end of all browsers")
    until(lambda: roles(host.processes()).count("worker") == 2, 15, "two spares")
    assert set(roles(host.processes())) == {"supervisor", "bridge", "model-bridge", "worker"}
    assert host.status()["capacity"]["running"] == 0
