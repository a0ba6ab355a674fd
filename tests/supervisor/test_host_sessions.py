"""Host sessions: order, catalogue guard, argument checks; hosts that break the protocol."""

from __future__ import annotations

import json
from typing import Any

import pytest
from browsercell.protocol import frames as f
from browsercell.protocol import limits as L
from browsercell.protocol.errors import PeerViolation
from browsercell.protocol.results import DelegateRequest
from browsercell.protocol.tools import DeliverRequest, NoArgs
from browsercell.supervisor import host_sessions as h


def opened(kind: f.SessionKind = f.SessionKind.TOP) -> h.Session:
    session = h.Session()
    assert session.receive(f.OpenSession(L.WIRE_VERSION, kind, "/somewhere")) == h.Open(kind, "/somewhere")
    assert session.opened
    return session


def call(number: int, tool: str, args: Any) -> f.HostCall:
    return f.HostCall(number, tool, json.dumps(args).encode())


def test_nothing_comes_before_the_session() -> None:
    session = h.Session()
    assert not session.opened
    for frame in (
        f.NewTurn(),
        f.HostCancel(1),
        f.StatusRequest(1),
        f.StopSupervisor(),
        call(1, "browser_status", {}),
    ):
        with pytest.raises(PeerViolation):
            session.receive(frame)


def test_a_session_opens_once() -> None:
    with pytest.raises(PeerViolation):
        opened().receive(f.OpenSession(L.WIRE_VERSION))


def test_another_version_is_refused_with_a_remedy() -> None:
    effect = h.Session().receive(f.OpenSession(L.WIRE_VERSION + 1))
    assert isinstance(effect, h.Refuse)
    assert effect.fault.code == "wrong-version"
    assert "same version" in effect.fault.next_step


def test_a_relative_directory_is_refused() -> None:
    session = h.Session()
    effect = session.receive(f.OpenSession(L.WIRE_VERSION, directory="here"))
    assert isinstance(effect, h.Refuse)
    assert not session.opened


def test_calls_run_with_checked_arguments() -> None:
    session = opened()
    assert session.receive(call(1, "browser_status", {})) == h.Run(1, "browser_status", NoArgs())
    assert session.receive(call(2, "browser_delegate_task", {"goal": "x"})) == h.Run(
        2, "browser_delegate_task", DelegateRequest(goal="x")
    )
    effect = session.receive(call(3, "browser_artifact_deliver", {"items": [{"artifactId": "a"}]}))
    assert isinstance(effect, h.Run)
    assert isinstance(effect.args, DeliverRequest)
    assert session.open_calls == {1, 2, 3}


def test_low_level_tools_are_refused_to_every_host() -> None:
    effect = opened().receive(call(1, "browser_page_click", {"ref": "e1"}))
    assert isinstance(effect, h.Refuse)
    assert effect.fault.code == "unknown-tool"
    assert "never for hosts" in effect.fault.message


def test_an_unknown_tool_is_not_quoted() -> None:
    effect = opened().receive(call(1, "secret-marker", {}))
    assert isinstance(effect, h.Refuse)
    assert "secret-marker" not in effect.fault.message


@pytest.mark.parametrize("tool", ["browser_delegate_task", "browser_artifact_deliver"])
def test_children_see_no_delegation_and_no_delivery(tool: str) -> None:
    effect = opened(f.SessionKind.CHILD).receive(call(1, tool, {}))
    assert isinstance(effect, h.Refuse)
    assert effect.fault.code == "not-for-child-sessions"
    assert opened(f.SessionKind.CHILD).receive(call(1, "browser_status", {})) == h.Run(
        1, "browser_status", NoArgs()
    )


def test_a_bad_delegation_is_a_result_and_another_bad_call_a_fault() -> None:
    session = opened()
    effect = session.receive(call(1, "browser_delegate_task", {"goal": "x", "selector": 1}))
    assert isinstance(effect, h.Reject)
    assert "selector" in effect.reason
    assert session.open_calls == {1}
    effect = session.receive(call(2, "browser_status", {"x": 1}))
    assert isinstance(effect, h.Refuse)
    assert effect.fault.code == "invalid-request"
    assert session.open_calls == {1}


def test_call_ids_count_up() -> None:
    for number in (0, 2, 1):
        session = opened()
        session.receive(f.StatusRequest(1))
        if number == 2:
            assert session.receive(f.StatusRequest(2)) == h.Report(2)
            continue
        with pytest.raises(PeerViolation):
            session.receive(f.StatusRequest(number))


def test_open_calls_are_bounded() -> None:
    session = opened()
    for number in range(1, h.MAX_OPEN + 1):
        session.receive(call(number, "browser_status", {}))
    effect = session.receive(call(h.MAX_OPEN + 1, "browser_status", {}))
    assert isinstance(effect, h.Refuse)
    assert effect.fault.code == "overloaded"


def test_the_rest() -> None:
    session = opened()
    assert session.receive(f.NewTurn()) == h.Turn()
    assert session.receive(f.HostCancel(9)) == h.Cancel(9)
    assert session.receive(f.StopSupervisor()) == h.Stop()
    assert session.receive(f.StatusRequest(1)) == h.Report(1)


def test_one_outcome_a_call() -> None:
    session = opened()
    session.receive(f.StatusRequest(1))
    assert session.settle(1)
    assert not session.settle(1)


def test_a_frame_of_another_link_ends_the_session() -> None:
    with pytest.raises(PeerViolation):
        opened().receive(f.Pong(1))
