"""States of a transactional ID, as Kafka names and numbers them."""

from enum import Enum


class TransactionState(Enum):
    """State of a transactional ID: number in the log, name on the wire, and what it answers.

    EMPTY:           no transaction since the last InitProducerId; partitions may be added.
    ONGOING:         partitions are in the transaction; it can be ended, and times out.
    PREPARE_COMMIT:  the commit is decided, and markers are being written; requests get CONCURRENT_TRANSACTIONS.
    PREPARE_ABORT:   the same for an abort.
    COMPLETE_COMMIT: all markers are written; partitions may be added to the next transaction.
    COMPLETE_ABORT:  the same for an abort.

    Kafka has two more that are never in its log, and Kohort needs neither: PrepareEpochFence, because a
    shard handles one request at a time, and Dead, because a record deletes an expired ID.
    """

    EMPTY = (0, "Empty")
    ONGOING = (1, "Ongoing")
    PREPARE_COMMIT = (2, "PrepareCommit")
    PREPARE_ABORT = (3, "PrepareAbort")
    COMPLETE_COMMIT = (4, "CompleteCommit")
    COMPLETE_ABORT = (5, "CompleteAbort")

    @property
    def number(self) -> int:
        """Number in `__transaction_state`."""
        return self.value[0]

    @property
    def title(self) -> str:
        """Name in ListTransactions and DescribeTransactions."""
        return self.value[1]


ENDING = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})
"""States in which markers are being written."""

ENDED = frozenset({TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT})

IDLE = ENDED | {TransactionState.EMPTY}
"""States without a transaction. Only then does an ID expire."""

MAY_FOLLOW = {
    # KIP-890: an abort without any partition, which only bumps the epoch.
    TransactionState.PREPARE_ABORT: IDLE | {TransactionState.ONGOING},
    TransactionState.PREPARE_COMMIT: frozenset({TransactionState.ONGOING}),
    TransactionState.COMPLETE_ABORT: frozenset({TransactionState.PREPARE_ABORT}),
    TransactionState.COMPLETE_COMMIT: frozenset({TransactionState.PREPARE_COMMIT}),
    TransactionState.ONGOING: IDLE | {TransactionState.ONGOING},
    TransactionState.EMPTY: IDLE,
}
"""States from which each state may be reached."""

BY_NUMBER = {state.number: state for state in TransactionState}
BY_TITLE = {state.title: state for state in TransactionState}

OTHER_TITLES = frozenset({"Dead", "PrepareEpochFence"})
"""States of Kafka that a filter may name and that no transaction here is in."""
