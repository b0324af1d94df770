"""The state of one transactional ID, and its record in `__transaction_state`."""

from dataclasses import dataclass, replace
from typing import Any

from kohort.coordinator.transactions.states import BY_NUMBER, MAY_FOLLOW, TransactionState
from kohort.model import Millis, TopicPartition
from kohort.wire.group_log import Record
from kohort.wire.messages.transaction_records import PartitionsSchema, TransactionLogKey, TransactionLogValue

LAST_EPOCH = 2**15 - 2
"""Highest epoch that a producer gets. One is left, so that its transaction can always be fenced."""

EPOCH_PER_TRANSACTION = 2
"""First transaction.version in which every transaction has its own epoch (KIP-890)."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """State of a transactional ID. Each change is a record, so a loaded state equals one that was lived through."""

    transactional_id: str
    producer_id: int
    epoch: int | None
    """Epoch of the producer ID; None until the first InitProducerId is answered."""
    timeout_ms: Millis
    updated_at: Millis
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    """Partitions with records of the transaction, or that may get some, and without a marker yet."""
    started_at: Millis | None = None
    """Time at which the first partition was added; kept after the end, None before the first transaction."""
    previous_producer_id: int | None = None
    """Producer ID before the last change: a retry may still name it after the epochs were used up."""
    next_producer_id: int | None = None
    """Producer ID after the transaction that ends, if the epochs of this one are used up."""
    version: int = 0
    """transaction.version of the producer at the last change; 2 if every transaction has its own epoch."""

    @property
    def is_exhausted(self) -> bool:
        """Whether the producer ID has no epoch left for its producer."""
        return self.epoch is not None and self.epoch >= LAST_EPOCH

    def becomes(self, state: TransactionState, now: Millis, **changes: Any) -> "Transaction":
        """Return the next state of the ID."""
        assert self.state in MAY_FOLLOW[state], f"{self.state.title} -> {state.title}"
        previous, updated_at = self.producer_id, max(now, self.updated_at)
        return replace(self, state=state, previous_producer_id=previous, updated_at=updated_at, **changes)


def record_of(transaction: Transaction, *, flexible: bool) -> Record:
    """Return the record of a state. Before transaction.version 1, readers expect values that are not flexible."""
    by_topic: dict[str, list[int]] = {}
    for topic, number in sorted(transaction.partitions):
        by_topic.setdefault(topic, []).append(number)
    assert transaction.epoch is not None, "an ID without an epoch is not written"
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state.number,
        transaction_partitions=None
        if transaction.state is TransactionState.EMPTY
        else [PartitionsSchema(topic=topic, partition_ids=numbers) for topic, numbers in by_topic.items()],
        transaction_last_update_timestamp_ms=transaction.updated_at,
        transaction_start_timestamp_ms=_or_minus_one(transaction.started_at),
    )
    if flexible:
        value.previous_producer_id = _or_minus_one(transaction.previous_producer_id)
        value.next_producer_id = _or_minus_one(transaction.next_producer_id)
        value.client_transaction_version = transaction.version
    return Record(TransactionLogKey(transactional_id=transaction.transactional_id), value)


def tombstone(transactional_id: str) -> Record:
    """Return the record that deletes a transactional ID."""
    return Record(TransactionLogKey(transactional_id=transactional_id), None)


def transaction_of(transactional_id: str, value: TransactionLogValue) -> Transaction:
    """Return the state that a record describes. Raises ValueError for an unknown state."""
    state = BY_NUMBER.get(value.transaction_status)
    if state is None:
        raise ValueError(
            f"transactional ID {transactional_id!r} has the unknown state {value.transaction_status} in its record"
        )
    partitions = {
        TopicPartition(topic.topic, number)
        for topic in value.transaction_partitions or ()
        for number in topic.partition_ids
    }
    return Transaction(
        transactional_id,
        producer_id=value.producer_id,
        epoch=value.producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        updated_at=value.transaction_last_update_timestamp_ms,
        state=state,
        partitions=frozenset(partitions),
        started_at=_or_none(value.transaction_start_timestamp_ms),
        previous_producer_id=_or_none(value.previous_producer_id),
        next_producer_id=_or_none(value.next_producer_id),
        version=value.client_transaction_version,
    )


def _or_minus_one(number: int | None) -> int:
    return -1 if number is None else number


def _or_none(number: int) -> int | None:
    return None if number < 0 else number
