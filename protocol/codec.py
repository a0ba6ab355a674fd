"""Bytes to frames and back: a version byte and msgpack, or JSON text on the extension's link.

Invariants: nothing over the link's bound is encoded or decoded; an unknown frame, field or value is a
`PeerViolation` whose text names the fault's kind, never content.

Pure: bytes in, bytes out.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import or_
from typing import Any, Generic, TypeVar

import msgspec

from . import limits as L
from .errors import FrameTooLarge, LocalMisuse, PeerViolation
from .frames import ExtFrame, Frame

_VERSION = bytes([L.WIRE_VERSION])
_ENCODER = msgspec.msgpack.Encoder()
_JSON = msgspec.json.Encoder()

F = TypeVar("F", bound=Frame)


class WrongVersion(PeerViolation):
    """The peer speaks another version of the wire format."""


def encode(frame: Frame, bound: int) -> bytes:
    """Version byte and msgpack map. Raises FrameTooLarge over `bound` bytes; nothing was sent."""
    data = _VERSION + _ENCODER.encode(frame)
    if len(data) > bound:
        raise FrameTooLarge(
            f"a {frame.__struct_config__.tag} frame of {len(data)} bytes is over the bound of {bound}"
        )
    return data


class Decoder(Generic[F]):
    """Decodes the frame types that one receiver may see on one link.

    `types`: at least one Frame class. `bound`: bytes. Raises PeerViolation (WrongVersion for another version).
    """

    def __init__(self, types: Iterable[type[F]], bound: int) -> None:
        members = tuple(types)
        if not members:
            raise LocalMisuse("a decoder needs at least one frame type")
        union: Any = reduce(or_, members[1:], members[0])
        self._decoder = msgspec.msgpack.Decoder(union)
        self._bound = bound

    def decode(self, data: bytes | memoryview) -> F:
        if len(data) > self._bound:
            raise PeerViolation(f"a frame of {len(data)} bytes is over the bound of {self._bound}")
        if len(data) < 2:
            raise PeerViolation("a frame without content")
        view = memoryview(data)
        if view[0] != L.WIRE_VERSION:
            raise WrongVersion(f"wire version {view[0]} instead of {L.WIRE_VERSION}")
        try:
            frame: F = self._decoder.decode(view[1:])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise PeerViolation(
                f"a frame that is not on this link's table ({type(error).__name__})"
            ) from None
        return frame


def encode_json(frame: ExtFrame, bound: int = L.MAX_EXTENSION_FRAME) -> str:
    """JSON text for the extension's link. Raises FrameTooLarge."""
    data = _JSON.encode(frame)
    if len(data) > bound:
        raise FrameTooLarge(
            f"a {frame.__struct_config__.tag} frame of {len(data)} bytes is over the bound of {bound}"
        )
    return data.decode()


E = TypeVar("E", bound=ExtFrame)


class JsonDecoder(Generic[E]):
    """The same for JSON text. `types`: at least one ExtFrame class; `bound`: bytes of UTF-8."""

    def __init__(self, types: Iterable[type[E]], bound: int) -> None:
        members = tuple(types)
        if not members:
            raise LocalMisuse("a decoder needs at least one frame type")
        union: Any = reduce(or_, members[1:], members[0])
        self._decoder = msgspec.json.Decoder(union)
        self._bound = bound

    def decode(self, text: str | bytes) -> E:
        data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
        if len(data) > self._bound:
            raise PeerViolation(f"a frame of {len(data)} bytes is over the bound of {self._bound}")
        try:
            frame: E = self._decoder.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise PeerViolation(
                f"a frame that is not on this link's table ({type(error).__name__})"
            ) from None
        return frame
