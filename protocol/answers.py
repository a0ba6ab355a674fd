"""Typed answers: the closed JSON-Schema subset a host may ask for, and the check of values against it (design 3, 7).

    {"type": "object", "properties": {NAME: FIELD, ...}, "required": [NAME, ...]?, "additionalProperties": false?}
    FIELD  {"type": "boolean"}
           {"type": "integer" or "number", "minimum": N?, "maximum": N?}
           {"enum": [TEXT, ...]}                        (with or without "type": "string")
           {"type": "string", "format": "date"}         a day that exists, YYYY-MM-DD
           {"type": "string", "maxLength": N}           free text, untrusted where it arrives
    anywhere: "title" and "description", which the model sees; at the top also "$schema", which nobody reads.

Everything else is refused with a sentence that names the field and says what to write instead: half-enforced keywords
would be worse than none. The same schema is the model's result schema, is enforced in the bridge's customs and checked
again by the supervisor.

Invariants: an answer without `problems` holds exactly the values of the schema's kinds, at most MAX_ANSWER_CHARS characters of
free text, and no key that the host has not written; an integer is one that every JSON reader keeps exactly (2**53);
a schema whose `free_text` is false lets no text through but the host's own enumeration values and dates.

Pure: values in, values out. It redacts nothing (the bridge's customs do).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import msgspec

from . import limits as L
from .errors import UsageError

Value = bool | int | float | str

MAX_EXACT: Final = 2**53 - 1  # integers that every JSON reader keeps exactly (RFC 8259, 6)
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,39}")
_DATE: Final = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_NOTES: Final = ("title", "description")
_TOP: Final = frozenset({"type", "properties", "required", "additionalProperties", "$schema", *_NOTES})
_DAYS: Final = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


class Kind(StrEnum):
    """What a field of an answer may be."""

    BOOLEAN = "boolean"
    INTEGER = "integer"
    NUMBER = "number"
    ENUM = "enum"
    DATE = "date"
    TEXT = "text"


_ALLOWED: Final[Mapping[Kind, frozenset[str]]] = {
    Kind.BOOLEAN: frozenset({"type"}),
    Kind.INTEGER: frozenset({"type", "minimum", "maximum"}),
    Kind.NUMBER: frozenset({"type", "minimum", "maximum"}),
    Kind.ENUM: frozenset({"type", "enum"}),
    Kind.DATE: frozenset({"type", "format"}),
    Kind.TEXT: frozenset({"type", "maxLength"}),
}


@dataclass(frozen=True, slots=True)
class Field:
    """One field. `least` and `most` bound numbers; `values` an enumeration; `max_chars` free text."""

    name: str
    kind: Kind
    required: bool
    least: float = -MAX_EXACT
    most: float = MAX_EXACT
    values: tuple[str, ...] = ()
    max_chars: int = 0

    def holds(self, value: object) -> bool:
        """Whether `value` is one of this field's."""
        return _HOLDS[self.kind](self, value)

    def read(self, value: object) -> object:
        """`value` as this field writes it: 3.0 is the integer 3 (JSON Schema, 6.1.1); anything else unchanged."""
        whole = self.kind is Kind.INTEGER and isinstance(value, float) and value.is_integer()
        return int(value) if whole and isinstance(value, float) else value


@dataclass(frozen=True, slots=True)
class AnswerSchema:
    """A checked schema. `source`: as the host wrote it, for the model."""

    fields: tuple[Field, ...]
    source: dict[str, Any]

    @property
    def free_text(self) -> bool:
        """Whether an answer may hold words that are not the host's own."""
        return any(field.kind is Kind.TEXT for field in self.fields)

    def problems(self, answer: Mapping[str, object]) -> list[str]:
        """What is wrong with an answer, a line a field in the schema's order; empty if it conforms. No line quotes a value."""
        known = {field.name for field in self.fields}
        found = [_problem(field, answer) for field in self.fields]
        unknown = [""] if known >= set(answer) else ["answer: there is a field that was not asked for"]
        return [line for line in (*found, *unknown) if line]


def _problem(field: Field, answer: Mapping[str, object]) -> str:
    if field.name not in answer:
        return f"answer.{field.name} is missing" if field.required else ""
    return (
        "" if field.holds(field.read(answer[field.name])) else f"answer.{field.name} is not {describe(field)}"
    )


def describe(field: Field) -> str:
    """What a field wants, in words of ours and the host's bounds."""
    match field.kind:
        case Kind.BOOLEAN:
            return "true or false"
        case Kind.INTEGER:
            return f"an integer from {_number(field.least)} to {_number(field.most)}"
        case Kind.NUMBER:
            return f"a number from {_number(field.least)} to {_number(field.most)}"
        case Kind.ENUM:
            return "one of its enum values"
        case Kind.DATE:
            return "a date like 2026-01-31"
        case _:  # TEXT is left
            return f"text of at most {field.max_chars} characters"


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else str(value)


def parse(raw: object) -> AnswerSchema:
    """Check a host's schema. Raises UsageError whose text names the field at fault, never a value."""
    if (
        not isinstance(raw, dict)
        or raw.get("type") != "object"
        or not isinstance(raw.get("properties"), dict)
    ):
        raise _bad('is a JSON Schema like {"type": "object", "properties": {...}}')
    _only(raw, _TOP, "")
    if raw.get("additionalProperties", False) is not False:
        raise _bad("never has further fields: leave additionalProperties out, or write false")
    properties: dict[str, Any] = raw["properties"]
    if not 1 <= len(properties) <= L.MAX_ANSWER_FIELDS:
        raise _bad(f"has 1 to {L.MAX_ANSWER_FIELDS} properties")
    required = raw.get("required", [])
    if not isinstance(required, list) or not all(
        isinstance(name, str) and name in properties for name in required
    ):
        raise _bad("lists in required what is in properties")
    _check_notes(raw, "")
    made = AnswerSchema(tuple(_field(name, spec, name in required) for name, spec in properties.items()), raw)
    if sum(field.max_chars for field in made.fields) > L.MAX_ANSWER_CHARS:
        raise _bad(f"has texts of at most {L.MAX_ANSWER_CHARS} characters together: lower their maxLength")
    if len(msgspec.json.encode(raw)) > L.MAX_ANSWER_SCHEMA:
        raise _bad(f"is at most {L.MAX_ANSWER_SCHEMA} bytes long")
    return made


def decode(data: bytes) -> AnswerSchema | None:
    """The schema that `encode_schema` wrote; None for b"", which stands for none. Raises UsageError."""
    return parse(msgspec.json.decode(data)) if data else None


def encode_schema(schema: AnswerSchema | None) -> bytes:
    """For a frame."""
    return b"" if schema is None else msgspec.json.encode(schema.source)


def _field(name: str, spec: object, required: bool) -> Field:
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise _bad("names its properties with letters, digits and _, at most 40")
    if not isinstance(spec, dict):
        raise _bad(f"says of {name} what it is, such as {{'type': 'boolean'}}")
    kind = _kind(name, spec)
    _only(spec, _ALLOWED[kind] | frozenset(_NOTES), name)
    _check_notes(spec, name)
    if kind in (Kind.INTEGER, Kind.NUMBER):
        least, most = _bound(spec, "minimum", -MAX_EXACT, name), _bound(spec, "maximum", MAX_EXACT, name)
        if least > most:
            raise _bad(f"has a minimum of {name} that is not above its maximum")
        return Field(name, kind, required, least, most)
    if kind is Kind.ENUM:
        return Field(name, kind, required, values=_values(name, spec["enum"]))
    if kind is Kind.TEXT:
        chars = spec.get("maxLength")
        if type(chars) is not int or not 1 <= chars <= L.MAX_ANSWER_CHARS:
            raise _bad(f"bounds the text {name} by a maxLength from 1 to {L.MAX_ANSWER_CHARS}")
        return Field(name, kind, required, max_chars=chars)
    return Field(name, kind, required)


def _kind(name: str, spec: Mapping[str, Any]) -> Kind:
    wanted = spec.get("type", "string" if "enum" in spec else None)
    if wanted in ("boolean", "integer", "number"):
        return Kind(wanted)
    if wanted != "string":
        raise _bad(
            f"says of {name} a type: boolean, integer, number, string (with enum, maxLength or format date); "
            "objects, lists and null are not among them"
        )
    if "enum" in spec:
        return Kind.ENUM
    if "format" in spec:
        if spec["format"] != "date":
            raise _bad(f"knows only the format date ({name})")
        return Kind.DATE
    return Kind.TEXT


def _values(name: str, values: object) -> tuple[str, ...]:
    good = (
        isinstance(values, list)
        and 1 <= len(values) <= L.MAX_ANSWER_ENUM
        and all(isinstance(value, str) and 1 <= len(value) <= L.MAX_ANSWER_ENUM_CHARS for value in values)
        and len(set(values)) == len(values)
    )
    if not good or not isinstance(values, list):
        raise _bad(
            f"gives {name} 1 to {L.MAX_ANSWER_ENUM} different enum texts of at most {L.MAX_ANSWER_ENUM_CHARS} characters"
        )
    return tuple(values)


def _bound(spec: Mapping[str, Any], key: str, default: int, name: str) -> float:
    value = spec.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= MAX_EXACT:
        raise _bad(f"gives {name} a {key} that is a number of at most 15 digits")
    return value


def _only(spec: Mapping[str, Any], allowed: frozenset[str], name: str) -> None:
    """Refuse keywords we would not enforce. They are the host's own words, but a name alone is told."""
    for key in spec:
        if key not in allowed:
            shown = key if _NAME.fullmatch(key) else "a keyword"
            raise _bad(
                f"can't use {shown}{f' in {name}' if name else ''}; known there: {', '.join(sorted(allowed))}"
            )


def _check_notes(spec: Mapping[str, Any], name: str) -> None:
    for key in _NOTES:
        note = spec.get(key, "")
        if not isinstance(note, str) or len(note) > L.MAX_ANSWER_NOTE_CHARS:
            raise _bad(
                f"has a {key}{f' of {name}' if name else ''} of at most {L.MAX_ANSWER_NOTE_CHARS} characters"
            )


def _bad(rule: str) -> UsageError:
    return UsageError(
        f"the answer schema {rule}",
        next_step='Correct answer, for example {"type": "object", "properties": {"found": {"type": "boolean"}}}.',
    )


def is_date(text: object) -> bool:
    """Whether `text` is a day of the Gregorian calendar, from the year 1 on (RFC 3339 full-date)."""
    match = _DATE.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        return False
    year, month, day = (int(part) for part in match.groups())
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return year > 0 and 1 <= month <= 12 and 1 <= day <= _DAYS[month - 1] + (leap and month == 2)


def _is_number(field: Field, value: object) -> bool:
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and (isinstance(value, int) or math.isfinite(value))
        and field.least <= value <= field.most
    )


_HOLDS: Final[Mapping[Kind, Callable[[Field, object], bool]]] = {
    Kind.BOOLEAN: lambda _field, value: isinstance(value, bool),
    Kind.INTEGER: lambda field, value: isinstance(value, int) and _is_number(field, value),
    Kind.NUMBER: _is_number,
    Kind.ENUM: lambda field, value: isinstance(value, str) and value in field.values,
    Kind.DATE: lambda _field, value: is_date(value),
    Kind.TEXT: lambda field, value: isinstance(value, str) and len(value) <= field.max_chars,
}
