"""Unpacking of fetched bytes into records in plain Python, batch by batch on demand."""

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from kohort.client.consume.consumer_record import ConsumerRecord, TimestampType
from kohort.model import TopicPartition
from kohort.wire.batches import BatchHeader, Buffer, Record, batches, decode_records
from kohort.wire.messages.fetch import AbortedTransaction

if TYPE_CHECKING:
    import pyarrow as pa


class Unpacked(Protocol):
    """Records of one partition in order, available as objects or as columns."""

    next_offset: int
    """Offset after the last record handed out."""

    @property
    def leader_epoch(self) -> int | None:
        """Leader epoch of the last record handed out."""

    @property
    def left(self) -> int:
        """Number of records not handed out."""

    def records(self, most: int) -> list[ConsumerRecord]:
        """Hand out up to `most` of the next records."""

    def columns(self, most: int) -> "pa.RecordBatch":
        """Hand out up to `most` of the next records with the columns of `kohort.columns.schema`."""


class Chunk(Protocol):
    """Bytes that one Fetch response contains for a partition."""

    size: int
    """Size in bytes."""
    next_offset: int | None
    """Offset after the last whole batch; None if there is none."""
    last_epoch: int | None
    """Leader epoch of the last whole batch."""

    def unpack(self, position: int) -> Unpacked | None:
        """Return the next records from `position` that an application may see; None if there are none.

        Raises BatchError, a KafkaError, for bytes that are not a valid batch.
        """


class PlainChunk:
    """Chunk that is unpacked by `decode_records`."""

    def __init__(
        self, partition: TopicPartition, data: Buffer, aborted: Sequence[AbortedTransaction], *, check_crc: bool
    ) -> None:
        self.size = len(data)
        self.next_offset: int | None = None
        self.last_epoch: int | None = None
        for _, header in batches(data):
            self.next_offset, self.last_epoch = header.next_offset, _known(header.leader_epoch)
        self._partition = partition
        self._data = data
        self._batches = batches(data)
        self._check_crc = check_crc
        self._aborted = deque(sorted(aborted, key=lambda transaction: transaction.first_offset))
        self._aborting: set[int] = set()
        """Producers whose transactional records are aborted from here until their control marker."""

    def unpack(self, position: int) -> Unpacked | None:
        for at, header in self._batches:
            if header.next_offset <= position or self._hides(header):
                continue
            records = decode_records(self._data, at, check_crc=self._check_crc)
            if records and records[0].offset < position:
                records = [record for record in records if record.offset >= position]
            if records:
                return PlainRecords(self._partition, records, header)
        return None

    def _hides(self, header: BatchHeader) -> bool:
        """Return whether a batch has no records for the application.

        A control batch has none; with read_committed, neither has an aborted batch.
        """
        while self._aborted and self._aborted[0].first_offset <= header.last_offset:
            self._aborting.add(self._aborted.popleft().producer_id)
        if header.is_control:
            self._aborting.discard(header.producer_id)
            return True
        return header.is_transactional and header.producer_id in self._aborting


def _known(epoch: int) -> int | None:
    return None if epoch < 0 else epoch


class PlainRecords:
    """Records of one batch."""

    __slots__ = ("_partition", "_records", "_timestamp_type", "leader_epoch", "next_offset")

    def __init__(self, partition: TopicPartition, records: list[Record], header: BatchHeader) -> None:
        assert records
        self.leader_epoch = _known(header.leader_epoch)
        self._timestamp_type = TimestampType(header.is_log_append_time)
        self.next_offset = records[0].offset
        self._partition = partition
        self._records = records
        records.reverse()  # the next record is last, so that removing some does not move the others

    @property
    def left(self) -> int:
        return len(self._records)

    def records(self, most: int) -> list[ConsumerRecord]:
        records = self._records
        some = records[: -most - 1 : -1]
        del records[-len(some) :]
        self.next_offset = some[-1].offset + 1
        topic, partition = self._partition
        kind, epoch = self._timestamp_type, self.leader_epoch
        new = tuple.__new__
        return [
            new(ConsumerRecord, (topic, partition, offset, timestamp, key, value, headers, kind, epoch))
            for offset, timestamp, key, value, headers in some
        ]

    def columns(self, most: int) -> "pa.RecordBatch":
        from kohort.columns import to_columns

        return to_columns(self.records(most))
