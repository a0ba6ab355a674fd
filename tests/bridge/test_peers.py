"""`peers`: the kernel's socket table read for real connections, and its spelling for both byte orders (proc(5))."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from browsercell.bridge import peers

TABLE = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:43A9 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4711 1 0 100 0 0 10 0
   1: 0100007F:C001 0100007F:43A9 01 00000000:00000000 00:00000000 00000000  1001        0 4712 1 0 20 4 30 10 -1
   2: 0100007F:C002 0100007F:43A9 06 00000000:00000000 03:00000000 00000000     0        0 0 3 0
   3: short
   4: 0100007F:C003 0100007F:43A9 01 00000000:00000000 00:00000000 00000000  what        0 4712 1 0 20 4 30 10 -1
"""


@pytest.fixture
def connected() -> Iterator[tuple[socket.socket, socket.socket, socket.socket]]:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as client,
    ):
        accepted, _ = server.accept()
        with accepted:
            yield server, client, accepted


@pytest.mark.parametrize(
    ("host", "order", "text"),
    [
        ("127.0.0.1", "little", "0100007F:43A9"),
        ("127.0.0.1", "big", "7F000001:43A9"),
        ("::1", "little", "00000000000000000000000001000000:43A9"),
        ("::1", "big", "00000000000000000000000000000001:43A9"),
    ],
)
def test_spelling(host: str, order: str, text: str) -> None:
    assert peers.spell(host, 17_321, order) == text


def test_rows_leaves_out_lines_of_another_shape() -> None:
    assert [(row.state, row.uid, row.inode) for row in peers.rows(TABLE)] == [
        ("0A", 1000, 4711),
        ("01", 1001, 4712),
        ("06", 0, 0),
    ]


def test_only_an_established_row_tells_a_uid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "_read", lambda _name: TABLE)
    monkeypatch.setattr(sys, "byteorder", "little")
    own = ("127.0.0.1", 17_321)
    assert peers.peer_uid(own, ("127.0.0.1", 0xC001)) == 1001
    assert peers.peer_uid(own, ("127.0.0.1", 0xC002)) is None  # waits for its end: uid 0 is not its owner's
    assert peers.peer_uid(own, ("127.0.0.1", 0xC004)) is None


def test_uid_of_a_real_peer(connected: tuple[socket.socket, socket.socket, socket.socket]) -> None:
    _, client, accepted = connected
    assert peers.peer_uid(accepted.getsockname(), accepted.getpeername()) == os.getuid()
    assert peers.peer_uid(("127.0.0.1", 1), accepted.getpeername()) is None
    client.close()


def test_uid_of_a_real_peer_over_ipv6() -> None:
    try:
        server = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        pytest.skip("this machine has no IPv6 loopback")
    with server, socket.create_connection(server.getsockname()[:2]):
        accepted, _ = server.accept()
        with accepted:
            own, peer = accepted.getsockname(), accepted.getpeername()
            assert peers.peer_uid(own[:2], peer[:2]) == os.getuid()


@pytest.mark.skipif(
    os.getuid() != 0 or shutil.which("setpriv") is None, reason="only root can be somebody else"
)
def test_uid_of_another_users_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        client = subprocess.Popen(
            [
                "setpriv",
                "--reuid",
                "64318",
                "--clear-groups",
                "bash",
                "-c",
                f"exec 9<>/dev/tcp/127.0.0.1/{port}; read -u 9",
            ]
        )
        try:
            server.settimeout(10)
            accepted, _ = server.accept()
            with accepted:
                assert peers.peer_uid(accepted.getsockname(), accepted.getpeername()) == 64_318
                assert peers.uid_of_process(client.pid) == 64_318
        finally:
            client.kill()
            client.wait()


def test_uid_of_process() -> None:
    assert peers.uid_of_process(os.getpid()) == os.getuid()
    assert peers.uid_of_process(2**22 + 1) is None  # above every pid


def test_a_status_without_a_uid_is_unknown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "5").mkdir()
    (tmp_path / "5" / "status").write_text("Name:\tx\n")
    monkeypatch.setattr(peers, "_PROC", tmp_path)
    assert peers.uid_of_process(5) is None


def test_port_owner_is_us(connected: tuple[socket.socket, socket.socket, socket.socket]) -> None:
    server, _, _ = connected
    assert peers.port_owner("127.0.0.1", server.getsockname()[1]) == os.getpid()


def test_a_listener_on_every_address_owns_the_port_too() -> None:
    with socket.create_server(("0.0.0.0", 0)) as server:
        assert peers.port_owner("127.0.0.1", server.getsockname()[1]) == os.getpid()


def test_nobody_owns_a_free_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert peers.port_owner("127.0.0.1", port) == 0


def test_an_owner_that_can_not_be_seen_is_unknown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(peers, "_PROC", tmp_path)
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "tcp").write_text(TABLE)
    (tmp_path / "7").mkdir()  # no fd folder: gone, or another user's
    (tmp_path / "8" / "fd").mkdir(parents=True)
    (tmp_path / "8" / "fd" / "0").write_text("no link")  # closed and used anew while we looked
    assert peers.port_owner("127.0.0.1", 17_321) == 0
    (tmp_path / "9" / "fd").mkdir(parents=True)
    (tmp_path / "9" / "fd" / "3").symlink_to("socket:[4711]")
    assert peers.port_owner("127.0.0.1", 17_321) == 9
    assert peers.port_owner("::1", 17_321) == 0
