"""A stand-in for a worker: does nothing, holds no link. SIGUSR1: exits with 0. SIGUSR2: burns a core. It dies with its parent."""

from __future__ import annotations

import ctypes
import os
import signal
import sys


def main() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != int(sys.argv[sys.argv.index("--parent") + 1]):
        os._exit(4)  # it died before the death signal was armed
    signal.signal(signal.SIGUSR1, lambda *_: os._exit(0))
    if "--crash" in sys.argv:
        os._exit(3)
    signal.signal(signal.SIGUSR2, burn)
    while True:
        signal.pause()


def burn(*_: object) -> None:
    while True:
        sum(range(1000))


if __name__ == "__main__":
    main()
