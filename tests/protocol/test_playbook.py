"""The playbook format is checked whole before anything starts, and faults name the step."""

from __future__ import annotations

import json
from typing import Any

import pytest
from browsercell.protocol import limits as L
from browsercell.protocol.errors import UsageError
from browsercell.protocol.playbook import Expect, Step, expect_call, parse, substitute

FINISH = {"finish": {"status": "completed", "summary": "done"}}
CLICK = {"tool": "browser_page_click", "args": {"target": {"role": "button", "name": "Go"}}}


def check(*steps: Any, calls: int = 40, **variables: str) -> tuple[Step, ...]:
    return parse(json.dumps(list(steps)).encode(), variables, calls)


def test_a_good_playbook_parses() -> None:
    steps = check(
        {"tool": "browser_page_navigate", "args": {"url": "${site}/x"}},
        {"expect": {"text": "results"}, "timeout_ms": 500},
        {**CLICK, "purpose": "prices"},
        FINISH,
        site="https://a.example",
    )
    assert steps[0].args == {"url": "https://a.example/x"}
    assert steps[2].purpose == "prices"


@pytest.mark.parametrize(
    ("steps", "fault"),
    [
        ([], "at least one step"),
        ([CLICK], "ends with its one finish"),
        ([FINISH, CLICK], "ends with its one finish"),
        ([FINISH, FINISH], "ends with its one finish"),
        ([{}, FINISH], "step 1: give exactly one"),
        ([{**CLICK, "expect": {"text": "a"}}, FINISH], "step 1: give exactly one"),
        ([{"expect": {"text": "a"}, "purpose": "x"}, FINISH], "step 1: args and purpose"),
        ([{**CLICK, "timeout_ms": 500}, FINISH], "step 1: timeout_ms goes with expect"),
        ([{"tool": "browser_eval"}, FINISH], "step 1: there is no worker tool"),
        ([{"tool": "browser_page_click", "args": {"ref": "secret-marker"}}, FINISH], "step 1: "),
        ([{"tool": "browser_page_click"}, FINISH], "step 1: give exactly one of ref, name, target"),
        ([CLICK, {"expect": {}}, FINISH], "step 2: expect exactly one"),
        ([{"expect": {"text": "a", "url": "b"}}, FINISH], "step 1: expect exactly one"),
        ([{"expect": {"text": "a", "name": "b"}}, FINISH], "step 1: name goes with role"),
        ([7, FINISH], "step 1: "),
        ([{"unknown": 1}, FINISH], "step 1: "),
    ],
)
def test_faults_name_the_step(steps: list[Any], fault: str) -> None:
    with pytest.raises(UsageError) as error:
        check(*steps)
    assert fault in str(error.value)
    assert "secret-marker" not in str(error.value)


def test_not_json_and_not_a_list() -> None:
    with pytest.raises(UsageError, match="not valid JSON"):
        parse(b"{", {}, 40)
    with pytest.raises(UsageError, match="a list"):
        parse(b"{}", {}, 40)


def test_size_and_length_are_bounded() -> None:
    with pytest.raises(UsageError, match="bytes"):
        parse(b"[" + b" " * L.MAX_PLAYBOOK_BYTES + b"]", {}, 40)
    with pytest.raises(UsageError, match="makes 3 tool calls"):
        check(CLICK, CLICK, CLICK, FINISH, calls=2)


def test_variables_are_replaced_everywhere_and_can_be_escaped() -> None:
    value = {"a": ["${x}", 1, None], "b": {"c": "$${x} ${x}"}}
    assert substitute(value, {"x": "1"}) == {"a": ["1", 1, None], "b": {"c": "${x} 1"}}


def test_a_missing_variable_is_named_with_the_remedy() -> None:
    with pytest.raises(UsageError, match=r"--var site="):
        check({"tool": "browser_page_navigate", "args": {"url": "${site}"}}, FINISH)


@pytest.mark.parametrize(
    ("expect", "args"),
    [
        (Expect(text="a"), {"until": "text", "text": "a"}),
        (Expect(url="a"), {"until": "url", "url": "a"}),
        (Expect(gone="a"), {"until": "gone", "text": "a"}),
        (Expect(role="button", name="a"), {"until": "visible", "target": {"role": "button", "name": "a"}}),
        (Expect(role="button"), {"until": "visible", "target": {"role": "button"}}),
    ],
)
def test_an_expectation_is_a_wait(expect: Expect, args: dict[str, Any]) -> None:
    assert expect_call(Step(expect=expect)) == ("browser_page_wait", args)
    assert expect_call(Step(expect=expect, timeout_ms=700)) == (
        "browser_page_wait",
        {**args, "timeout_ms": 700},
    )


def test_other_steps_are_no_expectation() -> None:
    with pytest.raises(ValueError, match="not an expect"):
        expect_call(Step(tool="browser_status"))
