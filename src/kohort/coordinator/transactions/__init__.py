"""The transaction coordinator (KIP-98, KIP-890): a state machine without I/O and without a clock.

`TransactionShard` is one partition of `__transaction_state`. It decides about transactions; their
records are in the partitions' logs, and the offsets that they commit in `GroupShard`.
"""

from kohort.coordinator.transactions.config import TransactionConfig
from kohort.coordinator.transactions.connection_order import (
    OF_BROKERS_FROM,
    ConnectionOrder,
    LateRequest,
    Verdict,
    producer_of,
)
from kohort.coordinator.transactions.effects import (
    Markers,
    TransactionalIdExpiry,
    TransactionEffects,
    TransactionTimeout,
    TransactionTimer,
)
from kohort.coordinator.transactions.shard import TransactionShard
from kohort.coordinator.transactions.states import TransactionState
from kohort.coordinator.transactions.transaction import Transaction

__all__ = [
    "OF_BROKERS_FROM",
    "ConnectionOrder",
    "LateRequest",
    "Markers",
    "Transaction",
    "TransactionConfig",
    "TransactionEffects",
    "TransactionShard",
    "TransactionState",
    "TransactionTimeout",
    "TransactionTimer",
    "TransactionalIdExpiry",
    "Verdict",
    "producer_of",
]
