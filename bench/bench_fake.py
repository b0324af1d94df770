"""Our broker in memory as a test double, beside franz-go's kfake, which `kcl fake` serves: start, memory, requests.

    python bench/bench_fake.py [--peer] [--seconds S]

The figures of bench_broker.py, for both on one core each. The load needs gcc. With --peer kfake is built (bench/kfake),
which needs Go 1.26 and its modules.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.bench_broker import UNHELD, Figure, built_load, measure, server_core, show
from tests.interop.kohort import running_kohort, started


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure the broker in memory beside kfake.")
    parser.add_argument("--seconds", type=float, default=4.0, help="how long each figure is measured (default 4)")
    parser.add_argument("--peer", action="store_true", help="build kfake, measure it too and print ratios")
    options = parser.parse_args()
    if shutil.which("gcc") is None:
        print("skipped: the load generator needs gcc")
        return 0
    with tempfile.TemporaryDirectory(prefix="kohort-bench-") as scratch:
        load, program = built_load(Path(scratch)), Path(scratch, "kfake")
        peer: list[Figure] = []
        if options.peer and (reason := not_built(program)):
            print(f"without kfake: {reason}")
        elif options.peer:
            peer = measure(partial(started, [str(program)]), server_core(), load, options.seconds, warm=1.0)
        ours = measure(partial(running_kohort, **UNHELD), server_core(), load, options.seconds, warm=1.0)
    show(ours, peer, peers_name="kfake")
    return 0


def not_built(program: Path) -> str | None:
    """Build kfake's program; return the reason if that is not possible."""
    if shutil.which("go") is None:
        return "needs go (not on the PATH)"
    print("building kfake", file=sys.stderr, flush=True)
    command = ["go", "build", "-trimpath", "-buildvcs=false", "-o", str(program), "."]
    # A Go that is too old would fetch a newer one.
    environment = {**os.environ, "GOTOOLCHAIN": "local"}
    built = subprocess.run(
        command, cwd=Path(__file__).with_name("kfake"), env=environment, capture_output=True, text=True
    )
    if not built.returncode:
        return None
    return (built.stderr.strip().splitlines() or [f"go build ended with {built.returncode}"])[-1]


if __name__ == "__main__":
    sys.exit(main())
