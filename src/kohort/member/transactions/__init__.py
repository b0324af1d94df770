"""The client side of transactions, without I/O or a clock: the state machine of a transactional producer."""

from kohort.member.transactions.actions import GROUP, TRANSACTION, Actions, ConsumerGroupMetadata, Coordinator, Send
from kohort.member.transactions.failures import (
    FatalTransactionError,
    ProducerFencedError,
    TransactionAbortableError,
    TransactionStateError,
    TransactionTimeoutError,
)
from kohort.member.transactions.producer import (
    PRODUCE_IN_VERSION_1,
    TransactionalProducer,
    TransactionConfig,
    busy_pause_ms,
)
from kohort.member.transactions.states import TransactionState

__all__ = [
    "GROUP",
    "PRODUCE_IN_VERSION_1",
    "TRANSACTION",
    "Actions",
    "ConsumerGroupMetadata",
    "Coordinator",
    "FatalTransactionError",
    "ProducerFencedError",
    "Send",
    "TransactionAbortableError",
    "TransactionConfig",
    "TransactionState",
    "TransactionStateError",
    "TransactionTimeoutError",
    "TransactionalProducer",
    "busy_pause_ms",
]
