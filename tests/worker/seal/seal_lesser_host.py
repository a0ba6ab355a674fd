"""Becomes another program on a lesser host: makes named system calls fail, then execs.

`python -I seal_lesser_host.py <site> <spec as JSON> <argv>...`; the spec is a list of [call number, errno, bits]: the call fails
when any of `bits` is set in its first argument, or always when `bits` is 0. Loaded with the product's own assembler.
"""

import json
import os
import sys

site, spec, *argv = sys.argv[1:]
if site:
    sys.path.insert(0, site)

from browsercell.worker.seal import bpf, seccomp  # noqa: E402 - found only now
from browsercell.worker.seal.numbers import HIGHEST_KNOWN  # noqa: E402

rules = []
for number, code, bits in json.loads(spec):
    refusal = bpf.fail_with(code)
    single = [1 << place for place in range(64) if bits >> place & 1]
    clauses = tuple(bpf.Clause((bpf.Equals(0, bit, bit),), refusal) for bit in single)
    rules.append(bpf.Rule(number, clauses, bpf.ALLOW if bits else refusal))
seccomp.load(bpf.assemble(rules, default=bpf.ALLOW, highest=HIGHEST_KNOWN))
os.execv(argv[0], argv)
