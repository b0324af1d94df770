"""Unpacking of fetched bytes into records in plain Python, batch by batch on demand."""

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from kohort.client.consume.consumer_record import ConsumerRecord, TimestampType
from kohort.model import TopicPartition
from kohort.wire.batches import BatchHeader, Buffer, Record, batches, decode_records, decode_values
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

    def values(self, most: int) -> list[bytes | None]:
        """Hand out only the values of up to `most` of the next records."""

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

    def unpack_values(self, position: int) -> Unpacked | None:
        """Do as `unpack`, in the expectation that only values are wanted."""


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
        return self._unpack(position, values_only=False)

    def unpack_values(self, position: int) -> Unpacked | None:
        return self._unpack(position, values_only=True)

    def _unpack(self, position: int, *, values_only: bool) -> Unpacked | None:
        for at, header in self._batches:
            if header.next_offset <= position or self._hides(header):
                continue
            if values_only and (values := decode_values(self._data, at, check_crc=self._check_crc)):
                del values[: max(0, position - header.base_offset)]
                return PlainValues(self._partition, values, self._data, at, header)
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

    def values(self, most: int) -> list[bytes | None]:
        return [record.value for record in self.records(most)]

    def columns(self, most: int) -> "pa.RecordBatch":
        from kohort.columns import to_columns

        return to_columns(self.records(most))


class PlainValues:
    """Records of one batch without gaps. Only their values are decoded until more is wanted."""

    __slots__ = ("_at", "_data", "_header", "_partition", "_records", "_values", "leader_epoch", "next_offset")

    def __init__(
        self, partition: TopicPartition, values: list[bytes | None], data: Buffer, at: int, header: BatchHeader
    ) -> None:
        self.leader_epoch = _known(header.leader_epoch)
        self.next_offset = header.next_offset - len(values)
        self._partition = partition
        self._values = values
        self._data = data
        self._at = at
        self._header = header
        self._records: PlainRecords | None = None

    @property
    def left(self) -> int:
        return self._header.next_offset - self.next_offset

    def values(self, most: int) -> list[bytes | None]:
        start = len(self._values) - self.left
        some = self._values[start : start + most] if start or most < self.left else self._values
        self.next_offset += len(some)
        return some

    def records(self, most: int) -> list[ConsumerRecord]:
        if self._records is None or self._records.next_offset != self.next_offset:
            # The checksum is known to be right.
            decoded = decode_records(self._data, self._at, check_crc=False)
            rest = [record for record in decoded if record.offset >= self.next_offset]
            self._records = PlainRecords(self._partition, rest, self._header)
        some = self._records.records(most)
        self.next_offset = self._records.next_offset
        return some

    def columns(self, most: int) -> "pa.RecordBatch":
        from kohort.columns import to_columns

        return to_columns(self.records(most))
