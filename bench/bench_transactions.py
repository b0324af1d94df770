"""Transactions a second of our producers beside confluent-kafka's, against one broker in one run.

    python bench/bench_transactions.py [--peer] [--seconds N] [--rounds N] [--records N...]

Each client writes transactions of so many records of 100 bytes to two topics, one after the other, in a process of its
own: begin, send, commit. The broker is ours, in a process of its own with its log on disk; --peer measures Apache
Kafka, too. CPU is what the kernel booked to the client's process after its first transaction, all threads. The clients
take turns in each round, and each figure is the median of the rounds: judge by the ratios, not by the figures.

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
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.interop.kafka import running_kafka
from tests.interop.kohort import running_kohort

VALUE = b"v" * 100
TOPICS = 2

Started = Callable[[], object]
"""Called after the first transaction, from which on time and CPU count."""


async def asyncio_producer(bootstrap: str, topics: list[str], seconds: float, records: int, started: Started) -> int:
    """Our asyncio producer."""
    from kohort import Producer

    done = 0
    async with Producer(bootstrap_servers=bootstrap, transactional_id=uuid.uuid4().hex, linger_ms=0) as producer:
        async with producer.transaction():
            await producer.send(topics[0], VALUE)
        started()
        ends_at = time.monotonic() + seconds
        while time.monotonic() < ends_at:
            async with producer.transaction():
                for number in range(records):
                    await producer.send(topics[number % TOPICS], VALUE)
            done += 1
    return done


def blocking_producer(bootstrap: str, topics: list[str], seconds: float, records: int, started: Started) -> int:
    """Our blocking producer."""
    from kohort.blocking import Producer

    done = 0
    with Producer(bootstrap_servers=bootstrap, transactional_id=uuid.uuid4().hex, linger_ms=0) as producer:
        with producer.transaction():
            producer.send(topics[0], VALUE)
        started()
        ends_at = time.monotonic() + seconds
        while time.monotonic() < ends_at:
            with producer.transaction():
                for number in range(records):
                    producer.send(topics[number % TOPICS], VALUE)
            done += 1
    return done


def confluent_producer(bootstrap: str, topics: list[str], seconds: float, records: int, started: Started) -> int:
    """confluent-kafka's producer."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": uuid.uuid4().hex, "linger.ms": 0})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topics[0], VALUE)
    producer.commit_transaction(30)
    started()
    done, ends_at = 0, time.monotonic() + seconds
    while time.monotonic() < ends_at:
        producer.begin_transaction()
        for number in range(records):
            producer.produce(topics[number % TOPICS], VALUE)
        producer.commit_transaction(30)
        done += 1
    return done


CLIENTS: dict[str, Any] = {
    "kohort": asyncio_producer,
    "kohort.blocking": blocking_producer,
    "confluent-kafka": confluent_producer,
}


def measure_here(client: str, bootstrap: str, seconds: float, records: int, topics: list[str]) -> None:
    """In a process of its own: print transactions a second, and transactions per CPU second."""
    run = CLIENTS[client]
    begun: list[float] = []
    done = run(bootstrap, topics, seconds, records, lambda: begun.extend((time.monotonic(), time.process_time())))
    if asyncio.iscoroutine(done):
        done = asyncio.run(done)
    took, cpu = time.monotonic() - begun[0], time.process_time() - begun[1]
    print(json.dumps({"rate": done / took, "per_cpu": done / cpu}))


def measure(client: str, bootstrap: str, seconds: float, records: int, topics: list[str]) -> dict[str, float]:
    command = [sys.executable, __file__, "--here", client, bootstrap, str(seconds), str(records), *topics]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 60, check=False)
    if done.returncode:
        raise SystemExit(f"{client} failed:\n{done.stderr}")
    found: dict[str, float] = json.loads(done.stdout)
    return found


def make_topics(bootstrap: str) -> list[str]:
    from kohort import NewTopic, blocking

    names = [f"bench-{uuid.uuid4().hex[:8]}" for _ in range(TOPICS)]
    with blocking.Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(name, 1, 1) for name in names])
    return names


@contextlib.contextmanager
def brokers(*, peer: bool) -> Iterator[dict[str, str]]:
    """Bootstrap address by name."""
    with contextlib.ExitStack() as stack:
        found = {}
        for name, settings in (("Kohort", {}), ("Kohort, version 1", {"transaction_version": "1"})):
            place = stack.enter_context(tempfile.TemporaryDirectory(prefix="kohort-bench-"))
            found[name] = stack.enter_context(running_kohort("--data", place, **settings)).bootstrap
        if peer:
            found["Apache Kafka"] = stack.enter_context(running_kafka({})).bootstrap
        yield found


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure transactions.")
    parser.add_argument("--peer", action="store_true", help="measure Apache Kafka, too")
    parser.add_argument("--seconds", type=float, default=4.0, metavar="N", help="for each client and round")
    parser.add_argument("--rounds", type=int, default=3, metavar="N")
    parser.add_argument("--records", type=int, nargs="+", default=[10, 1_000], metavar="N", help="in a transaction")
    options = parser.parse_args()

    with brokers(peer=options.peer) as addresses:
        for broker, bootstrap in addresses.items():
            for records in options.records:
                figures: dict[str, list[dict[str, float]]] = defaultdict(list)
                topics = make_topics(bootstrap)
                for _ in range(options.rounds):
                    for client in CLIENTS:
                        figures[client].append(measure(client, bootstrap, options.seconds, records, topics))
                show(broker, records, figures)
    return 0


def show(broker: str, records: int, figures: dict[str, list[dict[str, float]]]) -> None:
    print(f"\n{broker}, {records:,} records in a transaction:")
    medians = {
        client: {kind: statistics.median(each[kind] for each in found) for kind in ("rate", "per_cpu")}
        for client, found in figures.items()
    }
    other = medians["confluent-kafka"]
    for client, found in medians.items():
        ratios = f"{found['rate'] / other['rate']:5.2f} and {found['per_cpu'] / other['per_cpu']:5.2f} times"
        print(
            f"  {client:<16} {found['rate']:8.0f} transactions/s {found['per_cpu']:8.0f} per CPU second"
            f"   {ratios} confluent-kafka"
        )
    sys.stdout.flush()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--here"]:
        client_, bootstrap_, seconds_, records_, *topics_ = sys.argv[2:]
        os.environ["PYTHONWARNINGS"] = "default"
        measure_here(client_, bootstrap_, float(seconds_), int(records_), topics_)
    else:
        sys.exit(main())
