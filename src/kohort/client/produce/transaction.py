"""Transaction as a block: committed at its end, aborted after an exception."""

import logging
from collections.abc import Mapping
from typing import Protocol, Self

from kohort.client.membership import positions_of
from kohort.client.produce.transactions import Transactions
from kohort.errors import KohortError
from kohort.member import OffsetAndMetadata
from kohort.member.transactions import ConsumerGroupMetadata, TransactionState
from kohort.model import TopicPartition

_log = logging.getLogger(__name__)

Offsets = Mapping[TopicPartition, OffsetAndMetadata]

OPEN = (TransactionState.IN_TRANSACTION, TransactionState.ABORTABLE_ERROR)
"""States in which a transaction can be aborted."""


class TransactionalConsumer(Protocol):
    """Consumer whose offsets a transaction commits."""

    def transaction_offsets(self) -> tuple[Offsets, ConsumerGroupMetadata]:
        """Return the positions to commit, and the group and member to which they belong."""

    def transaction_committed(self, offsets: Offsets) -> None:
        """Begin again at these offsets after a later abort."""

    def transaction_aborted(self) -> None:
        """Continue from the offsets of the last commit."""


class ConsumersOfTransaction:
    """Consumers whose offsets are part of one transaction."""

    def __init__(self, consumer: TransactionalConsumer | None) -> None:
        self._sent: dict[int, tuple[TransactionalConsumer, Offsets]] = {}
        if consumer is not None:
            self._sent[id(consumer)] = (consumer, {})

    def offsets_of(self, consumer: TransactionalConsumer) -> tuple[Offsets, ConsumerGroupMetadata]:
        """Return what to send for a consumer, and remember it."""
        self._sent.setdefault(id(consumer), (consumer, {}))
        offsets, group = consumer.transaction_offsets()
        self._sent[id(consumer)] = (consumer, offsets)
        return offsets, group

    def committed(self) -> None:
        """Tell the consumers that the transaction has committed."""
        for consumer, offsets in self._sent.values():
            consumer.transaction_committed(offsets)

    def aborted(self) -> None:
        """Tell the consumers that the transaction has no effect."""
        for consumer, _ in self._sent.values():
            consumer.transaction_aborted()


class UndecidedConsumers:
    """Consumers of a block that ended before the result of its commit was known. The call that learns it tells them."""

    def __init__(self) -> None:
        self._consumers: ConsumersOfTransaction | None = None

    def keep(self, consumers: ConsumersOfTransaction) -> None:
        """Remember the consumers of a block."""
        self._consumers = consumers

    def committed(self) -> None:
        """Tell them that the transaction has committed."""
        if (consumers := self._taken()) is not None:
            consumers.committed()

    def aborted(self) -> None:
        """Tell them that the transaction has no effect."""
        if (consumers := self._taken()) is not None:
            consumers.aborted()

    def _taken(self) -> ConsumersOfTransaction | None:
        consumers, self._consumers = self._consumers, None
        return consumers


def note_failed_abort(error: BaseException, problem: KohortError) -> None:
    """Report an abort that failed after an exception, without hiding the exception."""
    error.add_note(f"The transaction could not be aborted: {problem}")
    _log.warning("the transaction could not be aborted after %r: %s", error, problem)


class Transaction:
    """Transaction of `Producer.transaction`, an async context manager.

    Records sent in the block, and offsets, become visible together at its end, or not at all if an
    exception leaves the block. The commit raises TransactionAbortableError if a record was not
    written; the transaction is then aborted, too.
    """

    def __init__(
        self, transactions: Transactions, undecided: UndecidedConsumers, consumer: TransactionalConsumer | None
    ) -> None:
        self._transactions = transactions
        self._undecided = undecided
        self._consumer = consumer
        self._consumers = ConsumersOfTransaction(consumer)

    async def __aenter__(self) -> Self:
        await self._transactions.initialize_once()
        self._transactions.begin()
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None:
            await self._abort(error)
            return
        try:
            if self._consumer is not None:
                await self.send_offsets(self._consumer)
            await self._transactions.commit()
        except BaseException as problem:
            await self._abort(problem)
            raise
        self._consumers.committed()

    async def send_offsets(
        self,
        consumer: TransactionalConsumer | Mapping[TopicPartition, OffsetAndMetadata | int],
        group: ConsumerGroupMetadata | str | None = None,
    ) -> None:
        """Commit a consumer's offsets, or these offsets of a group, with the transaction.

        After an abort, the consumer returns the records again that it returned since the last commit.
        Raises NotAssignedError if the consumer has lost partitions whose records it returned.

        - `consumer`: A `Consumer` with a group_id and without automatic commits, or the offset of the
          next record to process by partition.
        - `group`: With offsets, `Consumer.group_metadata()` or the name of a group.
        """
        if isinstance(consumer, Mapping):
            await self._transactions.send_offsets(positions_of(consumer), group_of(group))
        else:
            await self._transactions.send_offsets(*self._consumers.offsets_of(consumer))

    async def _abort(self, error: BaseException) -> None:
        if self._transactions.state is TransactionState.COMMITTING:
            self._undecided.keep(self._consumers)
            return
        try:
            if self._transactions.state in OPEN:
                await self._transactions.abort()
        except KohortError as problem:
            note_failed_abort(error, problem)
        finally:
            self._consumers.aborted()


def group_of(given: ConsumerGroupMetadata | str | None) -> ConsumerGroupMetadata:
    """Return the group whose offsets are committed. Raises KohortError without one."""
    group = ConsumerGroupMetadata(given) if isinstance(given, str) else given
    if not isinstance(group, ConsumerGroupMetadata) or not group.group_id:
        raise KohortError("offsets need their group: pass consumer.group_metadata(), or the group's name.")
    return group
