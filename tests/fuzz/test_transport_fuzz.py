"""Random and mutated bytes against both links: nothing is delivered that was not a whole bounded frame, no descriptor
leaks, an honest peer goes on. Seeds are fixed: a failure repeats. `BROWSERCELL_FUZZ_ROUNDS` asks for more."""

from __future__ import annotations

import asyncio
import os
import random
import socket
from contextlib import suppress

import pytest
from browsercell.protocol.control import ControlLink, ControlPair, adopt
from browsercell.protocol.transport import LinkEvent

from tests.protocol import zmtp
from tests.protocol.shell import WAIT_S, Recorder, new_links, open_descriptors, private_folder, run, until

ROUNDS = int(os.environ.get("BROWSERCELL_FUZZ_ROUNDS", "60"))  # a few seconds
BOUND = 500
MARK = b"SECRET-CONTENT"


def stream(dice: random.Random) -> bytes:
    """A ZMTP conversation of a hostile client: a good one, then damaged in one of several ways."""
    frames = [
        zmtp.frame(
            MARK * dice.randrange(60), dice.choice((zmtp.LAST, zmtp.MORE, zmtp.COMMAND, zmtp.LONG, 0xFF))
        )
        for _ in range(dice.randrange(6))
    ]
    data = bytearray(zmtp.GREETING + zmtp.ready(dice.choice((b"DEALER", b"REQ", b"PUB", b"", b"X" * 200))))
    data += b"".join(frames)
    match dice.randrange(5):
        case 0:
            data = bytearray(dice.randbytes(dice.randrange(1, 400)))
        case 1:
            for _ in range(dice.randrange(1, 8)):
                data[dice.randrange(len(data))] = dice.randrange(256)
        case 2:
            del data[dice.randrange(len(data)) :]
        case 3:
            at = dice.randrange(len(data))
            data[at:at] = dice.randbytes(dice.randrange(1, 64))
        case _:
            pass  # unharmed, but for what its frames say
    return bytes(data)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_zeromq_link(seed: int) -> None:
    dice = random.Random(seed)

    async def main() -> None:
        with private_folder() as folder:
            links, recorder, honest_side = new_links(), Recorder(), Recorder()
            server = links.serve(
                f"{folder}/s",
                recorder.on_message,
                recorder.on_event,
                expect_pid=os.getpid(),
                expect_uid=os.getuid(),
                max_message=BOUND,
                handshake_ms=200,
            )
            honest = links.connect(
                server.path, honest_side.on_message, honest_side.on_event, max_message=BOUND
            )
            await honest.wait_ready(WAIT_S)
            before = open_descriptors()
            for number in range(ROUNDS):
                hostile = socket.socket(socket.AF_UNIX)
                hostile.setblocking(False)
                with suppress(OSError):  # cut off in the middle is a fine answer
                    hostile.connect(server.path)
                    hostile.send(stream(dice))
                    await asyncio.sleep(dice.random() / 200)
                hostile.close()
                honest.send(b"honest-%d" % number)
            await until(lambda: b"honest-%d" % (ROUNDS - 1) in recorder.messages)
            await until(lambda: open_descriptors() <= before)
            mine = [data for data in recorder.messages if data.startswith(b"honest-")]
            assert mine == [b"honest-%d" % number for number in range(ROUNDS)]
            assert all(len(data) <= BOUND for data in recorder.messages)
            assert all(
                isinstance(event, LinkEvent) and MARK.decode() not in repr(event) for event in recorder.events
            )
            assert {event.pid for event in recorder.events} <= {None, os.getpid()}

    run("uvloop", main)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_control_link(seed: int) -> None:
    dice = random.Random(seed)

    async def main() -> None:
        before = open_descriptors()
        for _ in range(ROUNDS):
            parent, child_fd = ControlPair.make()
            raw = adopt(child_fd)
            seen: list[bytes] = []
            ends: list[None] = []
            accept = dice.random() < 0.5

            def on_message(data: bytes, fds: list[int]) -> None:
                seen.append(data)  # noqa: B023 - used within its own round
                for fd in fds:
                    os.close(fd)

            link = ControlLink(
                parent,
                max_send=BOUND,
                max_receive=BOUND,
                on_message=on_message,
                on_eof=lambda: ends.append(None),  # noqa: B023 - likewise
                accept_fds=accept,
            )
            good: list[bytes] = []
            broken = False
            for _ in range(dice.randrange(8)):
                data = dice.randbytes(dice.choice((0, 1, 10, BOUND - 1, BOUND, BOUND + 1, 40_000)))
                fds = [raw.fileno()] * dice.choice((0, 0, 0, 1, 2, 8, 9, 30))
                if fds:
                    socket.send_fds(raw, [data], fds)
                else:
                    raw.send(data)
                broken = broken or not 0 < len(data) <= BOUND or len(fds) > (8 if accept else 0)
                if not broken:
                    good.append(data)
            raw.close()
            await until(lambda: len(ends) == 1)  # noqa: B023 - awaited at once
            assert seen == good
            assert link.closed
            await asyncio.sleep(0)
            assert len(ends) == 1
        assert open_descriptors() == before

    async def warm() -> None:
        await asyncio.sleep(0)

    run("uvloop", warm)
    run("uvloop", main)
