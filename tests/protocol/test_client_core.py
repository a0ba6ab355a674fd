"""The client without sockets: every call ends once; losses are honest; requests are checked before they leave."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import msgspec
import pytest
from browsercell.protocol import client_core as core
from browsercell.protocol import frames as f
from browsercell.protocol import limits as L
from browsercell.protocol.codec import Decoder, encode
from browsercell.protocol.errors import (
    ActorRaised,
    FrameTooLarge,
    LocalMisuse,
    PeerViolation,
    Unavailable,
    UsageError,
)
from browsercell.protocol.links import Link, frame_types
from browsercell.protocol.results import BrowserDelegateResult, DeliveryStatus, SideEffects, Status
from browsercell.protocol.tools import DeliverItem

SENT: Decoder[Any] = Decoder(frame_types(Link.HOST_TO_SUPERVISOR), L.MAX_HOST_FRAME)


def wire(frame: f.Frame) -> bytes:
    return encode(frame, L.MAX_HOST_FRAME)


def test_requests_are_the_frames_they_say() -> None:
    client = core.ClientCore()
    assert SENT.decode(client.open_session(f.SessionKind.CHILD, "/x")) == f.OpenSession(
        1, f.SessionKind.CHILD, "/x"
    )
    call, data = client.call("browser_status", b"{}")
    assert SENT.decode(data) == f.HostCall(call, "browser_status", b"{}")
    status, data = client.status()
    assert SENT.decode(data) == f.StatusRequest(status)
    assert SENT.decode(client.cancel(call)) == f.HostCancel(call)
    assert SENT.decode(client.new_turn()) == f.NewTurn()
    assert SENT.decode(client.stop_supervisor()) == f.StopSupervisor()
    assert client.open_calls == {call, status}


def test_each_call_gets_one_answer() -> None:
    client = core.ClientCore()
    call, _ = client.call("browser_status", b"{}")
    assert client.receive(wire(f.HostReply(call, b"{}"))) == core.Answered(call, b"{}")
    assert client.receive(wire(f.HostReply(call, b"{}"))) is None
    assert client.receive(wire(f.HostFault(call, "x", "y"))) is None
    assert client.receive(wire(f.StatusReply(call, (), b"{}"))) is None


def test_status_brings_processes() -> None:
    client = core.ClientCore()
    call, _ = client.status()
    info = f.ProcessInfo("bridge", 7, "ready", 1, 2)
    assert client.receive(wire(f.StatusReply(call, (info,), b"{}"))) == core.Answered(call, b"{}", (info,))


def test_opening() -> None:
    assert core.ClientCore().receive(wire(f.SessionOpened("sess-abcd", "1"))) == core.Opened("sess-abcd", "1")


def test_progress_only_of_open_calls() -> None:
    client = core.ClientCore()
    call, _ = client.call("browser_delegate_task", b"{}")
    progress = f.HostProgress(call, f.TaskPhase.RUNNING, 1, 2, 40)
    assert client.receive(wire(progress)) == progress
    client.lose_all()
    assert client.receive(wire(progress)) is None


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("invalid-request", UsageError),
        ("overloaded", Unavailable),
        ("wrong-version", Unavailable),
        ("other", ActorRaised),
    ],
)
def test_refusals_become_exceptions(code: str, kind: type[Exception]) -> None:
    client = core.ClientCore()
    call, _ = client.call("browser_status", b"{}")
    event = client.receive(wire(f.HostFault(call, code, "what", "next")))
    assert isinstance(event, core.Refused)
    assert isinstance(event.error, kind)
    assert str(event.error) == "what. next"


def test_a_refused_session_raises() -> None:
    with pytest.raises(Unavailable):
        core.ClientCore().receive(wire(f.HostFault(0, "wrong-version", "what")))


def test_frames_of_other_links_are_violations() -> None:
    with pytest.raises(PeerViolation):
        core.ClientCore().receive(wire(f.Ping(1)))


def test_calls_are_bounded_and_an_oversized_one_is_not_open() -> None:
    client = core.ClientCore()
    with pytest.raises(FrameTooLarge):
        client.call("browser_status", b"x" * L.MAX_HOST_FRAME)
    assert not client.open_calls
    assert (
        client.call("browser_status", b"{}")[0] == 1
    )  # ids have no gaps: the supervisor ends a session for one
    client.lose_all()
    for _ in range(core.MAX_OPEN_CALLS):
        client.call("browser_status", b"{}")
    with pytest.raises(LocalMisuse):
        client.call("browser_status", b"{}")


def test_losing_the_link_names_the_calls() -> None:
    client = core.ClientCore()
    call, _ = client.call("browser_status", b"{}")
    assert client.lose_all() == {call}
    assert not client.open_calls


def test_requests_from_plain_values() -> None:
    request = core.delegate_request(
        "g",
        url="https://a.example",
        constraints=["c"],
        deliverables=[{"purpose": "p", "kind": "table", "path": "a.csv"}],
        playbook=[{"finish": {"status": "completed", "summary": ""}}],
        variables={"a": "b"},
        limits={"toolCalls": 3},
    )
    again = core.delegate_request("g", deliverables=list(request.deliverables), limits=request.limits)
    assert again.deliverables == request.deliverables
    assert again.limits.tool_calls == 3
    assert msgspec.json.decode(core.delegate_args(request))["deliverables"][0]["kind"] == "table"


@pytest.mark.parametrize(
    "options",
    [
        {"browser": "firefox"},
        {"limits": {"seconds": 9999}},
        {"deliverables": [{"purpose": "p"}]},
        {"url": 3},
        {"answer": {"type": "array"}},
        {"policy": {"origins": ["shop"]}},
        {"policy": {"origins": ["http://a..b"]}},
        {"policy": {"other": 1}},
    ],
)
def test_bad_requests_never_leave(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        core.delegate_request("g", **options)


def test_deliveries_by_id_or_item() -> None:
    args = core.deliver_args(["a", DeliverItem("b", "c.csv"), {"artifactId": "d"}])
    assert [item["artifactId"] for item in msgspec.json.decode(args)["items"]] == ["a", "b", "d"]
    with pytest.raises(UsageError):
        core.deliver_args([])


def test_answers_decode_or_are_the_supervisors_fault() -> None:
    result = BrowserDelegateResult(task_id="t", status=Status.COMPLETED, execution_status=Status.COMPLETED)
    assert core.decode_result(msgspec.json.encode(result)) == result
    assert core.decode_deliveries(b"[]") == ()
    assert core.decode_json(b'{"a":1}') == {"a": 1}
    for decode in (core.decode_result, core.decode_deliveries, core.decode_json):
        with pytest.raises(PeerViolation):
            decode(b"7")


def test_a_lost_delegation_is_honest() -> None:
    lost = core.lost_result()
    assert lost.side_effects is SideEffects.POSSIBLE
    assert lost.retryable
    assert lost.delivery_status is DeliveryStatus.NOT_REQUESTED


def test_a_typed_answer_and_a_policy_are_built_from_plain_values() -> None:
    schema = {"type": "object", "properties": {"found": {"type": "boolean"}}}
    policy = {"origins": ["https://shop.example"], "actions": "read", "freeText": "none"}
    request = core.delegate_request("g", answer=schema, policy=policy)
    assert request.answer == schema
    assert request.policy.origins == ("https://shop.example",)
    assert core.delegate_request("g", policy=request.policy).policy == request.policy
    sent = msgspec.json.decode(core.delegate_args(request))
    assert (sent["answer"], sent["policy"]) == (schema, policy)


def test_the_client_imports_nothing_but_zeromq_msgspec_and_the_standard_library() -> None:
    code = (
        "import sys; from browsercell.protocol import AsyncClient, Client; "
        "print(*sorted({name.partition('.')[0] for name in sys.modules} - set(sys.stdlib_module_names)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    foreign = {name for name in done.stdout.split() if not name.startswith("_")}
    # pyzmq makes the one while it runs and takes the other where it is installed.
    assert foreign - {"cython_runtime", "typing_extensions"} == {"browsercell", "msgspec", "zmq"}


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"answer": "secret"}, "answer is of the wrong kind"),
        ({"answer": 3}, "answer is of the wrong kind"),
        ({"policy": "read"}, "policy is of the wrong kind"),
        ({"limits": object()}, "limits is of the wrong kind"),
        ({"deliverables": [3]}, "deliverables is of the wrong kind"),
        ({"browser": "secret"}, "$.browser`: give one of auto, chrome, private"),
        ({"policy": {"actions": "secret"}}, "$.policy.actions`: give one of read, interact"),
        ({"deliverables": [{"purpose": "a", "kind": "secret"}]}, "kind`: give one of screenshot, text"),
        ({"constraints": ["\ud800"]}, "lone surrogate"),
        ({"playbook": [{"expect": {"text": "x" * 200}}] * 2_000}, "larger than 256 KiB"),
    ],
)
def test_what_is_wrong_with_a_request_is_said_in_words_of_its_caller(
    options: dict[str, Any], fault: str
) -> None:
    with pytest.raises(UsageError) as error:
        core.delegate_request("x", **options)
    assert fault in error.value.message
    assert "secret" not in error.value.message
