"""The host link with real sockets: sessions side by side, violations, hosts that vanish, both clients."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browsercell.protocol import frames as f
from browsercell.protocol import limits as L
from browsercell.protocol.client import AsyncClient, Client, DelegationInterrupted
from browsercell.protocol.codec import Decoder, encode
from browsercell.protocol.errors import ActorRaised, BlockerCode, CallCancelled, Unavailable, UsageError
from browsercell.protocol.links import Link, frame_types
from browsercell.protocol.places import host_socket
from browsercell.protocol.results import Status
from browsercell.protocol.transport_blocking import BlockingLinks
from browsercell.supervisor import hosts

from tests.support.hosts import Served, serving


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serving(tmp_path / "r") as one:
        yield one


def until(condition: Callable[[], bool], seconds: float = 5.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


class Raw:
    """A host that speaks frames by hand."""

    def __init__(self, served: Served) -> None:
        self._links = BlockingLinks()
        self._link = self._links.connect(host_socket(served.folder), max_message=L.MAX_HOST_FRAME)
        self._link.wait_ready(2000)
        self._decoder: Decoder[Any] = Decoder(frame_types(Link.SUPERVISOR_TO_HOST), L.MAX_HOST_FRAME)

    def send(self, data: bytes) -> None:
        self._link.send(data, 1000)

    def next(self, milliseconds: int = 2000) -> Any:
        data = self._link.receive(milliseconds)
        return None if data is None else self._decoder.decode(data)

    def close(self) -> None:
        self._links.close()


def test_a_delegation_from_call_to_result(served: Served, tmp_path: Path) -> None:
    seen: list[f.HostProgress] = []
    with Client(runtime_folder=served.folder, directory=tmp_path) as client:
        assert client.session.startswith("session")
        result = client.delegate("do it", on_progress=seen.append)
        assert (result.status, result.summary) == (Status.COMPLETED, "do it")
        assert client.supervisor_pid is None
    assert [progress.tool for progress in seen] == ["browser_page_click"]
    directory = served.core.directories[0]
    assert directory is not None
    assert directory.path == str(tmp_path)


def test_everything_else_a_client_can_ask(served: Served, tmp_path: Path) -> None:
    with Client(runtime_folder=served.folder, directory=tmp_path) as client:
        assert client.status() == {"supervisor": {"state": "running"}}
        assert client.extension_status() == {"connected": []}
        assert client.processes()[0].role == "supervisor"
        assert client.deliver(["a"])[0].artifact_id == "a"
        assert client.call("browser_status", b"{}").startswith(b"{")
        client.new_turn()
        client.stop_supervisor()
        until(lambda: served.core.stops == 1)


def test_refusals_are_exceptions_with_a_remedy(served: Served) -> None:
    with Client(runtime_folder=served.folder) as client:
        with pytest.raises(UsageError, match="no working directory"):
            client.deliver(["a"])
        with pytest.raises(UsageError, match="never for hosts"):
            client.call("browser_page_click", b"{}")
        result = client.delegate("x", url="https://a.example")
        assert result.status is Status.COMPLETED
    with (
        Client(runtime_folder=served.folder, kind=f.SessionKind.CHILD) as child,
        pytest.raises(UsageError, match="child"),
    ):
        child.delegate("x")


def test_a_bad_delegation_by_hand_is_a_result(served: Served) -> None:
    with Client(runtime_folder=served.folder) as client:
        answer = client.call("browser_delegate_task", b'{"goal":"x","selector":"y"}')
    assert b"invalid-request" in answer
    assert b"selector" in answer


def test_a_missing_directory_ends_the_session_with_a_sentence(served: Served, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        Client(runtime_folder=served.folder, directory=tmp_path / "absent")


def test_no_supervisor_is_said_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="supervisor run"):
        Client(runtime_folder=str(tmp_path))


def test_a_timeout_cancels_and_still_gives_the_result(served: Served) -> None:
    with Client(runtime_folder=served.folder) as client:
        result = client.delegate("wait", timeout=0.2)
    assert result.blocker_code is BlockerCode.CANCELLED


def test_ctrl_c_cancels_the_task_and_goes_on(served: Served) -> None:
    def interrupt(_: f.HostProgress) -> None:
        raise KeyboardInterrupt

    with Client(runtime_folder=served.folder) as client, pytest.raises(DelegationInterrupted) as interrupted:
        client.delegate("wait", on_progress=interrupt)
    assert interrupted.value.result.blocker_code is BlockerCode.CANCELLED
    assert served.core.handles[0]._cancelled.is_set()


def test_a_host_that_leaves_has_its_tasks_cancelled(served: Served) -> None:
    client = Client(runtime_folder=served.folder)
    thread = threading.Thread(target=lambda: client.delegate("wait", timeout=0.3), daemon=True)
    raw = Raw(served)
    raw.send(encode(f.OpenSession(L.WIRE_VERSION), L.MAX_HOST_FRAME))
    raw.send(encode(f.HostCall(1, "browser_delegate_task", b'{"goal":"wait"}'), L.MAX_HOST_FRAME))
    assert isinstance(raw.next(), f.SessionOpened)
    assert isinstance(raw.next(), f.HostProgress)
    thread.start()
    raw.close()
    until(lambda: served.core.handles[0]._cancelled.is_set())
    thread.join(5)
    client.close()


def test_a_vanished_supervisor_is_an_honest_result(served: Served) -> None:
    with Client(runtime_folder=served.folder) as client:
        timer = threading.Timer(0.2, lambda: served.call(lambda: served.link._link.close()))
        timer.start()
        result = client.delegate("wait", timeout=10)
        timer.join()
    assert result.blocker_code is BlockerCode.SUPERVISOR_RESTARTED


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"\x01garbage", "protocol-violation"),
        (b"\x02" + b"x" * 10, "wrong-version"),
        (encode(f.NewTurn(), 1000), "protocol-violation"),
        (encode(f.OpenSession(L.WIRE_VERSION + 1), 1000), "wrong-version"),
        (encode(f.OpenSession(L.WIRE_VERSION, directory="relative"), 1000), "invalid-request"),
    ],
)
def test_a_host_that_breaks_the_protocol_loses_its_session_only(
    served: Served, data: bytes, code: str
) -> None:
    raw = Raw(served)
    raw.send(data)
    fault = raw.next()
    assert (fault.call, fault.code) == (0, code)
    raw.send(encode(f.OpenSession(L.WIRE_VERSION), L.MAX_HOST_FRAME))
    assert raw.next(200) is None
    raw.close()
    with Client(runtime_folder=served.folder) as client:
        assert client.status()


def test_sessions_are_bounded(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts, "MAX_SESSIONS", 1)
    with (
        Client(runtime_folder=served.folder),
        pytest.raises(Unavailable, match="more than 1 hosts"),
    ):
        Client(runtime_folder=served.folder)


def comes_in(served: Served) -> bool:
    try:
        with Client(runtime_folder=served.folder) as client:
            return bool(client.status())
    except Unavailable:
        return False


def test_ended_sessions_of_a_living_process_make_room(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosts, "MAX_SESSIONS", 2)
    monkeypatch.setattr(hosts, "PROBE_SECONDS", 0.01)
    with Client(runtime_folder=served.folder) as idle:
        for _ in range(5):
            until(lambda: comes_in(served))  # the router hears of an end a moment later
        assert idle.status(), "an idle session was lost, or a sign of life confused it"


def test_a_fault_of_the_supervisor_loses_one_outcome_only(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    with Client(runtime_folder=served.folder) as client:
        raw = Raw(served)
        raw.send(encode(f.OpenSession(L.WIRE_VERSION), L.MAX_HOST_FRAME))
        raw.send(encode(f.HostCall(1, "browser_delegate_task", b'{"goal":"fail"}'), L.MAX_HOST_FRAME))
        until(lambda: any("outcome was lost" in record.message for record in caplog.records))
        assert client.status()
        raw.close()


def test_closing_gives_every_running_task_its_outcome(tmp_path: Path) -> None:
    with serving(tmp_path / "r") as served, Client(runtime_folder=served.folder) as client:
        timer = threading.Timer(0.2, served.close)
        timer.start()
        assert client.delegate("wait", timeout=10).blocker_code is BlockerCode.CANCELLED
        timer.join()


def test_the_asyncio_client_runs_calls_side_by_side(served: Served, tmp_path: Path) -> None:
    async def main() -> None:
        seen: list[f.HostProgress] = []
        async with AsyncClient(runtime_folder=served.folder, directory=tmp_path) as client:
            results = await asyncio.gather(
                *(client.delegate(f"goal {n}", on_progress=seen.append) for n in range(5))
            )
            assert [result.summary for result in results] == [f"goal {n}" for n in range(5)]
            assert (await client.status())["supervisor"]
            assert await client.extension_status() == {"connected": []}
            assert (await client.processes())[0].role == "supervisor"
            assert (await client.deliver(["a"]))[0].delivered
            client.new_turn()
            with pytest.raises(UsageError):
                await client.call("browser_page_click", b"{}")
        assert len(seen) == 5

    asyncio.run(main())


def test_cancelling_the_awaiting_task_cancels_the_delegation(served: Served) -> None:
    async def main() -> None:
        async with AsyncClient(runtime_folder=served.folder) as client:
            task = asyncio.create_task(client.delegate("wait"))
            while not served.core.handles:
                await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert served.core.handles[0]._cancelled.is_set()
            assert (await client.delegate("wait", timeout=0.1)).blocker_code is BlockerCode.CANCELLED

    asyncio.run(main())


def test_the_asyncio_client_reports_losses(served: Served, tmp_path: Path) -> None:
    async def main() -> None:
        with pytest.raises(Unavailable):
            async with AsyncClient(runtime_folder=str(tmp_path)):
                pytest.fail("it opened without a supervisor")
        client = AsyncClient(runtime_folder=served.folder)
        with pytest.raises(Unavailable):
            client.new_turn()
        await client.open()
        running = asyncio.create_task(client.delegate("wait"))
        asking = client._expect(99)
        await asyncio.sleep(0.1)
        served.call(lambda: served.link._link.close())
        assert (await running).blocker_code is BlockerCode.SUPERVISOR_RESTARTED
        with pytest.raises(CallCancelled):
            await asking
        await client.close()

    asyncio.run(main())


def test_unknown_refusals_keep_their_code() -> None:
    from browsercell.protocol.client_core import fault_error

    error = fault_error(f.HostFault(1, "odd", "what", "next"))
    assert isinstance(error, ActorRaised)
    assert error.code == "odd"


def test_who_is_connected_is_found_by_asking(served: Served) -> None:
    first = Client(runtime_folder=served.folder)
    second = Client(runtime_folder=served.folder)
    assert served.call(served.link.connected) == 2
    second.close()
    until(lambda: served.call(served.link.connected) == 1)
    assert first.status()  # signs of life are ignored
    first.close()
    until(lambda: served.call(served.link.connected) == 0)


def test_a_blocking_client_reconnects_to_the_next_supervisor(tmp_path: Path) -> None:
    with serving(tmp_path / "r") as first, Client(runtime_folder=first.folder) as client:
        session = client.session
        assert client.connected
        first.call(first.link._link.close)
        until(lambda: not client.connected)
        with pytest.raises(Unavailable):
            client.reconnect()
        (tmp_path / "r" / "host").rename(tmp_path / "old")
        with serving(tmp_path / "r"):
            client.reconnect()
            assert client.connected
            assert client.session != session
            assert client.delegate("again").summary == "again"


def test_an_asyncio_client_reconnects_to_the_next_supervisor(tmp_path: Path) -> None:
    async def main() -> None:
        with serving(tmp_path / "r") as first:
            client = AsyncClient(runtime_folder=first.folder)
            assert not client.connected
            async with client:
                assert client.connected
                assert (client.runtime_folder, client.supervisor_pid) == (first.folder, None)
                first.call(first.link._link.close)
                async with asyncio.timeout(5):
                    while client.connected:
                        await asyncio.sleep(0.01)
                with pytest.raises(Unavailable):
                    await client.status()
                (tmp_path / "r" / "host").rename(tmp_path / "old")
                with serving(tmp_path / "r") as second:
                    await client.reconnect()
                    assert (await client.delegate("again")).summary == "again"
                    client.stop_supervisor()
                    async with asyncio.timeout(5):
                        while not second.core.stops:
                            await asyncio.sleep(0.01)

    asyncio.run(main())


def test_a_call_that_takes_too_long_is_cancelled_and_its_answer_returned(served: Served) -> None:
    async def main() -> None:
        async with AsyncClient(runtime_folder=served.folder) as client:
            result = await client.delegate("wait", timeout=0.2)
            assert result.blocker_code is BlockerCode.CANCELLED

    asyncio.run(main())
