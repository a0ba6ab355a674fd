"""The model bridge's shell: whole inferences against a scripted endpoint, over real sockets."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from typing import Any

import pytest
from browsercell.bridge.model.__main__ import EXIT_USAGE, main
from browsercell.bridge.process import EXIT_CRASH, EXIT_PROTOCOL, EXIT_SETUP
from browsercell.protocol import limits as L
from browsercell.protocol.codec import encode
from browsercell.protocol.errors import BlockerCode
from browsercell.protocol.frames import (
    AssignModel,
    ConfigureModel,
    Credit,
    ForgetWorker,
    Frame,
    Infer,
    Inference,
    InferenceFailed,
    ModelFault,
    ModelProblem,
    ModelProgress,
    Ping,
    Pong,
    PrepareWorker,
    SetupFailed,
    Shutdown,
    StateProblem,
    WorkerForgotten,
    WorkerSpawned,
)
from browsercell.protocol.settings import ModelSettings

from tests.bridge.model.rig import KEY, Rig, run, settings, surface
from tests.support.openai_server import OpenAIServer, Reply, completion, error, finish, tools

OBSERVE = ("browser_page_observe", {"mode": "summary"})


def sent_messages(server: OpenAIServer, index: int) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = server.requests[index].body["messages"]
    return messages


async def fault(rig: Rig) -> tuple[BlockerCode, ModelProblem]:
    frame = await rig.until(ModelFault)
    assert isinstance(frame, ModelFault)
    return frame.code, frame.problem


@pytest.mark.parametrize("own_process", [False, True])
def test_an_inference_goes_out_with_tools_and_key_and_comes_back_judged(own_process: bool) -> None:
    async def body() -> None:
        with OpenAIServer([tools(OBSERVE, content="looking"), finish("done")]) as server:
            async with Rig(settings(server), own_process=own_process) as rig:
                assert (await rig.ready()).problem is ModelProblem.NONE
                worker = await rig.assigned()
                worker.infer(1, "first page")
                inference = await worker.until(Inference)
                assert isinstance(inference, Inference)
                assert (inference.call, inference.content) == (1, "looking")
                assert [call.name for call in inference.tool_calls] == ["browser_page_observe"]
                worker.infer(2, "second page")
                await worker.until(Inference, 2)
                progress = [frame for frame in rig.frames if isinstance(frame, ModelProgress)]
                assert [(frame.steps, frame.tokens, frame.occupancy) for frame in progress] == [
                    (1, 0, 0),
                    (1, 1_050, 1_050),
                    (2, 1_050, 1_050),
                    (2, 2_100, 1_050),
                ]
                sizes = [
                    len(encode(Infer(call=1, messages=surface(text)), L.MIB))
                    for text in ("first page", "second page")
                ]
                await worker.until(Credit, 2)
                assert worker.credit() == sum(sizes)
                first, second = server.requests
                assert first.path == "/v1/chat/completions"
                assert first.body["model"] == "scripted"
                assert first.body["tools"][-1]["function"]["name"] == "structured_output"
                assert first.body["messages"][1]["content"] == "first page"
                assert b"first page" not in second.raw

    run(body())


def test_the_key_is_in_the_authorization_header_and_nowhere_else() -> None:
    async def body() -> None:
        with OpenAIServer([tools(OBSERVE)]) as server:
            async with Rig(settings(server), own_process=True) as rig:
                worker = await rig.assigned()
                worker.infer(1, "page")
                await worker.until(Inference)
                (request,) = server.requests
                assert request.header("Authorization") == f"Bearer {KEY}"
                others = [value for name, value in request.headers if name.lower() != "authorization"]
                assert KEY not in " ".join(others)
                assert KEY.encode() not in request.raw
                assert request.header("OpenAI-Organization") is None
                assert request.header("X-Stainless-OS") is None
                assert request.header("Accept-Encoding") == "identity"
                text = rig.log.read_text()
                assert KEY not in text
                assert "page" not in text.replace("PageUp", "")
                assert not any(
                    KEY.encode() in encode(frame, L.MIB) for frame in [*rig.frames, *worker.frames]
                )

    run(body())


def test_without_a_key_file_no_authorization_is_sent() -> None:
    async def body() -> None:
        with OpenAIServer([tools(OBSERVE)]) as server:
            async with Rig(settings(server), key=None) as rig:
                worker = await rig.assigned()
                worker.infer(1, "page")
                await worker.until(Inference)
                assert server.requests[0].header("Authorization") is None

    run(body())


def test_malformed_and_missing_calls_get_one_correction_each() -> None:
    script = [
        tools(("browser_page_observe", "{oops")),
        tools(OBSERVE),
        completion({"role": "assistant", "content": "hello"}),
        tools(OBSERVE),
    ]

    async def body() -> None:
        with OpenAIServer(script) as server:
            async with Rig(settings(server)) as rig:
                worker = await rig.assigned()
                worker.infer(1, "one")
                await worker.until(Inference)
                worker.infer(2, "two")
                await worker.until(Inference, 2)
                assert [len(request.body["messages"]) for request in server.requests] == [2, 4, 2, 4]
                assert "not a JSON object" in sent_messages(server, 1)[3]["content"]
                assert "without a tool call" in sent_messages(server, 3)[3]["content"]
                assert json.loads(sent_messages(server, 1)[2]["tool_calls"][0]["function"]["arguments"]) == {}

    run(body())


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ([tools(("rm", {}))], BlockerCode.INVALID_TOOL),
        ([tools(("browser_page_click", {}))] * 2, BlockerCode.INVALID_TOOL),
        ([completion({"role": "assistant", "content": "hi"})] * 2, BlockerCode.NO_STRUCTURED_OUTPUT),
        ([tools(OBSERVE, usage=(200_000, 1))], BlockerCode.ROLLOVER_EXHAUSTED),
    ],
)
def test_answers_that_end_a_task(script: list[Reply], code: BlockerCode) -> None:
    async def body() -> None:
        with OpenAIServer(script) as server:
            async with Rig(settings(server)) as rig:
                worker = await rig.assigned()
                worker.infer(1, "page")
                await worker.until(InferenceFailed)
                assert await fault(rig) == (code, ModelProblem.NONE)

    run(body())


def test_the_step_limit() -> None:
    async def body() -> None:
        with OpenAIServer([tools(OBSERVE)]) as server:
            async with Rig(settings(server)) as rig:
                worker = await rig.assigned(steps=1)
                worker.infer(1, "page")
                await worker.until(Inference)
                worker.infer(2, "page")
                await worker.until(InferenceFailed)
                assert await fault(rig) == (BlockerCode.STEP_LIMIT, ModelProblem.NONE)
                assert len(server.requests) == 1

    run(body())


def test_a_retry_repeats_the_same_request_and_honours_retry_after() -> None:
    script = [error(429, headers={"Retry-After": "0.8"}), error(503), Reply(drop=True), tools(OBSERVE)]

    async def body() -> None:
        with OpenAIServer(script) as server:
            async with Rig(settings(server)) as rig:
                worker = await rig.assigned()
                worker.infer(1, "page")
                await worker.until(Inference)
                assert len(server.requests) == 4
                assert len({request.raw for request in server.requests}) == 1
                assert len({request.header("Idempotency-Key") for request in server.requests}) == 1
                assert server.requests[1].at - server.requests[0].at >= 0.8
                progress = [frame for frame in rig.frames if isinstance(frame, ModelProgress)]
                assert [frame.steps for frame in progress] == [1, 1]

    run(body())


@pytest.mark.parametrize(
    ("reply", "problem", "requests"),
    [
        (error(401), ModelProblem.REFUSED_KEY, 1),
        (error(404, "no such model"), ModelProblem.WRONG_MODEL, 1),
        (error(400, "maximum context length is 10"), ModelProblem.CONTEXT_TOO_LONG, 1),
        (error(400, "nonsense"), ModelProblem.REQUEST_REFUSED, 1),
        (error(429), ModelProblem.RATE_LIMITED, 2),
        (error(500), ModelProblem.SERVER_ERROR, 2),
        (Reply(307, b"", {"Location": "http://127.0.0.1:9/elsewhere"}), ModelProblem.REDIRECTED, 1),
        (Reply(200, b"<html>hello</html>"), ModelProblem.BAD_ANSWER, 2),
        (Reply(200, b""), ModelProblem.BAD_ANSWER, 2),
        (Reply(200, b"x" * (5 * L.MIB)), ModelProblem.BAD_ANSWER, 2),
        (Reply(500, b"x" * (5 * L.MIB)), ModelProblem.BAD_ANSWER, 2),
        (Reply(delay=3.0), ModelProblem.TIMEOUT, 2),
        (Reply(drop=True), ModelProblem.UNREACHABLE, 2),
    ],
)
def test_every_failure_of_an_endpoint_has_its_word(
    reply: Reply, problem: ModelProblem, requests: int
) -> None:
    async def body() -> None:
        with OpenAIServer([reply] * 2) as server:
            async with Rig(settings(server, attempts=2, timeout_seconds=0.6)) as rig:
                worker = await rig.assigned()
                worker.infer(1, "page")
                await worker.until(InferenceFailed)
                assert await fault(rig) == (BlockerCode.MODEL_UNAVAILABLE, problem)
                assert len(server.requests) == requests
                assert all(request.path == "/v1/chat/completions" for request in server.requests)

    run(body())


def test_nobody_listening_is_unreachable() -> None:
    async def body() -> None:
        with OpenAIServer([]) as server:
            gone = settings(server, attempts=1)
        async with Rig(gone) as rig:
            worker = await rig.assigned()
            worker.infer(1, "page")
            await worker.until(InferenceFailed)
            assert await fault(rig) == (BlockerCode.MODEL_UNAVAILABLE, ModelProblem.UNREACHABLE)

    run(body())


def test_a_parameter_the_server_refuses_is_left_out_from_then_on() -> None:
    script = [
        error(400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."),
        error(400, "Unknown parameter: parallel_tool_calls"),
        tools(OBSERVE),
        tools(OBSERVE),
    ]

    async def body() -> None:
        with OpenAIServer(script) as server:
            async with Rig(settings(server, attempts=1)) as rig:
                worker = await rig.assigned()
                worker.infer(1, "page")
                await worker.until(Inference)
                worker.infer(2, "page")
                await worker.until(Inference, 2)
                shapes = [
                    sorted(set(request.body) - {"model", "messages", "tools"}) for request in server.requests
                ]
                assert shapes == [
                    ["max_tokens", "parallel_tool_calls"],
                    ["max_completion_tokens", "parallel_tool_calls"],
                    ["max_completion_tokens"],
                    ["max_completion_tokens"],
                ]

    run(body())


def test_a_rotated_key_is_read_after_a_refusal() -> None:
    async def body() -> None:
        with OpenAIServer([error(401), tools(OBSERVE), error(401)]) as server:
            async with Rig(settings(server)) as rig:
                worker = await rig.assigned()
                rig.key_file.write_text("sk-rotated")
                worker.infer(1, "page")
                await worker.until(Inference)
                assert [request.header("Authorization") for request in server.requests] == [
                    f"Bearer {KEY}",
                    "Bearer sk-rotated",
                ]
                worker.infer(2, "page")
                await worker.until(InferenceFailed)
                assert await fault(rig) == (BlockerCode.MODEL_UNAVAILABLE, ModelProblem.REFUSED_KEY)
                assert len(server.requests) == 3

    run(body())


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"model": ""}, ModelProblem.NOT_CONFIGURED),
        ({"base_url": "http://models.example/v1"}, ModelProblem.INSECURE_URL),
        ({"api_key_file": "/nowhere/key"}, ModelProblem.KEY_MISSING),
    ],
)
def test_what_is_not_configured_is_said_at_the_start_and_to_each_task(
    changes: Any, problem: ModelProblem
) -> None:
    async def body() -> None:
        with OpenAIServer([]) as server:
            async with Rig(settings(server, **changes), key=None) as rig:
                assert (await rig.ready()).problem is problem
                worker = await rig.assigned()
                worker.infer(1, "page")
                await worker.until(InferenceFailed)
                assert await fault(rig) == (BlockerCode.MODEL_UNCONFIGURED, problem)
                worker.infer(2, "page")
                await worker.until(InferenceFailed, 2)
                assert server.requests == []

    run(body())


def test_an_exposed_key_is_not_used() -> None:
    async def body() -> None:
        with OpenAIServer([]) as server:
            async with Rig(settings(server), key_mode=0o644) as rig:
                assert (await rig.ready()).problem is ModelProblem.KEY_EXPOSED

    run(body())


def test_limits_that_contradict_each_other_are_refused_at_the_start() -> None:
    async def body() -> None:
        with OpenAIServer([]) as server:
            async with Rig(settings(server, soft_tokens=200_000)) as rig:
                failed = await rig.until(SetupFailed)
                assert isinstance(failed, SetupFailed)
                assert failed.problem is StateProblem.SETTINGS
                assert await rig.status() == EXIT_SETUP

    run(body())


def test_forgetting_a_worker_cancels_its_request_at_once() -> None:
    async def body() -> None:
        with OpenAIServer([Reply(delay=5.0)]) as server:
            async with Rig(settings(server)) as rig:
                worker = await rig.assigned()
                worker.infer(1, "page")
                await asyncio.to_thread(server.wait_for, 1)
                began = time.monotonic()
                rig.forget(worker)
                assert await rig.until(WorkerForgotten) == WorkerForgotten(worker=worker.name)
                assert time.monotonic() - began < 1.5
                assert not (rig.place / worker.name / "model").exists()
                assert not any(isinstance(frame, ModelFault) for frame in rig.frames)

    run(body())


def test_forgetting_a_worker_ends_its_retries() -> None:
    async def body() -> None:
        with OpenAIServer([error(503, headers={"Retry-After": "0.5"}), tools(OBSERVE)]) as server:
            async with Rig(settings(server)) as rig:
                worker = await rig.assigned()
                worker.infer(1, "page")
                await asyncio.to_thread(server.wait_for, 1)
                await asyncio.sleep(0.1)
                rig.forget(worker)
                await rig.until(WorkerForgotten)
                await asyncio.sleep(0.8)
                assert len(server.requests) == 1

    run(body())


def test_tasks_run_side_by_side_and_a_slow_one_holds_up_nobody() -> None:
    def script(request: Any) -> Reply:
        slow = "slow" in request.body["messages"][1]["content"]
        return tools(OBSERVE, delay=3.0 if slow else 0.0)

    async def body() -> None:
        with OpenAIServer([script]) as server:
            async with Rig(settings(server)) as rig:
                slow, quick = await rig.assigned("worker-aaaa"), await rig.assigned("worker-bbbb")
                slow.infer(1, "slow page")
                await asyncio.to_thread(server.wait_for, 1)
                quick.infer(1, "quick page")
                await quick.until(Inference)
                assert not any(isinstance(frame, Inference) for frame in slow.frames)

    run(body())


def test_pings_of_the_supervisor_are_answered_while_the_sdk_is_imported() -> None:
    async def body() -> None:
        with OpenAIServer([]) as server:
            async with Rig(settings(server), own_process=True) as rig:
                await rig.ready()
                for nonce in range(5):
                    rig.tell(Ping(nonce=nonce))
                await rig.until(Pong, 5)

    run(body())


# ------------------------------------------------------------------------------------------ the process


def test_shutdown_and_the_end_of_the_supervisor_end_the_process() -> None:
    async def body() -> None:
        with OpenAIServer([tools(OBSERVE)]) as server:
            async with Rig(settings(server), own_process=True) as rig:
                worker = await rig.assigned()
                worker.infer(1, "page")
                await worker.until(Inference)
                rig.tell(Shutdown(grace_ms=1_000))
                assert await rig.status() == 0
                assert not (rig.place / worker.name / "model").exists()
            async with Rig(settings(server), own_process=True) as rig:
                await rig.ready()
                rig.control.close()
                assert await rig.status() == 0

    run(body())


@pytest.mark.parametrize(
    "frame",
    [
        WorkerSpawned(worker="worker-zzzz", pid=7),
        ForgetWorker(worker="worker-zzzz"),
        AssignModel(worker="worker-zzzz", task="task-zzzz", generation=1, steps=1),
        ConfigureModel(settings=ModelSettings()),
    ],
)
def test_nonsense_from_the_supervisor_ends_the_process(frame: Frame) -> None:
    async def body() -> None:
        with OpenAIServer([]) as server:
            async with Rig(settings(server)) as rig:
                await rig.ready()
                rig.tell(frame)
                assert await rig.status() == EXIT_PROTOCOL

    run(body())


def test_preparing_a_worker_twice_ends_the_process() -> None:
    async def body() -> None:
        with OpenAIServer([]) as server:
            async with Rig(settings(server)) as rig:
                worker = await rig.spare()
                folder = str(rig.place / worker.name)
                rig.tell(PrepareWorker(worker=worker.name, folder=folder, uid=os.geteuid()))
                assert await rig.status() == EXIT_PROTOCOL

    run(body())


def test_a_bug_ends_the_process_and_says_only_where(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(*_: Any) -> None:
        raise RuntimeError("page data")

    async def body() -> None:
        with OpenAIServer([]) as server:
            async with Rig(settings(server)) as rig:
                worker = await rig.assigned()
                monkeypatch.setattr("browsercell.bridge.model.endpoint.Endpoint.ask", broken)
                worker.infer(1, "page")
                assert await rig.status() == EXIT_CRASH

    with caplog.at_level(logging.INFO):
        run(body())
    assert "crashed" in caplog.text
    assert "page data" not in caplog.text


@pytest.mark.parametrize(
    "arguments", [[], ["--control-fd", "x"], ["--control-fd", "-1"], ["--control-fd", "3", "--memory", "1"]]
)
def test_wrong_options(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("browsercell.bridge.model.__main__.setup", lambda: None)
    assert main(arguments) == EXIT_USAGE
