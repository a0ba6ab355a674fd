"""The `supervisor` command (alias `browsercell`).

Exit codes (design 12): 0 ok, 1 the task did not complete, 2 usage, 3 something needed is unavailable. A fault is one
line on standard error, `supervisor: what happened. What to do`; never a traceback. Results go to standard output,
progress and remarks to standard error.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType
from typing import NoReturn

from ...protocol.errors import BrowsercellError, UsageError

OK, NOT_COMPLETED, USAGE, UNAVAILABLE = 0, 1, 2, 3
INTERRUPTED = 130  # as shells report SIGINT


def main() -> NoReturn:
    """Entry point of both console scripts."""
    try:
        _check_arguments()
        _end_like_ctrl_c()
        from .app import app

        # Outside standalone mode `typer.Exit` comes back as the returned code; a command that just ends returns None.
        returned = app(standalone_mode=False, prog_name="supervisor")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else OK
        if code == INTERRUPTED:
            _say("cancelled", code)
    except BaseException as error:  # noqa: BLE001 - the edge of the process: every fault becomes one line
        code = _explain(error)
    else:
        code = returned if isinstance(returned, int) else OK
    _leave(code)


def _check_arguments() -> None:
    """Text of arguments is UTF-8 everywhere further on."""
    for argument in sys.argv[1:]:
        if any("\ud800" <= letter <= "\udfff" for letter in argument):
            raise UsageError("an argument is not UTF-8 text")


def _end_like_ctrl_c() -> None:
    """A closing terminal and SIGTERM end a command as Ctrl+C does: what it started is taken down. `run` has its own."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if (
            signal.getsignal(number) is signal.SIG_DFL
        ):  # not where the caller wants it ignored (nohup), or in tests
            signal.signal(number, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> None:
    del number, frame
    raise KeyboardInterrupt


def _explain(error: BaseException) -> int:
    import typer

    if isinstance(error, typer.Exit):
        return int(error.exit_code)
    if isinstance(error, typer.Abort | KeyboardInterrupt):
        return _say("cancelled", INTERRUPTED)
    # Older typers raise click's exceptions, newer ones their own; both know their message.
    format_message = getattr(error, "format_message", None)
    if format_message is not None:
        return _say(_one_line(format_message()), USAGE)
    if isinstance(error, UsageError):
        return _say(_one_line(str(error)), USAGE)
    if isinstance(error, BrowsercellError):
        return _say(_one_line(str(error)), UNAVAILABLE)
    if isinstance(error, BrokenPipeError):
        return NOT_COMPLETED
    if isinstance(error, OSError):
        return _say(f"the system refused something ({error.strerror or type(error).__name__})", UNAVAILABLE)
    return _say(
        f"an internal fault ({type(error).__name__}); nothing more is known. Run: supervisor doctor",
        UNAVAILABLE,
    )


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _say(line: str, code: int) -> int:
    print(f"supervisor: {line}", file=sys.stderr)
    return code


def _leave(code: int) -> NoReturn:
    for stream in (sys.stdout, sys.stderr):
        if stream is None:  # closed by whoever started us
            continue
        try:
            stream.flush()
        except OSError as error:  # no reader, or no room: the interpreter must not try again at exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
            if not isinstance(error, BrokenPipeError) and code == OK:
                code = UNAVAILABLE
    sys.exit(code)
