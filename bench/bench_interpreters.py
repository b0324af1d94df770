"""What one core serves under several Python interpreters: the figures of bench_broker.py, in turns.

    python bench/bench_interpreters.py [--rounds N] [--seconds S] NAME=COMMAND NAME=COMMAND...

COMMAND is how to run `kohort` under an interpreter, such as /venv-3.14/bin/kohort, where this checkout is installed.
The others are compared with the first one. The broker is in memory, and the load is the same for all.
"""

from __future__ import annotations

import argparse
import shlex
import statistics
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.bench_broker import UNHELD, Figure, built_load, measure, need_gcc, number, server_core
from tests.interop.kohort import running_kohort


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure the broker under several interpreters.")
    parser.add_argument("commands", nargs="*", metavar="NAME=COMMAND", help="how to run kohort under an interpreter")
    parser.add_argument("--rounds", type=int, default=3, help="rounds in turns; the median is printed (default 3)")
    parser.add_argument("--seconds", type=float, default=4.0, help="how long each figure is measured (default 4)")
    options = parser.parse_args()
    commands: dict[str, list[str]] = {}
    for one in options.commands:
        name, _, command = one.partition("=")
        if not command or name in commands:
            parser.error(f"give each interpreter a name of its own, and its command: NAME=COMMAND, not {one}")
        commands[name] = shlex.split(command)
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")
    if len(commands) < 2:
        print("skipped: name at least two interpreters, such as 3.14=/venv-3.14/bin/kohort")
        return 0
    need_gcc()
    for name, words in commands.items():
        try:
            version = subprocess.run([*words, "--version"], capture_output=True, text=True, check=True).stdout
        except (OSError, subprocess.CalledProcessError) as problem:
            parser.error(f"{name} does not run: {problem}")
        print(f"{name}: {version.strip()}", flush=True)
    measured: dict[str, list[list[Figure]]] = {name: [] for name in commands}
    with tempfile.TemporaryDirectory(prefix="kohort-bench-") as scratch:
        load = built_load(Path(scratch))
        for _ in range(options.rounds):
            for name, words in commands.items():
                start = partial(running_kohort, program=words, **UNHELD)
                measured[name].append(measure(start, server_core(), load, options.seconds, warm=1.0))
    show(measured)
    return 0


def show(measured: dict[str, list[list[Figure]]]) -> None:
    """Print each figure's median, smallest and largest, and the median as a part of the first interpreter's."""
    base: list[float] = []
    for name, rounds in measured.items():
        values = [sorted(one.value for one in same) for same in zip(*rounds, strict=True)]
        medians = [statistics.median(each) for each in values]
        base = base or medians
        for figure, each, median, first in zip(rounds[0], values, medians, base, strict=True):
            spread = f"{number(each[0])} to {number(each[-1])}"
            line = f"{name:8} {figure.name:34} {number(median):>9} {figure.unit:15} ({spread})"
            print(f"{line:92} {median / first:5.2f} of the first")


if __name__ == "__main__":
    sys.exit(main())
