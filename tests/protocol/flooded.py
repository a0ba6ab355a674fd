"""A process that is flooded with endless parts and tells by its exit status whether memory came and went as it should.

python -m tests.protocol.flooded asyncio|uvloop BYTES_OF_A_PART FOLDER
"""

from __future__ import annotations

import sys
import threading
from contextlib import suppress

from tests.protocol import zmtp
from tests.protocol.shell import WAIT_S, Recorder, new_links, resident_mib, run, until
from tests.protocol.test_transport_faults import FLOOD_MIB, MIB, serve


def flooded(loop: str, part_bytes: int, folder: str) -> None:
    """Raises AssertionError when a promise is broken."""

    async def main() -> None:
        links, recorder = new_links(), Recorder()
        server = serve(links, recorder, f"{folder}/s", max_message=MIB, high_water=10)
        sock = zmtp.connect(server.path)
        before = resident_mib()
        parts = zmtp.frame(bytes(part_bytes), zmtp.MORE) * (MIB // part_bytes)

        def flood() -> None:
            with suppress(OSError):
                for _ in range(FLOOD_MIB):
                    sock.sendall(parts)

        thread = threading.Thread(target=flood)
        thread.start()
        await until(lambda: not thread.is_alive())
        await until(lambda: resident_mib() - before > FLOOD_MIB // 2)
        assert recorder.messages == []
        assert not any(event.is_fault for event in recorder.events)
        server.close()
        await until(lambda: resident_mib() - before < FLOOD_MIB // 4)
        sock.close()
        # The context, and so the process's other links, are unharmed.
        other, client_side = serve(links, recorder, f"{folder}/t"), Recorder()
        client = links.connect(other.path, client_side.on_message, client_side.on_event, max_message=10)
        await client.wait_ready(WAIT_S)
        client.send(b"fine")
        await until(lambda: recorder.messages == [b"fine"])
        links.close()

    run(loop, main)


if __name__ == "__main__":
    flooded(sys.argv[1], int(sys.argv[2]), sys.argv[3])
