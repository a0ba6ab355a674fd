"""A scripted OpenAI-compatible endpoint on loopback, for every test that needs a model.

It is the other side of a real HTTP connection: nothing in the product knows of it. Each request takes the next item of
the script (the last one repeats if it is callable); every request is recorded whole, headers included. Standard library
only, one thread a connection.

    with OpenAIServer([tools(("browser_page_observe", {})), finish("done")]) as server:
        ...  # base_url = server.url
    server.requests[0].body["messages"]
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

MAX_BODY = 8 * 1024 * 1024  # bytes of a request; the product sends 1 MiB at most


@dataclass(frozen=True)
class Request:
    """One recorded request. `headers`: in order, names as sent; `body`: the decoded JSON."""

    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    raw: bytes
    body: Any
    at: float  # monotonic seconds

    def header(self, name: str) -> str | None:
        """The first header of that name, in any case."""
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)


@dataclass(frozen=True)
class Reply:
    """One scripted answer. `body`: bytes as they are, or JSON. `delay`: seconds before the status line.

    `drop`: close the connection without an answer (after `delay`).
    """

    status: int = 200
    body: Any = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0
    drop: bool = False


Step = Reply | Callable[[Request], Reply]


def tools(
    *calls: tuple[str, Any],
    content: str | None = None,
    usage: tuple[int, int] | None = (1_000, 50),
    finish_reason: str = "tool_calls",
    delay: float = 0.0,
) -> Reply:
    """An answer with these (name, arguments) calls; arguments that are text are sent as they are."""
    message: dict[str, Any] = {"role": "assistant", "content": content}
    if calls:
        message["tool_calls"] = [
            {
                "id": f"call_{number}",
                "type": "function",
                "function": {
                    "name": name,
                    "arguments": arguments if isinstance(arguments, str) else json.dumps(arguments),
                },
            }
            for number, (name, arguments) in enumerate(calls)
        ]
    return completion(message, usage=usage, finish_reason=finish_reason, delay=delay)


def completion(
    message: Any,
    *,
    usage: tuple[int, int] | None = (1_000, 50),
    finish_reason: str = "stop",
    delay: float = 0.0,
) -> Reply:
    """An answer with this message as it is."""
    body: dict[str, Any] = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "scripted",
        "choices": [{"index": 0, "message": message, "finish_reason": finish_reason}],
    }
    if usage is not None:
        body["usage"] = {"prompt_tokens": usage[0], "completion_tokens": usage[1], "total_tokens": sum(usage)}
    return Reply(body=body, delay=delay)


def finish(summary: str, status: str = "completed", **claim: Any) -> Reply:
    """An answer that ends the task."""
    return tools(("structured_output", {"status": status, "summary": summary, **claim}))


def error(
    status: int, message: str = "no", *, code: str | None = None, headers: Mapping[str, str] | None = None
) -> Reply:
    """An error answer in the API's form."""
    return Reply(status, {"error": {"message": message, "type": "error", "code": code}}, headers or {})


class OpenAIServer:
    """The server; `script` is used up in order, one item a request. A context manager."""

    def __init__(self, script: Iterable[Step]) -> None:
        self._script = list(script)
        self._lock = threading.Lock()
        self._new = threading.Condition(self._lock)
        self.requests: list[Request] = []
        self.hung_up = 0  # connections that the client ended before the answer
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = 60

            def do_POST(self) -> None:
                owner._serve(self)

            def do_GET(self) -> None:
                owner._serve(self)

            def log_message(self, format: str, *args: Any) -> None:
                """Say nothing: requests are recorded."""

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - the base's names
                owner._hang_up()  # the client went away in the middle: what some tests are about

        self._server = Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
        )

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        """The base URL for the product's settings."""
        return f"http://127.0.0.1:{self.port}/v1"

    def __enter__(self) -> OpenAIServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    def wait_for(self, count: int, seconds: float = 10.0) -> list[Request]:
        """The first `count` requests, waiting for them. Raises TimeoutError."""
        with self._new:
            if not self._new.wait_for(lambda: len(self.requests) >= count, seconds):
                raise TimeoutError(f"{len(self.requests)} of {count} requests came")
            return self.requests[:count]

    def _serve(self, handler: BaseHTTPRequestHandler) -> None:
        length = min(int(handler.headers.get("Content-Length", "0")), MAX_BODY)
        raw = handler.rfile.read(length)
        try:
            body = json.loads(raw)
        except ValueError:
            body = None
        request = Request(
            handler.command, handler.path, tuple(handler.headers.items()), raw, body, time.monotonic()
        )
        with self._new:
            self.requests.append(request)
            self._new.notify_all()
            step = self._next()
        reply = step if isinstance(step, Reply) else step(request)
        if reply.delay:
            time.sleep(reply.delay)
        if reply.drop:
            handler.close_connection = True
            return
        data = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
        handler.send_response(reply.status)
        for name, value in {"Content-Type": "application/json", **reply.headers}.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)

    def _next(self) -> Step:
        if not self._script:
            return error(500, "the script is at its end", headers={"x-should-retry": "false"})
        if len(self._script) == 1 and not isinstance(self._script[0], Reply):
            return self._script[0]
        return self._script.pop(0)

    def _hang_up(self) -> None:
        with self._lock:
            self.hung_up += 1
