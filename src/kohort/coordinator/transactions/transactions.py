"""All transactional IDs of a shard, and the steps that requests and timers share."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from kohort.coordinator.transactions.config import TransactionConfig
from kohort.coordinator.transactions.effects import Markers, TransactionEffects, TransactionTimeout
from kohort.coordinator.transactions.states import ENDING, TransactionState
from kohort.coordinator.transactions.transaction import EPOCH_PER_TRANSACTION, Transaction, record_of
from kohort.model import Millis, TopicPartition

_HIGHEST_EPOCH = 2**15 - 1


@dataclass(slots=True)
class Transactions:
    """Complete state of a shard."""

    config: TransactionConfig
    fresh_producer_id: Callable[[], int]
    """Return a producer ID that nobody has or had."""
    version: Callable[[], int]
    """Return the finalized level of the feature transaction.version."""
    offsets_partition: Callable[[str], TopicPartition]
    """Return the partition of `__consumer_offsets` that holds a group's offsets."""
    by_id: dict[str, Transaction] = field(default_factory=dict)
    last_epochs: dict[str, int] = field(default_factory=dict)
    """Epoch before the current one, if its producer asked for the current one. A repeated request of it is answered
    as before. It is not in the log: after a failover, such a producer is fenced, as in Kafka."""
    unmarked: dict[str, set[TopicPartition]] = field(default_factory=dict)
    """Partitions without their marker, of transactions that end."""

    def write(self, transaction: Transaction, out: TransactionEffects) -> None:
        """Write the next state of an ID."""
        out.records.append(record_of(transaction, flexible=self.version() > 0))

    def remember_epoch(self, transactional_id: str, epoch: int | None) -> None:
        """Set the epoch before the current one."""
        if epoch is None:
            self.last_epochs.pop(transactional_id, None)
        else:
            self.last_epochs[transactional_id] = epoch


def decide(
    transactions: Transactions,
    transaction: Transaction,
    *,
    committed: bool,
    version: int,
    now: Millis,
    out: TransactionEffects,
) -> Transaction:
    """Write the end of a transaction, and return the state after all its markers.

    With transaction.version 2, the epoch is bumped in the same record. So a late request of this
    transaction cannot get into the next one (KIP-890).
    """
    assert transaction.epoch is not None
    state = TransactionState.PREPARE_COMMIT if committed else TransactionState.PREPARE_ABORT
    epoch, next_producer_id = transaction.epoch, None
    if version >= EPOCH_PER_TRANSACTION:
        transactions.remember_epoch(transaction.transactional_id, epoch)
        next_producer_id = transactions.fresh_producer_id() if transaction.is_exhausted else None
        epoch = min(epoch + 1, _HIGHEST_EPOCH)
    started_at = transaction.started_at if transaction.state is TransactionState.ONGOING else now
    ending = transaction.becomes(
        state, now, epoch=epoch, next_producer_id=next_producer_id, version=version, started_at=started_at
    )
    transactions.write(ending, out)
    out.timers[TransactionTimeout(transaction.transactional_id)] = None
    completed = complete(ending, now)
    if ending.partitions:
        out.markers.append(markers_of(ending))
    else:
        transactions.write(completed, out)
    return completed


def fence(transactions: Transactions, transaction: Transaction, now: Millis, out: TransactionEffects) -> None:
    """Abort a transaction in place of its producer, whose epoch is no longer valid."""
    assert transaction.state is TransactionState.ONGOING
    assert transaction.epoch is not None
    version = transactions.version()
    if version < EPOCH_PER_TRANSACTION:
        version = 0
        transactions.remember_epoch(transaction.transactional_id, None)
        transaction = replace(transaction, epoch=min(transaction.epoch + 1, _HIGHEST_EPOCH))
    decide(transactions, transaction, committed=False, version=version, now=now, out=out)


def complete(ending: Transaction, now: Millis) -> Transaction:
    """Return the state after all markers are written."""
    assert ending.state in ENDING
    producer_id, epoch = ending.producer_id, ending.epoch
    if ending.next_producer_id is not None:
        producer_id, epoch = ending.next_producer_id, 0
    committed = ending.state is TransactionState.PREPARE_COMMIT
    state = TransactionState.COMPLETE_COMMIT if committed else TransactionState.COMPLETE_ABORT
    return ending.becomes(
        state, now, producer_id=producer_id, epoch=epoch, next_producer_id=None, partitions=frozenset[TopicPartition]()
    )


def markers_of(ending: Transaction) -> Markers:
    """Return the markers of a transaction that ends."""
    assert ending.state in ENDING
    assert ending.epoch is not None
    return Markers(
        ending.transactional_id,
        ending.producer_id,
        ending.epoch,
        ending.state is TransactionState.PREPARE_COMMIT,
        ending.partitions,
        ending.version,
    )
