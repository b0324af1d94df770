"""Checks of what must always hold, for any client and in both group protocols, over the events of brokers.

    checks = Checks()
    for violation in checks.observe(event):
        print(violation)

`Invariant` has what is checked, and each module of rules says what can be decided. `Limits` has the numbers.
"""

from kohort.testing.invariants.checks import Checks
from kohort.testing.invariants.limits import Limits
from kohort.testing.invariants.violation import Fault, Invariant, Violation

__all__ = ["Checks", "Fault", "Invariant", "Limits", "Violation"]
