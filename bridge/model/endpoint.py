"""The model endpoint through the `openai` SDK: one request, one `Completion` or one `Failure`.

The SDK brings authentication, paths and error types; its own retries, redirects, proxies, environment and logging are
switched off: retries are the machine's (`machine.py`), and page data goes to the configured URL or nowhere.

Invariants: the key is in the Authorization header of a request and in this object, nowhere else; nothing is logged; an
answer over `MAX_ANSWER_BYTES` is dropped unread; `ask` raises nothing but CancelledError. After a refused key the key
file is read once more: a rotated key goes on without a restart. The SDK is imported on first use, in a thread: a
model bridge that only serves playbooks never pays its second and its 40 MB.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Final

from ...protocol import limits as L
from ...protocol.frames import ModelProblem
from ...protocol.settings import ModelSettings
from .judge import Completion, Message
from .key import read_key
from .wire import TOOLS, Failure, Shape, body, classify, estimate, read_answer

MAX_ANSWER_BYTES: Final = 4 * L.MIB  # the answer to 128K tokens of output limit, as JSON, several times over
CONNECT_S: Final = 10.0  # a host that does not complete a handshake by then is unreachable
_RAW: Final = "x-stainless-raw-response"  # the SDK finds its own "unparsed, please" again in the sent request
_NO_KEY: Final = "none"  # the SDK insists on one; the header is taken off again
_SDK_LOGGERS: Final = ("openai", "httpx", "httpx2", "httpcore", "httpcore2")


class Endpoint:
    """One configured endpoint. `settings.model` and `base_url` are set and judged (`config.problem_of`)."""

    def __init__(self, settings: ModelSettings, key: str) -> None:
        self._settings = settings
        self._key = key
        self._shape = Shape()
        self._client: Any = None
        self._loading: asyncio.Task[Any] | None = None

    def preload(self) -> None:
        """Begin to import the SDK now, so that the first inference need not wait for it."""
        if self._loading is None:
            self._loading = asyncio.create_task(asyncio.to_thread(_import_sdk))

    async def ask(
        self, request_id: str, messages: Sequence[Message], tools: Sequence[Message] = TOOLS
    ) -> Completion | Failure:
        """One request (two more at most, each with a parameter fewer, where the server refuses one; and one with a
        new key). Takes `timeout_seconds` for each at most."""
        sdk, client = await self._ready()
        rekeyed = False
        while True:
            outcome = await self._request(sdk, client, request_id, messages, tools)
            if isinstance(outcome, Shape):
                self._shape = outcome
                continue
            refused = isinstance(outcome, Failure) and outcome.problem is ModelProblem.REFUSED_KEY
            if not refused or rekeyed or not self._reread_key():
                return outcome
            rekeyed = True
            client.api_key = self._key

    async def close(self) -> None:
        """End the connections."""
        if self._client is not None:
            await self._client.close()

    async def _ready(self) -> tuple[Any, Any]:
        self.preload()
        assert self._loading is not None
        sdk = await asyncio.shield(self._loading)  # a cancelled task does not take the others' import with it
        if self._client is None:
            self._client = _client(sdk, self._settings, self._key)
        return sdk, self._client

    async def _request(
        self, sdk: Any, client: Any, request_id: str, messages: Sequence[Message], tools: Sequence[Message]
    ) -> Completion | Failure | Shape:
        """The outcome, or the shape of the request that the server wants instead."""
        request = body(
            messages,
            model=self._settings.model,
            max_output_tokens=self._settings.max_output_tokens,
            shape=self._shape,
            tools=tools,
        )
        headers = {"Idempotency-Key": request_id, "X-Client-Request-Id": request_id}
        try:
            async with asyncio.timeout(self._settings.timeout_seconds):
                raw = await client.chat.completions.with_raw_response.create(**request, extra_headers=headers)
                return read_answer(raw.http_response.content, estimate(messages))
        except (TimeoutError, sdk.APITimeoutError):
            return Failure(ModelProblem.TIMEOUT, retryable=True)
        except sdk.APIStatusError as error:
            return self._refused(error.status_code, error.response)
        except sdk.APIConnectionError as error:
            # Some versions of the SDK wrap whatever was raised while reading.
            too_long = isinstance(error.__cause__, _TooLong)
            return Failure(ModelProblem.BAD_ANSWER if too_long else ModelProblem.UNREACHABLE, retryable=True)
        except (_TooLong, sdk.OpenAIError, UnicodeError, ValueError):
            # The SDK's other errors are of answers it can't make sense of; none of their text may leave this process.
            return Failure(ModelProblem.BAD_ANSWER, retryable=True)

    def _refused(self, status: int, response: Any) -> Failure | Shape:
        text: str = response.text
        failure = classify(status, text, {name.lower(): value for name, value in response.headers.items()})
        if failure.problem is ModelProblem.REQUEST_REFUSED:
            shape = self._shape.adapt(text)
            if shape is not None:
                return shape
        return failure

    def _reread_key(self) -> bool:
        """Whether the key file now holds another key."""
        key = read_key(self._settings.api_key_file)
        if isinstance(key, ModelProblem) or key == self._key:
            return False
        self._key = key
        return True


class _TooLong(Exception):
    """An answer over MAX_ANSWER_BYTES."""


def _import_sdk() -> Any:
    """The SDK, silenced. OPENAI_* variables would be read by it: base URL, organisation, log level, key."""
    for name in [name for name in os.environ if name.startswith("OPENAI_")]:
        del os.environ[name]
    sdk = importlib.import_module("openai")
    for name in _SDK_LOGGERS:
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = False
        logger.setLevel(logging.CRITICAL + 1)
    return sdk


def _client(sdk: Any, settings: ModelSettings, key: str) -> Any:
    http = sdk.DefaultAsyncHttpxClient(
        trust_env=False,  # no proxy and no certificate folder from the environment
        follow_redirects=False,  # page data goes where it was configured to go
        event_hooks={"request": [_strip if key else _strip_all], "response": [_bound(sdk)]},
        timeout=sdk.Timeout(settings.timeout_seconds, connect=min(CONNECT_S, settings.timeout_seconds)),
    )
    return sdk.AsyncOpenAI(
        api_key=key or _NO_KEY,
        base_url=settings.base_url,
        organization=None,
        project=None,
        max_retries=0,
        http_client=http,
    )


async def _strip(request: Any) -> None:
    """Nothing about this machine, and no compression: a small answer could unpack into a large one."""
    for name in [name for name in request.headers if name.lower().startswith("x-stainless-")]:
        if name.lower() != _RAW:
            del request.headers[name]
    request.headers["Accept-Encoding"] = "identity"


async def _strip_all(request: Any) -> None:
    """The same, and no authorization: this endpoint needs none."""
    await _strip(request)
    request.headers.pop("Authorization", None)


def _bound(sdk: Any) -> Callable[[Any], Any]:
    """A response hook that puts a bound on the body before it is read."""
    # The SDK's HTTP library is httpx or its successor; its stream type is found where its client lives.
    library = importlib.import_module(sdk.DefaultAsyncHttpxClient.__mro__[1].__module__.partition(".")[0])

    class Bounded(library.AsyncByteStream):  # type: ignore[name-defined, misc]
        def __init__(self, inner: Any) -> None:
            self._inner = inner

        async def __aiter__(self) -> AsyncIterator[bytes]:
            left = MAX_ANSWER_BYTES
            async for chunk in self._inner:
                left -= len(chunk)
                if left < 0:
                    raise _TooLong
                yield chunk

        async def aclose(self) -> None:
            await self._inner.aclose()

    async def bound(response: Any) -> None:
        response.stream = Bounded(response.stream)

    return bound
