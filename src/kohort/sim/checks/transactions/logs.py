"""Transactional logs as stored on the disk, replayed independently of the broker's code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from kohort.model import TopicPartition
from kohort.sim.environment import PartitionId
from kohort.sim.violation import Violation
from kohort.wire.batches import batches, decode_records, read_marker
from kohort.wire.group_log import decode_key, decode_value
from kohort.wire.messages.group_records import OffsetCommitKey, OffsetCommitValue


@dataclass(slots=True)
class OpenTransaction:
    """Records of one producer in one partition that have no marker yet, by offset."""

    first: int
    records: dict[int, tuple[bytes, bytes]] = field(default_factory=dict)
    """Key and value of each record."""


@dataclass(slots=True)
class Ended:
    """Transaction that a marker ended in one partition."""

    partition: TopicPartition
    committed: bool
    values: dict[int, bytes]
    """Values of its records by offset."""


@dataclass(slots=True)
class EndedOffsets:
    """Offsets of a group that a marker made visible, or dropped."""

    committed: bool
    offsets: dict[TopicPartition, tuple[int, str]]
    """Offset and metadata, by partition; the metadata is the name of the transaction."""


@dataclass(slots=True)
class TransactionalLog:
    """One partition."""

    end: int = 0
    open: dict[int, OpenTransaction] = field(default_factory=dict)
    """Open transactions by producer id."""
    committed: dict[int, bytes] = field(default_factory=dict)
    """Values of committed records by offset."""
    aborted: set[int] = field(default_factory=set)
    """Offsets of aborted records."""

    @property
    def last_stable_offset(self) -> int:
        """First offset of the oldest open transaction, or the end."""
        return min((transaction.first for transaction in self.open.values()), default=self.end)


class TransactionalLogs:
    """All partitions of transactional topics, and the transactions in `__consumer_offsets`."""

    def __init__(self) -> None:
        self.logs: dict[PartitionId, TransactionalLog] = {}
        self.names: dict[PartitionId, TopicPartition] = {}
        self.ended: list[Callable[[Ended], None]] = []
        """Callbacks for each transaction that ends in a partition of a topic."""
        self.offsets_ended: list[Callable[[EndedOffsets], None]] = []
        """Callbacks for each transaction that ends in a partition of `__consumer_offsets`."""
        self._offsets: dict[tuple[int, int], dict[TopicPartition, tuple[int, str]]] = {}

    def written(self, place: PartitionId, topic: str, data: bytes) -> None:
        """Replay durable batches of a transactional topic."""
        log = self.logs.setdefault(place, TransactionalLog())
        name = self.names.setdefault(place, TopicPartition(topic, place[1]))
        buffer = bytearray(data)
        for position, header in batches(buffer):
            if header.base_offset != log.end:
                raise Violation("S16", f"{name} ends at {log.end}, but a batch is written at {header.base_offset}")
            log.end = header.base_offset + header.last_offset_delta + 1
            if header.is_control:
                marker = read_marker(buffer[position : position + header.size])
                if marker is not None:
                    self._end(log, name, header.producer_id, committed=marker.committed)
                continue
            if not header.is_transactional:
                raise Violation("S25", f"{name} has a record outside of any transaction at {header.base_offset}")
            found = log.open.setdefault(header.producer_id, OpenTransaction(header.base_offset))
            for number, record in enumerate(decode_records(buffer, position)):
                found.records[header.base_offset + number] = bytes(record.key or b""), bytes(record.value or b"")

    def _end(self, log: TransactionalLog, name: TopicPartition, producer_id: int, *, committed: bool) -> None:
        found = log.open.pop(producer_id, None)
        if found is None:
            return  # a marker may be written again
        values = {offset: value for offset, (_, value) in found.records.items()}
        if committed:
            log.committed.update(values)
        else:
            log.aborted.update(values)
        for ended in self.ended:
            ended(Ended(name, committed, values))

    def offsets_written(self, partition: int, data: bytes) -> None:
        """Replay the transactions in durable batches of `__consumer_offsets`."""
        buffer = bytearray(data)
        for position, header in batches(buffer):
            if header.is_control:
                marker = read_marker(buffer[position : position + header.size])
                offsets = self._offsets.pop((partition, header.producer_id), None)
                if marker is not None and offsets is not None:
                    for ended in self.offsets_ended:
                        ended(EndedOffsets(marker.committed, offsets))
            elif header.is_transactional:
                pending = self._offsets.setdefault((partition, header.producer_id), {})
                for record in decode_records(buffer, position):
                    key = decode_key(bytes(record.key or b""))
                    value = None if key is None else decode_value(key, bytes(record.value or b""))
                    if isinstance(key, OffsetCommitKey) and isinstance(value, OffsetCommitValue):
                        pending[TopicPartition(key.topic, key.partition)] = value.offset, value.metadata
