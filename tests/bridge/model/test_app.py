"""The model bridge as a process: whole inferences against a scripted endpoint, over real sockets."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Coroutine
from typing import Any

import pytest
from browsercell.protocol import limits as L
from browsercell.protocol.codec import encode
from browsercell.protocol.errors import BlockerCode
from browsercell.protocol.frames import (
    Credit,
    Hello,
    Infer,
    Inference,
    InferenceFailed,
    ModelAssigned,
    ModelFault,
    ModelProblem,
    ModelProgress,
    Ping,
    Pong,
    Sealed,
    SealReport,
    SandboxLevel,
    SetupFailed,
    Shutdown,
    StateProblem,
    ToolCall,
    Welcome,
    WorkerFault,
    WorkerFaultKind,
    WorkerForgotten,
    WorkerGreeted,
)
from browsercell.protocol.settings import ModelSettings
from tests.bridge.model.rig import KEY, Rig, surface
from tests.support.openai_server import OpenAIServer, Reply, error, finish, tools

OBSERVE = ("browser_page_observe", {"mode": "summary"})


def settings(server: OpenAIServer, **changes: Any) -> ModelSettings:
    return ModelSettings(**{"base_url": server.url, "model": "scripted", "timeout_seconds": 10.0, **changes})


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(test)


def test_an_inference_goes_out_with_tools_and_key_and_comes_back_judged() -> None:
    async def body() -> None:
        with OpenAIServer([tools(OBSERVE, content="looking"), finish("done")]) as server:
            async with Rig(settings(server)) as rig:
                assert (await rig.ready()).problem is ModelProblem.NONE
                worker = await rig.assigned()
                await rig.until(ModelAssigned)
                worker.infer(1, "first page")
                inference = await worker.until(Inference)
                assert isinstance(inference, Inference)
                assert inference.call == 1
                assert inference.content == "looking"
                assert [call.name for call in inference.tool_calls] == ["browser_page_observe"]
                worker.infer(2, "second page")
                assert (await worker.until(Inference, 2)).call == 2  # type: ignore[attr-defined]
                progress = [frame for frame in rig.frames if isinstance(frame, ModelProgress)]
                assert [(frame.steps, frame.tokens, frame.occupancy) for frame in progress] == [
                    (1, 0, 0),
                    (1, 1_050, 1_050),
                    (2, 1_050, 1_050),
                    (2, 2_100, 1_050),
                ]
                first, second = server.requests
                assert first.path == "/v1/chat/completions"
                assert first.header("Authorization") == f"Bearer {KEY}"
                assert first.body["model"] == "scripted"
                assert [tool["function"]["name"] for tool in first.body["tools"]][-1] == "structured_output"
                assert first.body["messages"][1]["content"] == "first page"
                assert b"first page" not in second.raw

    run(body())
