"""A raw ZMTP 3.0 peer on a unix socket, in the standard library only: for what libzmq itself would never send."""

from __future__ import annotations

import socket
import struct

GREETING = b"\xff" + b"\0" * 8 + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + b"\0" + b"\0" * 31
LAST, MORE, LONG, COMMAND = 0, 1, 2, 4


def frame(body: bytes, flags: int = LAST) -> bytes:
    """One ZMTP frame."""
    if len(body) > 255:
        return bytes([flags | LONG]) + struct.pack(">Q", len(body)) + body
    return bytes([flags, len(body)]) + body


def ready(socket_type: bytes = b"DEALER") -> bytes:
    """The READY command of the NULL mechanism."""
    return frame(b"\x05READY\x0bSocket-Type" + struct.pack(">I", len(socket_type)) + socket_type, COMMAND)


def connect(path: str, *, handshake: bool = True, timeout: float = 5.0) -> socket.socket:
    """A connected peer; with `handshake` it may send messages."""
    sock = socket.socket(socket.AF_UNIX)
    try:
        sock.settimeout(timeout)
        sock.connect(path)
        if handshake:
            sock.sendall(GREETING)
            _exactly(sock, len(GREETING))
            sock.sendall(ready())
            flags, size = _exactly(sock, 2)
            assert flags == COMMAND
            _exactly(sock, size)
    except BaseException:
        sock.close()
        raise
    return sock


def _exactly(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = sock.recv(size - len(data))
        if not part:
            raise ConnectionResetError("the server closed the connection")
        data += part
    return data
