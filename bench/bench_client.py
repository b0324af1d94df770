"""Records per CPU second of our client, beside kafka-python, aiokafka and confluent-kafka, against one broker of ours.

    python bench/bench_client.py [--bootstrap HOST:PORT] [--records N] [--codecs none lz4] [--rounds N]
        [--only KIND...] [--clients NAME...]

Each client produces and consumes records of 100 bytes in a process of its own, as its users would: one record at a
time, batches of its default size, acknowledged by all. CPU is what the kernel booked to that process from its first
record to its last, all threads. What a process reads was written before, the same for all; confluent-kafka is C.

"produce" sends one record after the other; "callback" also polls before each record and gets a callback for it, as the
examples of confluent-kafka do. "consume" asks for lists of up to 500 records (`poll`, aiokafka's `getmany`) and looks
at each; "iterate" asks for one after the other (`async for`, `for`, confluent-kafka's `poll`); "columns" takes what the
client gives for many at once: Arrow tables of ours, lists of 10,000 of confluent-kafka's.

"plain" is ours without the extra `fast`. "idle" is the CPU of a member with nothing to read, in percent of a core;
"asleep" by how many megabytes the process grows while its application sleeps before a full topic. Each figure that has
a bar is printed with it at the end.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import resource
import statistics
import subprocess
import sys
import time
import uuid
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.clients_under_test import CALLED_BACK, HAVE_COLUMNS, PRODUCERS, READERS, produce_confluent_kafka

PARTITIONS = 4
RECORDS = 1_000_000
FEWER = {"kafka-python": 10, "aiokafka": 5}  # how many times fewer the slower ones produce
RATES = ("produce", "callback", "consume", "iterate", "columns")
READING = RATES[2:]
COSTS = {"idle": "idle, % CPU", "asleep": "asleep, MB"}
IDLE_S = 20.0
ASLEEP_S = 5.0

Figures = dict[str, dict[str, float]]
"""By client, then by kind."""


@dataclass(frozen=True, slots=True)
class Bar:
    """Goal for a figure: a multiple of the figure of another client, or a value."""

    what: str
    kind: str
    least: float
    ours: str = "kohort"
    against: str | None = None

    def line(self, figures: Figures, kinds: list[str]) -> str | None:
        """Figure, bar, and whether it is met; None if nobody asked for it."""
        if self.kind not in kinds or self.ours not in figures or (self.against or self.ours) not in figures:
            return None
        found = figures[self.ours].get(self.kind)
        other = 1.0 if self.against is None else figures[self.against].get(self.kind)
        if found is None or other is None:
            return f"{self.what:<88} not measured"
        most = self.kind in COSTS
        met = found <= self.least if most else found / other >= self.least
        value, bar, sign = found / other, self.least, "at most" if most else "at least"
        if self.against is None and not most:
            value, bar = value / 1e6, bar / 1e6
        return f"{self.what:<88} {value:7.3f}  {sign} {bar:g}: {'met' if met else 'MISSED'}"


BARS = (
    Bar("records one by one: async for, times aiokafka's async for", "iterate", 2.5, against="aiokafka"),
    Bar("records one by one: async for, times kafka-python's for", "iterate", 5, against="kafka-python"),
    Bar("records one by one, threads: for, times kafka-python's for", "iterate", 5, "kohort.blocking", "kafka-python"),
    Bar("records in lists: poll(500), times aiokafka's getmany(500)", "consume", 2.5, against="aiokafka"),
    Bar("records in lists: poll(500), times kafka-python's poll(500)", "consume", 5, against="kafka-python"),
    Bar(
        "without the extra, one by one: async for, times kafka-python's for",
        "iterate",
        1.3,
        "kohort, plain",
        "kafka-python",
    ),
    Bar(
        "without the extra, lists: poll(500), times kafka-python's poll(500)",
        "consume",
        1.3,
        "kohort, plain",
        "kafka-python",
    ),
    Bar("columns: poll_arrow, M records per CPU second", "columns", 3e6),
    Bar("columns: poll_arrow, times confluent-kafka's consume(10000)", "columns", 6, against="confluent-kafka"),
    Bar("records one by one: async for, times confluent-kafka's poll", "iterate", 1.5, against="confluent-kafka"),
    Bar(
        "records one by one, threads: for, times confluent-kafka's poll",
        "iterate",
        1.5,
        "kohort.blocking",
        "confluent-kafka",
    ),
    Bar(
        "records one by one, the adapter's poll, times confluent-kafka's",
        "iterate",
        1.5,
        "kohort.compat.confluent",
        "confluent-kafka",
    ),
    Bar("produce: await send, acknowledged by all, times aiokafka's", "produce", 4, against="aiokafka"),
    Bar("produce: await send, times confluent-kafka's produce", "produce", 0.8, against="confluent-kafka"),
    Bar(
        "produce, threads: send, times confluent-kafka's produce", "produce", 0.8, "kohort.blocking", "confluent-kafka"
    ),
    Bar(
        "produce, the adapter's, times confluent-kafka's produce",
        "produce",
        0.8,
        "kohort.compat.confluent",
        "confluent-kafka",
    ),
    Bar(
        "produce with callbacks, the adapter's, times confluent-kafka's",
        "callback",
        0.8,
        "kohort.compat.confluent",
        "confluent-kafka",
    ),
    Bar("an idle member's CPU, % of a core", "idle", 0.05),
    Bar("growth while the application sleeps, MB (fetch_max_bytes read, as much on its way)", "asleep", 104.9),
)


class Stopwatch:
    """CPU seconds of this process since `start`; what came before, connecting and joining, does not count."""

    def __init__(self) -> None:
        self._begin = 0.0

    def start(self) -> None:
        if not self._begin:
            self._begin = time.process_time()

    @property
    def spent(self) -> float:
        return time.process_time() - self._begin


async def produce(name: str, kind: str, bootstrap: str, topic: str, records: int) -> float:
    """Records per CPU second."""
    count = records // FEWER.get(name, 1)
    watch = Stopwatch()
    await (PRODUCERS if kind == "produce" else CALLED_BACK)[name](bootstrap, topic, count, watch.start)
    return count / watch.spent


async def read(name: str, kind: str, bootstrap: str, topic: str, records: int) -> float:
    """Records per CPU second, of one of READING."""
    watch = Stopwatch()
    async with READERS[name](bootstrap, topic) as reader:
        if kind == "iterate":
            await reader.iterate(records, watch.start)
            return records / watch.spent
        step, left = getattr(reader, kind), records
        while left > 0:
            some = await step()
            if some:
                watch.start()
            left -= some
        return records / watch.spent


async def idle(name: str, bootstrap: str, topic: str) -> float:
    """CPU in percent of a member of a group that has nothing to read, and polls."""
    async with READERS[name](bootstrap, topic) as reader:
        until = time.monotonic() + 5  # joining, and what is loaded once, is over
        while time.monotonic() < until:
            await reader.consume()
        watch, begin = Stopwatch(), time.monotonic()
        watch.start()
        while time.monotonic() < begin + IDLE_S:
            await reader.consume()
        return 100 * watch.spent / (time.monotonic() - begin)


async def asleep(name: str, bootstrap: str, topic: str) -> float:
    """Megabytes by which the process grows while its application does not read what there is."""
    if name == "kohort":
        from kohort.client.consume import columns_loading

        columns_loading("bench").result()  # libraries, not records
    async with READERS[name](bootstrap, topic) as reader:
        before = _resident_mb()
        while not await reader.consume():
            pass
        await asyncio.sleep(ASLEEP_S)
        return _resident_mb() - before


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def measured(name: str, kind: str, bootstrap: str, topic: str, records: int) -> float:
    """One figure, in this process."""
    match kind:
        case "produce" | "callback":
            work = produce(name, kind, bootstrap, topic, records)
        case "idle":
            work = idle(name, bootstrap, topic)
        case "asleep":
            work = asleep(name, bootstrap, topic)
        case _:
            work = read(name, kind, bootstrap, topic, records)
    if name in ("kohort", "kohort, plain"):
        import uvloop

        return uvloop.run(work)
    return asyncio.run(work)


def kinds_of(name: str) -> list[str]:
    """What is measured of a client."""
    if name == "kohort, plain":
        return ["consume", "iterate"]
    reading = READING if name in HAVE_COLUMNS else READING[:2]
    producing = ["produce", "callback"] if name in CALLED_BACK else ["produce"]
    return [*producing, *reading, *COSTS]


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure the client.")
    parser.add_argument("--bootstrap", metavar="HOST:PORT", help="a broker that runs; else one of ours is started")
    parser.add_argument("--records", type=int, default=RECORDS, metavar="N", help="records of each rate")
    codecs = ["none", "gzip", "snappy", "lz4", "zstd"]
    parser.add_argument("--codecs", nargs="+", default=["none", "lz4"], choices=codecs, help="of what is read")
    parser.add_argument("--rounds", type=int, default=1, metavar="N", help="take each rate's median of N rounds")
    kinds, names = [*RATES, *COSTS], list(READERS)
    parser.add_argument(
        "--only", nargs="+", choices=kinds, default=kinds, metavar="KIND", help=f"what is measured: {', '.join(kinds)}"
    )
    parser.add_argument(
        "--clients", nargs="+", choices=names, default=names, metavar="NAME", help=f"of whom: {', '.join(names)}"
    )
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)  # NAME KIND TOPIC: what a child does
    options = parser.parse_args()
    if options.child:
        name, kind, topic = options.child
        print(json.dumps(measured(name, kind, options.bootstrap, topic, options.records)))
        return 0

    if options.rounds < 1:
        parser.error("--rounds must be at least 1")
    failed: list[str] = []
    with broker(options.bootstrap) as bootstrap:
        for codec in options.codecs:
            # Producing, being idle and sleeping are measured once: what is read makes no difference to them.
            kinds = options.only if codec == options.codecs[0] else [one for one in options.only if one in READING]
            failed += compare(bootstrap, codec, options.records, options.rounds, options.clients, kinds)
    if failed:
        print(f"failed: {', '.join(dict.fromkeys(failed))}")
    return 1 if failed else 0


def compare(bootstrap: str, codec: str, records: int, rounds: int, clients: list[str], kinds: list[str]) -> list[str]:
    """Measure and print what the clients make of records of one codec; return the names of those that failed."""
    full, empty = (f"bench-{what}-{uuid.uuid4()}" for what in ("full", "empty"))
    create(bootstrap, [full, empty])
    asyncio.run(
        produce_confluent_kafka(bootstrap, full, records, lambda: None, **{"compression.type": codec, "linger.ms": 5})
    )
    figures: Figures = {name: {} for name in clients}
    failed: list[str] = []
    found_rates: dict[tuple[str, str], list[float]] = defaultdict(list)
    for _ in range(rounds):
        for kind in (kind for kind in kinds if kind in RATES):
            for name in (name for name in clients if kind in kinds_of(name)):
                topic = full
                if kind not in READING:
                    create(bootstrap, [topic := f"bench-produced-{uuid.uuid4()}"])
                found = in_a_process(failed, bootstrap, name, kind, topic, records)
                if found is not None:
                    found_rates[name, kind].append(found)
    for (name, kind), rates in found_rates.items():
        figures[name][kind] = statistics.median(rates)
    for kind, topic in (("idle", empty), ("asleep", full)):
        if kind in kinds:  # they hardly compute, so all at once
            able = [name for name in clients if kind in kinds_of(name)]
            with ThreadPoolExecutor(len(able)) as threads:
                each = threads.map(
                    partial(in_a_process, failed, bootstrap, kind=kind, topic=topic, records=records), able
                )
                for name, found in zip(able, each, strict=True):
                    if found is not None:
                        figures[name][kind] = found
    show(codec, records, figures, kinds)
    return failed


def in_a_process(failed: list[str], bootstrap: str, name: str, kind: str, topic: str, records: int) -> float | None:
    """One figure; None where the client cannot (kafka-python knows no lz4 without another package), or failed."""
    command = [sys.executable, __file__, "--bootstrap", bootstrap, "--records", str(records)]
    command += ["--child", name, kind, topic]
    environment = {**os.environ, "KOHORT_FAST": "0" if name.endswith("plain") else "1"}
    run = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    if run.returncode:
        lines = run.stderr.strip().splitlines() or [f"its process ended with {run.returncode}"]
        print(f"{name} {kind}: {lines[-1]}", file=sys.stderr)
        if "UnsupportedCodecError" not in lines[-1]:
            failed.append(f"{name} {kind}")
        return None
    return float(json.loads(run.stdout))


def create(bootstrap: str, topics: list[str]) -> None:
    from kohort import NewTopic
    from kohort.blocking import Admin

    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(topic, PARTITIONS) for topic in topics])


@contextlib.contextmanager
def broker(bootstrap: str | None) -> Iterator[str]:
    """The one given, or one of ours that ends with the run."""
    if bootstrap is not None:
        yield bootstrap
        return
    command = [str(Path(sys.executable).with_name("kohort")), "broker", "--listen", "127.0.0.1:0", "--memory"]
    command += ["--set", "group.initial.rebalance.delay.ms=0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            ready = next(line for line in process.stdout if line.startswith("ready "))
            yield ready.split()[1]
        finally:
            process.terminate()


def show(codec: str, records: int, figures: Figures, kinds: list[str]) -> None:
    """Rates, and how many times as fast ours is; then what idling and sleeping cost, and the bars."""
    ours = figures.get("kohort", {})
    rates = [kind for kind in RATES if kind in kinds]
    costs = [kind for kind in COSTS if kind in kinds]
    if rates:
        head = " ".join(f"{kind:>8}" for kind in rates)
        print(f"{f'M records per CPU s, {codec}':<26} {head}   kohort is so many times ({records:,} records)")
        for name, found in figures.items():
            table = " ".join(f"{found[kind] / 1e6:8.3f}" if kind in found else " " * 8 for kind in rates)
            ratios = " ".join(
                f"{ours[kind] / found[kind]:6.2f}" if kind in found and kind in ours else " " * 6 for kind in rates
            )
            print(f"{name:<26} {table}   {ratios}", flush=True)
    if costs:
        print(f"{'':<26} " + " ".join(f"{COSTS[kind]:>12}" for kind in costs))
        for name, found in figures.items():
            print(f"{name:<26} " + " ".join(f"{found[kind]:12.3f}" if kind in found else " " * 12 for kind in costs))
    for line in filter(None, (bar.line(figures, kinds) for bar in BARS)):
        print(f"{codec:<5} {line}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
