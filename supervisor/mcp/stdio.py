"""`supervisor mcp` over standard input and output. A shell.

Ends with the end of standard input, with SIGTERM, SIGINT and SIGHUP, and when nobody reads standard output any more; each time
every session is closed first. While it serves, the SDK keeps the protocol's descriptor to itself: whatever prints to standard
output goes to standard error.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import Final

from mcp.server.stdio import stdio_server

from .host import Options
from .logs import log_to_stderr
from .server import Product

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def run(options: Options) -> None:
    """Returns when standard input has ended; a signal ends the process itself."""
    log_to_stderr()
    asyncio.run(_run(options))


async def _run(options: Options) -> None:
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup
            loop.add_signal_handler(number, stopping.set)
    product = Product(options)
    serving = loop.create_task(_serve(product))
    stop = loop.create_task(stopping.wait())
    await asyncio.wait((serving, stop), return_when=asyncio.FIRST_COMPLETED)
    if stopping.is_set():
        await product.close()
        # The SDK's reader is a thread that waits for a line; no signal gets it out of there.
        sys.stderr.flush()
        os._exit(0)
    stop.cancel()
    try:
        serving.result()
    except* (BrokenPipeError, ConnectionResetError):
        pass  # the client has left without closing its end first: an end like any other


async def _serve(product: Product) -> None:
    server = product.server
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())
