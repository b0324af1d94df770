"""How long `kohort analyse` takes for a made-up history, and what CPU time it takes from all its processes.

    python bench/bench_analytics.py [--commits 1000000 10000000] [--skew 0.5] [--groups 200] [--days 14]

Start-up of Spark is in the wall time. With `--skew` one group makes that part of all commits. The aim, 10 M in under
60 s on two cores, wants a machine that does nothing else; CPU seconds per million records hardly depend on that.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from kohort.analytics.generate.history import Scale, write

WINDOW_MINUTES = 60


def main() -> int:
    parser = argparse.ArgumentParser(description="Time the analysis of made-up histories.")
    parser.add_argument("--commits", type=int, nargs="+", default=[1_000_000])
    parser.add_argument("--groups", type=int, default=200)
    parser.add_argument("--days", type=float, default=14)
    parser.add_argument("--skew", type=float, default=0.0)
    given = parser.parse_args()
    for commits in given.commits:
        with tempfile.TemporaryDirectory(prefix="kohort-bench-") as directory:
            home = Path(directory)
            scale = Scale(commits, given.groups, given.days, WINDOW_MINUTES * 60_000, skew=given.skew)
            began = time.monotonic()
            (home / "made").mkdir()
            records = write(home / "made", scale, lambda line: None)
            made_s = time.monotonic() - began
            wall_s, cpu_s, peak = analyse(home)
            print(
                f"{records:>12,} records: generated in {made_s:.0f} s; analysed in {wall_s:.0f} s,"
                f" {cpu_s:.0f} CPU s, {cpu_s / records * 1e6:.1f} CPU s per million, {peak >> 20:,} MB at most",
                flush=True,
            )
    return 0


def analyse(home: Path) -> tuple[float, float, int]:
    """Wall and CPU seconds of the command and all its processes, and the most memory that they had together."""
    command = [
        *(sys.executable, "-m", "kohort", "analyse", "--segments", str(home / "made")),
        *("--ends", str(home / "made" / "ends"), "--out", str(home / "out")),
        *("--window-minutes", str(WINDOW_MINUTES), "--master", "local[2]"),
    ]
    began = time.monotonic()
    cpu: dict[int, float] = {}
    peak = 0
    with (home / "log").open("w") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        while process.poll() is None:
            tree = _tree(process.pid)
            cpu |= {pid: max(cpu.get(pid, 0.0), seconds) for pid, seconds, _ in tree}
            peak = max(peak, sum(memory for _, _, memory in tree))
            time.sleep(0.2)
    if process.returncode:
        raise SystemExit((home / "log").read_text()[-2_000:])
    return time.monotonic() - began, sum(cpu.values()), peak


def _tree(root: int) -> list[tuple[int, float, int]]:
    """Of a process and all below it: id, its own CPU seconds, resident bytes."""
    parents, found = {}, {}
    tick, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it has just ended
            parents[int(entry.name)] = int(fields[1])
            found[int(entry.name)] = ((int(fields[11]) + int(fields[12])) / tick, int(fields[21]) * page)
    tree = {root}
    while more := {pid for pid, parent in parents.items() if parent in tree} - tree:
        tree |= more
    return [(pid, *found[pid]) for pid in tree if pid in found]


if __name__ == "__main__":
    sys.exit(main())
