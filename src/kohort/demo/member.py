"""Member process of the group `delays`, which counts flights and delays per carrier, each flight exactly once.

The counts of a partition are stored in the metadata of its commit, so position and result change
together. The partition's next owner continues from both, even if this process was killed.
"""

import argparse
import asyncio
import json
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kohort.client import Consumer
from kohort.demo.flights import Tally, count
from kohort.demo.processes import read_client_options
from kohort.errors import KafkaError
from kohort.member import OffsetAndMetadata
from kohort.model import TopicPartition

_COMMIT_EVERY_S = 0.5
_BATCH = 500

Tallies = dict[str, Tally]


def pack(tallies: Tallies) -> str:
    """Return the counts as commit metadata; 16 carriers take about 300 of the 4,096 bytes available."""
    lines = {carrier: [tally.flights, tally.arrival_delay] for carrier, tally in tallies.items()}
    return json.dumps(lines, separators=(",", ":"))


def unpack(metadata: str) -> Tallies:
    """Return the counts of a commit; empty if nothing is committed yet."""
    return {carrier: Tally(*line) for carrier, line in json.loads(metadata or "{}").items()}


class Counter:
    """Counts and positions of this member's partitions."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._tallies: dict[TopicPartition, Tallies] = {}
        self._positions: dict[TopicPartition, int] = {}
        self.read = 0

    async def take(self, partitions: frozenset[TopicPartition]) -> None:
        """Continue where the last owner stopped."""
        committed = await self._consumer.committed(partitions)
        for partition, position in committed.items():
            self._tallies[partition] = unpack(position.metadata if position else "")

    async def give_up(self, partitions: frozenset[TopicPartition]) -> None:
        """Commit before the partitions are revoked, so that the next owner does not count these flights again."""
        await self.commit(partitions)
        self.lose(partitions)

    def lose(self, partitions: frozenset[TopicPartition]) -> None:
        """Discard the uncommitted counts of lost partitions: others may own them already and count these flights."""
        for partition in partitions:
            self._tallies.pop(partition, None)
            self._positions.pop(partition, None)

    async def commit(self, partitions: frozenset[TopicPartition] | None = None) -> None:
        """Commit the positions and counts that have changed, of these partitions or of all."""
        moved = self._positions.keys() if partitions is None else self._positions.keys() & partitions
        offsets = {p: OffsetAndMetadata(self._positions[p], pack(self._tallies[p])) for p in moved}
        if offsets:
            await self._consumer.commit(offsets)
            for partition, position in offsets.items():
                if self._positions.get(partition) == position.offset:
                    del self._positions[partition]

    async def process(self) -> int:
        """Poll once, count the flights, and return their number."""
        records = await self._consumer.poll(max_records=_BATCH, timeout=0.1)
        for record in records:
            partition = TopicPartition(record.topic, record.partition)
            flight = json.loads(record.value or b"{}")
            count(self._tallies[partition], flight["carrier"], flight["arr_delay"])
            self._positions[partition] = record.offset + 1
        self.read += len(records)
        return len(records)


async def run(bootstrap: str, group: str, client_id: str, topic: str, rate: int, options: Mapping[str, Any]) -> int:
    """Count until SIGTERM, at most `rate` flights per second. `options` are those of a client."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with Consumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        client_id=client_id,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        partition_assignment_strategy="cooperative-sticky",
        heartbeat_interval_ms=500,
        **options,
    ) as consumer:
        counter = Counter(consumer)
        consumer.subscribe([topic], on_assigned=counter.take, on_revoked=counter.give_up, on_lost=counter.lose)
        due = committed_at = time.monotonic()
        while not stop.is_set():
            counted = await counter.process()
            if (now := time.monotonic()) - committed_at >= _COMMIT_EVERY_S:
                committed_at = now
                await _commit(counter)
            # The rate is limited so that members can be seen to join and leave.
            due = max(due + counted / rate, now - 0.1)
            await asyncio.sleep(max(0.0, due - now))
        await _commit(counter)
        sys.stdout.write(json.dumps({"client_id": client_id, "read": counter.read}) + "\n")
    return 0


async def _commit(counter: Counter) -> None:
    try:
        await counter.commit()
    except KafkaError as error:
        # During a rebalance, the callbacks commit what is revoked, and the next round commits the rest.
        if not error.retriable and error.code.name not in ("REBALANCE_IN_PROGRESS", "ILLEGAL_GENERATION"):
            raise


def main() -> int:
    """Run the member with the arguments of the command line; return its exit code."""
    parser = argparse.ArgumentParser(description="One member of the demo's group.")
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--group", required=True)
    parser.add_argument("--client-id", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--rate", type=int, required=True)
    parser.add_argument("--command-config", type=Path)
    given = parser.parse_args()
    options = read_client_options(given.command_config)
    try:
        return asyncio.run(run(given.bootstrap, given.group, given.client_id, given.topic, given.rate, options))
    except KafkaError as error:
        sys.stderr.write(f"{error}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main())
