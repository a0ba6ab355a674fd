"""The model bridge as a real process, with the test as its supervisor, and workers that are sockets of the test.

Real control link, real ZeroMQ links, real codec; the endpoint is `tests.support.openai_server`. Workers say what a test
tells them to, well-behaved or not; their pid is this process's.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from types import TracebackType
from typing import Any

from browsercell.bridge.model.app import ModelBridge
from browsercell.protocol import limits as L
from browsercell.protocol.codec import Decoder, encode
from browsercell.protocol.control import ControlLink, ControlPair
from browsercell.protocol.frames import (
    AssignModel,
    ChatMessage,
    ChatRole,
    ConfigureModel,
    Credit,
    ForgetWorker,
    Frame,
    Hello,
    Infer,
    ModelAssigned,
    ModelReady,
    Ping,
    Pong,
    PrepareWorker,
    WorkerGreeted,
    WorkerPrepared,
    WorkerSpawned,
)
from browsercell.protocol.links import Link, frame_types
from browsercell.protocol.settings import ModelSettings
from browsercell.protocol.transport import ClientLink, LinkEvent, Links, Peer

from tests.support.openai_server import OpenAIServer

WAIT_S = 40.0  # an overloaded machine imports the SDK in many seconds, an idle one in one
KEY = "sk-test-5up3rs3cr3t-key"  # made up; tests look for it where it must not be


def surface(*texts: str) -> tuple[ChatMessage, ...]:
    """A small surface: system text, then each text as a user's."""
    return (ChatMessage(ChatRole.SYSTEM, "system"), *(ChatMessage(ChatRole.USER, text) for text in texts))


def run(test: Coroutine[Any, Any, None]) -> None:
    """Run one test's body."""
    asyncio.run(test)


def settings(server: OpenAIServer, **changes: Any) -> ModelSettings:
    """Settings for that endpoint; `changes` are fields of `ModelSettings`."""
    return ModelSettings(**{"base_url": server.url, "model": "scripted", "timeout_seconds": 10.0, **changes})


class Inbox:
    """Frames in order of arrival, and waiting for them."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self._new = asyncio.Event()

    def put(self, frame: Frame) -> None:
        self.frames.append(frame)
        self._new.set()

    async def until(self, kind: type[Frame], count: int = 1) -> Frame:
        """The `count`th frame of this kind."""
        deadline = asyncio.get_running_loop().time() + WAIT_S
        while len(found := [frame for frame in self.frames if isinstance(frame, kind)]) < count:
            self._new.clear()
            left = deadline - asyncio.get_running_loop().time()
            try:
                await asyncio.wait_for(self._new.wait(), max(left, 0.001))
            except TimeoutError:
                heard = [type(frame).__name__ for frame in self.frames]
                raise AssertionError(f"no {kind.__name__} number {count}; heard {heard}") from None
        return found[count - 1]


class FakeWorker(Inbox):
    """One worker's MODEL link. Answers pings unless `mute`."""

    def __init__(self, rig: Rig, name: str) -> None:
        super().__init__()
        self.rig = rig
        self.name = name
        self.mute = False
        self.events: list[LinkEvent] = []
        self._decoder: Decoder[Frame] = Decoder(frame_types(Link.MODEL_TO_WORKER), L.MAX_MODEL_TO_WORKER)
        self.link: ClientLink = self.connect()

    def connect(self) -> ClientLink:
        return self.rig.links.connect(
            str(self.rig.place / self.name / "model"),
            self._on_message,
            self.events.append,
            max_message=L.MAX_MODEL_TO_WORKER,
            max_send=4 * L.MIB,
        )

    def _on_message(self, _peer: Peer, data: bytes) -> None:
        frame = self._decoder.decode(data)
        self.put(frame)
        if isinstance(frame, Ping) and not self.mute:
            self.send(Pong(nonce=frame.nonce))

    def send(self, frame: Frame) -> None:
        self.send_raw(encode(frame, 4 * L.MIB))

    def send_raw(self, data: bytes) -> None:
        self.link.send(data)

    def infer(self, call: int, *texts: str) -> None:
        self.send(Infer(call=call, messages=surface(*texts)))

    def credit(self) -> int:
        """Bytes granted back so far."""
        return sum(frame.bytes for frame in self.frames if isinstance(frame, Credit))


class Rig(Inbox):
    """The model bridge under test: a task of this loop, or a process of its own as the supervisor starts it.

    `settings`: as the supervisor would send them; the key file is made here.
    """

    def __init__(
        self,
        settings: ModelSettings,
        key: str | None = KEY,
        *,
        own_process: bool = False,
        key_mode: int = 0o600,
    ) -> None:
        super().__init__()
        self._key_mode = key_mode
        self._own_process = own_process
        self._settings = settings
        self._key = key
        self.eof = asyncio.Event()

    async def __aenter__(self) -> Rig:
        self.place = Path(tempfile.mkdtemp(prefix="bcm-"))
        settings = self._settings
        self.key_file = self.place / "key"
        if self._key is not None:
            self.key_file.touch(0o600)
            self.key_file.write_text(self._key + "\n")
            self.key_file.chmod(self._key_mode)
            fields = {name: getattr(settings, name) for name in settings.__struct_fields__}
            settings = ModelSettings(**{**fields, "api_key_file": str(self.key_file)})
        self.links = Links()
        self.log = self.place / "log"
        pair = ControlPair.make()
        self.process = self._spawn(pair.child_fd) if self._own_process else None
        self.inside: asyncio.Task[int] | None = None
        if self.process is None:
            self.inside = asyncio.create_task(ModelBridge(pair.child_fd).run())
        else:
            os.close(pair.child_fd)
        decoder: Decoder[Frame] = Decoder(frame_types(Link.MODEL_TO_SUPERVISOR), L.MAX_TO_SUPERVISOR)
        self.control = ControlLink(
            pair.parent,
            max_send=L.MAX_FROM_SUPERVISOR,
            max_receive=L.MAX_TO_SUPERVISOR,
            on_message=lambda data, _fds: self.put(decoder.decode(data)),
            on_eof=self.eof.set,
            accept_fds=False,
        )
        self.tell(ConfigureModel(settings=settings))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.control.close()
        self.links.close()
        if self.inside is not None:
            await asyncio.wait_for(self.inside, WAIT_S)
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            if kind is not None:
                print(self.log.read_text())  # pytest shows it with the failure
        shutil.rmtree(self.place)

    def _spawn(self, control_fd: int) -> subprocess.Popen[bytes]:
        with self.log.open("wb") as log:
            return subprocess.Popen(
                [
                    sys.executable,
                    "-I",
                    "-B",
                    "-m",
                    "browsercell.bridge.model",
                    "--control-fd",
                    str(control_fd),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[control_fd],
                env={
                    "PATH": "/usr/bin:/bin",
                    "LANG": "C.UTF-8",
                    # None of these may have an effect.
                    "HTTP_PROXY": "http://127.0.0.1:9",
                    "ALL_PROXY": "http://127.0.0.1:9",
                    "OPENAI_BASE_URL": "http://127.0.0.1:9",
                    "OPENAI_ORG_ID": "org-from-environment",
                    "OPENAI_LOG": "debug",
                },
            )

    def tell(self, frame: Frame) -> None:
        """Send a frame as the supervisor."""
        self.control.send(encode(frame, L.MAX_FROM_SUPERVISOR))

    async def ready(self) -> ModelReady:
        frame = await self.until(ModelReady)
        assert isinstance(frame, ModelReady)
        return frame

    async def connected(self, name: str = "worker-aaaa", pid: int | None = None) -> FakeWorker:
        """A worker that has connected and said nothing yet. `pid`: what the supervisor announces."""
        folder = self.place / name
        folder.mkdir(0o700)
        prepared = sum(isinstance(frame, WorkerPrepared) for frame in self.frames)
        self.tell(PrepareWorker(worker=name, folder=str(folder), uid=os.geteuid()))
        await self.until(WorkerPrepared, prepared + 1)
        self.tell(WorkerSpawned(worker=name, pid=pid or os.getpid()))
        worker = FakeWorker(self, name)
        await worker.link.wait_ready(WAIT_S)
        return worker

    async def spare(self, name: str = "worker-aaaa") -> FakeWorker:
        """A worker that has greeted."""
        worker = await self.connected(name)
        greeted = sum(isinstance(frame, WorkerGreeted) for frame in self.frames)
        worker.send(Hello(version=L.WIRE_VERSION))
        await self.until(WorkerGreeted, greeted + 1)
        return worker

    async def assigned(self, name: str = "worker-aaaa", steps: int = 8) -> FakeWorker:
        """A worker that may ask."""
        worker = await self.spare(name)
        before = sum(isinstance(frame, ModelAssigned) for frame in self.frames)
        task = "task-" + name.removeprefix("worker-")
        self.tell(AssignModel(worker=name, task=task, generation=1, steps=steps))
        await self.until(ModelAssigned, before + 1)
        return worker

    def forget(self, worker: FakeWorker) -> None:
        self.tell(ForgetWorker(worker=worker.name))

    async def status(self) -> int:
        """Wait for the end of the model bridge."""
        if self.inside is not None:
            return await asyncio.wait_for(asyncio.shield(self.inside), WAIT_S)
        assert self.process is not None
        return await asyncio.to_thread(self.process.wait, WAIT_S)
