"""One small, valid, deterministic value of any frame type, made from its type information."""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import inspect as mi

_PATTERN_SAMPLES = (
    "task-abcdefgh",
    "abc",
    "a",
    "A1",
    "0" * 64,
    "a" * 32,
    "1.0",
    "e1",
    "t1",
    "",
)


def sample(kind: Any) -> Any:
    """A value that encodes and decodes as `kind`."""
    return _make(mi.type_info(kind))


def _make(info: Any) -> Any:
    match info:
        case mi.StructType():
            fields = {
                field.name: _make(field.type)
                for field in info.fields
                if field.required or _worth_showing(field)
            }
            return info.cls(**fields)
        case mi.EnumType():
            return next(iter(info.cls))
        case mi.LiteralType():
            return info.values[0]
        case mi.IntType():
            return max(1, info.ge or 0)
        case mi.FloatType():
            return 1.5
        case mi.BoolType():
            return True
        case mi.StrType():
            return _text(info)
        case mi.BytesType():
            return b"{}"
        case mi.RawType():
            return msgspec.Raw(b"{}")
        case mi.VarTupleType():
            return (_make(info.item_type),)
        case mi.DictType():
            return {"k": _make(info.value_type)}
        case mi.UnionType():
            return _make(next(member for member in info.types if not isinstance(member, mi.NoneType)))
        case mi.Metadata():
            return _make(info.type)
    raise TypeError(f"no sample for {info}")


def _worth_showing(field: mi.Field) -> bool:
    return not isinstance(field.type, mi.NoneType)


def _text(info: mi.StrType) -> str:
    if info.pattern is None:
        return "text"[: info.max_length or 4].ljust(info.min_length or 0, "x")
    for candidate in _PATTERN_SAMPLES:
        fits = (info.min_length or 0) <= len(candidate) <= (info.max_length or len(candidate))
        if fits and re.search(info.pattern, candidate):
            return candidate
    raise TypeError(f"no sample for pattern {info.pattern}")
