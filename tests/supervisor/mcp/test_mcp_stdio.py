"""`supervisor mcp` as a process: standard output carries the protocol only, and it ends with its client."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from browsercell.supervisor.mcp.logs import ContentFree

from tests.support.hosts import Served, serving

END_SECONDS = 15


@pytest.fixture
def served() -> Iterator[Served]:
    # Short: a socket's path holds 107 bytes, and pytest's own folders are long.
    with tempfile.TemporaryDirectory(prefix="bc-") as folder, serving(Path(folder) / "r") as one:
        yield one


def _usual_signals() -> None:
    """A test run in the background, or under nohup, hands signals on as ignored, and what is ignored stays so."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


@contextmanager
def process(served: Served, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    child = subprocess.Popen(
        [sys.executable, "-m", "browsercell.supervisor", "mcp", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "BROWSERCELL_RUNTIME_DIR": served.folder},
        text=True,
        preexec_fn=_usual_signals,
    )
    try:
        yield child
    finally:
        if child.poll() is None:
            child.kill()
        child.communicate()


def ask(child: subprocess.Popen[str], number: int, method: str, **params: Any) -> dict[str, Any]:
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}) + "\n")
    child.stdin.flush()
    answer: dict[str, Any] = json.loads(child.stdout.readline())
    assert answer["id"] == number
    return answer


def greet(child: subprocess.Popen[str]) -> None:
    answer = ask(
        child, 1, "initialize", protocolVersion="2025-06-18", capabilities={},
        clientInfo={"name": "t", "version": "1"},
    )  # fmt: skip
    assert answer["result"]["serverInfo"]["name"] == "browsercell"
    assert child.stdin is not None
    child.stdin.write('{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
    child.stdin.flush()


def test_it_speaks_survives_nonsense_and_ends_with_its_input(served: Served) -> None:
    with process(served) as child:
        greet(child)
        assert child.stdin is not None
        child.stdin.write('this is no JSON but "a secret"\n')
        called = ask(child, 2, "tools/call", name="browser_status", arguments={})
        assert called["result"]["structuredContent"] == {"supervisor": {"state": "running"}}
        out, err = child.communicate(timeout=END_SECONDS)
    assert child.returncode == 0
    assert out == ""
    assert "Traceback" not in err
    assert "secret" not in err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_it_in_order(served: Served, number: signal.Signals) -> None:
    with process(served) as child:
        greet(child)
        ask(child, 2, "tools/call", name="browser_status", arguments={})
        child.send_signal(number)
        assert child.wait(END_SECONDS) == 0
        assert served.call(served.link.connected) == 0


def test_wrong_options_are_one_line(served: Served) -> None:
    with process(served, "--port", "5") as child:
        out, err = child.communicate(timeout=END_SECONDS)
    assert (child.returncode, out) == (2, "")
    assert err.startswith("supervisor: --port and --json go with --http")


def test_a_log_line_holds_no_content_of_libraries() -> None:
    theirs = logging.LogRecord("mcp.server", logging.ERROR, "f.py", 7, "got %r", ("a secret",), None)
    assert "secret" not in ContentFree().format(theirs)
    assert "mcp.server:7" in ContentFree().format(theirs)
    ours = logging.LogRecord(
        "browsercell.supervisor.mcp.host", logging.WARNING, "f.py", 7, "no roots", (), None
    )
    ours.why = "MCPError"
    assert ContentFree().format(ours).endswith("warning no roots why=MCPError")
    try:
        raise ValueError("a secret")
    except ValueError:
        theirs.exc_info = sys.exc_info()
    assert ContentFree().format(theirs).endswith("mcp.server:7 ValueError")


def test_over_http_it_says_where_it_is_and_ends_with_its_signal(served: Served) -> None:
    state = f"{served.folder}-state"
    with process(served, "--http", "--port", "0", "--json", "--set", f"places.state_folder={state}") as child:
        assert child.stdout is not None
        told = json.loads(child.stdout.readline())
        token = Path(told["tokenFile"]).read_text().strip()
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}})  # fmt: skip
        headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
        with httpx2.Client() as http:
            refused = http.post(told["url"], content=body, headers=headers)
            assert refused.status_code == 401
            answer = http.post(
                told["url"], content=body, headers={**headers, "Authorization": f"Bearer {token}"}
            )
            assert answer.status_code == 200
            assert '"browsercell"' in answer.text
        child.send_signal(signal.SIGTERM)
        out, err = child.communicate(timeout=END_SECONDS)
    assert (child.returncode, out) == (0, "")
    assert token not in err
    assert "Traceback" not in err
