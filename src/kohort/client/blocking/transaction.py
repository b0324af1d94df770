"""Transaction of the blocking producer as a block: committed at its end, aborted after an exception."""

from collections.abc import Callable, Mapping
from typing import Protocol, Self

from kohort.client.produce import (
    OPEN,
    ConsumersOfTransaction,
    TransactionalConsumer,
    UndecidedConsumers,
    note_failed_abort,
)
from kohort.errors import KohortError
from kohort.member import OffsetAndMetadata
from kohort.member.transactions import ConsumerGroupMetadata, TransactionState
from kohort.model import TopicPartition


class _Producer(Protocol):
    def begin_transaction(self) -> None: ...

    def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        group: ConsumerGroupMetadata | str,
    ) -> None: ...

    def commit_transaction(self) -> None: ...

    def abort_transaction(self) -> None: ...


class Transaction:
    """Transaction of `Producer.transaction`, a context manager. See `kohort.Transaction`."""

    def __init__(
        self,
        producer: _Producer,
        initialize: Callable[[], None],
        state: Callable[[], TransactionState],
        undecided: UndecidedConsumers,
        consumer: TransactionalConsumer | None,
    ) -> None:
        self._producer = producer
        self._initialize = initialize
        self._state = state
        self._undecided = undecided
        self._consumer = consumer
        self._consumers = ConsumersOfTransaction(consumer)

    def __enter__(self) -> Self:
        self._initialize()
        self._producer.begin_transaction()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None:
            self._abort(error)
            return
        try:
            if self._consumer is not None:
                self.send_offsets(self._consumer)
            self._producer.commit_transaction()
        except BaseException as problem:
            self._abort(problem)
            raise
        self._consumers.committed()

    def send_offsets(
        self,
        consumer: TransactionalConsumer | Mapping[TopicPartition, OffsetAndMetadata | int],
        group: ConsumerGroupMetadata | str | None = None,
    ) -> None:
        """Commit a consumer's offsets, or these offsets of a group. See `kohort.Transaction.send_offsets`.

        - `consumer`: A `Consumer` with a group_id and without automatic commits, or the offset of the
          next record to process by partition.
        - `group`: With offsets, `Consumer.group_metadata()` or the name of a group.
        """
        if isinstance(consumer, Mapping):
            self._producer.send_offsets_to_transaction(consumer, group or "")
        else:
            # The consumer has a loop of its own, so it is asked in this thread.
            self._producer.send_offsets_to_transaction(*self._consumers.offsets_of(consumer))

    def _abort(self, error: BaseException) -> None:
        if self._state() is TransactionState.COMMITTING:
            self._undecided.keep(self._consumers)
            return
        try:
            if self._state() in OPEN:
                self._producer.abort_transaction()
        except KohortError as problem:
            note_failed_abort(error, problem)
        finally:
            self._consumers.aborted()
