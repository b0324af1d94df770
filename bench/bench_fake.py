"""Our broker in memory as a test double, beside franz-go's kfake, which `kcl fake` serves: start, memory, requests.

    python bench/bench_fake.py [--seconds S]

The figures of bench_broker.py, for both on one core each. Needs gcc for the load, and Go 1.26 with a module proxy for
kfake (bench/kfake); without Go, ours is measured alone.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.bench_broker import Figure, measure, server_core, show
from tests.interop.kohort import KohortBroker, running_kohort
from tests.interop.process import ServerProcess


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure the broker in memory beside kfake.")
    parser.add_argument("--seconds", type=float, default=4.0, help="how long each figure is measured (default 4)")
    options = parser.parse_args()
    if shutil.which("gcc") is None:
        print("skipped: the load generator needs gcc")
        return 0
    with tempfile.TemporaryDirectory(prefix="kohort-bench-") as scratch:
        load, program = Path(scratch, "load"), Path(scratch, "kfake")
        subprocess.run(["gcc", "-O2", "-o", str(load), str(Path(__file__).with_name("load.c"))], check=True)
        peer: list[Figure] = []
        if reason := not_built(program):
            print(f"without kfake: {reason}")
        else:
            peer = measure(partial(running_kfake, program), server_core(), load, options.seconds, warm=1.0)
        settings = {"group_initial_rebalance_delay_ms": "0", "group_heartbeat_hold_ms": "0"}
        ours = measure(partial(running_kohort, **settings), server_core(), load, options.seconds, warm=1.0)
    show(ours, peer, peers_name="kfake")
    return 0


def not_built(program: Path) -> str | None:
    """Build kfake's program; return the reason if that is not possible."""
    if shutil.which("go") is None:
        return "needs go (not on the PATH)"
    command = ["go", "build", "-trimpath", "-buildvcs=false", "-o", str(program), "."]
    # A Go that is too old would fetch a newer one.
    environment = {**os.environ, "GOTOOLCHAIN": "local"}
    built = subprocess.run(
        command, cwd=Path(__file__).with_name("kfake"), env=environment, capture_output=True, text=True
    )
    return built.stderr.strip().splitlines()[-1] if built.returncode else None


@contextlib.contextmanager
def running_kfake(program: Path) -> Iterator[KohortBroker]:
    """Start kfake, and end it by SIGTERM."""
    process = ServerProcess([str(program)])
    try:
        ready = process.wait_for(r"^ready (\S+:\d+)$", timeout=20.0)
        yield KohortBroker(ready[1], process)
    finally:
        process.kill()


if __name__ == "__main__":
    sys.exit(main())
