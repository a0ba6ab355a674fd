"""The worker's shell: it seals itself, then carries bytes between two links and the machine in `loop`.

Order (design 6, facts of the seal): arm the death signal; import and use everything; fences; connect and greet both
bridges; allow-list; then wait for work. From the fences on nothing is opened by name, from the allow-list on nothing
can be.

Invariants: every wait has a deadline, given by the machine; the process ends by `os._exit` with a status of
`loop.Exit` and nothing else; after the seal nothing is written anywhere, before it at most one line without content.
What it does not do: decide anything.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import time
from collections.abc import Callable
from typing import Final, NamedTuple, NoReturn

from ..protocol import limits as L
from ..protocol.errors import PeerUnreachable, PeerViolation, SandboxError
from ..protocol.transport_blocking import BlockingLink, BlockingLinks, poll_all
from . import seal
from .loop import Effect, End, Exit, Loop, Seal, Side, Transmit

_CONNECT_MS: Final = 5_000  # the bridges have bound before this process was started
_SEND_MS: Final = 5_000  # credit bounds what is under way; a transport without room for longer is stuck
_IDLE_MS: Final = 1_000  # the longest sleep between two looks at the clock
_BOUNDARY_BYTES: Final = 16  # 128 random bits: a page can't guess an envelope's boundary


class Arguments(NamedTuple):
    """The command line. `uid` -1: stay who we are. Bytes and seconds as the seal takes them."""

    folder: str
    parent: int
    uid: int
    memory: int
    cpu: int


_USAGE: Final = "browsercell worker: --folder F --parent PID --uid U --memory BYTES --cpu SECONDS"


def parse_arguments(argv: list[str]) -> Arguments:
    """Exactly the five options, each once, in any order. Raises ValueError. (argparse would cost 1 MB of memory.)"""
    names, values = argv[::2], argv[1::2]
    wanted = [f"--{field}" for field in Arguments._fields]
    if sorted(names) != sorted(wanted) or len(values) != len(names):
        raise ValueError("the worker's options are wrong")
    given = dict(zip(names, values, strict=True))
    folder = given.pop("--folder")
    numbers = {name.removeprefix("--"): int(value) for name, value in given.items()}
    if (
        not folder.startswith("/")
        or min(numbers["parent"], numbers["memory"], numbers["cpu"]) < 1
        or numbers["uid"] < -1
    ):
        raise ValueError("the worker's options are out of range")
    return Arguments(folder, **numbers)


def main(argv: list[str]) -> NoReturn:
    """Runs a worker to its end and leaves the process."""
    status = Exit.CRASHED
    try:
        status = run(parse_arguments(argv))
    except ValueError:
        _say(_USAGE)
        status = Exit.USAGE
    except SandboxError as error:
        _say(f"browsercell worker: {error}")
        status = Exit.SEAL_FAILED
    except PeerUnreachable:
        status = Exit.UNREACHABLE
    except PeerViolation:
        status = Exit.VIOLATION
    except BaseException:  # noqa: BLE001 - a traceback could carry page text; the status says that it was a crash
        status = Exit.CRASHED
    finally:
        os._exit(status)


def run(arguments: Arguments, before_seal: Callable[[], object] = lambda: None) -> Exit:
    """Everything from the death signal to the exit status. `before_seal` runs just before the allow-list (benchmarks)."""
    seal.begin(arguments.parent)
    _warm_up()
    fences = seal.enter_fences(
        root_dir=arguments.folder,
        uid=None if arguments.uid == -1 else arguments.uid,
        memory_bytes=arguments.memory,
        cpu_seconds=arguments.cpu,
        expected_ppid=arguments.parent,
    )
    root = "" if fences.empty_root else arguments.folder
    links = BlockingLinks()
    page = links.connect(f"{root}/page", max_message=L.MAX_BRIDGE_TO_WORKER, max_send=L.MAX_WORKER_TO_BRIDGE)
    model = links.connect(f"{root}/model", max_message=L.MAX_MODEL_TO_WORKER, max_send=L.MAX_WORKER_TO_MODEL)
    page.wait_ready(_CONNECT_MS)
    model.wait_ready(_CONNECT_MS)

    def drop() -> seal.SealReport:
        before_seal()
        return seal.drop_to_allow_list(fences)

    return _Shell({Side.PAGE: page, Side.MODEL: model}, drop).run()


def _warm_up() -> None:
    """Uses once what would otherwise be loaded at its first use; the collector need not look at it again."""
    seal.warm_up()
    _boundary()
    gc.collect()
    gc.freeze()


def _boundary() -> str:
    return os.urandom(_BOUNDARY_BYTES).hex()


class _Shell:
    """Readiness into events, effects into calls."""

    def __init__(self, links: dict[Side, BlockingLink], drop: Callable[[], seal.SealReport]) -> None:
        self._links = links
        self._sides = {id(link): side for side, link in links.items()}
        self._drop = drop
        self._loop = Loop(time.monotonic())
        self._status: Exit | None = None

    def run(self) -> Exit:
        self._carry_out(self._loop.start())
        while self._status is None:
            self._wait()  # before the clock is looked at: after a stop of the process, what has come counts first
            self._carry_out(self._loop.tick(time.monotonic()))
        return self._status

    def _wait(self) -> None:
        deadline = self._loop.next_deadline()
        left_ms = _IDLE_MS if deadline is None else int(max(0.0, deadline - time.monotonic()) * 1000) + 1
        for link in poll_all(list(self._links.values()), min(left_ms, _IDLE_MS)):
            if self._status is not None:
                return
            self._take(self._sides[id(link)], link)

    def _take(self, side: Side, link: BlockingLink) -> None:
        try:
            data = link.take()
        except PeerUnreachable:
            del self._links[side]  # polling a lost link would spin
            self._carry_out(self._loop.lost(side, time.monotonic()))
            return
        if data is not None:
            self._carry_out(self._loop.received(side, data, time.monotonic(), _boundary()))

    def _carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, End):
                self._status = effect.status
            elif isinstance(effect, Transmit):
                self._transmit(effect)
            elif isinstance(effect, Seal):
                self._carry_out(self._loop.sealed(self._drop(), time.monotonic()))

    def _transmit(self, effect: Transmit) -> None:
        link = self._links.get(effect.side)
        if link is None:
            return  # lost, and the machine has been told
        with contextlib.suppress(PeerUnreachable):  # its last words are read first, then `take` finds it lost
            link.send(effect.data, _SEND_MS)


def _say(line: str) -> None:
    """One line for the log file that stderr is until the seal; afterwards it goes nowhere."""
    try:
        os.write(sys.stderr.fileno(), f"{line}\n".encode())
    except (OSError, ValueError, AttributeError):
        return  # no stderr, or a file that may not grow any more: the exit status is enough
