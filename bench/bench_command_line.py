"""Time of `kohort produce` and `kohort consume` for a file of lines, beside kcat, against one broker of ours.

    python bench/bench_command_line.py [--records N] [--rounds N]

Each command is a process of its own, as its user starts it, start included. Both write the same lines of 100 bytes
from standard input to topics of one partition, also with keys (`-K`), and read the same topic to its end into a file.
The rounds alternate between the two, and the quickest of each counts. kcat is Debian's package of that name.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.interop.kohort import kohort, running_kohort

MOST = 2.0
"""Goal: times kcat's time."""


def main() -> int:
    parser = argparse.ArgumentParser(description="Time the command line beside kcat.")
    parser.add_argument("--records", type=int, default=1_000_000, help="how many lines")
    parser.add_argument("--rounds", type=int, default=3, help="how often each command runs")
    options = parser.parse_args()
    kcat = shutil.which("kcat")
    if kcat is None:
        print("kcat is not installed: on Debian, apt install kcat")
        return 0

    with running_kohort() as broker, tempfile.TemporaryDirectory() as folder:
        lines, out = Path(folder, "lines"), Path(folder, "out")
        lines.write_bytes(b"".join(b"%099d\n" % number for number in range(options.records)))
        pairs = Path(folder, "pairs")
        pairs.write_bytes(b"".join(b"%07d:%091d\n" % (number, number) for number in range(options.records)))
        at = ("-b", broker.bootstrap)

        def timed(command: list[str], given: Path = lines) -> float:
            with given.open("rb") as stdin, out.open("wb") as stdout:
                started = time.perf_counter()
                subprocess.run(command, stdin=stdin, stdout=stdout, stderr=subprocess.DEVNULL, check=True)
                return time.perf_counter() - started

        def topic(name: str) -> str:
            subprocess.run(kohort("topic", "create", name, "--partitions", "1", *at), check=True, capture_output=True)
            return name

        took: dict[str, list[float]] = {}
        for number in range(options.rounds):
            theirs, ours = topic(f"kcat-{number}"), topic(f"kohort-{number}")
            keyed = topic(f"kcat-keyed-{number}"), topic(f"kohort-keyed-{number}")
            took.setdefault("keyed, kcat", []).append(timed([kcat, "-P", "-K:", *at, "-t", keyed[0]], pairs))
            took.setdefault("keyed, kohort", []).append(timed(kohort("produce", keyed[1], "-K", ":", *at), pairs))
            took.setdefault("in, kcat", []).append(timed([kcat, "-P", *at, "-t", theirs]))
            took.setdefault("in, kohort", []).append(timed(kohort("produce", ours, *at)))
            took.setdefault("out, kcat", []).append(timed([kcat, "-C", "-e", "-q", *at, "-t", theirs]))
            took.setdefault("out, kohort", []).append(timed(kohort("consume", ours, "--from-beginning", "-e", *at)))
            assert out.read_bytes() == lines.read_bytes()

    print(f"{options.records:,} lines of 100 bytes, seconds, the best of {options.rounds}")
    missed = False
    for way in ("in", "keyed", "out"):
        theirs_s, ours_s = min(took[f"{way}, kcat"]), min(took[f"{way}, kohort"])
        met = ours_s <= MOST * theirs_s
        missed |= not met
        figures = f"kcat {theirs_s:6.2f}  kohort {ours_s:6.2f}  ratio {ours_s / theirs_s:5.2f}"
        print(f"{way:<5} {figures}, at most {MOST:g}: {'met' if met else 'MISSED'}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
