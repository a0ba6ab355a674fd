"""Permission tables: each link's receivers accept what the table says and nothing else."""

from __future__ import annotations

import pytest
from browsercell.protocol import frames as f
from browsercell.protocol.errors import PeerViolation
from browsercell.protocol.links import TABLES, Allow, Gate, Link, Phase, frame_types


def all_frames() -> list[type]:
    return [
        kind
        for kind in vars(f).values()
        if isinstance(kind, type)
        and issubclass(kind, f.Frame | f.ExtFrame)
        and kind not in (f.Frame, f.ExtFrame)
    ]


def test_every_frame_is_on_some_table_or_goes_to_the_extension() -> None:
    to_extension = {f.ExtChallenge, f.ExtReady, f.ExtRefused, f.ExtPing, f.ExtCommand, f.ExtCancel}
    on_tables = {kind for link in Link for kind in frame_types(link)}
    assert set(all_frames()) == on_tables | to_extension


def test_tags_are_unique_per_encoding() -> None:
    for base in (f.Frame, f.ExtFrame):
        tags = [kind.__struct_config__.tag for kind in all_frames() if issubclass(kind, base)]
        assert len(tags) == len(set(tags))


def test_every_link_has_a_table() -> None:
    assert set(TABLES) == set(Link)


def test_a_spare_may_send_hello_sealed_and_pong_only() -> None:
    table = TABLES[Link.WORKER_TO_BRIDGE]
    assert set(table[Phase.GREETING]) | set(table[Phase.SPARE]) == {f.Hello, f.Sealed, f.Pong}
    model = TABLES[Link.WORKER_TO_MODEL]
    assert set(model[Phase.GREETING]) | set(model[Phase.SPARE]) == {f.Hello, f.Pong}


def test_frames_towards_the_supervisor_carry_no_free_text_but_the_result() -> None:
    allowed_text = {f.TaskFinished}
    for link in (Link.BRIDGE_TO_SUPERVISOR, Link.MODEL_TO_SUPERVISOR):
        for kind in frame_types(link):
            if kind in allowed_text:
                continue
            assert not free_text(kind), kind.__name__


def free_text(kind: type) -> list[str]:
    """Fields of plain `str` or `bytes` without a pattern or enum, found in the frame's JSON schema."""
    import msgspec

    schema, components = msgspec.json.schema_components([kind])
    found: list[str] = []

    def walk(node: object, path: str) -> None:
        if isinstance(node, list):
            for item in node:
                walk(item, path)
        elif isinstance(node, dict):
            if "$ref" in node:
                walk(components[str(node["$ref"]).rsplit("/", 1)[-1]], path)
            if (
                node.get("type") == "string"
                and not ({"pattern", "enum", "const"} & set(node))
                and not _closed(path)
            ):
                found.append(path)
            for key, value in node.items():
                if key in ("properties", "items", "prefixItems", "anyOf"):
                    if key == "properties":
                        for name, item in value.items():
                            walk(item, f"{path}.{name}")
                    else:
                        walk(value, path)

    walk(schema[0], kind.__name__)
    return found


def _closed(path: str) -> bool:
    # LedgerEntry.tool is set by the bridge from its own catalogue; ResolvedArtifact's texts are the bridge's own ids,
    # the deliverable's purpose (host's words), a digest and a media type.
    return path.rsplit(".", 1)[-1] in {
        "tool",
        "artifactId",
        "purpose",
        "sha256",
        "mediaType",
        "media_type",
        "artifact_id",
    }


def test_a_gate_passes_what_the_table_permits() -> None:
    gate = Gate(Link.WORKER_TO_BRIDGE, Phase.GREETING)
    gate.admit(f.Hello(1))
    gate.enter(Phase.SPARE)
    gate.admit(f.Pong(1))
    gate.admit(f.Pong(2))


def test_a_frame_of_another_phase_is_a_violation() -> None:
    gate = Gate(Link.WORKER_TO_BRIDGE, Phase.SPARE)
    with pytest.raises(PeerViolation, match="ToolCall is not permitted in phase spare"):
        gate.admit(f.ToolCall(1, "browser_status", b"{}"))


def test_once_means_once_a_phase() -> None:
    gate = Gate(Link.WORKER_TO_BRIDGE, Phase.GREETING)
    gate.admit(f.Hello(1))
    with pytest.raises(PeerViolation, match="twice"):
        gate.admit(f.Hello(1))


def test_flags_are_used() -> None:
    flags = {allow for phases in TABLES.values() for table in phases.values() for allow in table.values()}
    assert flags == {Allow.MANY, Allow.ONCE}
