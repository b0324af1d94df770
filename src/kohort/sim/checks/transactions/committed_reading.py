"""Check of what read_committed readers get: no record of an open or aborted transaction, and all others (S23)."""

from __future__ import annotations

from collections.abc import Iterator

from kohort.client import ConsumerRecord
from kohort.model import TopicPartition
from kohort.sim.checks.transactions.logs import TransactionalLog, TransactionalLogs
from kohort.sim.violation import Violation


class CommittedReading:
    """Progress of one reader that reads each partition from its beginning."""

    def __init__(self, name: str, logs: TransactionalLogs) -> None:
        self._name = name
        self._logs = logs
        self._next: dict[TopicPartition, int] = {}

    def was_delivered(self, record: ConsumerRecord) -> None:
        """Check a record that the reader got."""
        partition = TopicPartition(record.topic, record.partition)
        who = f"{self._name} read {record.offset} of {partition}"
        log, value = self._log(partition), bytes(record.value or b"")
        if record.offset in log.aborted:
            raise Violation("S23", f"{who}: {value!r}, whose transaction was aborted")
        if log.committed.get(record.offset) != value:
            raise Violation("S23", f"{who}: {value!r}, whose transaction is open, or which is not in the log")
        start = self._next.get(partition, 0)
        if record.offset < start:
            raise Violation("S23", f"{who}, but the next offset is {start}")
        skipped = [offset for offset in range(start, record.offset) if offset in log.committed]
        if skipped:
            raise Violation("S23", f"{who}, but not {skipped[0]}, whose transaction was committed")
        self._next[partition] = record.offset + 1

    def unread(self) -> str:
        """Return a description of a committed record that the reader has not got, or ""."""
        for partition, offsets in self._left():
            if offsets:
                return f"{self._name} has not read {min(offsets)} of {partition}"
        return ""

    def left(self) -> int:
        """Return the number of committed records that the reader has not got."""
        return sum(len(offsets) for _, offsets in self._left())

    def _left(self) -> Iterator[tuple[TopicPartition, list[int]]]:
        for place, log in self._logs.logs.items():
            partition = self._logs.names[place]
            yield partition, [offset for offset in log.committed if offset >= self._next.get(partition, 0)]

    def _log(self, partition: TopicPartition) -> TransactionalLog:
        places = [place for place, name in self._logs.names.items() if name == partition]
        return self._logs.logs[places[0]] if places else TransactionalLog()
