"""States of a transactional producer, and the transitions between them."""

from collections.abc import Mapping
from enum import Enum


class TransactionState(Enum):
    """State of a transactional producer. The value says what it waits for, and what the application may call."""

    UNINITIALIZED = "has no producer ID: call init_transactions"
    INITIALIZING = "waits for a producer ID or a new epoch of it"
    READY = "has no transaction: call begin_transaction"
    IN_TRANSACTION = "has a transaction: send records and offsets, then commit or abort it"
    COMMITTING = "waits until all records are written, then until the coordinator has recorded the commit"
    ABORTING = "waits until no record is under way, then until the coordinator has recorded the abort"
    ABORTABLE_ERROR = "has a transaction that cannot commit: abort it"
    FATAL_ERROR = "can do nothing more: close the producer"


_S = TransactionState

PREDECESSORS: Mapping[TransactionState, frozenset[TransactionState]] = {
    # The coordinator refused to give an epoch. It may give one later, such as when an ACL allows it.
    _S.UNINITIALIZED: frozenset({_S.INITIALIZING}),
    # From COMMITTING and ABORTING, the next transaction needs an epoch of its own (KIP-360, KIP-890).
    _S.INITIALIZING: frozenset({_S.UNINITIALIZED, _S.COMMITTING, _S.ABORTING}),
    _S.READY: frozenset({_S.INITIALIZING, _S.COMMITTING, _S.ABORTING}),
    _S.IN_TRANSACTION: frozenset({_S.READY}),
    _S.COMMITTING: frozenset({_S.IN_TRANSACTION}),
    _S.ABORTING: frozenset({_S.IN_TRANSACTION, _S.ABORTABLE_ERROR}),
    _S.ABORTABLE_ERROR: frozenset({_S.IN_TRANSACTION, _S.COMMITTING}),
    _S.FATAL_ERROR: frozenset(_S) - {_S.FATAL_ERROR},
}
"""States from which each state is entered."""
