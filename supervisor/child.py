"""Shell of one long-lived child (a bridge): spawn, control link, frames, pings, restart (protocol/README "Child start").

Joins the pure parts: `lifecycle` says what to do at each event, `restart` when to start again, `Liveness` when to ping,
`Gate` which frames may come. Invariants: a frame reaches the owner only while the child is READY; after `on_lost` nothing
of that incarnation comes any more; a frame that breaks the protocol ends the child; every wait has a timer.

It knows nothing of tasks or workers. Logs role, pid and reason, never content.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ..protocol import limits as L
from ..protocol.codec import Decoder, encode
from ..protocol.control import ControlLink, ControlPair
from ..protocol.errors import ActorError, Backpressure, LinkError, PeerViolation, SpawnError
from ..protocol.frames import BridgeReady, Frame, ModelReady, Ping, Pong, SetupFailed, Shutdown
from ..protocol.links import Gate, Link, Phase, frame_types
from ..protocol.liveness import Liveness, PeerSilent, SendPing
from . import messages, spawn
from .lifecycle import Action, Event, Lifecycle, State
from .restart import GiveUp, RestartAt, RestartPolicy
from .tree import ChildSpec
from .watch import Watcher

log = logging.getLogger(__name__)

START: Final = 20.0  # seconds to be configured: imports take 0.3, a busy or cold machine some seconds
_CONTROL_FD: Final = 3  # in the child
_PINGS: Final = L.PING_MS / 1000


@dataclass(frozen=True, slots=True)
class ServiceHooks:
    """What the owner is told, from the loop. `failed` is final: the child is not started again."""

    ready: Callable[[Frame], None]
    frame: Callable[[Frame], None]
    lost: Callable[[], None]
    failed: Callable[[messages.Sentence], None]


class Service:
    """One bridge. `configure` makes its first frame; `incoming` names its table towards us."""

    def __init__(
        self,
        spec: ChildSpec,
        command: Sequence[str],
        log_path: Path,
        configure: Callable[[], Frame],
        incoming: Link,
        watcher: Watcher,
        hooks: ServiceHooks,
    ) -> None:
        self.spec = spec
        self._command = tuple(command)
        self._log_path = log_path
        self._configure = configure
        self._incoming = incoming
        self._watcher = watcher
        self._hooks = hooks
        self._loop = asyncio.get_running_loop()
        self._life = Lifecycle()
        self._policy = RestartPolicy(spec)
        self._decoder: Decoder[Any] = Decoder(frame_types(incoming), L.MAX_TO_SUPERVISOR)
        self._gate = Gate(incoming, Phase.GREETING)
        self._liveness = Liveness(_PINGS, L.PING_MISSES)
        self._link: ControlLink | None = None
        self._child: spawn.Spawned | None = None
        self._status: int | None = None
        self._problem: messages.Sentence | None = None
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._stopped: asyncio.Future[None] | None = None
        self._grace = spec.shutdown
        self.since = time.monotonic()
        self.reason = ""  # of the latest loss, a word for status

    # --- for the owner

    @property
    def state(self) -> State:
        return self._life.state

    @property
    def ready(self) -> bool:
        return self._life.state is State.READY

    @property
    def pid(self) -> int:
        return self._child.pid if self._child else 0

    @property
    def restarts(self) -> int:
        return self._policy.total

    def start(self) -> None:
        self._policy.reset()
        self._feed(Event.START)

    def send(self, frame: Frame, fds: Sequence[int] = ()) -> bool:
        """Send one frame; False if the child is not ready or its link has just ended (`lost` follows or was told)."""
        if self._life.state is not State.READY or self._link is None:
            return False
        return self._transmit(frame, fds)

    def punish(self, reason: str) -> None:
        """The owner has judged a frame of it, or it hangs: end this incarnation."""
        self._fall(Event.VIOLATION, reason)

    async def stop(self, grace: float) -> None:
        """End it for good: asked for `grace` seconds, then killed. Returns when it is reaped."""
        self._grace = min(grace, self.spec.shutdown)
        self._stopped = self._loop.create_future()
        self._feed(Event.STOP)
        await self._stopped

    # --- events

    def _feed(self, event: Event) -> None:
        before = self._life.state
        actions = self._life.handle(event)
        if self._life.state is not before:
            self.since = time.monotonic()
            log.debug("%s: %s: %s -> %s", self.spec.role, event.value, before.value, self._life.state.value)
        for action in actions:
            self._do(action)

    def _fall(self, event: Event, reason: str) -> None:
        if self._life.state in (State.STARTING, State.READY):
            self.reason = reason
            log.warning("%s (pid %d) is ended: %s", self.spec.role, self.pid, reason)
        self._feed(event)

    def _do(self, action: Action) -> None:
        match action:
            case Action.SPAWN:
                self._spawn()
            case Action.ANNOUNCE:
                self._cancel("start")
                self._act(self._liveness.start(time.monotonic()))
            case Action.LOST:
                self._cancel("start", "ping")
                self._liveness.stop(time.monotonic())
                self._drop_link()
                self._hooks.lost()
            case Action.KILL:
                if self._child is not None:
                    spawn.kill(self._child.pidfd)
            case Action.ASK_STOP:
                self._transmit(Shutdown(int(self._grace * 1000)), ())
                self._later("grace", self._grace, Event.GRACE_OVER)
            case Action.PLAN:
                self._plan()
            case Action.REPORT_STOPPED:
                self._cancel("start", "ping", "grace", "retry")
                self._drop_link()
                if self._stopped is not None and not self._stopped.done():
                    self._stopped.set_result(None)
            case Action.REPORT_FAILED:
                sentence = self._problem or messages.Sentence(
                    f"The {self.spec.role} ended again and again",
                    f"See {self._log_path.name} in the state folder's logs.",
                )
                log.error("%s: given up after %d restarts", self.spec.role, self._policy.total)
                self._hooks.failed(sentence)

    def _spawn(self) -> None:
        self._status, self._problem = None, None
        try:
            child, link = self._launch()
        except (OSError, ActorError) as error:
            self.reason = "spawn-failed"
            text = error.strerror if isinstance(error, OSError) else error
            log.error("%s can't be started: %s", self.spec.role, text)
            self._problem = messages.Sentence(
                f"The {self.spec.role} can't be started ({text})", "Run: supervisor doctor"
            )
            # From the loop, not from here: a stop must be able to get in between attempts.
            self._loop.call_soon(self._feed, Event.SPAWN_FAILED)
            return
        self._child, self._link = child, link
        self._gate = Gate(self._incoming, Phase.GREETING)
        self._watcher.watch(child.pidfd, self._exited)
        self._later("start", START, Event.LATE)
        self._transmit(self._configure(), ())

    def _launch(self) -> tuple[spawn.Spawned, ControlLink]:
        pair = ControlPair.make()
        output = -1
        try:
            output = spawn.open_log(self._log_path)
            child = spawn.spawn(
                self._command,
                environment=spawn.BASE_ENVIRONMENT,
                output=output,
                inherit={_CONTROL_FD: pair.child_fd},
            )
        except BaseException:
            pair.parent.close()
            raise
        finally:
            spawn.close(pair.child_fd)
            if output >= 0:
                spawn.close(output)
        try:
            spawn.cap_memory(child.pid, self.spec.memory)
        except SpawnError:
            spawn.kill(child.pidfd)
            self._watcher.reap(child.pidfd)
            pair.parent.close()
            raise
        link = ControlLink(
            pair.parent,
            max_send=L.MAX_FROM_SUPERVISOR,
            max_receive=L.MAX_TO_SUPERVISOR,
            on_message=self._received,
            on_eof=self._link_ended,
            accept_fds=False,  # nothing may be handed up to the supervisor
        )
        return child, link

    def _transmit(self, frame: Frame, fds: Sequence[int]) -> bool:
        if self._link is None:
            return False
        data = encode(frame, L.MAX_FROM_SUPERVISOR)
        try:
            self._link.send(data, fds)
        except Backpressure:
            self._loop.call_soon(self._fall, Event.SILENT, "it does not read its control link")
            return False
        except LinkError:
            return False
        return True

    def _received(self, data: bytes, fds: list[int]) -> None:
        assert not fds
        try:
            frame = self._decoder.decode(data)
            self._gate.admit(frame)
            self._dispatch(frame)
        except PeerViolation as error:
            self._fall(Event.VIOLATION, error.message)

    def _dispatch(self, frame: Frame) -> None:
        if isinstance(frame, Pong):
            for effect in self._liveness.pong(frame.nonce, time.monotonic()):
                raise PeerViolation(f"it sent a pong that answers nothing ({type(effect).__name__})")
        elif isinstance(frame, SetupFailed):
            self._problem = messages.SETUPS[frame.problem]
            self.reason = frame.problem.value
            log.error(
                "%s can't use its settings: %s %s", self.spec.role, frame.problem.value, frame.errno_name
            )
            self._feed(Event.SETUP_FAILED)
        elif isinstance(frame, BridgeReady | ModelReady):
            self._gate.enter(Phase.OPEN)
            self.reason = ""
            self._feed(Event.READY)
            self._hooks.ready(frame)
        else:
            self._hooks.frame(frame)

    def _link_ended(self) -> None:
        fault = self._link.fault if self._link is not None else None
        self._link = None
        if fault is not None:
            self._fall(Event.VIOLATION, fault.message)
        else:
            self._fall(Event.LINK_LOST, "its control link ended")

    def _exited(self, status: int) -> None:
        child, self._child = self._child, None
        self._status = status
        if self._life.state in (State.STARTING, State.READY):
            self.reason = f"exit {status}"
        log.info("%s (pid %d) ended with %d", self.spec.role, child.pid if child else 0, status)
        if child is not None:
            self._watcher.reap(child.pidfd)
        self._feed(Event.EXITED)

    def _plan(self) -> None:
        for effect in self._policy.ended(time.monotonic(), self._status):
            if isinstance(effect, RestartAt):
                self._later("retry", max(effect.due - time.monotonic(), 0.0), Event.RETRY)
            elif isinstance(effect, GiveUp):
                self._feed(Event.EXHAUSTED)

    # --- liveness and timers

    def _act(self, effects: Sequence[object]) -> None:
        for effect in effects:
            if isinstance(effect, SendPing):
                self._transmit(Ping(effect.sequence), ())
            elif isinstance(effect, PeerSilent):
                self._fall(Event.SILENT, f"it left {effect.missed} pings unanswered")
        due = self._liveness.next_due()
        self._cancel("ping")
        if due is not None:
            delay = max(due - time.monotonic(), 0.0)
            self._timers["ping"] = self._loop.call_later(delay, self._tick)

    def _tick(self) -> None:
        self._act(self._liveness.tick(time.monotonic()))

    def _later(self, name: str, delay: float, event: Event) -> None:
        self._cancel(name)
        self._timers[name] = self._loop.call_later(delay, self._timed, event)

    def _timed(self, event: Event) -> None:
        if event is Event.LATE:
            self._fall(event, "it was not ready in time")
        else:
            self._feed(event)

    def _cancel(self, *names: str) -> None:
        for name in names:
            timer = self._timers.pop(name, None)
            if timer is not None:
                timer.cancel()

    def _drop_link(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            link.close()
