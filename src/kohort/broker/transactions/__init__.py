"""The shell around the transaction coordinator's shards: loading, timers, markers, verification.

`TransactionCoordinator` has all shards of a broker; handlers get the shard of a transactional ID from it.
"""

from kohort.broker.transactions.coordinator import TransactionCoordinator
from kohort.broker.transactions.error_answers import all_markers, all_partitions, refusal
from kohort.broker.transactions.late_requests import LateRequests
from kohort.broker.transactions.marking import MarkingParts, append_marker
from kohort.broker.transactions.shard import TransactionPartition
from kohort.broker.transactions.verification import Producers, Question, Verdicts, is_obsolete

__all__ = [
    "LateRequests",
    "MarkingParts",
    "Producers",
    "Question",
    "TransactionCoordinator",
    "TransactionPartition",
    "Verdicts",
    "all_markers",
    "all_partitions",
    "append_marker",
    "is_obsolete",
    "refusal",
]
