"""Records that were taken from the fetcher and not handed out yet."""

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import groupby, islice
from operator import length_hint

from kohort.client.consume.consumer_record import ConsumerRecord
from kohort.client.consume.partition_batch import PartitionBatch, PartitionValues
from kohort.model import TopicPartition

Run = list[ConsumerRecord]
"""Records of one partition. It is never empty when it is added."""


class UnreadRecords:
    """Queue of records that the application has not received, without those of paused partitions.

    The positions of their partitions are before them. Keys and values are bytes.

    An iteration takes records from `ready` without a call of a method for each: positions are
    computed from what is left, when they are needed.
    """

    __slots__ = ("_held", "_run", "_runs", "ready")

    def __init__(self) -> None:
        self._run: Run = []
        self.ready: Iterator[ConsumerRecord] = iter(self._run)
        """Iterator over the first run. A record that it returns counts as handed out.

        `next_run` replaces it once it is exhausted, and other methods end it.
        """
        self._runs: deque[Run] = deque()
        """Runs that follow."""
        self._held: dict[TopicPartition, list[Run]] = {}
        """Runs of paused partitions."""

    def __bool__(self) -> bool:
        return bool(self._runs) or length_hint(self.ready) > 0

    def extend(self, runs: Iterable[Run]) -> None:
        """Append runs."""
        self._runs.extend(runs)

    def put_back(self, records: Iterable[ConsumerRecord]) -> None:
        """Insert records at the front, in this order."""
        self._insert([list(run) for _, run in groupby(records, key=_partition)])

    def _insert(self, runs: list[Run]) -> None:
        self._end_run()
        self._runs.extendleft(reversed(runs))

    def next_run(self) -> bool:
        """Continue with the next run if the first one is exhausted. Return whether `ready` has records."""
        if length_hint(self.ready):
            return True
        if not self._runs:
            return False
        self._run = self._runs.popleft()
        self.ready = iter(self._run)
        return True

    def _end_run(self) -> None:
        """Exhaust `ready`, which others may hold, and make the rest of its run the next one."""
        rest = self._run[len(self._run) - length_hint(self.ready) :]
        self._run.clear()
        if rest:
            self._runs.appendleft(rest)

    def last_handed_out(self) -> ConsumerRecord | None:
        """Return the last record of the first run that was handed out, or None."""
        handed_out = len(self._run) - length_hint(self.ready)
        return self._run[handed_out - 1] if handed_out else None

    def pop(self) -> ConsumerRecord | None:
        """Remove and return the first record, which counts as handed out from then on; None if there is none."""
        return next(self.ready) if self.next_run() else None

    def take(self, most: int) -> list[ConsumerRecord]:
        """Remove and return up to `most` records from the front."""
        taken: list[ConsumerRecord] = []
        while len(taken) < most and self.next_run():
            taken += islice(self.ready, most - len(taken))
        return taken

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
        if held := self._remove({partition}):
            self._held[partition] = held

    def release(self, partition: TopicPartition) -> None:
        """Insert the records that were set aside at the front."""
        if held := self._held.pop(partition, None):
            self._insert(held)

    def forget(self, partitions: set[TopicPartition]) -> None:
        """Drop all records of these partitions."""
        for partition in partitions & self._held.keys():
            del self._held[partition]
        self._remove(partitions)

    def _remove(self, partitions: set[TopicPartition]) -> list[Run]:
        if self._run and _partition(self._run[0]) in partitions:
            self._end_run()
        removed = [run for run in self._runs if _partition(run[0]) in partitions]
        if removed:
            self._runs = deque(run for run in self._runs if _partition(run[0]) not in partitions)
        return removed

    def first_offset(self, partition: TopicPartition) -> int | None:
        """Return the offset of the partition's first record, or None if there are none."""
        if held := self._held.get(partition):
            return held[0][0].offset
        left = length_hint(self.ready)
        if left and _partition(self._run[0]) == partition:
            return self._run[-left].offset
        return next((run[0].offset for run in self._runs if _partition(run[0]) == partition), None)


def _partition(record: ConsumerRecord) -> TopicPartition:
    return TopicPartition(record.topic, record.partition)
