"""All checks of transactions in one world."""

from __future__ import annotations

from kohort.sim.checks.transactions.atomicity import Atomicity
from kohort.sim.checks.transactions.copies import Copies
from kohort.sim.checks.transactions.isolation import Isolation
from kohort.sim.checks.transactions.logs import TransactionalLogs
from kohort.sim.checks.transactions.stable_offsets import StableOffsets


class TransactionChecks:
    """Checks of transactions that all read the same logs."""

    def __init__(self, stands_for: float) -> None:
        """Create the checks; `stands_for` is that of `StableOffsets`."""
        self.logs = TransactionalLogs()
        self.isolation = Isolation(self.logs)  # before the others: what it finds is the cause
        self.copies = Copies(self.logs)
        self.atomicity = Atomicity(self.logs)
        self.stable_offsets = StableOffsets(self.logs, stands_for)
