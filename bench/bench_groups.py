"""What a rebalance costs the broker: one group of 5,000 classic members, and 1,000 groups of three at once.

    python bench/bench_groups.py

Members rebalance in lockstep: everybody joins again, the leader assigns, everybody fetches its share; first on fifty
connections that they share, then each on its own. CPU is what the kernel booked to the server, on one core, the load
on another.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.interop.crowd import Crowd
from tests.interop.kohort import KohortBroker, running_kohort

WORK = {"a group of 5,000": ["large"] * 5_000, "1,000 groups of 3": [f"g{number}" for number in range(1_000)] * 3}
SHARED_CONNECTIONS = 50
TIMES = 10


def main() -> int:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    with contextlib.ExitStack() as running:
        with pinned({min(os.sched_getaffinity(0))}):
            # Long enough for everybody to come before the first generation.
            broker = running.enter_context(running_kohort(group_initial_rebalance_delay_ms="1000"))
        with pinned({max(os.sched_getaffinity(0))}):
            for name, groups in WORK.items():
                for lines in (SHARED_CONNECTIONS, len(groups)):
                    used = measure(broker, groups, lines)
                    detail = f"{min(used) * 1e3:.0f} to {max(used) * 1e3:.0f}"
                    median = statistics.median(used) * 1e3
                    print(f"rebalance of {name}, {lines:5,} connections {median:6.0f} ms of CPU ({detail})", flush=True)
    return 0


def measure(broker: KohortBroker, groups: list[str], lines: int) -> list[float]:
    """Server seconds of each rebalance."""
    with Crowd(broker.bootstrap, groups, lines=lines) as crowd:
        crowd.take_ids()
        crowd.sync(crowd.join())
        used = [rebalanced(crowd, broker) for _ in range(TIMES)]
        crowd.leave()
    return used


def rebalanced(crowd: Crowd, broker: KohortBroker) -> float:
    before = broker.process.cpu_seconds()
    crowd.sync(crowd.join())
    return broker.process.cpu_seconds() - before


@contextlib.contextmanager
def pinned(cpus: set[int]) -> Iterator[None]:
    """What is started inside runs on these cores only, with all its threads."""
    usable = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, usable)


if __name__ == "__main__":
    sys.exit(main())
