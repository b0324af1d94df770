"""Stream of one topic's records, from a time on, through changes of leaders and of the topic itself."""

from collections.abc import Mapping
from typing import Any

from kohort.client import Admin, Consumer, ConsumerRecord, ErrorCode, KafkaError, PartitionBatch
from kohort.model import Millis, TopicPartition
from kohort.watch.source.clients import columns_are_installed, log_consumer

OFFSETS_TOPIC = "__consumer_offsets"

_MUCH = 100_000
"""Number of records from which loading compiled code takes less time than it saves."""

Ends = Mapping[TopicPartition, int]


class LogStream:
    """Records of all partitions of a topic. `open` it first, and `close` it last.

    The client follows changes of leaders. Where the log was truncated, the stream goes on at the
    first record that differs; where its start moved, at the new start.
    """

    def __init__(self, topic: str, options: Mapping[str, Any], admin: Admin) -> None:
        self.topic = topic
        self._admin = admin
        self._consumer: Consumer = log_consumer(options)
        self._much: Ends = {}
        """Ends of a history that is so long that reading it as columns pays; empty once it is read."""
        self._partitions: list[TopicPartition] = []

    async def close(self) -> None:
        """End reading."""
        await self._consumer.close()

    async def open(self, since: Millis | None) -> bool:
        """Start at the first records at or after a time; with None, at the end.

        Returns False if there is no such topic. Raises KafkaError if it may not be read.
        """
        partitions = await self._existing()
        if not partitions:
            return False
        # The ends first: a record that is written between the two questions must not be lost.
        ends = await self._consumer.end_offsets(partitions)
        found = {} if since is None else await self._consumer.offsets_for_times(dict.fromkeys(partitions, since))
        starts = dict(ends)
        for partition, first in found.items():
            if first is not None:
                starts[partition] = first.offset
        self._consumer.assign(partitions)
        for partition in partitions:
            self._consumer.seek(partition, starts[partition])
        has_much = sum(ends.values()) - sum(starts.values()) >= _MUCH and columns_are_installed()
        self._much = ends if has_much else {}
        if has_much:  # load the compiled code before the first fetch, which plain Python would decode
            self._consumer.pause(partitions)
            await self._consumer.poll_batches(1, 0.0)
            self._consumer.resume(partitions)
        self._partitions = partitions
        return True

    def has_much(self) -> bool:
        """Return whether the stream is in a history that is so long that reading it as columns pays."""
        # A read without records proves nothing: a busy broker may take longer than a read waits.
        if self._much and not self.behind(self._much):
            self._much = {}
        return bool(self._much)

    async def add_partitions(self) -> None:
        """Read new partitions of the topic from their beginning. Raises KafkaError."""
        new = [partition for partition in await self._existing() if partition not in self._partitions]
        self._consumer.incremental_assign(new)
        self._partitions += new

    async def _existing(self) -> list[TopicPartition]:
        try:
            known = (await self._admin.describe_topics([self.topic]))[self.topic]
        except KafkaError as problem:
            if problem.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                return []
            raise
        return [TopicPartition(self.topic, number) for number in sorted(known.leaders)]

    async def read(self, most: int, timeout: float) -> list[ConsumerRecord]:  # noqa: ASYNC109
        """Return the next records, or none after `timeout` seconds. After a KafkaError, it can be called again."""
        return await self._consumer.poll(most, timeout)

    async def read_columns(self, most: int, timeout: float) -> list[PartitionBatch]:  # noqa: ASYNC109
        """Do as `read`, with columns. Requires the extra `fast`."""
        return await self._consumer.poll_batches(most, timeout)

    async def probe(self, timeout: float) -> None:  # noqa: ASYNC109
        """Wait for a record, or for `timeout` seconds. `read` returns it. Raises KafkaError if it may not be read."""
        self._consumer.put_back(await self._consumer.poll(1, timeout))

    async def ends(self) -> Ends:
        """Return the offsets up to which records can be read now. Raises KafkaError."""
        return await self._consumer.end_offsets(self._partitions) if self._partitions else {}

    def positions(self) -> Ends:
        """Return the offset of the next record of each partition whose position is known."""
        return self._consumer.positions()

    def behind(self, ends: Ends) -> bool:
        """Return whether records before these offsets are unread."""
        positions = self.positions()
        return any(positions.get(partition, -1) < end for partition, end in ends.items())
