"""Writes `extension/src/wire.ts` from `protocol/`: the one way wire types reach the extension.

    python extension/tools/generate_wire.py            write src/wire.ts
    python extension/tools/generate_wire.py --check    exit 1 if it differs from what would be written

What is taken: every `Ext*` frame and part of `protocol/frames.py`, the arguments of every page tool of
`protocol/tools.py`, the enums they use, the limits the extension keeps to, and JSON Schemas of what comes down
the socket, so that the service worker can judge it at run time. Output depends on nothing but those modules.
It imports them, and needs the project installed; it does not touch any other file.
"""

from __future__ import annotations

import argparse
import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec
from browsercell.protocol import frames, limits, tools
from msgspec import inspect

OUTPUT = Path(__file__).resolve().parent.parent / "src" / "wire.ts"

_HEADER = "// Generated from protocol/ by extension/tools/generate_wire.py. Do not edit: a test compares.\n"
_LIMITS = (
    "EXTENSION_PROTOCOL",
    "EXTENSION_HANDSHAKE_MS",
    "EXTENSION_HEARTBEAT_MS",
    "MAX_EXTENSION_FRAME",
    "MAX_HANDSHAKE_FRAME",
    "MAX_URL_CHARS",
    "MAX_ELEMENTS",
    "MAX_OBSERVE_CHARS",
    "MAX_EXTRACT_CHARS",
    "MAX_EXTRACT_ROWS",
    "MAX_FIND_HITS",
    "MAX_NAME_CHARS",
    "MAX_KEY_TIMES",
    "MAX_SCREENSHOT_PIXELS",
    "MAX_SCREENSHOT_BYTES",
    "MIN_TOKEN_CHARS",
    "DEFAULT_PORT",
)
_UP = (frames.ExtHello, frames.ExtProof, frames.ExtPong, frames.ExtReply, frames.ExtEvent)
_DOWN = (
    frames.ExtChallenge,
    frames.ExtReady,
    frames.ExtRefused,
    frames.ExtPing,
    frames.ExtCommand,
    frames.ExtCancel,
)


class Emitter:
    """Collects TypeScript declarations in first-use order."""

    def __init__(self) -> None:
        self.enums: dict[str, type[StrEnum]] = {}
        self.structs: dict[str, str] = {}

    def type_of(self, kind: inspect.Type) -> str:
        """The TypeScript type of a msgspec type; declares what it refers to. Raises TypeError for one it can't say."""
        match kind:
            case inspect.StrType():
                return "string"
            case inspect.IntType() | inspect.FloatType():
                return "number"
            case inspect.BoolType():
                return "boolean"
            case inspect.NoneType():
                return "null"
            case inspect.RawType():
                return "unknown"
            case inspect.EnumType(cls=cls):
                self.enums[cls.__name__] = cls  # type: ignore[assignment]
                return cls.__name__
            case inspect.VarTupleType(item_type=item) | inspect.ListType(item_type=item):
                return f"ReadonlyArray<{self.type_of(item)}>"
            case inspect.UnionType(types=types):
                return " | ".join(self.type_of(t) for t in types)
            case inspect.Metadata(type=inner):
                return self.type_of(inner)
            case inspect.StructType():
                self.struct(kind)
                return kind.cls.__name__
            case _:
                raise TypeError(f"no TypeScript for {kind!r}")

    def struct(self, kind: inspect.StructType) -> None:
        """Declare an interface; a field with a default may be absent, and null is said by absence."""
        name = kind.cls.__name__
        if name in self.structs:
            return
        self.structs[name] = ""  # reserves the place and ends recursion
        lines = [f"export interface {name} {{"]
        if kind.tag is not None:
            lines.append(f"  readonly {kind.tag_field}: {json.dumps(kind.tag)};")
        for field in kind.fields:
            inner = field.type
            if isinstance(inner, inspect.UnionType):
                rest = tuple(t for t in inner.types if not isinstance(t, inspect.NoneType))
                inner = rest[0] if len(rest) == 1 else inspect.UnionType(rest)
            mark = "" if field.required else "?"
            lines.append(f"  readonly {field.encode_name}{mark}: {self.type_of(inner)};")
        lines.append("}")
        self.structs[name] = "\n".join(lines)


def _schema(kind: type[Any]) -> dict[str, Any]:
    schema: dict[str, Any] = _bare(tools.inline_schema(kind))
    return schema


def _args_schema(kind: type[Any]) -> dict[str, Any]:
    """`tab` is the worker's name for a tab: the bridge has resolved it, and may leave it out."""
    schema = _schema(kind)
    return {**schema, "required": [name for name in schema["required"] if name != "tab"]}


def _bare(node: Any) -> Any:
    """A schema without prose."""
    if isinstance(node, list):
        return [_bare(item) for item in node]
    if isinstance(node, dict):
        return {
            key: _bare(value)
            for key, value in node.items()
            if key != "default" and not (key == "description" and isinstance(value, str))
        }
    return node


def render() -> str:
    """The whole of wire.ts."""
    emitter = Emitter()
    ops = {name: tool for name, tool in tools.WORKER_TOOLS.items() if tool.page}
    for kind in (*_UP, *_DOWN, *(tool.args for tool in ops.values())):
        info = msgspec.inspect.type_info(kind)
        if not isinstance(info, inspect.StructType):
            raise TypeError(f"{kind!r} is no Struct")
        emitter.struct(info)
    out = [_HEADER]
    for name in _LIMITS:
        out.append(f"export const {name} = {getattr(limits, name)};")
    out.append("")
    for name, enum in sorted(emitter.enums.items()):
        values = ", ".join(json.dumps(member.value) for member in enum)
        out.append(f"export const {name}Values = [{values}] as const;")
        out.append(f"export type {name} = (typeof {name}Values)[number];")
    out.append("")
    out.extend(f"{text}\n" for text in emitter.structs.values())
    out.append(f"export type UpFrame = {' | '.join(kind.__name__ for kind in _UP)};")
    out.append(f"export type DownFrame = {' | '.join(kind.__name__ for kind in _DOWN)};\n")
    out.append("/** Arguments of each op, by its name. */")
    out.append("export interface OpArgs {")
    out.extend(f"  readonly {name}: {tool.args.__name__};" for name, tool in ops.items())
    out.append("}\n")
    out.append("/** Whether an op may change something outside the browser's own view of the page. */")
    out.append("export const OP_EFFECT: Readonly<Record<keyof OpArgs, boolean>> = {")
    out.extend(f"  {name}: {json.dumps(tool.effect)}," for name, tool in ops.items())
    out.append("};\n")
    out.append("/** JSON Schema of each op's arguments. */")
    out.append("export const ARG_SCHEMAS: Readonly<Record<keyof OpArgs, object>> = {")
    out.extend(f"  {name}: {json.dumps(_args_schema(tool.args))}," for name, tool in ops.items())
    out.append("};\n")
    out.append("/** JSON Schema of what a `locate` command carries. */")
    out.append(f"export const LOCATOR_SCHEMA: object = {json.dumps(_schema(frames.Locator))};\n")
    out.append("/** JSON Schema of each frame that comes down, by its tag. */")
    out.append('export const DOWN_SCHEMAS: Readonly<Record<DownFrame["t"], object>> = {')
    out.extend(f"  {kind.__struct_config__.tag}: {json.dumps(_schema(kind))}," for kind in _DOWN)
    out.append("};")
    return "\n".join(out) + "\n"


def main() -> int:
    """Write or check; returns the exit code."""
    parser = argparse.ArgumentParser(description="writes extension/src/wire.ts")
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    check = parser.parse_args().check
    text = render()
    if not check:
        OUTPUT.write_text(text, "utf-8")
        return 0
    if OUTPUT.is_file() and OUTPUT.read_text("utf-8") == text:
        return 0
    print(
        "extension/src/wire.ts is out of date; run: python extension/tools/generate_wire.py", file=sys.stderr
    )
    return 1


if __name__ == "__main__":
    raise SystemExit(main())
