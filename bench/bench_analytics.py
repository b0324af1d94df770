"""How long `kohort analyse` takes for a made-up history, and what CPU time and memory its processes take.

    python bench/bench_analytics.py [--rows 1000000 10000000] [--skew 0 0.6] [--groups 200] [--days 14]

Start-up of Spark is in the wall time. With a skew one group makes that part of all commits. The aim, 10 M in under 20 s
on two cores, wants a machine that does nothing else; CPU seconds per million records hardly depend on that. Memory is
what is resident: the JVM's, and that of all Python processes together, which share pages that count for each.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.analytics.generate.history import Scale, write

WINDOW_MINUTES = 60
AIM_S = 20
"""For 10 M records."""


@dataclass(frozen=True, slots=True)
class Measured:
    """CPU seconds and bytes at most, of the JVM and of all processes of Python."""

    wall_s: float
    jvm_s: float
    python_s: float
    jvm_bytes: int
    python_bytes: int


def main() -> int:
    parser = argparse.ArgumentParser(description="Time the analysis of made-up histories.")
    parser.add_argument("--rows", "--commits", type=int, nargs="+", default=[1_000_000], help="commits of each history")
    parser.add_argument("--skew", type=float, nargs="+", default=[0.0], help="part of all commits that one group makes")
    parser.add_argument("--groups", type=int, default=200, help="number of groups (default 200)")
    parser.add_argument("--days", type=float, default=14, help="length of each history in days (default 14)")
    parser.add_argument("--home", type=Path, help="where histories are made; 100 M records take 15 GB")
    given = parser.parse_args()
    for rows in given.rows:
        for skew in given.skew:
            with tempfile.TemporaryDirectory(prefix="kohort-bench-", dir=given.home) as directory:
                measure(Path(directory), Scale(rows, given.groups, given.days, WINDOW_MINUTES * 60_000, skew=skew))
    return 0


def measure(home: Path, scale: Scale) -> None:
    """Make a history, analyse it, and print a line."""
    began = time.monotonic()
    (home / "made").mkdir()
    records = write(home / "made", scale, lambda line: None)
    made_s = time.monotonic() - began
    found = analyse(home)
    cpu_s = found.jvm_s + found.python_s
    aim = f" (aim {AIM_S:.0f})" if scale.commits == 10_000_000 else ""
    skewed = f", {scale.skew:.0%} of one group" if scale.skew else ""
    cpu = f"CPU {cpu_s:.0f} s: JVM {found.jvm_s:.0f}, Python {found.python_s:.0f}"
    memory = f"at most JVM {found.jvm_bytes >> 20:,} MB, Python {found.python_bytes >> 20:,} MB"
    times = f"made in {made_s:.0f} s; analysed in {found.wall_s:.0f} s{aim}"
    print(f"{records:>12,} records{skewed}: {times}; {cpu}; {memory}", flush=True)


def analyse(home: Path) -> Measured:
    """Run the command on what was made."""
    command = [
        *(sys.executable, "-m", "kohort", "analyse", "--segments", str(home / "made")),
        *("--ends", str(home / "made" / "ends"), "--out", str(home / "out")),
        *("--window-minutes", str(WINDOW_MINUTES), "--master", "local[2]"),
    ]
    began = time.monotonic()
    cpu: dict[tuple[int, bool], float] = {}
    peaks = {True: 0, False: 0}
    with (home / "log").open("w") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        while process.poll() is None:
            tree = _tree(process.pid)
            for pid, java, seconds, _ in tree:
                cpu[pid, java] = max(cpu.get((pid, java), 0.0), seconds)
            for java in peaks:
                peaks[java] = max(peaks[java], sum(memory for _, is_java, _, memory in tree if is_java is java))
            time.sleep(0.1)
    wall_s = time.monotonic() - began
    if process.returncode:
        raise SystemExit((home / "log").read_text()[-2_000:])
    spent = {java: sum(seconds for (_, is_java), seconds in cpu.items() if is_java is java) for java in peaks}
    return Measured(wall_s, spent[True], spent[False], peaks[True], peaks[False])


def _tree(root: int) -> list[tuple[int, bool, float, int]]:
    """Of a process and all below it: id, whether it is a JVM, its own CPU seconds, resident bytes."""
    parents, found = {}, {}
    tick, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                name, _, rest = (entry / "stat").read_text().rpartition(")")
            except OSError:
                continue  # it has just ended
            fields = rest.split()
            parents[int(entry.name)] = int(fields[1])
            seconds = (int(fields[11]) + int(fields[12])) / tick
            found[int(entry.name)] = (name.endswith("(java"), seconds, int(fields[21]) * page)
    tree = {root}
    while more := {pid for pid, parent in parents.items() if parent in tree} - tree:
        tree |= more
    return [(pid, *found[pid]) for pid in tree if pid in found]


if __name__ == "__main__":
    sys.exit(main())
