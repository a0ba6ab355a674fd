"""Stand-ins for both bridges: speak the control protocol, know no browser and no model, do what the goal says.

    fake_bridge.py bridge|model [--scenario S] --control-fd 3

A bridge's `--scenario` is `ok`, `bad-state`, `exit`, `liar` (reports unsealed workers as
sealed), `mute` (reports none), or `stubborn` (does not stop when asked).
A task's goal names how it shall end: `finish`, `late`, `guard:<reason>`, `fault:<kind>`, `crash`, `sigsys`, `die`, `hang`,
`flood`, `stop`, `violate`, `foreign`, `oversize`. A start URL whose path is `/refuse`, `/never` or `/private` says how opening goes. The model's
`--scenario` is `ok`, `fault:<code>`, `die`, or `never`. Workers are `fake_worker.py`; they are steered by signals.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import sys
from typing import Any
from urllib.parse import urlsplit

import msgspec
from browsercell.protocol import frames as f
from browsercell.protocol import limits as L
from browsercell.protocol.codec import Decoder, encode
from browsercell.protocol.control import ControlLink, adopt
from browsercell.protocol.errors import BlockerCode
from browsercell.protocol.links import Link, frame_types
from browsercell.protocol.results import (
    ArtifactKind,
    BrowserDelegateResult,
    ResolvedArtifact,
    SideEffects,
    Status,
)

CONTENT = b"name,price\ntea,3\n"
ARTIFACT = ResolvedArtifact(
    "a_aaaaaaaaaaaaaaaaaaaaaaaaaa".replace("_", "-"),
    "prices",
    ArtifactKind.TABLE,
    len(CONTENT),
    hashlib.sha256(CONTENT).hexdigest(),
    "text/csv",
)


class Fake:
    def __init__(self, scenario: str, incoming: Link) -> None:
        self.scenario = scenario
        self.decoder: Decoder[Any] = Decoder(frame_types(incoming), L.MAX_FROM_SUPERVISOR)
        self.done = asyncio.get_running_loop().create_future()
        self.pids: dict[str, int] = {}
        self.goals: dict[str, str] = {}
        self.link = ControlLink(
            adopt(3),
            max_send=L.MAX_TO_SUPERVISOR,
            max_receive=L.MAX_FROM_SUPERVISOR,
            on_message=self.receive,
            on_eof=lambda: self.done.set_result(None),
            accept_fds=True,
        )

    def send(self, frame: f.Frame) -> None:
        self.link.send(encode(frame, L.MAX_TO_SUPERVISOR))

    def receive(self, data: bytes, fds: list[int]) -> None:
        self.handle(self.decoder.decode(data), fds)

    def signal(self, worker: str, number: int) -> None:
        os.kill(self.pids[worker], number)

    def handle(self, frame: Any, fds: list[int]) -> None:
        match frame:
            case f.Ping(nonce=nonce):
                self.send(f.Pong(nonce))
            case f.PrepareWorker(worker=worker):
                self.send(f.WorkerPrepared(worker))
            case f.WorkerSpawned(worker=worker, pid=pid):
                self.pids[worker] = pid
                self.spawned(worker)
            case f.ForgetWorker(worker=worker):
                self.forget(worker)
                self.pids.pop(worker, None)
                self.send(f.WorkerForgotten(worker))
            case f.Shutdown():
                if self.scenario != "stubborn":
                    self.done.set_result(None)
            case _:
                self.special(frame, fds)

    def spawned(self, worker: str) -> None: ...

    def forget(self, worker: str) -> None: ...

    def special(self, frame: Any, fds: list[int]) -> None: ...


class Model(Fake):
    def spawned(self, worker: str) -> None:
        self.send(f.WorkerGreeted(worker))

    def special(self, frame: Any, fds: list[int]) -> None:
        assert not fds
        if isinstance(frame, f.ConfigureModel):
            self.send(f.ModelReady())
            return
        assert isinstance(frame, f.AssignModel)
        if self.scenario == "never":
            return
        if self.scenario == "die":
            os._exit(7)
        self.send(f.ModelAssigned(frame.worker))
        self.send(f.ModelProgress(frame.task, frame.generation, 1, 120, 120))
        if self.scenario.startswith("fault:"):
            self.send(f.ModelFault(frame.task, frame.generation, BlockerCode(self.scenario[6:])))


class Bridge(Fake):
    def spawned(self, worker: str) -> None:
        if self.scenario == "mute":
            return
        liar = self.scenario == "liar"
        level = f.SandboxLevel.FILTERED if liar else f.SandboxLevel.UNSANDBOXED
        layer = f.SealLayer(f.SealLayerName.SECCOMP, liar, "" if liar else "ENOSYS")
        self.send(f.WorkerSealed(worker, f.SealReport(level, (layer,))))

    def forget(self, worker: str) -> None:
        task = next((name for name, goal in self.goals.items() if goal == f"late:{worker}"), None)
        if task is not None:
            self.finish(task)

    def finish(self, task: str, **changes: Any) -> None:
        result = BrowserDelegateResult(
            task_id=task, status=Status.COMPLETED, execution_status=Status.COMPLETED, summary="Done", untrusted=True,
            artifacts=(ARTIFACT,),
        )  # fmt: skip
        self.send(f.TaskFinished(task, 1, msgspec.structs.replace(result, **changes)))

    def special(self, frame: Any, fds: list[int]) -> None:
        match frame:
            case f.ConfigureBridge():
                if self.scenario == "bad-state":
                    self.send(f.SetupFailed(f.StateProblem.STATE_FOLDER, "EACCES"))
                elif self.scenario == "exit":
                    os._exit(5)
                else:
                    self.send(f.BridgeReady(17321))
                    self.send(f.ExtensionState((f.ExtensionInfo("a" * 32, "1.0", False, 0),)))
            case f.OpenTask(task=task, url=url):
                path = urlsplit(url or "").path
                if path == "/refuse":
                    self.send(f.TaskRefused(task, BlockerCode.POLICY_DENIED))
                elif path == "/private":
                    self.send(f.BrowserWanted(task))
                elif path != "/never":
                    self.send(f.TaskOpened(task))
            case f.BrowserSpawned(task=task):
                assert len(fds) == 2
                for fd in fds:
                    os.close(fd)
                self.send(f.TaskOpened(task))
            case f.BrowserExited():
                pass
            case f.Assign(worker=worker, assignment=assignment):
                self.run(worker, assignment.task, assignment.goal)
            case f.CloseTask(task=task):
                effects = SideEffects.POSSIBLE if self.goals.pop(task, "") else SideEffects.NONE
                self.send(f.TaskClosed(task, effects, 0, 1, ()))
            case f.Deliver(delivery=delivery):
                os.write(fds[0], CONTENT)
                os.close(fds[0])
                self.send(f.Delivered(delivery, len(CONTENT), ARTIFACT.sha256))

    def run(self, worker: str, task: str, goal: str) -> None:
        self.goals[task] = goal
        self.send(f.TaskProgress(task, 1, 1, f.LedgerEntry("browser_page_observe", True)))
        kind, _, detail = goal.partition(":")
        match kind:
            case "finish":
                self.finish(task)
                self.signal(worker, signal.SIGUSR1)
            case "late":
                self.goals[task] = f"late:{worker}"
                self.signal(worker, signal.SIGUSR1)
            case "guard":
                self.send(f.TaskGuard(task, 1, f.EndReason(detail)))
            case "fault":
                self.send(f.WorkerFault(worker, f.WorkerFaultKind(detail)))
            case "crash":
                self.signal(worker, signal.SIGKILL)
            case "sigsys":
                self.signal(worker, signal.SIGSYS)
            case "flood":
                self.hoard = b"x" * (140 << 20)  # what a flooding worker makes a ZeroMQ reader hold
                self.signal(worker, signal.SIGUSR2)
            case "die":
                os._exit(9)
            case "stop":
                os.kill(os.getpid(), signal.SIGSTOP)
            case "violate":
                self.link.send(b"\x01garbage")
            case "foreign":
                self.finish(task, task_id="t-bbbbbbbbbbbbbbbbbbbbbbbbbb")
            case "oversize":
                self.finish(task, completed_actions=tuple("x" * 190 for _ in range(90)))


async def main(arguments: list[str]) -> None:
    role = arguments[0]
    scenario = arguments[arguments.index("--scenario") + 1] if "--scenario" in arguments else "ok"
    kind = Bridge if role == "bridge" else Model
    link = Link.SUPERVISOR_TO_BRIDGE if role == "bridge" else Link.SUPERVISOR_TO_MODEL
    await kind(scenario, link).done


if __name__ == "__main__":
    import ctypes

    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)
    asyncio.run(main(sys.argv[1:]))
