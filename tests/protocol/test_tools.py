"""Arguments of worker tools: ceilings, relations between fields, and schemas without what a model must not see."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from browsercell.protocol import limits as L
from browsercell.protocol.tools import (
    WORKER_TOOLS,
    ObserveArgs,
    decode_args,
    structured_output_schema,
    worker_schema,
)


def decode(name: str, args: dict[str, Any]) -> Any:
    return decode_args(WORKER_TOOLS[name], json.dumps(args).encode())


@pytest.mark.parametrize(
    ("tool", "args"),
    [
        ("browser_page_navigate", {"url": "https://a.example"}),
        ("browser_page_navigate", {"history": "back"}),
        ("browser_page_click", {"ref": "e1"}),
        ("browser_page_click", {"ref": "f2e12"}),
        ("browser_page_click", {"name": "Go", "role": "button"}),
        ("browser_page_click", {"target": {"role": "button", "name": "Go", "nth": 2}}),
        ("browser_page_type", {"ref": "e1", "text": ""}),
        ("browser_page_press", {"key": "Enter"}),
        ("browser_page_select", {"ref": "e1", "values": ["a"]}),
        ("browser_page_select", {"ref": "e1", "checked": False}),
        ("browser_page_scroll", {"viewports": -1}),
        ("browser_page_scroll", {"to": "top"}),
        ("browser_page_wait", {"until": "load"}),
        ("browser_page_wait", {"until": "gone", "text": "a"}),
        ("browser_page_wait", {"until": "visible", "target": {"role": "button"}}),
        ("browser_page_screenshot", {}),
        ("browser_page_screenshot", {"full_page": True}),
    ],
)
def test_good_arguments(tool: str, args: dict[str, Any]) -> None:
    assert isinstance(decode(tool, args), WORKER_TOOLS[tool].args)


@pytest.mark.parametrize(
    ("tool", "args", "fault"),
    [
        ("browser_page_navigate", {}, "exactly one of url, history"),
        ("browser_page_navigate", {"url": "https://a", "history": "back"}, "exactly one of url, history"),
        ("browser_page_click", {"ref": "e1", "name": "Go"}, "exactly one of ref, name, target"),
        ("browser_page_click", {"ref": "e1", "role": "button"}, "role goes with name"),
        ("browser_page_click", {"ref": "e1", "gesture": "drag"}, "exactly one of to_ref, to_target"),
        ("browser_page_click", {"ref": "e1", "to_ref": "e2"}, "other gestures take neither"),
        ("browser_page_click", {"ref": "button.secret"}, "regex"),
        ("browser_page_type", {"ref": "e1", "text": "x" * (L.MAX_TYPED_CHARS + 1)}, "length"),
        ("browser_page_press", {"key": "secret"}, "Not one of the allowed values - at `$.key`"),
        ("browser_page_press", {"key": "Enter", "ref": "e1", "target": {"role": "link"}}, "at most one"),
        ("browser_page_select", {"ref": "e1"}, "exactly one of values, checked"),
        ("browser_page_scroll", {}, "exactly one of viewports"),
        ("browser_page_wait", {"until": "text"}, "until text needs text"),
        ("browser_page_wait", {"until": "hidden"}, "until hidden needs ref or target"),
        ("browser_page_observe", {"max_elements": L.MAX_ELEMENTS + 1}, "<= 200"),
        ("browser_page_observe", {"max_chars": L.MAX_OBSERVE_CHARS + 1}, "<= 24000"),
        ("browser_page_extract", {"kind": "table", "selector": "#x"}, "unknown field"),
        ("browser_page_screenshot", {"full_page": True, "ref": "e1"}, "at most one"),
    ],
)
def test_faults_name_field_and_bound(tool: str, args: dict[str, Any], fault: str) -> None:
    with pytest.raises(msgspec.ValidationError) as error:
        decode(tool, args)
    assert fault in str(error.value)
    assert "secret" not in str(error.value)


def test_models_see_neither_targets_nor_references() -> None:
    text = json.dumps([worker_schema(tool) for tool in WORKER_TOOLS.values()] + [structured_output_schema()])
    assert "$ref" not in text
    assert '"target"' not in text


def test_defaults_are_within_their_ceilings() -> None:
    assert ObserveArgs().max_elements <= L.MAX_ELEMENTS
    assert ObserveArgs().max_chars <= L.MAX_OBSERVE_CHARS


def test_the_final_claim_offers_the_answer_that_is_wanted_and_no_other() -> None:
    assert "answer" not in structured_output_schema()["properties"]
    asked = {
        "$schema": "x",
        "type": "object",
        "properties": {"found": {"type": "boolean"}},
        "required": ["found"],
    }
    offered = structured_output_schema(asked)["properties"]["answer"]
    assert offered["properties"] == asked["properties"]
    assert offered["additionalProperties"] is False
    assert "$schema" not in offered
    assert "required with status completed" in offered["description"]
    described = structured_output_schema({**asked, "description": "About tea."})["properties"]["answer"]
    assert described["description"].endswith("About tea.")
    assert "$schema" in asked  # the host's own is left as it was
