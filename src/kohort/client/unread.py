"""Records that were taken for iteration and not handed out yet."""

from collections import deque
from collections.abc import Iterable
from itertools import groupby

from kohort.client.consumer_record import ConsumerRecord
from kohort.client.partition_batch import PartitionBatch
from kohort.model import TopicPartition


class Unread:
    """The application has not seen them: their partitions' positions are before them."""

    def __init__(self) -> None:
        self._records: deque[ConsumerRecord] = deque()

    def __bool__(self) -> bool:
        return bool(self._records)

    def extend(self, records: Iterable[ConsumerRecord]) -> None:
        """Put these behind the others."""
        self._records.extend(records)

    def pop(self) -> ConsumerRecord:
        """The first, which counts as handed out from now on."""
        return self._records.popleft()

    def take(self, most: int) -> list[ConsumerRecord]:
        """Up to `most` of the first."""
        return [self._records.popleft() for _ in range(min(most, len(self._records)))]

    def take_columns(self, most: int) -> list[PartitionBatch]:
        """As `take`, as columns."""
        from kohort.columns.schema import to_columns

        runs = groupby(self.take(most), key=lambda record: TopicPartition(record.topic, record.partition))
        return [PartitionBatch(partition, to_columns(list(run))) for partition, run in runs]

    def forget(self, partitions: set[TopicPartition]) -> None:
        """Hand out none of these partitions."""
        if self._records:
            kept = [one for one in self._records if TopicPartition(one.topic, one.partition) not in partitions]
            self._records = deque(kept)

    def first_offset(self, partition: TopicPartition) -> int | None:
        """Of the first record of that partition; None for none."""
        return next((one.offset for one in self._records if (one.topic, one.partition) == partition), None)
