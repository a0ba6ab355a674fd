"""`supervisor run`: the supervisor and its host link in one process, from start to orderly end. A shell.

Ends on SIGTERM, SIGINT, a host's StopSupervisor, the end of the lifeline (standard input), or when a bridge's restarts are
exhausted. Logs go to a 0600 file in the state folder, one JSON line a record, content-free.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
from collections.abc import Callable
from importlib.metadata import version
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any, Final

import uvloop

from ..protocol import limits as L
from ..protocol.errors import Unavailable, UsageError
from ..protocol.places import host_socket
from ..protocol.transport import Links
from .core import Supervisor
from .hosts import HostLink
from .places import Places
from .settings import SupervisorSettings

ALONE_SECONDS: Final = 0.5  # between two looks after other hosts once the lifeline is cut
GRACE_SECONDS: Final = 5.0  # for tasks to be cancelled and children to end
LOG_BYTES: Final = 4 * L.MIB  # then the file is rotated
LOG_FILES: Final = 3
_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonLines(logging.Formatter):
    """One JSON object a record: time, level, module, message and the record's own fields. Never a traceback of data:
    of an exception only type and place are written."""

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, Any] = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S"),
            "level": record.levelname.lower(),
            "module": record.name.rpartition(".")[2],
            "event": record.getMessage(),
        }
        entry.update((key, value) for key, value in vars(record).items() if key not in _STANDARD)
        if record.exc_info and record.exc_info[0] is not None:
            entry["exception"] = record.exc_info[0].__name__
            trace = record.exc_info[2]
            while trace is not None and trace.tb_next is not None:
                trace = trace.tb_next
            if trace is not None:
                entry["at"] = f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"
        return json.dumps(entry, default=str)


def log_to(state_folder: str, level: str) -> None:
    """Send the supervisor's own log to `<state>/logs/supervisor.log` (0600). Raises Unavailable."""
    path = Path(state_folder) / "logs" / "supervisor.log"
    try:
        handler = RotatingFileHandler(path, maxBytes=LOG_BYTES, backupCount=LOG_FILES)
    except OSError as error:
        raise Unavailable(
            f"the log {path} can't be opened ({os.strerror(error.errno or 0)})",
            next_step="Check its owner, its permissions and its disk.",
        ) from None
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.raiseExceptions = False  # a full disk must not end the supervisor or print a traceback


def serve(settings: SupervisorSettings, *, lifeline: bool, on_ready: Callable[[Supervisor], None]) -> None:
    """Run until told to stop. Raises Unavailable (could not start) and RestartsExhausted (a bridge kept dying)."""
    os.umask(0o077)
    Places(Path(settings.runtime_folder), Path(settings.state_folder)).prepare()
    log_to(settings.state_folder, settings.log.level)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(settings, lifeline=lifeline, on_ready=on_ready))


async def _serve(
    settings: SupervisorSettings, *, lifeline: bool, on_ready: Callable[[Supervisor], None]
) -> None:
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if number is not signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:  # nohup
            loop.add_signal_handler(number, stopping.set)
    cut = asyncio.Event()
    if lifeline:
        _watch_lifeline(loop, cut)
    supervisor = Supervisor(settings)
    await supervisor.start()
    links = Links()
    try:
        socket = Path(host_socket(settings.runtime_folder))
        socket.parent.mkdir(mode=0o700, exist_ok=True)
        socket.unlink(missing_ok=True)  # a dead supervisor's: the lock is ours
        hosts = HostLink(
            supervisor,
            links,
            host_socket(settings.runtime_folder),
            version=version("browsercell"),
            on_stop=stopping.set,
        )
        on_ready(supervisor)
        gave_up = loop.create_task(supervisor.gave_up())
        ends = (loop.create_task(stopping.wait()), loop.create_task(_alone(hosts, cut)))
        await asyncio.wait((gave_up, *ends), return_when=asyncio.FIRST_COMPLETED)
        for end in ends:
            end.cancel()
        supervisor.begin_stop()  # before the hosts go, or their tasks would end as cancelled by them
        await hosts.close()
        if gave_up.done():
            gave_up.result()
        gave_up.cancel()
    finally:
        links.close()
        await supervisor.stop(GRACE_SECONDS)


async def _alone(hosts: HostLink, cut: asyncio.Event) -> None:
    """Returns once the lifeline is cut and no other host is connected: whoever found this supervisor keeps it."""
    await cut.wait()
    while hosts.connected():
        await asyncio.sleep(ALONE_SECONDS)


def _watch_lifeline(loop: asyncio.AbstractEventLoop, cut: asyncio.Event) -> None:
    fd = sys.stdin.fileno()

    def readable() -> None:
        if not os.read(fd, 4096):
            loop.remove_reader(fd)
            cut.set()

    try:
        loop.add_reader(fd, readable)
    except OSError:
        raise UsageError(
            "--lifeline needs a pipe as standard input", next_step="Leave it out, or start through a client"
        ) from None
