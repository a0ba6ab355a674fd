"""`supervisor run` with another worker program: what the flood tests start. Nothing else differs from the product.

python stand_in_supervisor.py WORKER-ARGUMENTS... -- --quiet --set a.b=c ...
"""

from __future__ import annotations

import functools
import os
import sys
from pathlib import Path

from browsercell.protocol.errors import BrowsercellError
from browsercell.supervisor import config, service
from browsercell.supervisor.cli.common import parse_sets
from browsercell.supervisor.core import Supervisor
from browsercell.supervisor.spawn import Programs

WORKER = Path(__file__).with_name("hostile_worker.py")
UNAVAILABLE = 3  # as the real command


def main() -> int:
    cut = sys.argv.index("--")
    programs = Programs(worker=(sys.executable, "-I", "-B", str(WORKER), *sys.argv[1:cut]))
    flags = parse_sets([one for one in sys.argv[cut + 1 :] if "=" in one])
    loaded = config.load(directory=Path("/"), environment=os.environ, flags=flags)
    setattr(service, "Supervisor", functools.partial(Supervisor, programs=programs))  # noqa: B010 - the one thing that differs from the product
    try:
        service.serve(
            config.supervisor_settings(loaded.configuration), lifeline=False, on_ready=lambda _: None
        )
    except BrowsercellError as error:
        print(f"supervisor: {error}", file=sys.stderr)
        return UNAVAILABLE
    return 0


if __name__ == "__main__":
    sys.exit(main())
