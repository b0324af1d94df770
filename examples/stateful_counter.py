"""Count records per key, in memory. A member restores the counts of a new partition from a topic.

    python examples/stateful_counter.py orders orders-counts [--bootstrap HOST:PORT] [--max N]

The counts of partition p are the records of partition p of the second topic, which has as many partitions and is
compacted. A member writes its counts before it releases a partition. Cooperative rebalances keep all other partitions.
"""

import argparse
import asyncio
from collections import Counter

from kohort import Consumer, Producer, TopicPartition


class Counts:
    """Counts of one partition, and the keys whose counts changed since they were written."""

    def __init__(self) -> None:
        self.of: Counter[bytes] = Counter()
        self.changed: set[bytes] = set()

    def add(self, key: bytes) -> None:
        self.of[key] += 1
        self.changed.add(key)


class StatefulCounter:
    """Counter of the records of a topic; `run` ends after `most` records."""

    def __init__(self, source: str, changelog: str, bootstrap: str) -> None:
        self.source, self.changelog, self.bootstrap = source, changelog, bootstrap
        self.counts: dict[TopicPartition, Counts] = {}

    async def run(self, most: int | None) -> None:
        async with Producer(bootstrap_servers=self.bootstrap) as self.producer:
            async with Consumer(
                bootstrap_servers=self.bootstrap,
                group_id=f"{self.source}-counter",
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                partition_assignment_strategy="cooperative-sticky",
            ) as self.consumer:
                self.consumer.subscribe(
                    [self.source], on_assigned=self.restore, on_revoked=self.give_up, on_lost=self.forget
                )
                counted = 0
                while most is None or counted < most:
                    records = await self.consumer.poll(timeout=0.5)
                    for record in records:
                        self.counts[TopicPartition(record.topic, record.partition)].add(record.key or b"")
                    counted += len(records)
                    if counted and not records:  # a quiet moment
                        await self.write(frozenset(self.counts))

    async def restore(self, partitions: frozenset[TopicPartition]) -> None:
        """Read the counts of new partitions; their records wait until that is done."""
        self.counts.update((partition, Counts()) for partition in partitions)
        if not partitions:
            return
        async with Consumer(bootstrap_servers=self.bootstrap, auto_offset_reset="earliest") as changes:
            changes.assign(TopicPartition(self.changelog, partition.partition) for partition in partitions)
            ends = await changes.end_offsets(changes.assignment)
            behind = {partition for partition, end in ends.items() if await changes.position(partition) < end}
            while behind:
                for record in await changes.poll(timeout=0.1):
                    counts = self.counts[TopicPartition(self.source, record.partition)]
                    counts.of[record.key or b""] = int(record.value or b"0")
                behind = {partition for partition in behind if changes.positions()[partition] < ends[partition]}

    async def write(self, partitions: frozenset[TopicPartition]) -> None:
        """Write the changed counts, then commit: a crash in between counts some records twice and loses none."""
        positions = self.consumer.positions()
        for partition in partitions:
            counts = self.counts[partition]
            for key in counts.changed:
                value = b"%d" % counts.of[key]
                await self.producer.send(self.changelog, value, key=key, partition=partition.partition)
            counts.changed.clear()
        await self.producer.flush()
        await self.consumer.commit(
            {partition: positions[partition] for partition in partitions if partition in positions}
        )

    async def give_up(self, partitions: frozenset[TopicPartition]) -> None:
        await self.write(partitions)
        await self.forget(partitions)

    async def forget(self, partitions: frozenset[TopicPartition]) -> None:
        for partition in partitions:
            self.counts.pop(partition, None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source")
    parser.add_argument("changelog", help="with as many partitions as the source, cleanup.policy=compact")
    parser.add_argument("--bootstrap", default="127.0.0.1:9092")
    parser.add_argument("--max", type=int, help="number of records after which the program ends")
    options = parser.parse_args()
    asyncio.run(StatefulCounter(options.source, options.changelog, options.bootstrap).run(options.max))


if __name__ == "__main__":
    main()
