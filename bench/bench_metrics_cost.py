"""What a broker's metrics cost: CPU time of each request with and without `--metrics`, in pairs.

    python bench/bench_metrics_cost.py [--rounds N] [--seconds S] [--work TEXT]

Two brokers run at once and take turns on one core under the load of bench_broker.py (needs gcc), which
has another core. Other work on the machine makes every request dearer, by up to a half, so the least
of all rounds is compared; the medians are for comparison. The limit is 5 %.
"""

import argparse
import contextlib
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.bench_broker import (
    UNHELD,
    WORK,
    Connection,
    built_load,
    drive,
    join_consumer_groups,
    join_groups,
    load_core,
    need_gcc,
    pinned,
    server_core,
)
from tests.interop.kohort import running_kohort

LIMIT = 0.05
SIDES = ("plain", "measured")


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure the cost of the broker's metrics.")
    parser.add_argument("--rounds", type=int, default=9, help="pairs of each kind of request (default 9)")
    parser.add_argument("--seconds", type=float, default=2.0, help="how long each figure is measured (default 2)")
    parser.add_argument("--work", default="", help="measure only what has this in its name")
    options = parser.parse_args()
    need_gcc()
    with tempfile.TemporaryDirectory(prefix="kohort-bench-") as scratch, contextlib.ExitStack() as running:
        load = built_load(Path(scratch))
        sides = []
        for name in SIDES:
            store = ["--data", str(Path(scratch, name)), *(["--metrics", "127.0.0.1:0"] if name == "measured" else [])]
            with pinned(server_core()):
                broker = running.enter_context(running_kohort(*store, **UNHELD))
            connection = running.enter_context(Connection(broker.bootstrap))
            sides.append((name, broker, connection, join_groups(connection)))
        for work in WORK:
            if options.work not in work.name:
                continue
            micros: dict[str, list[float]] = {name: [] for name in SIDES}
            for turn in range(options.rounds):
                for name, broker, connection, classic in sides if turn % 2 else reversed(sides):
                    members = classic if work.protocol == "classic" else join_consumer_groups(connection)
                    with pinned(load_core()):
                        figure = drive(broker, load, work, members, options.seconds, warm=0.2)
                    micros[name].append(1e6 / figure.value)
            plain, measured = (min(micros[name]) for name in SIDES)
            more = 100 * (measured / plain - 1)
            medians = [statistics.median(micros[name]) for name in SIDES]
            print(
                f"{work.name:36} {plain:6.2f} us, with metrics {measured:6.2f} us: {more:+5.1f} % "
                f"(limit {100 * LIMIT:.0f} %, medians {100 * (medians[1] / medians[0] - 1):+.1f} %)",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
