"""Two ROUTERs that play bridge and model bridge towards one real, sealed worker process.

Real sockets, real seal, real codec; only what answers is scripted. Used by the tests of the worker's shell and by its
benchmark. The scripts get decoded frames and return the frames to answer with.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType

from browsercell.protocol import limits as L
from browsercell.protocol.codec import Decoder, encode
from browsercell.protocol.frames import (
    Assigned,
    Assignment,
    Credit,
    Finish,
    Finished,
    Frame,
    Hello,
    Infer,
    Ping,
    Pong,
    Sealed,
    ToolCall,
    ToolResult,
    Welcome,
)
from browsercell.protocol.links import Link, frame_types
from browsercell.protocol.transport import LinkEvent, Links, Peer, ServerLink

WORKER_UID = 60_123  # outside every range that a system gives to people or services
MEMORY = 256 * L.MIB
CPU_SECONDS = 60
WAIT_S = 40.0  # an overloaded machine starts a worker in many seconds, an idle one in a fifth of one

Script = Callable[[Frame], Sequence[Frame]]


def nothing(_frame: Frame) -> Sequence[Frame]:
    """A script that answers nothing."""
    return ()


class FakeBridges:
    """Both bridges of one worker. `page` and `model` are the scripts of the assigned phase.

    `same_uid`: the worker keeps our uid although we are root (it runs inside this process). `bind_model`: or somebody else listens there. `heard` holds every frame in order of arrival; `events` the links' events.
    """

    def __init__(
        self,
        page: Script = nothing,
        model: Script = nothing,
        *,
        same_uid: bool = False,
        bind_model: bool = True,
    ) -> None:
        self.uid = -1 if same_uid or os.geteuid() != 0 else WORKER_UID
        self._bind_model = bind_model
        self.page_script = page
        self.model_script = model
        self.heard: list[Frame] = []
        self.events: list[LinkEvent] = []
        self.raw_answers: dict[type, bytes] = {}  # instead of the script: bytes as they are
        self.welcome_version = L.WIRE_VERSION
        self.process: subprocess.Popen[bytes] | None = None
        self._new = asyncio.Event()
        self._ids: dict[str, bytes] = {}

    async def __aenter__(self) -> FakeBridges:
        self.place = Path(tempfile.mkdtemp(prefix="bcw-"))
        self.place.chmod(0o711)
        self.folder = self.place / "w"
        self.folder.mkdir(mode=0o700)
        if self.uid != -1:
            os.chown(self.folder, self.uid, self.uid)
        self.links = Links()
        self.page = self._serve("page", L.MAX_WORKER_TO_BRIDGE, L.MAX_BRIDGE_TO_WORKER, Link.WORKER_TO_BRIDGE)
        if self._bind_model:
            self.model = self._serve(
                "model", L.MAX_WORKER_TO_MODEL, L.MAX_MODEL_TO_WORKER, Link.WORKER_TO_MODEL
            )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            if self.process.stderr is not None:
                self.process.stderr.close()
        self.links.close()
        shutil.rmtree(self.place)

    def _serve(self, name: str, bound: int, send: int, link: Link) -> ServerLink:
        decoder: Decoder[Frame] = Decoder(frame_types(link), bound)

        def on_message(peer: Peer, data: bytes) -> None:
            frame = decoder.decode(data)
            self._ids[name] = peer.routing_id
            self.heard.append(frame)
            self._new.set()
            if isinstance(frame, Hello):
                self.send(name, Welcome(version=self.welcome_version))
                return
            if type(frame) in self.raw_answers:
                self.send_raw(name, self.raw_answers[type(frame)])
                return
            if isinstance(frame, ToolCall | Infer | Finish):
                self.send(name, Credit(bytes=len(data)))
            script = self.page_script if name == "page" else self.model_script
            for answer in script(frame):
                self.send(name, answer)

        return self.links.serve(
            str(self.folder / name),
            on_message,
            self.events.append,
            expect_pid=None,
            expect_uid=None if self.uid == -1 else self.uid,
            max_message=bound,
            max_send=send,
            owner_uid=None if self.uid == -1 else self.uid,
        )

    def command(self) -> list[str]:
        """What starts the worker; `spawn` adds the options."""
        return [sys.executable, "-I", "-B", "-m", "browsercell.worker"]

    def options(self) -> list[str]:
        """The worker's options, as the supervisor gives them."""
        return [
            *("--folder", str(self.folder), "--parent", str(os.getpid()), "--uid", str(self.uid)),
            *("--memory", str(MEMORY), "--cpu", str(CPU_SECONDS)),
        ]

    def spawn(self, command: Sequence[str] | None = None, *, pipe: bool = False) -> subprocess.Popen[bytes]:
        """Start the worker with the fixed environment; its stderr goes to `log`, or into a pipe.

        Once the limits are set, a worker can't make a file grow any more; a pipe still takes what it writes.
        """
        self.log = self.place / "log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*(command or self.command()), *self.options()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.PIPE if pipe else log,
                env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "MALLOC_ARENA_MAX": "2"},
            )
        return self.process

    def send(self, name: str, frame: Frame) -> None:
        """Send one frame to the worker on link `name` (page, model)."""
        self.send_raw(name, encode(frame, L.MAX_BRIDGE_TO_WORKER))

    def send_raw(self, name: str, data: bytes) -> None:
        """Send bytes as they are."""
        (self.page if name == "page" else self.model).send(self._ids[name], data)

    def assign(self, assignment: Assignment) -> None:
        """Give the worker its work."""
        self.send("page", Assigned(assignment=assignment))

    async def until(self, kind: type[Frame], count: int = 1) -> Frame:
        """Wait for the `count`th frame of this kind."""
        deadline = asyncio.get_running_loop().time() + WAIT_S
        while len(found := [frame for frame in self.heard if isinstance(frame, kind)]) < count:
            self._new.clear()
            left = deadline - asyncio.get_running_loop().time()
            try:
                await asyncio.wait_for(self._new.wait(), max(left, 0.001))
            except TimeoutError:
                heard = [type(frame).__name__ for frame in self.heard]
                status = None if self.process is None else self.process.poll()
                raise AssertionError(f"no {kind.__name__} {count}; heard {heard}, status {status}") from None
        return found[count - 1]

    async def sealed(self) -> Sealed:
        """Start the worker and wait until it says that it is sealed."""
        self.spawn()
        frame = await self.until(Sealed)
        assert isinstance(frame, Sealed)
        return frame

    async def status(self) -> int:
        """Wait for the worker's end."""
        assert self.process is not None
        return await asyncio.to_thread(self.process.wait, WAIT_S)

    def ping(self, name: str, nonce: int) -> None:
        self.send(name, Ping(nonce=nonce))

    def pongs(self) -> list[int]:
        return [frame.nonce for frame in self.heard if isinstance(frame, Pong)]


def finishing(results: Callable[[ToolCall], ToolResult]) -> Script:
    """A page script: a result for each call, `Finished` for the claim."""

    def script(frame: Frame) -> Sequence[Frame]:
        if isinstance(frame, ToolCall):
            return [results(frame)]
        if isinstance(frame, Finish):
            return [Finished()]
        return []

    return script
