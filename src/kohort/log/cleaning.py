"""Compaction of one batch, by Kafka's rules (KIP-58, KIP-98, KIP-534). Pure."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kohort.log.newest import NewestOffsets
from kohort.log.producers import AbortedTransaction
from kohort.model import Millis
from kohort.wire.batches import BatchHeader, Buffer
from kohort.wire.batches.scanning import Scanned, decode_pairs, scan_records, with_records


class EmptyTransactions:
    """Transactions of which a log has no batches any more, only their markers. It follows the batches of the log."""

    def __init__(self) -> None:
        self._open: set[int] = set()
        """Producers with a batch since their last marker."""

    def follow(self, header: BatchHeader) -> bool:
        """Process the next batch; return whether it is the marker of an empty transaction."""
        if not header.is_transactional:
            return False
        if not header.is_control:
            self._open.add(header.producer_id)
            return False
        is_empty = header.producer_id not in self._open
        self._open.discard(header.producer_id)
        return is_empty


@dataclass(frozen=True, slots=True)
class Cleaning:
    """One pass over a log.

    `newest` contains the keys of all records from `dirty_from` up to `end`, and of none before.
    """

    newest: NewestOffsets
    dirty_from: int
    end: int
    now: Millis
    delete_retention_ms: Millis
    last_of_producer: Mapping[int, int]
    """Last offset of each producer's last batch. That batch must stay, because it holds the last sequence number."""
    epoch_of_producer: Mapping[int, int] = field(default_factory=dict)
    """Epochs of producers without batches in that epoch. Only their markers hold it, so they must stay."""
    aborted: Mapping[int, Sequence[AbortedTransaction]] = field(default_factory=dict)
    """Aborted transactions by producer ID, in the order of their offsets. None is open before `end`."""

    def clean(self, batch: Buffer, header: BatchHeader) -> Buffer | None:
        """Return the batch unchanged or with fewer records, or None if it can be removed. Raises BatchError."""
        if header.base_offset >= self.end or header.is_control:
            return batch
        if self.is_aborted(header):
            return None if self.last_of_producer.get(header.producer_id) != header.last_offset else self._emptied(batch)
        if header.base_offset >= self.dirty_from:
            newest = len(self.newest.within(header.base_offset, header.last_offset))
        else:
            newest = None
        if newest == 0:
            kept, data, total = [], b"", header.record_count
        elif (newest is None or newest == header.record_count) and self._all_are_kept(batch, newest):
            return batch
        else:
            header, data, records = scan_records(batch)
            kept, total = [record for record in records if self._is_kept(record, header)], len(records)
        if not kept and self.last_of_producer.get(header.producer_id) != header.last_offset:
            return None
        horizon = None
        if header.delete_horizon is None and any(record.is_tombstone for record in kept):
            horizon = self.now + self.delete_retention_ms
        if len(kept) == total and horizon is None:
            return batch
        return with_records(header, data, kept, horizon)

    def clean_marker(self, batch: Buffer, header: BatchHeader) -> Buffer | None:
        """As `clean`, for the marker of a transaction whose batches are all gone.

        A reader may be about to read the marker, with batches of the transaction that it has read
        before they were removed. It has until the horizon, as for a tombstone (KIP-354, KIP-534).
        """
        if header.base_offset >= self.end:
            return batch
        if header.delete_horizon is None:
            header, data, records = scan_records(batch)
            return with_records(header, data, records, self.now + self.delete_retention_ms)
        is_needed = self.epoch_of_producer.get(header.producer_id) == header.producer_epoch
        return batch if is_needed or self.now < header.delete_horizon else None

    def is_aborted(self, header: BatchHeader) -> bool:
        """Return whether a batch is of an aborted transaction, so that its records replace nothing."""
        found = self.aborted.get(header.producer_id) if header.is_transactional else None
        if not found:
            return False
        at = bisect_right(found, header.base_offset, key=lambda one: one.first_offset) - 1
        return at >= 0 and header.base_offset <= found[at].last_offset

    @staticmethod
    def _emptied(batch: Buffer) -> Buffer:
        header, data, records = scan_records(batch)
        return with_records(header, data, [], None) if records else batch

    def _all_are_kept(self, batch: Buffer, newest: int | None) -> bool:
        """Return whether keys and values alone show that every record stays: none is replaced, none is a tombstone."""
        _, pairs = decode_pairs(batch)
        return all(
            value is not None and key is not None and (newest is not None or not self.newest.seen(key))
            for key, value in pairs
        )

    def _is_kept(self, record: Scanned, header: BatchHeader) -> bool:
        if record.key is None:
            return False
        if record.offset < self.dirty_from:
            newest = not self.newest.seen(record.key)
        else:
            newest = record.offset >= self.end or bool(self.newest.within(record.offset, record.offset))
        horizon = header.delete_horizon
        # A consumer that reads a table from its start has until the horizon to read the tombstone.
        return newest and (not record.is_tombstone or horizon is None or self.now < horizon)
