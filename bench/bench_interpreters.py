"""What one core serves under several Python interpreters: the figures of bench_broker.py, in turns.

    python bench/bench_interpreters.py [--rounds N] [--seconds S] [NAME=COMMAND...]

COMMAND is how to run `kohort` under an interpreter, such as /venv-3.14/bin/kohort, with this checkout's code. The
others are compared with the first one, which is by default that of this interpreter. The load is the same for all.
"""

from __future__ import annotations

import argparse
import contextlib
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.bench_broker import Figure, measure, number, server_core
from tests.interop.kohort import KohortBroker, kohort
from tests.interop.process import ServerProcess


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure the broker under several interpreters.")
    parser.add_argument("commands", nargs="*", metavar="NAME=COMMAND", help="how to run kohort under an interpreter")
    parser.add_argument("--rounds", type=int, default=3, help="rounds in turns; the median is printed (default 3)")
    parser.add_argument("--seconds", type=float, default=4.0, help="how long each figure is measured (default 4)")
    options = parser.parse_args()
    if any("=" not in one for one in options.commands):
        parser.error("name each command: NAME=COMMAND")
    if shutil.which("gcc") is None:
        print("skipped: the load generator needs gcc")
        return 0
    ours = ".".join(map(str, sys.version_info[:3]))
    commands = dict(one.split("=", 1) for one in options.commands) or {ours: shlex.join(kohort())}
    measured: dict[str, list[list[Figure]]] = {name: [] for name in commands}
    with tempfile.TemporaryDirectory(prefix="kohort-bench-") as scratch:
        load = Path(scratch, "load")
        subprocess.run(["gcc", "-O2", "-o", str(load), str(Path(__file__).with_name("load.c"))], check=True)
        for _ in range(options.rounds):
            for name, command in commands.items():
                start = partial(running, shlex.split(command))
                measured[name].append(measure(start, server_core(), load, options.seconds, warm=1.0))
    show(measured)
    return 0


@contextlib.contextmanager
def running(command: list[str]) -> Iterator[KohortBroker]:
    """Start a broker in memory by this command, and end it by SIGTERM."""
    settings = ("--set", "group.initial.rebalance.delay.ms=0", "--set", "group.heartbeat.hold.ms=0")
    process = ServerProcess([*command, "broker", "--listen", "127.0.0.1:0", "--memory", *settings])
    try:
        ready = process.wait_for(r"^ready (\S+:\d+)$", timeout=20.0)
        yield KohortBroker(ready[1], process)
        process.stop()
    finally:
        process.kill()


def show(measured: dict[str, list[list[Figure]]]) -> None:
    """Print each figure's median, and what it is as a part of the first interpreter's."""
    base: list[float] = []
    for name, rounds in measured.items():
        figures, values = (
            rounds[0],
            [statistics.median(one.value for one in same) for same in zip(*rounds, strict=True)],
        )
        base = base or values
        for figure, value, first in zip(figures, values, base, strict=True):
            print(f"{name:12} {figure.name:42} {number(value):>10} {figure.unit:15} {value / first:5.2f} of the first")


if __name__ == "__main__":
    sys.exit(main())
