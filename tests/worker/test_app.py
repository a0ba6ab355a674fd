"""The worker's shell: the real program, sealed, against two scripted bridges over real sockets."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any

import pytest
from browsercell.protocol import limits as L
from browsercell.protocol.errors import ToolErrorCode
from browsercell.protocol.frames import (
    Assignment,
    ChatRole,
    ChatToolCall,
    Finish,
    Frame,
    Hello,
    Infer,
    Inference,
    InferenceFailed,
    SandboxLevel,
    Sealed,
    ToolCall,
    ToolResult,
)
from browsercell.protocol.results import ArtifactClaim, ClaimStatus, PlannerKind
from browsercell.worker.app import main, parse_arguments
from browsercell.worker.loop import Exit
from tests.worker.fake_bridges import FakeBridges, finishing


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(test)


def assignment(planner: PlannerKind, playbook: list[dict[str, Any]] | None = None) -> Assignment:
    return Assignment(
        task="task-aaaa",
        generation=1,
        planner=planner,
        goal="buy tea",
        constraints=(),
        start_url=None,
        deliverables=(),
        steps=8,
        tool_calls=20,
        playbook=None if playbook is None else json.dumps(playbook).encode(),
    )


PLAYBOOK: list[dict[str, Any]] = [
    {"tool": "browser_page_navigate", "args": {"url": "http://shop.example/search"}},
    {"expect": {"text": "results"}},
    {"tool": "browser_page_screenshot", "args": {}, "purpose": "picture"},
    {"finish": {"status": "completed", "summary": "Done"}},
]


def all_well(call: ToolCall) -> ToolResult:
    artifact = "art-aaaa" if call.tool == "browser_page_screenshot" else ""
    return ToolResult(
        call=call.call, ok=True, content="page text", artifact=artifact, calls_left=20 - call.call
    )


def calls_of(bridges: FakeBridges) -> list[ToolCall]:
    return [frame for frame in bridges.heard if isinstance(frame, ToolCall)]


def test_a_sealed_worker_runs_a_playbook_and_leaves_with_0() -> None:
    async def body() -> None:
        async with FakeBridges(finishing(all_well)) as bridges:
            sealed = await bridges.sealed()
            assert sealed.report.level is not SandboxLevel.UNSANDBOXED
            assert [type(frame) for frame in bridges.heard] == [Hello, Hello, Sealed]
            bridges.assign(assignment(PlannerKind.PLAYBOOK, PLAYBOOK))
            finish = await bridges.until(Finish)
            assert isinstance(finish, Finish)
            assert finish.claim.status is ClaimStatus.COMPLETED
            assert finish.claim.summary == "Done"
            assert finish.claim.artifacts == (ArtifactClaim(artifact_id="art-aaaa", purpose="picture"),)
            assert [call.tool for call in calls_of(bridges)] == [
                "browser_page_navigate",
                "browser_page_wait",
                "browser_page_screenshot",
            ]
            assert [call.call for call in calls_of(bridges)] == [1, 2, 3]
            assert await bridges.status() == Exit.OK
            assert bridges.log.read_bytes() == b""

    run(body())
