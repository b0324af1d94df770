"""Records that were taken from the fetcher and not handed out yet."""

from collections import deque
from collections.abc import Iterable
from itertools import groupby

from kohort.client.consume.consumer_record import ConsumerRecord
from kohort.client.consume.partition_batch import PartitionBatch, PartitionValues
from kohort.model import TopicPartition


class UnreadRecords:
    """Queue of records that the application has not received, without those of paused partitions.

    The positions of their partitions are before them. Keys and values are bytes.
    """

    def __init__(self) -> None:
        self._records: deque[ConsumerRecord] = deque()
        self._held: dict[TopicPartition, list[ConsumerRecord]] = {}
        """Records of paused partitions."""

    def __bool__(self) -> bool:
        return bool(self._records)

    def extend(self, records: Iterable[ConsumerRecord]) -> None:
        """Append records."""
        self._records.extend(records)

    def put_back(self, records: list[ConsumerRecord]) -> None:
        """Insert records at the front, in this order."""
        self._records.extendleft(reversed(records))

    def pop(self) -> ConsumerRecord:
        """Remove and return the first record, which counts as handed out from then on."""
        return self._records.popleft()

    def take(self, most: int) -> list[ConsumerRecord]:
        """Remove and return up to `most` records from the front."""
        return [self._records.popleft() for _ in range(min(most, len(self._records)))]

    def take_columns(self, most: int) -> list[PartitionBatch]:
        """Remove and return up to `most` records from the front as Arrow batches."""
        from kohort.columns import to_columns

        runs = groupby(self.take(most), key=_partition)
        return [PartitionBatch(partition, to_columns(run)) for partition, run in runs]

    def take_values(self, most: int) -> list[PartitionValues]:
        """Remove up to `most` records from the front and return their values."""
        runs = groupby(self.take(most), key=_partition)
        return [PartitionValues(partition, [record.value for record in run]) for partition, run in runs]

    def hold(self, partition: TopicPartition) -> None:
        """Set the records of a partition aside until `release`."""
        held = [record for record in self._records if _partition(record) == partition]
        if held:
            self._records = deque(record for record in self._records if _partition(record) != partition)
            self._held[partition] = held

    def release(self, partition: TopicPartition) -> None:
        """Insert the records that were set aside at the front."""
        self.put_back(self._held.pop(partition, []))

    def forget(self, partitions: set[TopicPartition]) -> None:
        """Drop all records of these partitions."""
        for partition in partitions & self._held.keys():
            del self._held[partition]
        if self._records:
            self._records = deque(record for record in self._records if _partition(record) not in partitions)

    def first_offset(self, partition: TopicPartition) -> int | None:
        """Return the offset of the partition's first record, or None if there are none."""
        held = self._held.get(partition)
        if held:
            return held[0].offset
        return next((record.offset for record in self._records if _partition(record) == partition), None)


def _partition(record: ConsumerRecord) -> TopicPartition:
    return TopicPartition(record.topic, record.partition)
