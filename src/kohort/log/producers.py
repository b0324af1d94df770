"""State of a partition's idempotent producers, so that a batch sent twice is written once (KIP-98).

Pure: it processes batch headers only, from appends and from the recovery of the log.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kohort.model import Millis
from kohort.wire.batches import BatchHeader

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


Verdict = Accepted | Duplicate | OutOfOrder | Fenced

_ACCEPTED = Accepted()


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

    def check(self, header: BatchHeader) -> Verdict:
        """Decide what to do with a batch; changes nothing."""
        if header.producer_id < 0:
            return _ACCEPTED
        known = self._producers.get(header.producer_id)
        if known is None:
            return _check_unknown(header)
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

    def update(self, header: BatchHeader) -> None:
        """Record an appended batch, whose header has its final offset."""
        if header.producer_id < 0:
            return
        known = self._producers.get(header.producer_id)
        kept = known.batches if known is not None and known.epoch == header.producer_epoch else ()
        if not header.is_control:  # a marker has no sequence number, it only changes the epoch
            batch = Appended(header.base_sequence, header.last_sequence, header.base_offset, header.last_offset)
            kept = (*kept[1 - KEPT_BATCHES :], batch)
        self._producers[header.producer_id] = Producer(header.producer_epoch, kept, header.max_timestamp)

    def restore(self, producer_id: int, producer: Producer | None) -> None:
        """Restore the state of a producer that `get` returned."""
        if producer is None:
            self._producers.pop(producer_id, None)
        else:
            self._producers[producer_id] = producer

    def expire(self, older_than: Millis) -> None:
        """Forget producers whose last write is older (producer.id.expiration.ms)."""
        gone = [number for number, producer in self._producers.items() if producer.last_timestamp < older_than]
        for number in gone:
            del self._producers[number]

    def snapshot(self) -> dict[int, Producer]:
        """Return a copy that later updates do not change."""
        return self._producers.copy()

    def replace(self, producers: Mapping[int, Producer], headers: Iterable[BatchHeader] = ()) -> None:
        """Rebuild the state from a snapshot and the headers that follow it."""
        self._producers = dict(producers)
        for header in headers:
            self.update(header)


def _check_unknown(header: BatchHeader) -> Verdict:
    # Retention may have removed the producer's state, so Kafka accepts any sequence (KIP-360),
    # except in a transaction: there, the coordinator knows that it has just begun (KIP-890).
    if header.is_transactional and header.base_sequence != 0:
        return OutOfOrder(f"producer {header.producer_id} is unknown here and began at {header.base_sequence}")
    return _ACCEPTED


def _check_next(header: BatchHeader, known: Producer) -> Verdict:
    first, last = header.base_sequence, header.last_sequence
    for batch in known.batches:
        if batch.first_sequence == first and batch.last_sequence == last:
            return Duplicate(batch.base_offset, batch.last_offset)
    expected = (known.batches[-1].last_sequence + 1) & 0x7FFFFFFF if known.batches else 0
    if first == expected:
        return _ACCEPTED
    return OutOfOrder(f"producer {header.producer_id} sent sequence {first}, but {expected} is next")
