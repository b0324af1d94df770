"""`TransactionShard`: one partition of `__transaction_state` as a state machine."""

from collections.abc import Callable, Collection, Mapping

from kohort.coordinator.effects import RequestContext
from kohort.coordinator.transactions.adding import add_offsets, add_partitions
from kohort.coordinator.transactions.config import TransactionConfig
from kohort.coordinator.transactions.describing import described, listed
from kohort.coordinator.transactions.effects import (
    TransactionalIdExpiry,
    TransactionEffects,
    TransactionTimeout,
    TransactionTimer,
)
from kohort.coordinator.transactions.ending import end
from kohort.coordinator.transactions.initialising import init_producer_id
from kohort.coordinator.transactions.states import ENDING, IDLE, TransactionState
from kohort.coordinator.transactions.transaction import Transaction, tombstone, transaction_of
from kohort.coordinator.transactions.transactions import Transactions, complete, fence, markers_of
from kohort.model import Millis, TopicPartition
from kohort.wire.codec import Message
from kohort.wire.group_log import Record
from kohort.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kohort.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kohort.wire.messages.describe_transactions import DescribeTransactionsRequest
from kohort.wire.messages.end_txn import EndTxnRequest
from kohort.wire.messages.init_producer_id import InitProducerIdRequest
from kohort.wire.messages.list_transactions import ListTransactionsRequest
from kohort.wire.messages.transaction_records import TransactionLogKey, TransactionLogValue


class TransactionShard:
    """All transactional IDs of one partition of `__transaction_state`.

    For every call that returns TransactionEffects, the caller appends the records as one batch, replays
    each of them and sets the timers. Once the records are durable, it sends the replies and writes the
    markers. Only then may it make the next call, but it need not wait for the markers. If an append
    fails, the caller discards the shard and loads a new one from the log.

    To load a shard, call `replay` for every record of the partition in order, then `loaded`.
    """

    def __init__(
        self,
        config: TransactionConfig,
        fresh_producer_id: Callable[[], int],
        offsets_partition: Callable[[str], TopicPartition],
        *,
        version: Callable[[], int] = lambda: 2,
    ) -> None:
        """Create an empty shard; see the class for how to load it.

        `fresh_producer_id` returns IDs that no producer has or had. `offsets_partition` returns the
        partition of `__consumer_offsets` that holds a group's offsets. `version` returns the
        finalized level of the feature transaction.version.
        """
        self._transactions = Transactions(config, fresh_producer_id, version, offsets_partition)
        self._resigned = False

    @property
    def transactions(self) -> Mapping[str, Transaction]:
        """The transactional IDs, for inspection."""
        return self._transactions.by_id

    def handle(self, request: Message, context: RequestContext, now: Millis) -> TransactionEffects:
        """Handle one request; the reply is in the returned effects.

        AddPartitionsToTxn and DescribeTransactions must name only transactional IDs of this shard, and
        InitProducerId must have one.
        """
        assert not self._resigned, "its state is another's now (KAFKA-10614)"
        out, transactions = TransactionEffects(), self._transactions
        match request:
            case AddPartitionsToTxnRequest():
                add_partitions(transactions, request, context, now, out)
            case AddOffsetsToTxnRequest():
                add_offsets(transactions, request, context, now, out)
            case EndTxnRequest():
                end(transactions, request, context, now, out)
            case InitProducerIdRequest():
                init_producer_id(transactions, request, context, now, out)
            case ListTransactionsRequest():
                listed(transactions, request, context, now, out)
            case DescribeTransactionsRequest():
                described(transactions, request, context, out)
            case _:
                raise AssertionError(f"{type(request).__name__} is no request to a transaction coordinator")
        return out

    def marked(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        partitions: Collection[TopicPartition],
        now: Millis,
    ) -> TransactionEffects:
        """Learn that these partitions have their markers, or no longer exist. After the last one, the next may begin.

        A report about another transaction than the one that ends now is ignored.
        """
        out, transactions = TransactionEffects(), self._transactions
        current = transactions.by_id.get(transactional_id)
        if (
            current is None
            or current.state not in ENDING
            or (current.producer_id, current.epoch) != (producer_id, epoch)
        ):
            return out
        unmarked = transactions.unmarked.setdefault(transactional_id, set(current.partitions))
        unmarked.difference_update(partitions)
        if not unmarked:
            transactions.write(complete(current, now), out)
        return out

    def fire(self, timer: TransactionTimer, now: Millis) -> TransactionEffects:
        """Handle an expired timer. A timer whose transaction has ended does nothing."""
        out, transactions = TransactionEffects(), self._transactions
        match timer:
            case TransactionTimeout(transactional_id):
                current = transactions.by_id.get(transactional_id)
                if current is not None and current.state is TransactionState.ONGOING:
                    assert current.started_at is not None
                    ends_at = current.started_at + current.timeout_ms
                    if ends_at <= now:
                        fence(transactions, current, now, out)
                    else:
                        out.timers[timer] = ends_at
            case TransactionalIdExpiry():
                self._expire(now, out)
        return out

    def _expire(self, now: Millis, out: TransactionEffects) -> None:
        config = self._transactions.config
        out.records += [
            tombstone(each.transactional_id)
            for each in self._transactions.by_id.values()
            if each.state in IDLE and each.updated_at <= now - config.id_expiration_ms
        ]
        out.timers[TransactionalIdExpiry()] = now + config.id_expiration_check_interval_ms

    def replay(self, record: Record) -> None:
        """Apply one record: the only code that writes durable state. Raises ValueError for an unknown state."""
        key, value, transactions = record.key, record.value, self._transactions
        assert isinstance(key, TransactionLogKey)
        transactional_id = key.transactional_id
        if value is None:
            transactions.by_id.pop(transactional_id, None)
            transactions.last_epochs.pop(transactional_id, None)
        else:
            assert isinstance(value, TransactionLogValue)
            transactions.by_id[transactional_id] = transaction_of(transactional_id, value)
        transactions.unmarked.pop(transactional_id, None)

    def loaded(self, now: Millis) -> TransactionEffects:
        """Continue after the last record was replayed: finish transactions that end, and time those that are open."""
        out, transactions = TransactionEffects(), self._transactions
        for each in transactions.by_id.values():
            if each.state in ENDING and each.partitions:
                out.markers.append(markers_of(each))
            elif each.state in ENDING:
                transactions.write(complete(each, now), out)
            elif each.state is TransactionState.ONGOING:
                started_at = now if each.started_at is None else each.started_at
                out.timers[TransactionTimeout(each.transactional_id)] = started_at + each.timeout_ms
        out.timers[TransactionalIdExpiry()] = now + transactions.config.id_expiration_check_interval_ms
        return out

    def resign(self) -> TransactionEffects:
        """End the shard, which moves away or failed to append."""
        out = TransactionEffects()
        for transactional_id in self._transactions.by_id:
            out.timers[TransactionTimeout(transactional_id)] = None
        out.timers[TransactionalIdExpiry()] = None
        self._resigned = True
        return out
