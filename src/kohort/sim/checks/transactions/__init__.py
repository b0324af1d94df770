"""Checks of transactions: S23 to S27 and L9, each in a file.

`TransactionalLogs` replays the bytes of transactional topics when they reach the disk, and tells the
checks of each transaction that ends. `TransactionChecks` has all of them.
"""

from kohort.sim.checks.transactions.checks import TransactionChecks
from kohort.sim.checks.transactions.committed_reading import CommittedReading
from kohort.sim.checks.transactions.transaction_name import value_in

__all__ = ["CommittedReading", "TransactionChecks", "value_in"]
