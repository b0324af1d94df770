"""Requests of the transaction coordinator to the shell around it, and the timers that it sets."""

from dataclasses import dataclass, field

from kohort.coordinator.effects import Token
from kohort.model import Millis, TopicPartition
from kohort.wire.codec import Message
from kohort.wire.group_log import Record


@dataclass(frozen=True, slots=True)
class TransactionTimeout:
    """Time at which an open transaction is aborted, because its producer did not end it."""

    transactional_id: str


@dataclass(frozen=True, slots=True)
class TransactionalIdExpiry:
    """Time to look for transactional IDs of the shard past transactional.id.expiration.ms."""


TransactionTimer = TransactionTimeout | TransactionalIdExpiry


@dataclass(frozen=True, slots=True)
class Markers:
    """End of a transaction, to be written as a control record to each of its partitions.

    The shell repeats a write until the partition has the marker or no longer exists, and reports it with
    `TransactionShard.marked`. A marker that is written twice is harmless.
    """

    transactional_id: str
    producer_id: int
    epoch: int
    """Epoch of the markers. Partitions then reject batches of older epochs."""
    committed: bool
    partitions: frozenset[TopicPartition]
    version: int
    """transaction.version of the producer."""


@dataclass(slots=True)
class TransactionEffects:
    """Append `records` as one batch, replay them, and only then send `replies` and write `markers`.

    A marker that is written before its decision is durable could contradict the decision of the next coordinator.
    """

    records: list[Record] = field(default_factory=list)
    replies: dict[Token, Message] = field(default_factory=dict)
    timers: dict[TransactionTimer, Millis | None] = field(default_factory=dict)
    """Time at which to fire each timer; None cancels it."""
    markers: list[Markers] = field(default_factory=list)
