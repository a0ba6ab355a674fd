"""Golden files pin the wire format and both tool catalogues: a change must be meant."""

from __future__ import annotations

import json
from typing import Any

import pytest
from browsercell.protocol import frames as f
from browsercell.protocol import limits as L
from browsercell.protocol.codec import Decoder, JsonDecoder, encode, encode_json
from browsercell.protocol.tools import (
    HOST_TOOLS,
    STRUCTURED_OUTPUT,
    STRUCTURED_OUTPUT_DESCRIPTION,
    WORKER_TOOLS,
    inline_schema,
    structured_output_schema,
    worker_schema,
)

from tests.support import golden
from tests.support.samples import sample

BASES = (f.Frame, f.ExtFrame)
FRAMES: list[type[Any]] = [
    kind
    for kind in vars(f).values()
    if isinstance(kind, type) and issubclass(kind, BASES) and kind not in BASES
]


def test_every_frame_has_the_bytes_it_had() -> None:
    lines = {}
    for kind in FRAMES:
        value = sample(kind)
        if issubclass(kind, f.ExtFrame):
            lines[kind.__name__] = encode_json(value)
        else:
            lines[kind.__name__] = encode(value, L.MAX_WORKER_TO_MODEL).hex()
    golden.check("frames.json", json.dumps(lines, indent=1, sort_keys=True) + "\n")


@pytest.mark.parametrize("kind", FRAMES, ids=lambda kind: kind.__name__)
def test_every_frame_survives_the_trip(kind: type[Any]) -> None:
    value = sample(kind)
    if issubclass(kind, f.ExtFrame):
        assert encode_json(JsonDecoder((kind,), 10_000).decode(encode_json(value))) == encode_json(value)
    else:
        assert Decoder((kind,), 10_000).decode(encode(value, 10_000)) == value


@pytest.mark.parametrize("kind", FRAMES, ids=lambda kind: kind.__name__)
def test_every_frame_is_documented(kind: type[Any]) -> None:
    assert kind.__doc__, kind.__name__
    assert any(word in kind.__doc__ for word in ("Up", "Down")), (
        f"{kind.__name__} does not say its trust direction"
    )


def test_the_worker_catalogue() -> None:
    catalogue = [
        {"name": tool.name, "description": tool.description, "parameters": worker_schema(tool)}
        for tool in WORKER_TOOLS.values()
    ]
    catalogue.append(
        {
            "name": STRUCTURED_OUTPUT,
            "description": STRUCTURED_OUTPUT_DESCRIPTION,
            "parameters": structured_output_schema(),
        }
    )
    golden.check("worker_tools.json", json.dumps(catalogue, indent=1) + "\n")


def test_the_host_catalogue() -> None:
    catalogue = [
        {"name": tool.name, "description": tool.description, "parameters": inline_schema(tool.args)}
        for tool in HOST_TOOLS.values()
    ]
    golden.check("host_tools.json", json.dumps(catalogue, indent=1) + "\n")


def test_the_catalogues_share_only_status() -> None:
    assert set(WORKER_TOOLS) & set(HOST_TOOLS) == {"browser_status"}
