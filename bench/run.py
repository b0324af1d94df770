"""`make bench`: run every benchmark of this folder, one after the other, and say on what.

    python bench/run.py [--peer] [NAME...]

NAME picks some (`broker` is bench_broker.py). --peer also measures Apache Kafka where a benchmark can. Judge by
ratios within one run: figures of different machines, or of a busy one, do not compare.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import timeit
from pathlib import Path

HERE = Path(__file__).parent


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the benchmarks.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="which; all by default")
    parser.add_argument("--peer", action="store_true", help="measure Apache Kafka too, where a benchmark can")
    options = parser.parse_args()

    scripts = {path.stem.removeprefix("bench_"): path for path in sorted(HERE.glob("bench_*.py"))}
    unknown = [name for name in options.names if name not in scripts]
    if unknown:
        parser.error(f"no benchmark {unknown[0]}; there are {', '.join(scripts)}")

    print(f"{platform.platform()}, {os.cpu_count()} cores, CPython {platform.python_version()}, {pace()}")
    failed = []
    for name in options.names or scripts:
        script = scripts[name]
        print(f"\n== {name}", flush=True)
        peer = ["--peer"] if options.peer and '"--peer"' in script.read_text() else []
        environment = {**os.environ, "PYTHONPATH": str(HERE.parent)}
        if subprocess.run([sys.executable, str(script), *peer], cwd=HERE.parent, env=environment).returncode != 0:
            failed.append(name)
    if failed:
        print(f"\nfailed: {', '.join(failed)}")
    return 1 if failed else 0


def pace() -> str:
    """How fast this interpreter is here and now; a build with PGO is up to 1.45 times faster than one without."""
    best = min(timeit.repeat("for i in range(100_000): x = i + 1", number=1, repeat=20))
    return f"{best * 1e4:.0f} ns for an addition in a loop"


if __name__ == "__main__":
    sys.exit(main())
