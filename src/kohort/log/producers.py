"""State of a partition's idempotent and transactional producers (KIP-98): a batch sent twice is written once.

Pure: it processes batch headers only, from appends and from the recovery of the log.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kohort.model import Millis
from kohort.wire.batches import BatchHeader, Marker

_EPOCH_PER_TRANSACTION = 2
"""First transaction.version in which every transaction has its own epoch."""

KEPT_BATCHES = 5
"""Number of batches that a Java producer keeps in flight; an older duplicate is out of order (KAFKA-5494)."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """Append the batch."""


@dataclass(frozen=True, slots=True)
class Duplicate:
    """The batch was appended before: send the same response again, once `base_offset` is stable."""

    base_offset: int
    last_offset: int


@dataclass(frozen=True, slots=True)
class OutOfOrder:
    """Respond with OUT_OF_ORDER_SEQUENCE_NUMBER: an earlier batch is missing."""

    detail: str


@dataclass(frozen=True, slots=True)
class Fenced:
    """Respond with INVALID_PRODUCER_EPOCH: a newer instance of this producer has written."""

    detail: str


@dataclass(frozen=True, slots=True)
class NotTransactional:
    """Respond with INVALID_TXN_STATE: the producer has an open transaction, and the batch is not part of it."""

    detail: str


Verdict = Accepted | Duplicate | OutOfOrder | Fenced | NotTransactional

_ACCEPTED = Accepted()


@dataclass(frozen=True, slots=True)
class CoordinatorFenced:
    """Respond with TRANSACTION_COORDINATOR_FENCED: a newer coordinator has ended a transaction of this producer."""

    detail: str


MarkerVerdict = Accepted | Fenced | CoordinatorFenced


class Appended(NamedTuple):
    """One batch of a producer."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int


class Producer(NamedTuple):
    """One producer: its epoch, its last batches in that epoch (oldest first), and the time of the last one."""

    epoch: int
    batches: tuple[Appended, ...]
    last_timestamp: Millis
    transaction_start: int | None = None
    """First offset of its open transaction; None if there is none."""
    coordinator_epoch: int | None = None
    """Coordinator epoch of the last marker that ended a transaction of it; None if there was none."""


class AbortedTransaction(NamedTuple):
    """A transaction that was aborted: its records are invisible to consumers with read_committed."""

    producer_id: int
    first_offset: int
    last_offset: int
    """Offset of the marker."""


class ProducerStates:
    """All producers of one partition."""

    __slots__ = ("_producers",)

    def __init__(self, producers: Mapping[int, Producer] | None = None) -> None:
        self._producers: dict[int, Producer] = dict(producers or {})

    def __len__(self) -> int:
        return len(self._producers)

    def get(self, producer_id: int) -> Producer | None:
        """Return the state of that producer."""
        return self._producers.get(producer_id)

    def check(self, header: BatchHeader, *, epoch_per_transaction: bool = True) -> Verdict:
        """Decide what to do with a batch; changes nothing.

        With `epoch_per_transaction`, the batch is of a producer that begins each transaction in a new epoch.
        """
        if header.producer_id < 0:
            return _ACCEPTED
        known = self._producers.get(header.producer_id)
        if known is None:
            return _check_unknown(header, epoch_per_transaction)
        if header.producer_epoch == known.epoch:
            return _check_next(header, known)
        if header.producer_epoch < known.epoch:
            detail = (
                f"producer {header.producer_id} has epoch {header.producer_epoch}, but epoch {known.epoch} has written"
            )
            return Fenced(detail)
        if header.base_sequence != 0:
            return OutOfOrder(
                f"producer {header.producer_id} began epoch {header.producer_epoch} at {header.base_sequence}"
            )
        return _ACCEPTED

    def check_marker(self, producer_id: int, epoch: int, coordinator_epoch: int, version: int) -> MarkerVerdict:
        """Decide whether a marker may be written; changes nothing. Writing the same marker again is harmless.

        With transaction.version 2, a marker has a newer epoch than its transaction (KIP-890, KIP-1228).
        So one that arrives late cannot end the next transaction.
        """
        known = self._producers.get(producer_id)
        if known is None:
            return _ACCEPTED
        repeated = epoch == known.epoch and known.transaction_start is None
        too_old = epoch <= known.epoch if version >= _EPOCH_PER_TRANSACTION else epoch < known.epoch
        if too_old and not (repeated and version >= _EPOCH_PER_TRANSACTION):
            return Fenced(f"a marker for producer {producer_id} has epoch {epoch}, but epoch {known.epoch} has written")
        if known.coordinator_epoch is not None and coordinator_epoch < known.coordinator_epoch:
            return CoordinatorFenced(
                f"a marker for producer {producer_id} has coordinator epoch {coordinator_epoch},"
                f" but coordinator epoch {known.coordinator_epoch} has written"
            )
        return _ACCEPTED

    def update(self, header: BatchHeader, marker: Marker | None = None) -> AbortedTransaction | None:
        """Record an appended batch, whose header has its final offset; for a control batch, its marker.

        Return the transaction that the batch aborts, or None.
        """
        if header.producer_id < 0:
            return None
        known = self._producers.get(header.producer_id)
        kept = known.batches if known is not None and known.epoch == header.producer_epoch else ()
        start = None if known is None else known.transaction_start
        coordinator_epoch = None if known is None else known.coordinator_epoch
        aborted = None
        if header.is_control:  # a marker has no sequence number, it only changes the epoch
            if marker is not None:
                coordinator_epoch = marker.coordinator_epoch
                if start is not None and not marker.committed:
                    aborted = AbortedTransaction(header.producer_id, start, header.last_offset)
            start = None
        else:
            batch = Appended(header.base_sequence, header.last_sequence, header.base_offset, header.last_offset)
            kept = (*kept[1 - KEPT_BATCHES :], batch)
            if header.is_transactional and start is None:
                start = header.base_offset
        self._producers[header.producer_id] = Producer(
            header.producer_epoch, kept, header.max_timestamp, start, coordinator_epoch
        )
        return aborted

    def restore(self, producer_id: int, producer: Producer | None) -> None:
        """Restore the state of a producer that `get` returned."""
        if producer is None:
            self._producers.pop(producer_id, None)
        else:
            self._producers[producer_id] = producer

    def expire(self, older_than: Millis) -> None:
        """Forget producers whose last write is older (producer.id.expiration.ms), except in an open transaction."""
        gone = [
            number
            for number, producer in self._producers.items()
            if producer.last_timestamp < older_than and producer.transaction_start is None
        ]
        for number in gone:
            del self._producers[number]

    def snapshot(self) -> dict[int, Producer]:
        """Return a copy that later updates do not change."""
        return self._producers.copy()

    def replace(
        self, producers: Mapping[int, Producer], batches: Iterable[tuple[BatchHeader, Marker | None]] = ()
    ) -> None:
        """Rebuild the state from a snapshot and the batches that follow it: headers, and markers of control batches."""
        self._producers = dict(producers)
        for header, marker in batches:
            self.update(header, marker)

    def open_transactions(self) -> dict[int, int]:
        """Return the first offsets of open transactions by producer ID, in the order of the offsets."""
        starts = [
            (producer.transaction_start, number)
            for number, producer in self._producers.items()
            if producer.transaction_start is not None
        ]
        return {number: start for start, number in sorted(starts)}


def _check_unknown(header: BatchHeader, epoch_per_transaction: bool) -> Verdict:
    # Retention may have removed the producer's state, so Kafka accepts any sequence (KIP-360),
    # except in an epoch that is of one transaction: then the producer has just begun it (KIP-890).
    if epoch_per_transaction and header.is_transactional and header.base_sequence != 0:
        return OutOfOrder(f"producer {header.producer_id} is unknown here and began at {header.base_sequence}")
    return _ACCEPTED


def _check_next(header: BatchHeader, known: Producer) -> Verdict:
    if known.transaction_start is not None and not header.is_transactional:
        return NotTransactional(
            f"producer {header.producer_id} has an open transaction, and the batch is not part of it"
        )
    first, last = header.base_sequence, header.last_sequence
    for batch in known.batches:
        if batch.first_sequence == first and batch.last_sequence == last:
            return Duplicate(batch.base_offset, batch.last_offset)
    expected = (known.batches[-1].last_sequence + 1) & 0x7FFFFFFF if known.batches else 0
    if first == expected:
        return _ACCEPTED
    return OutOfOrder(f"producer {header.producer_id} sent sequence {first}, but {expected} is next")
