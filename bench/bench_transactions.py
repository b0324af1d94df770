"""Cost of transactions: that of the brokers, Kohort and Apache Kafka, and that of the clients, in one run.

    python bench/bench_transactions.py [--peer] [--seconds N] [--rounds N] [--cases RECORDSxBYTES...] [--producers N]

Each client writes transactions of so many records of so many bytes to two topics in a process of its own: begin, send,
flush, commit. With --producers, that process has several producers at once. The brokers run beside each other with
their logs on disk; --peer adds Apache Kafka with the JVM options of its own start script. Clients and brokers take
turns in each round, the first round is only for warming up, and each figure is the median of the others. CPU is what
the kernel booked after the first transaction to the process of the broker, or of the client, with all threads and child
processes. The latency of a commit is that of the call alone, after a flush. Judge by the ratios, not by the figures.

Apache Kafka does not sync its log to disk before it acknowledges; Kohort does.

confluent-kafka (librdkafka) has the protocol before KIP-890, so it adds each partition by a request of its own.
"kohort, version 1" is ours under the same protocol.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.interop.kafka import PRODUCTION, running_kafka
from tests.interop.kohort import running_kohort

TOPICS = 2
Figures = dict[str, float]


@dataclass
class Run:
    """What one client does, and what it notes."""

    client: str
    bootstrap: str
    broker: int
    """Process id of the broker."""
    seconds: float
    records: int
    size: int
    producers: int
    topics: list[str]
    commits: list[float] = field(default_factory=list)
    """Latency of each commit, in seconds."""
    began: tuple[float, float, float] | None = None

    def start(self) -> float:
        """Note time and CPU after the first transactions; return when to end."""
        if self.began is None:
            self.began = time.monotonic(), time.process_time(), cpu_seconds(self.broker)
        return self.began[0] + self.seconds

    def measured(self) -> Figures:
        assert self.began is not None
        took = time.monotonic() - self.began[0]
        client, broker = time.process_time() - self.began[1], cpu_seconds(self.broker) - self.began[2]
        done = len(self.commits)
        return {
            "rate": done / took,
            "mb": done * self.records * self.size / 1e6 / took,
            "per_client_cpu": done / client,
            "per_broker_cpu": done / broker,
            "mb_per_broker_cpu": done * self.records * self.size / 1e6 / broker,
            "p50": statistics.quantiles(self.commits, n=100)[49] * 1000,
            "p99": statistics.quantiles(self.commits, n=100)[98] * 1000,
        }


def cpu_seconds(process: int) -> float:
    """User and system time so far of a process, its threads, and the children that it has or had."""
    parents: dict[int, list[tuple[int, float]]] = defaultdict(list)
    own = 0.0
    for file in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            fields = file.read_text().rpartition(")")[2].split()
            ticks = sum(int(each) for each in fields[11:15]) / os.sysconf("SC_CLK_TCK")
            if int(file.parent.name) == process:
                own = ticks
            parents[int(fields[1])].append((int(file.parent.name), ticks))
    below = [process]
    for each in below:
        for child, ticks in parents[each]:
            own += ticks
            below.append(child)
    return own


async def asyncio_producer(run: Run) -> None:
    """Our asyncio producer."""
    from kohort import Producer

    value = os.urandom(run.size)
    async with Producer(bootstrap_servers=run.bootstrap, transactional_id=uuid.uuid4().hex, linger_ms=0) as producer:
        async with producer.transaction():
            await producer.send(run.topics[0], value)
        ends_at = run.start()
        while time.monotonic() < ends_at:
            producer.begin_transaction()
            for number in range(run.records):
                await producer.send(run.topics[number % TOPICS], value)
            await producer.flush()
            asked_at = time.monotonic()
            await producer.commit_transaction()
            run.commits.append(time.monotonic() - asked_at)


def blocking_producer(run: Run) -> None:
    """Our blocking producer."""
    from kohort.blocking import Producer

    value = os.urandom(run.size)
    with Producer(bootstrap_servers=run.bootstrap, transactional_id=uuid.uuid4().hex, linger_ms=0) as producer:
        with producer.transaction():
            producer.send(run.topics[0], value)
        ends_at = run.start()
        while time.monotonic() < ends_at:
            producer.begin_transaction()
            for number in range(run.records):
                producer.send(run.topics[number % TOPICS], value)
            producer.flush()
            asked_at = time.monotonic()
            producer.commit_transaction()
            run.commits.append(time.monotonic() - asked_at)


def confluent_producer(run: Run) -> None:
    """confluent-kafka's producer."""
    from confluent_kafka import Producer

    value = os.urandom(run.size)
    producer = Producer({"bootstrap.servers": run.bootstrap, "transactional.id": uuid.uuid4().hex, "linger.ms": 0})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(run.topics[0], value)
    producer.commit_transaction(30)
    ends_at = run.start()
    while time.monotonic() < ends_at:
        producer.begin_transaction()
        for number in range(run.records):
            producer.produce(run.topics[number % TOPICS], value)
        assert producer.flush(30) == 0
        asked_at = time.monotonic()
        producer.commit_transaction(30)
        run.commits.append(time.monotonic() - asked_at)


CLIENTS: dict[str, Callable[[Run], Any]] = {
    "kohort": asyncio_producer,
    "kohort.blocking": blocking_producer,
    "confluent-kafka": confluent_producer,
}


def measure_here(run: Run) -> None:
    """In a process of its own: run the client, and print its figures."""
    produce = CLIENTS[run.client]
    if asyncio.iscoroutinefunction(produce):
        asyncio.run(_at_once(run, produce))
    else:
        threads = [threading.Thread(target=produce, args=(run,)) for _ in range(run.producers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    print(json.dumps(run.measured()))


async def _at_once(run: Run, produce: Callable[[Run], Any]) -> None:
    async with asyncio.TaskGroup() as tasks:
        for _ in range(run.producers):
            tasks.create_task(produce(run))


def measure(run: Run) -> Figures:
    command = [sys.executable, __file__, "--here", json.dumps(asdict(run))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=run.seconds + 60, check=False)
    if done.returncode or not done.stdout:
        raise SystemExit(f"{run.client} failed:\n{done.stderr}")
    found: Figures = json.loads(done.stdout)
    return found


def make_topics(bootstrap: str) -> list[str]:
    from kohort import NewTopic, blocking

    names = [f"bench-{uuid.uuid4().hex[:8]}" for _ in range(TOPICS)]
    with blocking.Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(name, 1, 1) for name in names])
    return names


@contextlib.contextmanager
def brokers(*, peer: bool) -> Iterator[dict[str, tuple[str, int]]]:
    """Bootstrap address and process id by name."""
    with contextlib.ExitStack() as stack:
        found = {}
        for name, settings in (("Kohort", {}), ("Kohort, version 1", {"transaction_version": "1"})):
            place = stack.enter_context(tempfile.TemporaryDirectory(prefix="kohort-bench-"))
            ours = stack.enter_context(running_kohort("--data", place, **settings))
            found[name] = ours.bootstrap, ours.pid
        if peer:
            kafka = stack.enter_context(running_kafka({}, jvm=PRODUCTION))
            found["Apache Kafka"] = kafka.bootstrap, kafka.pid
        yield found


def case(text: str) -> tuple[int, int]:
    records, _, size = text.partition("x")
    return int(records), int(size)


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure transactions.")
    parser.add_argument("--peer", action="store_true", help="measure Apache Kafka, too")
    parser.add_argument("--seconds", type=float, default=4.0, metavar="N", help="for each client, broker and round")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="after the one for warming up")
    parser.add_argument(
        "--cases",
        type=case,
        nargs="+",
        default=[(10, 100), (1_000, 1_000)],
        metavar="RECORDSxBYTES",
        help="size of each transaction",
    )
    parser.add_argument(
        "--clients",
        nargs="+",
        default=list(CLIENTS),
        choices=list(CLIENTS),
        metavar="NAME",
        help=f"of {', '.join(CLIENTS)}",
    )
    parser.add_argument("--producers", type=int, default=1, metavar="N", help="at once, in each client's process")
    options = parser.parse_args()

    with brokers(peer=options.peer) as running:
        for records, size in options.cases:
            figures: dict[tuple[str, str], list[Figures]] = defaultdict(list)
            topics = {broker: make_topics(bootstrap) for broker, (bootstrap, _) in running.items()}
            for number in range(options.rounds + 1):
                for broker, (bootstrap, pid) in running.items():
                    for client in options.clients:
                        # A JVM compiles what is hot.
                        seconds = options.seconds * (1 if number else 2)
                        run = Run(client, bootstrap, pid, seconds, records, size, options.producers, topics[broker])
                        found = measure(run)
                        if number > 0:
                            figures[broker, client].append(found)
            print(f"\n{records:,} records of {size:,} bytes in a transaction, {options.producers} producers at once:")
            show(figures)
    return 0


def show(figures: dict[tuple[str, str], list[Figures]]) -> None:
    medians = {
        key: {kind: statistics.median(each[kind] for each in found) for kind in found[0]}
        for key, found in figures.items()
    }
    print(
        f"  {'':34}{'per second':^18}{'per CPU s of broker':^20}{'of client':^10}{'commit, ms':^16}"
        f"{'ratios per second and per CPU second to':>46}"
        f"\n  {'broker':<18}{'client':<16}{'':>9}{'MB':>9}{'':>10}{'MB':>10}{'':>10}{'p50':>8}{'p99':>8}"
        f"{'confluent (its CPU)':>23}{'Kafka (broker CPU)':>23}"
    )
    for (broker, client), found in medians.items():
        same, peer = medians.get((broker, "confluent-kafka")), medians.get(("Apache Kafka", client))
        print(
            f"  {broker:<18}{client:<16}{found['rate']:9,.0f}{found['mb']:9.1f}{found['per_broker_cpu']:10,.0f}"
            f"{found['mb_per_broker_cpu']:10.1f}{found['per_client_cpu']:10,.0f}{found['p50']:8.2f}{found['p99']:8.2f}"
            f"{ratios(found, same, 'rate', 'per_client_cpu'):>23}{ratios(found, peer, 'rate', 'per_broker_cpu'):>23}"
        )
    sys.stdout.flush()


def ratios(found: Figures, other: Figures | None, *kinds: str) -> str:
    return "" if other is None or other is found else ", ".join(f"{found[kind] / other[kind]:.2f}" for kind in kinds)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--here"]:
        os.environ["PYTHONWARNINGS"] = "default"
        measure_here(Run(**json.loads(sys.argv[2])))
    else:
        sys.exit(main())
