"""Records that were taken for iteration and not handed out yet."""

from collections import deque
from collections.abc import Iterable
from itertools import groupby

from kohort.client.consume.consumer_record import ConsumerRecord
from kohort.client.consume.partition_batch import PartitionBatch
from kohort.model import TopicPartition


class UnreadRecords:
    """Queue of records that the application has not received.

    The positions of their partitions are before them.
    """

    def __init__(self) -> None:
        self._records: deque[ConsumerRecord] = deque()

    def __bool__(self) -> bool:
        return bool(self._records)

    def extend(self, records: Iterable[ConsumerRecord]) -> None:
        """Append records."""
        self._records.extend(records)

    def pop(self) -> ConsumerRecord:
        """Remove and return the first record, which counts as handed out from then on."""
        return self._records.popleft()

    def take(self, most: int) -> list[ConsumerRecord]:
        """Remove and return up to `most` records from the front."""
        return [self._records.popleft() for _ in range(min(most, len(self._records)))]

    def take_columns(self, most: int) -> list[PartitionBatch]:
        """Remove and return up to `most` records from the front as Arrow batches."""
        from kohort.columns import to_columns

        runs = groupby(self.take(most), key=lambda record: TopicPartition(record.topic, record.partition))
        return [PartitionBatch(partition, to_columns(list(run))) for partition, run in runs]

    def forget(self, partitions: set[TopicPartition]) -> None:
        """Drop all records of these partitions."""
        if self._records:
            kept = [
                record for record in self._records if TopicPartition(record.topic, record.partition) not in partitions
            ]
            self._records = deque(kept)

    def first_offset(self, partition: TopicPartition) -> int | None:
        """Return the offset of the partition's first record, or None if there are none."""
        return next((record.offset for record in self._records if (record.topic, record.partition) == partition), None)
